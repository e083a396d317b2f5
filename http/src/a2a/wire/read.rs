//! Reading.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use proto_events::json::{JsonObject, JsonText};

use crate::a2a::model::{
    Artifact, ArtifactUpdate, Content, Event, Message, Part, PushConfig, Role, State, Status, StatusUpdate,
    Task,
};
use crate::a2a::wire::fields::{Fields, Invalid};
use crate::a2a::wire::{CANCELED_03, COMPAT, Form, NAMED};

/// Base64 with and without its padding, as protobuf's JSON reads it.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// Whether a text is base64, of either alphabet.
pub(crate) fn is_base64(text: &str) -> bool {
    bytes_of(text).is_some()
}

/// Returns the bytes of a text in base64, of either alphabet; `None` if it is none.
pub(crate) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let by = |alphabet| GeneralPurpose::new(alphabet, LENIENT).decode(text).ok();
    by(&STANDARD).or_else(|| by(&URL_SAFE))
}

/// Reads a part.
pub(crate) fn part(form: Form, json: &JsonText, path: &str) -> Result<Part, Invalid> {
    let fields = Fields::of(json, path)?;
    match form {
        Form::V1 => part_of_1(&fields),
        Form::Rest03 if fields.get("kind").is_none() => part_of_rest_03(&fields),
        Form::V03 | Form::Rest03 => part_of_03(&fields),
    }
}

fn part_of_1(fields: &Fields) -> Result<Part, Invalid> {
    let mut found = Vec::new();
    found.extend(fields.text("text")?.map(Content::Text));
    found.extend(fields.text("raw")?.map(Content::Raw));
    found.extend(fields.text("url")?.map(Content::Url));
    found.extend(fields.or_null("data").cloned().map(Content::Data));
    let (Some(content), None) = (found.pop(), found.pop()) else {
        return Err(Invalid::new(path_of(fields), "must have exactly one of text, raw, url and data"));
    };
    if matches!(&content, Content::Raw(raw) if !is_base64(raw)) {
        return Err(fields.wrong("raw", "must be base64"));
    }
    Ok(Part {
        content,
        metadata: fields.object("metadata")?,
        filename: fields.word("filename")?,
        media_type: fields.word("mediaType")?,
    })
}

fn part_of_03(fields: &Fields) -> Result<Part, Invalid> {
    let mut metadata = fields.object("metadata")?;
    let (mut filename, mut media_type) = named_in(&mut metadata);
    let content = match fields.needed("kind")?.as_str() {
        "text" => Content::Text(fields.text("text")?.ok_or_else(|| fields.wrong("text", "is required"))?),
        "data" => {
            let data = fields.get("data").filter(|data| data.is_object());
            let data = data.ok_or_else(|| fields.wrong("data", "must be an object"))?;
            Content::Data(value_of(data, &mut metadata))
        }
        "file" => {
            let file = fields.inner("file")?.ok_or_else(|| fields.wrong("file", "is required"))?;
            filename = file.word("name")?;
            media_type = file.word("mimeType")?;
            match (file.text("bytes")?, file.text("uri")?) {
                (Some(bytes), None) if is_base64(&bytes) => Content::Raw(bytes),
                (Some(_), None) => return Err(file.wrong("bytes", "must be base64")),
                (None, Some(uri)) => Content::Url(uri),
                _ => return Err(fields.wrong("file", "must have exactly one of bytes and uri")),
            }
        }
        _ => return Err(fields.wrong("kind", "must be text, file or data")),
    };
    Ok(Part { content, metadata, filename, media_type })
}

fn part_of_rest_03(fields: &Fields) -> Result<Part, Invalid> {
    let mut metadata = fields.object("metadata")?;
    let (mut filename, mut media_type) = named_in(&mut metadata);
    let content = match (fields.text("text")?, fields.inner("file")?, fields.inner("data")?) {
        (Some(text), None, None) => Content::Text(text),
        (None, None, Some(data)) => {
            let data = data.object("data")?.to_text();
            Content::Data(value_of(&data, &mut metadata))
        }
        (None, Some(file), None) => {
            filename = file.word("name")?;
            media_type = file.word("mimeType")?;
            match (file.text("fileWithBytes")?, file.text("fileWithUri")?) {
                (Some(bytes), None) if is_base64(&bytes) => Content::Raw(bytes),
                (Some(_), None) => return Err(file.wrong("fileWithBytes", "must be base64")),
                (None, Some(uri)) => Content::Url(uri),
                _ => return Err(file.wrong("fileWithUri", "or fileWithBytes must be there, not both")),
            }
        }
        _ => return Err(Invalid::new(path_of(fields), "must have exactly one of text, file and data")),
    };
    Ok(Part { content, metadata, filename, media_type })
}

