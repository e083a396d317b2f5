//! A task, a session or a tool's state whole, and the state alone.

use proto_events::call::Call;
use proto_events::definition::AgentHistory;
use proto_events::flow::FlowRun;
use proto_events::id::{Category, StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::registry::RegistryState;
use proto_events::session::Session;
use proto_events::system::SystemHistory;
use proto_events::task::Task;
use proto_events::tool_store::ToolStore;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::audit::call_json::call_json;
use crate::audit::json::{
    costs_json, definition_json, flow_json, number, object, registry_json, system_json, text,
    tool_store_json, webhook_json,
};
use crate::read::fold::fold_stream;
use crate::views::history::{ApprovalTimes, CallTimes, StateTime, TaskHistory, task_history};
use crate::views::view::{SessionRow, TaskRow, ToolRow};

/// The reason why a state cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShownError {
    /// The stream has no such version.
    #[error("{id} has no version {asked}: its versions are 1 to {end}")]
    NoSuchVersion {
        /// The id of the stream.
        id: String,
        /// The version that was asked for.
        asked: Version,
        /// The last version.
        end: Version,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Returns a task, a session or a tool's state whole, in the form `taskreel.show/1`. The streams of systems, agents and registries have
/// no such view; their state is returned.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read.
pub fn show_json(reader: &dyn EventReader, stream: &StreamId) -> Result<JsonText, ReadError> {
    match stream.category() {
        Some(Category::Session) => {
            let folded = fold_stream::<Session>(reader, stream, None)?;
            let row = SessionRow::new(stream, &folded).to_json();
            Ok(document_row(row, ("history", folded.state.history().to_json())))
        }
        Some(Category::Tool) => {
            let folded = fold_stream::<ToolStore>(reader, stream, None)?;
            let row = ToolRow::new(stream, &folded).to_json();
            Ok(document_row(row, ("state", tool_store_json(&folded.state))))
        }
        Some(Category::System | Category::Agent | Category::Flow | Category::Registry) => {
            folded_json(reader, stream, None)
        }
        Some(Category::Task) | None => {
            let folded = fold_stream::<Task>(reader, stream, None)?;
            let history = task_history(reader, stream)?;
            Ok(task_json(&TaskRow::new(stream, &folded), folded.version, &folded.state, &history))
        }
    }
}

fn document_row(row: JsonText, (name, contents): (&str, JsonText)) -> JsonText {
    object([("schema", text("taskreel.show/1")), ("row", row), (name, contents)])
}

/// Returns a task that was folded whole, in the form `taskreel.show/1`.
pub fn task_json(row: &TaskRow, version: Version, task: &Task, history: &TaskHistory) -> JsonText {
    let call = |call: &Call| {
        let mut fields = call_json(call).read::<JsonObject>().unwrap_or_default();
        let times = history.call(&call.request.call_id).map(CallTimes::to_json);
        if let Some(times) = times.and_then(|times| times.read::<JsonObject>().ok()) {
            fields.merge(&times);
        }
        fields.to_text()
    };
    let calls: Vec<JsonText> = task.calls().iter().map(call).collect();
    let states: Vec<JsonText> = history.states.iter().map(StateTime::to_json).collect();
    let approvals: Vec<JsonText> = history.approvals.iter().map(ApprovalTimes::to_json).collect();
    let webhooks: Vec<JsonText> = task.webhooks().iter().map(webhook_json).collect();
    object([
        ("schema", text("taskreel.show/1")),
        ("row", row.to_json()),
        ("version", number(version.0)),
        ("costs", costs_json(&task.costs())),
        ("states", JsonText::of_model(&states)),
        ("task", task.to_json()),
        ("calls", JsonText::of_model(&calls)),
        ("approvals", JsonText::of_model(&approvals)),
        ("webhooks", JsonText::of_model(&webhooks)),
    ])
}

/// Returns the state of a stream after a version, or the newest: a task in Protolink's form, a session's history, a tool's
/// state, the programs that wrote a partition, or an agent's definition.
///
/// # Errors
/// [`ShownError`] if the version does not exist, or the stream cannot be read.
pub fn state_json(
    reader: &dyn EventReader,
    stream: &StreamId,
    at: Option<Version>,
) -> Result<JsonText, ShownError> {
    if let Some(asked) = at {
        let end = reader.stream_version(stream)?;
        if asked.0 == 0 || asked > end {
            return Err(ShownError::NoSuchVersion { id: stream.id(), asked, end });
        }
    }
    Ok(folded_json(reader, stream, at)?)
}

fn folded_json(
    reader: &dyn EventReader,
    stream: &StreamId,
    at: Option<Version>,
) -> Result<JsonText, ReadError> {
    Ok(match stream.category() {
        Some(Category::Session) => fold_stream::<Session>(reader, stream, at)?.state.history().to_json(),
        Some(Category::Tool) => tool_store_json(&fold_stream::<ToolStore>(reader, stream, at)?.state),
        Some(Category::System) => system_json(&fold_stream::<SystemHistory>(reader, stream, at)?.state),
        Some(Category::Registry) => registry_json(&fold_stream::<RegistryState>(reader, stream, at)?.state),
        Some(Category::Agent) => definition_json(&fold_stream::<AgentHistory>(reader, stream, at)?.state),
        Some(Category::Flow) => flow_json(&fold_stream::<FlowRun>(reader, stream, at)?.state),
        Some(Category::Task) | None => fold_stream::<Task>(reader, stream, at)?.state.to_json(),
    })
}
