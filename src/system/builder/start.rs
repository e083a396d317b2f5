//! The start of a system: its settings are checked, its log is opened, its start is recorded, its actors begin.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, RwLock};

use proto_events::id::StreamId;
use taskreel_log::api::EventStore;
use taskreel_log::sled::{SledOptions, SledStore};
#[cfg(unix)]
use taskreel_log::socket::SocketPath;

use crate::actors::shared::owner::Owner;
use crate::actors::shared::parts::{AgentParts, Parts};
use crate::actors::shared::secrets::TaskSecrets;
use crate::error::Error;
use crate::system::builder::Builder;
use crate::system::builder::agent_descriptions::{checked, described, introduce};
#[cfg(not(unix))]
use crate::system::builder::log::SocketPath;
use crate::system::builder::log::socket_path;
use crate::system::calls_runtime::{Calls, entered, runtime};
use crate::system::gate::Gate;
use crate::system::handle::{Caller, Inner, Phase, System, blocking};
use crate::system::known_agent::KnownAgent;
use crate::system::local_peer::{LinkEnd, SystemLink};
use crate::system::reopen::own_open_work;
use crate::system::running_system::RunningSystem;
#[cfg(unix)]
use crate::system::socket_registry::SystemSocket;
use crate::system::starts::{record_start, record_stop};

impl Builder {
    /// Opens the log, starts the actors, and resumes the work that was open when the log was last closed or
    /// its process died.
    ///
    /// # Errors
    /// [`Error::Open`] if the log cannot be opened, [`Error::Builder`] if the settings are invalid, if a tool, a
    /// model or another agent panicked when it was registered, or if this agent already runs over the same store.
    pub async fn start(mut self) -> Result<System, Error> {
        let (calls, own_runtime) = runtime(std::mem::replace(&mut self.of.calls, Calls::Current))?;
        entered(calls.clone(), Box::pin(self.start_within(calls, own_runtime))).await
    }

    async fn start_within(
        self,
        calls: tokio::runtime::Handle,
        own_runtime: Option<tokio::runtime::Runtime>,
    ) -> Result<System, Error> {
        match self.start_on(calls).await {
            Ok(ready) => {
                let (log, its_ports) = (Arc::clone(&ready.parts.store), ready.parts.ports.clone());
                match assemble(ready, own_runtime) {
                    Ok(system) => Ok(system),
                    Err(error) => {
                        // The error of the start is what the caller must hear.
                        let _ = record_stop(&log, &its_ports, Some(error.to_string())).await;
                        Err(error)
                    }
                }
            }
            Err(error) => {
                // Dropping the runtime here would block, which is not allowed in async code.
                if let Some(runtime) = own_runtime {
                    runtime.shutdown_background();
                }
                Err(error)
            }
        }
    }

    async fn start_on(self, calls: tokio::runtime::Handle) -> Result<Ready, Error> {
        let arbiters = self.arbiter_count();
        let (all, of) = described(self);
        let (link_end, link) = SystemLink::new();
        let mut agents = checked(all, &calls).await?;
        introduce(&mut agents, &link)?;
        let names: Vec<String> = agents.iter().map(|own| own.agent.name.clone()).collect();
        let (path, given, own_names) = (of.path, of.store, names.clone());
        let in_dir = given.is_none().then(|| path.clone());
        let provider = of.secrets;
        let options = SledOptions { durability: of.durability, ..SledOptions::default() };
        let (has_socket, held) = (of.socket, of.held);
        // A log that the host has opened has a directory too.
        let dir = in_dir.or_else(|| held.as_ref().map(|held| held.dir().to_owned()));
        let of_secrets = dir.clone();
        let (store, open, secrets, socket) = blocking(move || {
            let (store, held) = if let Some(store) = given {
                (store, held)
            } else {
                let store = Arc::new(SledStore::open_with(&path, options)?);
                (Arc::clone(&store) as Arc<dyn EventStore>, Some(store))
            };
            let socket = held.filter(|_| has_socket).and_then(|held| socket_path(&held));
            let open = own_open_work(store.as_ref(), &own_names)?;
            let secrets = TaskSecrets::open(of_secrets.as_deref(), provider)
                .map_err(|error| Error::Secrets(error.to_string()))?;
            Ok::<_, Error>((store, open, Arc::new(secrets), socket))
        })
        .await??;
        let owner = Arc::new(Owner::new(&store, names)?);
        #[cfg(feature = "mcp")]
        let servers = agents.iter().flat_map(|own| own.mcp.seen(&own.agent.name)).collect();
        #[cfg(not(feature = "mcp"))]
        let servers = Vec::new();
        let (build, described) = (of.build.as_deref(), agents.iter().map(|own| &own.agent));
        let revisions =
            record_start(&store, &of.ports, &described.collect::<Vec<_>>(), build, servers).await?;
        let agents: Box<[_]> =
            agents.into_iter().zip(revisions).map(|(own, revision)| own.into_known(revision)).collect();
        let agent_parts =
            agents.iter().map(|own| AgentParts::new(Arc::clone(&own.agent), &store, &of.ports)).collect();
        let parts = Parts {
            build: of.build.map(Into::into),
            agents: agent_parts,
            store,
            owner,
            secrets,
            ports: of.ports,
            calls,
            passivate_after: of.passivate_after,
            live_actors: of.live_actors,
            arbiters,
            resumed_at_once: of.resumed_at_once,
            unresolved: Arc::default(),
            condition: Arc::default(),
            run_starts: Arc::default(),
            live: Arc::default(),
            stuck: Arc::default(),
            figures: Arc::default(),
            stopping: Arc::new(AtomicBool::new(false)),
            attended: Arc::default(),
            #[cfg(feature = "testing")]
            observed: of.observed,
        };
        Ok(Ready { agents, link_end, dir, parts, open, socket })
    }
}

/// A system whose log is open and whose start is recorded.
struct Ready {
    agents: Box<[Arc<KnownAgent>]>,
    /// The end of the way from the agents to the system.
    link_end: LinkEnd,
    /// The directory of the log, unless the host gave a store.
    dir: Option<PathBuf>,
    parts: Parts,
    open: Vec<StreamId>,
    #[cfg_attr(not(unix), expect(dead_code, reason = "without Unix sockets it is always none"))]
    socket: Option<SocketPath>,
}

/// Starts a system.
fn assemble(ready: Ready, own_runtime: Option<tokio::runtime::Runtime>) -> Result<System, Error> {
    let first = ready.agents.first().cloned();
    let first = first.ok_or_else(|| Error::Internal("a system has at least one agent".to_owned()))?;
    let (sockets, stopping) = (ready.parts.ports.clone(), Arc::clone(&ready.parts.stopping));
    let figures = Arc::clone(&ready.parts.figures);
    let inner = Inner {
        #[cfg(unix)]
        socket: SystemSocket::closed(ready.socket),
        agents: ready.agents,
        ports: sockets,
        running: RwLock::new(Arc::new(RunningSystem::start(ready.parts, ready.open)?)),
        gate: Gate::default(),
        changing: tokio::sync::Mutex::new(Phase::Running),
        stopping,
        figures,
        own_runtime,
        dir: ready.dir,
    };
    let caller = Arc::new(Caller::from_agent(first));
    let system = System { inner: Arc::new(inner), caller };
    ready.link_end.send_replace(Some(Arc::downgrade(&system.inner)));
    #[cfg(unix)]
    system.open_socket();
    #[cfg(feature = "mcp")]
    system.keep_trying_mcp();
    system.keep_learning_of_peers();
    Ok(system)
}
