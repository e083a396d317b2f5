//! The call by which a model sums up the oldest messages of a conversation: what it is shown, and what its reply says.
//!
//! The intent of such a call holds the digest of what is shown, and no text of it: [`verify`](crate::audit::verify) makes the
//! text again from the session. So the texts of this file never change for logs that exist; another wording needs another
//! prefix of the digest.

use std::fmt::Write as _;

use proto_events::id::Digest;
use proto_events::json::{JsonText, JsonValue};
use proto_events::model::{ConversationHistory, LlmMessage};

/// The text with which a model is asked for a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SummaryPrompt {
    /// The text of the system message: the instructions.
    pub system: String,
    /// The text of the user's message: the messages to be summed up, as JSON.
    pub user: String,
}

impl SummaryPrompt {
    /// Returns the prompt for these messages.
    pub fn new(older: &[LlmMessage], max_tokens: u64) -> Self {
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

    /// Returns the digest of what is shown.
    pub fn digest(&self) -> Digest {
        Digest::of_parts(&[b"taskreel.summary\0", self.system.as_bytes(), b"\0", self.user.as_bytes()])
    }
}

/// Returns the summary in a reply, trimmed: the text under `summary`, else under `content`, in the whole
/// reply or in the object inside it, else the reply itself. It may be empty, which the caller must refuse.
pub fn extract_summary(raw: &str) -> String {
    let raw = raw.trim();
    let inner = raw.find('{').zip(raw.rfind('}')).and_then(|(from, to)| raw.get(from..=to));
    let found = read(raw).or_else(|| read(inner?));
    let summary = found.as_ref().and_then(text_of);
    summary.unwrap_or(raw).trim().to_owned()
}

fn read(text: &str) -> Option<JsonValue> {
    JsonText::parse(&escape_controls(text)).ok().map(|json| json.tree())
}

fn text_of(reply: &JsonValue) -> Option<&str> {
    let named = |name| reply.get(name).and_then(JsonValue::as_str);
    named("summary").or_else(|| named("content"))
}

/// Escapes control characters in strings: models write raw line breaks and tabs, which JSON forbids.
pub fn escape_controls(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::with_capacity(text.len()), false, false);
    for char in text.chars() {
        if in_string && char < ' ' {
            let code = u32::from(char);
            // A backslash before a control character is not an escape and stands for itself.
            out.push_str(if escaped { "\\" } else { "" });
            // Writing to a `String` cannot fail.
            let _ = write!(out, "\\u{code:04x}");
            escaped = false;
            continue;
        }
        if char == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = in_string && char == '\\' && !escaped;
        out.push(char);
    }
    out
}
