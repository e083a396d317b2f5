//! The replies of a task's actor: to the sender of an operation, and to callers that wait for the end of a run.

use proto_events::envelope::Committed;
use proto_events::id::{Position, Version};

use crate::actors::shared::messages::TaskView;
use crate::actors::task::actor::TaskActor;
use crate::actors::task::pending_reply::{PendingReply, ReplyWhen};
use crate::error::Error;

/// The end of a stream that has no event.
const NOWHERE: Committed = Committed { version: Version(0), position: Position(0) };

impl TaskActor {
    pub(super) fn answer(&mut self, asked: PendingReply, at_once: bool) {
        let Some(reply) = asked.reply else { return };
        let core = self.core.as_ref();
        let exists = core.is_some_and(|core| core.task().exists());
        let _ = match asked.when {
            ReplyWhen::Queried | ReplyWhen::RunEnded | ReplyWhen::DecidedAndEnded if !exists => {
                reply.send(Err(Error::TaskNotFound(self.stream.id()).into()))
            }
            ReplyWhen::RunEnded | ReplyWhen::DecidedAndEnded
                if !core.is_some_and(|core| core.is_at_rest()) =>
            {
                if self.stalled.is_some() {
                    let _ = reply.send(Err(self.stall().into()));
                    return;
                }
                self.waiters.push(reply);
                return;
            }
            ReplyWhen::Decided if !at_once => return self.shared.replies.add(reply, Ok(self.committed())),
            ReplyWhen::DecidedAndEnded if !at_once => return self.shared.replies.add(reply, Ok(self.view())),
            ReplyWhen::Decided => reply.send(Ok(self.committed())),
            ReplyWhen::Queried | ReplyWhen::RunEnded | ReplyWhen::DecidedAndEnded => {
                reply.send(Ok(self.view()))
            }
        };
    }

    /// Returns the task, for a query.
    pub(super) fn view(&self) -> TaskView {
        let end = self.core.as_ref().map_or(NOWHERE, |core| core.end_on_disk());
        TaskView { task: self.core.as_ref().map(|core| core.shared_task()), committed: end }
    }

    /// Returns the answer to a command.
    pub(super) fn committed(&self) -> TaskView {
        TaskView { task: None, committed: self.core.as_ref().map_or(NOWHERE, |core| core.committed()) }
    }
}
