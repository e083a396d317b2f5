//! The automatic compaction of a session, between its turns: once the estimated tokens of the history are above the agent's
//! limit, it is compacted before the next turn is granted. A summary does not keep the next turn waiting.

use actix::Context;
use proto_events::session::Session;
use taskreel_log::context::MessagesEstimate;

use crate::actors::session::actor::SessionActor;
use crate::actors::shared::messages::Cause;
use crate::actors::shared::session_op::SessionOp;
use crate::actors::shared::to_session::ToSession;

/// The tokens of a history as far as they were counted: each message is counted once.
#[derive(Default)]
pub(super) struct WatchedHistory {
    /// The rewrites and messages of the history that was counted.
    rewrites: u64,
    counted: usize,
    estimate: MessagesEstimate,
    /// The version for which a compaction was begun.
    begun: Option<u64>,
}

impl WatchedHistory {
    /// Returns the estimated tokens of a history. A changed system prompt counts as it was.
    fn tokens(&mut self, session: &Session) -> u64 {
        let history = session.history().as_slice();
        if self.rewrites != session.rewrites() || self.counted > history.len() {
            (self.counted, self.estimate) = (0, MessagesEstimate::default());
            self.rewrites = session.rewrites();
        }
        for message in history.get(self.counted..).unwrap_or_default() {
            self.estimate.add(message.role.as_str(), &message.content, message.name.as_deref());
        }
        self.counted = history.len();
        self.estimate.tokens()
    }
}

impl SessionActor {
    /// Begins the automatic compaction if it is due. Returns whether the next turn waits for it.
    pub(super) fn compacts_first(&mut self, ctx: &mut Context<Self>) -> bool {
        let Some(automatic) = &self.shared.agent.auto_compaction else { return false };
        let Some((session, version)) = self.core.between_turns() else { return false };
        if self.watched.begun == Some(version.0) || self.ops.is_summarizing() {
            return false;
        }
        if self.watched.tokens(session) <= automatic.above_tokens {
            return false;
        }
        self.watched.begun = Some(version.0);
        let request = Box::new(automatic.request.clone());
        let op = SessionOp::Compact { request, opens: false, attempt: 1 };
        let cause = Cause::own(format_args!("compact:{version}"), "automatic compaction");
        self.ops.push(ToSession { stream: self.stream.clone(), op, cause, reply: None });
        self.next_op(ctx);
        self.ops.is_deciding
    }
}
