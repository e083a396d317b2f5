//! The settings of a builder about what an agent is: its tools, its model, its peers, who decides about its calls.

use std::sync::Arc;
use std::time::Duration;

use proto_events::model::AgentCard;

use crate::agent::approval::{ApprovalRequest, Approvals, Approver};
use crate::agent::capability::CapabilityPolicy;
use crate::agent::directory::PeerDirectory;
use crate::agent::peer::Peer;
use crate::agent::state_modules::{HistoryCompaction, StateModule, StateModules};
use crate::models::backend::{InferBackend, KnownBackend};
use crate::system::builder::Builder;
#[cfg(doc)]
use crate::system::handle::System;
use crate::tools::into_tool::IntoTool;
#[cfg(feature = "mcp")]
use crate::tools::mcp::server::McpServer;
use crate::tools::policy::ToolPolicy;
use crate::tools::registry::{RegisteredTool, check_name};

impl<Of> Builder<Of> {
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
        match KnownBackend::from_backend(Arc::new(backend)) {
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

    /// Sets the directory in which an agent is looked up that is not known here, at the moment when it is asked by its name.
    /// The model, or a tool, may name any agent. Such a call is recorded like any other: its intent is on disk before the agent
    /// is looked up. The model is shown the agents that the directory lists ([`PeerDirectory::list`]) and those that were found:
    /// they are part of the agent's definition, which gets a new revision when one joins. Switches delegation on.
    #[must_use]
    pub fn peer_directory(mut self, directory: impl PeerDirectory) -> Self {
        self.faults.extend(self.agent.peers.look_up(Arc::new(directory)).err());
        self
    }

    /// Sets whether the model, the tools and the handler may ask other agents: off until a peer is added or agents are
    /// chosen. When off, the model receives the error that it may not; when on without any agent, the error that the agent
    /// does not exist. When on, all other agents of the system may be asked by their names, unless
    /// [`Builder::delegates_to`] chooses some.
    ///
    /// An agent of the same system is sent a task of its own, in a run that names this one as its parent, with what is left
    /// of the budget. While that task waits for a person this one waits too, and goes on when that one has ended.
    #[must_use]
    pub fn delegation(mut self, on: bool) -> Self {
        self.agent.peers.switch(on);
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
    /// [`System::card`]; where it panics, that card is used. Two of the capabilities are enforced: `max_concurrency` bounds the
    /// calls at once as [`Builder::max_concurrency`] does, and where `timeout_support` is false, a task with a deadline is
    /// refused.
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

    /// Sets which other agents of the system may be asked, and switches delegation on. [`Builder::start`] refuses a name that
    /// does not belong to another agent.
    ///
    /// ```
    /// use taskreel::System;
    ///
    /// let builder = System::builder("./log")
    ///     .name("desk")
    ///     .delegates_to(["archive"])
    ///     .agent("archive", |agent| agent.description("Knows what was decided"))
    ///     .agent("audit", |agent| agent.delegation(true));
    /// ```
    #[must_use]
    pub fn delegates_to(mut self, agents: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.agent.peers.choose(agents.into_iter().map(Into::into).collect());
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

    /// Sets the modules of the agent's state: each is described and reset by the [control plane](crate::state::State). By
    /// default it is the conversation alone. Without the module of conversations the agent is [stateless](Self::stateless).
    ///
    /// ```
    /// use taskreel::System;
    /// use taskreel::state::StateModules;
    ///
    /// let builder = System::builder("./log").state(StateModules::all());
    /// ```
    #[must_use]
    pub fn state(mut self, modules: StateModules) -> Self {
        self.agent.conversation = modules.has(StateModule::Conversation);
        self.agent.modules = modules;
        self
    }

    /// Compacts each conversation that has grown above a limit, between its turns.
    #[must_use]
    pub fn auto_compact(mut self, compaction: HistoryCompaction) -> Self {
        match compaction.checked() {
            Ok(automatic) => self.agent.auto_compaction = Some(automatic),
            Err(fault) => self.faults.push(fault),
        }
        self
    }
}
