//! What the runtime may do with one tool's calls: repeat them after a crash, and for how long one attempt may
//! take.

use std::time::Duration;

use proto_events::call::Recovery;

use crate::limits::{CALL_TIMEOUT, REPEATS_AFTER_LOSS};

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
