//! A task as received over the wire, before any event here.

use std::collections::HashSet;

use serde::Serialize;

use crate::id::{Digest, Mint};
use crate::json::{JsonObject, JsonText};
use crate::model::artifact::Artifact;
use crate::model::error::ModelError;
use crate::model::fields::ModelFields;
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
    /// The ids and times that reading filled in, because the text had none. They differ each time the same text
    /// is read, so they do not count where two posts are compared.
    #[serde(skip)]
    pub filled_in: Vec<String>,
    /// The digest by which a repetition of the post is recognised, see [`PostedTask::source`]; set when the
    /// task is stored.
    #[serde(skip)]
    pub source: Option<Digest>,
}

/// A mint that remembers what it made.
struct NotingMint<'a> {
    mint: &'a mut dyn Mint,
    made: Vec<String>,
}

impl NotingMint<'_> {
    fn record(&mut self, made: String) -> String {
        self.made.push(made.clone());
        made
    }
}

impl Mint for NotingMint<'_> {
    fn id(&mut self, prefix: &str) -> String {
        let made = self.mint.id(prefix);
        self.record(made)
    }

    fn uuid(&mut self) -> String {
        let made = self.mint.uuid();
        self.record(made)
    }

    fn timestamp(&mut self) -> String {
        let made = self.mint.timestamp();
        self.record(made)
    }
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
            filled_in: Vec::new(),
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
        let mut noting = NotingMint { mint, made: Vec::new() };
        let mut task = Self::read_noting(json, &mut noting)?;
        task.filled_in = noting.made;
        Ok(task)
    }

    fn read_noting(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        let state = fields.get("state").map(TaskState::from_json).transpose();
        Ok(Self {
            messages: fields.models("messages", |message| Message::from_json(message, mint))?,
            artifacts: fields.models("artifacts", |artifact| Artifact::from_json(artifact, mint))?,
            state: state.map_err(|unknown| ModelError::Invalid(unknown.to_string()))?.unwrap_or_default(),
            id: fields.text_or("id", || mint.id("task_"))?,
            metadata: fields.object("metadata")?,
            flow_state: fields.get("flow_state").cloned().unwrap_or_else(JsonText::empty_object),
            created_at: fields.nullable_or("created_at", || mint.timestamp())?,
            filled_in: Vec::new(),
            source: None,
        })
    }

    /// Returns the digest of what was posted, without what reading filled in: the same text read again has the
    /// same. `None` for a task in which nothing was filled in: its own ids tell it from others.
    pub fn source(&self) -> Option<Digest> {
        if self.source.is_some() || self.filled_in.is_empty() {
            return self.source;
        }
        let mut posted = self.clone();
        let known: HashSet<&str> = self.filled_in.iter().map(String::as_str).collect();
        let filled_in = |text: &String| known.contains(text.as_str());
        let forget = |text: &mut Option<String>| drop(text.take_if(|text| filled_in(text)));
        if filled_in(&posted.id) {
            posted.id.clear();
        }
        forget(&mut posted.created_at);
        for message in &mut posted.messages {
            forget(&mut message.id);
            forget(&mut message.timestamp);
            message.parts.iter_mut().for_each(|part| part.forget_call_id(&known));
        }
        for artifact in &mut posted.artifacts {
            forget(&mut artifact.id);
            forget(&mut artifact.timestamp);
            artifact.parts.iter_mut().for_each(|part| part.forget_call_id(&known));
        }
        Some(Digest::compute(posted.to_json().as_str().as_bytes()))
    }

    /// Whether the poster chose the task's id.
    pub fn names_id(&self) -> bool {
        !self.filled_in.contains(&self.id)
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
