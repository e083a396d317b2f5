//! The operations on a session's history, one after another: each is decided here, or by the task that holds the turn. An
//! operation that asks a model for a summary ends when that returns; the session goes on meanwhile.

use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, AtomicResponse, Context, Handler, Message, WrapFuture};
use proto_events::envelope::Metadata;
use proto_events::id::{Digest, StreamId};
use proto_events::session::Session;
use taskreel_log::api::{Append, AppendError};
use tokio::sync::{mpsc, oneshot};

use crate::actors::entity::{Entity, SetPart};
use crate::actors::session::actor::{SessionActor, answered};
use crate::actors::session::history_queue::{QueuedOperation, RunningSummary};
use crate::actors::session::summarizer::{SummaryResult, summarize};
use crate::actors::shared::messages::{Cause, TaskOp, TaskReply, ToTask};
use crate::actors::shared::session_decision::decide;
use crate::actors::shared::session_op::{ForSession, SessionEffect, SessionOp, SummaryCall, SummaryEnd};
use crate::actors::shared::sleep::sleep_on;
use crate::actors::shared::to_session::{SessionReply, ToSession};
use crate::error::Error;
use crate::limits::SESSION_OP_RECHECK;
use crate::tools::panics::caught;

/// The times that an operation is decided anew after another writer extended the session.
const CONFLICTS_MAX: u32 = 8;

/// The answer of the task that was asked to decide an operation.
#[derive(Message)]
#[rtype(result = "()")]
struct HolderAnswered {
    waiting: QueuedOperation,
    answer: Option<Result<SessionEffect, Error>>,
}

/// The return of a call for a summary.
#[derive(Message)]
#[rtype(result = "()")]
struct SummaryReturned {
    call_id: String,
    attempt: u32,
    returned: SummaryResult,
}

/// An append of what was decided, with what is needed to note it.
struct DecidedAppend {
    append: Append,
    hash: Digest,
    metadata: Metadata,
    effect: SessionEffect,
}

impl SessionActor {
    /// Begins the next operation, unless one is under way.
    pub(super) fn next_op(&mut self, ctx: &mut Context<Self>) {
        if self.ops.is_busy || self.core.must_be_read() {
            return;
        }
        let Some(waiting) = self.ops.next() else { return };
        self.ops.is_busy = true;
        match self.core.answered(&waiting.cause.command_id, waiting.content.as_deref()) {
            Ok(Some(end)) => return self.op_done(waiting, Ok(SessionEffect::Answered(end)), ctx),
            Ok(None) => {}
            Err(error) => return self.op_done(waiting, Err(error), ctx),
        }
        if waiting.content.is_some()
            && !waiting.is_looked_up
            && self.core.may_have_forgotten(&waiting.cause.command_id)
        {
            return self.look_up(waiting, ctx);
        }
        match self.core.holder() {
            Some(task) => self.ask_holder(task, waiting, ctx),
            None => self.decide_here(waiting, ctx),
        }
    }

    /// Looks in the log for an earlier answer.
    fn look_up(&self, mut waiting: QueuedOperation, ctx: &mut Context<Self>) {
        let (store, stream) = (Arc::clone(&self.shared.store), self.stream.clone());
        let id = waiting.cause.command_id.clone();
        let content = waiting.content.clone().unwrap_or_default();
        let found = async move { answered(Entity::<Session>::search(&store, &stream, &id, &content)).await };
        let work = found.into_actor(self).map(move |found, actor: &mut Self, ctx| match found {
            Ok(None) => {
                waiting.is_looked_up = true;
                actor.ops.waiting.push_front(waiting);
                actor.ops.is_busy = false;
                actor.next_op(ctx);
            }
            Ok(Some(end)) => actor.op_done(waiting, Ok(SessionEffect::Answered(end)), ctx),
            Err(error) => actor.op_done(waiting, Err(error), ctx),
        });
        ctx.wait(work);
    }