/// Takes the file name and the media type that stand in metadata.
fn named_in(metadata: &mut JsonObject) -> (Option<String>, Option<String>) {
    let named: Option<JsonObject> = metadata.remove(NAMED).and_then(|named| named.read().ok());
    let named = |key: &str| named.as_ref()?.get(key)?.to_str();
    (named("filename"), named("mediaType"))
}

/// Returns the value for which the object of a data part stands.
fn value_of(data: &JsonText, metadata: &mut JsonObject) -> JsonText {
    if metadata.get(COMPAT).is_none_or(|compat| compat.as_str() != "true") {
        return data.clone();
    }
    let object: JsonObject = data.read().unwrap_or_default();
    match object.get("value") {
        Some(value) if object.len() == 1 => {
            metadata.remove(COMPAT);
            value.clone()
        }
        _ => data.clone(),
    }
}

fn path_of(fields: &Fields) -> String {
    fields.at("").trim_end_matches('.').to_owned()
}

/// Reads a message.
pub(crate) fn message(form: Form, json: &JsonText, path: &str) -> Result<Message, Invalid> {
    let fields = Fields::of(json, path)?;
    let role = match (form, fields.needed("role")?.as_str()) {
        (Form::V1 | Form::Rest03, "ROLE_USER") | (Form::V03 | Form::Rest03, "user") => Role::User,
        (Form::V1 | Form::Rest03, "ROLE_AGENT") | (Form::V03 | Form::Rest03, "agent") => Role::Agent,
        (Form::V1 | Form::Rest03, _) => return Err(fields.wrong("role", "must be ROLE_USER or ROLE_AGENT")),
        (Form::V03, _) => return Err(fields.wrong("role", "must be user or agent")),
    };
    let place = if form == Form::Rest03 && fields.get("content").is_some() { "content" } else { "parts" };
    let parts = fields.items(place, |json, path| part(form, json, path))?;
    if parts.is_empty() {
        return Err(fields.wrong(place, "must have one part at least"));
    }
    Ok(Message {
        id: fields.needed("messageId")?,
        role,
        parts,
        context_id: fields.word("contextId")?,
        task_id: fields.word("taskId")?,
        metadata: fields.object("metadata")?,
        extensions: fields.texts("extensions")?,
        references: fields.texts("referenceTaskIds")?,
    })
}

/// Reads an artifact.
pub(crate) fn artifact(form: Form, json: &JsonText, path: &str) -> Result<Artifact, Invalid> {
    let fields = Fields::of(json, path)?;
    Ok(Artifact {
        id: fields.needed("artifactId")?,
        name: fields.text("name")?,
        description: fields.text("description")?,
        parts: fields.items("parts", |json, path| part(form, json, path))?,
        metadata: fields.object("metadata")?,
        extensions: fields.texts("extensions")?,
    })
}

/// Reads a state.
pub(crate) fn state(form: Form, fields: &Fields, name: &str) -> Result<State, Invalid> {
    let word = fields.needed(name)?;
    let known = match form {
        Form::Rest03 if word == CANCELED_03 => Some(State::Canceled),
        Form::V1 | Form::Rest03 => State::of_word(&word).filter(|state| state.words().0 == word),
        Form::V03 => State::of_word(&word).filter(|state| state.words().1 == word),
    };
    known.ok_or_else(|| fields.wrong(name, "must be a state of a task"))
}

fn status(form: Form, fields: &Fields) -> Result<Status, Invalid> {
    let status = fields.inner("status")?.ok_or_else(|| fields.wrong("status", "is required"))?;
    let said = status.get("message").map(|json| message(form, json, &status.at("message")));
    Ok(Status {
        state: state(form, &status, "state")?,
        message: said.transpose()?,
        timestamp: status.word("timestamp")?,
    })
}

