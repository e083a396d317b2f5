//! The policy of tool calls: repetition after a crash, retries, timeouts, concurrency.

use std::future::Future;
use std::time::Duration;

use proto_events::call::{Recovery, Verdict};
use serde::de::DeserializeOwned;

use crate::limits::{CALL_TIMEOUT, REPEATS_AFTER_LOSS};
use crate::tools::breaker::Breaker;
use crate::tools::into_tool::IntoToolError;
use crate::tools::probe::ProbeRef;
use crate::tools::rate::Rate;
use crate::tools::tool::ToolContext;

/// The source of a recovery mode that a tool's registration declares.
const DECLARED_BY_TOOL: &str = "tool";

/// The policy of one tool. The default is the most careful: `Manual`, which is never repeated.
///
/// ```
/// use std::time::Duration;
/// use taskreel::tool::ToolPolicy;
///
/// // A payment service that honours our key: sent again after a crash, under the same key.
/// let pays = ToolPolicy::idempotent().timeout(Duration::from_secs(20)).capabilities(["money.spend"]);
/// // A search: repeated freely, four at once.
/// let looks = ToolPolicy::read_only().concurrency(4);
/// ```
///
/// A setter takes `self` and has the plain name. Its getter has the same name with the prefix `get_`, as in
/// [`std::process::Command`]. A setting that a constructor alone determines has a getter of the plain name,
/// and a boolean getter reads as a question. [`ToolPolicy::attempts_max`] is derived from the retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPolicy {
    recovery: Recovery,
    declared_by: &'static str,
    timeout: Duration,
    heartbeat: Option<Duration>,
    attempts_max: u32,
    retry_errors: bool,
    window: Option<Duration>,
    deadline: Option<Duration>,
    probe: Option<ProbeRef>,
    recall: Option<ProbeRef>,
    parallel: bool,
    repeatable: bool,
    concurrency: Option<usize>,
    /// The name under which several tools count their concurrent calls together.
    counted_as: Option<&'static str>,
    rate: Option<Rate>,
    breaker: Option<Breaker>,
    capabilities: Vec<String>,
    secret_args: Vec<String>,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self::manual()
    }
}

impl ToolPolicy {
    /// Creates the policy of a tool that changes nothing outside: a lost attempt is repeated.
    pub fn read_only() -> Self {
        Self::with(Recovery::ReadOnly, 1 + REPEATS_AFTER_LOSS)
    }

    /// Creates the policy of a tool that honours
    /// [`idempotency_key`](crate::tools::tool::ToolContext::idempotency_key): using a key twice has the
    /// effect of using it once, so a lost attempt is repeated with the same key.
    pub fn idempotent() -> Self {
        Self::with(Recovery::Idempotent, 1 + REPEATS_AFTER_LOSS)
    }

    /// Creates the policy of a tool whose target can be queried: after a lost attempt the probe reports
    /// whether it took effect. If it did, the call succeeds with the result that the probe returns; if it did
    /// not and no longer can, the call is sent again; if the probe fails or cannot decide, the outcome is
    /// unknown. The probe gets the context and the arguments of the attempt, and the call's own timeout.
    pub fn reconcile<F, A, Fut, E>(probe: F) -> Self
    where
        F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
        A: DeserializeOwned + 'static,
        Fut: Future<Output = Result<Verdict, E>> + Send + 'static,
        E: IntoToolError + 'static,
    {
        let probe = Some(ProbeRef::new(probe));
        Self { probe, ..Self::with(Recovery::Reconcile, 1 + REPEATS_AFTER_LOSS) }
    }

    /// Creates the policy of calls to another agent that can be asked whether it has a task whose answer is lost
    /// ([`Peer::find`](crate::peer::Peer::find)). It is for peers: a tool's probe is code of its own.
    pub fn reconcile_peer() -> Self {
        Self { declared_by: "peer", ..Self::with(Recovery::Reconcile, 1 + REPEATS_AFTER_LOSS) }
    }

    /// Creates the policy of a tool that must not be called again when its outcome is unknown.
    pub fn manual() -> Self {
        Self::with(Recovery::Manual, 1)
    }

    fn with(recovery: Recovery, attempts_max: u32) -> Self {
        Self {
            recovery,
            declared_by: DECLARED_BY_TOOL,
            timeout: CALL_TIMEOUT,
            heartbeat: None,
            attempts_max,
            retry_errors: false,
            window: None,
            deadline: None,
            probe: None,
            recall: None,
            parallel: false,
            repeatable: false,
            concurrency: None,
            counted_as: None,
            rate: None,
            breaker: None,
            capabilities: Vec::new(),
            secret_args: Vec::new(),
        }
    }

