//! A session's actor: hands its turn to one task after another, and folds what they append to its stream.
//! The task leads, in one append with its own events. The actor appends one thing itself: the end of a turn
//! whose task is over and cannot end it any more.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, AtomicResponse, Context, Handler, Message, WrapFuture,
};
use proto_events::id::{Digest, StreamId};
use proto_events::session::{Session, SessionCommand, SessionRejection};
use tokio::sync::oneshot;

use crate::actors::awake::{Passivate, Rest};
use crate::actors::entity::{Entity, Seed, SetPlace};
use crate::actors::messages::{
    AcquireTurn, Cause, Lease, LookAtSession, Release, Rested, Settled, TaskOp, ToTask, TurnGrant,
};
use crate::actors::shared::Shared;
use crate::error::Error;
use crate::limits::{DOUBT_AGAIN_AFTER, MAILBOX_COMMANDS};
use crate::store::Append;

/// Who asked for the turn.
struct Asked {
    task: StreamId,
    turn_id: String,
    reply: oneshot::Sender<Result<TurnGrant, Error>>,
}

/// The actor of one session's stream.
pub(crate) struct SessionActor {
    shared: Arc<Shared>,
    stream: StreamId,
    rest: Rc<Rest>,
    entity: Option<Entity<Session>>,
    /// The task that was handed the turn, and the turn's id.
    reserved: Option<(StreamId, String)>,
    waiting: VecDeque<Asked>,
    /// The open turn whose task is being asked whether it still runs.
    doubted: Option<String>,
}

/// What the task that holds an open turn answered: whether it still runs.
#[derive(Message)]
#[rtype(result = "()")]
struct Doubt {
    turn_id: String,
    runs: bool,
}

impl SessionActor {
    pub(super) fn new(shared: Arc<Shared>, stream: StreamId, rest: Rc<Rest>) -> Self {
        let waiting = VecDeque::new();
        Self { shared, stream, rest, entity: None, reserved: None, waiting, doubted: None }
    }

    /// Notes whether it can be put to sleep: nobody has its turn or waits for it, and no task was asked whether it
    /// still runs. What was appended while somebody had the turn is in the mailbox before the turn comes back.
    fn note_rest(&self) {
        let at_rest = self.reserved.is_none() && self.waiting.is_empty() && self.doubted.is_none();
        self.rest.note(at_rest);
        if at_rest && self.shared.crowded.load(Ordering::Relaxed) {
            self.shared.rested.do_send(Rested { stream: self.stream.clone() });
        }
    }

