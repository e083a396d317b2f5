//! A turn: the messages of one run that are not (yet) part of a conversation's history. A session folds them
//! into its history when the turn is committed; a task without conversation keeps them for its part only.

use crate::id::Digest;
use crate::model::llm_message::LlmMessage;

/// A message of a turn, and the calls that it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnMessage {
    /// The message as the model sees it.
    pub message: LlmMessage,
    /// The part of the run that it belongs to.
    pub part: u32,
    /// The inference whose reply led to the message; `None` for the prompt.
    pub infer_call: Option<String>,
    /// The tool call that the message requests or answers: stored, not sent to the model. The requesting
    /// message comes first; the next message with the same origin is its result.
    pub origin: Option<String>,
}

/// The messages of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn(pub(crate) Vec<TurnMessage>);

impl Turn {
    /// Returns all messages, oldest first.
    pub fn messages(&self) -> &[TurnMessage] {
        &self.0
    }

    /// Adds a message at the end.
    pub fn push(&mut self, message: TurnMessage) {
        self.0.push(message);
    }

    /// Removes and returns all messages.
    pub fn take(&mut self) -> Vec<TurnMessage> {
        std::mem::take(&mut self.0)
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the tool call that is requested and has no result yet. At most one: the loop takes one at a
    /// time.
    pub fn unanswered(&self) -> Option<&str> {
        self.0.iter().filter_map(|message| message.origin.as_deref()).fold(None, |open, origin| match open {
            Some(open) if open == origin => None,
            _ => Some(origin),
        })
    }

    /// Checks that a message may come next: while a tool call has no result, only its result may (promise 6).
    ///
    /// # Errors
    /// [`IllFormed`], naming the call that has no result yet.
    pub fn check_next(&self, next: &TurnMessage) -> Result<(), IllFormed> {
        match self.unanswered() {
            Some(open) if next.origin.as_deref() != Some(open) => Err(IllFormed(open.to_owned())),
            _ => Ok(()),
        }
    }
}

/// A message would come between a tool call and its result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tool call `{0}` has no result yet; the next message must be its result")]
pub struct IllFormed(pub String);

/// Advances the running digest by one message: role, content and name as the provider sees them, each after
/// its length.
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
