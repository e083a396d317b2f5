//! The tools' states, in memory while the system runs. Each tool's stream has one entity, used by one task's
//! actor at a time, which decides for the tool and appends the writes with its own part. Calls read
//! concurrently, and only what is durable.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use proto_events::decider::Decider;
use proto_events::envelope::{Committed, Metadata};
use proto_events::id::{Digest, StreamId};
use proto_events::tool_store::{ToolStore, ToolStoreCommand};
use taskreel_log::api::EventStore;
use taskreel_log::ports::Ports;
use tokio::sync::OwnedMutexGuard;

use crate::actors::entity::Entity;
use crate::actors::seed::Seed;
use crate::error::Error;
use crate::tools::log_of_call::LogOfCall;
use crate::tools::state::ToolState;

/// The stores of all tools of one agent that were used.
pub(crate) struct ToolStores {
    log: Arc<dyn EventStore>,
    ports: Ports,
    agent: String,
    entries: Mutex<HashMap<StreamId, Arc<StoreEntry>>>,
}

/// The store of one tool.
#[derive(Default)]
struct StoreEntry {
    /// `None` until the stream is read, and after a decision that is not on disk.
    entity: Arc<tokio::sync::Mutex<Option<Entity<ToolStore>>>>,
    /// The state on disk, for calls to read.
    seen: Arc<RwLock<ToolStore>>,
    /// Set once `seen` was read.
    ready: AtomicBool,
}

/// The store of one tool, held by one actor.
pub(crate) struct HeldStore {
    entry: Arc<StoreEntry>,
    guard: OwnedMutexGuard<Option<Entity<ToolStore>>>,
}

impl ToolStores {
    pub(crate) fn new(log: Arc<dyn EventStore>, ports: &Ports, agent: &str) -> Self {
        Self { log, ports: ports.clone(), agent: agent.to_owned(), entries: Mutex::default() }
    }

    /// Returns the log as the library's own tools read it.
    pub(crate) fn log_of_call(&self) -> LogOfCall {
        LogOfCall { log: Arc::clone(&self.log), agent: self.agent.clone() }
    }

    /// Returns a tool's state for a call that begins now. Nothing is read for a tool that never kept
    /// anything.
    pub(crate) async fn state(&self, tool: &str) -> Result<ToolState, Error> {
        let stream = StreamId::tool(&self.agent, tool)?;
        let entry = self.entry(&stream);
        if !entry.ready.load(Ordering::Acquire) {
            drop(self.lock_entry(&entry, stream).await?);
        }
        Ok(ToolState::new(Arc::clone(&entry.seen)))
    }

    /// Waits until no other actor decides for the tool, and takes its store.
    pub(crate) async fn lock(&self, tool: &str) -> Result<HeldStore, Error> {
        let stream = StreamId::tool(&self.agent, tool)?;
        self.lock_entry(&self.entry(&stream), stream).await
    }

    fn entry(&self, stream: &StreamId) -> Arc<StoreEntry> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(entries.entry(stream.clone()).or_default())
    }

    async fn lock_entry(&self, entry: &Arc<StoreEntry>, stream: StreamId) -> Result<HeldStore, Error> {
        let mut guard = Arc::clone(&entry.entity).lock_owned().await;
        // Drops the decisions of an actor that ended before its append.
        guard.take_if(|entity| entity.is_pending());
        if guard.is_none() {
            let entity = Entity::recover(&self.log, stream, Seed::draw(&self.ports)).await?;
            entry.show(|seen| *seen = ToolStore::clone(entity.state()));
            *guard = Some(entity);
        }
        Ok(HeldStore { entry: Arc::clone(entry), guard })
    }
}

impl StoreEntry {
    fn show(&self, change: impl FnOnce(&mut ToolStore)) {
        change(&mut self.seen.write().unwrap_or_else(PoisonError::into_inner));
        self.ready.store(true, Ordering::Release);
    }
}

impl HeldStore {
    /// Decides a call's writes.
    pub(crate) fn decide(&mut self, command: ToolStoreCommand, metadata: &Metadata) -> Result<(), Error> {
        self.entity()?.decide(command, metadata)
    }

    /// Returns the stream's entity.
    pub(crate) fn entity(&mut self) -> Result<&mut Entity<ToolStore>, Error> {
        self.guard
            .as_mut()
            .ok_or_else(|| Error::Internal("a tool's store was not recovered before its use".to_owned()))
    }

    /// Returns whether anything is pending, and its size in bytes.
    pub(crate) fn pending(&self) -> (bool, usize) {
        let entity = self.guard.as_ref();
        entity.map_or((false, 0), |entity| (entity.is_pending(), entity.pending_bytes()))
    }

    /// Makes the decision visible to calls, now that it is on disk.
    pub(crate) fn mark_committed(
        &mut self,
        committed: Committed,
        hash: Digest,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let events = self.entity()?.mark_committed(committed, hash, metadata);
        self.entry.show(|seen| events.iter().for_each(|event| seen.evolve(event, metadata)));
        Ok(())
    }

    /// Forgets the state, since its end on disk is unknown: the next user reads it.
    pub(crate) fn forget(mut self) {
        *self.guard = None;
    }
}
