//! Metadata under the URI of our extension.

use proto_events::json::{JsonObject, JsonText, JsonValue};

use crate::a2a::mapping::EXTENSION;
use crate::a2a::mapping::numbers::{is_kept, whole};

/// The note of a message that begins a task: the run context of the agent that asks.
pub(crate) const RUN: &str = "run";

/// The note of what a task has used.
pub(crate) const USED: &str = "used";

/// The notes under our URI: texts, booleans, and lists of texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes(JsonObject);

impl Notes {
    /// Takes the notes out of metadata.
    pub(crate) fn extract(metadata: &mut JsonObject) -> Self {
        let notes = metadata.get(EXTENSION).filter(|notes| notes.is_object());
        let Some(notes) = notes.and_then(|notes| notes.read().ok()) else { return Self::default() };
        metadata.remove(EXTENSION);
        Self(notes)
    }

    /// Puts the notes into metadata, if there are any.
    pub(crate) fn write_to(self, metadata: &mut JsonObject) {
        if !self.0.is_empty() {
            metadata.set(EXTENSION, self.0.to_text());
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.0.get(key)?.to_str()
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|flag| flag.as_str() == "true")
    }

    /// Returns a value that is kept as its text.
    pub(crate) fn json(&self, key: &str) -> Option<JsonText> {
        JsonText::parse_stored(&self.text(key)?).ok()
    }

    /// Returns an object that is kept as its text.
    pub(crate) fn object(&self, key: &str) -> Option<JsonObject> {
        self.json(key)?.read().ok()
    }

    pub(crate) fn set_text(&mut self, key: &str, text: &str) {
        self.0.set(key, JsonText::string(text));
    }

    pub(crate) fn set_optional(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.set_text(key, text);
        }
    }

    pub(crate) fn set_flag(&mut self, key: &str) {
        self.0.set(key, JsonText::from(JsonValue::from(true)));
    }

    /// Keeps a value as its text.
    pub(crate) fn set_json(&mut self, key: &str, json: &JsonText) {
        self.set_text(key, json.as_str());
    }
}

/// The key of metadata that are not kept as they are.
const METADATA: &str = "metadata";

/// Returns metadata of our own as A2A's: as they are, and where numbers would change, or our URI is a key of theirs, also as
/// their text.
pub(crate) fn shown(own: &JsonObject, notes: &mut Notes) -> JsonObject {
    let text = own.to_text();
    if !is_kept(&text) || own.get(EXTENSION).is_some() {
        notes.set_json(METADATA, &text);
    }
    let mut shown = own.clone();
    shown.remove(EXTENSION);
    shown
}

/// Returns what [`shown`] was made of.
pub(crate) fn restored(shown: &JsonObject, notes: &Notes) -> JsonObject {
    if let Some(own) = notes.object(METADATA) {
        return own;
    }
    shown.iter().map(|(key, value)| (key.to_owned(), whole(value))).collect()
}
