//! The content of a request, by which a recorded answer is found.

use proto_events::id::Digest;
use proto_events::json::JsonValue;
use proto_events::model::LlmRole;
use taskreel_log::shown::Prompt;

use crate::models::backend::InferRequest;
use crate::models::message::ChatMessage;
use crate::tools::registry::ToolSpec;

/// The content of a request, without ids: another log has other ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestContent {
    messages: Digest,
    /// The digest of the tools.
    pub(super) tools: Digest,
    /// The number of messages.
    pub(super) count: usize,
}

impl RequestContent {
    /// Returns the content of these messages and tools.
    fn from_messages<'a>(
        messages: impl Iterator<Item = &'a ChatMessage>,
        tools: impl Iterator<Item = (&'a str, &'a str, &'a JsonValue)>,
    ) -> Self {
        let (mut digest, mut count) = (Digest::default(), 0);
        for message in messages {
            let mut texts =
                vec![message.role.as_str(), &message.content, message.name.as_deref().unwrap_or("")];
            for call in &message.calls {
                texts.extend([call.tool.as_str(), call.args.as_str()]);
            }
            (digest, count) = (extended(digest, &texts), count + 1);
        }
        let tools = tools.fold(Digest::default(), |digest, (name, description, schema)| {
            extended(digest, &[name, description, &schema.to_string()])
        });
        Self { messages: digest, tools, count }
    }

    /// Returns the content of a request.
    pub(super) fn of_request(request: &InferRequest) -> Self {
        Self::from_messages(request.messages.iter(), request.tools.iter().map(offered))
    }

    /// Returns the content of a prompt of a log.
    pub(super) fn of_prompt(prompt: &Prompt) -> Self {
        let system = ChatMessage::new(LlmRole::System, prompt.system.as_str());
        let messages: Vec<ChatMessage> =
            std::iter::once(system).chain(prompt.messages.iter().map(ChatMessage::from_message)).collect();
        let tools = prompt.offer.tools.iter();
        let tools = tools.map(|tool| (tool.name.as_str(), tool.description.as_str(), &tool.input_schema));
        Self::from_messages(messages.iter(), tools)
    }

    /// Returns the key by which equal requests are found.
    pub(super) fn key(&self) -> (Digest, Digest) {
        (self.messages, self.tools)
    }
}

/// Returns what a model is shown of a tool.
fn offered(tool: &ToolSpec) -> (&str, &str, &JsonValue) {
    (&tool.name, &tool.description, &tool.input_schema)
}

/// Returns a running digest extended by texts, each after its length.
fn extended(digest: Digest, texts: &[&str]) -> Digest {
    let lengths: Vec<[u8; 8]> = texts.iter().map(|text| (text.len() as u64).to_be_bytes()).collect();
    let texts = lengths.iter().zip(texts).flat_map(|(length, text)| [&length[..], text.as_bytes()]);
    Digest::of_all(std::iter::once(&digest.0[..]).chain(texts))
}

#[cfg(test)]
mod tests {
    use proto_events::json::JsonText;
    use proto_events::model::LlmMessage;
    use taskreel_log::ports::Ports;

    use super::*;

    #[test]
    fn the_content_covers_the_calls_that_a_message_asks_for_but_not_their_ids() {
        let content = |tool_calls: &str| {
            let tool_calls = JsonText::parse(tool_calls).unwrap();
            let message = LlmMessage::new(LlmRole::Assistant, "so", &mut Ports::default());
            let message = ChatMessage::from_message(&LlmMessage { tool_calls, ..message });
            RequestContent::from_messages([message].iter(), std::iter::empty()).key()
        };
        let call = |id: &str, tool: &str, args: &str| {
            format!(r#"[{{"id": "{id}", "function": {{"name": "{tool}", "arguments": "{args}"}}}}]"#)
        };
        let one = content(&call("c1", "pay", "{}"));
        assert_eq!(one, content(&call("c2", "pay", "{}")));
        for other in [call("c1", "look", "{}"), call("c1", "pay", "[]"), "[]".to_owned(), "{}".to_owned()] {
            assert_ne!(one, content(&other), "{other}");
        }
    }
}
