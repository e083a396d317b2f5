//! The builder of a system, and of each agent in it.

pub(crate) mod actors;
pub(crate) mod agent;
pub(crate) mod agent_descriptions;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod start;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use taskreel_log::api::{Durability, EventStore};
use taskreel_log::ports::Ports;
use taskreel_log::sled::SledStore;

use crate::agent::card::Agent;
#[cfg(feature = "testing")]
use crate::agent::handler::{HandlerCode, KnownHandler};
use crate::limits::{LIVE_ACTORS, PASSIVATE_AFTER, RESUMED_AT_ONCE};
use crate::system::calls_runtime::Calls;
use crate::system::handle::System;
#[cfg(feature = "mcp")]
use crate::tools::mcp::server::McpServer;
use crate::tools::secret::SecretProvider;
#[cfg(feature = "testing")]
use crate::tools::tool::Tool;

/// A builder of a system: its log, its limits, and its agent with tools and model. [`Builder::agent`] adds further agents,
/// each of which is described by an [`AgentBuilder`]: the same type without the settings of the whole system.
///
/// ```
/// use std::time::Duration;
/// use taskreel::prelude::*;
///
/// let builder = System::builder("./log")
///     .name("desk")
///     .system_prompt("Be brief.")
///     .run_budget(RunBudget::new().llm_calls(8).runtime(Duration::from_secs(120)))
///     .max_concurrency(16)
///     .approvals_by_person()
///     .agent("archive", |agent| agent.stateless().system_prompt("Look things up."));
/// ```
pub struct Builder<Of = WholeSystem> {
    pub(crate) agent: Agent,
    /// The panics of what was registered: the start reports the first.
    faults: Vec<String>,
    #[cfg(feature = "mcp")]
    mcp: Vec<McpServer>,
    pub(crate) of: Of,
}

/// A builder of one agent of a system, see [`Builder::agent`].
pub type AgentBuilder = Builder<OneAgent>;

/// The settings of a whole system, which its [`Builder`] has beside the settings of its first agent.
pub struct WholeSystem {
    path: PathBuf,
    store: Option<Arc<dyn EventStore>>,
    secrets: Option<Arc<dyn SecretProvider>>,
    durability: Option<Durability>,
    pub(crate) build: Option<String>,
    ports: Ports,
    calls: Calls,
    passivate_after: Duration,
    live_actors: usize,
    arbiters: Option<usize>,
    pub(crate) resumed_at_once: usize,
    pub(crate) socket: bool,
    /// The log in a directory that the host has opened.
    pub(crate) held: Option<Arc<SledStore>>,
    /// The further agents, in the order in which they were added.
    pub(crate) agents: Vec<AgentBuilder>,
    #[cfg(feature = "testing")]
    observed: Option<Arc<crate::actors::shared::observed_runtime::ObservedRuntime>>,
}

/// Marks the builder of one agent of a system: it has the agent's settings alone.
#[derive(Debug)]
pub struct OneAgent(());

impl std::fmt::Debug for WholeSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WholeSystem").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<Of: std::fmt::Debug> std::fmt::Debug for Builder<Of> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("agent", &self.agent).field("of", &self.of).finish_non_exhaustive()
    }
}

impl<Of> Builder<Of> {
    fn of_agent(name: impl Into<String>, of: Of) -> Self {
        Self {
            agent: Agent::new(name),
            faults: Vec::new(),
            #[cfg(feature = "mcp")]
            mcp: Vec::new(),
            of,
        }
    }

    /// Wraps each of the agent's tools and its handler, for a test.
    #[cfg(feature = "testing")]
    fn wrap(
        &mut self,
        wrap: &impl Fn(Arc<dyn Tool>) -> Arc<dyn Tool>,
        wrap_handler: &impl Fn(Arc<dyn HandlerCode>) -> Arc<dyn HandlerCode>,
    ) {
        self.agent.tools.wrap_each(wrap);
        if let Some(known) = self.agent.handler.take() {
            self.agent.handler = Some(KnownHandler { code: wrap_handler(known.code), ..known });
        }
    }
}

impl Builder {
    pub(crate) fn new(path: PathBuf) -> Self {
        // Whole: the program may change its working directory.
        let path = std::path::absolute(&path).unwrap_or(path);
        let of = WholeSystem {
            path,
            store: None,
            secrets: None,
            durability: None,
            build: None,
            ports: Ports::default(),
            calls: Calls::Current,
            passivate_after: PASSIVATE_AFTER,
            live_actors: LIVE_ACTORS,
            arbiters: None,
            resumed_at_once: RESUMED_AT_ONCE,
            socket: true,
            held: None,
            agents: Vec::new(),
            #[cfg(feature = "testing")]
            observed: None,
        };
        Self::of_agent("agent", of)
    }

