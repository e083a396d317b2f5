//! The parts that every actor of a system is given.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use actix::Recipient;
use proto_events::id::StreamId;
use taskreel_log::api::EventStore;
use taskreel_log::ports::Ports;

use crate::actors::shared::awaited_tasks::AttendedTasks;
use crate::actors::shared::condition::LogCondition;
use crate::actors::shared::figures::Figures;
use crate::actors::shared::live_actors::BecameIdle;
use crate::actors::shared::messages::{
    Abort, FindLost, Forget, Order, ProbeOrder, Recall, TaskActorStopped, ToTask,
};
use crate::actors::shared::owner::Owner;
use crate::actors::shared::permits::CallPermits;
use crate::actors::shared::replies::Replies;
use crate::actors::shared::reply_queue::ReplyQueue;
use crate::actors::shared::route::Route;
use crate::actors::shared::run_starts::RunStarts;
use crate::actors::shared::secrets::TaskSecrets;
use crate::actors::shared::tool_stores::ToolStores;
use crate::actors::shared::turns::AcquireTurn;
use crate::actors::shared::unresolved_appends::UnresolvedAppends;
use crate::agent::card::Agent;
use crate::live::LiveHub;

/// The parts of one agent of a system.
#[derive(Clone)]
pub(crate) struct AgentParts {
    pub(crate) agent: Arc<Agent>,
    pub(crate) tool_stores: Arc<ToolStores>,
}

impl AgentParts {
    /// Returns the parts of an agent over this store.
    pub(crate) fn new(agent: Arc<Agent>, store: &Arc<dyn EventStore>, ports: &Ports) -> Self {
        let tool_stores = Arc::new(ToolStores::new(Arc::clone(store), ports, &agent.name));
        Self { agent, tool_stores }
    }

    /// Returns the parts of the same agent over another store.
    pub(crate) fn over(&self, store: &Arc<dyn EventStore>, ports: &Ports) -> Self {
        Self::new(Arc::clone(&self.agent), store, ports)
    }
}

/// The parts of a system before it starts.
#[derive(Clone)]
pub(crate) struct Parts {
    /// The agents, the system's first one first.
    pub(crate) agents: Arc<[AgentParts]>,
    /// The host's own name for its build.
    pub(crate) build: Option<Arc<str>>,
    pub(crate) store: Arc<dyn EventStore>,
    /// The system's place among the owners of the store.
    pub(crate) owner: Arc<Owner>,
    pub(crate) ports: Ports,
    /// The runtime of tools and models; never the arbiter.
    pub(crate) calls: tokio::runtime::Handle,
    pub(crate) passivate_after: Duration,
    pub(crate) live_actors: usize,
    /// The number of arbiters over which the actors are spread.
    pub(crate) arbiters: usize,
    /// The number of tasks that are resumed at once after a start.
    pub(crate) resumed_at_once: usize,
    pub(crate) unresolved: Arc<UnresolvedAppends>,
    /// The condition of the log.
    pub(crate) condition: Arc<LogCondition>,
    /// The beginnings of the open runs, which no reopening of the log changes.
    pub(crate) run_starts: Arc<RunStarts>,
    pub(crate) secrets: Arc<TaskSecrets>,
    /// The listeners of live events.
    pub(crate) live: Arc<LiveHub>,
    /// The number of attempts that were given up and go on, because their work cannot be stopped.
    pub(crate) stuck: Arc<AtomicUsize>,
    /// The counts of commands and calls.
    pub(crate) figures: Arc<Figures>,
    /// Set once the system takes no new work.
    pub(crate) stopping: Arc<AtomicBool>,
    /// The tasks that calls in flight of other agents wait for.
    pub(crate) attended: Arc<AttendedTasks>,
    /// The runtimes of the actors' threads under a test; the first runs the calls too.
    #[cfg(feature = "testing")]
    pub(crate) observed: Option<Arc<crate::actors::shared::observed_runtime::ObservedRuntime>>,
}

