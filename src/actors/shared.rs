//! What every actor of a system shares. Actors know each other by what they may be sent, not by who they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::Recipient;

use crate::actors::doubtful::Doubtful;
use crate::actors::live::LiveHub;
use crate::actors::messages::{Abort, AcquireTurn, Order, ProbeOrder, Recall, Rested, Stopped, ToTask};
use crate::actors::places::Places;
use crate::actors::snapshots::Snapshots;
use crate::actors::tool_stores::ToolStores;
use crate::agent::Agent;
use crate::ports::Ports;
use crate::store::EventStore;

/// What a system is made of before it starts.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) agent: Arc<Agent>,
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) ports: Ports,
    /// Where tools and models run; never the arbiter.
    pub(crate) calls: tokio::runtime::Handle,
    pub(crate) passivate_after: Duration,
    pub(crate) live_actors: usize,
    pub(crate) doubtful: Arc<Doubtful>,
    pub(crate) tool_stores: Arc<ToolStores>,
    pub(crate) snapshots: Option<Snapshots>,
    /// Who hears what is not in the log.
    pub(crate) live: Arc<LiveHub>,
    /// Set once: no new work from then on.
    pub(crate) stopping: Arc<AtomicBool>,
    /// Where a test holds the actors' thread, on which calls run too then.
    #[cfg(feature = "testing")]
    pub(crate) stage: Option<Arc<crate::actors::stage::Stage>>,
}

/// What every actor of a system shares. Held by one count each: a copy would copy every address.
pub(crate) struct Shared {
    pub(crate) agent: Arc<Agent>,
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) ports: Ports,
    /// Where an approval handler runs; never the arbiter.
    pub(crate) calls: tokio::runtime::Handle,
    /// The router.
    pub(crate) dispatch: Recipient<Order>,
    pub(crate) abort: Recipient<Abort>,
    pub(crate) recall: Recipient<Recall>,
    pub(crate) probe: Recipient<ProbeOrder>,
    pub(crate) places: Arc<Places>,
    /// The supervisor, which finds whom it concerns.
    pub(crate) to_task: Recipient<ToTask>,
    pub(crate) acquire: Recipient<AcquireTurn>,
    pub(crate) rested: Recipient<Rested>,
    pub(crate) stopped: Recipient<Stopped>,
    pub(crate) doubtful: Arc<Doubtful>,
    pub(crate) tool_stores: Arc<ToolStores>,
    pub(crate) snapshots: Option<Snapshots>,
    /// More actors are awake than should be, so that whoever comes to rest says so.
    pub(crate) crowded: AtomicBool,
    pub(crate) stopping: Arc<AtomicBool>,
}

impl Parts {
    /// The runtime of the actors' thread.
    ///
    /// # Errors
    /// What the operating system answers.
    pub(crate) fn runtime(&mut self) -> std::io::Result<tokio::runtime::Runtime> {
        #[cfg(feature = "testing")]
        if let Some(stage) = &self.stage {
            let runtime = stage.runtime()?;
            self.calls = runtime.handle().clone();
            return Ok(runtime);
        }
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    }

    /// The actors' thread has begun.
    pub(crate) fn enter(&self) {
        #[cfg(feature = "testing")]
        if let Some(stage) = &self.stage {
            stage.enter();
        }
    }
}

impl Shared {
    /// Whether the system takes no new work.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
