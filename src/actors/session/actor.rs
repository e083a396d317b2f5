//! The actor of a session: it carries messages to [`SessionCore`] and performs what comes out. A task appends its events to the
//! session's stream together with its own. The actor itself appends only operations on the
//! history, and the end of a turn whose task is over and cannot end it any more.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, AtomicResponse, Context, Handler, Message, WrapFuture,
};
use proto_events::id::StreamId;
use tokio::sync::oneshot;

use crate::actors::entity::Entity;
use crate::actors::seed::Seed;
use crate::actors::session::core::{OrphanEnd, SessionCore, SessionWish, TurnOffer, TurnRequest};
use crate::actors::session::history_queue::HistoryOps;
use crate::actors::session::history_size::WatchedHistory;
use crate::actors::shared::idle_actors::{IdleActors, Idleness};
use crate::actors::shared::idle_state::IdleState;
use crate::actors::shared::live_actors::{BecameIdle, Passivate};
use crate::actors::shared::messages::{Cause, NotDone, TaskOp, ToTask};
use crate::actors::shared::parts::Shared;
use crate::actors::shared::sleep::sleep_on;
use crate::actors::shared::turns::{
    AcquireTurn, LookAtSession, ReleaseTurn, SessionAppended, TurnGrant, TurnLease,
};
use crate::error::Error;
use crate::limits::{MAILBOX_COMMANDS, TURN_OWNER_RECHECK};
use crate::tools::panics::caught_in;

/// The actor of one session's stream.
pub(crate) struct SessionActor {
    pub(super) shared: Arc<Shared>,
    pub(super) stream: StreamId,
    pub(super) idle: Rc<IdleState>,
    idle_actors: IdleActors,
    pub(super) core: SessionCore,
    /// The operations on the history beside the turns.
    pub(super) ops: HistoryOps,
    /// The history as it was when it was last looked at for its automatic compaction.
    pub(super) watched: WatchedHistory,
}

/// The reply of the task that holds an open turn: whether it still runs.
#[derive(Message)]
#[rtype(result = "()")]
struct TurnOwnerReply {
    turn_id: String,
    is_running: bool,
}

/// The actor's order to itself to read its session, if it must, and to grant the next turn.
#[derive(Message)]
#[rtype(result = "()")]
struct GrantNext;

impl SessionActor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        stream: StreamId,
        idle: Rc<IdleState>,
        idle_actors: IdleActors,
    ) -> Self {
        let (core, ops, watched) = (SessionCore::default(), HistoryOps::default(), WatchedHistory::default());
        Self { shared, stream, idle, idle_actors, core, ops, watched }
    }

    /// Notes whether the actor can be passivated.
    pub(super) fn note_idle(&self) {
        let is_idle = self.core.is_idle() && self.ops.is_idle();
        self.idle.set_idle(is_idle);
        if is_idle {
            self.idle_actors.put_last(&self.stream, &self.idle, Idleness::Rests);
        } else {
            self.idle_actors.remove(&self.idle);
        }
        if is_idle && self.shared.crowded.load(Ordering::Relaxed) {
            self.shared.became_idle.do_send(BecameIdle { stream: self.stream.clone() });
        }
    }

    /// Grants the turn to the next task that still wants it.
    pub(super) fn grant_next(&mut self, ctx: &mut Context<Self>) {
        if self.ops.is_deciding || self.compacts_first(ctx) {
            return;
        }
        match self.core.grant_next() {
            Some(SessionWish::Grant(offer)) => self.grant(*offer, ctx),
            Some(SessionWish::AskOwner { task, turn_id }) => self.ask_owner(task, turn_id, ctx),
            Some(SessionWish::Later) => self.grant_later(ctx),
            None => {}
        }
    }

    fn grant(&self, offer: TurnOffer, ctx: &Context<Self>) {
        let TurnOffer { turn_id, session, version, position, last_hash, reply } = offer;
        let lease = Arc::new(TurnLease {
            turn_id: turn_id.clone(),
            release: ctx.address().recipient(),
            appended: ctx.address().recipient(),
            in_doubt: AtomicBool::new(false),
        });
        let stream = self.stream.clone();
        // A caller that went away drops the grant, and with it the lease, which comes back as
        // ReleaseTurn.
        let _ = reply.send(Ok(TurnGrant { stream, turn_id, session, version, position, last_hash, lease }));
    }

    /// Grants the next turn after a delay.
    fn grant_later(&self, ctx: &mut Context<Self>) {
        let clock = Arc::clone(&self.shared.ports.clock);
        let later = async move { sleep_on(&clock, TURN_OWNER_RECHECK).await }.into_actor(self);
        ctx.spawn(later.map(|(), _: &mut Self, ctx| ctx.notify(GrantNext)));
    }

    /// Asks the owner of an open turn that no task holds whether it still runs.
    fn ask_owner(&self, stream: StreamId, turn_id: String, ctx: &Context<Self>) {
        let (reply, answer) = oneshot::channel();
        let cause = Cause::default();
        self.shared.to_task.do_send(Box::new(ToTask { stream, op: TaskOp::Look, cause, reply: Some(reply) }));
        let own = ctx.address();
        actix_rt::spawn(async move {
            let is_running = match answer.await {
                Ok(Ok(view)) => view.task.is_some_and(|task| task.run().is_some()),
                Ok(Err(NotDone { error: Error::TaskNotFound(_), .. })) => false,
                // Not known: the next request for the turn asks again.
                Ok(Err(_)) | Err(_) => true,
            };
            own.do_send(TurnOwnerReply { turn_id, is_running });
        });
    }

    /// Ends a turn that has no owner any more, and grants the next one.
    fn end_orphan(&mut self, turn_id: &str, ctx: &mut Context<Self>) {
        let shared = Arc::clone(&self.shared);
        let decided = crate::tools::panics::caught(|| {
            let now = (shared.store.fence(), shared.ports.ids.random(), shared.ports.clock.now());
            self.core.end_orphan(turn_id, now, &mut shared.ports.clone())
        });
        let end = match decided.unwrap_or_else(|panic| Err(Error::Internal(panic))) {
            Ok(end) => end,
            Err(error) => return self.orphan_stays(&error, ctx),
        };
        let work = async move {
            let OrphanEnd { append, .. } = &end;
            let appended =
                answered(async { Ok(shared.append(append.clone(), end.command_id()).await?) }).await;
            (end, appended)
        };
        ctx.wait(work.into_actor(self).map(|(end, appended), actor: &mut Self, ctx| {
            match appended {
                Ok(appended) => {
                    actor.core.orphan_ended(&end, appended.parts.first().copied());
                    actor.grant_next(ctx);
                }
                Err(error) => actor.orphan_stays(&error, ctx),
            }
            actor.note_idle();
        }));
    }

    /// Reads the session again after a while: the end of a turn is not on disk, as far as is known.
    fn orphan_stays(&mut self, error: &Error, ctx: &mut Context<Self>) {
        tracing::error!(%error, "an orphaned turn could not be aborted");
        self.core.forget();
        self.grant_later(ctx);
    }

    /// Calls `then` once the session is read.
    pub(super) fn once_read(
        &mut self,
        then: impl FnOnce(&mut Self, Result<(), Error>, &mut Context<Self>) + 'static,
    ) -> AtomicResponse<Self, ()> {
        let must_be_read = self.core.must_be_read();
        let (shared, stream) = (Arc::clone(&self.shared), self.stream.clone());
        let read = async move {
            if !must_be_read {
                return Ok(None);
            }
            Entity::recover(&shared.store, stream, Seed::draw(&shared.ports)).await.map(Some)
        };
        let work = answered(read).into_actor(self).map(move |read, actor: &mut Self, ctx| {
            let read = read.map(|entity| entity.into_iter().for_each(|entity| actor.core.put_read(entity)));
            then(actor, read, ctx);
            actor.note_idle();
        });
        AtomicResponse::new(Box::pin(work))
    }
}

