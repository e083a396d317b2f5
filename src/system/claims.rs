//! The claim of a key for a run that is requested once.

use proto_events::envelope::{OWN_COMMAND, is_made_command};
use proto_events::id::{Category, Position, Version};
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::read::for_each_record;

use crate::error::Error;
use crate::limits::ONCE_WINDOW_EVENTS;
use crate::system::handle::System;
use crate::system::tasks::id_for;

impl System {
    /// Claims a key for a request. An `id` is the caller's own choice.
    ///
    /// # Errors
    /// [`Error::CommandIdReused`] if the key has another task, [`Error::Read`] if the log cannot be read.
    pub(crate) async fn claim_once(&self, key: &str, id: Option<String>) -> Result<KeyClaim, Error> {
        if !self.own_agent().once.keys().is_read {
            // In a task of its own: a caller that is not polled any more would keep the others waiting.
            let system = self.clone();
            self.spawned("the keys of runs", async move { system.read_keys().await }).await?;
        }
        let task = self.own_agent().once.keys().request(key, id.as_deref(), || id_for(key));
        let task = task.ok_or_else(|| Error::CommandIdReused { command_id: key.to_owned() })?;
        Ok(KeyClaim { system: self.clone(), key: key.to_owned(), task, was_refused: false })
    }

    /// Reads the keys from the log, unless that was done.
    async fn read_keys(&self) -> Result<(), Error> {
        let _gate = self.inner.gate.pass().await;
        let once = &self.own_agent().once;
        let _alone = once.asking.lock().await;
        if once.keys().is_read {
            return Ok(());
        }
        let (store, agent) = (self.log(), self.agent_name().to_owned());
        let read = self.on_pool(move || Ok(keys_of(store.as_ref(), &agent)?)).await?;
        let mut keys = once.keys();
        for (key, task) in read {
            keys.insert(key, task);
        }
        keys.is_read = true;
        Ok(())
    }
}

/// The claim of a key by a request that has no answer yet. One that is dropped keeps its key: its caller went away, and the
/// task may be made all the same.
pub(crate) struct KeyClaim {
    system: System,
    key: String,
    /// The id of the key's task.
    pub(crate) task: String,
    was_refused: bool,
}

impl KeyClaim {
    /// Ends the claim of a request that was refused.
    pub(crate) fn refused(mut self) {
        self.was_refused = true;
    }
}

impl Drop for KeyClaim {
    fn drop(&mut self) {
        self.system.own_agent().once.keys().answered(&self.key, self.was_refused);
    }
}

/// Reads the command ids under which the tasks of this agent were submitted, from the end of the log.
fn keys_of(store: &dyn EventReader, agent: &str) -> Result<Vec<(String, String)>, ReadError> {
    let from = Position(store.head()?.0.saturating_sub(ONCE_WINDOW_EVENTS).max(1));
    let mut keys = Vec::new();
    for_each_record(store, from, |stored| {
        let record = &stored.record;
        let id = &record.metadata.command_id;
        let is_submission =
            record.first_version == Version(1) && record.stream.category() == Some(Category::Task);
        let is_callers = !id.is_empty() && !id.starts_with(OWN_COMMAND) && !is_made_command(id);
        if is_submission && is_callers && record.stream.agent() == agent {
            keys.push((id.clone(), record.stream.id()));
        }
        Ok::<(), ReadError>(())
    })?;
    Ok(keys)
}
