//! The messages of an inference as a context strategy reads them.

use proto_events::json::JsonText;
use proto_events::model::LlmMessage;

use crate::context::{MessageView, RESULT, Transcript};
use crate::shown::messages::InferenceMessages;

impl InferenceMessages<'_> {
    /// Returns a message behind the system message.
    fn numbered(&self, number: u32) -> Option<&LlmMessage> {
        let number = usize::try_from(number).ok()?;
        match number.checked_sub(self.history.len()) {
            None => self.history.get(number),
            Some(in_turn) => self.turn.get(in_turn).copied(),
        }
    }
}

impl Transcript for InferenceMessages<'_> {
    fn system(&self) -> Option<&str> {
        Some(&self.system)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.history.len() + self.turn.len()).unwrap_or(u32::MAX)
    }

    fn message(&self, number: u32) -> Option<MessageView<'_>> {
        self.numbered(number).map(MessageView::from_message)
    }

    fn source(&self, number: u32) -> Option<&JsonText> {
        self.numbered(number)?.metadata.get(RESULT)
    }

    fn id(&self, number: u32) -> Option<&str> {
        self.numbered(number).map(|message| message.id.as_str())
    }
}
