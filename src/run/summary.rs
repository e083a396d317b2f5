//! The call by which a model sums up the oldest messages of a conversation: what it is told, and what its reply says.

use proto_events::id::Digest;
use proto_events::json::JsonText;
use proto_events::model::{ConversationHistory, LlmMessage, LlmRole};

use crate::grammar::summary::extract_summary;
use crate::models::backend::{Deltas, InferRequest};
use crate::models::message::ChatMessage;
use crate::models::shown_messages::Messages;

/// The messages that a model is sent for a summary.
#[derive(Debug, Clone)]
pub(crate) struct SummaryPrompt {
    system: String,
    user: String,
}

impl SummaryPrompt {
    /// Returns the prompt for these messages.
    pub(crate) fn of(older: &[LlmMessage], max_tokens: i64) -> Self {
        let system = format!(
            "You compact the history of a conversation. Summarize the messages below so that the conversation can go on \
             without them: keep the facts that last, what the user wants and prefers, what was decided and done, and what is \
             still open. Leave out greetings and repetitions. Use at most about {max_tokens} tokens. Reply with JSON only: \
             {{\"summary\": \"...\"}}"
        );
        let mut messages = ConversationHistory::new();
        messages.replace(older.to_vec());
        let user = JsonText::of_model(&messages.messages()).as_str().to_owned();
        Self { system, user }
    }

    /// Returns the digest of what is sent.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of_parts(&[b"taskreel.summary\0", self.system.as_bytes(), b"\0", self.user.as_bytes()])
    }

    /// Returns the request to a backend.
    pub(crate) fn request(self, session: &str, call_id: &str) -> InferRequest {
        let prompt_digest = self.digest();
        let system = ChatMessage::new(LlmRole::System, self.system);
        let turn = vec![ChatMessage::new(LlmRole::User, self.user)];
        InferRequest {
            messages: Messages::of(system, None, turn, None),
            tools: Vec::new(),
            task_id: String::new(),
            session_id: Some(session.to_owned()),
            call_id: call_id.to_owned(),
            idempotency_key: call_id.to_owned(),
            attempt: 1,
            output_schema: None,
            prompt_digest,
            deltas: Deltas::default(),
        }
    }
}

/// Returns the summary in a model's reply; `None` if it has none.
pub(crate) fn summary_in(reply: &str) -> Option<String> {
    Some(extract_summary(reply)).filter(|summary| !summary.is_empty())
}
