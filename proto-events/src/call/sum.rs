//! The kept part of a sum over the calls of a long list.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::run_budget::BudgetUsage;

/// The calls that a sum is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SumOf {
    /// All calls of the stream.
    #[default]
    Stream,
    /// The calls of one part of one run, without those that another call asked for.
    Part {
        /// The number of the run.
        run: u32,
        /// The number of the part.
        part: u32,
    },
}

/// The sum over the first calls of a list, as far as they are over.
#[derive(Debug, Clone, Default)]
pub(super) struct PrefixSum {
    pub(super) of: SumOf,
    /// The number of calls that were looked at.
    pub(super) calls: usize,
    /// The numbers of those among them that were open, so that they are not in the sum.
    pub(super) open: Vec<usize>,
    pub(super) used: BudgetUsage,
}

/// The newest sum. It follows from the calls and is not a part of a state: two states that differ only in it are equal.
#[derive(Debug, Default)]
pub(super) struct KeptSum(Mutex<PrefixSum>);

impl KeptSum {
    /// Returns the sum, locked, to go on with it; it begins anew if the last one was over other calls.
    pub(super) fn lock(&self, of: SumOf) -> MutexGuard<'_, PrefixSum> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.of != of {
            *kept = PrefixSum { of, ..PrefixSum::default() };
        }
        kept
    }
}

impl Clone for KeptSum {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }
}

impl PartialEq for KeptSum {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KeptSum {}