    /// Takes a request in: refused at once if its task holds the turn already, else in its place.
    fn ask(&mut self, asked: Asked) {
        // An actor that broke and was started again asks anew: its place is kept, its old question forgotten.
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.task == asked.task) {
            *waiting = asked;
            return;
        }
        match &self.reserved {
            Some((task, turn_id)) if *task == asked.task => {
                let (task, turn_id) = (task.to_string(), turn_id.clone());
                let refused = SessionRejection::TurnInProgress { turn_id, task };
                let _gone_is_fine = asked.reply.send(Err(refused.into()));
            }
            _ => self.waiting.push_back(asked),
        }
    }

    /// Hands the turn to whoever is next and still wants it.
    fn grant_next(&mut self, ctx: &mut Context<Self>) {
        let Some(entity) = &self.entity else { return };
        while self.reserved.is_none() {
            // A turn that was open when the process ended belongs to its task and to no other.
            let owner = entity.state().open_turn().map(|open| (open.task.clone(), open.turn_id.clone()));
            let next = match &owner {
                None => (!self.waiting.is_empty()).then_some(0),
                Some((task, _)) => self.waiting.iter().position(|asked| asked.task.as_str() == task),
            };
            let Some(asked) = next.and_then(|at| self.waiting.remove(at)) else {
                if let (Some((task, turn_id)), false) = (owner, self.waiting.is_empty()) {
                    self.doubt(&task, turn_id, ctx);
                }
                return;
            };
            let turn_id = owner.map_or(asked.turn_id, |(_, turn_id)| turn_id);
            self.reserved = Some((asked.task, turn_id.clone()));
            let lease = Arc::new(Lease {
                turn_id: turn_id.clone(),
                release: ctx.address().recipient(),
                settled: ctx.address().recipient(),
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
            // A caller that went away drops the grant, and with it the lease, which comes back as Release.
            let _gone_is_fine = asked.reply.send(Ok(grant));
        }
    }

    /// Looks again who is next, when some time has passed.
    fn grant_later(&self, ctx: &mut Context<Self>) {
        let later = self.shared.ports.clock.sleep(DOUBT_AGAIN_AFTER).into_actor(self);
        ctx.spawn(later.map(|(), actor: &mut Self, ctx| actor.grant_next(ctx)));
    }

    /// Others wait for a turn that nobody here holds: asks its task whether it still runs.
    fn doubt(&mut self, task: &str, turn_id: String, ctx: &mut Context<Self>) {
        let Ok(stream) = StreamId::parse(task) else { return };
        if self.doubted.as_ref() == Some(&turn_id) {
            return;
        }
        self.doubted = Some(turn_id.clone());
        let (reply, answer) = oneshot::channel();
        let cause = Cause::default();
        self.shared.to_task.do_send(ToTask { stream, op: TaskOp::Look, cause, reply: Some(reply) });
        let own = ctx.address();
        actix_rt::spawn(async move {
            let runs = match answer.await {
                Ok(Ok(view)) => view.task.run().is_some(),
                Ok(Err(Error::TaskNotFound(_))) => false,
                // Not known: whoever asks for the turn next asks again.
                Ok(Err(_)) | Err(_) => true,
            };
            own.do_send(Doubt { turn_id, runs });
        });
    }

    /// Ends a turn that has no owner any more.
    async fn end_orphan(shared: &Shared, entity: &mut Entity<Session>, turn_id: String) -> Result<(), Error> {
        let cause = Cause::own(format!("orphan:{turn_id}"), &turn_id);
        let metadata = cause.metadata(shared.ports.clock.now(), Digest::of(turn_id.as_bytes()));
        let reason = "its task is over".to_owned();
        entity.decide(SessionCommand::AbortTurn { turn_id, reason }, &metadata)?;
        let (fence, seed) = (shared.store.fence(), Seed(shared.ports.ids.random()));
        let part = entity.part(fence, SetPlace { seed, part: 0, parts: 1 }, &metadata)?;
        let hash = part.record.hash();
        let append = Append { fence, set_id: seed.set_id(), parts: vec![part] };
        let appended = shared.append(append, &metadata.command_id).await?;
        if let Some(committed) = appended.parts.first() {
            entity.settle(*committed, hash, &metadata);
        }
        Ok(())
    }

    /// Runs `then` on the recovered session.
    fn with_entity(
        &mut self,
        then: impl FnOnce(&mut Self, Result<(), Error>, &mut Context<Self>) + 'static,
    ) -> AtomicResponse<Self, ()> {
        let known = self.entity.take();
        let (store, stream) = (Arc::clone(&self.shared.store), self.stream.clone());
        let recover = async move {
            match known {
                Some(entity) => Ok(entity),
                None => Entity::recover(&store, stream).await,
            }
        };
        let work = recover.into_actor(self).map(move |recovered, actor: &mut Self, ctx| {
            match recovered {
                Ok(entity) => {
                    actor.entity = Some(entity);
                    then(actor, Ok(()), ctx);
                }
                Err(error) => then(actor, Err(error), ctx),
            }
            actor.note_rest();
        });
        AtomicResponse::new(Box::pin(work))
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

    fn handle(&mut self, message: AcquireTurn, _: &mut Self::Context) -> Self::Result {
        let AcquireTurn { session: _, task, turn_id, reply } = message;
        self.with_entity(move |actor, recovered, ctx| {
            actor.rest.carried_out();
            match recovered {
                Ok(()) => {
                    actor.ask(Asked { task, turn_id, reply });
                    actor.grant_next(ctx);
                }
                Err(error) => {
                    let _gone_is_fine = reply.send(Err(error));
                }
            }
        })
    }
}

impl Handler<Release> for SessionActor {
    type Result = ();

    fn handle(&mut self, message: Release, ctx: &mut Self::Context) {
        if self.reserved.as_ref().is_some_and(|(_, turn_id)| *turn_id == message.turn_id) {
            self.reserved = None;
        }
        self.grant_next(ctx);
        self.note_rest();
    }
}

impl Handler<Passivate> for SessionActor {
    type Result = ();

    fn handle(&mut self, _: Passivate, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<Doubt> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: Doubt, _: &mut Self::Context) -> Self::Result {
        let Doubt { turn_id, runs } = message;
        self.doubted = None;
        let known = self.entity.take();
        let reserved = self.reserved.is_some();
        let (shared, session) = (Arc::clone(&self.shared), self.stream.clone());
        let work = async move {
            let mut entity = match known {
                Some(entity) => entity,
                None => Entity::recover(&shared.store, session).await?,
            };
            let still_open = entity.state().open_turn().is_some_and(|open| open.turn_id == turn_id);
            if !runs && !reserved && still_open {
                Self::end_orphan(&shared, &mut entity, turn_id).await?;
            }
            Ok::<_, Error>(entity)
        };
        let work = work.into_actor(self).map(move |ended, actor: &mut Self, ctx| {
            match ended {
                Ok(entity) => {
                    actor.entity = Some(entity);
                    if runs {
                        // It is waited for: the task asks for the turn and ends it, or is over one day.
                        actor.grant_later(ctx);
                    } else {
                        actor.grant_next(ctx);
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "a turn without an owner could not be ended");
                    actor.grant_later(ctx);
                }
            }
            actor.note_rest();
        });
        AtomicResponse::new(Box::pin(work))
    }
}

impl Handler<Settled> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: Settled, _: &mut Self::Context) -> Self::Result {
        let Settled { after, committed, hash, events, metadata } = message;
        let follows = self
            .entity
            .as_mut()
            .is_some_and(|entity| entity.follow(after, &events, &metadata, committed, hash));
        match &self.entity {
            Some(entity) if follows => self.shared.keep(entity, after),
            // Something was missed: the log knows.
            _ => self.entity = None,
        }
        self.with_entity(|_, recovered, _| {
            if let Err(error) = recovered {
                tracing::error!(%error, "a session could not be read again");
            }
        })
    }
}

impl Handler<LookAtSession> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: LookAtSession, _: &mut Self::Context) -> Self::Result {
        let LookAtSession { stream: _, reply } = message;
        self.with_entity(move |actor, recovered, _| {
            actor.rest.carried_out();
            let view = recovered.and_then(|()| {
                let entity = actor.entity.as_ref();
                let entity = entity.ok_or_else(|| Error::Internal("a session was lost".to_owned()))?;
                Ok((entity.state().clone(), entity.committed()))
            });
            let _gone_is_fine = reply.send(view);
        })
    }
}
