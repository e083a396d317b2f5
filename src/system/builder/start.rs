//! The start of a system: its settings are checked, its log is opened, its start is recorded, its actors begin.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, RwLock};

use proto_events::id::{StreamId, check_id};
use taskreel_log::api::EventStore;
#[cfg(unix)]
use taskreel_log::door::DoorPlace;
use taskreel_log::sled::{SledOptions, SledStore};

use crate::actors::shared::owner::Owner;
use crate::actors::shared::parts::Parts;
use crate::actors::shared::secrets::Secrets;
use crate::actors::shared::tool_stores::ToolStores;
use crate::error::Error;
use crate::system::builder::Builder;
#[cfg(not(unix))]
use crate::system::builder::log::DoorPlace;
use crate::system::builder::log::door_place;
use crate::system::calls_runtime::{Calls, entered, runtime};
#[cfg(unix)]
use crate::system::door_slot::SystemDoor;
use crate::system::handle::{Inner, Phase, System, blocking};
use crate::system::once::OnceKeys;
use crate::system::reopen::own_open_work;
use crate::system::running::Running;
use crate::system::starts::{record_start, record_stop};
use crate::system::task_index::SharedTaskIndex;
#[cfg(feature = "mcp")]
use crate::tools::mcp::servers::McpServers;

impl Builder {
    /// Opens the log, starts the actors, and resumes the work that was open when the log was last closed or
    /// its process died.
    ///
    /// # Errors
    /// [`Error::Open`] if the log cannot be opened, [`Error::Builder`] if the settings are invalid, if a tool, a
    /// model or another agent panicked when it was registered, or if this agent already runs over the same store.
    pub async fn start(mut self) -> Result<System, Error> {
        let (calls, own_runtime) = runtime(std::mem::replace(&mut self.calls, Calls::Current))?;
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

    async fn start_on(mut self, calls: tokio::runtime::Handle) -> Result<Ready, Error> {
        let arbiters = self.arbiter_count();
        if let Some(fault) = self.faults.into_iter().next() {
            return Err(Error::Builder(fault));
        }
        check_id(&self.agent.name)?;
        #[cfg(feature = "mcp")]
        let mcp =
            McpServers::connect(self.mcp, &mut self.agent.tools, &calls).await.map_err(Error::Builder)?;
        self.agent.check().map_err(Error::Builder)?;
        let (path, given, name) = (self.path, self.store, self.agent.name.clone());
        let in_dir = given.is_none().then(|| path.clone());
        let provider = self.secrets;
        let options = SledOptions { durability: self.durability, ..SledOptions::default() };
        let (has_door, held) = (self.door, self.held);
        // A log that the host has opened has a directory too.
        let dir = in_dir.clone().or_else(|| held.as_ref().map(|held| held.dir().to_owned()));
        let (store, open, name, secrets, door) = blocking(move || {
            let (store, held) = if let Some(store) = given {
                (store, held)
            } else {
                let store = Arc::new(SledStore::open_with(&path, options)?);
                (Arc::clone(&store) as Arc<dyn EventStore>, Some(store))
            };
            let door = held.filter(|_| has_door).and_then(|held| door_place(&held));
            let open = own_open_work(store.as_ref(), &name)?;
            let secrets = Secrets::open(in_dir.as_deref(), provider)
                .map_err(|error| Error::Secrets(error.to_string()))?;
            Ok::<_, Error>((store, open, name, Arc::new(secrets), door))
        })
        .await??;
        let owner = Arc::new(Owner::of(&store, &name)?);
        #[cfg(feature = "mcp")]
        let servers = mcp.seen(&name);
        #[cfg(not(feature = "mcp"))]
        let servers = Vec::new();
        let build = self.build.as_deref();
        let revision = record_start(&store, &self.ports, Some(&self.agent), build, servers).await?;
        self.agent.tools.begin(revision);
        let parts = Parts {
            build: self.build.map(Into::into),
            agent: Arc::new(self.agent),
            tool_stores: Arc::new(ToolStores::new(Arc::clone(&store), &self.ports, &name)),
            store,
            owner,
            secrets,
            ports: self.ports,
            calls,
            passivate_after: self.passivate_after,
            live_actors: self.live_actors,
            arbiters,
            resumed_at_once: self.resumed_at_once,
            unresolved: Arc::default(),
            condition: Arc::default(),
            run_starts: Arc::default(),
            live: Arc::default(),
            stuck: Arc::default(),
            figures: Arc::default(),
            stopping: Arc::new(AtomicBool::new(false)),
            #[cfg(feature = "testing")]
            observed: self.observed,
        };
        Ok(Ready {
            name,
            dir,
            parts,
            open,
            door,
            #[cfg(feature = "mcp")]
            mcp,
        })
    }
}

/// A system whose log is open and whose start is recorded.
struct Ready {
    name: String,
    /// The directory of the log, unless the host gave a store.
    dir: Option<PathBuf>,
    parts: Parts,
    open: Vec<StreamId>,
    #[cfg_attr(not(unix), expect(dead_code, reason = "without Unix sockets it is always none"))]
    door: Option<DoorPlace>,
    #[cfg(feature = "mcp")]
    mcp: McpServers,
}

/// Starts a system.
fn assemble(ready: Ready, own_runtime: Option<tokio::runtime::Runtime>) -> Result<System, Error> {
    let (doors, stopping) = (ready.parts.ports.clone(), Arc::clone(&ready.parts.stopping));
    let figures = Arc::clone(&ready.parts.figures);
    let inner = Inner {
        #[cfg(unix)]
        door: SystemDoor::at(ready.door),
        agent: ready.name,
        ports: doors,
        files: ready.parts.agent.files.clone(),
        running: RwLock::new(Arc::new(Running::start(ready.parts, ready.open)?)),
        gate: tokio::sync::RwLock::new(()),
        changing: tokio::sync::Mutex::new(Phase::Running),
        stopping,
        figures,
        own_runtime,
        once: OnceKeys::default(),
        tasks: SharedTaskIndex::default(),
        dir: ready.dir,
        #[cfg(feature = "mcp")]
        mcp: ready.mcp,
    };
    let system = System { inner: Arc::new(inner), caller: Arc::default() };
    #[cfg(unix)]
    system.open_door();
    #[cfg(feature = "mcp")]
    system.keep_trying_mcp();
    Ok(system)
}
