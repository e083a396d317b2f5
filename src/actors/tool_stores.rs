//! What tools keep, in memory while the system runs. Each tool's stream has one entity, used by one task's actor at a
//! time: it decides for the tool and appends the writes with its own part. Calls read beside it, and only what is
//! durable.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use proto_events::decider::Decider;
use proto_events::envelope::{Committed, Metadata};
use proto_events::id::{Digest, StreamId, Version};
use proto_events::tool_store::{ToolStore, ToolStoreCommand};
use tokio::sync::OwnedMutexGuard;

use crate::actors::entity::Entity;
use crate::agent::tool_state::ToolState;
use crate::error::Error;
use crate::store::EventStore;

/// The stores of all tools of one agent that were used.
pub(crate) struct ToolStores {
    log: Arc<dyn EventStore>,
    agent: String,
    doors: Mutex<HashMap<StreamId, Arc<Door>>>,
}

/// One tool's store.
#[derive(Default)]
struct Door {
    /// None until the stream is read, and after something was decided that is not on disk.
    entity: Arc<tokio::sync::Mutex<Option<Entity<ToolStore>>>>,
    /// What is on disk, for calls to read.
    seen: Arc<RwLock<ToolStore>>,
    /// Whether `seen` was read.
    ready: AtomicBool,
}

/// One tool's store in the hands of one actor.
pub(crate) struct HeldStore {
    door: Arc<Door>,
    guard: OwnedMutexGuard<Option<Entity<ToolStore>>>,
}

impl ToolStores {
    pub(crate) fn new(log: Arc<dyn EventStore>, agent: &str) -> Self {
        Self { log, agent: agent.to_owned(), doors: Mutex::default() }
    }

    /// A tool's state for a call that begins now. Nothing is read for a tool that never kept anything.
    pub(crate) async fn state(&self, tool: &str) -> Result<ToolState, Error> {
        let stream = StreamId::tool(&self.agent, tool)?;
        let door = self.door(&stream);
        if !door.ready.load(Ordering::Acquire) {
            drop(self.take(&door, stream).await?);
        }
        Ok(ToolState::new(Arc::clone(&door.seen)))
    }

    /// Waits until nobody else decides for the tool, and takes its store.
    pub(super) async fn hold(&self, tool: &str) -> Result<HeldStore, Error> {
        let stream = StreamId::tool(&self.agent, tool)?;
        self.take(&self.door(&stream), stream).await
    }

    fn door(&self, stream: &StreamId) -> Arc<Door> {
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(doors.entry(stream.clone()).or_default())
    }

    async fn take(&self, door: &Arc<Door>, stream: StreamId) -> Result<HeldStore, Error> {
        let mut guard = Arc::clone(&door.entity).lock_owned().await;
        // An actor that ended in the middle leaves what it had decided.
        guard.take_if(|entity| !entity.pending().is_empty());
        if guard.is_none() {
            let entity = Entity::recover(&self.log, stream).await?;
            door.show(|seen| *seen = ToolStore::clone(entity.state()));
            *guard = Some(entity);
        }
        Ok(HeldStore { door: Arc::clone(door), guard })
    }
}

impl Door {
    fn show(&self, change: impl FnOnce(&mut ToolStore)) {
        change(&mut self.seen.write().unwrap_or_else(PoisonError::into_inner));
        self.ready.store(true, Ordering::Release);
    }
}

impl HeldStore {
    /// Decides what a call leaves behind.
    pub(super) fn decide(&mut self, command: ToolStoreCommand, metadata: &Metadata) -> Result<(), Error> {
        self.entity()?.decide(command, metadata)
    }

    /// The stream's entity.
    pub(super) fn entity(&mut self) -> Result<&mut Entity<ToolStore>, Error> {
        self.guard.as_mut().ok_or_else(|| Error::Internal("a tool's store was not read".to_owned()))
    }

    /// Whether anything waits to be written, and how large it is.
    pub(super) fn pending(&self) -> (bool, usize) {
        let entity = self.guard.as_ref();
        entity.map_or((false, 0), |entity| (!entity.pending().is_empty(), entity.pending_bytes()))
    }

    /// What was decided is on disk: calls may see it. Answers the version before.
    pub(super) fn settle(
        &mut self,
        committed: Committed,
        hash: Digest,
        metadata: &Metadata,
    ) -> Result<Version, Error> {
        let entity = self.entity()?;
        let before = entity.version();
        let events = entity.settle(committed, hash, metadata);
        self.door.show(|seen| events.iter().for_each(|event| seen.evolve(event, metadata)));
        Ok(before)
    }

    /// Nothing is known of what is on disk: whoever comes next reads it.
    pub(super) fn forget(mut self) {
        *self.guard = None;
    }
}
