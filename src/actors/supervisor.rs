//! The supervisor of an arbiter: the only address known outside. It finds the actor of a stream, starts it at its first
//! message, restarts it from the log after a failure, and passivates it when it is idle or too many are live
//! ([`live_actors`]).

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use actix::prelude::SendError;
use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, MessageResult, WrapFuture};
use proto_events::envelope::OWN_COMMAND;
use proto_events::id::StreamId;
use tokio::sync::oneshot;

use crate::actors::router::Router;
use crate::actors::session::actor::SessionActor;
use crate::actors::shared::idle_actors::IdleActors;
use crate::actors::shared::idle_state::IdleState;
use crate::actors::shared::live_actors::LiveActors;
use crate::actors::shared::messages::{Cause, NotDone, TaskActorStopped, TaskOp, ToTask};
use crate::actors::shared::parts::{AgentParts, Parts, Shared};
use crate::actors::shared::permits::CallPermits;
use crate::actors::shared::ramp::Ramp;
use crate::actors::shared::rates::Rates;
use crate::actors::shared::route::Route;
use crate::actors::shared::to_session::ToSession;
use crate::actors::shared::turns::{AcquireTurn, LookAtSession};
use crate::actors::task::actor::TaskActor;
use crate::error::Error;
use crate::limits::{ENDED_TASKS_LIVE, MAILBOX_COMMANDS, SUPERVISOR_MAILBOX};
use crate::tools::panics::caught;

mod room;

/// The supervisor.
pub(crate) struct Supervisor {
    /// The data shared by the actors of the first agent. What is the whole system's is the same for each agent.
    shared: Arc<Shared>,
    /// The data shared by the actors of each further agent, by its name.
    of_others: HashMap<String, Arc<Shared>>,
    tasks: LiveActors<TaskActor>,
    sessions: LiveActors<SessionActor>,
    /// The idle actors of both kinds.
    idle: IdleActors,
    /// The number of ended tasks whose actors stay live.
    ended_kept: usize,
    /// The number of actors started so far; numbers them.
    started: u64,
    passivate_after: Duration,
    live_actors: usize,
    resumed_at_once: usize,
}

/// A request to reply when each task's actor has carried out the messages now in its mailbox.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct DrainMailboxes {
    pub(crate) reply: oneshot::Sender<()>,
}

/// An order to resume the open work of these tasks, some at once.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ResumeAll {
    pub(crate) open: Vec<StreamId>,
    pub(crate) epoch: u64,
}

/// A query for the numbers of live actors of tasks and of sessions.
#[derive(Message)]
#[rtype(result = "(usize, usize)")]
pub(crate) struct CountLive;

/// The parts that all supervisors of a system share: a router and a count of permits for each agent, and the ways to each
/// other.
#[derive(Clone)]
pub(crate) struct Common {
    /// The agents, in the order of the system's parts.
    of_agents: Arc<[CommonOfAgent]>,
    pub(crate) to_task: Route<Box<ToTask>>,
    pub(crate) acquire: Route<AcquireTurn>,
}

/// The parts of one agent that all supervisors share.
struct CommonOfAgent {
    router: Addr<Router>,
    permits: Arc<CallPermits>,
}

impl Common {
    /// Starts the routers.
    pub(crate) fn start(parts: &Parts) -> Self {
        let to_task: Route<Box<ToTask>> = Route::default();
        let rates = Arc::new(Rates::new(Arc::clone(&parts.ports.clock)));
        let of_agent = |own: &AgentParts| CommonOfAgent {
            router: Router::new(parts, own, to_task.clone()).start(),
            permits: Arc::new(CallPermits::new(&own.agent, Arc::clone(&rates))),
        };
        let of_agents = parts.agents.iter().map(of_agent).collect();
        Self { of_agents, to_task, acquire: Route::default() }
    }

    /// Returns the routers, in the order of the agents.
    pub(crate) fn routers(&self) -> Box<[Addr<Router>]> {
        self.of_agents.iter().map(|own| own.router.clone()).collect()
    }
}

