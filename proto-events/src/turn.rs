//! A turn: the messages of one run that are not (yet) part of a conversation's history. A session folds them
//! into its history when the turn is committed; a task without conversation keeps them for its part only.

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
    /// The calls that the message asks for, by id, in the order of the asks. Their answers follow in this order.
    pub asks: Vec<String>,
    /// The call that the message answers, by id.
    pub answers: Option<String>,
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

    /// Returns the calls that are asked for and have no answer yet, in the order of the asks.
    pub fn unanswered(&self) -> &[String] {
        let Some(at) = self.0.iter().rposition(|message| !message.asks.is_empty()) else { return &[] };
        let (asking, behind) = (self.0.get(at), self.0.get(at + 1..).unwrap_or_default());
        let asks = asking.map_or(&[][..], |message| &message.asks);
        // Nothing else than its answers, each in its turn, may follow an asking message.
        asks.get(behind.len()..).unwrap_or_default()
    }

    /// Checks that a message may come next: while calls have no answer, only the answer to the first of them may, and
    /// an answer comes to no other call (promise 6).
    ///
    /// # Errors
    /// [`IllFormed`], naming the call.
    pub fn check_next(&self, next: &TurnMessage) -> Result<(), IllFormed> {
        let open = self.unanswered().first();
        match (open, &next.answers) {
            (Some(open), Some(answered)) if open == answered && next.asks.is_empty() => Ok(()),
            (Some(open), _) => Err(IllFormed::Unanswered(open.clone())),
            (None, Some(answered)) => Err(IllFormed::NotAsked(answered.clone())),
            (None, None) => Ok(()),
        }
    }
}

/// A conversation would have a call without exactly one answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IllFormed {
    /// A message would come before the answer to this call.
    #[error("the call `{0}` has no answer yet; the next message must be its answer")]
    Unanswered(String),
    /// A message would answer this call, which is not asked for or has its answer.
    #[error("the call `{0}` waits for no answer")]
    NotAsked(String),
}
