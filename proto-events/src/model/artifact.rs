//! Artifacts: the results of a task, as parts with a name, a URI and a media type.

use serde::Serialize;

use crate::id::Mint;
use crate::json::{JsonObject, JsonText};
use crate::model::error::ModelError;
use crate::model::fields::ModelFields;
use crate::model::part::Part;

/// A result of a task. An id or time that was posted as null stays null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// The id, usually `art_…`.
    pub id: Option<String>,
    /// The content, in order.
    pub parts: Vec<Part>,
    /// Further data of the event.
    pub metadata: JsonObject,
    /// The time of creation, as uninterpreted text.
    pub timestamp: Option<String>,
    /// The kind; `result` by default.
    pub kind: String,
    /// The display name.
    pub name: Option<String>,
    /// The URI of the content that the artifact represents.
    pub uri: Option<String>,
    /// The media type of the whole artifact.
    pub media_type: Option<String>,
    /// The id of the [`RunAction`](crate::model::RunAction) that made or proposes the artifact.
    pub action_id: Option<String>,
}

impl Artifact {
    /// Returns a new result.
    pub fn new(parts: Vec<Part>, mint: &mut dyn Mint) -> Self {
        Self {
            id: Some(mint.id("art_")),
            parts,
            metadata: JsonObject::new(),
            timestamp: Some(mint.timestamp()),
            kind: "result".to_owned(),
            name: None,
            uri: None,
            media_type: None,
            action_id: None,
        }
    }

    /// Reads an artifact. An absent id or time is filled in; kind, name, URI, media type and action id become
    /// text as Python's `str` makes it.
    ///
    /// # Errors
    /// [`ModelError`], naming the wrong field or part.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        Ok(Self {
            id: fields.nullable_or("id", || mint.id("art_"))?,
            parts: fields.models("parts", |part| Part::from_json(part, mint))?,
            metadata: fields.object("metadata")?,
            timestamp: fields.nullable_or("timestamp", || mint.timestamp())?,
            kind: fields.coerced_truthy("kind").unwrap_or_else(|| "result".to_owned()),
            name: fields.coerced("name"),
            uri: fields.coerced("uri"),
            media_type: fields.coerced("media_type"),
            action_id: fields.coerced("action_id"),
        })
    }

    /// Returns the artifact as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}
