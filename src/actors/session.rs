//! A session's actor: hands its turn to one task after another, and folds what they append to its stream.
//! It appends nothing itself: the task leads, in one append with its own events.

use std::collections::VecDeque;
use std::sync::Arc;

use actix::{Actor, ActorFutureExt, AsyncContext, AtomicResponse, Context, Handler, WrapFuture};
use proto_events::id::StreamId;
use proto_events::session::{Session, SessionRejection};
use tokio::sync::oneshot;

use crate::actors::Shared;
use crate::actors::entity::Entity;
use crate::actors::messages::{AcquireTurn, Lease, LookAtSession, Release, Settled, TurnGrant};
use crate::error::Error;
use crate::limits::MAILBOX_COMMANDS;

/// Who asked for the turn.
struct Asked {
    task: StreamId,
    turn_id: String,
    reply: oneshot::Sender<Result<TurnGrant, Error>>,
}

/// The actor of one session's stream.
pub(crate) struct SessionActor {
    shared: Shared,
    entity: Option<Entity<Session>>,
    /// The task that was handed the turn, and the turn's id.
    reserved: Option<(StreamId, String)>,
    waiting: VecDeque<Asked>,
}

impl SessionActor {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared, entity: None, reserved: None, waiting: VecDeque::new() }
    }

    /// Takes a request in: refused at once if its task holds the turn already, else in its place.
    fn ask(&mut self, asked: Asked) {
        let waits = self.waiting.iter().any(|waiting| waiting.task == asked.task);
        match &self.reserved {
            Some((task, turn_id)) if *task == asked.task || waits => {
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
                return;
            };
            let turn_id = owner.map_or(asked.turn_id, |(_, turn_id)| turn_id);
            self.reserved = Some((asked.task, turn_id.clone()));
            let lease = Arc::new(Lease { session: ctx.address(), turn_id: turn_id.clone() });
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

    /// Runs `then` on the recovered session.
    fn with_entity(
        &mut self,
        stream: StreamId,
        then: impl FnOnce(&mut Self, Result<(), Error>, &mut Context<Self>) + 'static,
    ) -> AtomicResponse<Self, ()> {
        let known = self.entity.take();
        let store = Arc::clone(&self.shared.store);
        let recover = async move {
            match known {
                Some(entity) => Ok(entity),
                None => Entity::recover(&store, stream).await,
            }
        };
        let work = recover.into_actor(self).map(move |recovered, actor: &mut Self, ctx| match recovered {
            Ok(entity) => {
                actor.entity = Some(entity);
                then(actor, Ok(()), ctx);
            }
            Err(error) => then(actor, Err(error), ctx),
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
        let AcquireTurn { session, task, turn_id, reply } = message;
        self.with_entity(session, move |actor, recovered, ctx| match recovered {
            Ok(()) => {
                actor.ask(Asked { task, turn_id, reply });
                actor.grant_next(ctx);
            }
            Err(error) => {
                let _gone_is_fine = reply.send(Err(error));
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
    }
}

impl Handler<Settled> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: Settled, _: &mut Self::Context) -> Self::Result {
        let Settled { stream, after, committed, hash, events, metadata } = message;
        let follows = self
            .entity
            .as_mut()
            .is_some_and(|entity| entity.follow(after, &events, &metadata, committed, hash));
        if !follows {
            // Something was missed: the log knows.
            self.entity = None;
        }
        self.with_entity(stream, |_, recovered, _| {
            if let Err(error) = recovered {
                tracing::error!(%error, "a session could not be read again");
            }
        })
    }
}

impl Handler<LookAtSession> for SessionActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: LookAtSession, _: &mut Self::Context) -> Self::Result {
        let LookAtSession { stream, reply } = message;
        self.with_entity(stream, move |actor, recovered, _| {
            let view = recovered.and_then(|()| {
                let entity = actor.entity.as_ref();
                let entity = entity.ok_or_else(|| Error::Internal("a session was lost".to_owned()))?;
                Ok((entity.state().clone(), entity.committed()))
            });
            let _gone_is_fine = reply.send(view);
        })
    }
}
