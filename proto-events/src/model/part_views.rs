//! Typed views of the parts that cause an action: tool calls, their outputs, prompts, routes.

use crate::json::JsonText;
use crate::model::error::ModelError;
use crate::model::fields::ModelFields;
use crate::model::python;

/// The content of a `tool_call` part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallView {
    /// The tool's name.
    pub tool_name: String,
    /// The arguments; usually an object, but any JSON may be posted.
    pub args: JsonText,
    /// The call's id; `None` if it is null or not filled in yet.
    pub call_id: Option<String>,
}

/// The content of a `tool_output` part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutputView {
    /// The id of the call; `None` if it is null or not filled in yet.
    pub call_id: Option<String>,
    /// The result; null if absent.
    pub result: JsonText,
    /// The error; null if absent.
    pub error: JsonText,
}

/// The content of a `route` or `decision` part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteView {
    /// The key of the chosen route.
    pub route_key: String,
    /// The reason, or null.
    pub reason: JsonText,
    /// The confidence, usually 0 to 1, or null. Not range-checked.
    pub confidence: JsonText,
    /// Further data; `{}` if absent.
    pub metadata: JsonText,
}

/// The content of an `infer` part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferView {
    /// The prompt; empty if absent.
    pub prompt: String,
    /// The user, or null.
    pub user: JsonText,
    /// The JSON Schema of the output, or null.
    pub output_schema: JsonText,
    /// Further data, or null.
    pub metadata: JsonText,
}

impl RouteView {
    /// Returns a route without reason, confidence or metadata.
    pub fn new(route_key: &str) -> Self {
        Self {
            route_key: route_key.to_owned(),
            reason: JsonText::null(),
            confidence: JsonText::null(),
            metadata: JsonText::empty_object(),
        }
    }

    /// Reads a route's content: the first present key of `route_key`, `route` and `key` names the route.
    pub(crate) fn read(content: &JsonText) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(content)?;
        let key = ["route_key", "route", "key"]
            .into_iter()
            .find_map(|key| fields.get(key))
            .filter(|key| !key.is_null())
            .ok_or_else(|| {
                ModelError::Invalid("route decision content must include 'route_key'".to_owned())
            })?;
        Ok(Self {
            route_key: python::text(key),
            reason: fields.any("reason"),
            confidence: fields.any("confidence"),
            metadata: or_empty_object(fields.get("metadata")),
        })
    }
}

/// Returns the value, or `{}` if it is false in Python.
pub(crate) fn or_empty_object(value: Option<&JsonText>) -> JsonText {
    value.filter(|value| python::truthy(value)).cloned().unwrap_or_else(JsonText::empty_object)
}
