//! The circuit breaker of a tool, as a setting.

use std::time::Duration;

/// A circuit breaker: after a number of failures in a row the target gets no calls for a while, then a single
/// one; if that call works, calls are let through again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Breaker {
    /// The failures in a row that open the circuit: errors of the target itself, timeouts, panics.
    pub failures: u32,
    /// The time for which an open circuit lets no call through.
    pub cooldown: Duration,
}
