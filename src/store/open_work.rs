//! Which streams have work that was going on when the log was closed or its process died: those are
//! resumed at the start, all others wake at their first command.

use std::collections::HashSet;

use proto_events::codec::record::RecordView;
use proto_events::codec::{kind, state_after};
use proto_events::id::{Position, StreamId};
use proto_events::model::TaskState;

use crate::store::{EventReader, ReadError, StoredRecord};

/// Records read at a time.
const PAGE_RECORDS: usize = 1_024;

/// What a record says of its stream's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Nothing: it is as it was.
    Same,
    /// There is some.
    Open,
    /// There is none.
    None,
}

/// What a record says of its stream's work. One that cannot be told counts as open: to look once too often costs a
/// moment, to look once too seldom leaves a task lying.
pub(super) fn work_of(view: &RecordView<'_>) -> Work {
    if !view.stream.starts_with(TASKS) {
        return Work::Same;
    }
    let mut work = Work::Same;
    for event in view.events() {
        let Ok(event) = event else { return Work::Open };
        if !matches!(event.kind, kind::SUBMITTED | kind::STATE_CHANGED) {
            continue;
        }
        let state = event.body.map(|body| state_after(event.kind, event.schema, body));
        work = match state {
            Some(Ok(Some(state))) if state != TaskState::Working => Work::None,
            _ => Work::Open,
        };
    }
    work
}

/// How the names of tasks' streams begin.
const TASKS: &str = "task-";

/// The task streams whose lifecycle stands at `working`, in order of their names. One pass over the log; only
/// the few events that change a lifecycle are decoded.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub fn open_work<R: EventReader + ?Sized>(reader: &R) -> Result<Vec<StreamId>, ReadError> {
    let mut open = HashSet::new();
    let mut from = Position(1);
    loop {
        let page = reader.read_all(from, PAGE_RECORDS)?;
        let Some(last) = page.last() else { break };
        from = Position(last.last_position().0 + 1);
        for stored in &page {
            match last_state(stored)? {
                Some(TaskState::Working) => {
                    open.insert(stored.record.stream.clone());
                }
                Some(_) => {
                    open.remove(&stored.record.stream);
                }
                None => {}
            }
        }
    }
    let mut open: Vec<_> = open.into_iter().collect();
    open.sort();
    Ok(open)
}

/// The state that a record leaves its task in, if it says.
fn last_state(stored: &StoredRecord) -> Result<Option<TaskState>, ReadError> {
    let tells = |event: &&proto_events::codec::record::StoredEvent| {
        matches!(event.kind, kind::SUBMITTED | kind::STATE_CHANGED)
    };
    let Some(event) = stored.record.events.iter().rev().find(tells) else {
        return Ok(None);
    };
    let Some(body) = event.body() else {
        return Ok(None);
    };
    let damaged = |what: String| ReadError::Corrupt {
        what,
        stream: Some(stored.record.stream.clone()),
        version: Some(stored.record.first_version),
        position: Some(stored.position),
    };
    state_after(event.kind, event.schema, body).map_err(|error| damaged(error.to_string()))
}
