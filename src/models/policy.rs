//! The policy of inferences: timeout, retries.

use std::time::Duration;

use crate::limits::{CALL_TIMEOUT, INFERENCE_RETRIES};
use crate::tools::breaker::Breaker;
use crate::tools::rate::Rate;

/// The policy of an agent's inferences. An inference changes nothing outside, so it may always be repeated;
/// each attempt has its cost and is in the log.
///
/// Getters are named as in [`ToolPolicy`](crate::tools::policy::ToolPolicy).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InferPolicy {
    timeout: Duration,
    retries: u32,
    rate: Option<(u32, Duration)>,
    breaker: Option<Breaker>,
}

impl Default for InferPolicy {
    fn default() -> Self {
        Self { timeout: CALL_TIMEOUT, retries: INFERENCE_RETRIES, rate: None, breaker: None }
    }
}

impl InferPolicy {
    /// Sets the longest time for one attempt; 120 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many times a transient failure, or an attempt lost to a crash or a timeout, is retried; 3 by
    /// default.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Limits how many attempts begin within any span of this time; others wait, with their intent on disk, in the
    /// order of asking. Zero attempts count as one.
    #[must_use]
    pub fn rate(mut self, attempts: u32, per: Duration) -> Self {
        self.rate = Some((attempts, per));
        self
    }

    /// Returns the rate limit of the model.
    pub fn get_rate(&self) -> Option<Rate> {
        self.rate.map(|(attempts, per)| Rate::new(attempts, per, None))
    }

    /// Sets the circuit breaker of the model.
    #[must_use]
    pub fn breaker(mut self, failures: u32, cooldown: Duration) -> Self {
        self.breaker = Some(Breaker { failures: failures.max(1), cooldown });
        self
    }

    /// Returns the longest time for one attempt.
    pub fn get_timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns how often a failed or lost attempt is retried.
    pub fn get_retries(&self) -> u32 {
        self.retries
    }

    /// Returns the largest number of attempts: one more than the retries.
    pub fn attempts_max(&self) -> u32 {
        self.retries.saturating_add(1)
    }

    /// Returns the circuit breaker of the model.
    pub fn get_breaker(&self) -> Option<Breaker> {
        self.breaker
    }
}