    /// Sets the longest time for one attempt; 120 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the longest time in which an attempt may report no progress ([`ToolContext::progress`]). An attempt that is
    /// silent for longer is timed out, as by [`ToolPolicy::timeout`], which counts as well: a tool that hangs is
    /// noticed long before the end of the time that its work may take.
    #[must_use]
    pub fn heartbeat(mut self, silence: Duration) -> Self {
        self.heartbeat = Some(silence);
        self
    }

    /// Returns the longest time in which an attempt may report no progress.
    pub fn get_heartbeat(&self) -> Option<Duration> {
        self.heartbeat
    }

    /// Creates the policy of an idempotent tool (see [`ToolPolicy::idempotent`]) whose target forgets keys:
    /// once this time has passed since the first attempt, a lost attempt is not repeated and its outcome is
    /// unknown.
    pub fn idempotent_within(window: Duration) -> Self {
        Self { window: Some(window), ..Self::idempotent() }
    }

    /// Sets how many times an error of the tool itself is retried, with a growing back-off. Only a tool that
    /// may be repeated at all can be retried: `start` refuses other modes. Attempts lost to a crash or a
    /// timeout count as well.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retry_errors = retries > 0;
        self.attempts_max = retries.saturating_add(1);
        self
    }

    /// Sets the longest time after the intent in which an attempt may start, also while the call waits for a
    /// permit. Without it only the single attempts are bounded, each by its own timeout.
    #[must_use]
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(after);
        self
    }

    /// Lets neighbouring parts of one message that call such tools run in parallel. Only `ReadOnly` tools
    /// can: `start` refuses other modes.
    #[must_use]
    pub fn parallel(mut self) -> Self {
        self.parallel = true;
        self
    }

    /// Lets a model make the same call again with the same arguments, as it does to wait for a state to change.
    /// Otherwise such a call is answered as already made, as in Protolink.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Whether a model may make the same call again, see [`ToolPolicy::repeatable`].
    pub fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    /// Limits how many calls of the tool are in flight at once; others wait with their intent on disk. A
    /// retry keeps its permit. Zero counts as one.
    #[must_use]
    pub fn concurrency(mut self, calls: usize) -> Self {
        self.concurrency = Some(calls.max(1));
        self
    }

    /// Sets a limit as [`ToolPolicy::concurrency`] does, for the calls of all tools together that count under this name.
    #[must_use]
    pub(crate) fn concurrency_of(mut self, name: &'static str, calls: usize) -> Self {
        self.counted_as = Some(name);
        self.concurrency(calls)
    }

    /// Returns the name under which the tool's concurrent calls count; none if they count alone.
    pub(crate) fn counted_as(&self) -> Option<&'static str> {
        self.counted_as
    }

    /// Limits how many attempts of the tool's calls begin within any span of this time; others wait, with their intent
    /// on disk, in the order of asking. Retries count too. Zero attempts count as one.
    #[must_use]
    pub fn rate(mut self, attempts: u32, per: Duration) -> Self {
        self.rate = Some(Rate::new(attempts, per, None));
        self
    }

    /// Sets a rate limit as [`ToolPolicy::rate`] does, which all tools share that name this target, such as one
    /// service behind several tools. They must state the same limit.
    #[must_use]
    pub fn rate_of(mut self, target: impl Into<String>, attempts: u32, per: Duration) -> Self {
        self.rate = Some(Rate::new(attempts, per, Some(target.into())));
        self
    }

    /// Returns the rate limit of the tool.
    pub fn get_rate(&self) -> Option<&Rate> {
        self.rate.as_ref()
    }

    /// Sets the circuit breaker of the tool.
    #[must_use]
    pub fn breaker(mut self, failures: u32, cooldown: Duration) -> Self {
        self.breaker = Some(Breaker { failures: failures.max(1), cooldown });
        self
    }

    /// Sets the capabilities that a call of the tool needs, such as `money.spend`. The agent's
    /// [`CapabilityPolicy`](crate::agent::capability::CapabilityPolicy) and the run's permissions rule on
    /// them before each call.
    #[must_use]
    pub fn capabilities<N: Into<String>>(mut self, needed: impl IntoIterator<Item = N>) -> Self {
        self.capabilities = needed.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the capabilities that a call of the tool needs.
    pub fn get_capabilities(&self) -> &[String] {
        &self.capabilities
    }

    /// Sets the names of the arguments whose values are secret. The log never holds such a value, in no event: it
    /// holds a reference. The caller or the model gives the value in one of two ways:
    ///
    /// - by a name, `"secret:NAME"`: the host's [`SecretProvider`](crate::tools::secret::SecretProvider) looks it up
    ///   when the call is sent, see [`Builder::secrets`](crate::Builder::secrets);
    /// - in clear: before anything is written, the value is replaced by a reference with a salted digest, and kept in
    ///   a file beside the log that only its owner can read, until no call needs it.
    ///
    /// Whatever the tool answers, reports or keeps is masked: each repetition of a value of at least four bytes is
    /// replaced by its reference. The arguments stand at the top level of the tool's arguments.
    #[must_use]
    pub fn secret_args<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.secret_args = names.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the names of the arguments whose values are secret.
    pub fn get_secret_args(&self) -> &[String] {
        &self.secret_args
    }

    /// Sets the source that declared the recovery mode, if not the registration; it is recorded in the
    /// intent.
    #[must_use]
    pub fn declared_by(mut self, declared_by: &'static str) -> Self {
        self.declared_by = declared_by;
        self
    }

    /// Names the handler's registration as the source of the recovery mode, unless another source is set.
    pub(crate) fn declared_by_handler(mut self) -> Self {
        if self.declared_by == DECLARED_BY_TOOL {
            self.declared_by = "handler";
        }
        self
    }

    /// Returns the source that declared the recovery mode.
    pub fn get_declared_by(&self) -> &'static str {
        self.declared_by
    }

    /// Whether an error of the tool itself is retried.
    pub fn retries_errors(&self) -> bool {
        self.retry_errors
    }

    /// Returns how long the target remembers an idempotency key.
    pub fn window(&self) -> Option<Duration> {
        self.window
    }

    /// Returns the longest time after the intent in which an attempt may start.
    pub fn get_deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Returns the probe that reports whether a lost attempt took effect.
    pub(crate) fn probe(&self) -> Option<&ProbeRef> {
        self.probe.as_ref()
    }

    /// Sets how the work is stopped that a call has begun elsewhere, such as at another service: it is asked once for a call
    /// that is given up, because its task is canceled or it has no attempt left. It gets the context and the arguments of the
    /// last attempt, and has 10 s; a failure is reported and changes nothing. An attempt that is under way is canceled besides.
    #[must_use]
    pub fn recalled_by<F, A, Fut, E>(mut self, recall: F) -> Self
    where
        F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
        A: DeserializeOwned + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: IntoToolError + 'static,
    {
        // What is asked about a call has a verdict; nobody reads this one.
        let asked = move |cx, args| {
            let recalled = recall(cx, args);
            async move { recalled.await.map(|()| Verdict::DidNotHappen) }
        };
        self.recall = Some(ProbeRef::new(asked));
        self
    }

    /// Returns what stops the work that a call has begun elsewhere.
    pub(crate) fn recall(&self) -> Option<&ProbeRef> {
        self.recall.as_ref()
    }

    /// Whether neighbouring parts may run in parallel.
    pub fn is_parallel(&self) -> bool {
        self.parallel
    }

    /// Returns the largest number of calls in flight at once.
    pub fn get_concurrency(&self) -> Option<usize> {
        self.concurrency
    }

    /// Returns the circuit breaker of the tool.
    pub fn get_breaker(&self) -> Option<Breaker> {
        self.breaker
    }

    /// Returns why these rules cannot be combined, as a text for the author of the policy.
    pub fn contradiction(&self) -> Option<String> {
        if self.retry_errors && !self.recovery.may_repeat() {
            return Some(format!(
                "retries are enabled, but its recovery mode is {}; only tools that are read-only, idempotent or reissued may be retried",
                self.recovery.as_str()
            ));
        }
        if self.heartbeat.is_some_and(|silence| silence < Duration::from_millis(1)) {
            return Some("its heartbeat is less than a millisecond".to_owned());
        }
        if self.parallel && self.recovery != Recovery::ReadOnly {
            return Some(format!(
                "it is marked as parallel, but its recovery mode is {}; only read-only tools may run in parallel",
                self.recovery.as_str()
            ));
        }
        None
    }

    /// Returns the recovery mode, which decides what may be done when the outcome is lost.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Returns the longest time for one attempt.
    pub fn get_timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the largest number of attempts, including those lost to a crash or a timeout.
    pub fn attempts_max(&self) -> u32 {
        self.attempts_max
    }
}
