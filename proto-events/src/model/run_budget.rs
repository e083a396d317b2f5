//! How much a run may use.

use serde::Serialize;

use crate::json::{JsonObject, JsonText};
use crate::model::fields::Fields;
use crate::model::{ModelError, python};

/// How much a run may use; what is `None` is not limited.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunBudget {
    /// Steps of the inference loop.
    pub max_steps: Option<i64>,
    /// Model calls.
    pub max_llm_calls: Option<i64>,
    /// Tool calls that a model asks for.
    pub max_tool_calls: Option<i64>,
    /// Wall-clock time in seconds.
    pub max_runtime_seconds: Option<f64>,
    /// Input tokens, all calls together.
    pub max_input_tokens: Option<i64>,
    /// Output tokens, all calls together.
    pub max_output_tokens: Option<i64>,
    /// Limits that others understand.
    pub metadata: JsonObject,
}

const KNOWN: [&str; 7] = [
    "max_steps",
    "max_llm_calls",
    "max_tool_calls",
    "max_runtime_seconds",
    "max_input_tokens",
    "max_output_tokens",
    "metadata",
];

impl RunBudget {
    /// Reads a budget. Numbers may be strings; unknown keys go to the metadata.
    ///
    /// # Errors
    /// [`ModelError`] if a limit is no number.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = Fields::of_optional(json)?;
        let mut metadata = fields.object("metadata")?;
        for (key, value) in fields.others(&KNOWN) {
            metadata.set(key, value.clone());
        }
        let seconds = fields.get("max_runtime_seconds").filter(|value| !value.is_null());
        Ok(Self {
            max_steps: fields.optional_int("max_steps")?,
            max_llm_calls: fields.optional_int("max_llm_calls")?,
            max_tool_calls: fields.optional_int("max_tool_calls")?,
            max_runtime_seconds: seconds
                .map(|value| python::float(value, "max_runtime_seconds"))
                .transpose()?,
            max_input_tokens: fields.optional_int("max_input_tokens")?,
            max_output_tokens: fields.optional_int("max_output_tokens")?,
            metadata,
        })
    }

    /// The budget as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}
