//! Writing. What is empty is left out, as protobuf's JSON leaves it out.

use proto_events::json::{JsonObject, JsonText, JsonValue};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::a2a::model::{
    Artifact, ArtifactUpdate, Content, Event, Message, Part, PushConfig, Role, State, Status, StatusUpdate,
    Task,
};
use crate::a2a::wire::{CANCELED_03, COMPAT, DataForm, NAMED};

/// An object that is being written.
#[derive(Default)]
pub(crate) struct Members(JsonObject);

impl Members {
    pub(crate) fn json(mut self, name: &str, value: JsonText) -> Self {
        self.0.set(name, value);
        self
    }

    pub(crate) fn text(self, name: &str, text: &str) -> Self {
        self.json(name, JsonText::string(text))
    }

    pub(crate) fn flag(self, name: &str, flag: bool) -> Self {
        self.json(name, JsonText::from(JsonValue::from(flag)))
    }

    pub(crate) fn optional(self, name: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(name, text),
            None => self,
        }
    }

    pub(crate) fn list(self, name: &str, items: &[JsonText]) -> Self {
        if items.is_empty() { self } else { self.json(name, JsonText::of_model(&items)) }
    }

    pub(crate) fn texts(self, name: &str, items: &[String]) -> Self {
        if items.is_empty() { self } else { self.json(name, JsonText::of_model(&items)) }
    }

    pub(crate) fn object(self, name: &str, object: &JsonObject) -> Self {
        if object.is_empty() { self } else { self.json(name, object.to_text()) }
    }

    pub(crate) fn end(self) -> JsonText {
        self.0.to_text()
    }
}

/// A value in a form. It is written into one text, member after member, so that nothing is copied for each object around it.
pub(crate) struct In<'a, T: ?Sized>(pub(crate) DataForm, pub(crate) &'a T);

/// An object that is being written into a text.
struct WrittenModel<M>(M);

impl<M: SerializeMap> WrittenModel<M> {
    /// Begins an object, which names its kind in 0.3.
    fn start<S>(form: DataForm, kind: &str, to: S) -> Result<Self, S::Error>
    where
        S: Serializer<SerializeMap = M, Ok = M::Ok, Error = M::Error>,
    {
        let mut written = Self(to.serialize_map(None)?);
        if form == DataForm::V03 {
            written.member("kind", kind)?;
        }
        Ok(written)
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), M::Error> {
        self.0.serialize_entry(name, value)
    }

    fn optional(&mut self, name: &str, text: Option<&str>) -> Result<(), M::Error> {
        text.map_or(Ok(()), |text| self.member(name, text))
    }

    fn texts(&mut self, name: &str, texts: &[String]) -> Result<(), M::Error> {
        if texts.is_empty() { Ok(()) } else { self.member(name, texts) }
    }

    fn object(&mut self, name: &str, object: &JsonObject) -> Result<(), M::Error> {
        if object.is_empty() { Ok(()) } else { self.member(name, object) }
    }

    fn end(self) -> Result<M::Ok, M::Error> {
        self.0.end()
    }
}

impl<T> Serialize for In<'_, [T]>
where
    for<'a> In<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let In(form, items) = *self;
        to.collect_seq(items.iter().map(|item| In(form, item)))
    }
}

/// A file as 0.3 has it: its place, its type and its name.
struct WireFile<'a> {
    place: (&'static str, &'a str),
    part: &'a Part,
}

impl Serialize for WireFile<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { place: (name, place), part } = self;
        let mut to = WrittenModel(to.serialize_map(None)?);
        to.member(name, place)?;
        to.optional("mimeType", part.media_type.as_deref())?;
        to.optional("name", part.filename.as_deref())?;
        to.end()
    }
}

impl Serialize for In<'_, Part> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let In(form, part) = *self;
        match form {
            DataForm::V1 => part_of_1(part, to),
            DataForm::V03 | DataForm::Rest03 => part_of_03(form, part, to),
        }
    }
}

fn part_of_1<S: Serializer>(part: &Part, to: S) -> Result<S::Ok, S::Error> {
    let mut to = WrittenModel::start(DataForm::V1, "", to)?;
    match &part.content {
        Content::Text(text) => to.member("text", text)?,
        Content::Raw(raw) => to.member("raw", raw)?,
        Content::Url(url) => to.member("url", url)?,
        Content::Data(data) => to.member("data", data)?,
    }
    to.object("metadata", &part.metadata)?;
    to.optional("filename", part.filename.as_deref())?;
    to.optional("mediaType", part.media_type.as_deref())?;
    to.end()
}

