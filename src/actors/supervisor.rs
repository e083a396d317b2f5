//! The supervisor: the one address that outsiders know. Finds the actor of a stream, starts it at its first
//! message, starts it again from the log when it broke, lets it go when it is idle.

use std::collections::HashMap;
use std::sync::Arc;

use actix::prelude::SendError;
use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use proto_events::id::StreamId;
use tokio::sync::oneshot;

use crate::actors::messages::{AcquireTurn, Cause, Idle, LookAtSession, Stopped, TaskOp, ToTask};
use crate::actors::router::Router;
use crate::actors::session::SessionActor;
use crate::actors::shared::{Parts, Shared};
use crate::actors::task::{Passivate, TaskActor};
use crate::error::Error;
use crate::limits::{DOOR_COMMANDS, MAILBOX_COMMANDS};

/// The supervisor.
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    tasks: HashMap<StreamId, (u64, Addr<TaskActor>)>,
    /// How many task actors were started: numbers them.
    started: u64,
    sessions: HashMap<StreamId, Addr<SessionActor>>,
}

/// Answer when every task's actor has carried out what waits in its mailbox now.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Settle {
    pub(crate) reply: oneshot::Sender<()>,
}

/// How many actors are awake.
#[derive(Message)]
#[rtype(result = "usize")]
pub(crate) struct CountLive;

impl Supervisor {
    /// Starts supervisor and router, which know each other.
    pub(crate) fn start_all(parts: Parts) -> (Addr<Self>, Addr<Router>) {
        let mut router = None;
        let supervisor = Self::create(|ctx| {
            // Now, not when it has started: until then actix's own bound of 16 would refuse the first callers.
            // Every caller of the system comes through here, each actor's own bound stands behind it.
            ctx.set_mailbox_capacity(DOOR_COMMANDS);
            let started = Router::new(&parts, ctx.address().recipient()).start();
            router = Some(started.clone());
            let shared = shared(parts, &started, &ctx.address());
            Self { shared, tasks: HashMap::new(), started: 0, sessions: HashMap::new() }
        });
        let router = router.expect("`create` runs its closure before it returns, and that sets the router");
        (supervisor, router)
    }

    fn task(&mut self, stream: &StreamId) -> Addr<TaskActor> {
        if let Some((_, known)) = self.tasks.get(stream).filter(|(_, known)| known.connected()) {
            return known.clone();
        }
        self.started += 1;
        let number = self.started;
        let started = TaskActor::create(|ctx| {
            ctx.set_mailbox_capacity(MAILBOX_COMMANDS);
            TaskActor::new(Arc::clone(&self.shared), stream.clone(), number)
        });
        self.tasks.insert(stream.clone(), (number, started.clone()));
        started
    }

    fn session(&mut self, stream: &StreamId) -> Addr<SessionActor> {
        if let Some(known) = self.sessions.get(stream).filter(|known| known.connected()) {
            return known.clone();
        }
        let started = SessionActor::new(Arc::clone(&self.shared)).start();
        self.sessions.insert(stream.clone(), started.clone());
        started
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;
}

impl Handler<ToTask> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: ToTask, _: &mut Self::Context) {
        // What the system sends itself is bounded by the calls in flight and must not get lost.
        if message.reply.is_none() {
            let actor = self.task(&message.stream);
            return actor.do_send(message);
        }
        let actor = self.task(&message.stream);
        match actor.try_send(message) {
            Ok(()) => {}
            Err(SendError::Full(message)) => {
                let waiting = MAILBOX_COMMANDS;
                let reply = message.reply;
                let _gone_is_fine = reply.map(|reply| reply.send(Err(Error::Overloaded { waiting })));
            }
            Err(SendError::Closed(message)) => {
                self.tasks.remove(&message.stream);
                self.task(&message.stream).do_send(message);
            }
        }
    }
}

impl Handler<AcquireTurn> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: AcquireTurn, _: &mut Self::Context) {
        self.session(&message.session).do_send(message);
    }
}

impl Handler<LookAtSession> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: LookAtSession, _: &mut Self::Context) {
        self.session(&message.stream).do_send(message);
    }
}

impl Handler<Idle> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: Idle, _: &mut Self::Context) {
        // Everything for a task comes through here, so behind this message its mailbox stays empty.
        let Some((number, actor)) = self.tasks.get(&message.stream) else { return };
        if *number == message.number {
            actor.do_send(Passivate);
            self.tasks.remove(&message.stream);
        }
    }
}

impl Handler<Stopped> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: Stopped, ctx: &mut Self::Context) {
        if message.orderly || self.shared.is_stopping() {
            return;
        }
        tracing::error!(stream = %message.stream, "an actor broke; it is started again from the log");
        self.tasks.remove(&message.stream);
        let cause = Cause::own(format!("resume:{}", self.shared.store.fence().epoch), "restart");
        ctx.notify(ToTask { stream: message.stream, op: TaskOp::Resume, cause, reply: None });
    }
}

impl Handler<Settle> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: Settle, _: &mut Self::Context) {
        let asked = self.tasks.iter().map(|(stream, (_, actor))| {
            let (reply, answer) = oneshot::channel();
            let (op, cause) = (TaskOp::Look, Cause::default());
            actor.do_send(ToTask { stream: stream.clone(), op, cause, reply: Some(reply) });
            answer
        });
        let asked: Vec<_> = asked.collect();
        actix_rt::spawn(async move {
            for answer in asked {
                let _an_actor_that_is_gone_is_done = answer.await;
            }
            let _gone_is_fine = message.reply.send(());
        });
    }
}

impl Handler<CountLive> for Supervisor {
    type Result = usize;

    fn handle(&mut self, _: CountLive, _: &mut Self::Context) -> usize {
        self.tasks.len()
    }
}

/// What the actors of a system know of each other.
fn shared(parts: Parts, router: &Addr<Router>, supervisor: &Addr<Supervisor>) -> Arc<Shared> {
    Arc::new(Shared {
        agent: parts.agent,
        store: parts.store,
        ports: parts.ports,
        dispatch: router.clone().recipient(),
        abort: router.clone().recipient(),
        to_task: supervisor.clone().recipient(),
        acquire: supervisor.clone().recipient(),
        idle: supervisor.clone().recipient(),
        stopped: supervisor.clone().recipient(),
        passivate_after: parts.passivate_after,
        stopping: parts.stopping,
    })
}