/// Data shared by the actors of one agent on one arbiter. Actors hold it by reference count: a copy would copy all
/// addresses.
pub(crate) struct Shared {
    pub(crate) agent: Arc<Agent>,
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) ports: Ports,
    /// The runtime of approval handlers; never the arbiter.
    pub(crate) calls: tokio::runtime::Handle,
    /// The addresses of the agent's router.
    pub(crate) dispatch: Recipient<Box<Order>>,
    pub(crate) abort: Recipient<Abort>,
    pub(crate) find_lost: Recipient<FindLost>,
    pub(crate) recall: Recipient<Recall>,
    pub(crate) probe: Recipient<ProbeOrder>,
    pub(crate) forget: Recipient<Forget>,
    pub(crate) permits: Arc<CallPermits>,
    /// The ways to the supervisors, which find the actor concerned.
    pub(crate) to_task: Route<Box<ToTask>>,
    pub(crate) acquire: Route<AcquireTurn>,
    /// The addresses of this arbiter's supervisor.
    pub(crate) became_idle: Recipient<BecameIdle>,
    pub(crate) stopped: Recipient<TaskActorStopped>,
    pub(crate) unresolved: Arc<UnresolvedAppends>,
    /// The condition of the log.
    pub(crate) condition: Arc<LogCondition>,
    pub(crate) run_starts: Arc<RunStarts>,
    pub(crate) tool_stores: Arc<ToolStores>,
    pub(crate) secrets: Arc<TaskSecrets>,
    pub(crate) live: Arc<LiveHub>,
    /// The answers to the actors' appends.
    pub(crate) reply_queue: Arc<ReplyQueue>,
    /// The actors' replies to callers.
    pub(crate) replies: Arc<Replies>,
    /// Set while too many actors are live, so that an actor that becomes idle reports it.
    pub(crate) crowded: Arc<AtomicBool>,
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) attended: Arc<AttendedTasks>,
    /// Whether the system has several agents, whose tasks may wait for each other.
    pub(crate) has_others: bool,
    /// Whether a test observes the actors' threads, on which all work must stay then.
    pub(crate) under_test: bool,
}

impl Parts {
    /// Returns the parts of the agent of this name.
    pub(crate) fn of_agent(&self, name: &str) -> Option<&AgentParts> {
        self.agents.iter().find(|own| own.agent.name == name)
    }

    /// Whether a stream is one of this system's agents.
    pub(crate) fn is_own(&self, stream: &StreamId) -> bool {
        let agent = stream.agent();
        self.agents.iter().any(|own| own.agent.name == agent)
    }

    /// Returns the runtime of the arbiter with this number, counted from zero.
    ///
    /// # Errors
    /// Errors of the operating system.
    #[cfg_attr(
        not(feature = "testing"),
        allow(clippy::unused_self, unused_variables, reason = "only a test observes the runtimes")
    )]
    pub(crate) fn runtime(&mut self, arbiter: usize) -> std::io::Result<tokio::runtime::Runtime> {
        #[cfg(feature = "testing")]
        if let Some(observed) = &self.observed {
            if arbiter > 0 {
                return observed.further_runtime();
            }
            let runtime = observed.runtime()?;
            self.calls = runtime.handle().clone();
            return Ok(runtime);
        }
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    }

    /// Whether a test observes the actors' threads, on which all work must stay then.
    #[cfg_attr(
        not(feature = "testing"),
        allow(clippy::unused_self, reason = "only a test observes the runtime")
    )]
    pub(crate) fn is_under_test(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.observed.is_some();
        #[cfg(not(feature = "testing"))]
        false
    }

    /// Prepares the actors' thread, at its start.
    #[cfg_attr(
        not(feature = "testing"),
        allow(clippy::unused_self, reason = "only a test observes the runtime")
    )]
    pub(crate) fn enter(&self) {
        #[cfg(feature = "testing")]
        if let Some(observed) = &self.observed {
            observed.enter();
        }
    }
}

impl Shared {
    /// Whether the system takes no new work.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