/// Reads a task.
pub(crate) fn task(form: Form, json: &JsonText, path: &str) -> Result<Task, Invalid> {
    let fields = Fields::of(json, path)?;
    let id = fields.needed("id")?;
    Ok(Task {
        context_id: fields.word("contextId")?.unwrap_or_else(|| id.clone()),
        id,
        status: status(form, &fields)?,
        artifacts: Some(fields.items("artifacts", |json, path| artifact(form, json, path))?),
        history: fields.items("history", |json, path| message(form, json, path))?,
        metadata: fields.object("metadata")?,
    })
}

fn status_update(form: Form, json: &JsonText, path: &str) -> Result<StatusUpdate, Invalid> {
    let fields = Fields::of(json, path)?;
    Ok(StatusUpdate {
        task_id: fields.needed("taskId")?,
        context_id: fields.word("contextId")?.unwrap_or_default(),
        status: status(form, &fields)?,
        metadata: fields.object("metadata")?,
        is_last: fields.flag("final")?.unwrap_or(false),
    })
}

fn artifact_update(form: Form, json: &JsonText, path: &str) -> Result<ArtifactUpdate, Invalid> {
    let fields = Fields::of(json, path)?;
    let piece = fields.get("artifact").ok_or_else(|| fields.wrong("artifact", "is required"))?;
    Ok(ArtifactUpdate {
        task_id: fields.needed("taskId")?,
        context_id: fields.word("contextId")?.unwrap_or_default(),
        artifact: artifact(form, piece, &fields.at("artifact"))?,
        append: fields.flag("append")?.unwrap_or(false),
        last_chunk: fields.flag("lastChunk")?.unwrap_or(false),
        metadata: fields.object("metadata")?,
    })
}

/// Reads an event of a stream, or the answer to a message.
pub(crate) fn event(form: Form, json: &JsonText, path: &str) -> Result<Event, Invalid> {
    let fields = Fields::of(json, path)?;
    let (kind, json, path) = match form {
        Form::V03 => (fields.needed("kind")?, json.clone(), path.to_owned()),
        Form::V1 | Form::Rest03 => {
            let known = [("task", "task"), ("message", "message")];
            let known = known
                .into_iter()
                .chain([("statusUpdate", "status-update"), ("artifactUpdate", "artifact-update")]);
            let mut found = known.filter_map(|(name, kind)| Some((kind, fields.get(name)?, fields.at(name))));
            let (Some((kind, json, path)), None) = (found.next(), found.next()) else {
                let what = "must have exactly one of task, message, statusUpdate and artifactUpdate";
                return Err(Invalid::new(path_of(&fields), what));
            };
            (kind.to_owned(), json.clone(), path)
        }
    };
    Ok(match kind.as_str() {
        "task" => Event::Task(Box::new(task(form, &json, &path)?)),
        "message" => Event::Message(Box::new(message(form, &json, &path)?)),
        "status-update" => Event::Status(Box::new(status_update(form, &json, &path)?)),
        "artifact-update" => Event::Artifact(Box::new(artifact_update(form, &json, &path)?)),
        _ => return Err(fields.wrong("kind", "must be task, message, status-update or artifact-update")),
    })
}

/// Reads how a webhook is called. 0.3 has it in a member of its own where it names the task, and lists schemes.
pub(crate) fn push_config(form: Form, json: &JsonText, path: &str) -> Result<PushConfig, Invalid> {
    push_config_of(form, &Fields::of(json, path)?)
}

/// Reads how a webhook is called from the members of its object.
pub(crate) fn push_config_of(form: Form, outer: &Fields) -> Result<PushConfig, Invalid> {
    let inner = if form == Form::V1 { None } else { outer.inner("pushNotificationConfig")? };
    let fields = inner.as_ref().unwrap_or(outer);
    let authentication = match fields.inner("authentication")? {
        None => None,
        Some(named) => {
            let listed = if form == Form::V1 { None } else { named.texts("schemes")?.into_iter().next() };
            let scheme = listed.or(named.word("scheme")?);
            let scheme = scheme.ok_or_else(|| named.wrong("scheme", "is required"))?;
            Some((scheme, named.word("credentials")?))
        }
    };
    Ok(PushConfig {
        id: fields.text("id")?.unwrap_or_default(),
        task_id: outer.text("taskId")?.unwrap_or_default(),
        url: fields.needed("url")?,
        token: fields.word("token")?,
        authentication,
    })
}
