//! The capabilities of an agent card.

use serde::Serialize;

use crate::json::JsonText;
use crate::model::error::ModelError;
use crate::model::fields::{ModelFields, expected};

/// The capabilities of an agent, as its card says them. Only `delegation`, `has_llm`, `max_concurrency` and `timeout_support`
/// have an effect where the agent is ours; the others tell its callers something.
///
/// On the wire an object of the fields below, in their order. A key beside them is refused, as Protolink refuses it.
#[expect(clippy::struct_excessive_bools, reason = "each flag is a key of its own on Protolink's wire")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentCapabilities {
    /// Whether a run can be followed by its events.
    pub streaming: bool,
    /// Whether the agent calls back about tasks.
    pub push_notifications: bool,
    /// Whether tasks come back with the history of their states.
    pub state_transition_history: bool,
    /// Whether the agent may ask other agents; true by default.
    pub delegation: bool,
    /// Whether the agent has a model.
    pub has_llm: bool,
    /// The number of tasks that the agent works on at once; 1 by default.
    pub max_concurrency: i64,
    /// Whether a request may hold several messages.
    pub message_batching: bool,
    /// Whether the agent calls tools.
    pub tool_calling: bool,
    /// Whether the agent reasons in several steps.
    pub multi_step_reasoning: bool,
    /// Whether the agent keeps to time limits.
    pub timeout_support: bool,
    /// Whether the agent retrieves documents.
    pub rag: bool,
    /// Whether the agent runs code in a sandbox.
    pub code_execution: bool,
    /// Whether the agent answers `infer` parts. It is of Protolink 0.8.3: written where it is known only, since 0.6.4
    /// refuses a card with a key that it does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_inference: Option<bool>,
}

impl Default for AgentCapabilities {
    fn default() -> Self {
        Self {
            streaming: false,
            push_notifications: false,
            state_transition_history: false,
            delegation: true,
            has_llm: false,
            max_concurrency: 1,
            message_batching: false,
            tool_calling: false,
            multi_step_reasoning: false,
            timeout_support: false,
            rag: false,
            code_execution: false,
            supports_inference: None,
        }
    }
}

/// The keys in the order in which they are written.
const KNOWN: [&str; 13] = [
    "streaming",
    "push_notifications",
    "state_transition_history",
    "delegation",
    "has_llm",
    "max_concurrency",
    "message_batching",
    "tool_calling",
    "multi_step_reasoning",
    "timeout_support",
    "rag",
    "code_execution",
    "supports_inference",
];

impl AgentCapabilities {
    /// Reads capabilities; absent ones have their defaults, as have all of null and `{}`.
    ///
    /// # Errors
    /// [`ModelError`] for a key that is not a capability, and for a value that is not a flag or number.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = ModelFields::of_optional(json)?;
        if let Some((key, _)) = fields.others(&KNOWN).next() {
            let text = format!("AgentCapabilities.__init__() got an unexpected keyword argument '{key}'");
            return Err(ModelError::Invalid(text));
        }
        let default = Self::default();
        let flag = |key: &str, default: bool| flag(&fields, key).map(|flag| flag.unwrap_or(default));
        Ok(Self {
            streaming: flag("streaming", default.streaming)?,
            push_notifications: flag("push_notifications", default.push_notifications)?,
            state_transition_history: flag("state_transition_history", default.state_transition_history)?,
            delegation: flag("delegation", default.delegation)?,
            has_llm: flag("has_llm", default.has_llm)?,
            max_concurrency: fields.int_or("max_concurrency", default.max_concurrency)?,
            message_batching: flag("message_batching", default.message_batching)?,
            tool_calling: flag("tool_calling", default.tool_calling)?,
            multi_step_reasoning: flag("multi_step_reasoning", default.multi_step_reasoning)?,
            timeout_support: flag("timeout_support", default.timeout_support)?,
            rag: flag("rag", default.rag)?,
            code_execution: flag("code_execution", default.code_execution)?,
            supports_inference: self::flag(&fields, "supports_inference")?,
        })
    }

    /// Returns the capabilities as Protolink writes them.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }

    /// Returns the names of what is on, in the order of the keys; of the concurrency with its number, where it is
    /// above zero: `max_concurrency: 4`.
    pub fn enabled(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (key, value) in self.to_json().read::<crate::json::JsonObject>().unwrap_or_default().iter() {
            match value.as_str() {
                "true" => names.push(key.to_owned()),
                "false" | "null" => {}
                number if self.max_concurrency > 0 => names.push(format!("{key}: {number}")),
                _ => {}
            }
        }
        names
    }
}

/// Reads a flag; `None` if it is absent or null.
fn flag(fields: &ModelFields, key: &str) -> Result<Option<bool>, ModelError> {
    match fields.get(key) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            "null" => Ok(None),
            _ => Err(expected(key, "a boolean", value)),
        },
    }
}
