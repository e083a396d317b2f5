//! Messages.

use proto_events::json::{JsonObject, JsonText};
use proto_events::model;

use crate::a2a::mapping::CARRIER;
use crate::a2a::mapping::notes::Notes;
use crate::a2a::mapping::part::{self, Beside};
use crate::a2a::mapping::prompt::{PROMPT, prompt_of};
use crate::a2a::model::{Content, Message, Part, Role};

/// The id in A2A of a message that has none.
const NO_ID: &str = "-";

/// The task and the context of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessagePlace<'a> {
    pub(crate) task: &'a str,
    pub(crate) context: &'a str,
}

/// Whether a role is an agent's.
pub(crate) fn is_agents(role: Option<&str>) -> bool {
    role != Some("user")
}

/// Returns our message as A2A's.
pub(crate) fn to_a2a(message: &model::Message, place: MessagePlace<'_>) -> Message {
    let mut notes = Notes::default();
    let mut own = message.parts.as_slice();
    let carried = match own.split_last() {
        Some((last, before)) if last.kind() == CARRIER => {
            own = before;
            MessageExtras::read(last.content())
        }
        _ => MessageExtras::default(),
    };
    // What was made of texts is made of them again; of other content the order of members may have changed until then.
    if let Some((last, before)) = own.split_last()
        && last.kind() == PROMPT
        && prompt_of(before).as_ref() == Some(last)
    {
        own = before;
        notes.set_flag("prompt");
        if before.iter().any(|part| part.content().to_str().is_none()) {
            notes.set_json("promptContent", last.content());
        }
    }
    if message.id.is_none() {
        notes.set_flag("noId");
    }
    match message.role.as_deref() {
        Some("user" | "agent") => {}
        Some(other) => notes.set_text("role", other),
        None => notes.set_flag("noRole"),
    }
    notes.set_optional("time", message.timestamp.as_deref());
    notes.set_optional("key", carried.key.as_deref());
    let parts = parts_to_a2a(own, &carried.parts, &mut notes);
    let mut metadata = carried.metadata;
    notes.write_to(&mut metadata);
    Message {
        id: message.id.clone().filter(|id| !id.is_empty()).unwrap_or_else(|| NO_ID.to_owned()),
        role: if is_agents(message.role.as_deref()) { Role::Agent } else { Role::User },
        parts,
        context_id: Some(place.context.to_owned()),
        task_id: Some(place.task.to_owned()),
        metadata,
        extensions: carried.extensions,
        references: carried.references,
    }
}

/// Returns A2A's message as ours. The time is that of the message, if it was ours before. `asks` a model: a message without
/// work gets a prompt.
pub(crate) fn to_ours(message: Message, asks: bool) -> model::Message {
    let Message { id, role, parts, mut metadata, extensions, references, .. } = message;
    let notes = Notes::extract(&mut metadata);
    let usual = match role {
        Role::User => "user",
        Role::Agent => "agent",
    };
    let role = (!notes.flag("noRole")).then(|| notes.text("role").unwrap_or_else(|| usual.to_owned()));
    let (mut own, beside) = parts_to_ours(parts, &notes);
    if notes.flag("prompt") || asks {
        let kept = notes.json("promptContent").map(|content| model::Part::new("infer", content));
        own.extend(kept.or_else(|| prompt_of(&own)));
    }
    let carried = MessageExtras { metadata, extensions, references, parts: beside, key: notes.text("key") };
    own.extend(carried.to_part());
    model::Message {
        id: (!notes.flag("noId")).then_some(id),
        role,
        parts: own,
        timestamp: notes.text("time"),
    }
}

/// Returns the key under which a message was sent once.
pub(crate) fn key_of(message: &model::Message) -> Option<String> {
    let carrier = message.parts.last().filter(|last| last.kind() == CARRIER)?;
    MessageExtras::read(carrier.content()).key
}

