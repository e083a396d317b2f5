//! The index of a long list of calls: by id, by part, by parent, the open ones, the approvals that are used up, and a sum over
//! the calls. A list of a few calls is searched without one.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::call::fold::Call;
use crate::call::sum::KeptSum;

/// The number of calls from which a list is indexed. Almost every task has fewer, and a search of so few costs less
/// than an index.
pub(super) const INDEXED_FROM: usize = 32;

/// The places of calls in their list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CallIndex {
    by_id: HashMap<String, usize>,
    /// The calls without a parent.
    by_part: HashMap<(u32, u32), Vec<usize>>,
    by_parent: HashMap<String, Vec<usize>>,
    open: BTreeSet<usize>,
    approvals: HashSet<String>,
    sum: KeptSum,
}

impl CallIndex {
    pub(super) fn from_calls<'a>(calls: impl Iterator<Item = &'a Call>) -> Self {
        let mut index = Self::default();
        for (at, call) in calls.enumerate() {
            index.add(at, call);
        }
        index
    }

    /// Adds the call that stands at `at`.
    pub(super) fn add(&mut self, at: usize, call: &Call) {
        let request = &call.request;
        self.by_id.insert(request.call_id.clone(), at);
        match &request.origin.parent {
            None => self.by_part.entry((request.origin.run, request.origin.part)).or_default(),
            Some(parent) => self.by_parent.entry(parent.call_id.clone()).or_default(),
        }
        .push(at);
        self.approvals.extend(request.approval.clone());
        if call.status.is_open() {
            self.open.insert(at);
        }
    }

    /// Notes that an event met the call that stands at `at`.
    pub(super) fn record(&mut self, at: usize, call: &Call) {
        if !self.open.contains(&at) {
            // It was over before, so that the sum may have it as it was: an answer came too late.
            self.sum = KeptSum::default();
        }
        if call.status.is_open() {
            self.open.insert(at);
        } else {
            self.open.remove(&at);
        }
    }

    pub(super) fn position(&self, call_id: &str) -> Option<usize> {
        self.by_id.get(call_id).copied()
    }

    pub(super) fn of_part(&self, run: u32, part: u32) -> &[usize] {
        self.by_part.get(&(run, part)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn of_parent(&self, call_id: &str) -> &[usize] {
        self.by_parent.get(call_id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn open(&self) -> impl Iterator<Item = usize> {
        self.open.iter().copied()
    }

    /// Returns the kept sum over calls of the list.
    pub(super) fn sum(&self) -> &KeptSum {
        &self.sum
    }

    pub(super) fn uses_approval(&self, approval_id: &str) -> bool {
        self.approvals.contains(approval_id)
    }
}
