//! A view of an artifact or of a call's result, as a tool: what may be seen, what is shown, and errors as values that a model
//! can act on.

use std::sync::Arc;

use proto_events::id::{Category, StreamId};
use proto_events::json;
use proto_events::json::JsonValue;
use proto_events::limits::JSON_DEPTH_MAX;
use schemars::JsonSchema;
use serde::Deserialize;
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::artifacts::{
    ArtifactError, CharacterLimit, ColumnSelection, DataArtifacts, DataSelection, RowSelection,
    TextArtifacts, TextSelection,
};
use taskreel_log::views::{ArtifactLookup, FoundArtifact, TaskOwner, child_task, find_artifact, task_owner};

use crate::tools::artifact_reach::ArtifactReach;
use crate::tools::error::ToolError;
use crate::tools::log_of_call::LogOfCall;
use crate::tools::tool::ToolContext;

/// The characters of an id or a name beside what is shown.
const NAME_CHARACTERS_MAX: usize = 1_000;

/// The levels that data may have inside an answer, which has three around them and is a result of a call like any other.
const LEVELS_MAX: usize = JSON_DEPTH_MAX - 3;

/// The arguments of `view_text_artifact`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ViewText {
    /// The id of the task.
    task_id: String,
    /// The id of the artifact, or of the call whose result is wanted.
    artifact_id: String,
    /// The first line, from 1; negative numbers count from the end.
    line_start: Option<i64>,
    /// The last line, included; negative numbers count from the end.
    line_end: Option<i64>,
    /// The first character, from 0; negative numbers count from the end.
    character_start: Option<i64>,
    /// The character after the last one; negative numbers count from the end.
    character_end: Option<i64>,
}

/// The arguments of `view_data_artifact`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ViewData {
    /// The id of the task.
    task_id: String,
    /// The id of the artifact, or of the call whose result is wanted.
    artifact_id: String,
    /// The keys to enter, separated by dots; a dot inside a key is written as a backslash and a dot.
    json_path: Option<String>,
    /// The rows of a list, from 0: '0' (one row), '0-10' (the end is not included), '0,2,5', or 'all'.
    rows: Option<String>,
    /// The columns of a list of objects: 'name', 'name,age', or 'all'.
    columns: Option<String>,
}

/// The view of one tool.
pub(crate) struct Viewer {
    pub(crate) limit: CharacterLimit,
    pub(crate) reach: Option<Arc<dyn ArtifactReach>>,
}

/// The reason why nothing is shown.
enum NotShown {
    /// The reason that the model is told.
    Artifact(ArtifactError),
    /// The log cannot be read.
    Log(ReadError),
}

impl From<ArtifactError> for NotShown {
    fn from(error: ArtifactError) -> Self {
        Self::Artifact(error)
    }
}

impl From<ReadError> for NotShown {
    fn from(error: ReadError) -> Self {
        Self::Log(error)
    }
}

impl Viewer {
    /// Returns a range of a text. It blocks its thread.
    pub(crate) fn text(&self, cx: &ToolContext, asked: &ViewText) -> Result<JsonValue, ToolError> {
        let ViewText { line_start, line_end, character_start, character_end, .. } = *asked;
        let selection = TextSelection { line_start, line_end, character_start, character_end };
        answer(self.find(cx, &asked.task_id, &asked.artifact_id).and_then(|found| {
            let text = found.text()?;
            let shown = TextArtifacts::view(&text, &selection, self.limit)?;
            Ok(shown_as(&found, &json!({"kind": "text", "text": shown})))
        }))
    }

    /// Returns a part of data. It blocks its thread.
    pub(crate) fn data(&self, cx: &ToolContext, asked: &ViewData) -> Result<JsonValue, ToolError> {
        let selection = DataSelection {
            json_path: asked.json_path.clone(),
            rows: asked.rows.as_deref().map(RowSelection::from_text),
            columns: asked.columns.as_deref().map(ColumnSelection::from_text),
        };
        answer(self.find(cx, &asked.task_id, &asked.artifact_id).and_then(|found| {
            let data = found.data()?;
            let shown = DataArtifacts::view(&data, &selection, self.limit)?;
            let levels = levels(&shown);
            if levels > LEVELS_MAX {
                return Err(ArtifactError::TooDeep { levels, most: LEVELS_MAX }.into());
            }
            Ok(shown_as(&found, &json!({"kind": "data", "data": shown.as_ref()})))
        }))
    }

