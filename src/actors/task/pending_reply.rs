//! A reply that a task's actor owes.

use tokio::sync::oneshot;

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
