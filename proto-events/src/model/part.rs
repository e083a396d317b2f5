//! A piece of content: a text, a tool call, a prompt, an output. Its content is JSON in the form that
//! Protolink gives to its kind.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::id::Mint;
use crate::json::{JsonObject, JsonText};
use crate::model::error::ModelError;
use crate::model::fields::{ModelFields, string};
use crate::model::part_views::{RouteView, ToolOutputView, or_empty_object};
use crate::model::python;

/// A piece of content of a [`Message`](crate::model::Message) or an [`Artifact`](crate::model::Artifact). Any
/// kind is allowed; kinds with a form in Protolink are converted to it by [`Part::from_json`] and
/// [`Part::hydrated`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    kind: Cow<'static, str>,
    content: JsonText,
}

/// The kinds that almost all parts have. They are not stored anew with each part.
const USUAL_KINDS: [&str; 6] = ["text", "tool_call", "tool_output", "infer", "infer_output", "json"];

/// The fields of an `infer` part. A field that is `None` is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InferFields {
    /// The prompt for the model.
    pub prompt: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// The JSON Schema of the output.
    pub output_schema: Option<JsonText>,
    /// Further data of the caller.
    pub metadata: Option<JsonText>,
}

impl Part {
    /// Returns a part of any kind with its content as given: for kinds that pass through (file, uri, image,
    /// …) and for content already in its kind's form.
    pub fn new(kind: impl AsRef<str>, content: JsonText) -> Self {
        let kind = kind.as_ref();
        let kind = match USUAL_KINDS.iter().find(|usual| **usual == kind) {
            Some(usual) => Cow::Borrowed(*usual),
            None => Cow::Owned(kind.to_owned()),
        };
        Self { kind, content }
    }

    /// Returns the kind: `text`, `tool_call`, `infer`, … Protolink writes it as `type`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the content.
    pub fn content(&self) -> &JsonText {
        &self.content
    }

