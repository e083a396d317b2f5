//! Describing a system before it starts.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use proto_events::id::{StreamId, check_id};

use crate::actors::shared::Parts;
use crate::actors::snapshots::Snapshots;
use crate::actors::tool_stores::ToolStores;
use crate::agent::Agent;
use crate::agent::approval::{Approvals, Approver};
use crate::agent::capability::CapabilityPolicy;
use crate::agent::infer::InferBackend;
use crate::agent::into_tool::IntoTool;
#[cfg(feature = "mcp")]
use crate::agent::mcp::McpServer;
use crate::agent::peer::Peer;
use crate::agent::policy::{InferPolicy, ToolPolicy};
use crate::agent::registry::RegisteredTool;
#[cfg(feature = "testing")]
use crate::agent::tool::Tool;
use crate::error::Error;
use crate::limits::{LIVE_ACTORS, PASSIVATE_AFTER};
use crate::ports::Ports;
use crate::store::{Durability, EventStore, SledOptions, SledStore};

use super::reopen::own_open_work;
use super::{System, assemble, blocking};

/// Where calls run.
enum Calls {
    /// On the runtime on which `start` is called.
    Current,
    /// On this one.
    On(tokio::runtime::Handle),
    /// On one of the system's own, with so many threads.
    Own(usize),
}

