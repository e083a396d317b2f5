//! Reading. A request is read strictly, as its version has it. An answer may hold the work of an agent, which is lost with it: of
//! it is read whatever has one meaning only. In both, what protobuf's JSON allows is read: numbers for words, nulls for members
//! that are not there.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use proto_events::id::check_id;
use proto_events::json::{JsonObject, JsonText};

use crate::a2a::model::{
    Artifact, ArtifactUpdate, Content, Event, Message, Part, PushConfig, Role, State, Status, StatusUpdate,
    Task,
};
use crate::a2a::wire::fields::{Invalid, WireFields};
use crate::a2a::wire::{CANCELED_03, COMPAT, DataForm, NAMED};

/// Base64 with and without its padding, as protobuf's JSON reads it.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// Whether a text is base64, of either alphabet.
pub(crate) fn is_base64(text: &str) -> bool {
    bytes_of(text).is_some()
}

/// Returns the bytes of a text in base64, of either alphabet, in one line or in several as mail has it; `None` for any other text.
pub(crate) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let text = in_one_line(Cow::Borrowed(text));
    let by = |alphabet| GeneralPurpose::new(alphabet, LENIENT).decode(&*text).ok();
    by(&STANDARD).or_else(|| by(&URL_SAFE))
}

/// Returns base64 without the breaks of its lines.
fn in_one_line(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.contains(|letter: char| letter.is_ascii_whitespace()) {
        text.chars().filter(|letter| !letter.is_ascii_whitespace()).collect::<String>().into()
    } else {
        text
    }
}

/// Returns the content of base64, if the text is that.
fn raw_of(text: String) -> Option<Content> {
    is_base64(&text).then(|| Content::Raw(in_one_line(Cow::Owned(text)).into_owned()))
}

/// The side that wrote what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WireSide {
    Request,
    Answer,
}

/// Reads a part of a request.
#[cfg(test)]
pub(crate) fn part(form: DataForm, json: &JsonText, path: &str) -> Result<Part, Invalid> {
    part_in(WireSide::Request, form, json, path)
}

fn part_in(of: WireSide, form: DataForm, json: &JsonText, path: &str) -> Result<Part, Invalid> {
    let fields = WireFields::new(json, path)?;
    match form {
        DataForm::V1 => part_of_1(&fields),
        DataForm::Rest03 if fields.get("kind").is_none() => part_of_rest_03(&fields),
        DataForm::V03 | DataForm::Rest03 => part_of_03(of, &fields),
    }
}

fn part_of_1(fields: &WireFields) -> Result<Part, Invalid> {
    let mut found = Vec::new();
    found.extend(fields.text("text")?.map(Content::Text));
    found.extend(fields.text("raw")?.map(Content::Raw));
    found.extend(fields.text("url")?.map(Content::Url));
    found.extend(fields.get("data").cloned().map(Content::Data));
    // Some write every member, and leave those empty that they do not mean.
    let is_empty = |content: &Content| matches!(content, Content::Text(text) | Content::Raw(text) | Content::Url(text) if text.is_empty());
    if found.len() > 1 {
        let first = found.first().cloned();
        found.retain(|content| !is_empty(content));
        found.extend(first.filter(|_| found.is_empty()));
    }
    // Null is data where nothing else is said.
    found.extend(fields.or_null("data").filter(|_| found.is_empty()).cloned().map(Content::Data));
    let (Some(content), None) = (found.pop(), found.pop()) else {
        return Err(Invalid::new(path_of(fields), "must have exactly one of text, raw, url and data"));
    };
    let content = match content {
        Content::Raw(raw) => raw_of(raw).ok_or_else(|| fields.wrong("raw", "must be base64"))?,
        content => content,
    };
    Ok(Part {
        content,
        metadata: fields.object("metadata")?,
        filename: fields.word("filename")?,
        media_type: fields.word("mediaType")?,
    })
}

fn part_of_03(of: WireSide, fields: &WireFields) -> Result<Part, Invalid> {
    let mut metadata = fields.object("metadata")?;
    let (mut filename, mut media_type) = named_in(&mut metadata);
    let told = ["text", "file", "data"].into_iter().find(|kind| fields.get(kind).is_some());
    let kind = match (of, fields.get("kind"), told) {
        (WireSide::Answer, None, Some(told)) => told.to_owned(),
        _ => fields.needed("kind")?,
    };
    let content = match kind.as_str() {
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
            match (file.text("bytes")?, file.word("uri")?) {
                (Some(bytes), None) => raw_of(bytes).ok_or_else(|| file.wrong("bytes", "must be base64"))?,
                (None, Some(uri)) => Content::Url(uri),
                _ => return Err(fields.wrong("file", "must have exactly one of bytes and uri")),
            }
        }
        _ => return Err(fields.wrong("kind", "must be text, file or data")),
    };
    Ok(Part { content, metadata, filename, media_type })
}

