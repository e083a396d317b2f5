//! Typed views of the parts that somebody acts on: tool calls, their outputs, prompts, routes.

use crate::json::JsonText;
use crate::model::fields::{Fields, expected, string};
use crate::model::part::or_empty_object;
use crate::model::{ModelError, Part, python};

/// What a `tool_call` part asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallView {
    /// The tool's name.
    pub tool_name: String,
    /// The arguments; usually an object, but any JSON may be posted.
    pub args: JsonText,
    /// The call's id; `None` if it is null or not filled in yet.
    pub call_id: Option<String>,
}

/// What a `tool_output` part says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutputView {
    /// The id of the call that it answers; `None` if it is null or not filled in yet.
    pub call_id: Option<String>,
    /// The result; null if there is none.
    pub result: JsonText,
    /// The error; null if there is none.
    pub error: JsonText,
}

/// What a `route` or `decision` part says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteView {
    /// Where to go.
    pub route_key: String,
    /// Why, or null.
    pub reason: JsonText,
    /// How sure, usually 0 to 1, or null. Not range-checked.
    pub confidence: JsonText,
    /// Whatever else; `{}` if nothing.
    pub metadata: JsonText,
}

/// What an `infer` part asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferView {
    /// The prompt; empty if there is none.
    pub prompt: String,
    /// Who asks, or null.
    pub user: JsonText,
    /// JSON Schema of the answer, or null.
    pub output_schema: JsonText,
    /// Whatever else, or null.
    pub metadata: JsonText,
}

impl RouteView {
    /// A route without reason, confidence or metadata.
    pub fn new(route_key: &str) -> Self {
        Self {
            route_key: route_key.to_owned(),
            reason: JsonText::null(),
            confidence: JsonText::null(),
            metadata: JsonText::empty_object(),
        }
    }

    /// Reads a route's content: the first of `route_key`, `route` and `key` that is there names the route.
    pub(crate) fn read(content: &JsonText) -> Result<Self, ModelError> {
        let fields = Fields::of(content)?;
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

impl Part {
    /// The tool call that this part is.
    ///
    /// # Errors
    /// [`ModelError`] if it is another kind of part, or its content no tool call.
    pub fn as_tool_call(&self) -> Result<ToolCallView, ModelError> {
        let fields = self.fields_as("tool_call")?;
        Ok(ToolCallView {
            tool_name: string("tool_name", fields.required("tool_name")?)?,
            args: fields.get("args").cloned().unwrap_or_else(JsonText::empty_object),
            call_id: fields.coerced("call_id"),
        })
    }

    /// The tool output that this part is.
    ///
    /// # Errors
    /// [`ModelError`] if it is another kind of part, or its content no tool output.
    pub fn as_tool_output(&self) -> Result<ToolOutputView, ModelError> {
        let fields = self.fields_as("tool_output")?;
        Ok(ToolOutputView {
            call_id: fields.coerced("call_id"),
            result: fields.any("result"),
            error: fields.any("error"),
        })
    }

    /// The route or decision that this part is.
    ///
    /// # Errors
    /// [`ModelError`] if it is another kind of part, or its content names no route.
    pub fn as_route_decision(&self) -> Result<RouteView, ModelError> {
        if !matches!(self.kind(), "route" | "decision") {
            return Err(ModelError::Invalid(format!(
                "Expected part type 'route' or 'decision', got '{}'",
                self.kind()
            )));
        }
        if self.content().is_object() {
            RouteView::read(self.content())
        } else {
            Err(expected("content", "an object", self.content()))
        }
    }

    /// The question that this part is. Content that is no object asks the empty prompt, as Protolink does.
    ///
    /// # Errors
    /// [`ModelError`] if it is another kind of part.
    pub fn as_infer(&self) -> Result<InferView, ModelError> {
        self.check_kind("infer")?;
        let nothing = JsonText::empty_object();
        let asked = self.content().is_object();
        let fields = Fields::of(if asked { self.content() } else { &nothing })?;
        Ok(InferView {
            prompt: fields.coerced("prompt").unwrap_or_default(),
            user: fields.any("user"),
            output_schema: fields.any("output_schema"),
            metadata: fields.any("metadata"),
        })
    }

    fn fields_as(&self, kind: &str) -> Result<Fields, ModelError> {
        self.check_kind(kind)?;
        Fields::of(self.content()).map_err(|error| error.within("content"))
    }

    fn check_kind(&self, kind: &str) -> Result<(), ModelError> {
        if self.kind() == kind {
            return Ok(());
        }
        Err(ModelError::Invalid(format!("Expected part type '{kind}', got '{}'", self.kind())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_of_another_kind_of_part_is_refused_in_protolinks_words() {
        let text = Part::text("x");
        let said = |error: ModelError| error.to_string();
        assert_eq!(said(text.as_tool_call().unwrap_err()), "Expected part type 'tool_call', got 'text'");
        assert_eq!(said(text.as_tool_output().unwrap_err()), "Expected part type 'tool_output', got 'text'");
        assert_eq!(
            said(text.as_route_decision().unwrap_err()),
            "Expected part type 'route' or 'decision', got 'text'"
        );
        assert_eq!(said(text.as_infer().unwrap_err()), "Expected part type 'infer', got 'text'");
    }

    #[test]
    fn a_view_of_content_of_another_kind_says_what_it_is() {
        let part = Part::new("tool_call", JsonText::string("not an object"));
        assert_eq!(part.as_tool_call().unwrap_err().to_string(), "`content` must be an object, not a string");
        assert_eq!(Part::new("infer", JsonText::string("x")).as_infer().unwrap().prompt, "");
    }

    #[test]
    fn what_a_constructor_puts_in_a_view_takes_out() {
        let call = Part::tool_call("add", serde_json::json!({"a": 1})).unwrap();
        let view = call.as_tool_call().unwrap();
        assert_eq!((view.tool_name.as_str(), view.call_id), ("add", None));
        assert_eq!(view.args.as_str(), r#"{"a":1}"#);
        assert_eq!(Part::infer("why?").as_infer().unwrap().prompt, "why?");
        assert_eq!(Part::route("here").as_route_decision().unwrap(), RouteView::new("here"));
        let failure = Part::tool_failure("c", JsonText::string("no")).as_tool_output().unwrap();
        assert_eq!(failure.error, JsonText::string("no"));
    }
}
