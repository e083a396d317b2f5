//! The model behind an agent: what it is sent, what it answers, how it fails, and when it is asked again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use proto_events::call::TokenUsage;
use proto_events::id::Digest;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{LlmMessage, LlmRole};

use super::messages::Messages;
use super::registry::ToolSpec;
use super::tool::BoxFuture;

/// One message as the provider sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who says it.
    pub role: LlmRole,
    /// What is said.
    pub content: String,
    /// The speaker's or tool's name, if it has one.
    pub name: Option<String>,
}

impl ChatMessage {
    /// A message without a name.
    pub fn new(role: LlmRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), name: None }
    }

    /// The provider's view of a message of a history.
    pub fn of(message: &LlmMessage) -> Self {
        let name = message.name.clone().filter(|name| !name.is_empty());
        Self { role: message.role, content: message.content.clone(), name }
    }
}

/// What a model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct InferRequest {
    /// The conversation, the system prompt first.
    pub messages: Messages,
    /// The tools that it may call. They are in the system prompt too.
    pub tools: Vec<ToolSpec>,
    /// The task on whose behalf it is asked.
    pub task_id: String,
    /// The session, if the agent keeps conversations.
    pub session_id: Option<String>,
    /// The call's id, the same for every attempt.
    pub call_id: String,
    /// The call's key, the same for every attempt. Few providers honour one.
    pub idempotency_key: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// JSON Schema that the final answer must satisfy, if the part asked for one.
    pub output_schema: Option<JsonText>,
    /// Digest of all that the model is shown, as the call's intent names it.
    pub prompt_digest: Digest,
    /// Takes the answer piece by piece while it comes in.
    pub deltas: Deltas,
}

/// Where a streaming backend says what it has so far. A hint for whoever watches: pieces may be dropped, and only the
/// whole answer is stored.
#[derive(Clone, Default)]
pub struct Deltas(Option<Listener>);

/// Takes the pieces of an answer.
type Listener = Arc<dyn Fn(&str) + Send + Sync>;

impl Deltas {
    /// Tells a listener. For whoever runs backends.
    pub fn to(listener: Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        Self(Some(listener))
    }

    /// Whether anybody listens: a backend need not stream otherwise.
    pub fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    /// Says the next piece of the answer's text.
    pub fn say(&self, piece: &str) {
        if let Some(listener) = &self.0 {
            listener(piece);
        }
    }
}

impl fmt::Debug for Deltas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Deltas").field(&self.is_heard()).finish()
    }
}

/// Who listens is no part of what is asked.
impl PartialEq for Deltas {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferReply {
    /// Its text, an action in JSON if the model does as it is told.
    pub content: String,
    /// What it cost, if the provider says so.
    pub usage: Option<TokenUsage>,
    /// The model that answered, which may differ from the one that was asked for.
    pub model: String,
}

impl InferReply {
    /// As an event keeps it: what was said and who said it. Usage stands beside it.
    pub fn to_json(&self) -> JsonText {
        let fields: JsonObject = [
            ("content".to_owned(), JsonText::string(&self.content)),
            ("model".to_owned(), JsonText::string(&self.model)),
        ]
        .into_iter()
        .collect();
        fields.to_text()
    }

    /// Reads back what an event keeps.
    ///
    /// # Errors
    /// A text that says which field is missing.
    pub fn from_json(json: &JsonText) -> Result<Self, String> {
        let fields: JsonObject = json.read().map_err(|error| error.to_string())?;
        let field = |name: &str| {
            fields
                .get(name)
                .and_then(JsonText::to_str)
                .ok_or_else(|| format!("the reply has no text `{name}`"))
        };
        Ok(Self { content: field("content")?, usage: None, model: field("model")? })
    }
}

/// Which kind of failure a backend reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InferErrorKind {
    /// It may work a moment later: rate limits, overload, timeouts, connections.
    Transient {
        /// When the provider wants to be asked again, if it said so.
        retry_after: Option<Duration>,
    },
    /// The answer was no answer. Counts as a reply that could not be parsed, which the model is told.
    Malformed,
    /// Asking again would not help.
    Failed,
}

/// A backend's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferError {
    /// Which kind.
    pub kind: InferErrorKind,
    /// The error's type, for example `TimeoutError`.
    pub type_name: String,
    /// What went wrong.
    pub message: String,
}

impl InferError {
    /// An error of a kind that the backend knows.
    pub fn new(kind: InferErrorKind, type_name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, type_name: type_name.into(), message: message.into() }
    }

    /// An error of which only type and text are known. Texts of rate limits, overload, timeouts and
    /// connections are passing, `ValueError` is a malformed answer, all else has failed.
    pub fn classify(type_name: impl Into<String>, message: impl Into<String>) -> Self {
        let (type_name, message) = (type_name.into(), message.into());
        let kind = if is_transient_type(&type_name) || is_transient_text(&message) {
            InferErrorKind::Transient { retry_after: None }
        } else if type_name == "ValueError" {
            InferErrorKind::Malformed
        } else {
            InferErrorKind::Failed
        };
        Self::new(kind, type_name, message)
    }

    /// An error that came with an HTTP status: 429 and 5xx pass, and so do the texts of [`Self::classify`].
    pub fn from_status(status: u16, message: impl Into<String>) -> Self {
        let error = Self::classify("HttpStatusError", message);
        if status == 429 || (500..600).contains(&status) {
            let kind = InferErrorKind::Transient { retry_after: None };
            return Self { kind, ..error };
        }
        error
    }

    /// Whether it may work a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, InferErrorKind::Transient { .. })
    }
}

