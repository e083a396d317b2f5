//! The values that an agent's tools keep between their calls, seen and changed from outside.

use std::sync::Arc;

use proto_events::id::{Category, StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::task::command_content;
use proto_events::tool_store::{ToolEntry, ToolStore, ToolStoreCommand, ToolWrite};
use taskreel_log::api::{Append, AppendError, EventReader, ReadError};
use taskreel_log::read::fold_stream;
use taskreel_log::views::streams;

use crate::actors::entity::{Entity, SetPart};
use crate::actors::shared::condition::QueuedAppend;
use crate::actors::shared::messages::Cause;
use crate::actors::shared::parts::Parts;
use crate::error::Error;
use crate::system::command_id::SentId;
use crate::system::handle::System;

/// The values that an agent's tools keep between their calls. A change from outside is an event with the caller's principal, and
/// a call that had read the key before does not overwrite it: it fails with a conflict.
#[derive(Debug, Clone)]
pub struct ToolsState {
    pub(crate) system: System,
}

/// A tool that keeps values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolRow {
    /// The tool's name.
    pub tool: String,
    /// The number of keys.
    pub keys: usize,
    /// The number of bytes of all keys and values.
    pub bytes: usize,
    /// The number of events in the tool's stream.
    pub version: Version,
}

impl ToolsState {
    /// Returns the tools that keep values, by their names.
    ///
    /// # Errors
    /// An error of reading the log.
    pub async fn list(&self) -> Result<Vec<ToolRow>, Error> {
        let row = |(tool, store): (String, ToolStore)| ToolRow {
            tool,
            keys: store.len(),
            bytes: store.bytes(),
            version: store.version(),
        };
        Ok(self.stores().await?.into_iter().map(row).collect())
    }

    /// Returns the values of a tool, as they are on disk.
    ///
    /// # Errors
    /// [`Error::Id`] if this is not a valid tool name, or an error of reading the log.
    pub async fn read(&self, tool: &str) -> Result<ToolStore, Error> {
        self.system.tool_state(tool).await
    }

    /// Returns a value of a tool and its version, if the key exists.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn get(&self, tool: &str, key: &str) -> Result<Option<ToolEntry>, Error> {
        Ok(self.read(tool).await?.get(key).cloned())
    }

    /// Writes a value of a tool. `expected` is the version that the key must have; 0 if it must not exist. Returns the key's
    /// new version.
    ///
    /// # Errors
    /// [`Error::ToolState`] if the key has another version or a limit is exceeded, [`Error::Id`] if this is not a valid tool
    /// name, or an error of the log.
    pub async fn put(
        &self,
        tool: &str,
        key: &str,
        value: JsonText,
        expected: Version,
    ) -> Result<Version, Error> {
        let write = ToolWrite { key: key.to_owned(), expected, value: Some(value) };
        self.change(tool, ToolStoreCommand::Set(write)).await
    }

    /// Deletes a value of a tool. `expected` is as in [`Self::put`]. A key that does not exist is deleted without an event.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub async fn delete(&self, tool: &str, key: &str, expected: Version) -> Result<(), Error> {
        let write = ToolWrite { key: key.to_owned(), expected, value: None };
        self.change(tool, ToolStoreCommand::Set(write)).await.map(|_| ())
    }

    /// Deletes all values of a tool. The log keeps what was.
    ///
    /// # Errors
    /// [`Error::Id`] if this is not a valid tool name, or an error of the log.
    pub async fn clear(&self, tool: &str) -> Result<(), Error> {
        self.change(tool, ToolStoreCommand::Clear).await.map(|_| ())
    }

    /// Returns the values of all tools, by tool and key.
    ///
    /// # Errors
    /// An error of reading the log.
    pub async fn to_json(&self) -> Result<JsonText, Error> {
        let values = |store: &ToolStore| {
            let value = |(key, entry): (&str, &ToolEntry)| (key.to_owned(), entry.value.clone());
            store.list("").map(value).collect::<JsonObject>().to_text()
        };
        let stores = self.stores().await?;
        Ok(stores.iter().map(|(tool, store)| (tool.clone(), values(store))).collect::<JsonObject>().to_text())
    }

    async fn stores(&self) -> Result<Vec<(String, ToolStore)>, Error> {
        let (log, agent) = (self.system.log(), self.system.agent_name().to_owned());
        self.system.on_pool(move || Ok(stores(log.as_ref(), &agent)?)).await
    }

    async fn change(&self, tool: &str, command: ToolStoreCommand) -> Result<Version, Error> {
        let system = &self.system;
        let mut cause = system.cause()?;
        let id = SentId::new(&mut cause, &system.inner.ports);
        let (tool, agent) = (tool.to_owned(), system.agent_name().to_owned());
        let work = move |parts: Parts| async move { change(&parts, (&agent, &tool), command, &cause).await };
        system.appending("the state", Some(&id), work).await
    }
}

