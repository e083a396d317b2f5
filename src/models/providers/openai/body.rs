//! The body of a request: messages, tools under names that the API accepts, parameters, the schema of the
//! answer.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::LlmRole;

use crate::models::backend::InferRequest;
use crate::models::message::ChatMessage;
use crate::models::providers::common::{Names, is_plain};
use crate::models::providers::openai::settings::{NativeTools, Settings, SystemNotes};
use crate::tools::registry::ToolSpec;

/// The body of a request, and the names needed to read its answer.
#[derive(Debug)]
pub(crate) struct Body {
    /// The JSON to send.
    pub(crate) json: Value,
    /// The offered names of the tools.
    pub(crate) names: Names,
}

impl Body {
    pub(crate) fn of(settings: &Settings, request: &InferRequest) -> Self {
        let names = match settings.native_tools {
            NativeTools::Offered => Names::of(&request.tools),
            NativeTools::Never => Names::default(),
        };
        let mut fields = JsonMap::new();
        fields.insert("model".to_owned(), json!(settings.model));
        let native = matches!(settings.native_tools, NativeTools::Offered).then_some(&names);
        fields.insert("messages".to_owned(), messages(settings.system_notes, native, &request.messages));
        for (name, value) in settings.parameters.iter() {
            fields.insert(name.to_owned(), value.tree());
        }
        if !names.is_empty() {
            fields.insert("tools".to_owned(), tools(&names, &request.tools));
        }
        if let Some(format) = response_format(request, &names) {
            fields.insert("response_format".to_owned(), format);
        }
        fields.insert("stream".to_owned(), json!(settings.streams));
        if settings.streams {
            fields.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
        Self { json: Value::Object(fields), names }
    }
}

/// The fields that are set here and cannot be parameters.
pub(crate) const OWN_FIELDS: [&str; 7] =
    ["model", "messages", "tools", "response_format", "stream", "stream_options", "n"];

/// Returns the response format, if the answer can only be the JSON that the schema describes. Tools that are
/// not offered natively are called by JSON actions, which the schema would forbid.
fn response_format(request: &InferRequest, names: &Names) -> Option<Value> {
    let schema = request.output_schema.as_ref()?.tree();
    let free = request.tools.is_empty() || !names.is_empty();
    // The API accepts objects only; `true` and `false` are schemas as well, and are checked here.
    (free && schema.is_object())
        .then(|| json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}))
}

/// Returns the messages as the API takes them. `native` has the offered names of the tools where they are called by
/// the API's own interface; elsewhere calls and their answers are text.
fn messages(notes: SystemNotes, native: Option<&Names>, messages: &[ChatMessage]) -> Value {
    let mut leading = true;
    let shown = messages.iter().map(|message| {
        leading &= message.role == LlmRole::System;
        match (native, &message.answers) {
            (Some(names), _) if !message.calls.is_empty() => return asking(names, message),
            (Some(_), Some((call_id, _))) => {
                return json!({"role": "tool", "tool_call_id": call_id, "content": message.content});
            }
            _ => {}
        }
        let role = match message.role {
            LlmRole::System | LlmRole::Tool if !leading && notes == SystemNotes::AsUser => "user",
            // With this role the API requires the id of a native call.
            LlmRole::Tool => "system",
            role => role.as_str(),
        };
        let mut shown = json!({"role": role, "content": message.to_text()});
        if let (Some(name), Some(shown)) = (message.name.as_deref(), shown.as_object_mut())
            && is_plain(name)
        {
            shown.insert("name".to_owned(), json!(name));
        }
        shown
    });
    shown.collect()
}

/// Returns a message of the model that asks for calls.
fn asking(names: &Names, message: &ChatMessage) -> Value {
    let calls = message.calls.iter().map(|call| {
        json!({"id": call.id, "type": "function",
            "function": {"name": names.alias(&call.tool), "arguments": call.args.as_str()}})
    });
    let calls: Vec<Value> = calls.collect();
    let content = Some(message.content.as_str()).filter(|content| !content.is_empty());
    json!({"role": "assistant", "content": content, "tool_calls": calls})
}

fn tools(names: &Names, specs: &[ToolSpec]) -> Value {
    let shown = names.offered().zip(specs).map(|(alias, spec)| {
        let schema = spec.schema().cloned().unwrap_or_else(|| json!({"type": "object"}));
        json!({"type": "function", "function": {
            "name": alias, "description": spec.description, "parameters": schema,
        }})
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_can_be_said_in_the_name_of_the_user_for_servers_that_take_one_system_message() {
        let said = [
            (LlmRole::System, "s"),
            (LlmRole::User, "u"),
            (LlmRole::Assistant, "a"),
            (LlmRole::System, "note"),
            (LlmRole::Tool, "result"),
        ]
        .map(|(role, text)| ChatMessage::new(role, text));
        let roles = |notes| -> Vec<String> {
            let shown = messages(notes, None, &said);
            let shown = shown.as_array().unwrap();
            shown.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(roles(SystemNotes::AsSystem), ["system", "user", "assistant", "system", "system"]);
        assert_eq!(roles(SystemNotes::AsUser), ["system", "user", "assistant", "user", "user"]);
    }

    #[test]
    fn a_speaker_is_named_where_the_api_takes_the_name() {
        let named = |name: &str| {
            let message = ChatMessage { name: Some(name.to_owned()), ..ChatMessage::new(LlmRole::User, "x") };
            messages(SystemNotes::AsSystem, None, &[message])[0].get("name").cloned()
        };
        assert_eq!(named("alice"), Some(json!("alice")));
        assert_eq!(named("alice b"), None);
    }
}
