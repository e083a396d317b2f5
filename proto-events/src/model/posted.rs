//! A task as received over the wire, before any event here.

use serde::Serialize;

use crate::id::{Digest, Mint};
use crate::json::{JsonObject, JsonText};
use crate::model::artifact::Artifact;
use crate::model::error::ModelError;
use crate::model::fields::Fields;
use crate::model::message::Message;
use crate::model::part::Part;
use crate::model::task_state::TaskState;

/// A posted task: in any state, with any content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PostedTask {
    /// The id, usually `task_…`.
    pub id: String,
    /// The state set by the poster.
    pub state: TaskState,
    /// The messages so far.
    pub messages: Vec<Message>,
    /// The artifacts so far.
    pub artifacts: Vec<Artifact>,
    /// Further data: session, run context, `state_history`, …
    pub metadata: JsonObject,
    /// The state of flows; any JSON, usually an object.
    pub flow_state: JsonText,
    /// The time of creation, as uninterpreted text. A posted null stays null.
    pub created_at: Option<String>,
    /// The text that the task was read from; `None` for a task made in code. Reading fills in absent ids and
    /// times, so that the same text gives another task each time: the source shows that it is the same post.
    #[serde(skip)]
    pub source: Option<PostedSource>,
}

/// The text that a posted task was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostedSource {
    /// The SHA-256 of the text.
    pub digest: Digest,
    /// Whether the text names the task's id.
    pub names_id: bool,
}

/// The message or artifact that a task's next step starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastItem<'a> {
    /// A message.
    Message(&'a Message),
    /// An artifact.
    Artifact(&'a Artifact),
}

impl<'a> LastItem<'a> {
    /// Returns the parts of the item.
    pub fn parts(self) -> &'a [Part] {
        match self {
            Self::Message(message) => &message.parts,
            Self::Artifact(artifact) => &artifact.parts,
        }
    }

    /// Returns the id of the item.
    pub fn id(self) -> Option<&'a str> {
        match self {
            Self::Message(message) => message.id.as_deref(),
            Self::Artifact(artifact) => artifact.id.as_deref(),
        }
    }

    /// Returns the item from which a newly posted task continues: the later of the last message and the last
    /// artifact by comparison of their times' *texts*, the message if they are equal. A null time is before
    /// all others.
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
    /// Returns a new task with one message.
    pub fn new(message: Message, mint: &mut dyn Mint) -> Self {
        Self {
            id: mint.id("task_"),
            state: TaskState::Submitted,
            messages: vec![message],
            artifacts: Vec::new(),
            metadata: JsonObject::new(),
            flow_state: JsonText::empty_object(),
            created_at: Some(mint.timestamp()),
            source: None,
        }
    }

    /// Parses a task from a text, such as a request's body.
    ///
    /// # Errors
    /// [`ModelError`]: with line and column if the text is not JSON, otherwise naming the field and the
    /// expectation.
    pub fn parse(text: &str, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        Self::from_json(&JsonText::parse(text)?, mint)
    }

    /// Reads a task; absent keys are filled in, unknown keys are dropped.
    ///
    /// # Errors
    /// [`ModelError`], naming the field and the expectation.
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
            source: Some(PostedSource {
                digest: Digest::of(json.as_str().as_bytes()),
                names_id: fields.get("id").is_some(),
            }),
        })
    }

    /// Returns the task as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }

    /// Returns the item from which the newly posted task continues; see [`LastItem::by_time`].
    pub fn last_item(&self) -> Option<LastItem<'_>> {
        LastItem::by_time(&self.messages, &self.artifacts)
    }
}