    /// Sets up a system for this runtime: all of it on one thread, over this store, with this clock and these
    /// ids, and with each of the agents' tools and handlers wrapped.
    #[cfg(feature = "testing")]
    pub(crate) fn under_test(
        mut self,
        observed: Arc<crate::actors::shared::observed_runtime::ObservedRuntime>,
        store: Arc<dyn EventStore>,
        ports: Ports,
        wrap: impl Fn(Arc<dyn Tool>) -> Arc<dyn Tool>,
        wrap_handler: impl Fn(Arc<dyn HandlerCode>) -> Arc<dyn HandlerCode>,
    ) -> Self {
        self.wrap(&wrap, &wrap_handler);
        for agent in &mut self.of.agents {
            agent.wrap(&wrap, &wrap_handler);
        }
        self.of.observed = Some(observed);
        self.store(store).ports(ports)
    }

    /// Sets the name of the system's first agent, by default `agent`. It is part of each of its streams' names.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.agent.name = name.into();
        self
    }

    /// Adds a further agent, with tools, a model and settings of its own, and with streams of its own in the same log. All
    /// agents of a system share its log, its threads, its socket and its end. [`System::agent`] returns the handle that
    /// addresses the agent; the system itself addresses its first one.
    ///
    /// The names are unique and not in [`RESERVED_AGENT_NAMES`](crate::limits::RESERVED_AGENT_NAMES);
    /// [`Builder::start`] refuses others.
    ///
    /// ```
    /// use taskreel::prelude::*;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), taskreel::Error> {
    /// # let store = std::sync::Arc::new(taskreel::log::memory::MemoryStore::new());
    /// let system = System::builder("./log").name("desk").agent("archive", |agent| agent.stateless());
    /// # let system = system.store(store);
    /// let system = system.start().await?;
    /// let archive = system.agent("archive").expect("it was added above");
    /// let task = archive.submit(Part::text("A note")).await?;
    /// assert_eq!(task.finished().await?.state(), TaskState::Completed);
    /// assert_eq!(system.agents(), ["desk", "archive"]);
    /// system.shutdown().await
    /// # }
    /// ```
    #[must_use]
    pub fn agent(
        mut self,
        name: impl Into<String>,
        describe: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Self {
        let agent = describe(Builder::of_agent(name, OneAgent(())));
        self.of.agents.push(agent);
        self
    }

    /// Sets the host's own name for its build, such as a version or a commit. Each start records it, so that the
    /// log shows which build decided what.
    #[must_use]
    pub fn build_id(mut self, build: impl Into<String>) -> Self {
        self.of.build = Some(build.into());
        self
    }

    /// Sets the host's lookup of secret values that are given by name, for the arguments that a tool declares secret
    /// ([`ToolPolicy::secret_args`](crate::tool::ToolPolicy::secret_args)). It is asked when a call is sent.
    #[must_use]
    pub fn secrets(mut self, provider: impl SecretProvider) -> Self {
        self.of.secrets = Some(Arc::new(provider));
        self
    }

    /// Sets the runtime of tools and models, by default the one on which `start` is called.
    #[must_use]
    pub fn calls_on(mut self, handle: tokio::runtime::Handle) -> Self {
        self.of.calls = Calls::On(handle);
        self
    }

    /// Puts tools and models on a runtime of the system's own, with this number of threads.
    #[must_use]
    pub fn own_runtime(mut self, threads: usize) -> Self {
        self.of.calls = Calls::Own(threads.max(1));
        self
    }

    /// Sets what an acknowledged command survives. A new log is strict by default; an existing one keeps its
    /// own setting, and opening it with another fails.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.of.durability = Some(durability);
        self
    }

    /// Replaces the clock and the source of ids, for tests.
    #[must_use]
    pub fn ports(mut self, ports: Ports) -> Self {
        self.of.ports = ports;
        self
    }

    /// Replaces the store in the directory, for tests and for stores of your own.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn EventStore>) -> Self {
        self.of.store = Some(store);
        self.of.held = None;
        self
    }
}

impl System {
    /// Returns a builder of a system over the log in this directory, which is created if it does not exist.
    pub fn builder(path: impl Into<PathBuf>) -> Builder {
        Builder::new(path.into())
    }
}
