//! The counts of commands and of calls since the start, for metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use proto_events::call::{CallKind, CallRequested, Recovery};

use crate::actors::shared::messages::AttemptEnd;

/// The most targets that are counted by name; a model may ask for tools that do not exist.
const TARGETS_MAX: usize = 200;

/// The name under which further targets are counted together.
const OTHER_TARGET: &str = "(other)";

/// The way in which an attempt of a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AttemptOutcome {
    Succeeded,
    Failed,
    TimedOut,
    Lost,
    Asked,
    Canceled,
}

impl AttemptOutcome {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
            Self::Asked => "asked",
            Self::Canceled => "canceled",
        }
    }

    pub(crate) const fn from_attempt_end(end: &AttemptEnd) -> Self {
        match end {
            AttemptEnd::Succeeded { .. } => Self::Succeeded,
            AttemptEnd::Failed { .. } => Self::Failed,
            AttemptEnd::TimedOut { .. } => Self::TimedOut,
            AttemptEnd::Lost { .. } => Self::Lost,
            AttemptEnd::Asked { .. } => Self::Asked,
        }
    }
}

/// The part of a call that its count is kept by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallLabel {
    pub(crate) target: String,
    pub(crate) kind: &'static str,
    pub(crate) mode: &'static str,
}

impl CallLabel {
    pub(crate) fn from_request(request: &CallRequested) -> Self {
        let kind = match request.kind {
            CallKind::Tool => "tool",
            CallKind::Infer => "infer",
            CallKind::Delegate => "agent",
            CallKind::Handler => "handler",
        };
        Self { target: request.target.clone(), kind, mode: Recovery::as_str(request.recovery) }
    }
}

/// The counts since the start, of all reopenings together.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    commands: AtomicU64,
    calls: Mutex<BTreeMap<CallLabel, BTreeMap<AttemptOutcome, u64>>>,
}

impl Figures {
    /// Counts a command of a caller.
    pub(crate) fn command(&self) {
        self.commands.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of an attempt.
    pub(crate) fn attempt(&self, mut label: CallLabel, ending: AttemptOutcome) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= TARGETS_MAX && !calls.contains_key(&label) {
            OTHER_TARGET.clone_into(&mut label.target);
        }
        *calls.entry(label).or_default().entry(ending).or_default() += 1;
    }

    /// Returns the number of commands of callers.
    pub(crate) fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// Returns the ended attempts, by call and by ending.
    pub(crate) fn calls(&self) -> Vec<(CallLabel, AttemptOutcome, u64)> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = calls.iter().flat_map(|(label, ends)| {
            ends.iter().map(move |(ending, count)| (label.clone(), *ending, *count))
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_that_are_counted_by_name_are_bounded() {
        let figures = Figures::default();
        for index in 0..TARGETS_MAX * 2 {
            let label = CallLabel { target: format!("t{index}"), kind: "tool", mode: "manual" };
            figures.attempt(label, AttemptOutcome::Failed);
        }
        let calls = figures.calls();
        assert_eq!(calls.len(), TARGETS_MAX + 1);
        let others: u64 = calls.iter().filter(|row| row.0.target == OTHER_TARGET).map(|row| row.2).sum();
        assert_eq!(others, TARGETS_MAX as u64);
    }
}
