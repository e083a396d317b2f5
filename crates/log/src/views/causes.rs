//! The causation graph of a stream: each event, and the earlier event that caused it.

mod draw;
mod event;
mod layout;

use std::collections::HashMap;
use std::ops::ControlFlow;

use proto_events::call::CallEvent;
use proto_events::codec::AnyEvent;
use proto_events::id::{StreamId, Version};
use proto_events::model::TaskState;
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
pub use crate::views::causes::draw::{
    causes_dot, causes_mermaid, causes_svg, causes_svg_linked, causes_text,
};
pub use crate::views::causes::event::CausedEvent;
use crate::views::event_row::{EventRow, event_rows};
use crate::views::summary::Summaries;
use crate::views::visible::visible_cut;

/// The most columns of an event's words that are kept.
const WORDS_COLUMNS_MAX: usize = 300;

/// Returns the causation graph of a stream: its events in order. Takes time and memory in proportion to their number.
///
/// An event of a call or of an approval was caused by the one before it of the same call. Other events of one record were caused
/// by its first one, and that by the newest event of the call, the approval or the turn that the record names as its cause.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read.
pub fn causes(reader: &dyn EventReader, stream: &StreamId) -> Result<Vec<CausedEvent>, ReadError> {
    causes_between(reader, stream, (Version(1), Version(u64::MAX)))
}

/// Returns the causation graph of the events between two versions, both included. A cause before them is named by its version.
/// Takes time in proportion to the number of events up to there, and memory in proportion to those between, and to the calls.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read.
pub fn causes_between(
    reader: &dyn EventReader,
    stream: &StreamId,
    (first, last): (Version, Version),
) -> Result<Vec<CausedEvent>, ReadError> {
    let mut reading = CauseReader { first, ..CauseReader::default() };
    for_each_page_of(reader, stream, Version(1), |page| {
        for row in page.iter().flat_map(event_rows) {
            if row.version > last {
                return Ok(ControlFlow::Break(()));
            }
            reading.accept_row(&row);
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(reading.events)
}

#[derive(Default)]
struct CauseReader {
    /// The first version that is kept.
    first: Version,
    events: Vec<CausedEvent>,
    summaries: Summaries,
    /// The newest event of each call, approval and turn.
    newest: HashMap<String, Version>,
    /// The append of the newest record, and its first event.
    record: Option<(String, Version)>,
}

impl CauseReader {
    fn accept_row(&mut self, row: &EventRow) {
        let version = row.version;
        let id = id_of(row);
        let own = id.and_then(|id| self.newest.get(id).copied());
        let first = self.record.as_ref().filter(|(set, _)| *set == row.set_id).map(|(_, first)| *first);
        let named = || self.newest.get(&row.causation_id).copied();
        let cause = own.or(first).or_else(named);
        if first.is_none() {
            self.record = Some((row.set_id.clone(), version));
        }
        if let Some(id) = id {
            self.newest.insert(id.to_owned(), version);
        }
        if version < self.first {
            return self.summaries.record(row);
        }
        let words = self.summaries.of(row);
        let outside = match cause {
            Some(before) if before < self.first => format!("v{before}"),
            Some(_) => String::new(),
            None => visible_cut(&row.causation_id, WORDS_COLUMNS_MAX, "…"),
        };
        self.events.push(CausedEvent {
            version,
            at: row.at,
            kind: row.kind,
            text: visible_cut(&words, WORDS_COLUMNS_MAX, "…"),
            is_failed: is_failed(row),
            cause: cause
                .and_then(|cause| self.events.binary_search_by_key(&cause, |event| event.version).ok()),
            outside,
        });
    }
}

/// Returns the id of the call, the approval or the turn that an event tells of.
fn id_of(row: &EventRow) -> Option<&str> {
    match &row.event {
        Ok(AnyEvent::Task(TaskEvent::Call(event))) => Some(event.call_id()),
        Ok(AnyEvent::Task(TaskEvent::ApprovalRequested(asked))) => Some(&asked.approval_id),
        Ok(AnyEvent::Task(TaskEvent::ApprovalDecided(decided))) => Some(&decided.approval_id),
        Ok(AnyEvent::Session(
            SessionEvent::TurnStarted { turn_id, .. }
            | SessionEvent::TurnCommitted { turn_id }
            | SessionEvent::TurnAborted { turn_id, .. },
        )) => Some(turn_id),
        _ => None,
    }
}

fn is_failed(row: &EventRow) -> bool {
    match &row.event {
        Err(_) => true,
        Ok(AnyEvent::Task(TaskEvent::StateChanged { to, .. })) => *to == TaskState::Failed,
        Ok(AnyEvent::Task(TaskEvent::Call(event))) => matches!(
            event,
            CallEvent::Failed { .. }
                | CallEvent::RetryScheduled { .. }
                | CallEvent::TimedOut { .. }
                | CallEvent::OutcomeUnknown { .. }
        ),
        Ok(AnyEvent::Session(event)) => {
            matches!(event, SessionEvent::TurnAborted { .. } | SessionEvent::SummaryFailed { .. })
        }
        Ok(_) => false,
    }
}

#[cfg(test)]
mod tests;
