//! What the runtime may do with one tool's calls: repeat them after a crash, run them side by side, retry
//! them, and for how long one attempt may take.

use std::time::Duration;

use crate::limits;

/// What may be done with a call whose outcome is not known, because the process ended or the attempt timed
/// out while it was in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Recovery {
    /// The call changes nothing: it is simply made again.
    ReadOnly,
    /// The tool honours the idempotency key: the call is made again with the same key.
    Idempotent,
    /// Nobody but a person can tell: the call is never made again, its outcome is unknown. The default.
    #[default]
    Manual,
    /// An inference: it changes nothing but costs money, so it is made again within the budget.
    Reissue,
}

/// One tool's rules. The default is the most careful: `Manual`, one at a time, no retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPolicy {
    recovery: Recovery,
    window: Option<Duration>,
    timeout: Duration,
    parallel: bool,
    retries: u32,
    capabilities: Vec<String>,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self::manual()
    }
}

impl ToolPolicy {
    /// The tool changes nothing outside.
    pub fn read_only() -> Self {
        Self::with(Recovery::ReadOnly)
    }

    /// The tool honours [`idempotency_key`](super::tool::ToolContext::idempotency_key): twice the same key
    /// has the effect of once.
    pub fn idempotent() -> Self {
        Self::with(Recovery::Idempotent)
    }

    /// The tool must not be called again when its outcome is unknown.
    pub fn manual() -> Self {
        Self::with(Recovery::Manual)
    }

    fn with(recovery: Recovery) -> Self {
        Self {
            recovery,
            window: None,
            timeout: limits::CALL_TIMEOUT,
            parallel: false,
            retries: 0,
            capabilities: Vec::new(),
        }
    }

    /// How long the other side remembers an idempotency key. Past it a call counts as `Manual`.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// Longest time for one attempt.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Lets neighbouring calls start together. Only read-only tools do.
    #[must_use]
    pub fn parallel(mut self) -> Self {
        self.parallel = true;
        self
    }

    /// How often an attempt that failed with the tool's own error is made again.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Names a capability that a call of this tool needs, such as `files.write`.
    #[must_use]
    pub fn capability(mut self, capability: impl Into<String>) -> Self {
        self.capabilities.push(capability.into());
        self
    }

    /// What may be done when the outcome is unknown.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// How long an idempotency key is honoured; `None` is without end.
    pub fn key_window(&self) -> Option<Duration> {
        self.window
    }

    /// Longest time for one attempt.
    pub fn attempt_timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether neighbouring calls may start together: declared so, and read-only.
    pub fn is_parallel(&self) -> bool {
        self.parallel && self.recovery == Recovery::ReadOnly
    }

    /// How often a failed attempt may be made again: none for `Manual`, whatever was declared, because a
    /// failed call may have had its effect.
    pub fn retry_limit(&self) -> u32 {
        if self.recovery == Recovery::Manual {
            0
        } else {
            self.retries
        }
    }

    /// What a call needs to be allowed.
    pub fn capabilities(&self) -> &[String] {
        &self.capabilities
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_says_nothing_is_manual_and_never_retried() {
        let policy = ToolPolicy::default().parallel().retries(5);
        assert_eq!(policy.recovery(), Recovery::Manual);
        assert_eq!(policy.retry_limit(), 0);
        assert!(!policy.is_parallel());
        assert_eq!(policy.attempt_timeout(), limits::CALL_TIMEOUT);
    }

    #[test]
    fn a_read_only_tool_may_be_retried_and_run_side_by_side_when_it_says_so() {
        let policy = ToolPolicy::read_only()
            .parallel()
            .retries(2)
            .capability("net.read");
        assert!(policy.is_parallel());
        assert_eq!(policy.retry_limit(), 2);
        assert_eq!(policy.capabilities(), ["net.read"]);
        assert!(!ToolPolicy::idempotent().parallel().is_parallel());
    }
}