fn part_of_03<S: Serializer>(form: DataForm, part: &Part, to: S) -> Result<S::Ok, S::Error> {
    let is_rest = form == DataForm::Rest03;
    let file = |to: S, name, place| {
        let mut to = WrittenModel::start(form, "file", to)?;
        to.member("file", &WireFile { place: (name, place), part })?;
        to.object("metadata", &part.metadata)?;
        to.end()
    };
    match &part.content {
        Content::Raw(raw) => file(to, if is_rest { "fileWithBytes" } else { "bytes" }, raw),
        Content::Url(url) => file(to, if is_rest { "fileWithUri" } else { "uri" }, url),
        Content::Text(text) => {
            let mut metadata = part.metadata.clone();
            name_in(&mut metadata, part);
            let mut to = WrittenModel::start(form, "text", to)?;
            to.member("text", text)?;
            to.object("metadata", &metadata)?;
            to.end()
        }
        Content::Data(data) => {
            let mut metadata = part.metadata.clone();
            name_in(&mut metadata, part);
            let data = if data.is_object() {
                data.clone()
            } else {
                metadata.set(COMPAT, JsonText::from(JsonValue::from(true)));
                Members::default().json("value", data.clone()).end()
            };
            let data = if is_rest { Members::default().json("data", data).end() } else { data };
            let mut to = WrittenModel::start(form, "data", to)?;
            to.member("data", &data)?;
            to.object("metadata", &metadata)?;
            to.end()
        }
    }
}

/// Keeps the file name and the media type of a part for which 0.3 has no place.
fn name_in(metadata: &mut JsonObject, part: &Part) {
    if part.filename.is_some() || part.media_type.is_some() {
        let named = Members::default().optional("filename", part.filename.as_deref());
        metadata.set(NAMED, named.optional("mediaType", part.media_type.as_deref()).end());
    }
}

impl Serialize for In<'_, Message> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let In(form, message) = *self;
        let role = match (form, message.role) {
            (DataForm::V1 | DataForm::Rest03, Role::User) => "ROLE_USER",
            (DataForm::V1 | DataForm::Rest03, Role::Agent) => "ROLE_AGENT",
            (DataForm::V03, Role::User) => "user",
            (DataForm::V03, Role::Agent) => "agent",
        };
        let mut to = WrittenModel::start(form, "message", to)?;
        to.member("messageId", &message.id)?;
        to.optional("contextId", message.context_id.as_deref())?;
        to.optional("taskId", message.task_id.as_deref())?;
        to.member("role", role)?;
        let parts = if form == DataForm::Rest03 { "content" } else { "parts" };
        to.member(parts, &In(form, message.parts.as_slice()))?;
        to.object("metadata", &message.metadata)?;
        to.texts("extensions", &message.extensions)?;
        if form != DataForm::Rest03 {
            to.texts("referenceTaskIds", &message.references)?;
        }
        to.end()
    }
}

impl Serialize for In<'_, Artifact> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let In(form, artifact) = *self;
        // An artifact has no kind, in no version.
        let mut to = WrittenModel(to.serialize_map(None)?);
        to.member("artifactId", &artifact.id)?;
        to.optional("name", artifact.name.as_deref())?;
        to.optional("description", artifact.description.as_deref())?;
        to.member("parts", &In(form, artifact.parts.as_slice()))?;
        to.object("metadata", &artifact.metadata)?;
        to.texts("extensions", &artifact.extensions)?;
        to.end()
    }
}

fn state(form: DataForm, state: State) -> &'static str {
    let (new, old) = state.words();
    match form {
        DataForm::Rest03 if state == State::Canceled => CANCELED_03,
        DataForm::V1 | DataForm::Rest03 => new,
        DataForm::V03 => old,
    }
}

impl Serialize for In<'_, Status> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let In(form, status) = *self;
        let mut to = WrittenModel(to.serialize_map(None)?);
        to.member("state", state(form, status.state))?;
        if let Some(said) = &status.message {
            to.member("message", &In(form, said))?;
        }
        to.optional("timestamp", status.timestamp.as_deref())?;
        to.end()
    }
}

impl Serialize for In<'_, Task> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let In(form, task) = *self;
        let mut to = WrittenModel::start(form, "task", to)?;
        to.member("id", &task.id)?;
        to.member("contextId", &task.context_id)?;
        to.member("status", &In(form, &task.status))?;
        if let Some(artifacts) = &task.artifacts {
            to.member("artifacts", &In(form, artifacts.as_slice()))?;
        }
        if !task.history.is_empty() {
            to.member("history", &In(form, task.history.as_slice()))?;
        }
        to.object("metadata", &task.metadata)?;
        to.end()
    }
}

