//! Which streams have work that was going on when the log was closed or its process died: those are
//! resumed at the start, all others wake at their first command.

use std::collections::HashSet;
use std::ops::ControlFlow;

use proto_events::codec::record::{EventView, RecordView, StoredEvent};
use proto_events::codec::{kind, state_after};
use proto_events::id::{Position, StreamId};
use proto_events::model::TaskState;

use crate::store::{Compare, EventReader, ReadError, Scanned};

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
/// the few events that change a lifecycle are looked at, and those are compared with their digests.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub fn open_work<R: EventReader + ?Sized>(reader: &R) -> Result<Vec<StreamId>, ReadError> {
    let mut open: HashSet<String> = HashSet::new();
    reader.scan(Position(1), Compare::Checksums, &mut |scanned| {
        match last_state(reader, scanned)? {
            Some(TaskState::Working) => {
                open.insert(scanned.record.stream.to_owned());
            }
            Some(_) => {
                open.remove(scanned.record.stream);
            }
            None => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let wrong = |error: proto_events::id::IdError| ReadError::corrupt(error.to_string(), None);
    let mut open =
        open.iter().map(|name| StreamId::parse(name).map_err(wrong)).collect::<Result<Vec<_>, _>>()?;
    open.sort();
    Ok(open)
}

/// The state that a record leaves its task in, if it says.
fn last_state<R: EventReader + ?Sized>(
    reader: &R,
    scanned: &Scanned<'_>,
) -> Result<Option<TaskState>, ReadError> {
    let mut last: Option<(usize, EventView<'_>)> = None;
    for (number, event) in scanned.record.events().enumerate() {
        let event = event.map_err(|error| scanned.corrupt(error.to_string()))?;
        if matches!(event.kind, kind::SUBMITTED | kind::STATE_CHANGED) {
            last = Some((number, event));
        }
    }
    let Some((number, event)) = last else { return Ok(None) };
    let EventView { kind, schema, .. } = event;
    let decoded = match event.body {
        Some(body) if event.matches_digest() => state_after(kind, schema, body),
        Some(_) => {
            let what = "the body of an event does not have the digest that the record holds for it";
            return Err(scanned.corrupt(what));
        }
        // A large task as it was posted: it stands outside its record.
        None => {
            let read = reader.read_all(scanned.position, 1)?;
            let event = read.first().and_then(|stored| stored.record.events.get(number));
            let body = event.and_then(StoredEvent::body);
            let body = body.ok_or_else(|| scanned.corrupt("a body is not in the log any more"))?;
            state_after(kind, schema, body)
        }
    };
    decoded.map_err(|error| scanned.corrupt(error.to_string()))
}
