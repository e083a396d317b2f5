//! The trace of a session: its own calls, and the tasks that belong to it.

use proto_events::codec::AnyEvent;
use proto_events::id::StreamId;
use proto_events::session::SessionEvent;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::views::event_row::EventRow;
use crate::views::filter::session_of;
use crate::views::trace::node::TraceKind;
use crate::views::trace::trace_reader::TraceReader;
use crate::views::view::task_rows;

/// Returns the tasks of a session, in the order of their ids: those that name it, and the one that has its id and names none.
///
/// # Errors
/// [`ReadError`] if the tasks of the log cannot be read.
pub(super) fn tasks_of(reader: &dyn EventReader, session: &StreamId) -> Result<Vec<StreamId>, ReadError> {
    let (agent, id) = (session.agent(), session.id());
    let is_of = |row: &crate::views::view::TaskRow| {
        row.stream.agent() == agent && session_of(&row.stream, row.session.as_deref()) == id
    };
    Ok(task_rows(reader)?.rows.into_iter().filter(is_of).map(|row| row.stream).collect())
}

impl TraceReader {
    /// Takes an event of a session: its turns are the tasks', the calls for summaries its own.
    pub(super) fn take_session(&mut self, row: &EventRow) {
        let Ok(AnyEvent::Session(event)) = &row.event else { return };
        match event {
            SessionEvent::Opened { .. } => self.set(0, |node| "at rest".clone_into(&mut node.state)),
            SessionEvent::TurnStarted { task, .. } => {
                let task = StreamId::parse(task).map_or_else(|_| task.clone(), |stream| stream.id());
                self.set(0, |node| node.state = format!("task {task} holds the turn"));
            }
            SessionEvent::TurnCommitted { .. } | SessionEvent::TurnAborted { .. } => {
                self.set(0, |node| "at rest".clone_into(&mut node.state));
            }
            SessionEvent::SummaryRequested(asked) => {
                self.add_call(row, TraceKind::Infer, asked.target.clone(), &asked.call_id);
            }
            SessionEvent::SummaryReceived { call_id, usage, .. } => {
                self.answered(row, call_id, None, *usage);
            }
            SessionEvent::SummaryFailed { call_id, error_type, message, usage } => {
                self.answered(row, call_id, Some(format!("{error_type}: {message}")), *usage);
            }
            _ => {}
        }
    }
}