/// A system to be: its log, its tools, its model.
pub struct Builder {
    path: PathBuf,
    store: Option<Arc<dyn EventStore>>,
    durability: Option<Durability>,
    pub(super) agent: Agent,
    ports: Ports,
    calls: Calls,
    passivate_after: Duration,
    live_actors: usize,
    snapshots: Option<Snapshots>,
    #[cfg(feature = "mcp")]
    pub(super) mcp: Vec<McpServer>,
    #[cfg(feature = "testing")]
    stage: Option<Arc<crate::actors::stage::Stage>>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            store: None,
            durability: None,
            agent: Agent::new("agent"),
            ports: Ports::default(),
            calls: Calls::Current,
            passivate_after: PASSIVATE_AFTER,
            live_actors: LIVE_ACTORS,
            snapshots: None,
            #[cfg(feature = "mcp")]
            mcp: Vec::new(),
            #[cfg(feature = "testing")]
            stage: None,
        }
    }

    /// A system for this stage: all of it on one thread, over this store, with these doors. What is done with each of
    /// its tools is told here too.
    #[cfg(feature = "testing")]
    pub(crate) fn staged(
        mut self,
        stage: Arc<crate::actors::stage::Stage>,
        store: Arc<dyn EventStore>,
        ports: Ports,
        wrap: impl Fn(Arc<dyn Tool>) -> Arc<dyn Tool>,
    ) -> Self {
        self.agent.tools.wrap_each(wrap);
        self.stage = Some(stage);
        self.store(store).ports(ports)
    }

    /// The agent's name, `agent` if nothing is said. It is part of every stream's name.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>) -> Self {
        self.agent.name = name.into();
        self
    }

    /// Registers a tool: an `async fn(Args)` or `async fn(ToolContext, Args)`. Its recovery mode is Manual:
    /// after a crash in the middle it is not repeated, and its outcome is unknown.
    #[must_use]
    pub fn tool<M>(self, name: &str, description: &str, tool: impl IntoTool<M>) -> Self {
        self.tool_with(name, description, tool, ToolPolicy::manual())
    }

    /// Registers a tool with a policy of its own.
    #[must_use]
    pub fn tool_with<M>(
        mut self,
        name: &str,
        description: &str,
        tool: impl IntoTool<M>,
        policy: ToolPolicy,
    ) -> Self {
        self.agent.tools.register(RegisteredTool::new(name, description, policy, tool));
        self
    }

    /// How many calls, of tools and of the model, may be under way at once in the whole system; others wait with their
    /// intent on disk. No bound if nothing is said; zero is taken for one.
    #[must_use]
    pub fn max_concurrency(mut self, calls: usize) -> Self {
        self.agent.max_concurrency = Some(calls.max(1));
        self
    }

    /// How the model is called: time limit, retries, circuit breaker.
    #[must_use]
    pub fn infer_policy(mut self, policy: InferPolicy) -> Self {
        self.agent.infer_policy = policy;
        self
    }

    /// The tools of an MCP server, which is connected when the system starts. See [`McpServer`].
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn mcp(mut self, server: McpServer) -> Self {
        self.mcp.push(server);
        self
    }

    /// What the agent's tools may do: rules over the capabilities that they name. A run's own permissions
    /// (`run_context.permissions`) can only narrow them. All is allowed if nothing is said.
    #[must_use]
    pub fn capability_policy(mut self, policy: CapabilityPolicy) -> Self {
        self.agent.capability_policy = policy;
        self
    }

    /// Has an `async fn(ApprovalRequest) -> ApprovalVerdict` decide where the policy requires approval. What it is asked
    /// is on disk before, and what it answers before the call is made. It runs where calls run, and the session waits
    /// meanwhile; after a crash it is asked again. Where it panics or takes too long, a person is asked.
    ///
    /// If neither this nor [`Builder::approvals_by_person`] is called, a task that needs approval fails.
    #[must_use]
    pub fn approval_handler(mut self, handler: impl Approver) -> Self {
        self.agent.approvals = Approvals::Handler(Arc::new(handler));
        self
    }

    /// How long the approval handler may take; 120 s if nothing is said.
    #[must_use]
    pub fn approval_timeout(mut self, timeout: Duration) -> Self {
        self.agent.approval_timeout = timeout;
        self
    }

    /// Has a person decide where the policy requires approval: the task waits for input, with a message that says what is
    /// asked, and its session is free for others. [`System::approve`] and [`System::deny`] answer, and so do
    /// `taskreel approve` and `taskreel deny` while no process has the log open.
    #[must_use]
    pub fn approvals_by_person(mut self) -> Self {
        self.agent.approvals = Approvals::Person;
        self
    }

    /// The model that carries out `infer` parts. Without one they end in an error of code `no_llm`.
    #[must_use]
    pub fn infer(mut self, backend: impl InferBackend) -> Self {
        self.agent.backend = Some(Arc::new(backend));
        self
    }

    /// Another agent that the model may ask, as [`System::peer`] makes one of a system in this process. The model is told
    /// its name, what it does and its skills. Switches delegation on.
    #[must_use]
    pub fn peer(mut self, peer: impl Peer) -> Self {
        self.agent.peers.add(Arc::new(peer));
        self
    }

    /// Whether the model may ask other agents: off until there is one. Off, it is told that it may not; on without any,
    /// that the one it asks for is not there.
    #[must_use]
    pub fn delegation(mut self, on: bool) -> Self {
        self.agent.peers.switch(on);
        self
    }

    /// Instructions for the model, after our own.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.agent.system_prompt = Some(text.into());
        self
    }

    /// Keep no conversations: every infer part runs with an empty history inside its task's stream.
    #[must_use]
    pub fn stateless(mut self) -> Self {
        self.agent.conversation = false;
        self
    }

    /// Run tools and models on this runtime instead of the one on which `start` is called.
    #[must_use]
    pub fn calls_on(mut self, handle: tokio::runtime::Handle) -> Self {
        self.calls = Calls::On(handle);
        self
    }

    /// Run tools and models on a runtime of the system's own, with so many threads.
    #[must_use]
    pub fn own_runtime(mut self, threads: usize) -> Self {
        self.calls = Calls::Own(threads.max(1));
        self
    }

    /// Idle time after which the actor of a task or a session is put to sleep; 60 s if nothing is said.
    #[must_use]
    pub fn passivate_after(mut self, idle: Duration) -> Self {
        self.passivate_after = idle.max(Duration::from_millis(1));
        self
    }

    /// How many actors of tasks and sessions may be awake at once; 10,000 if nothing is said. When there are
    /// more, those that have been at rest longest are put to sleep at once; the log keeps them, and the next
    /// command wakes them. An actor with open work (a run, a turn that is being waited for, a caller who waits for the
    /// end) is never put to sleep, so that so much open work may exceed the bound.
    #[must_use]
    pub fn live_actors(mut self, bound: usize) -> Self {
        self.live_actors = bound.max(1);
        self
    }

    /// Keep a snapshot of a task or session whenever it has grown by so many events, so that it wakes without folding
    /// all of them again. Off unless asked for: folding is quick, and snapshots pay for streams of thousands of events
    /// only. A snapshot is a cache: made beside the commands, ignored and reported if it does not fit the log, and not
    /// made of a state that is larger than 56 KiB.
    #[must_use]
    pub fn snapshots_every(mut self, events: u64) -> Self {
        self.snapshots = Some(Snapshots::every(events));
        self
    }

    /// What an acknowledged command must have survived. A new log is strict if nothing is said; one that exists keeps
    /// its own, and is refused where another is asked for.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Another clock and other ids, for tests.
    #[must_use]
    pub fn ports(mut self, ports: Ports) -> Self {
        self.ports = ports;
        self
    }

    /// Another store than the one in the directory, for tests and for stores of your own.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn EventStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Opens the log, starts the actors, and takes up again what was going on when the log was last closed
    /// or its process died.
    ///
    /// # Errors
    /// [`Error::Open`] if the log cannot be opened, [`Error::Builder`] if the description cannot work.
    pub async fn start(mut self) -> Result<System, Error> {
        let (calls, own_runtime) = runtime(std::mem::replace(&mut self.calls, Calls::Current))?;
        match self.start_on(calls).await {
            Ok((name, parts, open)) => assemble(name, parts, open, own_runtime),
            Err(error) => {
                // To drop it here would block, which this place does not allow.
                if let Some(runtime) = own_runtime {
                    runtime.shutdown_background();
                }
                Err(error)
            }
        }
    }

    async fn start_on(
        #[cfg_attr(not(feature = "mcp"), expect(unused_mut, reason = "an MCP server adds tools"))] mut self,
        calls: tokio::runtime::Handle,
    ) -> Result<(String, Parts, Vec<StreamId>), Error> {
        #[cfg(feature = "mcp")]
        self.list_mcp(&calls).await?;
        check_id(&self.agent.name)?;
        for name in self.agent.tools.names() {
            // A tool's name becomes part of the name of its own stream.
            check_id(name).map_err(|error| Error::Builder(format!("tool `{name}`: {error}")))?;
        }
        for spec in self.agent.tools.specs() {
            if let Some(why) = spec.policy.contradiction() {
                return Err(Error::Builder(format!("tool `{}`: {why}", spec.name)));
            }
        }
        self.agent.peers.check(&self.agent.name).map_err(Error::Builder)?;
        if let Some(backend) = &self.agent.backend {
            let named = |why| format!("the model {}/{}: {why}", backend.backend(), backend.model());
            backend.check().map_err(|why| Error::Builder(named(why)))?;
        }
        let (path, given, name) = (self.path, self.store, self.agent.name.clone());
        let options = SledOptions { durability: self.durability, ..SledOptions::default() };
        let (store, open, name) = blocking(move || {
            let store = match given {
                Some(store) => store,
                None => Arc::new(SledStore::open_with(&path, options)?) as Arc<dyn EventStore>,
            };
            let open = own_open_work(store.as_ref(), &name)?;
            Ok::<_, Error>((store, open, name))
        })
        .await??;
        let parts = Parts {
            agent: Arc::new(self.agent),
            tool_stores: Arc::new(ToolStores::new(Arc::clone(&store), &name)),
            store,
            ports: self.ports,
            calls,
            passivate_after: self.passivate_after,
            live_actors: self.live_actors,
            doubtful: Arc::default(),
            snapshots: self.snapshots,
            live: Arc::default(),
            stopping: Arc::new(AtomicBool::new(false)),
            #[cfg(feature = "testing")]
            stage: self.stage,
        };
        Ok((name, parts, open))
    }
}

fn runtime(calls: Calls) -> Result<(tokio::runtime::Handle, Option<tokio::runtime::Runtime>), Error> {
    match calls {
        Calls::On(handle) => Ok((handle, None)),
        Calls::Current => tokio::runtime::Handle::try_current()
            .map(|handle| (handle, None))
            .map_err(|error| Error::Builder(format!("{error}; name one with `calls_on`"))),
        Calls::Own(threads) => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(threads)
                .thread_name("taskreel-calls")
                .enable_all()
                .build()
                .map_err(|error| Error::Builder(format!("no runtime for calls: {error}")))?;
            Ok((runtime.handle().clone(), Some(runtime)))
        }
    }
}
