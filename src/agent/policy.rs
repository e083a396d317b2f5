//! What the runtime may do with one tool's calls: repeat them after a crash, and for how long one attempt may
//! take.

use std::future::Future;
use std::time::Duration;

use proto_events::call::{Recovery, Verdict};
use serde::de::DeserializeOwned;

use super::into_tool::IntoToolError;
use super::probe::ProbeRef;
use super::tool::ToolContext;
use crate::limits::{CALL_TIMEOUT, INFERENCE_RETRIES, REPEATS_AFTER_LOSS};

/// When a target that fails again and again is left alone: after so many failures in a row no call is sent to it for a
/// while, then one is let through; if that works, all are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Failures in a row that open the circuit: errors of the target itself, timeouts, panics.
    pub failures: u32,
    /// How long nothing is sent then.
    pub cooldown: Duration,
}

/// One tool's rules. The default is the most careful: `Manual`, which is never repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPolicy {
    recovery: Recovery,
    source: &'static str,
    timeout: Duration,
    attempts_max: u32,
    retry_errors: bool,
    window: Option<Duration>,
    overall: Option<Duration>,
    probe: Option<ProbeRef>,
    parallel: bool,
    concurrency: Option<usize>,
    breaker: Option<Breaker>,
    needs: Vec<String>,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self::manual()
    }
}

impl ToolPolicy {
    /// The tool changes nothing outside: a lost attempt is made again.
    pub fn read_only() -> Self {
        Self::with(Recovery::ReadOnly, 1 + REPEATS_AFTER_LOSS)
    }

    /// The tool honours [`idempotency_key`](super::tool::ToolContext::idempotency_key): twice the same key
    /// has the effect of once, so a lost attempt is made again under it.
    pub fn idempotent() -> Self {
        Self::with(Recovery::Idempotent, 1 + REPEATS_AFTER_LOSS)
    }

    /// The tool's target can be asked: after a lost attempt the probe says whether it took effect. What landed is
    /// recorded with the result that the probe names, what did not happen (and will not any more) is sent again, and
    /// where the probe cannot say, or fails, the outcome is unknown. The probe gets the context and the arguments of the
    /// attempt, and the call's own timeout.
    pub fn reconcile<F, A, Fut, E>(probe: F) -> Self
    where
        F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
        A: DeserializeOwned + 'static,
        Fut: Future<Output = Result<Verdict, E>> + Send + 'static,
        E: IntoToolError + 'static,
    {
        let probe = Some(ProbeRef::of(probe));
        Self { probe, ..Self::with(Recovery::Reconcile, 1 + REPEATS_AFTER_LOSS) }
    }

    /// The tool must not be called again when its outcome is unknown.
    pub fn manual() -> Self {
        Self::with(Recovery::Manual, 1)
    }

    fn with(recovery: Recovery, attempts_max: u32) -> Self {
        Self {
            recovery,
            source: "tool",
            timeout: CALL_TIMEOUT,
            attempts_max,
            retry_errors: false,
            window: None,
            overall: None,
            probe: None,
            parallel: false,
            concurrency: None,
            breaker: None,
            needs: Vec::new(),
        }
    }

    /// Longest time for one attempt; 120 s if nothing is said.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// As [`ToolPolicy::idempotent`], of a target that forgets keys: when so much time has passed since the first
    /// attempt, a lost one is not made again, and its outcome is unknown.
    pub fn idempotent_within(window: Duration) -> Self {
        Self { window: Some(window), ..Self::idempotent() }
    }

