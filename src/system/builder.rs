//! The builder of a system.

pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod start;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proto_events::model::AgentCard;
use taskreel_log::api::{Durability, EventStore};
use taskreel_log::ports::Ports;
use taskreel_log::sled::SledStore;

use crate::agent::approval::{ApprovalRequest, Approvals, Approver};
use crate::agent::capability::CapabilityPolicy;
use crate::agent::card::Agent;
#[cfg(feature = "testing")]
use crate::agent::handler::{HandlerCode, KnownHandler};
use crate::agent::peer::Peer;
use crate::limits::{LIVE_ACTORS, PASSIVATE_AFTER, RESUMED_AT_ONCE};
use crate::models::backend::{InferBackend, KnownBackend};
use crate::system::calls_runtime::Calls;
use crate::system::handle::System;
use crate::tools::into_tool::IntoTool;
#[cfg(feature = "mcp")]
use crate::tools::mcp::server::McpServer;
use crate::tools::policy::ToolPolicy;
use crate::tools::registry::{RegisteredTool, check_name};
use crate::tools::secret::SecretProvider;
#[cfg(feature = "testing")]
use crate::tools::tool::Tool;

/// A builder of a system: its log, its tools, its model, its limits.
///
/// ```
/// use std::time::Duration;
/// use taskreel::prelude::*;
///
/// let builder = System::builder("./log")
///     .agent("desk")
///     .system_prompt("Be brief.")
///     .run_budget(RunBudget::new().llm_calls(8).runtime(Duration::from_secs(120)))
///     .max_concurrency(16)
///     .approvals_by_person();
/// ```
pub struct Builder {
    path: PathBuf,
    store: Option<Arc<dyn EventStore>>,
    secrets: Option<Arc<dyn SecretProvider>>,
    durability: Option<Durability>,
    pub(crate) agent: Agent,
    pub(crate) build: Option<String>,
    /// The panics of what was registered: the start reports the first.
    faults: Vec<String>,
    ports: Ports,
    calls: Calls,
    passivate_after: Duration,
    live_actors: usize,
    arbiters: Option<usize>,
    pub(crate) resumed_at_once: usize,
    pub(crate) door: bool,
    /// The log in a directory that the host has opened.
    pub(crate) held: Option<Arc<SledStore>>,
    #[cfg(feature = "mcp")]
    mcp: Vec<McpServer>,
    #[cfg(feature = "testing")]
    observed: Option<Arc<crate::actors::shared::observed_runtime::ObservedRuntime>>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            store: None,
            secrets: None,
            durability: None,
            agent: Agent::new("agent"),
            build: None,
            faults: Vec::new(),
            ports: Ports::default(),
            calls: Calls::Current,
            passivate_after: PASSIVATE_AFTER,
            live_actors: LIVE_ACTORS,
            arbiters: None,
            resumed_at_once: RESUMED_AT_ONCE,
            door: true,
            held: None,
            #[cfg(feature = "mcp")]
            mcp: Vec::new(),
            #[cfg(feature = "testing")]
            observed: None,
        }
    }

    /// Sets up a system for this runtime: all of it on one thread, over this store, with this clock and these
    /// ids, and with each of its tools and its handler wrapped.
    #[cfg(feature = "testing")]
    pub(crate) fn under_test(
        mut self,
        observed: Arc<crate::actors::shared::observed_runtime::ObservedRuntime>,
        store: Arc<dyn EventStore>,
        ports: Ports,
        wrap: impl Fn(Arc<dyn Tool>) -> Arc<dyn Tool>,
        wrap_handler: impl FnOnce(Arc<dyn HandlerCode>) -> Arc<dyn HandlerCode>,
    ) -> Self {
        self.agent.tools.wrap_each(wrap);
        if let Some(known) = self.agent.handler.take() {
            self.agent.handler = Some(KnownHandler { code: wrap_handler(known.code), ..known });
        }
        self.observed = Some(observed);
        self.store(store).ports(ports)
    }

    /// Sets the agent's name, by default `agent`. It is part of each stream's name.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>) -> Self {
        self.agent.name = name.into();
        self
    }

    /// Sets the description of the agent in its card, by which people and other agents know what it is for.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.agent.presented.description = Some(text.into());
        self
    }

    /// Sets what the agent's card says beyond what follows from the agent: its address and version, tags, formats,
    /// security schemes, skills that are no tools. The function is given the card as it follows from the agent, see
    /// [`System::card`]; where it panics, that card is used.
    ///
    /// ```
    /// # use taskreel::System;
    /// let builder = System::builder("./log").description("Answers for the desk").card(|mut card| {
    ///     card.url = "https://desk.example.org".to_owned();
    ///     card.tags.push("support".to_owned());
    ///     card
    /// });
    /// ```
    #[must_use]
    pub fn card(mut self, change: impl Fn(AgentCard) -> AgentCard + Send + Sync + 'static) -> Self {
        self.agent.presented.change = Some(Arc::new(change));
        self
    }

    /// Sets the host's own name for its build, such as a version or a commit. Each start records it, so that the
    /// log shows which build decided what.
    #[must_use]
    pub fn build_id(mut self, build: impl Into<String>) -> Self {
        self.build = Some(build.into());
        self
    }

    /// Registers a tool: an `async fn(Args)` or `async fn(ToolContext, Args)`. Its recovery mode is Manual: a
    /// call interrupted by a crash is not repeated, and its outcome is unknown.
    #[must_use]
    pub fn tool<M>(self, name: &str, description: &str, tool: impl IntoTool<M>) -> Self {
        self.tool_with(name, description, tool, ToolPolicy::manual())
    }

    /// Registers a tool with a policy of its own. Its name has 1 to 64 ASCII letters, digits, `_`, `-`, `.` or `:`, and is
    /// no other tool's; its arguments are a struct. [`Builder::start`] reports what is wrong.
    #[must_use]
    pub fn tool_with<M>(
        mut self,
        name: &str,
        description: &str,
        tool: impl IntoTool<M>,
        policy: ToolPolicy,
    ) -> Self {
        let registered = check_name(name)
            .and_then(|()| RegisteredTool::new(name, description, policy, tool))
            .and_then(|tool| self.agent.tools.register(tool));
        self.faults.extend(registered.err());
        self
    }

    /// Adds the tools of an MCP server, which is connected when the system starts. A server that is not ready by
    /// then does not stop the start: it is tried again, see [`System::mcp_servers`] and [`McpServer`].
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn mcp(mut self, server: McpServer) -> Self {
        self.mcp.push(server);
        self
    }

    /// Sets what the agent's tools may do: rules over the capabilities that they name. A run's own
    /// permissions (`run_context.permissions`) can only narrow them. By default all is allowed.
    #[must_use]
    pub fn capability_policy(mut self, policy: CapabilityPolicy) -> Self {
        self.agent.capability_policy = policy;
        self
    }

    /// Sets an `async fn(ApprovalRequest) -> ApprovalVerdict` that decides where the policy requires
    /// approval. The request is on disk before it is made, and the verdict before the call is made. The
    /// handler runs on the runtime for calls, and the session waits for it; after a crash it is asked again.
    /// Where it panics or takes too long, a person is asked.
    ///
    /// If neither this nor [`Builder::approvals_by_person`] is called, a task that needs approval fails.
    #[must_use]
    pub fn approval_handler(mut self, handler: impl Approver) -> Self {
        self.agent.approvals = Approvals::Handler(Arc::new(handler));
        self
    }

    /// Sets the text with which a person is asked for an approval, in place of the default. It is the task's last message
    /// and is recorded. The default names the command line's `taskreel approve`, which works beside the running service
    /// too; a host with another way to decide says so here. Where the code panics or says nothing, the default is used.
    ///
    /// ```
    /// # use taskreel::System;
    /// let builder = System::builder("./log").approvals_by_person().approval_question(|request| {
    ///     format!("{} wants to {}: https://desk.example.org/{}", request.principal, request.tool, request.approval_id)
    /// });
    /// ```
    #[must_use]
    pub fn approval_question(
        mut self,
        text: impl Fn(&ApprovalRequest) -> String + Send + Sync + 'static,
    ) -> Self {
        self.agent.approval_question = Some(Arc::new(text));
        self
    }

    /// Sets the time limit of the approval handler, by default 120 s.
    #[must_use]
    pub fn approval_timeout(mut self, timeout: Duration) -> Self {
        self.agent.approval_timeout = timeout;
        self
    }

    /// Lets a person decide where the policy requires approval: the task waits for input, with a message that
    /// describes the request, and its session is free for other tasks. The decision is made by
    /// [`System::approve`] and [`System::deny`], or by `taskreel approve` and `taskreel deny`.
    #[must_use]
    pub fn approvals_by_person(mut self) -> Self {
        self.agent.approvals = Approvals::Person;
        self
    }

    /// Sets the model that carries out `infer` parts. Without one they end in an error with code `no_llm`.
    #[must_use]
    pub fn infer(mut self, backend: impl InferBackend) -> Self {
        match KnownBackend::of(Arc::new(backend)) {
            Ok(known) => self.agent.backend = Some(known),
            Err(fault) => self.faults.push(fault),
        }
        self
    }

    /// Adds another agent that the model may ask, such as [`System::peer`] creates for a system in this
    /// process. The model is shown its name, description and skills. Switches delegation on.
    #[must_use]
    pub fn peer(mut self, peer: impl Peer) -> Self {
        self.faults.extend(self.agent.peers.add(Arc::new(peer)).err());
        self
    }

    /// Sets whether the model may ask other agents: off until one is added. When off, the model receives the
    /// error that it may not; when on without any agent, the error that the agent does not exist.
    #[must_use]
    pub fn delegation(mut self, on: bool) -> Self {
        self.agent.peers.switch(on);
        self
    }

    /// Sets instructions for the model, which follow our own.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.agent.system_prompt = Some(text.into());
        self
    }

    /// Keeps no conversations: each infer part starts with an empty history, inside its task's stream.
    #[must_use]
    pub fn stateless(mut self) -> Self {
        self.agent.conversation = false;
        self
    }

    /// Sets the host's lookup of secret values that are given by name, for the arguments that a tool declares secret
    /// ([`ToolPolicy::secret_args`]). It is asked when a call is sent.
    #[must_use]
    pub fn secrets(mut self, provider: impl SecretProvider) -> Self {
        self.secrets = Some(Arc::new(provider));
        self
    }

    /// Sets the runtime of tools and models, by default the one on which `start` is called.
    #[must_use]
    pub fn calls_on(mut self, handle: tokio::runtime::Handle) -> Self {
        self.calls = Calls::On(handle);
        self
    }

    /// Puts tools and models on a runtime of the system's own, with this number of threads.
    #[must_use]
    pub fn own_runtime(mut self, threads: usize) -> Self {
        self.calls = Calls::Own(threads.max(1));
        self
    }

    /// Sets what an acknowledged command survives. A new log is strict by default; an existing one keeps its
    /// own setting, and opening it with another fails.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Replaces the clock and the source of ids, for tests.
    #[must_use]
    pub fn ports(mut self, ports: Ports) -> Self {
        self.ports = ports;
        self
    }

    /// Replaces the store in the directory, for tests and for stores of your own.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn EventStore>) -> Self {
        self.store = Some(store);
        self.held = None;
        self
    }
}

impl System {
    /// Returns a builder of a system over the log in this directory, which is created if it does not exist.
    pub fn builder(path: impl Into<PathBuf>) -> Builder {
        Builder::new(path.into())
    }
}