fn is_transient_text(message: &str) -> bool {
    const SIGNS: [&str; 6] = ["rate limit", "429", "overloaded", "timeout", "timed out", "connection"];
    let message = message.to_lowercase();
    SIGNS.iter().any(|sign| message.contains(sign))
}

fn is_transient_type(type_name: &str) -> bool {
    let name = type_name.to_lowercase();
    ["timeout", "ratelimit", "overloaded"].iter().any(|sign| name.contains(sign))
        || name.starts_with("connection")
}

impl fmt::Display for InferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.message.trim().is_empty() { &self.type_name } else { &self.message })
    }
}

impl std::error::Error for InferError {}

/// First wait before a model is asked again.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// Longest wait before a model is asked again, jitter included.
const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// How long to wait before retry `retry` (0 is the first): one second, doubled each time, and up to half of
/// that on top, so that many tasks do not come back at the same moment. `jitter` is from 0 to 1 and comes
/// from outside, because it must be recorded.
pub fn retry_delay(retry: u32, jitter: f64) -> Duration {
    let doubled = RETRY_FIRST.saturating_mul(2_u32.saturating_pow(retry.min(16)));
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
    doubled.min(RETRY_LONGEST).mul_f64(1.0 + jitter / 2.0).min(RETRY_LONGEST)
}

/// How long to wait when a provider said how long: that, and up to a quarter more, so that many tasks do not come back
/// at the same moment. Which part of it follows from the call, not from chance.
pub fn spread_wait(asked: Duration, call_id: &str, attempt: u32) -> Duration {
    let digest = Digest::of_parts(&[call_id.as_bytes(), &attempt.to_be_bytes()]);
    let share = f64::from(digest.0.first().copied().unwrap_or(0)) / 255.0;
    Duration::try_from_secs_f64(asked.as_secs_f64() * (1.0 + share / 4.0)).unwrap_or(asked)
}

/// A model, or something that stands in for one.
pub trait InferBackend: Send + Sync + 'static {
    /// What kind of backend, for logs: `scripted`, `openai-compatible`.
    fn backend(&self) -> &str;

    /// The model that is asked for.
    fn model(&self) -> &str;

    /// What else shapes its answers, such as a temperature: kept in the intent of each inference, under these names, and
    /// part of the prompt's digest. Never a secret, and always the same. `backend`, `model` and `output_schema` stand there
    /// already.
    fn parameters(&self) -> JsonObject {
        JsonObject::new()
    }

    /// Whether it can be asked at all, as far as that is known without asking: a system does not start otherwise.
    ///
    /// # Errors
    /// What is wrong, in words for whoever set it up.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Asks. One call is one attempt: retries are the router's, so that each is in the log. The future is dropped when the
    /// task is canceled or the attempt takes too long: that must end the exchange.
    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_statuses_tell_what_passes() {
        for text in
            ["Rate Limit hit", "error 429", "overloaded_error", "Timed Out", "connection refused", "timeout"]
        {
            assert!(InferError::classify("RuntimeError", text).is_transient(), "{text}");
        }
        for text in ["model down", "RATE-LIMIT", "status 500", "too many requests", ""] {
            assert_eq!(InferError::classify("RuntimeError", text).kind, InferErrorKind::Failed, "{text}");
        }
        assert_eq!(InferError::classify("ValueError", "odd").kind, InferErrorKind::Malformed);
        assert!(InferError::classify("TimeoutError", "x").is_transient());
        for (status, passes) in
            [(400, false), (408, false), (429, true), (500, true), (529, true), (600, false)]
        {
            assert_eq!(InferError::from_status(status, "x").is_transient(), passes, "{status}");
        }
    }

    #[test]
    fn waits_double_and_end_at_thirty_seconds() {
        let seconds = |retry, jitter| retry_delay(retry, jitter).as_secs_f64();
        assert!((seconds(0, 0.0) - 1.0).abs() < 1e-9);
        assert!((seconds(2, 1.0) - 6.0).abs() < 1e-9);
        assert!((seconds(4, 1.0) - 24.0).abs() < 1e-9);
        for (retry, jitter) in [(5, 0.0), (40, 1.0), (u32::MAX, f64::INFINITY)] {
            assert!((seconds(retry, jitter) - 30.0).abs() < 1e-9);
        }
        assert!((seconds(0, f64::NAN) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_wait_that_was_asked_for_is_kept_and_spread() {
        let asked = Duration::from_secs(4);
        let waits: Vec<_> = (1..=20).map(|attempt| spread_wait(asked, "call", attempt)).collect();
        assert!(waits.iter().all(|wait| (asked..=asked * 5 / 4).contains(wait)), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait != spread_wait(asked, "call", 1)), "{waits:?}");
        assert_eq!(spread_wait(asked, "call", 7), spread_wait(asked, "call", 7));
        assert_eq!(spread_wait(Duration::MAX, "call", 1), Duration::MAX);
    }

    #[test]
    fn an_error_without_words_shows_its_type() {
        assert_eq!(InferError::classify("KeyError", " ").to_string(), "KeyError");
    }
}