impl Supervisor {
    /// Returns the supervisor of the arbiter whose context this is, one of several.
    pub(crate) fn new(parts: &Parts, common: &Common, ctx: &mut Context<Self>) -> Self {
        // Set now, not at the start: until then actix's own bound of 16 would refuse the first callers.
        // All callers of the system come through here; each actor has its own bound.
        ctx.set_mailbox_capacity(SUPERVISOR_MAILBOX);
        let (passivate_after, resumed_at_once) = (parts.passivate_after, parts.resumed_at_once);
        let share = |bound: usize| (bound / parts.arbiters.max(1)).max(1);
        let live_actors = share(parts.live_actors);
        let (shared, of_others) = shared(parts, common, &ctx.address());
        actix_rt::spawn(Arc::clone(&shared.reply_queue).give_on());
        actix_rt::spawn(Arc::clone(&shared.replies).send_all());
        let idle = IdleActors::default();
        let (tasks, sessions) = (LiveActors::with_idle(idle.clone()), LiveActors::with_idle(idle.clone()));
        Self {
            shared,
            of_others,
            tasks,
            sessions,
            idle,
            ended_kept: share(ENDED_TASKS_LIVE),
            started: 0,
            passivate_after,
            live_actors,
            resumed_at_once,
        }
    }

    /// Returns what the actors of a stream's agent share.
    fn shared_of(&self, stream: &StreamId) -> &Arc<Shared> {
        if self.of_others.is_empty() {
            return &self.shared;
        }
        self.of_others.get(&stream.agent()).unwrap_or(&self.shared)
    }

    /// Starts the actor of a task, which gets one message; the message is counted here.
    fn start_task(&mut self, stream: &StreamId) -> Addr<TaskActor> {
        let (number, idle) = (self.number(), Rc::new(IdleState::default()));
        let started = TaskActor::create(|ctx| {
            ctx.set_mailbox_capacity(MAILBOX_COMMANDS);
            let shared = Arc::clone(self.shared_of(stream));
            TaskActor::new(shared, stream.clone(), number, Rc::clone(&idle), self.idle.clone())
        });
        self.tasks.enter(stream.clone(), number, started.clone(), idle);
        self.make_room();
        started
    }

    /// Sends a message to the actor of its task, started if needed.
    fn tell_task(&mut self, message: Box<ToTask>) {
        match self.tasks.reach(&message.stream) {
            Some(known) => known.do_send(message),
            None => self.start_task(&message.stream).do_send(message),
        }
    }

    /// Returns the actor of a session, started if needed. The caller sends it one message, which is counted here.
    fn session(&mut self, stream: &StreamId) -> Addr<SessionActor> {
        if let Some(known) = self.sessions.reach(stream) {
            return known.clone();
        }
        let (number, idle) = (self.number(), Rc::new(IdleState::default()));
        let shared = Arc::clone(self.shared_of(stream));
        let started = SessionActor::new(shared, stream.clone(), Rc::clone(&idle), self.idle.clone()).start();
        self.sessions.enter(stream.clone(), number, started.clone(), idle);
        self.make_room();
        started
    }

    fn number(&mut self) -> u64 {
        self.started += 1;
        self.started
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(self.passivate_after / 2, |supervisor, _| supervisor.sweep());
    }
}

impl Handler<Box<ToTask>> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: Box<ToTask>, _: &mut Self::Context) {
        if is_own(&message) {
            return self.tell_task(message);
        }
        let sent = match self.tasks.reach(&message.stream) {
            Some(known) => known.try_send(message),
            None => self.start_task(&message.stream).try_send(message),
        };
        match sent {
            Ok(()) => {}
            Err(SendError::Full(mut message)) => {
                self.tasks.not_sent(&message.stream);
                let (waiting, command_id) = (MAILBOX_COMMANDS, message.cause.command_id.clone());
                let reply = message.reply.take();
                let refused =
                    NotDone { error: Error::Overloaded { waiting, command_id }, unsent: Some(message) };
                let _ = reply.map(|reply| reply.send(Err(refused)));
            }
            Err(SendError::Closed(message)) => {
                // The actor has just broken, so another is started.
                self.tell_task(message);
            }
        }
    }
}

/// Whether a message is one of the system's own: they are bounded by the calls in flight and must not get lost. Some are answered.
fn is_own(message: &ToTask) -> bool {
    message.reply.is_none()
        || message.cause.command_id.starts_with(OWN_COMMAND)
        || matches!(message.op, TaskOp::OfHandler { .. } | TaskOp::Accepted { .. } | TaskOp::OfSession(_))
}

impl Handler<AcquireTurn> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: AcquireTurn, _: &mut Self::Context) {
        self.session(&message.session).do_send(message);
    }
}

impl Handler<ToSession> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: ToSession, _: &mut Self::Context) {
        self.session(&message.stream).do_send(message);
    }
}

