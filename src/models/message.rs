//! A message in the form in which a model receives it.

use proto_events::model::{LlmMessage, LlmRole};

/// A message as the provider sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatMessage {
    /// The role of the speaker.
    pub role: LlmRole,
    /// The text of the message.
    pub content: String,
    /// The speaker's or tool's name, if it has one.
    pub name: Option<String>,
}

impl ChatMessage {
    /// Creates a message without a name.
    pub fn new(role: LlmRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), name: None }
    }

    /// Returns the provider's view of a message of a history.
    pub fn of(message: &LlmMessage) -> Self {
        let name = message.name.clone().filter(|name| !name.is_empty());
        Self { role: message.role, content: message.content.clone(), name }
    }
}
