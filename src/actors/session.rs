//! A session's actor: hands its turn to one task after another, and folds the events that they append to its
//! stream. A task appends them together with its own events. The actor itself appends only the end of a turn
//! whose task is over and cannot end it any more.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, AtomicResponse, Context, Handler, Message, WrapFuture,
};
use proto_events::id::StreamId;
use proto_events::session::{Session, SessionCommand};
use taskreel_log::api::Append;
use tokio::sync::oneshot;

use crate::actors::entity::{Entity, SetPart};
use crate::actors::seed::Seed;
use crate::actors::shared::live_actors::{BecameIdle, IdleState, Passivate};
use crate::actors::shared::messages::{Cause, TaskOp, ToTask};
use crate::actors::shared::parts::Shared;
use crate::actors::shared::sleep::sleep_on;
use crate::actors::shared::turns::{
    AcquireTurn, LookAtSession, ReleaseTurn, SessionAppended, TurnGrant, TurnLease,
};
use crate::error::Error;
use crate::limits::{MAILBOX_COMMANDS, TURN_OWNER_RECHECK};
use crate::tools::panics::caught_in;

/// A task's request for the turn.
struct TurnRequest {
    task: StreamId,
    turn_id: String,
    reply: oneshot::Sender<Result<TurnGrant, Error>>,
}

/// The actor of one session's stream.
pub(crate) struct SessionActor {
    shared: Arc<Shared>,
    stream: StreamId,
    idle: Rc<IdleState>,
    entity: Option<Entity<Session>>,
    /// The task that holds the turn, and the turn's id.
    reserved: Option<(StreamId, String)>,
    waiting: VecDeque<TurnRequest>,
    /// The open turn whose task is being asked whether it still runs.
    checked_turn: Option<String>,
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
    pub(crate) fn new(shared: Arc<Shared>, stream: StreamId, idle: Rc<IdleState>) -> Self {
        let waiting = VecDeque::new();
        Self { shared, stream, idle, entity: None, reserved: None, waiting, checked_turn: None }
    }

    /// Notes whether the actor can be passivated: no task has its turn or waits for it, and none is being
    /// asked whether it still runs. Events appended by the holder of a turn are in the mailbox before the
    /// turn comes back.
    fn note_idle(&self) {
        let is_idle = self.reserved.is_none() && self.waiting.is_empty() && self.checked_turn.is_none();
        self.idle.note(is_idle);
        if is_idle && self.shared.crowded.load(Ordering::Relaxed) {
            self.shared.became_idle.do_send(BecameIdle { stream: self.stream.clone() });
        }
    }