/// Notes in a message the key under which it is sent once.
pub(crate) fn set_key(message: &mut model::Message, key: String) {
    let last = message.parts.pop_if(|last| last.kind() == CARRIER);
    let carried = last.map(|last| MessageExtras::read(last.content())).unwrap_or_default();
    message.parts.extend(MessageExtras { key: Some(key), ..carried }.to_part());
}

/// Returns our parts as A2A's, which has one at least.
pub(crate) fn parts_to_a2a(parts: &[model::Part], beside: &JsonObject, notes: &mut Notes) -> Vec<Part> {
    if parts.is_empty() {
        notes.set_flag("empty");
        return vec![Part::from_content(Content::Data(JsonText::null()))];
    }
    let of = |at: usize| beside.get(&at.to_string()).map(read_beside).unwrap_or_default();
    parts.iter().enumerate().map(|(at, part)| part::to_a2a(part, of(at))).collect()
}

/// Returns A2A's parts as ours, and what they have beside, by their number.
pub(crate) fn parts_to_ours(parts: Vec<Part>, notes: &Notes) -> (Vec<model::Part>, JsonObject) {
    let mut beside = JsonObject::new();
    if notes.flag("empty") {
        return (Vec::new(), beside);
    }
    let mut own = Vec::with_capacity(parts.len());
    for (at, part) in parts.into_iter().enumerate() {
        let (part, left) = part::to_ours(part);
        own.push(part);
        if !left.is_empty() {
            beside.set(at.to_string(), write_beside(&left));
        }
    }
    (own, beside)
}

fn write_beside(beside: &Beside) -> JsonText {
    let mut members = JsonObject::new();
    if !beside.metadata.is_empty() {
        members.set("metadata", beside.metadata.to_text());
    }
    for (key, text) in [("filename", &beside.filename), ("mediaType", &beside.media_type)] {
        if let Some(text) = text {
            members.set(key, JsonText::string(text));
        }
    }
    members.to_text()
}

fn read_beside(json: &JsonText) -> Beside {
    let members: JsonObject = json.read().unwrap_or_default();
    let text = |key: &str| members.get(key).and_then(JsonText::to_str);
    Beside {
        metadata: members.get("metadata").and_then(|own| own.read().ok()).unwrap_or_default(),
        filename: text("filename"),
        media_type: text("mediaType"),
    }
}

/// The members of a message of A2A that ours has no place for.
#[derive(Debug, Default)]
struct MessageExtras {
    metadata: JsonObject,
    extensions: Vec<String>,
    references: Vec<String>,
    parts: JsonObject,
    /// The key under which it was sent once.
    key: Option<String>,
}

impl MessageExtras {
    fn read(content: &JsonText) -> Self {
        let members: JsonObject = content.read().unwrap_or_default();
        let object = |key: &str| members.get(key).and_then(|own| own.read().ok()).unwrap_or_default();
        let texts = |key: &str| members.get(key).and_then(|own| own.read().ok()).unwrap_or_default();
        Self {
            metadata: object("metadata"),
            extensions: texts("extensions"),
            references: texts("referenceTaskIds"),
            parts: object("parts"),
            key: members.get("key").and_then(JsonText::to_str),
        }
    }

    /// Returns the part that holds it; `None` if there is nothing.
    fn to_part(&self) -> Option<model::Part> {
        let mut members = JsonObject::new();
        for (key, object) in [("metadata", &self.metadata), ("parts", &self.parts)] {
            if !object.is_empty() {
                members.set(key, object.to_text());
            }
        }
        for (key, texts) in [("extensions", &self.extensions), ("referenceTaskIds", &self.references)] {
            if !texts.is_empty() {
                members.set(key, JsonText::of_model(texts));
            }
        }
        if let Some(key) = &self.key {
            members.set("key", JsonText::string(key));
        }
        (!members.is_empty()).then(|| model::Part::new(CARRIER, members.to_text()))
    }
}
