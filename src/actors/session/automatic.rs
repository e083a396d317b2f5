//! The automatic compaction of a session, between its turns: once the estimated tokens of the history are above the agent's
//! limit, it is compacted before the next turn is granted. A summary does not keep the next turn waiting.

use actix::Context;

use crate::actors::session::actor::SessionActor;
use crate::actors::session::history_size::BegunCompaction;
use crate::actors::shared::messages::Cause;
use crate::actors::shared::session_op::SessionOp;
use crate::actors::shared::to_session::ToSession;

impl SessionActor {
    /// Begins the automatic compaction if it is due. Returns whether the next turn waits for it.
    pub(super) fn compacts_first(&mut self, ctx: &mut Context<Self>) -> bool {
        let Some(automatic) = &self.shared.agent.auto_compaction else { return false };
        let Some((session, version)) = self.core.between_turns() else { return false };
        if let Some(begun) = &mut self.watched.begun {
            // What it left may be above the limit, and a model that has failed may fail again.
            if std::mem::take(&mut begun.has_ended) && begun.commits == session.commits() {
                begun.rewrites = session.rewrites();
            }
            if (begun.commits, begun.rewrites) == (session.commits(), session.rewrites()) {
                return false;
            }
        }
        if self.ops.is_summarizing() || self.shared.is_stopping() {
            return false;
        }
        if self.watched.tokens(session) <= automatic.above_tokens {
            return false;
        }
        let (commits, rewrites) = (session.commits(), session.rewrites());
        self.watched.begun = Some(BegunCompaction { commits, rewrites, has_ended: false });
        let request = Box::new(automatic.request.clone());
        let op = SessionOp::Compact { request, opens: false, attempt: 1 };
        let cause = Cause::from_system(format_args!("compact:{version}"), "automatic compaction");
        self.ops.push(ToSession { stream: self.stream.clone(), op, cause, reply: None });
        self.next_op(ctx);
        self.ops.is_deciding
    }

    /// Notes that an automatic compaction has ended, whatever happened to it: no other begins before the history has changed
    /// otherwise. A turn that was committed meanwhile is such a change; an aborted one is not.
    pub(super) fn automatic_ended(&mut self) {
        if let Some(begun) = &mut self.watched.begun {
            begun.has_ended = true;
        }
    }
}