    fn decide_here(&mut self, waiting: QueuedOperation, ctx: &mut Context<Self>) {
        let shared = Arc::clone(&self.shared);
        let decided = caught(|| {
            let (fence, set_id) = (shared.store.fence(), shared.ports.ids.random());
            let (cause, content) = waiting.recorded_as();
            let metadata = cause.into_metadata(shared.ports.clock.now());
            let entity = self.core.entity()?;
            let effect = decide(entity, &waiting.op, &shared, &metadata)?;
            if !entity.is_pending() {
                return Ok((None, effect));
            }
            let part = entity.part(fence, SetPart::only(set_id), &metadata, content.as_deref())?;
            let hash = part.record.hash();
            let append = Append { fence, set_id, parts: vec![part] };
            let nothing = SessionEffect::Missing;
            Ok((Some(DecidedAppend { append, hash, metadata, effect }), nothing))
        });
        match decided.unwrap_or_else(|panic| Err(Error::Internal(panic))) {
            Ok((None, effect)) => self.op_done(waiting, Ok(effect), ctx),
            Ok((Some(decided), _)) => self.append_decided(waiting, decided, ctx),
            Err(error) => {
                // What was decided before the error is not on disk.
                self.core.forget_if_pending();
                self.op_done(waiting, Err(error), ctx);
            }
        }
    }

    fn append_decided(
        &mut self,
        mut waiting: QueuedOperation,
        decided: DecidedAppend,
        ctx: &mut Context<Self>,
    ) {
        self.ops.is_deciding = true;
        let shared = Arc::clone(&self.shared);
        let id = waiting.cause.command_id.clone();
        let DecidedAppend { append, hash, metadata, effect } = decided;
        let work = async move { answered(async { Ok(shared.append(append, &id).await?) }).await };
        ctx.wait(work.into_actor(self).map(move |appended, actor: &mut Self, ctx| {
            actor.ops.is_deciding = false;
            let end = appended.map(|appended| appended.parts.first().copied());
            match end {
                Ok(Some(committed)) => {
                    actor.core.mark_committed(committed, hash, &metadata);
                    actor.op_done(waiting, Ok(effect), ctx);
                }
                Ok(None) => {
                    actor.core.forget();
                    let error = Error::Internal("an append was answered without its end".to_owned());
                    actor.op_done(waiting, Err(error), ctx);
                }
                Err(Error::Append(AppendError::Conflict { .. })) if waiting.conflicts < CONFLICTS_MAX => {
                    actor.core.forget();
                    waiting.conflicts += 1;
                    actor.op_again(waiting, ctx);
                }
                Err(error) => {
                    actor.core.forget();
                    actor.op_done(waiting, Err(error), ctx);
                }
            }
        }));
    }

    /// Has the task that holds the turn decide.
    fn ask_holder(&self, task: StreamId, waiting: QueuedOperation, ctx: &Context<Self>) {
        let (tell, mut told) = mpsc::unbounded_channel();
        let (reply, done) = oneshot::channel::<TaskReply>();
        let (cause, content) = waiting.recorded_as();
        let op = ForSession { session: self.stream.clone(), op: waiting.op.clone(), content, tell };
        let cause = Cause { may_repeat: false, content: None, ..cause };
        let op = TaskOp::OfSession(Box::new(op));
        self.shared.to_task.do_send(Box::new(ToTask { stream: task, op, cause, reply: Some(reply) }));
        let own = ctx.address();
        actix_rt::spawn(async move {
            let answer = match done.await {
                Ok(Ok(_)) => told.try_recv().ok().map(Ok),
                Ok(Err(not_done)) => Some(Err(not_done.error)),
                // The task's actor has ended: its lease comes back.
                Err(_) => None,
            };
            own.do_send(HolderAnswered { waiting, answer });
        });
    }

    /// Decides an operation again, after a moment: the state has changed.
    fn op_again(&mut self, waiting: QueuedOperation, ctx: &mut Context<Self>) {
        self.ops.waiting.push_front(waiting);
        let clock = Arc::clone(&self.shared.ports.clock);
        let later = async move { sleep_on(&clock, SESSION_OP_RECHECK).await }.into_actor(self);
        ctx.spawn(later.map(|(), actor: &mut Self, ctx| {
            actor.ops.is_busy = false;
            ctx.notify(NextOp);
        }));
    }

