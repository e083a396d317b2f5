//! What a task produces: parts with a name, a place and a media type of their own.

use serde::Serialize;

use crate::id::Mint;
use crate::json::{JsonObject, JsonText};
use crate::model::fields::Fields;
use crate::model::{ModelError, Part};

/// What a task produces. An id or time that was posted as null stays null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// Its id, usually `art_…`.
    pub id: Option<String>,
    /// Its content, in order.
    pub parts: Vec<Part>,
    /// Whatever else belongs to it.
    pub metadata: JsonObject,
    /// When it was made, as text that is not looked into.
    pub timestamp: Option<String>,
    /// What it is: `result` unless said otherwise.
    pub kind: String,
    /// Its name, to show.
    pub name: Option<String>,
    /// Where what it stands for can be found.
    pub uri: Option<String>,
    /// The media type of the whole.
    pub media_type: Option<String>,
    /// The [`RunAction`](crate::model::RunAction) that made or proposes it.
    pub action_id: Option<String>,
}

impl Artifact {
    /// A new result.
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

    /// The same artifact as one of that action's.
    #[must_use]
    pub fn for_action(mut self, action_id: &str) -> Self {
        self.action_id = Some(action_id.to_owned());
        self
    }

    /// Reads an artifact. Id and time that are absent are filled in; kind, name, uri, media type and action id
    /// become text as Python's `str` makes it.
    ///
    /// # Errors
    /// [`ModelError`], naming the field or part that is wrong.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = Fields::of(json)?;
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

    /// The artifact as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}