    /// Queues a request. A task that has the turn already asks again only after it lost what it held, and the lease is on
    /// its way back.
    fn enqueue(&mut self, asked: TurnRequest) {
        // An actor that broke and was restarted asks again: the new request replaces the old one in the
        // queue.
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.task == asked.task) {
            *waiting = asked;
            return;
        }
        self.waiting.push_back(asked);
    }

    /// Grants the turn to the next task that still wants it.
    fn grant_next(&mut self, ctx: &mut Context<Self>) {
        let Some(entity) = &self.entity else {
            // The session could not be read, or an event was missed: it is read before the next turn.
            if !self.waiting.is_empty() {
                self.grant_later(ctx);
            }
            return;
        };
        while self.reserved.is_none() {
            // A turn that was open when the process ended belongs to its task and to no other.
            let owner = entity.state().open_turn().map(|open| (open.task.clone(), open.turn_id.clone()));
            let next = match &owner {
                None => (!self.waiting.is_empty()).then_some(0),
                Some((task, _)) => self.waiting.iter().position(|asked| asked.task.as_str() == task),
            };
            let Some(asked) = next.and_then(|at| self.waiting.remove(at)) else {
                if let (Some((task, turn_id)), false) = (owner, self.waiting.is_empty()) {
                    self.check_turn_owner(&task, turn_id, ctx);
                }
                return;
            };
            let turn_id = owner.map_or(asked.turn_id, |(_, turn_id)| turn_id);
            self.reserved = Some((asked.task, turn_id.clone()));
            let lease = Arc::new(TurnLease {
                turn_id: turn_id.clone(),
                release: ctx.address().recipient(),
                appended: ctx.address().recipient(),
                in_doubt: AtomicBool::new(false),
            });
            let grant = TurnGrant {
                stream: entity.stream().clone(),
                turn_id,
                session: entity.state().clone(),
                version: entity.version(),
                position: entity.position(),
                last_hash: entity.last_hash(),
                lease,
            };
            // A caller that went away drops the grant, and with it the lease, which comes back as
            // ReleaseTurn.
            let _ = asked.reply.send(Ok(grant));
        }
    }

    /// Grants the next turn after a delay.
    fn grant_later(&self, ctx: &mut Context<Self>) {
        let clock = Arc::clone(&self.shared.ports.clock);
        let later = async move { sleep_on(&clock, TURN_OWNER_RECHECK).await }.into_actor(self);
        ctx.spawn(later.map(|(), _: &mut Self, ctx| ctx.notify(GrantNext)));
    }

    /// Asks the owner of an open turn that no task holds whether it still runs, since others wait for the
    /// turn.
    fn check_turn_owner(&mut self, task: &str, turn_id: String, ctx: &mut Context<Self>) {
        let Ok(stream) = StreamId::parse(task) else { return };
        if self.checked_turn.as_ref() == Some(&turn_id) {
            return;
        }
        self.checked_turn = Some(turn_id.clone());
        let (reply, answer) = oneshot::channel();
        let cause = Cause::default();
        self.shared.to_task.do_send(ToTask { stream, op: TaskOp::Look, cause, reply: Some(reply) });
        let own = ctx.address();
        actix_rt::spawn(async move {
            let is_running = match answer.await {
                Ok(Ok(view)) => view.task.is_some_and(|task| task.run().is_some()),
                Ok(Err(Error::TaskNotFound(_))) => false,
                // Not known: the next request for the turn asks again.
                Ok(Err(_)) | Err(_) => true,
            };
            own.do_send(TurnOwnerReply { turn_id, is_running });
        });
    }

    /// Aborts a turn that has no owner any more.
    async fn end_orphan(shared: &Shared, entity: &mut Entity<Session>, turn_id: String) -> Result<(), Error> {
        let cause = Cause::own(format_args!("orphan:{turn_id}"), &turn_id);
        let metadata = cause.metadata(shared.ports.clock.now());
        let reason = "its task is over".to_owned();
        entity.decide(SessionCommand::AbortTurn { turn_id, reason }, &metadata)?;
        let (fence, set_id) = (shared.store.fence(), shared.ports.ids.random());
        let part = entity.part(fence, SetPart::only(set_id), &metadata, None)?;
        let hash = part.record.hash();
        let append = Append { fence, set_id, parts: vec![part] };
        let appended = shared.append(append, &metadata.command_id).await?;
        if let Some(committed) = appended.parts.first() {
            entity.mark_committed(*committed, hash, &metadata);
        }
        Ok(())
    }

    /// Calls `then` with the recovered session.
    fn with_entity(
        &mut self,
        then: impl FnOnce(&mut Self, Result<(), Error>, &mut Context<Self>) + 'static,
    ) -> AtomicResponse<Self, ()> {
        let known = self.entity.take();
        let (shared, stream) = (Arc::clone(&self.shared), self.stream.clone());
        let recover = async move {
            match known {
                Some(entity) => Ok(entity),
                None => Entity::recover(&shared.store, stream, Seed::draw(&shared.ports)).await,
            }
        };
        let work = answered(recover).into_actor(self).map(move |recovered, actor: &mut Self, ctx| {
            match recovered {
                Ok(entity) => {
                    actor.entity = Some(entity);
                    then(actor, Ok(()), ctx);
                }
                Err(error) => then(actor, Err(error), ctx),
            }
            actor.note_idle();
        });
        AtomicResponse::new(Box::pin(work))
    }
}

