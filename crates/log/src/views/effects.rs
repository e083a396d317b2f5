//! The effects of a log: what its calls did outside, by tool and by other agent. An auditor reads from it how many calls there were under
//! which mode of recovery, who had to approve them, and what became of those whose outcome was lost.

use std::collections::{BTreeMap, HashMap};

use proto_events::call::{CallEvent, CallKind, CallRequested, Verdict};
use proto_events::codec::AnyEvent;
use proto_events::id::StreamId;
use proto_events::task::TaskEvent;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::audit::json::call_kind;
use crate::views::event_row::{EventRow, event_rows};

/// The effects of one tool or of one other agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EffectsRow {
    /// The number of calls, by mode of recovery.
    pub calls: BTreeMap<&'static str, u64>,
    /// The number of calls for which a person was asked, the number that was approved and the number that was denied.
    pub asked: u64,
    /// The number of calls that were approved.
    pub approved: u64,
    /// The number of calls that were denied, which were never made.
    pub denied: u64,
    /// The number of calls that succeeded.
    pub succeeded: u64,
    /// The number of calls that failed.
    pub failed: u64,
    /// The number of calls that were given up before their outcome was known to matter.
    pub canceled: u64,
    /// The number of calls whose outcome was lost at some time.
    pub lost: u64,
    /// Of these, the number of which it was found out that they took effect.
    pub landed: u64,
    /// Of these, the number of which it was found out that they did not.
    pub did_not_happen: u64,
    /// Of these, the number that nobody looks for any more.
    pub abandoned: u64,
    /// The number of calls that have no outcome so far.
    pub open: u64,
}

impl EffectsRow {
    /// Returns the number of calls.
    pub fn count(&self) -> u64 {
        self.calls.values().sum()
    }

    /// Returns the number of calls whose outcome was lost and is not known yet.
    pub fn unknown(&self) -> u64 {
        self.lost - self.landed - self.did_not_happen - self.abandoned
    }
}

/// The kind of a call and its target.
type Key = (&'static str, String);

/// The state of a call that is not over.
#[derive(Debug, Clone)]
struct OpenEffect {
    key: Key,
    is_lost: bool,
}

/// Effects counted from events in the order of the log.
#[derive(Debug, Default)]
pub struct Effects {
    open: HashMap<(StreamId, String), OpenEffect>,
    asked: HashMap<(StreamId, String), String>,
    rows: BTreeMap<Key, EffectsRow>,
    unread: Vec<ReadError>,
}

/// Counts the effects of a log, or of one stream of it. What cannot be read is left out and named: see [`Effects::unread`].
pub fn effects(reader: &dyn EventReader, only: Option<&StreamId>, goes_on: &dyn Fn() -> bool) -> Effects {
    let mut found = Effects::default();
    let mut show = |read: Result<StoredRecord, ReadError>| match read {
        Ok(stored) => event_rows(&stored).iter().for_each(|row| found.take(row)),
        Err(error) => found.unread.push(error),
    };
    match only {
        Some(stream) => reader.survey_stream(stream, &mut show),
        None => reader.survey_while(goes_on, &mut show),
    }
    found
}

impl Effects {
    /// Returns the rows, each with the kind of its calls and the tool or agent.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, &str, &EffectsRow)> {
        self.rows.iter().map(|((kind, target), row)| (*kind, target.as_str(), row))
    }

    /// Returns the errors of records that could not be read, and that were not counted.
    pub fn unread(&self) -> &[ReadError] {
        &self.unread
    }

    /// Adds the next event.
    pub fn take(&mut self, row: &EventRow) {
        let Ok(AnyEvent::Task(event)) = &row.event else { return };
        match event {
            TaskEvent::ApprovalRequested(asked) => {
                let key = (row.stream.clone(), asked.approval_id.clone());
                self.asked.insert(key, asked.tool.clone());
                self.row(&tool(&asked.tool)).asked += 1;
            }
            TaskEvent::ApprovalDecided(decided) => {
                let key = (row.stream.clone(), decided.approval_id.clone());
                let Some(asked) = self.asked.remove(&key) else { return };
                let row = self.row(&tool(&asked));
                if decided.approved { row.approved += 1 } else { row.denied += 1 }
            }
            TaskEvent::Call(event) => self.call(&row.stream, event),
            _ => {}
        }
    }

    fn row(&mut self, key: &Key) -> &mut EffectsRow {
        self.rows.entry(key.clone()).or_default()
    }

    fn requested(&mut self, stream: &StreamId, request: &CallRequested) {
        // An inference does nothing outside, and the embedder's own code is part of the program.
        if !matches!(request.kind, CallKind::Tool | CallKind::Delegate) {
            return;
        }
        let key = (call_kind(request.kind), request.target.clone());
        let row = self.row(&key);
        *row.calls.entry(request.recovery.as_str()).or_default() += 1;
        row.open += 1;
        self.open.insert((stream.clone(), request.call_id.clone()), OpenEffect { key, is_lost: false });
    }

    fn call(&mut self, stream: &StreamId, event: &CallEvent) {
        if let CallEvent::Requested(request) = event {
            return self.requested(stream, request);
        }
        let named = (stream.clone(), event.call_id().to_owned());
        let Some(call) = self.open.get_mut(&named) else { return };
        let (key, was_lost) = (call.key.clone(), call.is_lost);
        let row = self.rows.entry(key).or_default();
        let counted = match event {
            CallEvent::OutcomeUnknown { .. } if !was_lost => {
                call.is_lost = true;
                row.lost += 1;
                row.open -= 1;
                return;
            }
            CallEvent::Reconciled { verdict: Verdict::Landed(_), .. } if was_lost => &mut row.landed,
            CallEvent::Reconciled { verdict: Verdict::DidNotHappen, .. } if was_lost => {
                &mut row.did_not_happen
            }
            CallEvent::Abandoned { .. } if was_lost => &mut row.abandoned,
            CallEvent::Succeeded { .. } if !was_lost => &mut row.succeeded,
            CallEvent::Failed { .. } if !was_lost => &mut row.failed,
            CallEvent::Canceled { .. } if !was_lost => &mut row.canceled,
            _ => return,
        };
        *counted += 1;
        if !was_lost {
            row.open -= 1;
        }
        self.open.remove(&named);
    }
}

