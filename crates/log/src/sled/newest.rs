//! The newest values of a tree, beside the tree. sled splits a full leaf when it is next read, which is a write: once
//! the disk is full or a write has failed, it refuses every read of that leaf. What was durable is then read from
//! here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ::sled::IVec;

/// The number of values that a leaf holds at most (see [`Spacer`](crate::engine::spacer::Spacer)).
const LEAF_VALUES_MAX: u64 = 17;

/// The newest values of a tree: as many as its last leaf may hold. They share their bytes with the leaf in sled's
/// cache.
#[derive(Debug, Clone, Default)]
pub(crate) struct Newest(Arc<Mutex<VecDeque<(u64, IVec)>>>);

impl Newest {
    /// Keeps a value that is being inserted. `read` returns values from before this opening, for the first one.
    pub(crate) fn insert(&self, ordinal: u64, value: &IVec, read: impl Fn(u64) -> Option<IVec>) {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if values.is_empty() {
            let before = ordinal.saturating_sub(LEAF_VALUES_MAX)..ordinal;
            values.extend(before.filter_map(|before| Some((before, read(before)?))));
        }
        values.push_back((ordinal, value.clone()));
        while values.len() as u64 > LEAF_VALUES_MAX {
            values.pop_front();
        }
    }

    /// Returns the value with this ordinal if it is one of the newest.
    pub(crate) fn find(&self, ordinal: u64) -> Option<IVec> {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.iter().find(|(kept, _)| *kept == ordinal).map(|(_, value)| value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_the_last_leaf_are_kept_and_those_before_an_opening_are_read_once() {
        let newest = Newest::default();
        let value = |ordinal: u64| IVec::from(&ordinal.to_be_bytes());
        newest.insert(30, &value(30), |before| (before > 20).then(|| value(before)));
        assert_eq!(newest.find(20), None);
        assert!((21..=30).all(|ordinal| newest.find(ordinal) == Some(value(ordinal))));
        for ordinal in 31..100 {
            newest.insert(ordinal, &value(ordinal), |_| unreachable!("it is not the first value"));
        }
        assert_eq!(newest.find(99 - LEAF_VALUES_MAX), None);
        assert_eq!(newest.find(100 - LEAF_VALUES_MAX), Some(value(100 - LEAF_VALUES_MAX)));
        assert_eq!(newest.find(99), Some(value(99)));
    }
}
