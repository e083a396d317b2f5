//! A reply that a task's actor owes.

use tokio::sync::oneshot;

use crate::actors::shared::durable_reply::DurableReply;
use crate::actors::shared::messages::TaskReply;

/// The event that an operation's sender waits for.
pub(super) enum ReplyWhen {
    Queried,
    RunEnded,
    Decided,
    /// The end of the run that was decided.
    DecidedAndEnded,
}

impl ReplyWhen {
    /// Whether something is decided.
    pub(super) const fn is_decided(&self) -> bool {
        matches!(self, Self::Decided | Self::DecidedAndEnded)
    }
}

/// The reply owed once the operation is carried out.
pub(super) struct PendingReply {
    pub(super) when: ReplyWhen,
    pub(super) reply: Option<oneshot::Sender<TaskReply>>,
}

impl PendingReply {
    /// Takes the reply, if it says no more than where the command's event is: the store's thread may then send it.
    pub(super) fn take_durable(&mut self) -> Option<DurableReply> {
        let is_decided = matches!(self.when, ReplyWhen::Decided);
        self.reply.take_if(|_| is_decided).map(|caller| DurableReply { caller })
    }

    /// Puts a reply back that was not sent.
    pub(super) fn put_back(&mut self, unsent: Option<DurableReply>) {
        self.reply = unsent.map(|reply| reply.caller).or(self.reply.take());
    }
}