    /// Returns a text part.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::new("text", JsonText::string(text.as_ref()))
    }

    /// Returns a part of any data.
    ///
    /// # Errors
    /// [`ModelError::Json`] if the data has no JSON form or nests too deep.
    pub fn json(data: impl Serialize) -> Result<Self, ModelError> {
        Ok(Self::new("json", JsonText::encode(&data)?))
    }

    /// Returns an error part. `retryable`: whether a retry may help.
    pub fn error(code: &str, message: &str, retryable: bool) -> Self {
        Self::of_object(
            "error",
            [
                ("code", JsonText::string(code)),
                ("message", JsonText::string(message)),
                ("retryable", JsonText::of_model(&retryable)),
            ],
        )
    }

    /// Returns a status part, such as `input-required`, with a message for the user.
    pub fn status(state: &str, message: Option<&str>) -> Self {
        Self::of_object(
            "status",
            [("state", JsonText::string(state)), ("message", JsonText::of_model(&message))],
        )
    }

    /// Returns a request for a tool call. The call's id is left out; submitting fills it in.
    ///
    /// # Errors
    /// [`ModelError::Json`] if the arguments have no JSON form or nest too deep.
    pub fn tool_call(tool_name: &str, args: impl Serialize) -> Result<Self, ModelError> {
        Ok(Self::tool_call_of(tool_name, JsonText::encode(&args)?, None))
    }

    /// Returns a tool call with a new id, so that the caller knows it.
    pub fn tool_call_new(tool_name: &str, args: JsonText, mint: &mut dyn Mint) -> Self {
        Self::tool_call_of(tool_name, args, Some(&mint.id("tool_call_")))
    }

    /// Returns a tool call with the given id, or without one. Arguments that are false in Python become `{}`.
    pub fn tool_call_of(tool_name: &str, args: JsonText, call_id: Option<&str>) -> Self {
        let args = if python::truthy(&args) { args } else { JsonText::empty_object() };
        let mut content = object([("tool_name", JsonText::string(tool_name)), ("args", args)]);
        if let Some(call_id) = call_id {
            content.set("call_id", JsonText::string(call_id));
        }
        Self::new("tool_call", JsonText::of_model(&content))
    }

    /// Removes the call id if it is one of those that reading filled in.
    pub(crate) fn forget_call_id(&mut self, filled_in: &HashSet<&str>) {
        if !matches!(self.kind(), "tool_call" | "tool_output") {
            return;
        }
        let Ok(mut content) = self.content().read::<JsonObject>() else { return };
        let is_filled_in = |id: &JsonText| id.to_str().is_some_and(|id| filled_in.contains(id.as_str()));
        if content.get("call_id").is_some_and(is_filled_in) {
            content.remove("call_id");
            *self = Self::new(self.kind(), content.to_text());
        }
    }

    /// Returns a tool's result.
    pub fn tool_output(call_id: &str, result: JsonText) -> Self {
        Self::tool_output_of(ToolOutputView {
            call_id: Some(call_id.to_owned()),
            result,
            error: JsonText::null(),
        })
    }

    /// Returns a tool's error.
    pub fn tool_failure(call_id: &str, error: JsonText) -> Self {
        Self::tool_output_of(ToolOutputView {
            call_id: Some(call_id.to_owned()),
            result: JsonText::null(),
            error,
        })
    }

    /// Returns a tool's result or error. A call id that is `None` is left out; submitting fills it in.
    pub fn tool_output_of(output: ToolOutputView) -> Self {
        let mut content = JsonObject::new();
        if let Some(call_id) = &output.call_id {
            content.set("call_id", JsonText::string(call_id));
        }
        content.set("result", output.result);
        content.set("error", output.error);
        Self::new("tool_output", JsonText::of_model(&content))
    }

    /// Returns a prompt for the model.
    pub fn infer(prompt: impl Into<String>) -> Self {
        Self::infer_of(InferFields { prompt: Some(prompt.into()), ..InferFields::default() })
    }

    /// Returns a prompt for the model with its optional fields.
    pub fn infer_of(fields: InferFields) -> Self {
        let pairs = [
            ("prompt", fields.prompt.as_deref().map(JsonText::string)),
            ("user", fields.user.as_deref().map(JsonText::string)),
            ("output_schema", fields.output_schema),
            ("metadata", fields.metadata),
        ];
        let said =
            pairs.into_iter().filter_map(|(key, value)| Some((key, value.filter(|value| !value.is_null())?)));
        Self::of_object("infer", said)
    }

    /// Returns a model's output: a string, or an object.
    pub fn infer_output(content: JsonText) -> Self {
        Self::new("infer_output", content)
    }

    /// Returns a choice of the next step, for a router.
    pub fn route(route_key: &str) -> Self {
        Self::route_of("route", RouteView::new(route_key))
    }

    /// Returns a decision, which a router reads like a route.
    pub fn decision(route_key: &str) -> Self {
        Self::route_of("decision", RouteView::new(route_key))
    }

    /// Returns a `route` or `decision` with its reason, confidence and metadata.
    pub fn route_of(kind: &str, route: RouteView) -> Self {
        Self::of_object(
            kind,
            [
                ("route_key", JsonText::string(&route.route_key)),
                ("reason", route.reason),
                ("confidence", route.confidence),
                ("metadata", or_empty_object(Some(&route.metadata))),
            ],
        )
    }

    /// Reads a part, converts its content to its kind's form and fills in an absent call id.
    ///
    /// # Errors
    /// [`ModelError`] if `type` is missing or not a string, or the content breaks its kind's rule.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        Self::new(string("type", fields.required("type")?)?, fields.any("content")).hydrated(mint)
    }

    /// Returns the part with its content in its kind's form. Content already in that form is unchanged.
    ///
    /// # Errors
    /// [`ModelError`] if the content breaks its kind's rule.
    pub fn hydrated(self, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        // Protolink gives a form only to objects; any other content passes through.
        if !self.content.is_object() {
            return Ok(self);
        }
        let content = match self.kind() {
            "tool_call" => tool_call_content(&self.content, mint),
            "tool_output" => tool_output_content(&self.content, mint),
            "route" | "decision" => return self.hydrated_route(),
            _ => return Ok(self),
        };
        let content = content.map_err(|error| error.within("content"))?;
        Ok(Self::new(self.kind, JsonText::of_model(&content)))
    }

    fn hydrated_route(self) -> Result<Self, ModelError> {
        let route = RouteView::read(&self.content)?;
        Ok(Self::route_of(&self.kind, route))
    }

    /// Returns the part as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }

    fn of_object(kind: &str, pairs: impl IntoIterator<Item = (&'static str, JsonText)>) -> Self {
        Self::new(kind, JsonText::of_model(&object(pairs)))
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut part = serializer.serialize_struct("Part", 2)?;
        part.serialize_field("type", &self.kind)?;
        part.serialize_field("content", &self.content)?;
        part.end()
    }
}

fn object(pairs: impl IntoIterator<Item = (&'static str, JsonText)>) -> JsonObject {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns the content in Protolink's form. An explicit null stays for arguments and id; only absent ones get
/// a default.
fn tool_call_content(content: &JsonText, mint: &mut dyn Mint) -> Result<JsonObject, ModelError> {
    let fields = ModelFields::from_json(content)?;
    let tool_name = fields.required("tool_name")?.clone();
    let args = fields.get("args").cloned();
    Ok(object([
        ("tool_name", tool_name),
        ("args", args.unwrap_or_else(JsonText::empty_object)),
        ("call_id", call_id(&fields, "tool_call_", mint)),
    ]))
}

fn tool_output_content(content: &JsonText, mint: &mut dyn Mint) -> Result<JsonObject, ModelError> {
    let fields = ModelFields::from_json(content)?;
    Ok(object([
        ("call_id", call_id(&fields, "tool_output_", mint)),
        ("result", fields.any("result")),
        ("error", fields.any("error")),
    ]))
}

fn call_id(fields: &ModelFields, prefix: &str, mint: &mut dyn Mint) -> JsonText {
    fields.get("call_id").cloned().unwrap_or_else(|| JsonText::string(&mint.id(prefix)))
}
