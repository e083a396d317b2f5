//! Storage structs of the models that events carry. Only free-form JSON is stored as JSON text. Texts are
//! borrowed, from the model when writing and from the bytes when reading, so that no text is copied twice.

use serde::{Deserialize, Serialize};

use crate::codec::code::CodedEnum;
use crate::codec::error::FieldError;
use crate::envelope::{Basis, Principal};
use crate::id::Digest;
use crate::json::{JsonObject, JsonText};
use crate::model::artifact::Artifact;
use crate::model::llm_message::{LlmMessage, LlmRole};
use crate::model::message::Message;
use crate::model::part::Part;
use crate::model::posted_task::PostedTask;
use crate::model::task_state::TaskState;
use crate::turn::TurnMessage;

#[derive(Serialize, Deserialize)]
pub(super) struct PartV1<'a> {
    kind: &'a str,
    content: &'a str,
}

#[derive(Serialize, Deserialize)]
pub(super) struct MessageV1<'a> {
    #[serde(borrow)]
    id: Option<&'a str>,
    #[serde(borrow)]
    role: Option<&'a str>,
    #[serde(borrow)]
    parts: Vec<PartV1<'a>>,
    #[serde(borrow)]
    timestamp: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ArtifactV1<'a> {
    #[serde(borrow)]
    id: Option<&'a str>,
    #[serde(borrow)]
    parts: Vec<PartV1<'a>>,
    #[serde(borrow)]
    metadata: ObjectV1<'a>,
    #[serde(borrow)]
    timestamp: Option<&'a str>,
    kind: &'a str,
    #[serde(borrow)]
    name: Option<&'a str>,
    #[serde(borrow)]
    uri: Option<&'a str>,
    #[serde(borrow)]
    media_type: Option<&'a str>,
    #[serde(borrow)]
    action_id: Option<&'a str>,
}

/// A JSON object as pairs, so that merging needs no parsing.
#[derive(Serialize, Deserialize)]
pub(super) struct ObjectV1<'a>(#[serde(borrow)] Vec<(&'a str, &'a str)>);

#[derive(Serialize, Deserialize)]
pub(super) struct PostedTaskV1<'a> {
    id: &'a str,
    state: u8,
    #[serde(borrow)]
    messages: Vec<MessageV1<'a>>,
    #[serde(borrow)]
    artifacts: Vec<ArtifactV1<'a>>,
    #[serde(borrow)]
    metadata: ObjectV1<'a>,
    flow_state: &'a str,
    #[serde(borrow)]
    created_at: Option<&'a str>,
    source: Option<[u8; 32]>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct LlmMessageV1<'a> {
    role: u8,
    content: &'a str,
    #[serde(borrow)]
    name: Option<&'a str>,
    #[serde(borrow)]
    metadata: ObjectV1<'a>,
    id: &'a str,
    created_at: &'a str,
    tool_calls: &'a str,
    #[serde(borrow)]
    tool_name: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct TurnMessageV1<'a> {
    #[serde(borrow)]
    message: LlmMessageV1<'a>,
    part: u32,
    #[serde(borrow)]
    infer_call: Option<&'a str>,
    #[serde(borrow)]
    asks: Vec<&'a str>,
    #[serde(borrow)]
    answers: Option<&'a str>,
}

type Read<T> = Result<T, FieldError>;

pub(super) fn state_code(state: TaskState) -> u8 {
    state.code()
}

pub(super) fn state_of(code: u8) -> Read<TaskState> {
    TaskState::of_code(code)
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

pub(super) fn json(text: &str) -> Read<JsonText> {
    Ok(JsonText::parse_stored(text)?)
}

impl<'a> PostedTaskV1<'a> {
    /// Returns the number of the state.
    pub(super) fn state(&self) -> u8 {
        self.state
    }

    /// Returns the metadata alone.
    pub(super) fn into_metadata(self) -> ObjectV1<'a> {
        self.metadata
    }
}

impl<'a> ObjectV1<'a> {
    /// Returns the JSON text of a key's value. Of several the last one counts, as in the whole object.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    pub(super) fn from_object(object: &'a JsonObject) -> Self {
        Self(object.iter().map(|(key, value)| (key, value.as_str())).collect())
    }

    pub(super) fn read(self) -> Read<JsonObject> {
        self.0.into_iter().map(|(key, value)| Ok((key.to_owned(), json(value)?))).collect()
    }
}

fn parts_of(parts: &[Part]) -> Vec<PartV1<'_>> {
    parts.iter().map(|part| PartV1 { kind: part.kind(), content: part.content().as_str() }).collect()
}

fn read_parts(parts: Vec<PartV1<'_>>) -> Read<Vec<Part>> {
    parts.into_iter().map(|part| Ok(Part::new(part.kind, json(part.content)?))).collect()
}

