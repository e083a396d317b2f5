//! A conversation with a model: its messages in order, and the operations that change them.

use std::sync::Arc;

use serde::Serialize;

use crate::id::Mint;
use crate::json::{JsonObject, JsonText};
use crate::model::error::ModelError;
use crate::model::fields::models;
use crate::model::llm_message::{LlmMessage, LlmRole};

/// A message as sent to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProviderMessage<'a> {
    /// The role of the speaker.
    pub role: LlmRole,
    /// The text.
    pub content: &'a str,
    /// The tool's name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
}

/// The messages of a conversation, oldest first. Cheap to clone: the messages are copied once one of the clones is changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationHistory(Arc<Vec<LlmMessage>>);

impl ConversationHistory {
    /// Returns a conversation without messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a conversation that begins with a system prompt, unless the prompt is empty.
    pub fn with_system(prompt: &str, mint: &mut dyn Mint) -> Self {
        let mut history = Self::new();
        if !prompt.is_empty() {
            history.add(LlmRole::System, prompt, JsonObject::new(), mint);
        }
        history
    }

    /// Reads a list of complete messages.
    ///
    /// # Errors
    /// [`ModelError`], naming the wrong message.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let items: Vec<JsonText> = json.read()?;
        let messages = models("messages", &items, |item| LlmMessage::from_json(item, mint))?;
        Ok(Self(Arc::new(messages)))
    }

    /// Returns the complete messages as Protolink writes them.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(&*self.0)
    }

    /// Returns the complete messages.
    pub fn as_slice(&self) -> &[LlmMessage] {
        &self.0
    }

    /// Returns the complete messages, owned.
    pub fn into_messages(self) -> Vec<LlmMessage> {
        Arc::unwrap_or_clone(self.0)
    }

    /// Returns the messages to be changed.
    fn messages_mut(&mut self) -> &mut Vec<LlmMessage> {
        Arc::make_mut(&mut self.0)
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the conversation has no message.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the messages as sent to a provider: role, content, and the name if present.
    pub fn messages(&self) -> Vec<ProviderMessage<'_>> {
        self.0
            .iter()
            .map(|message| ProviderMessage {
                role: message.role,
                content: &message.content,
                name: message.name.as_deref().filter(|name| !name.is_empty()),
            })
            .collect()
    }

    /// Appends an existing message.
    pub fn push(&mut self, message: LlmMessage) {
        self.messages_mut().push(message);
    }

    /// Appends a user's text.
    pub fn add_user(&mut self, content: &str, metadata: JsonObject, mint: &mut dyn Mint) {
        self.add(LlmRole::User, content, metadata, mint);
    }

    /// Appends a model's text.
    pub fn add_assistant(&mut self, content: &str, metadata: JsonObject, mint: &mut dyn Mint) {
        self.add(LlmRole::Assistant, content, metadata, mint);
    }

    /// Appends instructions at the end, unlike [`Self::set_system`].
    pub fn add_system(&mut self, content: &str, mint: &mut dyn Mint) {
        self.add(LlmRole::System, content, JsonObject::new(), mint);
    }

    /// Appends a tool's result; the tool's name goes to `name`.
    pub fn add_tool(&mut self, content: &str, tool: &str, metadata: JsonObject, mint: &mut dyn Mint) {
        let message = LlmMessage {
            name: Some(tool.to_owned()),
            metadata,
            ..LlmMessage::new(LlmRole::Tool, content, mint)
        };
        self.push(message);
    }

    /// Appends a provider's raw message; see [`LlmMessage::from_raw`].
    ///
    /// # Errors
    /// [`ModelError`] if the role is missing or unknown, or the content is not a string.
    pub fn add_raw(&mut self, json: &JsonText, mint: &mut dyn Mint) -> Result<(), ModelError> {
        self.push(LlmMessage::from_raw(json, mint)?);
        Ok(())
    }

    fn add(&mut self, role: LlmRole, content: &str, metadata: JsonObject, mint: &mut dyn Mint) {
        let message = LlmMessage { metadata, ..LlmMessage::new(role, content, mint) };
        self.push(message);
    }

    /// Whether the first message is a system prompt.
    fn has_system(&self) -> bool {
        self.0.first().is_some_and(|first| first.role == LlmRole::System)
    }

    /// Puts a system prompt first, replacing an existing one. The rest stays.
    pub fn set_system(&mut self, content: &str, mint: &mut dyn Mint) {
        self.put_system(LlmMessage::new(LlmRole::System, content, mint));
    }

    /// Puts an existing message first, like [`Self::set_system`].
    pub fn put_system(&mut self, prompt: LlmMessage) {
        let replaced = usize::from(self.has_system());
        self.messages_mut().splice(..replaced, [prompt]);
    }

    /// Replaces all messages by a system prompt.
    pub fn reset_to_system(&mut self, content: &str, mint: &mut dyn Mint) {
        self.0 = Arc::new(vec![LlmMessage::new(LlmRole::System, content, mint)]);
    }

    /// Replaces the messages of these places, which the history has, by one message or none.
    pub(crate) fn splice(&mut self, places: std::ops::Range<usize>, by: Option<LlmMessage>) {
        self.messages_mut().splice(places, by);
    }

    /// Replaces all messages.
    pub fn replace(&mut self, messages: Vec<LlmMessage>) {
        self.0 = Arc::new(messages);
    }

    /// Keeps the newest messages, `max_messages` in all. A leading system prompt is kept and counts.
    /// Protolink 0.6.4 keeps the first message whatever its role; this follows 0.8.3, which does not.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] if `max_messages` is less than 2.
    pub fn truncate(&mut self, max_messages: i64) -> Result<(), ModelError> {
        if max_messages < 2 {
            return Err(ModelError::Invalid("max_messages must be >= 2".to_owned()));
        }
        let most = usize::try_from(max_messages).unwrap_or(usize::MAX);
        let surplus = self.0.len().saturating_sub(most);
        let from = usize::from(self.has_system());
        self.messages_mut().drain(from..from + surplus);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counted(u32);

    impl Mint for Counted {
        fn id(&mut self, prefix: &str) -> String {
            self.0 += 1;
            format!("{prefix}{}", self.0)
        }
        fn uuid(&mut self) -> String {
            self.id("uuid-")
        }
        fn timestamp(&mut self) -> String {
            "2026-01-01T00:00:00+00:00".to_owned()
        }
    }

    fn contents(history: &ConversationHistory) -> Vec<&str> {
        history.messages().iter().map(|message| message.content).collect()
    }

    #[test]
    fn truncate_keeps_the_newest_and_a_system_prompt_only() {
        let mut mint = Counted(0);
        let mut history = ConversationHistory::new();
        for text in ["a", "b", "c", "d"] {
            history.add_user(text, JsonObject::new(), &mut mint);
        }
        let mut prompted = history.clone();
        prompted.set_system("s", &mut mint);
        history.truncate(2).unwrap();
        assert_eq!(contents(&history), ["c", "d"]);
        prompted.truncate(3).unwrap();
        assert_eq!(contents(&prompted), ["s", "c", "d"]);
        assert!(prompted.truncate(1).is_err());
        assert_eq!(prompted.len(), 3);
    }
}
