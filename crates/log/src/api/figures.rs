//! The figures of a store's writes, for the metrics of a host.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bounds of the sizes of groups, in appends.
pub(crate) const GROUP_SIZES: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];

/// The bounds of the times of syncs, in microseconds.
pub(crate) const SYNC_MICROS: &[u64] =
    &[100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// A histogram that any number of threads add to: two additions a value, without a lock.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// The number of values up to each bound and above the one before; the last is of those above all.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// The values of a [`Histogram`] at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Distribution {
    /// The bounds, ascending.
    pub bounds: &'static [u64],
    /// The number of values up to each bound and above the one before; the last is of those above all.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl Histogram {
    /// Returns an empty histogram with these bounds, which ascend.
    pub fn new(bounds: &'static [u64]) -> Self {
        let counts = std::iter::repeat_with(AtomicU64::default).take(bounds.len() + 1).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Adds a value.
    pub fn record(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Returns the values so far.
    pub fn read(&self) -> Distribution {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Distribution { bounds: self.bounds, counts, sum: self.sum.load(Ordering::Relaxed) }
    }
}

impl Distribution {
    /// Returns the number of all values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The figures of a store's writes since it was opened, see [`EventStore::figures`](crate::api::EventStore::figures).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreFigures {
    /// The sizes of the groups, in appends.
    pub group_appends: Distribution,
    /// The times in which groups were written and synced, in microseconds.
    pub sync_micros: Distribution,
    /// The number of feeds.
    pub feeds: usize,
    /// The records that the slowest feed has not taken yet.
    pub feed_lag: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_up_to_its_bound_and_above_all_in_the_last() {
        let histogram = Histogram::new(&[10, 100]);
        for value in [0, 10, 11, 100, 101, 5_000] {
            histogram.record(value);
        }
        let read = histogram.read();
        assert_eq!((read.counts.as_slice(), read.sum, read.count()), ([2, 2, 2].as_slice(), 5_222, 6));
    }
}
