//! What the runtime may do with one tool's calls: repeat them after a crash, and for how long one attempt may
//! take.

use std::time::Duration;

use proto_events::call::Recovery;

use crate::limits::{CALL_TIMEOUT, REPEATS_AFTER_LOSS};

/// One tool's rules. The default is the most careful: `Manual`, which is never repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPolicy {
    recovery: Recovery,
    timeout: Duration,
    attempts_max: u32,
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
        Self { recovery, timeout: CALL_TIMEOUT, attempts_max }
    }

    /// Longest time for one attempt; 120 s if nothing is said.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
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
