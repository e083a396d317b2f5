//! Artifacts.

use proto_events::json::{JsonObject, JsonText};
use proto_events::model;

use crate::a2a::mapping::EXTENSION;
use crate::a2a::mapping::message::{parts_to_a2a, parts_to_ours};
use crate::a2a::mapping::notes::{Notes, restored, shown};
use crate::a2a::model::Artifact;

/// The id in A2A of an artifact that has none.
const NO_ID: &str = "-";

/// The kind of an artifact that names none.
const RESULT: &str = "result";

/// Returns our artifact as A2A's.
pub(crate) fn to_a2a(artifact: &model::Artifact) -> Artifact {
    let mut own = artifact.metadata.clone();
    let carried: JsonObject = own
        .get(EXTENSION)
        .filter(|carried| carried.is_object())
        .and_then(|carried| carried.read().ok())
        .unwrap_or_default();
    if !carried.is_empty() {
        own.remove(EXTENSION);
    }
    let mut notes = Notes::default();
    let mut metadata = shown(&own, &mut notes);
    if artifact.id.as_deref().is_none_or(str::is_empty) {
        notes.set_optional("id", artifact.id.as_deref());
        notes.set_flag("noId");
    }
    // An empty text stands for an absent one in protobuf.
    notes.set_optional("name", artifact.name.as_deref().filter(|name| name.is_empty()));
    notes.set_optional("time", artifact.timestamp.as_deref());
    if artifact.kind != RESULT {
        notes.set_text("kind", &artifact.kind);
    }
    notes.set_optional("uri", artifact.uri.as_deref());
    notes.set_optional("mediaType", artifact.media_type.as_deref());
    notes.set_optional("actionId", artifact.action_id.as_deref());
    let beside = carried.get("parts").and_then(|parts| parts.read().ok()).unwrap_or_default();
    let parts = parts_to_a2a(&artifact.parts, &beside, &mut notes);
    notes.write_to(&mut metadata);
    Artifact {
        id: artifact.id.clone().filter(|id| !id.is_empty()).unwrap_or_else(|| NO_ID.to_owned()),
        name: artifact.name.clone(),
        description: carried.get("description").and_then(JsonText::to_str),
        parts,
        metadata,
        extensions: carried.get("extensions").and_then(|texts| texts.read().ok()).unwrap_or_default(),
    }
}

/// Returns A2A's artifact as ours.
pub(crate) fn to_ours(artifact: Artifact) -> model::Artifact {
    let Artifact { id, name, description, parts, mut metadata, extensions } = artifact;
    let notes = Notes::extract(&mut metadata);
    let mut own = restored(&metadata, &notes);
    let (parts, beside) = parts_to_ours(parts, &notes);
    let mut carried = JsonObject::new();
    if let Some(description) = description {
        carried.set("description", JsonText::string(&description));
    }
    if !extensions.is_empty() {
        carried.set("extensions", JsonText::of_model(&extensions));
    }
    if !beside.is_empty() {
        carried.set("parts", beside.to_text());
    }
    if !carried.is_empty() {
        own.set(EXTENSION, carried.to_text());
    }
    model::Artifact {
        id: if notes.flag("noId") { notes.text("id") } else { Some(id) },
        parts,
        metadata: own,
        timestamp: notes.text("time"),
        kind: notes.text("kind").unwrap_or_else(|| RESULT.to_owned()),
        name: name.or_else(|| notes.text("name")),
        uri: notes.text("uri"),
        media_type: notes.text("mediaType"),
        action_id: notes.text("actionId"),
    }
}