/// Returns the answer of work that may panic, as a host's store or clock does. The actor then reads its session again.
pub(super) async fn answered<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let panicked = |panic| Err(Error::Internal(format!("work on a session panicked: {panic}")));
    caught_in(work).await.unwrap_or_else(panicked)
}

impl Drop for SessionActor {
    fn drop(&mut self) {
        self.idle_actors.remove(&self.idle);
    }
}

impl Actor for SessionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX_COMMANDS);
    }
}

impl Handler<AcquireTurn> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: AcquireTurn, ctx: &mut Self::Context) -> Self::Result {
        let AcquireTurn { session: _, task, turn_id, at_once, reply } = message;
        if at_once {
            // What is due before a turn, such as a compaction, began when the last turn ended or the session was read.
            if let Some(SessionWish::Grant(offer)) =
                self.core.grant_at_once(TurnRequest { task, turn_id, reply })
            {
                self.grant(*offer, ctx);
            }
            self.idle.carried_out();
            self.note_idle();
            return AtomicResponse::new(Box::pin(std::future::ready(()).into_actor(self)));
        }
        self.once_read(move |actor, read, ctx| {
            actor.idle.carried_out();
            match read {
                Ok(()) => {
                    actor.core.enqueue(TurnRequest { task, turn_id, reply });
                    actor.grant_next(ctx);
                }
                Err(error) => {
                    let _ = reply.send(Err(error));
                }
            }
        })
    }
}

impl Handler<GrantNext> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, _: GrantNext, _: &mut Self::Context) -> Self::Result {
        self.once_read(|actor, read, ctx| {
            if let Err(error) = read {
                tracing::error!(%error, "a session could not be read; it is tried again");
            }
            actor.grant_next(ctx);
        })
    }
}

impl Handler<ReleaseTurn> for SessionActor {
    type Result = ();

    fn handle(&mut self, message: ReleaseTurn, ctx: &mut Self::Context) {
        self.core.take_back(&message.turn_id, message.in_doubt);
        if message.in_doubt {
            ctx.notify(GrantNext);
        } else {
            self.grant_next(ctx);
        }
        self.note_idle();
    }
}

impl Handler<Passivate> for SessionActor {
    type Result = ();

    fn handle(&mut self, _: Passivate, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<TurnOwnerReply> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: TurnOwnerReply, _: &mut Self::Context) -> Self::Result {
        let TurnOwnerReply { turn_id, is_running } = message;
        self.once_read(move |actor, read, ctx| {
            let is_orphan = actor.core.owner_answered(&turn_id, is_running);
            match read {
                Err(error) => actor.orphan_stays(&error, ctx),
                Ok(()) if is_orphan => actor.end_orphan(&turn_id, ctx),
                // The turn is waited for: its task asks for it and ends it, or comes to its end.
                Ok(()) if is_running => actor.grant_later(ctx),
                Ok(()) => actor.grant_next(ctx),
            }
        })
    }
}

impl Handler<SessionAppended> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: SessionAppended, _: &mut Self::Context) -> Self::Result {
        self.core.fold(&message);
        self.once_read(|_, read, _| {
            if let Err(error) = read {
                tracing::error!(%error, "a session could not be recovered");
            }
        })
    }
}

impl Handler<LookAtSession> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: LookAtSession, _: &mut Self::Context) -> Self::Result {
        let LookAtSession { stream: _, reply } = message;
        self.once_read(move |actor, read, _| {
            actor.idle.carried_out();
            let _ = reply.send(read.and_then(|()| actor.core.state_and_end()));
        })
    }
}