impl Serialize for In<'_, StatusUpdate> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let In(form, update) = *self;
        let mut to = WrittenModel::start(form, "status-update", to)?;
        to.member("taskId", &update.task_id)?;
        to.member("contextId", &update.context_id)?;
        to.member("status", &In(form, &update.status))?;
        if form != DataForm::V1 {
            to.member("final", &update.is_last)?;
        }
        to.object("metadata", &update.metadata)?;
        to.end()
    }
}

impl Serialize for In<'_, ArtifactUpdate> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let In(form, update) = *self;
        let mut to = WrittenModel::start(form, "artifact-update", to)?;
        to.member("taskId", &update.task_id)?;
        to.member("contextId", &update.context_id)?;
        to.member("artifact", &In(form, &update.artifact))?;
        to.member("append", &update.append)?;
        to.member("lastChunk", &update.last_chunk)?;
        to.object("metadata", &update.metadata)?;
        to.end()
    }
}

/// An event of a stream, or the answer to a message.
impl Serialize for In<'_, Event> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let In(form, event) = *self;
        if form == DataForm::V03 {
            return match event {
                Event::Task(one) => In(form, &**one).serialize(to),
                Event::Message(one) => In(form, &**one).serialize(to),
                Event::Status(one) => In(form, &**one).serialize(to),
                Event::Artifact(one) => In(form, &**one).serialize(to),
            };
        }
        let mut to = WrittenModel(to.serialize_map(Some(1))?);
        match event {
            Event::Task(one) => to.member("task", &In(form, &**one))?,
            Event::Message(one) => to.member("message", &In(form, &**one))?,
            Event::Status(one) => to.member("statusUpdate", &In(form, &**one))?,
            Event::Artifact(one) => to.member("artifactUpdate", &In(form, &**one))?,
        }
        to.end()
    }
}

/// Writes a part.
pub(crate) fn part(form: DataForm, part: &Part) -> JsonText {
    JsonText::of_model(&In(form, part))
}

/// Writes a message.
pub(crate) fn message(form: DataForm, message: &Message) -> JsonText {
    JsonText::of_model(&In(form, message))
}

/// Writes an artifact.
pub(crate) fn artifact(form: DataForm, artifact: &Artifact) -> JsonText {
    JsonText::of_model(&In(form, artifact))
}

/// Writes a task.
pub(crate) fn task(form: DataForm, task: &Task) -> JsonText {
    JsonText::of_model(&In(form, task))
}

/// Writes an event of a stream, or the answer to a message.
pub(crate) fn event(form: DataForm, event: &Event) -> JsonText {
    JsonText::of_model(&In(form, event))
}

/// Writes how a webhook is called, as [`push_config`](crate::a2a::wire::read::push_config) reads it.
pub(crate) fn push_config(form: DataForm, config: &PushConfig) -> JsonText {
    let inner = inner_config(form, config);
    match form {
        DataForm::V1 => inner,
        DataForm::V03 => {
            Members::default().text("taskId", &config.task_id).json("pushNotificationConfig", inner).end()
        }
        DataForm::Rest03 => Members::default()
            .text("name", &format!("tasks/{}/pushNotificationConfigs/{}", config.task_id, config.id))
            .json("pushNotificationConfig", inner)
            .end(),
    }
}

/// Writes how a webhook is called as the configuration of a message has it: the member's name, and its value.
pub(crate) fn push_config_of_message(form: DataForm, config: &PushConfig) -> (&'static str, JsonText) {
    let name = match form {
        DataForm::V1 => "taskPushNotificationConfig",
        DataForm::V03 => "pushNotificationConfig",
        DataForm::Rest03 => "pushNotification",
    };
    (name, inner_config(form, config))
}

fn inner_config(form: DataForm, config: &PushConfig) -> JsonText {
    let inner = Members::default().optional("id", Some(config.id.as_str()).filter(|id| !id.is_empty()));
    let inner = match form {
        DataForm::V1 if !config.task_id.is_empty() => inner.text("taskId", &config.task_id),
        _ => inner,
    };
    let inner = inner.text("url", &config.url).optional("token", config.token.as_deref());
    let Some((scheme, credentials)) = &config.authentication else { return inner.end() };
    let named = match form {
        DataForm::V1 => Members::default().text("scheme", scheme),
        DataForm::V03 | DataForm::Rest03 => Members::default().texts("schemes", std::slice::from_ref(scheme)),
    };
    inner.json("authentication", named.optional("credentials", credentials.as_deref()).end()).end()
}
