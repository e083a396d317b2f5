//! The call by which a model sums up the oldest messages of a conversation: the request to a backend, and the summary in its
//! reply.

use proto_events::model::LlmRole;
use taskreel_log::shown::{SummaryPrompt, extract_summary};

use crate::models::backend::{Deltas, InferRequest};
use crate::models::message::ChatMessage;
use crate::models::shown_messages::Messages;

/// Returns the request to a backend.
pub(crate) fn request(prompt: SummaryPrompt, session: &str, call_id: &str) -> InferRequest {
    let prompt_digest = prompt.digest();
    let system = ChatMessage::new(LlmRole::System, prompt.system);
    let turn = vec![ChatMessage::new(LlmRole::User, prompt.user)];
    InferRequest {
        messages: Messages::new(system, None, turn, None),
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

/// Returns the summary in a model's reply; `None` if it has none.
pub(crate) fn summary_in(reply: &str) -> Option<String> {
    Some(extract_summary(reply)).filter(|summary| !summary.is_empty())
}
