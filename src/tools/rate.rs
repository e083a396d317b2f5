//! The rate limit of a target, as a setting.

use std::time::Duration;

/// A rate limit: at most this number of attempts begin within any span of this time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rate {
    /// The number of attempts.
    pub attempts: u32,
    /// The span of time.
    pub per: Duration,
    /// The name of the target, if several tools share the limit.
    pub target: Option<String>,
}

impl Rate {
    /// Creates a limit of this number of attempts; zero counts as one.
    pub(crate) fn new(attempts: u32, per: Duration, target: Option<String>) -> Self {
        Self { attempts: attempts.max(1), per, target }
    }
}
