//! The supervisor: the one address that outsiders know. Finds the actor of a stream, starts it at its first
//! message, starts it again from the log when it broke, puts it to sleep when it is idle or too many are awake.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::prelude::SendError;
use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, MessageResult};
use proto_events::id::StreamId;
use tokio::sync::oneshot;

use crate::actors::awake::{Awake, Rest};
use crate::actors::messages::{AcquireTurn, Cause, LookAtSession, Rested, Stopped, TaskOp, ToTask};
use crate::actors::places::Places;
use crate::actors::router::Router;
use crate::actors::session::SessionActor;
use crate::actors::shared::{Parts, Shared};
use crate::actors::task::TaskActor;
use crate::error::Error;
use crate::limits::{DOOR_COMMANDS, LIVE_ACTORS_SPARE, MAILBOX_COMMANDS};

/// The supervisor.
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    tasks: Awake<TaskActor>,
    sessions: Awake<SessionActor>,
    /// How many actors were started: numbers them.
    started: u64,
    passivate_after: Duration,
    live_actors: usize,
}

/// Answer when every task's actor has carried out what waits in its mailbox now.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Settle {
    pub(crate) reply: oneshot::Sender<()>,
}

/// How many actors of tasks are awake, and how many of sessions.
#[derive(Message)]
#[rtype(result = "(usize, usize)")]
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
            let (passivate_after, live_actors) = (parts.passivate_after, parts.live_actors);
            let shared = shared(parts, &started, &ctx.address());
            let (tasks, sessions) = (Awake::new(), Awake::new());
            Self { shared, tasks, sessions, started: 0, passivate_after, live_actors }
        });
        let router = router.expect("`create` runs its closure before it returns, and that sets the router");
        (supervisor, router)
    }

    /// The actor of a task, started if it is asleep. Whoever asks sends it one message, which is counted here.
    fn task(&mut self, stream: &StreamId) -> Addr<TaskActor> {
        if let Some(known) = self.tasks.reach(stream) {
            return known;
        }
        let (number, rest) = (self.number(), Rc::new(Rest::default()));
        let started = TaskActor::create(|ctx| {
            ctx.set_mailbox_capacity(MAILBOX_COMMANDS);
            TaskActor::new(Arc::clone(&self.shared), stream.clone(), number, Rc::clone(&rest))
        });
        self.tasks.enter(stream.clone(), number, started.clone(), rest);
        self.make_room();
        started
    }

    /// The same for a session.
    fn session(&mut self, stream: &StreamId) -> Addr<SessionActor> {
        if let Some(known) = self.sessions.reach(stream) {
            return known;
        }
        let (number, rest) = (self.number(), Rc::new(Rest::default()));
        let started = SessionActor::new(Arc::clone(&self.shared), stream.clone(), Rc::clone(&rest)).start();
        self.sessions.enter(stream.clone(), number, started.clone(), rest);
        self.make_room();
        started
    }

    fn number(&mut self) -> u64 {
        self.started += 1;
        self.started
    }

    fn live(&self) -> usize {
        self.tasks.len() + self.sessions.len()
    }

    fn put_to_sleep(&mut self, stream: &StreamId) {
        // The names of tasks and sessions are never the same.
        self.tasks.put_to_sleep(stream);
        self.sessions.put_to_sleep(stream);
    }

    /// Puts those to sleep that have been at rest longest, if too many are awake. While all the others are at
    /// work there is nobody else to find: whoever comes to rest then says so.
    fn make_room(&mut self) {
        if self.live() <= self.live_actors || self.shared.crowded.load(Ordering::Relaxed) {
            return;
        }
        let surplus = self.live() - self.live_actors + self.live_actors / LIVE_ACTORS_SPARE;
        let mut resting: Vec<_> = self.tasks.resting().chain(self.sessions.resting()).collect();
        if surplus < resting.len() {
            resting.select_nth_unstable(surplus);
            resting.truncate(surplus);
        }
        for (_, stream) in resting {
            self.put_to_sleep(&stream);
        }
        self.note_crowd();
    }

    /// Must follow whenever somebody has gone.
    fn note_crowd(&self) {
        self.shared.crowded.store(self.live() > self.live_actors, Ordering::Relaxed);
    }

    /// Puts those to sleep that have been at rest for long.
    fn sweep(&mut self) {
        self.sessions.forget_broken();
        let (tasks, sessions) = (&self.tasks, &self.sessions);
        let idle: Vec<_> = tasks
            .resting_for(self.passivate_after)
            .chain(sessions.resting_for(self.passivate_after))
            .collect();
        for stream in idle {
            self.put_to_sleep(&stream);
        }
        self.note_crowd();
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(self.passivate_after / 2, |supervisor, _| supervisor.sweep());
    }
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
                self.tasks.not_sent(&message.stream);
                let waiting = MAILBOX_COMMANDS;
                let reply = message.reply;
                let _gone_is_fine = reply.map(|reply| reply.send(Err(Error::Overloaded { waiting })));
            }
            Err(SendError::Closed(message)) => {
                // It has broken just now, so that another is started.
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

impl Handler<Rested> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: Rested, _: &mut Self::Context) {
        if self.live() > self.live_actors {
            self.put_to_sleep(&message.stream);
        }
        self.note_crowd();
    }
}

impl Handler<Stopped> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: Stopped, ctx: &mut Self::Context) {
        if message.orderly || self.shared.is_stopping() {
            return;
        }
        tracing::error!(stream = %message.stream, "an actor broke; it is started again from the log");
        self.tasks.forget(&message.stream, message.number);
        self.note_crowd();
        let cause = Cause::own(format!("resume:{}", self.shared.store.fence().epoch), "restart");
        ctx.notify(ToTask { stream: message.stream, op: TaskOp::Resume, cause, reply: None });
    }
}

impl Handler<Settle> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: Settle, _: &mut Self::Context) {
        let streams: Vec<_> = self.tasks.streams().cloned().collect();
        let asked = streams.into_iter().map(|stream| {
            let (reply, answer) = oneshot::channel();
            let (op, cause) = (TaskOp::Look, Cause::default());
            self.task(&stream).do_send(ToTask { stream, op, cause, reply: Some(reply) });
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
    type Result = MessageResult<CountLive>;

    fn handle(&mut self, _: CountLive, _: &mut Self::Context) -> Self::Result {
        MessageResult((self.tasks.len(), self.sessions.len()))
    }
}

/// What the actors of a system know of each other.
fn shared(parts: Parts, router: &Addr<Router>, supervisor: &Addr<Supervisor>) -> Arc<Shared> {
    let places = Arc::new(Places::of(&parts.agent));
    Arc::new(Shared {
        agent: parts.agent,
        store: parts.store,
        ports: parts.ports,
        calls: parts.calls,
        dispatch: router.clone().recipient(),
        abort: router.clone().recipient(),
        recall: router.clone().recipient(),
        probe: router.clone().recipient(),
        places,
        to_task: supervisor.clone().recipient(),
        acquire: supervisor.clone().recipient(),
        rested: supervisor.clone().recipient(),
        stopped: supervisor.clone().recipient(),
        doubtful: parts.doubtful,
        tool_stores: parts.tool_stores,
        snapshots: parts.snapshots,
        crowded: AtomicBool::new(false),
        stopping: parts.stopping,
    })
}
