//! The lines of a stream: each event in words, with its call.

use std::collections::HashMap;

use proto_events::call::CallEvent;
use proto_events::codec::AnyEvent;
use proto_events::model::TaskState;
use proto_events::task::TaskEvent;
use taskreel_log::views::{EventRow, Filter, Selection, Summaries};

use crate::tui::data::{CallGroup, EventLine, RunData};
use crate::tui::marks::Sign;

/// The most characters of an event in words: more never fits a screen, and a stream may have 100,000 events.
const WORDS_CHARACTERS: usize = 240;

/// The lines of a stream, as far as it was read.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    /// The lines, and the calls without what came of them.
    pub(super) data: RunData,
    summaries: Summaries,
    selection: Selection,
    /// The places of the calls, by their ids.
    places: HashMap<String, usize>,
}

/// Returns the call that an event tells of.
fn call_of(row: &EventRow) -> Option<&str> {
    match &row.event {
        Ok(AnyEvent::Task(TaskEvent::Call(event))) => Some(event.call_id()),
        Ok(AnyEvent::Task(TaskEvent::ApprovalRequested(asked))) => Some(&asked.call_id),
        _ => None,
    }
}

/// Returns the line of versions that are missing before an event.
fn missing(first: u64, next: &EventRow) -> EventLine {
    EventLine {
        version: first,
        position: next.position.0,
        at: next.at,
        kind: "(damaged)",
        words: format!("v{first} to v{} cannot be read", next.version.0.saturating_sub(1)),
        sign: Sign::Failed,
        call: None,
        is_state: false,
        is_taken: true,
    }
}

/// Returns the beginning of a text, as far as it may be shown in a line.
pub(super) fn beginning(text: &str) -> String {
    text.chars().take(WORDS_CHARACTERS).collect()
}

impl Lines {
    /// Returns no lines of a stream whose events a filter judges.
    pub(super) fn new(filter: Filter) -> Self {
        Self {
            data: RunData::default(),
            summaries: Summaries::default(),
            selection: Selection::new(filter),
            places: HashMap::new(),
        }
    }

    /// Adds the next event.
    pub(super) fn accept_row(&mut self, row: &EventRow) {
        if row.version.0 > self.data.end + 1 {
            self.data.events.push(missing(self.data.end + 1, row));
        }
        let mut line = self.event_line(row);
        let (data, places) = (&mut self.data, &mut self.places);
        line.call = call_of(row).map(|id| {
            *places.entry(id.to_owned()).or_insert_with(|| {
                data.calls.push(CallGroup { id: id.to_owned(), ..CallGroup::default() });
                data.calls.len() - 1
            })
        });
        if let Some(call) = line.call.and_then(|call| data.calls.get_mut(call)) {
            call.events.push(data.events.len());
        }
        data.end = line.version;
        data.events.push(line);
    }

    fn event_line(&mut self, row: &EventRow) -> EventLine {
        let is_failure = matches!(
            &row.event,
            Err(_)
                | Ok(AnyEvent::Task(TaskEvent::Call(
                    CallEvent::Failed { .. } | CallEvent::OutcomeUnknown { .. } | CallEvent::TimedOut { .. }
                )))
        );
        let sign = match &row.event {
            Err(_) => Sign::Failed,
            Ok(AnyEvent::Task(TaskEvent::StateChanged { to, .. })) => match to {
                TaskState::Completed => Sign::Done,
                TaskState::Failed => Sign::Failed,
                TaskState::InputRequired => Sign::Asks,
                TaskState::Canceled => Sign::Ended,
                _ => Sign::Plain,
            },
            Ok(_) if is_failure && row.kind != "CallOutcomeUnknown" => Sign::Failed,
            Ok(_) => Sign::of_event(row.kind),
        };
        let is_state = matches!(
            &row.event,
            Ok(AnyEvent::Task(TaskEvent::StateChanged { .. } | TaskEvent::Submitted(_)))
        );
        EventLine {
            version: row.version.0,
            position: row.position.0,
            at: row.at,
            kind: row.kind,
            words: beginning(&self.summaries.of(row)),
            sign,
            call: None,
            is_state,
            is_taken: self.selection.takes(row),
        }
    }
}