/// Returns the answer of work that may panic, as a host's store or clock does. The actor then reads its session again.
async fn answered<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let panicked = |panic| Err(Error::Internal(format!("work on a session panicked: {panic}")));
    caught_in(work).await.unwrap_or_else(panicked)
}

impl Actor for SessionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX_COMMANDS);
    }
}

impl Handler<AcquireTurn> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: AcquireTurn, _: &mut Self::Context) -> Self::Result {
        let AcquireTurn { session: _, task, turn_id, reply } = message;
        self.with_entity(move |actor, recovered, ctx| {
            actor.idle.carried_out();
            match recovered {
                Ok(()) => {
                    actor.enqueue(TurnRequest { task, turn_id, reply });
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
        self.with_entity(|actor, recovered, ctx| {
            if let Err(error) = recovered {
                tracing::error!(%error, "a session could not be read; it is tried again");
            }
            actor.grant_next(ctx);
        })
    }
}

impl Handler<ReleaseTurn> for SessionActor {
    type Result = ();

    fn handle(&mut self, message: ReleaseTurn, ctx: &mut Self::Context) {
        if self.reserved.as_ref().is_some_and(|(_, turn_id)| *turn_id == message.turn_id) {
            self.reserved = None;
        }
        if message.in_doubt {
            // The session is read before the next turn: what the task had appended when it lost the turn is unknown here.
            self.entity = None;
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
        self.checked_turn = None;
        let known = self.entity.take();
        let reserved = self.reserved.is_some();
        let (shared, session) = (Arc::clone(&self.shared), self.stream.clone());
        let work = async move {
            let mut entity = match known {
                Some(entity) => entity,
                None => Entity::recover(&shared.store, session, Seed::draw(&shared.ports)).await?,
            };
            let still_open = entity.state().open_turn().is_some_and(|open| open.turn_id == turn_id);
            if !is_running && !reserved && still_open {
                Self::end_orphan(&shared, &mut entity, turn_id).await?;
            }
            Ok::<_, Error>(entity)
        };
        let work = answered(work).into_actor(self).map(move |ended, actor: &mut Self, ctx| {
            match ended {
                Ok(entity) => {
                    actor.entity = Some(entity);
                    if is_running {
                        // The turn is waited for: its task asks for it and ends it, or comes to its end.
                        actor.grant_later(ctx);
                    } else {
                        actor.grant_next(ctx);
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "an orphaned turn could not be aborted");
                    actor.grant_later(ctx);
                }
            }
            actor.note_idle();
        });
        AtomicResponse::new(Box::pin(work))
    }
}

impl Handler<SessionAppended> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: SessionAppended, _: &mut Self::Context) -> Self::Result {
        let SessionAppended { after, committed, hash, events, metadata } = message;
        let follows = self
            .entity
            .as_mut()
            .is_some_and(|entity| entity.apply_committed(after, &events, &metadata, committed, hash));
        if !follows {
            // An event was missed: the log has it.
            self.entity = None;
        }
        self.with_entity(|_, recovered, _| {
            if let Err(error) = recovered {
                tracing::error!(%error, "a session could not be recovered");
            }
        })
    }
}

impl Handler<LookAtSession> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: LookAtSession, _: &mut Self::Context) -> Self::Result {
        let LookAtSession { stream: _, reply } = message;
        self.with_entity(move |actor, recovered, _| {
            actor.idle.carried_out();
            let view = recovered.and_then(|()| {
                let entity = actor.entity.as_ref();
                let entity =
                    entity.ok_or_else(|| Error::Internal("a recovered session is missing".to_owned()))?;
                Ok((entity.state().clone(), entity.committed()))
            });
            let _ = reply.send(view);
        })
    }
}
