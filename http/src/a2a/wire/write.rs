//! Writing. What is empty is left out, as protobuf's JSON leaves it out.

use proto_events::json::{JsonObject, JsonText, JsonValue};

use crate::a2a::model::{
    Artifact, ArtifactUpdate, Content, Event, Message, Part, PushConfig, Role, State, Status, StatusUpdate,
    Task,
};
use crate::a2a::wire::{CANCELED_03, COMPAT, Form, NAMED};

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

fn kind(form: Form, kind: &str) -> Members {
    match form {
        Form::V1 | Form::Rest03 => Members::default(),
        Form::V03 => Members::default().text("kind", kind),
    }
}

/// Writes a part.
pub(crate) fn part(form: Form, part: &Part) -> JsonText {
    match form {
        Form::V1 => part_of_1(part),
        Form::V03 | Form::Rest03 => part_of_03(form, part),
    }
}

fn part_of_1(part: &Part) -> JsonText {
    let members = Members::default();
    let members = match &part.content {
        Content::Text(text) => members.text("text", text),
        Content::Raw(raw) => members.text("raw", raw),
        Content::Url(url) => members.text("url", url),
        Content::Data(data) => members.json("data", data.clone()),
    };
    members
        .object("metadata", &part.metadata)
        .optional("filename", part.filename.as_deref())
        .optional("mediaType", part.media_type.as_deref())
        .end()
}

fn part_of_03(form: Form, part: &Part) -> JsonText {
    let is_rest = form == Form::Rest03;
    let mut metadata = part.metadata.clone();
    let file = |name: &str, value: &str| {
        let file = Members::default().text(name, value);
        let file = file.optional("mimeType", part.media_type.as_deref());
        kind(form, "file").json("file", file.optional("name", part.filename.as_deref()).end())
    };
    let members = match &part.content {
        Content::Raw(raw) => file(if is_rest { "fileWithBytes" } else { "bytes" }, raw),
        Content::Url(url) => file(if is_rest { "fileWithUri" } else { "uri" }, url),
        Content::Text(text) => {
            name_in(&mut metadata, part);
            kind(form, "text").text("text", text)
        }
        Content::Data(data) => {
            name_in(&mut metadata, part);
            let data = if data.is_object() {
                data.clone()
            } else {
                metadata.set(COMPAT, JsonText::from(JsonValue::from(true)));
                Members::default().json("value", data.clone()).end()
            };
            let data = if is_rest { Members::default().json("data", data).end() } else { data };
            kind(form, "data").json("data", data)
        }
    };
    members.object("metadata", &metadata).end()
}

/// Keeps the file name and the media type of a part for which 0.3 has no place.
fn name_in(metadata: &mut JsonObject, part: &Part) {
    if part.filename.is_some() || part.media_type.is_some() {
        let named = Members::default().optional("filename", part.filename.as_deref());
        metadata.set(NAMED, named.optional("mediaType", part.media_type.as_deref()).end());
    }
}

fn parts(form: Form, parts: &[Part]) -> JsonText {
    JsonText::of_model(&parts.iter().map(|one| part(form, one)).collect::<Vec<_>>())
}

/// Writes a message.
pub(crate) fn message(form: Form, message: &Message) -> JsonText {
    let role = match (form, message.role) {
        (Form::V1 | Form::Rest03, Role::User) => "ROLE_USER",
        (Form::V1 | Form::Rest03, Role::Agent) => "ROLE_AGENT",
        (Form::V03, Role::User) => "user",
        (Form::V03, Role::Agent) => "agent",
    };
    kind(form, "message")
        .text("messageId", &message.id)
        .optional("contextId", message.context_id.as_deref())
        .optional("taskId", message.task_id.as_deref())
        .text("role", role)
        .json(if form == Form::Rest03 { "content" } else { "parts" }, parts(form, &message.parts))
        .object("metadata", &message.metadata)
        .texts("extensions", &message.extensions)
        .texts("referenceTaskIds", if form == Form::Rest03 { &[] } else { &message.references })
        .end()
}

/// Writes an artifact.
pub(crate) fn artifact(form: Form, artifact: &Artifact) -> JsonText {
    Members::default()
        .text("artifactId", &artifact.id)
        .optional("name", artifact.name.as_deref())
        .optional("description", artifact.description.as_deref())
        .json("parts", parts(form, &artifact.parts))
        .object("metadata", &artifact.metadata)
        .texts("extensions", &artifact.extensions)
        .end()
}

