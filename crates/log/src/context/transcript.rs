//! The messages that a strategy reads, borrowed: a trait over what holds them, and one message as it stands there.

use proto_events::json::JsonText;
use proto_events::model::{LlmMessage, LlmRole};

use crate::context::result_place::RESULT;

/// The messages of one inference, numbered from 0, oldest first. A leading system message that is rendered for the
/// inference has no number: [`Transcript::system`] returns it.
pub trait Transcript {
    /// Returns the leading system message as it is sent; `None` if it stands among the messages or is missing.
    fn system(&self) -> Option<&str>;

    /// Returns the number of messages.
    fn count(&self) -> u32;

    /// Returns a message.
    fn message(&self, number: u32) -> Option<MessageView<'_>>;

    /// Returns where the result that a message tells stands in the log, as the message's metadata has it.
    fn source(&self, number: u32) -> Option<&JsonText> {
        let _ = number;
        None
    }

    /// Returns the id of a message, by which cached counts are known to be of the same message.
    fn id(&self, number: u32) -> Option<&str> {
        let _ = number;
        None
    }
}

/// A message as a strategy reads it.
#[derive(Debug, Clone, Copy)]
pub struct MessageView<'a> {
    /// The role of the speaker.
    pub role: LlmRole,
    /// The content.
    pub content: Content<'a>,
    /// The calls that the message asks for, in the form of the API of `OpenAI`; `{}` without any.
    pub calls: Option<&'a JsonText>,
    /// The id of the call that the message answers, as a JSON string.
    pub answers: Option<&'a JsonText>,
}

/// The content of a message.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// A text.
    Text(&'a str),
    /// A list of parts, which no strategy cuts.
    Parts(&'a [ContentPart]),
}

/// A part of a message's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentPart {
    /// A text.
    Text(String),
    /// An image, a document or a sound.
    Media,
}

/// The key in a tool message's metadata that names the call which it answers.
const ANSWERS: &str = "tool_call_id";

impl<'a> MessageView<'a> {
    /// Returns the view of a message of a history.
    pub fn from_message(message: &'a LlmMessage) -> Self {
        let asks = message.tool_calls.as_str().starts_with('[');
        let answers = (message.role == LlmRole::Tool).then(|| message.metadata.get(ANSWERS)).flatten();
        Self {
            role: message.role,
            content: Content::Text(&message.content),
            calls: asks.then_some(&message.tool_calls),
            answers,
        }
    }

    /// Returns the text of the content, unless it is a list of parts.
    pub fn text(&self) -> Option<&'a str> {
        match self.content {
            Content::Text(text) => Some(text),
            Content::Parts(_) => None,
        }
    }
}

impl Transcript for &[LlmMessage] {
    fn system(&self) -> Option<&str> {
        None
    }

    fn count(&self) -> u32 {
        u32::try_from(self.len()).unwrap_or(u32::MAX)
    }

    fn message(&self, number: u32) -> Option<MessageView<'_>> {
        self.get(usize::try_from(number).ok()?).map(MessageView::from_message)
    }

    fn source(&self, number: u32) -> Option<&JsonText> {
        self.get(usize::try_from(number).ok()?)?.metadata.get(RESULT)
    }

    fn id(&self, number: u32) -> Option<&str> {
        self.get(usize::try_from(number).ok()?).map(|message| message.id.as_str())
    }
}
