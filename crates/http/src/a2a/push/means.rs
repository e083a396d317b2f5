//! The means of the workers: the system, the client, and how often a delivery is tried.

use std::time::Duration;

use taskreel::System;
use tokio::sync::Semaphore;

use crate::a2a::push::sender::Sender;
use crate::limits::PUSH_READS;

/// The attempts of a delivery, and the pauses between them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retries {
    pub(crate) attempts: u32,
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Retries {
    /// Returns the pause after this many failed attempts: twice the one before, and up to half of it less by chance, so that
    /// what failed together does not come together again.
    pub(crate) fn pause(self, failed: u32, chance: f64) -> Duration {
        let doubled =
            self.first.saturating_mul(1_u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX));
        doubled.min(self.longest).mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0))
    }
}

/// The means that the workers share.
pub(crate) struct Means {
    pub(crate) system: System,
    pub(crate) sender: Sender,
    pub(crate) retries: Retries,
    /// Bounds the reading of tasks.
    pub(crate) reads: Semaphore,
}

impl Means {
    pub(crate) fn new(system: &System, sender: Sender, retries: Retries) -> Self {
        Self { system: system.clone(), sender, retries, reads: Semaphore::new(PUSH_READS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_differ_by_chance() {
        let retries =
            Retries { attempts: 16, first: Duration::from_millis(500), longest: Duration::from_secs(600) };
        let of = |failed, chance| retries.pause(failed, chance).as_millis();
        assert_eq!((of(1, 1.0), of(1, 0.0), of(2, 1.0), of(11, 1.0)), (500, 250, 1_000, 512_000));
        assert_eq!((of(12, 1.0), of(u32::MAX, 1.0), of(u32::MAX, 0.0)), (600_000, 600_000, 300_000));
        let all: Duration = (1..16).map(|failed| retries.pause(failed, 0.5)).sum();
        assert!((2_000..4_000).contains(&all.as_secs()), "{all:?}");
    }
}
