//! A turn: the messages of one run that are not (yet) part of a conversation's history. A session folds
//! them into its history when the turn commits; a task without conversation keeps them for its part only.

use crate::id::Digest;
use crate::model::LlmMessage;

/// One message of a turn, and what it has to do with calls.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnMessage {
    /// The message as the model sees it.
    pub message: LlmMessage,
    /// The part of the run that it belongs to.
    pub part: u32,
    /// The inference whose reply brought it about; none for the prompt.
    pub infer_call: Option<String>,
    /// The tool call that it asks for or answers: stored, not sent. The asking message comes first, its
    /// answer is the next message with the same origin.
    pub origin: Option<String>,
}

/// The messages of a turn, and whether every tool call among them has its answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn(pub(crate) Vec<TurnMessage>);

impl Turn {
    /// All messages, oldest first.
    pub fn messages(&self) -> &[TurnMessage] {
        &self.0
    }

    /// Adds a message at the end.
    pub fn push(&mut self, message: TurnMessage) {
        self.0.push(message);
    }

    /// Takes all messages out.
    pub fn take(&mut self) -> Vec<TurnMessage> {
        std::mem::take(&mut self.0)
    }

    /// Forgets all messages.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The tool call that is asked for and not answered yet. At most one: the loop takes one at a time.
    pub fn unanswered(&self) -> Option<&str> {
        self.0.iter().filter_map(|message| message.origin.as_deref()).fold(None, |open, origin| match open {
            Some(open) if open == origin => None,
            _ => Some(origin),
        })
    }

    /// Whether a message may come next: while a call is unanswered, only its answer may (promise 6).
    ///
    /// # Errors
    /// [`IllFormed`], naming the call that waits for its answer.
    pub fn check_next(&self, next: &TurnMessage) -> Result<(), IllFormed> {
        match self.unanswered() {
            Some(open) if next.origin.as_deref() != Some(open) => Err(IllFormed(open.to_owned())),
            _ => Ok(()),
        }
    }
}

/// A message would come between a tool call and its answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tool call `{0}` has no answer yet; the next message must be its answer")]
pub struct IllFormed(pub String);

/// One step of the running digest: over what the provider sees of a message, length before each field.
pub fn chain(before: Digest, message: &LlmMessage) -> Digest {
    let role = message.role.as_str();
    let name = message.name.as_deref().unwrap_or_default();
    let length = |text: &str| (text.len() as u64).to_be_bytes();
    Digest::of_parts(&[
        &before.0,
        &length(role),
        role.as_bytes(),
        &length(&message.content),
        message.content.as_bytes(),
        &length(name),
        name.as_bytes(),
    ])
}
