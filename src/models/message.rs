//! A message in the form in which a model receives it.

use proto_events::call::Selection;
use proto_events::id::Mint;
use proto_events::json;
use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use proto_events::model::{LlmMessage, LlmRole};
use taskreel_log::context::sent_text;

/// A message as the provider sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatMessage {
    /// The role of the speaker.
    pub role: LlmRole,
    /// The text of the message.
    pub content: String,
    /// The speaker's name, if it has one.
    pub name: Option<String>,
    /// The tool calls that this message of the model asks for through the provider's own interface.
    pub calls: Vec<NativeCall>,
    /// The call that this message of a tool answers, and the tool's name.
    pub answers: Option<(String, String)>,
    /// The number of characters that the context strategy left out of the text; 0 for a whole one. What the text says about
    /// it, if anything, is the strategy's marker.
    pub omitted: u64,
    /// The members that the provider attached to the message and takes back with its calls, for example `reasoning_content`.
    pub provider: JsonObject,
    /// The images that the call which this message answers attached, for a model that takes images. Only the messages of the
    /// open run have any; in the text stand words such as `image/png, 600 KiB`.
    pub images: Vec<Image>,
}

/// An image of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Image {
    /// The id of the task's artifact that holds the image.
    pub artifact_id: String,
    /// The media type: `image/png`, `image/jpeg` or `image/webp`.
    pub media_type: String,
    /// The content in base64.
    pub base64: String,
}

/// A tool call of a message, as providers write it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NativeCall {
    /// The call's id, which its answer repeats.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments.
    pub args: JsonText,
    /// The members that the provider attached to the call, for example a thought signature.
    pub provider: JsonObject,
}

impl ChatMessage {
    /// Creates a message without a name.
    pub fn new(role: LlmRole, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            name: None,
            calls: Vec::new(),
            answers: None,
            omitted: 0,
            provider: JsonObject::new(),
            images: Vec::new(),
        }
    }

    /// Returns the provider's view of a message of a history.
    pub fn from_message(message: &LlmMessage) -> Self {
        Self::with_text(message, message.content.clone())
    }

    /// Returns the provider's view of a numbered message behind one of this role as a selection sends it; `None` if it is not
    /// sent.
    pub(crate) fn selected(
        message: &LlmMessage,
        number: u32,
        before: Option<LlmRole>,
        selection: &Selection,
    ) -> Option<Self> {
        if !selection.keeps(number) {
            return None;
        }
        let Some(sent) = sent_text(selection, number, message, before) else {
            return Some(Self::from_message(message));
        };
        Some(Self { omitted: sent.omitted, ..Self::with_text(message, sent.text.into_owned()) })
    }

    fn with_text(message: &LlmMessage, content: String) -> Self {
        let name = message.name.clone().filter(|name| !name.is_empty());
        let answers = match message.role {
            LlmRole::Tool => message.metadata.get(ANSWERS).and_then(JsonText::to_str),
            _ => None,
        };
        Self {
            role: message.role,
            content,
            name,
            calls: native_calls(&message.tool_calls),
            answers: answers.map(|id| (id, message.tool_name.clone().unwrap_or_default())),
            omitted: 0,
            provider: object(&message.metadata, PROVIDER),
            images: Vec::new(),
        }
    }

    /// Returns the message as plain text, for a provider that is offered no tools of its own: calls stand as the
    /// actions that the system prompt names.
    pub fn to_text(&self) -> String {
        let calls = self.calls.iter().map(|call| action(&call.tool, &call.args));
        let content = Some(self.content.clone()).filter(|content| !content.is_empty());
        content.into_iter().chain(calls).collect::<Vec<_>>().join("\n")
    }
}

/// The entry of a tool message's metadata that names the call which it answers.
const ANSWERS: &str = "tool_call_id";

/// The member of a message's metadata, and of a call in it, that holds what the provider attached.
const PROVIDER: &str = "provider";

/// Returns the message with which a model asks for calls through its provider's own interface. The calls are kept in
/// the form of the API of `OpenAI`.
pub(crate) fn asking(
    content: &str,
    calls: &[NativeCall],
    provider: &JsonObject,
    mint: &mut dyn Mint,
) -> LlmMessage {
    let call = |call: &NativeCall| {
        let mut kept = json!({"id": call.id, "type": "function",
            "function": {"name": call.tool, "arguments": call.args.as_str()}});
        if let Some(fields) = kept.as_object_mut().filter(|_| !call.provider.is_empty()) {
            fields.insert(PROVIDER.to_owned(), call.provider.to_text().tree());
        }
        kept
    };
    let calls: Vec<Value> = calls.iter().map(call).collect();
    let mut message = LlmMessage {
        tool_calls: JsonText::from(Value::Array(calls)),
        ..LlmMessage::new(LlmRole::Assistant, content, mint)
    };
    if !provider.is_empty() {
        message.metadata.set(PROVIDER, provider.to_text());
    }
    message
}

/// Returns the message with which a tool answers such a call.
pub(crate) fn answering(call_id: &str, tool: &str, text: String, mint: &mut dyn Mint) -> LlmMessage {
    let mut message = LlmMessage::new(LlmRole::Tool, text, mint);
    message.metadata.set(ANSWERS, JsonText::string(call_id));
    message.tool_name = Some(tool.to_owned());
    message
}

/// Returns the message that answers a call of this asking message: a tool's where the call is native, else the system's.
pub(crate) fn answer_to(
    asking: Option<&LlmMessage>,
    call_id: &str,
    text: String,
    mint: &mut dyn Mint,
) -> LlmMessage {
    let calls = asking.map(|asking| native_calls(&asking.tool_calls)).unwrap_or_default();
    match calls.into_iter().find(|call| call.id == call_id) {
        Some(call) => answering(call_id, &call.tool, text, mint),
        None => LlmMessage::new(LlmRole::System, text, mint),
    }
}

/// Whether the message asks for calls through the provider's own interface.
pub(crate) fn is_native(message: &LlmMessage) -> bool {
    !native_calls(&message.tool_calls).is_empty()
}

fn native_calls(kept: &JsonText) -> Vec<NativeCall> {
    let kept = kept.tree();
    let call = |call: &Value| {
        let function = call.get("function")?;
        let text = |value: &Value, key| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let args = text(function, "arguments").and_then(|args| JsonText::parse(&args).ok());
        Some(NativeCall {
            id: text(call, "id")?,
            tool: text(function, "name")?,
            args: args.unwrap_or_default(),
            provider: call
                .get(PROVIDER)
                .and_then(|own| JsonText::from(own.clone()).read().ok())
                .unwrap_or_default(),
        })
    };
    kept.as_array().into_iter().flatten().filter_map(call).collect()
}

/// Returns a call as the action that the system prompt names.
fn action(tool: &str, args: &JsonText) -> String {
    let tool = JsonText::string(tool);
    format!("{{\"type\":\"tool_call\",\"tool\":{},\"args\":{}}}", tool.as_str(), args.as_str())
}

/// Returns the object that is a member of another one; an empty one without it.
pub(crate) fn object(fields: &JsonObject, name: &str) -> JsonObject {
    fields.get(name).and_then(|member| member.read().ok()).unwrap_or_default()
}
