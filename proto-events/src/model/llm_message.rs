//! A message of a conversation with a model, independent of the provider.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::id::Mint;
use crate::json::{JsonObject, JsonText};
use crate::model::error::ModelError;
use crate::model::fields::{ModelFields, expected, string};
use crate::model::{iso, python};

/// The role of a speaker in a conversation with a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LlmRole {
    /// The one who instructs the model.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool, with its result.
    Tool,
}

impl LlmRole {
    /// Returns the role in Protolink's words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// Reads a role from JSON.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] with Protolink's text, for anything that is not a role.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let named = |text: String| {
            [Self::System, Self::User, Self::Assistant, Self::Tool]
                .into_iter()
                .find(|role| role.as_str() == text)
        };
        json.to_str().and_then(named).ok_or_else(|| {
            ModelError::Invalid(format!("{} is not a valid LLMMessageRole", python::repr_of(json)))
        })
    }
}

impl fmt::Display for LlmRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for LlmRole {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A message of a conversation with a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LlmMessage {
    /// The role of the speaker.
    pub role: LlmRole,
    /// The text.
    pub content: String,
    /// The tool's name, for a tool's result.
    pub name: Option<String>,
    /// Further data of the message.
    pub metadata: JsonObject,
    /// The id, a UUID.
    pub id: String,
    /// The time of creation, in Python's ISO form.
    pub created_at: String,
    /// A provider's own tool calls; `{}` if absent.
    pub tool_calls: JsonText,
    /// A provider's own field;
    /// [`ConversationHistory::add_tool`](crate::model::ConversationHistory::add_tool) leaves it empty, as
    /// Protolink does.
    pub tool_name: Option<String>,
}

/// The entry of a message's metadata that says that the provider gave no reason for its end.
const WITHOUT_REASON: &str = "without_reason";

impl LlmMessage {
    /// Marks a model's answer whose provider gave no reason for its end.
    pub fn mark_without_reason(&mut self) {
        self.metadata.set(WITHOUT_REASON, JsonText::of_model(&true));
    }

    /// Whether the provider gave no reason for the end of this answer, so that it may be cut off.
    pub fn is_without_reason(&self) -> bool {
        self.metadata.get(WITHOUT_REASON).is_some_and(|marked| marked.as_str() == "true")
    }

    /// Returns a new message without name, metadata or tool calls.
    pub fn new(role: LlmRole, content: impl Into<String>, mint: &mut dyn Mint) -> Self {
        Self {
            role,
            content: content.into(),
            name: None,
            metadata: JsonObject::new(),
            id: mint.uuid(),
            created_at: mint.timestamp(),
            tool_calls: JsonText::empty_object(),
            tool_name: None,
        }
    }

    /// Reads a message; an absent id or time is filled in.
    ///
    /// # Errors
    /// [`ModelError`] if role or content is missing, the role unknown, or the time not an ISO time.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        Ok(Self {
            role: LlmRole::from_json(fields.required("role")?)?,
            content: string("content", fields.required("content")?)?,
            name: fields.coerced("name"),
            metadata: fields.object("metadata")?,
            id: fields.text_or("id", || mint.uuid())?,
            created_at: created_at(&fields, mint)?,
            tool_calls: tool_calls(&fields),
            tool_name: fields.coerced("tool_name"),
        })
    }

    /// Reads a provider's raw message: role, content (empty if absent) and tool calls; the rest is dropped.
    ///
    /// # Errors
    /// [`ModelError`] if the role is missing or unknown, or the content is not a string.
    pub fn from_raw(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        let role = LlmRole::from_json(fields.required("role")?)?;
        let content = fields.text_or("content", String::new)?;
        Ok(Self { tool_calls: tool_calls(&fields), ..Self::new(role, content, mint) })
    }

    /// Returns the message as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}

fn created_at(fields: &ModelFields, mint: &mut dyn Mint) -> Result<String, ModelError> {
    let Some(given) = fields.get("created_at") else {
        return Ok(mint.timestamp());
    };
    let text = given.to_str().ok_or_else(|| expected("created_at", "an ISO time", given))?;
    iso::normalised(&text)
        .ok_or_else(|| ModelError::Invalid(format!("Invalid isoformat string: {}", python::repr_str(&text))))
}

fn tool_calls(fields: &ModelFields) -> JsonText {
    fields.get("tool_calls").cloned().unwrap_or_else(JsonText::empty_object)
}
