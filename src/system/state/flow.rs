//! The checkpoints of an agent's runs.

use proto_events::envelope::Timestamp;
use proto_events::flow::{Checkpoint, FlowCommand, FlowRun};
use proto_events::id::{Category, StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::task::command_content;
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::read::fold_stream;
use taskreel_log::views::streams;

use crate::error::Error;
use crate::system::handle::System;

/// The checkpoints of an agent's runs: a value of the host's for each run's id. The log keeps the earlier ones.
#[derive(Debug, Clone)]
pub struct FlowState {
    pub(crate) system: System,
}

/// A run that has a checkpoint.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FlowRow {
    /// The run's id.
    pub run_id: String,
    /// The checkpoint and its version.
    pub checkpoint: Checkpoint,
    /// The time at which it was stored.
    pub at: Timestamp,
}

impl FlowState {
    /// Stores the checkpoint of a run and returns its version. `expected` is the version that the run's checkpoint must have:
    /// 0 if there must be none, `None` for any.
    ///
    /// # Errors
    /// [`Error::Flow`] if the run's checkpoint has another version, [`Error::Id`] if the run's id is invalid, or an error of
    /// the log.
    pub async fn put(
        &self,
        run_id: &str,
        value: JsonText,
        expected: Option<Version>,
    ) -> Result<Version, Error> {
        let stream = self.stream(run_id)?;
        let content = command_content("put checkpoint", &[value.as_str(), &expected_text(expected)]);
        let command = FlowCommand::Put { value, expected };
        let written = self.system.write::<FlowRun>(stream, command, content).await?;
        Ok(written.committed.map(|committed| committed.version).unwrap_or_default())
    }

    /// Deletes the checkpoint of a run, and returns whether this command has deleted one.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub async fn delete(&self, run_id: &str, expected: Option<Version>) -> Result<bool, Error> {
        let content = command_content("delete checkpoint", &[&expected_text(expected)]);
        let command = FlowCommand::Delete { expected };
        let written = self.system.write::<FlowRun>(self.stream(run_id)?, command, content).await?;
        Ok(written.committed.is_some())
    }

    /// Returns the checkpoint of a run, if it has one.
    ///
    /// # Errors
    /// [`Error::Id`] if the run's id is invalid, or an error of reading the log.
    pub async fn get(&self, run_id: &str) -> Result<Option<Checkpoint>, Error> {
        let (log, stream) = (self.system.log(), self.stream(run_id)?);
        let read = move || Ok(fold_stream::<FlowRun>(log.as_ref(), &stream, None)?.state);
        Ok(self.system.on_pool(read).await?.checkpoint().cloned())
    }

    /// Returns the runs that have a checkpoint, by their ids.
    ///
    /// # Errors
    /// An error of reading the log.
    pub async fn list(&self) -> Result<Vec<FlowRow>, Error> {
        let (log, agent) = (self.system.log(), self.system.agent_name().to_owned());
        self.system.on_pool(move || Ok(rows(log.as_ref(), &agent)?)).await
    }

    /// Returns the flow state that a task carries (`task.flow_state`).
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], or an error of reading the log.
    pub async fn of_task(&self, task_id: &str) -> Result<JsonText, Error> {
        let snapshot = self.system.task(task_id)?.snapshot().await?;
        Ok(snapshot.task().flow_state().clone())
    }

    /// Returns all checkpoints by the ids of their runs.
    ///
    /// # Errors
    /// An error of reading the log.
    pub async fn to_json(&self) -> Result<JsonText, Error> {
        let rows = self.list().await?.into_iter();
        Ok(rows.map(|row| (row.run_id, row.checkpoint.value)).collect::<JsonObject>().to_text())
    }

    fn stream(&self, run_id: &str) -> Result<StreamId, Error> {
        Ok(StreamId::flow(self.system.agent_name(), run_id)?)
    }
}

fn expected_text(expected: Option<Version>) -> String {
    expected.map_or_else(|| "any".to_owned(), |version| version.to_string())
}

fn rows(log: &dyn EventReader, agent: &str) -> Result<Vec<FlowRow>, ReadError> {
    let mut rows = Vec::new();
    for info in streams(log, &StreamId::prefix_of(Category::Flow, agent))? {
        let folded = fold_stream::<FlowRun>(log, &info.stream, None)?;
        if let Some(checkpoint) = folded.state.checkpoint().cloned() {
            rows.push(FlowRow { run_id: info.stream.id(), checkpoint, at: folded.last_at });
        }
    }
    Ok(rows)
}
