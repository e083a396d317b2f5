//! The body of a request: messages, tools under names that the API accepts, parameters, the schema of the
//! answer.

use proto_events::id::Digest;
use proto_events::json;
use proto_events::json::{JsonMap, JsonObject, JsonValue as Value};
use proto_events::model::LlmRole;

use crate::models::backend::InferRequest;
use crate::models::message::{ChatMessage, Image};
use crate::models::providers::common::{
    IMAGES_PLEASE, Names, SentMessage, caption, is_plain, sent_arguments, with_images_apart,
};
use crate::models::providers::openai::settings::{NativeTools, OpenAiSettings, SystemNotes};
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
    pub(crate) fn new(settings: &OpenAiSettings, request: &InferRequest) -> Self {
        let names = match settings.native_tools {
            NativeTools::Offered => Names::from_tools(&request.tools),
            NativeTools::Never => Names::default(),
        };
        let mut fields = JsonMap::new();
        fields.insert("model".to_owned(), json!(settings.model));
        let native = matches!(settings.native_tools, NativeTools::Offered).then_some(&names);
        let sent = BodyForm {
            notes: settings.system_notes,
            native,
            returns_reasoning: settings.rules.returns_reasoning,
        };
        fields.insert("messages".to_owned(), messages(&sent, &request.messages));
        for (name, value) in settings.parameters.iter() {
            fields.insert(name.to_owned(), value.tree());
        }
        if !names.is_empty() {
            fields.insert("tools".to_owned(), tools(&names, &request.tools));
        }
        if let Some(format) = response_format(request, &names, settings.rules.format_with_tools) {
            fields.insert("response_format".to_owned(), format);
        }
        fields.insert("stream".to_owned(), json!(settings.streams));
        if settings.streams && settings.rules.stream_options {
            fields.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
        Self { json: Value::Object(fields), names }
    }
}

/// The fields that are set here and cannot be parameters.
pub(crate) const OWN_FIELDS: [&str; 7] =
    ["model", "messages", "tools", "response_format", "stream", "stream_options", "n"];

/// Returns the response format, if the answer can only be the JSON that the schema describes. Tools that are
/// not offered natively are called by JSON actions, which the schema would forbid; beside native ones many servers refuse it.
fn response_format(request: &InferRequest, names: &Names, with_tools: bool) -> Option<Value> {
    let schema = request.output_schema.as_ref()?.tree();
    let free = request.tools.is_empty() || (!names.is_empty() && with_tools);
    // The API accepts objects only; `true` and `false` are schemas as well, and are checked here.
    (free && schema.is_object())
        .then(|| json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}))
}

/// The rules by which messages are sent.
struct BodyForm<'a> {
    notes: SystemNotes,
    /// The offered names of the tools where they are called by the API's own interface; elsewhere calls and their answers are
    /// text.
    native: Option<&'a Names>,
    returns_reasoning: bool,
}

/// Returns the messages as the API takes them.
fn messages(sent: &BodyForm<'_>, messages: &[ChatMessage]) -> Value {
    let mut leading = true;
    let mut shown = Vec::with_capacity(messages.len());
    for part in with_images_apart(messages) {
        match part {
            SentMessage::Message(message) => {
                leading &= message.role == LlmRole::System;
                shown.push(message_json(sent, leading, message));
            }
            SentMessage::Images { images, follows_answer } => {
                if follows_answer && sent.native.is_some() {
                    shown.push(json!({"role": "assistant", "content": IMAGES_PLEASE}));
                }
                shown.push(json!({"role": "user", "content": parts_of(&images)}));
            }
        }
    }
    Value::Array(shown)
}

/// Returns images as the parts of a content.
fn parts_of(images: &[&Image]) -> Value {
    let parts = images.iter().flat_map(|image| {
        let url = format!("data:{};base64,{}", image.media_type, image.base64);
        [
            json!({"type": "text", "text": caption(image)}),
            json!({"type": "image_url", "image_url": {"url": url}}),
        ]
    });
    parts.collect()
}

/// Returns one message as the API takes it.
fn message_json(sent: &BodyForm<'_>, leading: bool, message: &ChatMessage) -> Value {
    match (sent.native, &message.answers) {
        (Some(names), _) if !message.calls.is_empty() => {
            return asking(names, message, sent.returns_reasoning);
        }
        (Some(_), Some((call_id, _))) => {
            return json!({"role": "tool", "tool_call_id": wire_id(call_id), "content": message.content});
        }
        _ => {}
    }
    let role = match message.role {
        LlmRole::System | LlmRole::Tool if !leading && sent.notes == SystemNotes::AsUser => "user",
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
}

/// Returns a message of the model that asks for calls, with what the provider attached to it and to them. Its content is a text:
/// some servers refuse null.
fn asking(names: &Names, message: &ChatMessage, returns_reasoning: bool) -> Value {
    let calls = message.calls.iter().map(|call| {
        let function =
            json!({"name": names.alias(&call.tool), "arguments": sent_arguments(&call.args).as_str()});
        let mut sent = json!({"id": wire_id(&call.id), "type": "function", "function": function});
        attach(&mut sent, &call.provider);
        sent
    });
    let calls: Vec<Value> = calls.collect();
    let mut sent = json!({"role": "assistant", "content": message.content, "tool_calls": calls});
    if returns_reasoning {
        attach(&mut sent, &message.provider);
    }
    sent
}

fn attach(sent: &mut Value, provider: &JsonObject) {
    let Some(fields) = sent.as_object_mut() else { return };
    for (name, value) in provider.iter() {
        fields.insert_if_absent(name, value.tree());
    }
}

/// The length of an id that every known server takes: Mistral wants nine letters and digits.
const WIRE_ID_CHARS: usize = 9;

const ID_DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns the id under which a call is sent: itself where it has the form that all servers take, else one that follows from it.
fn wire_id(id: &str) -> String {
    if id.len() == WIRE_ID_CHARS && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    let digest = Digest::compute(id.as_bytes()).0;
    let digit =
        |byte: &u8| char::from(ID_DIGITS.get(usize::from(*byte) % ID_DIGITS.len()).copied().unwrap_or(b'0'));
    digest.iter().take(WIRE_ID_CHARS).map(digit).collect()
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
            let shown = messages(&BodyForm { notes, native: None, returns_reasoning: true }, &said);
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
            messages(
                &BodyForm { notes: SystemNotes::AsSystem, native: None, returns_reasoning: true },
                &[message],
            )[0]
            .get("name")
            .cloned()
        };
        assert_eq!(named("alice"), Some(json!("alice")));
        assert_eq!(named("alice b"), None);
    }

    #[test]
    fn an_id_is_sent_as_nine_letters_and_digits_and_one_of_that_form_as_it_is() {
        assert_eq!(wire_id("D681PevKs"), "D681PevKs");
        let ids: Vec<String> = (0..1_000).map(|n| wire_id(&format!("call_20261128141428_{n:08x}"))).collect();
        let form = |id: &String| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        assert!(ids.iter().all(form));
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 1_000);
        assert_eq!(wire_id("call_1"), wire_id("call_1"));
    }
}