    /// Ends an operation: its reply, or the call for a summary that follows from it.
    fn op_done(
        &mut self,
        waiting: QueuedOperation,
        effect: Result<SessionEffect, Error>,
        ctx: &mut Context<Self>,
    ) {
        let QueuedOperation { op, cause, reply, content, .. } = waiting;
        match effect {
            Ok(SessionEffect::Summarize(call)) => {
                let call = *call;
                self.ops.await_summary(&cause.command_id, content);
                let summarizing = RunningSummary { op, cause, reply, again: None };
                self.summarize(call, summarizing, ctx);
            }
            effect => {
                if matches!(op, SessionOp::Compact { .. }) && reply.is_none() {
                    self.automatic_ended();
                }
                if matches!(op, SessionOp::Compact { attempt: 2.., .. }) {
                    self.ops.summary_over(&cause.command_id);
                }
                if let Err(error) = &effect
                    && reply.is_none()
                {
                    tracing::error!(stream = %self.stream, %error, "a session's history could not be changed");
                }
                let reply = match op {
                    SessionOp::EndSummary { call_id, .. } => self.summary_ended(&call_id, &effect, ctx),
                    _ => reply,
                };
                // A caller that went away hears nothing.
                let _ = reply.map(|reply| reply.send(effect));
            }
        }
        self.ops.is_busy = false;
        ctx.notify(NextOp);
        self.note_idle();
    }

    /// Asks the model, now that the intent is on disk.
    fn summarize(&mut self, call: SummaryCall, summarizing: RunningSummary, ctx: &Context<Self>) {
        let SummaryCall { call_id, request } = call;
        let attempt = match &summarizing.op {
            SessionOp::Compact { attempt, .. } => *attempt,
            _ => 1,
        };
        self.ops.summaries.insert(call_id.clone(), summarizing);
        let clock = Arc::clone(&self.shared.ports.clock);
        let work = summarize(Arc::clone(&self.shared.agent), clock, request, attempt);
        let asked = self.shared.calls.spawn(work);
        let own = ctx.address();
        actix_rt::spawn(async move {
            let returned = asked.await.unwrap_or_else(|_| SummaryResult::lost());
            own.do_send(SummaryReturned { call_id, attempt, returned });
        });
    }

    /// Takes the end of a call for a summary and returns the reply that is owed, unless another call is made.
    fn summary_ended(
        &mut self,
        call_id: &str,
        effect: &Result<SessionEffect, Error>,
        ctx: &mut Context<Self>,
    ) -> Option<SessionReply> {
        let RunningSummary { op, cause, reply, again } = self.ops.summaries.remove(call_id)?;
        if reply.is_none() {
            self.automatic_ended();
        }
        let (Ok(SessionEffect::Failed(_)), SessionOp::Compact { request, opens, attempt }, Some(delay)) =
            (effect, op, again)
        else {
            self.ops.summary_over(&cause.command_id);
            return reply;
        };
        let op = SessionOp::Compact { request, opens, attempt: attempt + 1 };
        let next = ToSession { stream: self.stream.clone(), op, cause, reply };
        let clock = Arc::clone(&self.shared.ports.clock);
        let later = async move { sleep_on(&clock, delay).await }.into_actor(self);
        self.ops.delayed += 1;
        ctx.spawn(later.map(|(), actor: &mut Self, ctx| {
            actor.ops.delayed -= 1;
            ctx.notify(OwnOp(next));
        }));
        None
    }
}

/// The actor's order to itself to begin the next operation.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct NextOp;

impl Handler<NextOp> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, _: NextOp, _: &mut Self::Context) -> Self::Result {
        self.once_read(|actor, read, ctx| {
            match read {
                Ok(()) => actor.next_op(ctx),
                Err(error) => actor.ops_fail(&error),
            }
            // A turn may have waited for the operation. While the session cannot be read, it is tried again later.
            actor.grant_next(ctx);
        })
    }
}