/// Decides a change of a tool's state while no call's actor does, and appends it.
async fn change(
    parts: &Parts,
    (agent, tool): (&str, &str),
    command: ToolStoreCommand,
    cause: &Cause,
) -> Result<Version, Error> {
    let content = cause.may_repeat.then(|| content_of(&command));
    let gone = || Error::Internal(format!("the system has no agent `{agent}` any more"));
    let mut held = parts.of_agent(agent).ok_or_else(gone)?.tool_stores.lock(tool).await?;
    let stream = held.entity()?.stream().clone();
    let mut answered = held.entity()?.answered(&cause.command_id, content.as_deref())?;
    if let (None, Some(content)) = (answered, &content)
        && held.entity()?.may_have_forgotten(&cause.command_id)
    {
        answered = Entity::<ToolStore>::search(&parts.store, &stream, &cause.command_id, content).await?;
    }
    if let Some(committed) = answered {
        return Ok(committed.version);
    }
    let (fence, set_id) = (parts.store.fence(), parts.ports.ids.random());
    let metadata = cause.metadata(parts.ports.clock.now());
    held.decide(command, &metadata)?;
    if !held.pending().0 {
        return Ok(Version(0));
    }
    let part = match held.entity()?.part(fence, SetPart::only(set_id), &metadata, content.as_deref()) {
        Ok(part) => part,
        Err(error) => {
            held.forget();
            return Err(error);
        }
    };
    let hash = part.record.hash();
    let queued = QueuedAppend::start(Arc::clone(&parts.condition));
    let appended = parts.store.append(Append { fence, set_id, parts: vec![part] }).await;
    queued.answered(&appended, parts.store.as_ref());
    if matches!(appended, Err(AppendError::Ambiguous { .. })) {
        parts.unresolved.insert(set_id, &cause.command_id);
    }
    match appended.map(|appended| appended.parts.first().copied()) {
        Ok(Some(committed)) => {
            held.mark_committed(committed, hash, &metadata)?;
            Ok(committed.version)
        }
        other => {
            held.forget();
            let lost = || Error::Internal("an append was answered without its end".to_owned());
            Err(other.err().map_or_else(lost, Error::from))
        }
    }
}

fn content_of(command: &ToolStoreCommand) -> Vec<u8> {
    match command {
        ToolStoreCommand::Set(ToolWrite { key, expected, value }) => {
            let (word, value) = match value {
                Some(value) => ("put", value.as_str()),
                None => ("delete", ""),
            };
            command_content("tool state", &[word, key, &expected.to_string(), value])
        }
        _ => command_content("clear tool state", &[]),
    }
}

fn stores(log: &dyn EventReader, agent: &str) -> Result<Vec<(String, ToolStore)>, ReadError> {
    let mut stores = Vec::new();
    for info in streams(log, &StreamId::prefix_of(Category::Tool, agent))? {
        let store = fold_stream::<ToolStore>(log, &info.stream, None)?.state;
        if !store.is_empty() {
            stores.push((info.stream.id(), store));
        }
    }
    Ok(stores)
}