fn part_of_rest_03(fields: &WireFields) -> Result<Part, Invalid> {
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
            match (file.text("fileWithBytes")?, file.word("fileWithUri")?) {
                (Some(bytes), None) => {
                    raw_of(bytes).ok_or_else(|| file.wrong("fileWithBytes", "must be base64"))?
                }
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

fn path_of(fields: &WireFields) -> String {
    fields.at("").trim_end_matches('.').to_owned()
}

/// Reads a message of a request.
pub(crate) fn message(form: DataForm, json: &JsonText, path: &str) -> Result<Message, Invalid> {
    message_in(WireSide::Request, form, json, path)
}

fn message_in(of: WireSide, form: DataForm, json: &JsonText, path: &str) -> Result<Message, Invalid> {
    let fields = WireFields::new(json, path)?;
    let place = if form == DataForm::Rest03 && fields.get("content").is_some() { "content" } else { "parts" };
    let parts = fields.items(place, |json, path| part_in(of, form, json, path))?;
    if parts.is_empty() {
        return Err(fields.wrong(place, "must have one part at least"));
    }
    let id = fields.needed("messageId")?;
    if of == WireSide::Request {
        // It comes back in every answer.
        check_id(&id).map_err(|error| fields.wrong("messageId", &error.to_string()))?;
    }
    Ok(Message {
        id,
        role: role(of, form, &fields)?,
        parts,
        context_id: fields.word("contextId")?,
        task_id: fields.word("taskId")?,
        metadata: fields.object("metadata")?,
        extensions: fields.texts("extensions")?,
        references: fields.texts("referenceTaskIds")?,
    })
}

fn role(of: WireSide, form: DataForm, fields: &WireFields) -> Result<Role, Invalid> {
    let named = fields.word_or_number("role")?;
    let lower = named.to_ascii_lowercase();
    match (form, named.as_str()) {
        (DataForm::V1 | DataForm::Rest03, "ROLE_USER" | "1") | (DataForm::V03 | DataForm::Rest03, "user") => {
            Ok(Role::User)
        }
        (DataForm::V1 | DataForm::Rest03, "ROLE_AGENT" | "2")
        | (DataForm::V03 | DataForm::Rest03, "agent") => Ok(Role::Agent),
        _ if of == WireSide::Answer && matches!(lower.as_str(), "user" | "role_user" | "1") => Ok(Role::User),
        _ if of == WireSide::Answer && matches!(lower.as_str(), "agent" | "role_agent" | "2") => {
            Ok(Role::Agent)
        }
        (DataForm::V1 | DataForm::Rest03, _) => Err(fields.wrong("role", "must be ROLE_USER or ROLE_AGENT")),
        (DataForm::V03, _) => Err(fields.wrong("role", "must be user or agent")),
    }
}

/// Reads an artifact.
pub(crate) fn artifact(form: DataForm, json: &JsonText, path: &str) -> Result<Artifact, Invalid> {
    let fields = WireFields::new(json, path)?;
    Ok(Artifact {
        id: fields.needed("artifactId")?,
        name: fields.text("name")?,
        description: fields.text("description")?,
        parts: fields.items("parts", |json, path| part_in(WireSide::Answer, form, json, path))?,
        metadata: fields.object("metadata")?,
        extensions: fields.texts("extensions")?,
    })
}

/// Reads a state that a request names.
pub(crate) fn state(form: DataForm, fields: &WireFields, name: &str) -> Result<State, Invalid> {
    let word = fields.word_or_number(name)?;
    let known = State::of_number(&word).or_else(|| match form {
        DataForm::Rest03 if word == CANCELED_03 => Some(State::Canceled),
        DataForm::V1 | DataForm::Rest03 => State::of_word(&word).filter(|state| state.words().0 == word),
        DataForm::V03 => State::of_word(&word).filter(|state| state.words().1 == word),
    });
    known.ok_or_else(|| fields.wrong(name, "must be a state of a task"))
}

/// Reads the state in an answer, in whatever letters and spelling.
fn answered_state(fields: &WireFields, name: &str) -> Result<State, Invalid> {
    let word = fields.word_or_number(name)?;
    let plain = word.to_ascii_lowercase().replace(['_', ' '], "-");
    let plain = plain.strip_prefix("task-state-").unwrap_or(&plain);
    let plain = if plain == "cancelled" { "canceled" } else { plain };
    let plain = if plain == "unspecified" { "unknown" } else { plain };
    let known = State::of_number(&word).or_else(|| State::of_word(plain));
    known.ok_or_else(|| fields.wrong(name, "must be a state of a task"))
}

fn status(form: DataForm, fields: &WireFields) -> Result<Status, Invalid> {
    let status = fields.inner("status")?.ok_or_else(|| fields.wrong("status", "is required"))?;
    let said =
        status.get("message").map(|json| message_in(WireSide::Answer, form, json, &status.at("message")));
    Ok(Status {
        state: answered_state(&status, "state")?,
        message: said.transpose()?,
        timestamp: status.word("timestamp")?,
    })
}

/// Reads a task.
pub(crate) fn task(form: DataForm, json: &JsonText, path: &str) -> Result<Task, Invalid> {
    let fields = WireFields::new(json, path)?;
    let id = fields.needed("id")?;
    Ok(Task {
        context_id: fields.word("contextId")?.unwrap_or_else(|| id.clone()),
        id,
        status: status(form, &fields)?,
        artifacts: Some(fields.items("artifacts", |json, path| artifact(form, json, path))?),
        history: fields.items("history", |json, path| message_in(WireSide::Answer, form, json, path))?,
        metadata: fields.object("metadata")?,
    })
}

fn status_update(form: DataForm, json: &JsonText, path: &str) -> Result<StatusUpdate, Invalid> {
    let fields = WireFields::new(json, path)?;
    Ok(StatusUpdate {
        task_id: fields.needed("taskId")?,
        context_id: fields.word("contextId")?.unwrap_or_default(),
        status: status(form, &fields)?,
        metadata: fields.object("metadata")?,
        is_last: fields.flag("final")?.unwrap_or(false),
    })
}

fn artifact_update(form: DataForm, json: &JsonText, path: &str) -> Result<ArtifactUpdate, Invalid> {
    let fields = WireFields::new(json, path)?;
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
pub(crate) fn event(form: DataForm, json: &JsonText, path: &str) -> Result<Event, Invalid> {
    let fields = WireFields::new(json, path)?;
    let (kind, json, path) = match form {
        DataForm::V03 => (kind_of(&fields)?, json.clone(), path.to_owned()),
        DataForm::V1 | DataForm::Rest03 => {
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
        "message" => Event::Message(Box::new(message_in(WireSide::Answer, form, &json, &path)?)),
        "status-update" => Event::Status(Box::new(status_update(form, &json, &path)?)),
        "artifact-update" => Event::Artifact(Box::new(artifact_update(form, &json, &path)?)),
        _ => return Err(fields.wrong("kind", "must be task, message, status-update or artifact-update")),
    })
}

/// Returns the kind of an event of 0.3; one without a kind is known by its members.
fn kind_of(fields: &WireFields) -> Result<String, Invalid> {
    let has = |name: &str| fields.get(name).is_some();
    Ok(match () {
        () if has("kind") => return fields.needed("kind"),
        () if has("artifact") && has("taskId") => "artifact-update",
        () if has("status") && has("taskId") => "status-update",
        () if has("status") && has("id") => "task",
        () if has("parts") && has("role") => "message",
        () => return fields.needed("kind"),
    }
    .to_owned())
}

/// Returns the id of the task that an answer is about, however wrong the rest of it is; `None` if it names none.
#[cfg(feature = "client")]
pub(crate) fn task_named(json: &JsonText) -> Option<String> {
    let fields: JsonObject = json.read().ok()?;
    let text = |fields: &JsonObject, name: &str| fields.get(name)?.to_str().filter(|id| !id.is_empty());
    let inner = ["result", "task", "message", "statusUpdate", "artifactUpdate"]
        .iter()
        .find_map(|name| fields.get(name).filter(|inner| inner.is_object()).and_then(task_named));
    let own = || text(&fields, "id").filter(|_| fields.get("status").is_some());
    inner.or_else(|| text(&fields, "taskId")).or_else(own)
}

/// Reads how a webhook is called. 0.3 has it in a member of its own where it names the task, and lists schemes.
pub(crate) fn push_config(form: DataForm, json: &JsonText, path: &str) -> Result<PushConfig, Invalid> {
    push_config_of(form, &WireFields::new(json, path)?)
}

/// Reads how a webhook is called from the members of its object.
pub(crate) fn push_config_of(form: DataForm, outer: &WireFields) -> Result<PushConfig, Invalid> {
    let inner = if form == DataForm::V1 { None } else { outer.inner("pushNotificationConfig")? };
    let fields = inner.as_ref().unwrap_or(outer);
    let named = fields.inner("authentication")?;
    // 0.3 has one without a scheme where the webhook asks for nothing.
    let authentication = match named.filter(|named| form == DataForm::V1 || !named.is_empty()) {
        None => None,
        Some(named) => {
            let listed = if form == DataForm::V1 { None } else { named.texts("schemes")?.into_iter().next() };
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