fn state(form: Form, state: State) -> &'static str {
    let (new, old) = state.words();
    match form {
        Form::Rest03 if state == State::Canceled => CANCELED_03,
        Form::V1 | Form::Rest03 => new,
        Form::V03 => old,
    }
}

fn status(form: Form, status: &Status) -> JsonText {
    let members = Members::default().text("state", state(form, status.state));
    let members = match &status.message {
        Some(said) => members.json("message", message(form, said)),
        None => members,
    };
    members.optional("timestamp", status.timestamp.as_deref()).end()
}

/// Writes a task.
pub(crate) fn task(form: Form, task: &Task) -> JsonText {
    let members = kind(form, "task")
        .text("id", &task.id)
        .text("contextId", &task.context_id)
        .json("status", status(form, &task.status));
    let members = match &task.artifacts {
        Some(artifacts) => {
            let artifacts: Vec<_> = artifacts.iter().map(|one| artifact(form, one)).collect();
            members.json("artifacts", JsonText::of_model(&artifacts))
        }
        None => members,
    };
    let history: Vec<_> = task.history.iter().map(|one| message(form, one)).collect();
    members.list("history", &history).object("metadata", &task.metadata).end()
}

fn status_update(form: Form, update: &StatusUpdate) -> JsonText {
    let members = kind(form, "status-update")
        .text("taskId", &update.task_id)
        .text("contextId", &update.context_id)
        .json("status", status(form, &update.status));
    let members = if form == Form::V1 { members } else { members.flag("final", update.is_last) };
    members.object("metadata", &update.metadata).end()
}

fn artifact_update(form: Form, update: &ArtifactUpdate) -> JsonText {
    kind(form, "artifact-update")
        .text("taskId", &update.task_id)
        .text("contextId", &update.context_id)
        .json("artifact", artifact(form, &update.artifact))
        .flag("append", update.append)
        .flag("lastChunk", update.last_chunk)
        .object("metadata", &update.metadata)
        .end()
}

/// Writes an event of a stream, or the answer to a message.
pub(crate) fn event(form: Form, event: &Event) -> JsonText {
    let (name, json) = match event {
        Event::Task(one) => ("task", task(form, one)),
        Event::Message(one) => ("message", message(form, one)),
        Event::Status(one) => ("statusUpdate", status_update(form, one)),
        Event::Artifact(one) => ("artifactUpdate", artifact_update(form, one)),
    };
    match form {
        Form::V1 | Form::Rest03 => Members::default().json(name, json).end(),
        Form::V03 => json,
    }
}

/// Writes how a webhook is called, as [`push_config`](crate::a2a::wire::read::push_config) reads it.
pub(crate) fn push_config(form: Form, config: &PushConfig) -> JsonText {
    let inner = inner_config(form, config);
    match form {
        Form::V1 => inner,
        Form::V03 => {
            Members::default().text("taskId", &config.task_id).json("pushNotificationConfig", inner).end()
        }
        Form::Rest03 => Members::default()
            .text("name", &format!("tasks/{}/pushNotificationConfigs/{}", config.task_id, config.id))
            .json("pushNotificationConfig", inner)
            .end(),
    }
}

/// Writes how a webhook is called as the configuration of a message has it: the member's name, and its value.
pub(crate) fn push_config_of_message(form: Form, config: &PushConfig) -> (&'static str, JsonText) {
    let name = match form {
        Form::V1 => "taskPushNotificationConfig",
        Form::V03 => "pushNotificationConfig",
        Form::Rest03 => "pushNotification",
    };
    (name, inner_config(form, config))
}

fn inner_config(form: Form, config: &PushConfig) -> JsonText {
    let inner = Members::default().optional("id", Some(config.id.as_str()).filter(|id| !id.is_empty()));
    let inner = match form {
        Form::V1 if !config.task_id.is_empty() => inner.text("taskId", &config.task_id),
        _ => inner,
    };
    let inner = inner.text("url", &config.url).optional("token", config.token.as_deref());
    let Some((scheme, credentials)) = &config.authentication else { return inner.end() };
    let named = match form {
        Form::V1 => Members::default().text("scheme", scheme),
        Form::V03 | Form::Rest03 => Members::default().texts("schemes", std::slice::from_ref(scheme)),
    };
    inner.json("authentication", named.optional("credentials", credentials.as_deref()).end()).end()
}
