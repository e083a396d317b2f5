//! A task as it comes over the wire, before anything happened to it here.

use serde::Serialize;

use crate::id::Mint;
use crate::json::{JsonObject, JsonText};
use crate::model::fields::Fields;
use crate::model::{Artifact, Message, ModelError, Part, TaskState};

/// A task as it came: in any state, with whatever it carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PostedTask {
    /// Its id, usually `task_…`.
    pub id: String,
    /// The state that its poster gave it.
    pub state: TaskState,
    /// What was said so far.
    pub messages: Vec<Message>,
    /// What was produced so far.
    pub artifacts: Vec<Artifact>,
    /// Whatever belongs to it: session, run context, `state_history`, …
    pub metadata: JsonObject,
    /// What flows keep in it; any JSON, usually an object.
    pub flow_state: JsonText,
    /// When it was made, as text that is not looked into. A posted null stays null.
    pub created_at: Option<String>,
}

/// The message or artifact that a task's next step looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastItem<'a> {
    /// A message.
    Message(&'a Message),
    /// An artifact.
    Artifact(&'a Artifact),
}

impl<'a> LastItem<'a> {
    /// Its parts.
    pub fn parts(self) -> &'a [Part] {
        match self {
            Self::Message(message) => &message.parts,
            Self::Artifact(artifact) => &artifact.parts,
        }
    }

    /// Its id.
    pub fn id(self) -> Option<&'a str> {
        match self {
            Self::Message(message) => message.id.as_deref(),
            Self::Artifact(artifact) => artifact.id.as_deref(),
        }
    }

    /// The item that a task goes on from right after posting: the later of the last message and the last
    /// artifact by comparison of their times' *texts*, the message where they are equal. A time that is null
    /// is before all others.
    pub fn by_time(messages: &'a [Message], artifacts: &'a [Artifact]) -> Option<Self> {
        match (messages.last(), artifacts.last()) {
            (Some(message), Some(artifact)) if artifact.timestamp > message.timestamp => {
                Some(Self::Artifact(artifact))
            }
            (Some(message), _) => Some(Self::Message(message)),
            (None, artifact) => artifact.map(Self::Artifact),
        }
    }
}

impl PostedTask {
    /// A new task with one message.
    pub fn new(message: Message, mint: &mut dyn Mint) -> Self {
        Self {
            id: mint.id("task_"),
            state: TaskState::Submitted,
            messages: vec![message],
            artifacts: Vec::new(),
            metadata: JsonObject::new(),
            flow_state: JsonText::empty_object(),
            created_at: Some(mint.timestamp()),
        }
    }

    /// Reads a task from a text, such as a request's body.
    ///
    /// # Errors
    /// [`ModelError`]: with line and column if the text is no JSON, else naming the field and what it must be.
    pub fn parse(text: &str, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        Self::from_json(&JsonText::parse(text)?, mint)
    }

    /// Reads a task; whatever is absent is filled in, unknown keys are dropped.
    ///
    /// # Errors
    /// [`ModelError`], naming the field and what it must be.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        Self::read(json, mint).map_err(|error| error.within("task"))
    }

    fn read(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = Fields::of(json)?;
        let state = fields.get("state").map(TaskState::from_json).transpose();
        Ok(Self {
            messages: fields.models("messages", |message| Message::from_json(message, mint))?,
            artifacts: fields.models("artifacts", |artifact| Artifact::from_json(artifact, mint))?,
            state: state.map_err(|unknown| ModelError::Invalid(unknown.to_string()))?.unwrap_or_default(),
            id: fields.text_or("id", || mint.id("task_"))?,
            metadata: fields.object("metadata")?,
            flow_state: fields.get("flow_state").cloned().unwrap_or_else(JsonText::empty_object),
            created_at: fields.nullable_or("created_at", || mint.timestamp())?,
        })
    }

    /// The task as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }

    /// The item that the task goes on from right after posting; see [`LastItem::by_time`].
    pub fn last_item(&self) -> Option<LastItem<'_>> {
        LastItem::by_time(&self.messages, &self.artifacts)
    }
}
