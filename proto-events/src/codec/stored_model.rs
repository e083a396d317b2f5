//! Storage structs of the models that events carry. Free-form JSON is text here; nothing else may be.

use serde::{Deserialize, Serialize};

use super::FieldError;
use crate::json::{JsonObject, JsonText};
use crate::model::{Artifact, LlmMessage, LlmRole, Message, Part, PostedTask, TaskState};
use crate::turn::TurnMessage;

#[derive(Serialize, Deserialize)]
pub(super) struct PartV1 {
    kind: String,
    content: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct MessageV1 {
    id: Option<String>,
    role: Option<String>,
    parts: Vec<PartV1>,
    timestamp: Option<String>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ArtifactV1 {
    id: Option<String>,
    parts: Vec<PartV1>,
    metadata: ObjectV1,
    timestamp: Option<String>,
    kind: String,
    name: Option<String>,
    uri: Option<String>,
    media_type: Option<String>,
    action_id: Option<String>,
}

/// A JSON object as pairs, so that merging needs no parsing.
#[derive(Serialize, Deserialize)]
pub(super) struct ObjectV1(Vec<(String, String)>);

#[derive(Serialize, Deserialize)]
pub(super) struct PostedTaskV1 {
    id: String,
    state: u8,
    messages: Vec<MessageV1>,
    artifacts: Vec<ArtifactV1>,
    metadata: ObjectV1,
    flow_state: String,
    created_at: Option<String>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct LlmMessageV1 {
    role: u8,
    content: String,
    name: Option<String>,
    metadata: ObjectV1,
    id: String,
    created_at: String,
    tool_calls: String,
    tool_name: Option<String>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct TurnMessageV1 {
    message: LlmMessageV1,
    part: u32,
    infer_call: Option<String>,
    origin: Option<String>,
}

type Read<T> = Result<T, FieldError>;

const STATES: [TaskState; 7] = [
    TaskState::Submitted,
    TaskState::Working,
    TaskState::InputRequired,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Canceled,
    TaskState::Unknown,
];

const ROLES: [LlmRole; 4] = [LlmRole::System, LlmRole::User, LlmRole::Assistant, LlmRole::Tool];

/// The place of a value in its table, which is its code on disk.
pub(super) fn code<T: PartialEq>(table: &[T], value: &T) -> u8 {
    table.iter().position(|known| known == value).and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
}

/// The value of a code.
pub(super) fn coded<T: Copy>(table: &[T], code: u8) -> Read<T> {
    table.get(usize::from(code)).copied().ok_or(FieldError::Code(code))
}

pub(super) fn state_code(state: TaskState) -> u8 {
    code(&STATES, &state)
}

pub(super) fn state_of(code: u8) -> Read<TaskState> {
    coded(&STATES, code)
}

pub(super) fn json(text: &str) -> Read<JsonText> {
    Ok(JsonText::parse_stored(text)?)
}

impl ObjectV1 {
    pub(super) fn of(object: &JsonObject) -> Self {
        Self(object.iter().map(|(key, value)| (key.to_owned(), value.as_str().to_owned())).collect())
    }

    pub(super) fn read(self) -> Read<JsonObject> {
        self.0.into_iter().map(|(key, value)| Ok((key, json(&value)?))).collect()
    }
}

fn parts_of(parts: &[Part]) -> Vec<PartV1> {
    let part =
        |part: &Part| PartV1 { kind: part.kind().to_owned(), content: part.content().as_str().to_owned() };
    parts.iter().map(part).collect()
}

fn read_parts(parts: Vec<PartV1>) -> Read<Vec<Part>> {
    parts.into_iter().map(|part| Ok(Part::new(part.kind, json(&part.content)?))).collect()
}

impl MessageV1 {
    pub(super) fn of(message: &Message) -> Self {
        Self {
            id: message.id.clone(),
            role: message.role.clone(),
            parts: parts_of(&message.parts),
            timestamp: message.timestamp.clone(),
        }
    }

    pub(super) fn read(self) -> Read<Message> {
        Ok(Message {
            id: self.id,
            role: self.role,
            parts: read_parts(self.parts)?,
            timestamp: self.timestamp,
        })
    }
}

impl ArtifactV1 {
    pub(super) fn of(artifact: &Artifact) -> Self {
        Self {
            id: artifact.id.clone(),
            parts: parts_of(&artifact.parts),
            metadata: ObjectV1::of(&artifact.metadata),
            timestamp: artifact.timestamp.clone(),
            kind: artifact.kind.clone(),
            name: artifact.name.clone(),
            uri: artifact.uri.clone(),
            media_type: artifact.media_type.clone(),
            action_id: artifact.action_id.clone(),
        }
    }

    pub(super) fn read(self) -> Read<Artifact> {
        Ok(Artifact {
            id: self.id,
            parts: read_parts(self.parts)?,
            metadata: self.metadata.read()?,
            timestamp: self.timestamp,
            kind: self.kind,
            name: self.name,
            uri: self.uri,
            media_type: self.media_type,
            action_id: self.action_id,
        })
    }
}

impl PostedTaskV1 {
    pub(super) fn of(task: &PostedTask) -> Self {
        Self {
            id: task.id.clone(),
            state: state_code(task.state),
            messages: task.messages.iter().map(MessageV1::of).collect(),
            artifacts: task.artifacts.iter().map(ArtifactV1::of).collect(),
            metadata: ObjectV1::of(&task.metadata),
            flow_state: task.flow_state.as_str().to_owned(),
            created_at: task.created_at.clone(),
        }
    }

    pub(super) fn read(self) -> Read<PostedTask> {
        Ok(PostedTask {
            id: self.id,
            state: state_of(self.state)?,
            messages: self.messages.into_iter().map(MessageV1::read).collect::<Read<_>>()?,
            artifacts: self.artifacts.into_iter().map(ArtifactV1::read).collect::<Read<_>>()?,
            metadata: self.metadata.read()?,
            flow_state: json(&self.flow_state)?,
            created_at: self.created_at,
        })
    }
}

impl LlmMessageV1 {
    pub(super) fn of(message: &LlmMessage) -> Self {
        Self {
            role: code(&ROLES, &message.role),
            content: message.content.clone(),
            name: message.name.clone(),
            metadata: ObjectV1::of(&message.metadata),
            id: message.id.clone(),
            created_at: message.created_at.clone(),
            tool_calls: message.tool_calls.as_str().to_owned(),
            tool_name: message.tool_name.clone(),
        }
    }

    pub(super) fn read(self) -> Read<LlmMessage> {
        Ok(LlmMessage {
            role: coded(&ROLES, self.role)?,
            content: self.content,
            name: self.name,
            metadata: self.metadata.read()?,
            id: self.id,
            created_at: self.created_at,
            tool_calls: json(&self.tool_calls)?,
            tool_name: self.tool_name,
        })
    }
}

impl TurnMessageV1 {
    pub(super) fn of(message: &TurnMessage) -> Self {
        Self {
            message: LlmMessageV1::of(&message.message),
            part: message.part,
            infer_call: message.infer_call.clone(),
            origin: message.origin.clone(),
        }
    }

    pub(super) fn read(self) -> Read<TurnMessage> {
        Ok(TurnMessage {
            message: self.message.read()?,
            part: self.part,
            infer_call: self.infer_call,
            origin: self.origin,
        })
    }
}