impl Handler<LookAtSession> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: LookAtSession, _: &mut Self::Context) {
        self.session(&message.stream).do_send(message);
    }
}

impl Handler<TaskActorStopped> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: TaskActorStopped, ctx: &mut Self::Context) {
        if self.shared.is_stopping() {
            return;
        }
        tracing::error!(stream = %message.stream, "an actor failed; it is restarted from the log");
        self.tasks.forget(&message.stream, message.number);
        self.note_crowd();
        // A host's store may panic here too.
        let epoch = caught(|| self.shared.store.fence().epoch).unwrap_or_default();
        let cause = Cause::from_system(format_args!("resume:{epoch}"), "restart");
        ctx.notify(Box::new(ToTask { stream: message.stream, op: TaskOp::Resume, cause, reply: None }));
    }
}

impl Handler<ResumeAll> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: ResumeAll, ctx: &mut Self::Context) {
        let ResumeAll { open, epoch } = message;
        let (to_task, clock) = (self.shared.to_task.clone(), Arc::clone(&self.shared.ports.clock));
        let (at_once, stopping) = (self.resumed_at_once, Arc::clone(&self.shared.stopping));
        let ramp = Ramp { open, at_once, epoch, to_task, clock, stopping };
        ctx.spawn(ramp.run().into_actor(self));
    }
}

impl Handler<DrainMailboxes> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: DrainMailboxes, _: &mut Self::Context) {
        // An actor that has carried out all that it was sent has an empty mailbox.
        let streams: Vec<_> = self.tasks.at_work().cloned().collect();
        let asked = streams.into_iter().map(|stream| {
            let (reply, answer) = oneshot::channel();
            let (op, cause) = (TaskOp::Look, Cause::default());
            self.tell_task(Box::new(ToTask { stream, op, cause, reply: Some(reply) }));
            answer
        });
        let asked: Vec<_> = asked.collect();
        actix_rt::spawn(async move {
            for answer in asked {
                let _ = answer.await;
            }
            let _ = message.reply.send(());
        });
    }
}

impl Handler<CountLive> for Supervisor {
    type Result = MessageResult<CountLive>;

    fn handle(&mut self, _: CountLive, _: &mut Self::Context) -> Self::Result {
        MessageResult((self.tasks.len(), self.sessions.len()))
    }
}

/// Builds the data shared by the actors of an arbiter: of the first agent, and of the others by their names.
fn shared(
    parts: &Parts,
    common: &Common,
    supervisor: &Addr<Supervisor>,
) -> (Arc<Shared>, HashMap<String, Arc<Shared>>) {
    let (reply_queue, replies, crowded) = (Arc::default(), Arc::default(), Arc::new(AtomicBool::new(false)));
    let of_agent = |(own, common_own): (&AgentParts, &CommonOfAgent)| {
        let router = &common_own.router;
        Arc::new(Shared {
            under_test: parts.is_under_test(),
            agent: Arc::clone(&own.agent),
            store: Arc::clone(&parts.store),
            ports: parts.ports.clone(),
            calls: parts.calls.clone(),
            dispatch: router.clone().recipient(),
            abort: router.clone().recipient(),
            find_lost: router.clone().recipient(),
            recall: router.clone().recipient(),
            probe: router.clone().recipient(),
            forget: router.clone().recipient(),
            permits: Arc::clone(&common_own.permits),
            to_task: common.to_task.clone(),
            acquire: common.acquire.clone(),
            became_idle: supervisor.clone().recipient(),
            stopped: supervisor.clone().recipient(),
            unresolved: Arc::clone(&parts.unresolved),
            condition: Arc::clone(&parts.condition),
            run_starts: Arc::clone(&parts.run_starts),
            tool_stores: Arc::clone(&own.tool_stores),
            secrets: Arc::clone(&parts.secrets),
            live: Arc::clone(&parts.live),
            reply_queue: Arc::clone(&reply_queue),
            replies: Arc::clone(&replies),
            crowded: Arc::clone(&crowded),
            stopping: Arc::clone(&parts.stopping),
            attended: Arc::clone(&parts.attended),
            has_others: parts.agents.len() > 1,
        })
    };
    let mut all = parts.agents.iter().zip(common.of_agents.iter()).map(of_agent);
    let first = all.next().expect("a system has at least one agent");
    let others = all.map(|shared| (shared.agent.name.clone(), shared)).collect();
    (first, others)
}