fn tool(name: &str) -> Key {
    (call_kind(CallKind::Tool), name.to_owned())
}

#[cfg(test)]
mod tests {
    use proto_events::call::CallStatus;
    use proto_events::id::Category;
    use proto_events::task::Task;

    use super::*;
    use crate::jsonl::JsonLines;
    use crate::read::fold::fold_stream;
    use crate::views::find::streams;

    /// The logs of all golden files.
    fn logs() -> Vec<(String, JsonLines)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v2");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|kind| kind == "ndjson"));
        files.map(|path| (path.display().to_string(), JsonLines::open(&path).unwrap())).collect()
    }

    /// Returns the same figures, from the folded tasks.
    fn folded(log: &JsonLines, only: Option<&StreamId>) -> BTreeMap<Key, EffectsRow> {
        let mut rows: BTreeMap<Key, EffectsRow> = BTreeMap::new();
        for info in streams(log, "task-").unwrap() {
            if info.stream.category() != Some(Category::Task) || only.is_some_and(|one| *one != info.stream) {
                continue;
            }
            let task = fold_stream::<Task>(log, &info.stream, None).unwrap().state;
            for approval in task.approvals().iter() {
                let row = rows.entry(tool(&approval.request.tool)).or_default();
                row.asked += 1;
                match approval.verdict() {
                    Some(decision) if decision.approved => row.approved += 1,
                    Some(_) => row.denied += 1,
                    None => {}
                }
            }
            for call in task.calls().iter() {
                let request = &call.request;
                if !matches!(request.kind, CallKind::Tool | CallKind::Delegate) {
                    continue;
                }
                let row = rows.entry((call_kind(request.kind), request.target.clone())).or_default();
                *row.calls.entry(request.recovery.as_str()).or_default() += 1;
                let is_lost = matches!(
                    call.status,
                    CallStatus::Unknown(_) | CallStatus::Reconciled(_) | CallStatus::Abandoned(_)
                );
                row.lost += u64::from(is_lost);
                match &call.status {
                    CallStatus::Succeeded(_) => row.succeeded += 1,
                    CallStatus::Failed(_) => row.failed += 1,
                    CallStatus::Canceled => row.canceled += 1,
                    CallStatus::Reconciled(Verdict::Landed(_)) => row.landed += 1,
                    CallStatus::Reconciled(_) => row.did_not_happen += 1,
                    CallStatus::Abandoned(_) => row.abandoned += 1,
                    CallStatus::Unknown(_) => {}
                    _ => row.open += 1,
                }
            }
        }
        rows
    }

    #[test]
    fn effects_counted_from_events_are_those_of_the_folded_tasks() {
        let (mut calls, mut lost, mut asked) = (0, 0, 0);
        for (name, log) in logs() {
            let found = effects(&log, None, &|| true);
            assert!(found.unread().is_empty(), "{name}");
            assert_eq!(found.rows, folded(&log, None), "{name}");
            for (_, _, row) in found.rows() {
                calls += row.count();
                lost += row.lost;
                asked += row.asked;
                assert_eq!(
                    row.succeeded + row.failed + row.canceled + row.lost + row.open,
                    row.count(),
                    "{name}: each call has one end or none"
                );
            }
            for info in streams(&log, "task-").unwrap().into_iter().take(3) {
                let one = effects(&log, Some(&info.stream), &|| true);
                assert_eq!(one.rows, folded(&log, Some(&info.stream)), "{name}: {}", info.stream);
            }
        }
        assert!(calls > 10 && lost > 0 && asked > 0, "{calls} {lost} {asked}");
    }
}