impl SessionActor {
    /// Fails what waits: the session cannot be read.
    fn ops_fail(&mut self, error: &Error) {
        tracing::error!(stream = %self.stream, %error, "a session could not be read");
        // One that fails may put others in front, which waited for its end.
        while let Some(QueuedOperation { op, cause, reply, .. }) = self.ops.waiting.pop_front() {
            let why = Error::Stalled { stream: self.stream.to_string(), why: error.to_string() };
            self.op_fails(&op, &cause.command_id, reply, why);
        }
    }

    /// Fails an operation about which nothing can be decided. The end of a call for a summary has no reply of its own: the
    /// call is over with it, and the caller that asked for the summary is answered. Its intent stays open in the log, and gives way
    /// to the next one.
    fn op_fails(&mut self, op: &SessionOp, command_id: &str, reply: Option<SessionReply>, error: Error) {
        let reply = match op {
            SessionOp::EndSummary { call_id, .. } => {
                let asked = self.ops.summaries.remove(call_id);
                asked.and_then(|RunningSummary { cause, reply, .. }| {
                    self.ops.summary_over(&cause.command_id);
                    reply
                })
            }
            SessionOp::Compact { attempt: 2.., .. } => {
                self.ops.summary_over(command_id);
                reply
            }
            _ => reply,
        };
        // A caller that went away hears nothing.
        let _ = reply.map(|reply| reply.send(Err(error)));
    }

    fn take_op(&mut self, message: ToSession, read: Result<(), Error>, ctx: &mut Context<Self>) {
        match read {
            Ok(()) => {
                self.ops.push(message);
                self.next_op(ctx);
            }
            Err(error) => {
                self.op_fails(&message.op, &message.cause.command_id, message.reply, error);
                // What waited for its end is decided, or fails, next.
                ctx.notify(NextOp);
            }
        }
    }
}

impl Handler<ToSession> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: ToSession, _: &mut Self::Context) -> Self::Result {
        self.once_read(move |actor, read, ctx| {
            actor.idle.carried_out();
            actor.take_op(message, read, ctx);
        })
    }
}

/// An operation that the actor sends itself: the supervisor has not counted it.
#[derive(Message)]
#[rtype(result = "()")]
struct OwnOp(ToSession);

impl Handler<OwnOp> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, OwnOp(message): OwnOp, _: &mut Self::Context) -> Self::Result {
        self.once_read(move |actor, read, ctx| actor.take_op(message, read, ctx))
    }
}

impl Handler<HolderAnswered> for SessionActor {
    type Result = ();

    fn handle(&mut self, message: HolderAnswered, ctx: &mut Self::Context) {
        let HolderAnswered { waiting, answer } = message;
        match answer {
            Some(Ok(SessionEffect::NotHeld)) | None => self.op_again(waiting, ctx),
            Some(answer) => self.op_done(waiting, answer, ctx),
        }
    }
}

impl Handler<SummaryReturned> for SessionActor {
    type Result = ();

    fn handle(&mut self, message: SummaryReturned, ctx: &mut Self::Context) {
        let SummaryReturned { call_id, attempt, returned } = message;
        let Some(asked) = self.ops.summaries.get_mut(&call_id) else { return };
        asked.again = returned.again;
        let has_summary = matches!(&returned.end, SummaryEnd::Received { summary: Some(_), .. });
        // The caller's command has its effect with the summary alone; after anything else it may be sent again.
        let cause = if has_summary {
            Cause { content: asked.cause.may_repeat.then(|| asked.op.content()), ..asked.cause.clone() }
        } else {
            let own = Cause::from_system(format_args!("summary:{call_id}:{attempt}"), &call_id);
            Cause { principal: asked.cause.principal.clone(), ..own }
        };
        let (stream, op) = (self.stream.clone(), SessionOp::EndSummary { call_id, end: returned.end });
        ctx.notify(OwnOp(ToSession { stream, op, cause, reply: None }));
    }
}