    /// Tries an error of the tool itself again, so many times, after a growing back-off. Only what may be repeated
    /// at all can be: `start` refuses it for other modes. What was lost to a crash or a timeout counts as well.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retry_errors = retries > 0;
        self.attempts_max = retries.saturating_add(1);
        self
    }

    /// Longest time from the intent on in which an attempt may start. Without it only attempts are bounded, each by its
    /// own timeout.
    #[must_use]
    pub fn deadline(mut self, after: Duration) -> Self {
        self.overall = Some(after);
        self
    }

    /// Lets neighbouring parts of one message that call such tools run side by side. Only `ReadOnly` tools can: `start`
    /// refuses it for other modes.
    #[must_use]
    pub fn parallel(mut self) -> Self {
        self.parallel = true;
        self
    }

    /// How many calls of the tool may be under way at once; others wait with their intent on disk. A retry keeps its
    /// place. Zero is taken for one.
    #[must_use]
    pub fn concurrency(mut self, calls: usize) -> Self {
        self.concurrency = Some(calls.max(1));
        self
    }

    /// When the tool is left alone because it keeps failing.
    #[must_use]
    pub fn breaker(mut self, failures: u32, cooldown: Duration) -> Self {
        self.breaker = Some(Breaker { failures: failures.max(1), cooldown });
        self
    }

    /// What a call of the tool needs to be allowed to do, such as `money.spend`: the agent's
    /// [`CapabilityPolicy`](super::capability::CapabilityPolicy) and the run's permissions rule on it before each call.
    #[must_use]
    pub fn capabilities<N: Into<String>>(mut self, needed: impl IntoIterator<Item = N>) -> Self {
        self.needs = needed.into_iter().map(Into::into).collect();
        self
    }

    /// What a call of the tool needs to be allowed to do.
    pub fn needs(&self) -> &[String] {
        &self.needs
    }

    /// Names who declared the recovery mode, where it was not the registration: an intent keeps it.
    #[must_use]
    pub fn declared_by(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }

    /// Who declared the recovery mode.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// Whether an error of the tool itself is tried again.
    pub fn retries_errors(&self) -> bool {
        self.retry_errors
    }

    /// How long the target knows an idempotency key.
    pub fn window(&self) -> Option<Duration> {
        self.window
    }

    /// Longest time from the intent on in which an attempt may start.
    pub fn overall(&self) -> Option<Duration> {
        self.overall
    }

    /// Who is asked whether a lost attempt took effect.
    pub fn probe(&self) -> Option<&ProbeRef> {
        self.probe.as_ref()
    }

    /// Whether neighbouring parts may run side by side.
    pub fn is_parallel(&self) -> bool {
        self.parallel
    }

    /// How many calls may be under way at once.
    pub fn concurrency_max(&self) -> Option<usize> {
        self.concurrency
    }

    /// When the tool is left alone.
    pub fn circuit(&self) -> Option<Breaker> {
        self.breaker
    }

    /// Why these rules cannot go together, in words for whoever wrote them.
    pub fn contradiction(&self) -> Option<String> {
        if self.retry_errors && !self.recovery.may_repeat() {
            return Some(format!(
                "its errors are to be tried again, but its mode is {}; only a tool that is read-only or idempotent may be \
                 called again",
                self.recovery.as_str()
            ));
        }
        if self.parallel && self.recovery != Recovery::ReadOnly {
            return Some(format!(
                "it is to run side by side with others, but its mode is {}; only read-only tools may",
                self.recovery.as_str()
            ));
        }
        None
    }

    /// What may be done when the outcome is lost.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Longest time for one attempt.
    pub fn attempt_timeout(&self) -> Duration {
        self.timeout
    }

    /// Most attempts, those lost to a crash or a timeout included.
    pub fn attempts_max(&self) -> u32 {
        self.attempts_max
    }
}

/// How an agent's model is called. An inference changes nothing outside, so it may always be asked again; each attempt
/// costs what it costs, and is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InferPolicy {
    timeout: Duration,
    retries: u32,
    breaker: Option<Breaker>,
}

impl Default for InferPolicy {
    fn default() -> Self {
        Self { timeout: CALL_TIMEOUT, retries: INFERENCE_RETRIES, breaker: None }
    }
}

impl InferPolicy {
    /// Longest time for one attempt; 120 s if nothing is said.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How often a passing failure is tried again, and what was lost to a crash or a timeout; 3 if nothing is said.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// When the model is left alone because it keeps failing.
    #[must_use]
    pub fn breaker(mut self, failures: u32, cooldown: Duration) -> Self {
        self.breaker = Some(Breaker { failures: failures.max(1), cooldown });
        self
    }

    /// Longest time for one attempt.
    pub fn attempt_timeout(&self) -> Duration {
        self.timeout
    }

    /// Most attempts.
    pub fn attempts_max(&self) -> u32 {
        self.retries.saturating_add(1)
    }

    /// When the model is left alone.
    pub fn circuit(&self) -> Option<Breaker> {
        self.breaker
    }
}
