//! A skill of an agent: usually one of its tools.

use serde::Serialize;

use crate::json::JsonText;
use crate::model::error::ModelError;
use crate::model::fields::{ModelFields, string};

/// A skill of an agent, with the schemas of its input and output.
///
/// On the wire `{"id", "description", "input_schema", "output_schema", "tags", "examples"}`. A key beside these is
/// refused, as Protolink refuses it; null stands for the default of each but the id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentSkill {
    /// The name by which the skill is called.
    pub id: String,
    /// The description for people and models; empty without one.
    pub description: String,
    /// The JSON Schema of the input; `{}` without one.
    pub input_schema: JsonText,
    /// The JSON Schema of the output; `{}` without one.
    pub output_schema: JsonText,
    /// The tags.
    pub tags: Vec<String>,
    /// Examples of input, output or use: any JSON.
    pub examples: Vec<JsonText>,
}

/// The keys in the order in which they are written.
const KNOWN: [&str; 6] = ["id", "description", "input_schema", "output_schema", "tags", "examples"];

impl AgentSkill {
    /// Returns a skill with a name only.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            description: String::new(),
            input_schema: JsonText::empty_object(),
            output_schema: JsonText::empty_object(),
            tags: Vec::new(),
            examples: Vec::new(),
        }
    }

    /// Reads a skill.
    ///
    /// # Errors
    /// [`ModelError`] if the id is absent or no string, and for a key that a skill does not have.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        if let Some((key, _)) = fields.others(&KNOWN).next() {
            let text = format!("AgentSkill.__init__() got an unexpected keyword argument '{key}'");
            return Err(ModelError::Invalid(text));
        }
        let Some(id) = fields.get("id") else {
            let text = "AgentSkill.__init__() missing 1 required positional argument: 'id'";
            return Err(ModelError::Invalid(text.to_owned()));
        };
        let schema = |key: &str| match fields.get(key) {
            Some(schema) if !schema.is_null() => schema.clone(),
            _ => JsonText::empty_object(),
        };
        Ok(Self {
            id: string("id", id)?,
            description: fields.coerced("description").unwrap_or_default(),
            input_schema: schema("input_schema"),
            output_schema: schema("output_schema"),
            tags: fields.texts("tags")?,
            examples: fields.optional_list("examples")?,
        })
    }

    /// Returns the skill as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}
