//! Typed views of a part's content.

use crate::json::JsonText;
use crate::model::error::ModelError;
use crate::model::fields::{ModelFields, expected, string};
use crate::model::part::Part;
use crate::model::part_views::{InferView, RouteView, ToolCallView, ToolOutputView};
use crate::model::python;

impl Part {
    /// Returns the content of a `tool_call` part.
    ///
    /// # Errors
    /// [`ModelError`] if the part is of another kind, or its content is not a tool call.
    pub fn as_tool_call(&self) -> Result<ToolCallView, ModelError> {
        self.check_kind("tool_call")?;
        // It is asked for at each step of a run, and arguments can be long.
        if !self.content().is_object() {
            return Err(expected("", "an object", self.content()).within("content"));
        }
        let [tool_name, args, call_id] = self.content().members(["tool_name", "args", "call_id"]);
        let tool_name = tool_name.ok_or_else(|| ModelError::Missing { key: "tool_name".to_owned() })?;
        Ok(ToolCallView {
            tool_name: string("tool_name", &tool_name)?,
            args: args.unwrap_or_else(JsonText::empty_object),
            call_id: call_id.filter(|id| !id.is_null()).as_ref().map(python::text),
        })
    }

    /// Returns the content of a `tool_output` part.
    ///
    /// # Errors
    /// [`ModelError`] if the part is of another kind, or its content is not a tool output.
    pub fn as_tool_output(&self) -> Result<ToolOutputView, ModelError> {
        let fields = self.fields_as("tool_output")?;
        Ok(ToolOutputView {
            call_id: fields.coerced("call_id"),
            result: fields.any("result"),
            error: fields.any("error"),
        })
    }

    /// Returns the content of a `route` or `decision` part.
    ///
    /// # Errors
    /// [`ModelError`] if the part is of another kind, or its content names no route.
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

    /// Returns the content of an `infer` part. Content that is not an object has an empty prompt, as in
    /// Protolink.
    ///
    /// # Errors
    /// [`ModelError`] if the part is of another kind.
    pub fn as_infer(&self) -> Result<InferView, ModelError> {
        self.check_kind("infer")?;
        let nothing = JsonText::empty_object();
        let asked = self.content().is_object();
        let fields = ModelFields::from_json(if asked { self.content() } else { &nothing })?;
        Ok(InferView {
            prompt: fields.coerced("prompt").unwrap_or_default(),
            user: fields.any("user"),
            output_schema: fields.any("output_schema"),
            metadata: fields.any("metadata"),
        })
    }

    fn fields_as(&self, kind: &str) -> Result<ModelFields, ModelError> {
        self.check_kind(kind)?;
        ModelFields::from_json(self.content()).map_err(|error| error.within("content"))
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
    fn a_tool_call_is_read_as_its_whole_object_would_be() {
        let objects = [
            r#"{"tool_name":"a"}"#,
            r#"{"args":{"x":1.50},"tool_name":"a","call_id":"c"}"#,
            r#"{"tool_name":"a","call_id":null,"args":null}"#,
            r#"{"tool_name":"a","call_id":7,"args":[1]}"#,
            r#"{"tool_name":"a","call_id":{"k":[true,null]},"tool_name":"b","args":1,"args":2}"#,
            r#"{"tool\u005fname":"a", "call_id" : "" , "more":{"tool_name":"x"}}"#,
            r#"{"tool_name":5}"#,
            r#"{"tool_name":null}"#,
            "{}",
            "[]",
            "null",
            r#""text""#,
        ];
        for text in objects {
            let part = Part::new("tool_call", JsonText::parse(text).unwrap());
            let whole = part.fields_as("tool_call").and_then(|fields| {
                Ok(ToolCallView {
                    tool_name: string("tool_name", fields.required("tool_name")?)?,
                    args: fields.get("args").cloned().unwrap_or_else(JsonText::empty_object),
                    call_id: fields.coerced("call_id"),
                })
            });
            assert_eq!(format!("{:?}", part.as_tool_call()), format!("{whole:?}"), "{text}");
        }
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