impl<'a> MessageV1<'a> {
    pub(super) fn from_message(message: &'a Message) -> Self {
        Self {
            id: message.id.as_deref(),
            role: message.role.as_deref(),
            parts: parts_of(&message.parts),
            timestamp: message.timestamp.as_deref(),
        }
    }

    pub(super) fn read(self) -> Read<Message> {
        Ok(Message {
            id: owned(self.id),
            role: owned(self.role),
            parts: read_parts(self.parts)?,
            timestamp: owned(self.timestamp),
        })
    }
}

impl<'a> ArtifactV1<'a> {
    pub(super) fn from_artifact(artifact: &'a Artifact) -> Self {
        Self {
            id: artifact.id.as_deref(),
            parts: parts_of(&artifact.parts),
            metadata: ObjectV1::from_object(&artifact.metadata),
            timestamp: artifact.timestamp.as_deref(),
            kind: &artifact.kind,
            name: artifact.name.as_deref(),
            uri: artifact.uri.as_deref(),
            media_type: artifact.media_type.as_deref(),
            action_id: artifact.action_id.as_deref(),
        }
    }

    pub(super) fn read(self) -> Read<Artifact> {
        Ok(Artifact {
            id: owned(self.id),
            parts: read_parts(self.parts)?,
            metadata: self.metadata.read()?,
            timestamp: owned(self.timestamp),
            kind: self.kind.to_owned(),
            name: owned(self.name),
            uri: owned(self.uri),
            media_type: owned(self.media_type),
            action_id: owned(self.action_id),
        })
    }
}

/// A person or program, and how its name is known.
#[derive(Serialize, Deserialize)]
pub(super) struct PrincipalV1 {
    name: String,
    basis: u8,
}

impl PrincipalV1 {
    pub(super) fn from_principal(principal: Principal) -> Self {
        Self { name: principal.name, basis: principal.basis.code() }
    }

    pub(super) fn read(self) -> Read<Principal> {
        Ok(Principal { name: self.name, basis: Basis::of_code(self.basis)? })
    }
}

impl<'a> PostedTaskV1<'a> {
    pub(super) fn from_task(task: &'a PostedTask) -> Self {
        Self {
            id: &task.id,
            state: state_code(task.state),
            messages: task.messages.iter().map(MessageV1::from_message).collect(),
            artifacts: task.artifacts.iter().map(ArtifactV1::from_artifact).collect(),
            metadata: ObjectV1::from_object(&task.metadata),
            flow_state: task.flow_state.as_str(),
            created_at: task.created_at.as_deref(),
            source: task.source().map(|source| source.0),
        }
    }

    pub(super) fn read(self) -> Read<PostedTask> {
        Ok(PostedTask {
            id: self.id.to_owned(),
            state: state_of(self.state)?,
            messages: self.messages.into_iter().map(MessageV1::read).collect::<Read<_>>()?,
            artifacts: self.artifacts.into_iter().map(ArtifactV1::read).collect::<Read<_>>()?,
            metadata: self.metadata.read()?,
            flow_state: json(self.flow_state)?,
            created_at: owned(self.created_at),
            filled_in: Vec::new(),
            source: self.source.map(Digest),
        })
    }
}

impl<'a> LlmMessageV1<'a> {
    pub(super) fn from_message(message: &'a LlmMessage) -> Self {
        Self {
            role: message.role.code(),
            content: &message.content,
            name: message.name.as_deref(),
            metadata: ObjectV1::from_object(&message.metadata),
            id: &message.id,
            created_at: &message.created_at,
            tool_calls: message.tool_calls.as_str(),
            tool_name: message.tool_name.as_deref(),
        }
    }

    pub(super) fn read(self) -> Read<LlmMessage> {
        Ok(LlmMessage {
            role: LlmRole::of_code(self.role)?,
            content: self.content.to_owned(),
            name: owned(self.name),
            metadata: self.metadata.read()?,
            id: self.id.to_owned(),
            created_at: self.created_at.to_owned(),
            tool_calls: json(self.tool_calls)?,
            tool_name: owned(self.tool_name),
        })
    }
}

impl<'a> TurnMessageV1<'a> {
    pub(super) fn from_message(message: &'a TurnMessage) -> Self {
        Self {
            message: LlmMessageV1::from_message(&message.message),
            part: message.part,
            infer_call: message.infer_call.as_deref(),
            asks: message.asks.iter().map(String::as_str).collect(),
            answers: message.answers.as_deref(),
        }
    }

    pub(super) fn read(self) -> Read<TurnMessage> {
        Ok(TurnMessage {
            message: self.message.read()?,
            part: self.part,
            infer_call: owned(self.infer_call),
            asks: self.asks.into_iter().map(str::to_owned).collect(),
            answers: owned(self.answers),
        })
    }
}