    /// Returns the artifact, if the call may see it: one of a task out of reach, one that a task does not have, and one of no
    /// task answer alike. Of a task out of reach no more is read than the record with which it begins.
    fn find(&self, cx: &ToolContext, task_id: &str, artifact_id: &str) -> Result<FoundArtifact, NotShown> {
        let (artifact, task) = (artifact_id.to_owned(), task_id.to_owned());
        let unknown = ArtifactError::NoSuchArtifact { artifact, task };
        let Some(LogOfCall { log, agent }) = cx.log() else { return Err(unknown.into()) };
        let log: &dyn EventReader = log.as_ref();
        // Only a host allows a task that is named by its stream.
        for place in
            ArtifactPlace::ALL.into_iter().filter(|place| place.may_be_reached() || self.reach.is_some())
        {
            let Some(task) = place.stream(log, cx, agent, task_id)? else { continue };
            let is_seen = |owner: &TaskOwner| {
                place.is_within_reach(cx, task_id, owner)
                    || self.reach.as_ref().is_some_and(|rule| rule.may_see(cx, &task, owner))
            };
            let Some(first) = task_owner(log, &task)?.filter(&is_seen) else { continue };
            let ArtifactLookup { owner: Some(owner), found, .. } = find_artifact(log, &task, artifact_id)?
            else {
                continue;
            };
            match found {
                Err(ArtifactError::NoSuchArtifact { .. }) => {}
                // Metadata that came later may have moved the task to another session.
                found if owner == first || is_seen(&owner) => return Ok(found?),
                _ => {}
            }
        }
        Err(unknown.into())
    }
}

/// The place of a task that a call names.
#[derive(Debug, Clone, Copy)]
enum ArtifactPlace {
    /// The agent whose call it is.
    Own,
    /// Another agent, which the call's task asked.
    Child,
    /// The stream that is named itself.
    Named,
}

impl ArtifactPlace {
    const ALL: [Self; 3] = [Self::Own, Self::Child, Self::Named];

    fn stream(
        self,
        log: &dyn EventReader,
        cx: &ToolContext,
        agent: &str,
        task_id: &str,
    ) -> Result<Option<StreamId>, ReadError> {
        match self {
            Self::Own => Ok(StreamId::task(agent, task_id).ok()),
            Self::Child => match StreamId::task(agent, cx.task_id()) {
                Ok(calling) => child_task(log, &calling, task_id),
                Err(_) => Ok(None),
            },
            Self::Named => {
                let named = StreamId::parse(task_id).ok();
                Ok(named.filter(|named| named.category() == Some(Category::Task)))
            }
        }
    }

    /// Whether a call may see some task there without a rule of the host.
    const fn may_be_reached(self) -> bool {
        !matches!(self, Self::Named)
    }

    /// Whether a call may see the task without a rule of the host. A session may have tasks of several principals.
    fn is_within_reach(self, cx: &ToolContext, task_id: &str, owner: &TaskOwner) -> bool {
        match self {
            Self::Own => {
                let is_of_session = owner.session_id == cx.session_id() && owner.principal == *cx.principal();
                task_id == cx.task_id() || is_of_session
            }
            Self::Child => true,
            Self::Named => false,
        }
    }
}

/// Returns the number of lists and objects inside one another.
fn levels(value: &JsonValue) -> usize {
    match value {
        JsonValue::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        JsonValue::Object(fields) => 1 + fields.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns the object in which a2a-utils shows an artifact, with one part.
fn shown_as(found: &FoundArtifact, part: &JsonValue) -> JsonValue {
    let (id, name) = (beginning(&found.id), found.name.as_deref().map(beginning));
    json!({"artifact_id": id, "description": JsonValue::Null, "name": name, "parts": [part]})
}

/// Returns an id or a name as it stands beside what is shown: the poster of the artifact chose its length.
fn beginning(name: &str) -> &str {
    name.char_indices().nth(NAME_CHARACTERS_MAX).and_then(|(end, _)| name.get(..end)).unwrap_or(name)
}

/// Returns what the model is told. An error is a value, since a call that failed would end the run.
fn answer(shown: Result<JsonValue, NotShown>) -> Result<JsonValue, ToolError> {
    match shown {
        Ok(shown) => Ok(shown),
        Err(NotShown::Artifact(error)) => Ok(json!({
            "error": true,
            "error_message": error.with_hint(),
            "kind": error.kind().as_str(),
            "subject": error.subject(),
        })),
        Err(NotShown::Log(error)) => {
            Err(ToolError::failed(format!("the log cannot be read: {error}")).with_type("LogUnreadable"))
        }
    }
}
