//! Unresolved appends: it is unknown whether they are in the log, because that was reported to their callers
//! or their actors ended before the answer. They are kept by their set ids, so that reopening the log can
//! resolve them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::UNRESOLVED_APPENDS_MAX;

/// An unresolved append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnresolvedAppend {
    pub(crate) set_id: [u8; 16],
    pub(crate) command_id: String,
}

/// All unresolved appends, oldest first.
#[derive(Debug, Default)]
pub(crate) struct UnresolvedAppends(Mutex<Vec<UnresolvedAppend>>);

impl UnresolvedAppends {
    pub(crate) fn list(&self) -> Vec<UnresolvedAppend> {
        self.lock().clone()
    }

    /// Forgets as many of the oldest, once they are resolved and reported.
    pub(crate) fn forget_oldest(&self, count: usize) {
        let mut all = self.lock();
        let count = count.min(all.len());
        all.drain(..count);
    }

    pub(crate) fn insert(&self, set_id: [u8; 16], command_id: &str) {
        let mut all = self.lock();
        if all.len() < UNRESOLVED_APPENDS_MAX {
            all.push(UnresolvedAppend { set_id, command_id: command_id.to_owned() });
        }
    }

    /// Ignores poisoning: the list is consistent between any two steps.
    fn lock(&self) -> MutexGuard<'_, Vec<UnresolvedAppend>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
