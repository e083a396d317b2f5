//! Actions that the runtime is about to take, as policies and approvals see them.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::id::Mint;
use crate::json::{JsonObject, JsonText};
use crate::model::artifact::Artifact;
use crate::model::error::ModelError;
use crate::model::fields::{ModelFields, models};

/// An action that the runtime is about to take: one effect, with the capabilities that it needs.
///
/// On the wire an object of the fields below in their order, the capabilities as a sorted list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunAction {
    /// The id, `action_…`.
    pub action_id: String,
    /// The kind of effect: `tool.call`, `agent.call`, …
    pub kind: String,
    /// The name of the tool or agent.
    pub name: String,
    /// The input; a tool's arguments are under `arguments`.
    pub payload: JsonObject,
    /// The required capabilities.
    pub capabilities: BTreeSet<String>,
    /// Previews and outputs.
    pub artifacts: Vec<Artifact>,
    /// The description for the approver.
    pub description: Option<String>,
    /// Further data of the event.
    pub metadata: JsonObject,
    /// The time of creation.
    pub created_at: String,
}

impl RunAction {
    /// Returns a new action without capabilities, artifacts or description.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] with Protolink's text if kind or name is blank.
    pub fn new(kind: &str, name: &str, payload: JsonObject, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        Self {
            action_id: mint.id("action_"),
            kind: kind.to_owned(),
            name: name.to_owned(),
            payload,
            capabilities: BTreeSet::new(),
            artifacts: Vec::new(),
            description: None,
            metadata: JsonObject::new(),
            created_at: mint.timestamp(),
        }
        .checked()
    }

    /// Reads an action; a single capability may be a bare string.
    ///
    /// # Errors
    /// [`ModelError`] if kind or name is blank, or an artifact is invalid.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        let capabilities = fields.texts("capabilities")?;
        let text_or =
            |key: &str, default: &str| fields.coerced_truthy(key).unwrap_or_else(|| default.to_owned());
        Self {
            action_id: fields.coerced_truthy("action_id").unwrap_or_else(|| mint.id("action_")),
            kind: text_or("kind", "action"),
            name: text_or("name", "unnamed"),
            payload: fields.object("payload")?,
            capabilities: capabilities.into_iter().filter(|name| !name.is_empty()).collect(),
            artifacts: models("artifacts", &fields.optional_list("artifacts")?, |artifact| {
                Artifact::from_json(artifact, mint)
            })?,
            description: fields.coerced("description"),
            metadata: fields.object("metadata")?,
            created_at: fields.coerced_truthy("created_at").unwrap_or_else(|| mint.timestamp()),
        }
        .checked()
    }

    fn checked(self) -> Result<Self, ModelError> {
        let blank =
            [("kind", &self.kind), ("name", &self.name)].into_iter().find(|(_, text)| text.trim().is_empty());
        match blank {
            Some((field, _)) => Err(ModelError::Invalid(format!("RunAction.{field} must not be empty"))),
            None => Ok(self),
        }
    }

    /// Returns the action as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}
