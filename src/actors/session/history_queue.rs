//! The operations on a session's history that are not done: those that wait, and the calls for summaries in flight.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::actors::shared::messages::Cause;
use crate::actors::shared::session_op::SessionOp;
use crate::actors::shared::to_session::{SessionReply, ToSession};
use crate::error::Error;

/// An operation that waits for its turn, and how often it met another writer.
pub(super) struct QueuedOperation {
    pub(super) op: SessionOp,
    pub(super) cause: Cause,
    pub(super) reply: Option<SessionReply>,
    pub(super) content: Option<Vec<u8>>,
    pub(super) conflicts: u32,
    /// Whether the log was asked for an earlier answer.
    pub(super) is_looked_up: bool,
}

/// The operations of a session that are not done.
#[derive(Default)]
pub(super) struct HistoryOps {
    pub(super) waiting: VecDeque<QueuedOperation>,
    /// Whether one is under way.
    pub(super) is_busy: bool,
    /// Whether one is decided and not on disk: the session is not handed out then.
    pub(super) is_deciding: bool,
    /// The calls for summaries in flight.
    pub(super) summaries: HashMap<String, RunningSummary>,
    /// The number of calls for summaries that are made again after a delay.
    pub(super) delayed: usize,
    /// The commands of callers whose summaries are awaited, by their ids.
    pub(super) awaited: HashMap<String, AwaitedCommand>,
}

/// A command whose summary is awaited. It is recorded with the summary, so that until then only this knows of it.
pub(super) struct AwaitedCommand {
    content: Vec<u8>,
    /// The repetitions of the command: they are decided once the summary has its end.
    repeated: Vec<QueuedOperation>,
}

/// A call for a summary in flight: the operation that it was made for.
pub(super) struct RunningSummary {
    pub(super) op: SessionOp,
    pub(super) cause: Cause,
    pub(super) reply: Option<SessionReply>,
    /// The delay after which another call is made if this one has failed.
    pub(super) again: Option<Duration>,
}

impl QueuedOperation {
    /// Returns the cause under which the operation is recorded, and the content of its command.
    pub(super) fn recorded_as(&self) -> (Cause, Option<Vec<u8>>) {
        let SessionOp::Compact { attempt, .. } = &self.op else {
            return (self.cause.clone(), self.content.clone());
        };
        if !self.op.may_ask() {
            return (self.cause.clone(), self.content.clone());
        }
        let id = &self.cause.command_id;
        let own = Cause::from_system(format_args!("summary:{id}:intent:{attempt}"), id);
        let (principal, correlation_id) = (self.cause.principal.clone(), self.cause.correlation_id.clone());
        (Cause { correlation_id, principal, ..own }, None)
    }
}

impl HistoryOps {
    /// Whether nothing is owed to anybody.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.is_busy && !self.is_summarizing()
    }

    /// Whether a call for a summary is in flight.
    pub(super) fn is_summarizing(&self) -> bool {
        !self.summaries.is_empty() || self.delayed > 0
    }

    /// Notes that the command of an operation has its model asked. One of the session itself is never repeated.
    pub(super) fn await_summary(&mut self, command_id: &str, content: Option<Vec<u8>>) {
        if let Some(content) = content {
            let awaited = AwaitedCommand { content, repeated: Vec::new() };
            self.awaited.insert(command_id.to_owned(), awaited);
        }
    }

    /// Returns the next operation. One that repeats a command whose summary is awaited is set aside, and one that has the id of
    /// such a command and another content is refused.
    pub(super) fn next(&mut self) -> Option<QueuedOperation> {
        loop {
            let waiting = self.waiting.pop_front()?;
            // The end of a summary has the id of the command too.
            let is_command = !matches!(waiting.op, SessionOp::EndSummary { .. });
            let Some(content) = waiting.content.as_ref().filter(|_| is_command) else { return Some(waiting) };
            match self.awaited.get_mut(&waiting.cause.command_id) {
                None => return Some(waiting),
                Some(awaited) if awaited.content == *content => awaited.repeated.push(waiting),
                Some(_) => {
                    let error = Error::CommandIdReused { command_id: waiting.cause.command_id };
                    // A caller that went away hears nothing.
                    let _ = waiting.reply.map(|reply| reply.send(Err(error)));
                }
            }
        }
    }

    /// Notes the end of a command's summary: the repetitions of the command are next.
    pub(super) fn summary_over(&mut self, command_id: &str) {
        let repeated = self.awaited.remove(command_id).map(|awaited| awaited.repeated);
        for waiting in repeated.into_iter().flatten().rev() {
            self.waiting.push_front(waiting);
        }
    }

    pub(super) fn push(&mut self, message: ToSession) {
        let ToSession { stream: _, op, cause, reply } = message;
        let is_first = !matches!(op, SessionOp::Compact { attempt: 2.., .. });
        let own = || cause.may_repeat.then(|| op.content());
        let content = cause.content.clone().or_else(own).filter(|_| is_first);
        self.waiting.push_back(QueuedOperation {
            op,
            cause,
            reply,
            content,
            conflicts: 0,
            is_looked_up: false,
        });
    }
}
