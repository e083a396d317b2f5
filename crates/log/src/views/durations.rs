//! The durations of calls, with their percentiles.

/// The durations of calls, from the dispatch of the last attempt to the record of its success or failure, by
/// the times of the log's records, in microseconds. Earlier attempts and back-off before the last one are not
/// counted. Canceled and unknown calls have no duration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durations(pub(crate) Vec<u64>);

impl Durations {
    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns the shortest duration that `percent` per cent of calls do not exceed (nearest rank); none if
    /// nothing was measured.
    pub fn percentile(&self, percent: usize) -> Option<u64> {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Durations;

    #[test]
    fn a_percentile_is_a_duration_that_was_measured() {
        assert_eq!(Durations::default().percentile(50), None);
        let of = |count: u64, percent| Durations((1..=count).collect()).percentile(percent);
        assert_eq!([of(1, 50), of(1, 99), of(1, 100)], [Some(1); 3]);
        assert_eq!([of(2, 50), of(2, 95)], [Some(1), Some(2)]);
        assert_eq!([of(100, 50), of(100, 95), of(100, 99), of(100, 100)], [50, 95, 99, 100].map(Some));
        assert_eq!([of(101, 50), of(101, 95)], [Some(51), Some(96)]);
    }
}
