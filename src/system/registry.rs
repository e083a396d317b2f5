//! Registries of agents in the log: commands to the stream `registry-<name>`, one after another.

use std::sync::Arc;
use std::time::Duration;

use proto_events::envelope::{Principal, Timestamp};
use proto_events::id::StreamId;
use proto_events::registry::{RegistryCommand, RegistryState};
use taskreel_log::api::{Append, AppendError, EventStore};
use tokio::sync::Mutex;

use crate::actors::entity::{Entity, SetPart};
use crate::actors::seed::Seed;
use crate::actors::shared::condition::QueuedAppend;
use crate::actors::shared::messages::Cause;
use crate::actors::shared::parts::Parts;
use crate::error::Error;
use crate::system::handle::System;

/// The number of times that a command is decided again after another writer came first.
const DECISIONS_MAX: usize = 16;

/// The record of a registry in the log of a system. Clones are the same record.
#[derive(Debug, Clone)]
pub struct RegistryRecord {
    system: System,
    stream: StreamId,
    /// The registry as this record knows it; `None` where it must be read from the log. Held over each command, so that
    /// the commands of one record never meet; commands of two are told apart by the versions that they expect.
    kept: Arc<Mutex<Option<RegistryEntry>>>,
}

/// The state of the registry, and the epoch under which it was read.
struct RegistryEntry {
    epoch: u64,
    entity: Entity<RegistryState>,
}

impl std::fmt::Debug for RegistryEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryEntry").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl System {
    /// Returns the record of the registry of this name. It is in the log with its first registration. Take one record
    /// for a registry and clone it: each reads the stream once.
    ///
    /// # Errors
    /// [`Error::Id`] if the name cannot be an id.
    pub fn registry(&self, name: &str) -> Result<RegistryRecord, Error> {
        let stream = StreamId::of_registry(name)?;
        Ok(RegistryRecord { system: self.clone(), stream, kept: Arc::default() })
    }
}

impl RegistryRecord {
    /// Returns the stream of the registry.
    pub fn stream(&self) -> &StreamId {
        &self.stream
    }

    /// Returns the time on the system's clock.
    pub fn now(&self) -> Timestamp {
        self.system.inner.ports.clock.now()
    }

    /// Returns the time since some moment on the system's clock, which no correction of the clock moves.
    pub fn monotonic(&self) -> Duration {
        self.system.inner.ports.clock.monotonic()
    }

    /// Returns the agents that are registered.
    ///
    /// # Errors
    /// Errors of the log.
    pub async fn state(&self) -> Result<Arc<RegistryState>, Error> {
        let record = self.clone();
        let read = async move {
            let _gate = record.system.inner.gate.pass().await;
            let mut kept = record.kept.lock().await;
            let store = record.system.inner.running().store();
            let known = record.current(&store, kept.take()).await?;
            let state = known.entity.shared_state();
            *kept = Some(known);
            Ok(state)
        };
        self.system.spawned(self.stream.as_str(), read).await
    }

    /// Carries out a command of this principal, and returns the agents that are registered then. What it changes is on
    /// disk by then; a command that changes nothing appends nothing. A caller that goes away cancels nothing.
    ///
    /// # Errors
    /// [`Error::Registry`] if the command is refused, and errors of the log. After [`AppendError::Ambiguous`] the
    /// command may have taken effect: it may be sent again, since a repetition changes nothing.
    pub async fn command(
        &self,
        command: RegistryCommand,
        by: &Principal,
    ) -> Result<Arc<RegistryState>, Error> {
        self.command_with(move |_| command.clone(), by).await
    }

    /// Carries out a command that is made from the agents that are registered then, as [`RegistryRecord::command`] does:
    /// no command comes between.
    ///
    /// # Errors
    /// As [`RegistryRecord::command`].
    pub async fn command_with(
        &self,
        command: impl Fn(&RegistryState) -> RegistryCommand + Send + 'static,
        by: &Principal,
    ) -> Result<Arc<RegistryState>, Error> {
        let (record, by) = (self.clone(), by.clone());
        let work = move |parts: Parts| async move { record.carried_out(&parts, command, &by).await };
        self.system.appending(self.stream.as_str(), None, work).await
    }

    async fn carried_out(
        &self,
        parts: &Parts,
        command: impl Fn(&RegistryState) -> RegistryCommand + Send,
        by: &Principal,
    ) -> Result<Arc<RegistryState>, Error> {
        let store = &parts.store;
        let mut kept = self.kept.lock().await;
        for _ in 0..DECISIONS_MAX {
            // Taken out: an append that fails leaves nothing half decided behind.
            let mut known = self.current(store, kept.take()).await?;
            let cause =
                Cause { principal: by.clone(), ..Cause::from_system(format_args!("{}", self.own_id()), "") };
            let metadata = cause.metadata(self.now());
            let command = command(known.entity.state());
            let decided = known.entity.decide(command, &metadata);
            if decided.is_err() || !known.entity.is_pending() {
                let state = known.entity.shared_state();
                *kept = Some(known);
                return decided.map(|()| state);
            }
            let set_id = self.system.inner.ports.ids.random();
            let part = known.entity.part(store.fence(), SetPart::only(set_id), &metadata, None)?;
            let hash = part.record.hash();
            let append = Append { fence: store.fence(), set_id, parts: vec![part] };
            let queued = QueuedAppend::start(Arc::clone(&parts.condition));
            let answer = store.append(append).await;
            queued.answered(&answer, store.as_ref());
            drop(queued);
            match answer {
                Ok(appended) => {
                    let Some(committed) = appended.parts.first() else {
                        return Err(Error::Internal("an append was answered without its part".to_owned()));
                    };
                    known.entity.mark_committed(*committed, hash, &metadata);
                    let state = known.entity.shared_state();
                    *kept = Some(known);
                    return Ok(state);
                }
                // Another record, or an append whose caller had gone, came first: decided anew from what is there now.
                Err(AppendError::Conflict { .. } | AppendError::Fenced { .. }) => {}
                Err(error) => {
                    if matches!(error, AppendError::Ambiguous { .. }) {
                        parts.unresolved.insert(set_id, &metadata.command_id);
                    }
                    return Err(error.into());
                }
            }
        }
        Err(Error::Overloaded { waiting: DECISIONS_MAX, command_id: String::new() })
    }

    /// Returns the registry as the log has it: what is known, unless the log was reopened since.
    async fn current(
        &self,
        store: &Arc<dyn EventStore>,
        known: Option<RegistryEntry>,
    ) -> Result<RegistryEntry, Error> {
        let epoch = store.fence().epoch;
        let end = store.stream_version(&self.stream)?;
        if let Some(known) = known.filter(|known| known.epoch == epoch && known.entity.version() == end) {
            return Ok(known);
        }
        let salts = Seed::draw(&self.system.inner.ports);
        let entity = Entity::recover(store, self.stream.clone(), salts).await?;
        Ok(RegistryEntry { epoch, entity })
    }

    /// Returns an id for a command, which no other has.
    fn own_id(&self) -> String {
        let random = u128::from_be_bytes(self.system.inner.ports.ids.random());
        format!("registry:{random:032x}")
    }
}
