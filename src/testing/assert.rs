//! Promise 6 on a whole log: a conversation is well formed at every event.

use std::collections::BTreeMap;

use proto_events::call::{CallEvent, CallKind, CallRequested};
use proto_events::decider::Decider;
use proto_events::id::{Category, Position, StreamId};
use proto_events::session::{Session, SessionEvent};
use proto_events::task::{Task, TaskEvent};
use proto_events::turn::Turn;
use taskreel_log::api::{EventReader, StoredRecord};
use taskreel_log::audit::verify;
use taskreel_log::read::{decode_record, for_each_record};

use crate::error::Error;

/// The states of all streams of a log at one position.
#[derive(Default)]
struct Streams {
    tasks: BTreeMap<StreamId, Task>,
    sessions: BTreeMap<StreamId, Session>,
    faults: Vec<String>,
}

/// Returns the faults of a log: each fault that [`verify()`] finds, and each position at which an inference
/// was requested while a tool call of its conversation had no answer, or a turn with such a call was
/// committed. All streams are folded together, in the order of the log, and checked after each event.
///
/// # Errors
/// Errors of reading the log.
pub fn ill_formed(log: &dyn EventReader) -> Result<Vec<String>, Error> {
    let mut streams = Streams::default();
    for finding in verify(log).findings {
        let place = finding.position.unwrap_or_default();
        streams.faults.push(format!("position {place}: {}: {}", finding.kind, finding.what));
    }
    for_each_record(log, Position(1), |stored| streams.accept_record(stored))?;
    Ok(streams.faults)
}

/// Panics with all faults that [`ill_formed`] finds.
///
/// # Panics
/// If there is a fault, or the log cannot be read.
pub fn assert_well_formed(log: &dyn EventReader) {
    match ill_formed(log) {
        Ok(faults) => assert!(faults.is_empty(), "the log is not well formed:\n{}", faults.join("\n")),
        Err(error) => panic!("the log cannot be read: {error}"),
    }
}

impl Streams {
    fn accept_record(&mut self, stored: &StoredRecord) -> Result<(), Error> {
        let stream = &stored.record.stream;
        match stream.category() {
            Some(Category::Task) => {
                for recorded in decode_record::<TaskEvent>(stored)? {
                    if let TaskEvent::Call(CallEvent::Requested(request)) = &recorded.event {
                        self.intent(stream, request, recorded.position);
                    }
                    let task = self.tasks.entry(stream.clone()).or_default();
                    task.evolve(&recorded.event, &recorded.metadata);
                }
            }
            Some(Category::Session) => {
                for recorded in decode_record::<SessionEvent>(stored)? {
                    if let SessionEvent::TurnCommitted { turn_id } = &recorded.event {
                        self.commit(stream, turn_id, recorded.position);
                    }
                    let session = self.sessions.entry(stream.clone()).or_default();
                    session.evolve(&recorded.event, &recorded.metadata);
                }
            }
            Some(
                Category::Tool | Category::System | Category::Agent | Category::Flow | Category::Registry,
            )
            | None => {}
        }
        Ok(())
    }

    /// Checks the intent of an inference: its messages must be complete, and its task must hold the turn.
    fn intent(&mut self, task: &StreamId, request: &CallRequested, at: Position) {
        let Some(prompt) = request.prompt.as_ref().filter(|_| request.kind == CallKind::Infer) else {
            return;
        };
        let id = &request.call_id;
        let open = match &prompt.session {
            None => self.tasks.get(task).and_then(|task| unanswered(task.turn())),
            Some(name) => {
                let session = self.sessions.iter().find(|(stream, _)| stream.as_str() == name.as_str());
                let turn = session.and_then(|(_, session)| session.open_turn());
                match turn.filter(|turn| turn.task == task.as_str()) {
                    None => {
                        let fault =
                            format!("position {at}: `{id}` reads {name}, but {task} does not hold its turn");
                        return self.faults.push(fault);
                    }
                    Some(turn) => unanswered(&turn.turn),
                }
            }
        };
        if let Some(open) = open {
            let fault =
                format!("position {at}: `{id}` is requested while the tool call `{open}` has no result");
            self.faults.push(fault);
        }
    }

    fn commit(&mut self, stream: &StreamId, turn_id: &str, at: Position) {
        let turn = self.sessions.get(stream).and_then(Session::open_turn);
        if let Some(open) = turn.and_then(|turn| unanswered(&turn.turn)) {
            let fault = format!(
                "position {at}: turn `{turn_id}` is committed while the tool call `{open}` has no result"
            );
            self.faults.push(fault);
        }
    }
}

fn unanswered(turn: &Turn) -> Option<String> {
    turn.unanswered().first().cloned()
}
