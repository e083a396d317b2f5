//! Model backends: the request to a model, its reply, its errors, and the delays before retries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use proto_events::call::TokenUsage;
use proto_events::id::Digest;
use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use taskreel_log::context::estimate_tokens;

use crate::models::message::object;
use crate::models::shown_messages::Messages;
use crate::tools::future::BoxFuture;
use crate::tools::panics::caught;
use crate::tools::registry::ToolSpec;

/// A request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct InferRequest {
    /// The conversation, the system prompt first.
    pub messages: Messages,
    /// The tools that the model may call. They are in the system prompt too.
    pub tools: Vec<ToolSpec>,
    /// The task on whose behalf the model is asked.
    pub task_id: String,
    /// The session, if the agent keeps conversations.
    pub session_id: Option<String>,
    /// The call's id, the same for every attempt.
    pub call_id: String,
    /// The call's key, the same for every attempt. Few providers honour one.
    pub idempotency_key: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// JSON Schema that the final answer must satisfy, if the part asked for one.
    pub output_schema: Option<JsonText>,
    /// The digest of what the prompt was read from, as recorded in the call's intent. Equal prompts of two logs have
    /// other digests.
    pub prompt_digest: Digest,
    /// The receiver of the answer's pieces as they arrive.
    pub deltas: Deltas,
}

/// The receiver of a streaming backend's partial answers: hints, which may be dropped. Only the whole answer is stored.
#[derive(Clone, Default)]
pub struct Deltas(Option<Listener>);
type Listener = Arc<dyn Fn(&str) + Send + Sync>;

impl Deltas {
    /// Passes the pieces to a listener. For code that calls backends.
    pub fn to(listener: Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        Self(Some(listener))
    }

    /// Whether a listener is attached; without one, a backend need not stream.
    pub fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    /// Passes on the next piece of the answer's text.
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

/// All values are equal: the listener is not part of the request.
impl PartialEq for Deltas {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A tool call that a model asks for through its provider's own interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolAsk {
    /// The tool's name, which may be unknown.
    pub tool: String,
    /// The arguments, not checked yet: a string where the model wrote text that is not JSON.
    pub args: JsonText,
    /// The members that the provider attached to the call and takes back with it, for example a thought signature.
    pub provider: JsonObject,
}

impl ToolAsk {
    /// Reads a call as providers write it. The text of the arguments is unchanged; text that is not JSON becomes a
    /// string, which the tool's schema refuses with an error for the model.
    pub fn from_provider(tool: &str, arguments: &str) -> Self {
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
        let args = JsonText::parse(arguments).unwrap_or_else(|_| JsonText::string(arguments));
        Self { tool: tool.to_owned(), args, provider: JsonObject::new() }
    }
}

/// A model's reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InferReply {
    /// The reply's text: an action in JSON if the model follows its instructions, or what it says beside its calls.
    pub content: String,
    /// The tool calls that the model asks for through the provider's own interface, in their order.
    pub calls: Vec<ToolAsk>,
    /// The token usage, if the provider reports it.
    pub usage: Option<TokenUsage>,
    /// The model that answered, which may differ from the requested model.
    pub model: String,
    /// The model's reasoning, if the provider sends it apart from the reply's text. It is not a part of the answer.
    pub reasoning: Option<String>,
    /// The members of the reply's message that the provider takes back with its calls, for example `reasoning_content`.
    pub provider: JsonObject,
    /// Whether the provider ended the reply without a reason, so that it may be cut off.
    pub without_reason: bool,
}

impl InferReply {
    /// Returns the reply as an event stores it: the text, the model, and what else there is. The usage is stored
    /// separately.
    pub fn to_json(&self) -> JsonText {
        let mut fields = JsonObject::new();
        fields.set("content", JsonText::string(&self.content));
        if !self.calls.is_empty() {
            let call = |ask: &ToolAsk| {
                let mut call = JsonObject::new();
                call.set("tool", JsonText::string(&ask.tool));
                call.set("args", ask.args.clone());
                if !ask.provider.is_empty() {
                    call.set("provider", ask.provider.to_text());
                }
                call.to_text()
            };
            fields.set("calls", JsonText::of_model(&self.calls.iter().map(call).collect::<Vec<_>>()));
        }
        fields.set("model", JsonText::string(&self.model));
        if let Some(reasoning) = &self.reasoning {
            fields.set("reasoning", JsonText::string(reasoning));
        }
        if !self.provider.is_empty() {
            fields.set("provider", self.provider.to_text());
        }
        if self.without_reason {
            fields.set("without_reason", JsonText::of_model(&true));
        }
        fields.to_text()
    }

    /// Reads a reply that [`Self::to_json`] wrote.
    ///
    /// # Errors
    /// A text that names the missing field.
    pub fn from_json(json: &JsonText) -> Result<Self, String> {
        let fields: JsonObject = json.read().map_err(|error| error.to_string())?;
        let field = |name: &str| {
            fields
                .get(name)
                .and_then(JsonText::to_str)
                .ok_or_else(|| format!("the reply has no text `{name}`"))
        };
        let calls: Vec<JsonObject> = match fields.get("calls") {
            Some(calls) => calls.read().map_err(|error| format!("`calls` of the reply: {error}"))?,
            None => Vec::new(),
        };
        let call = |call: JsonObject| {
            let tool =
                call.get("tool").and_then(JsonText::to_str).ok_or("a call of the reply has no `tool`")?;
            let args = call.get("args").cloned().unwrap_or_default();
            Ok::<_, String>(ToolAsk { tool, args, provider: object(&call, "provider") })
        };
        let calls = calls.into_iter().map(call).collect::<Result<_, _>>()?;
        Ok(Self {
            content: field("content")?,
            calls,
            usage: None,
            model: field("model")?,
            reasoning: fields.get("reasoning").and_then(JsonText::to_str),
            provider: object(&fields, "provider"),
            without_reason: fields.get("without_reason").is_some_and(|said| said.as_str() == "true"),
        })
    }
}

/// The kind of a backend's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InferErrorKind {
    /// The call may work a moment later: rate limits, overload, timeouts, connections.
    Transient {
        /// The delay that the provider asked for, if any.
        retry_after: Option<Duration>,
    },
    /// The answer is unusable. It counts as a reply that could not be parsed and is reported to the model.
    Malformed,
    /// The call failed, and a retry would not help.
    Failed,
}

/// A backend's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InferError {
    /// The kind of failure.
    pub kind: InferErrorKind,
    /// The error's type, for example `TimeoutError`.
    pub type_name: String,
    /// The error message.
    pub message: String,
    /// The tokens that the provider counted for the failed attempt, if it reports them.
    pub usage: Option<TokenUsage>,
}

impl InferError {
    /// Creates an error of a known kind.
    pub fn new(kind: InferErrorKind, type_name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, type_name: type_name.into(), message: message.into(), usage: None }
    }

    /// Adds the tokens that the provider counted for the failed attempt: they are paid for and count against the
    /// budget.
    #[must_use]
    pub fn with_usage(self, usage: Option<TokenUsage>) -> Self {
        Self { usage, ..self }
    }

    /// Adds the text that came back before the failure. It was paid for: where the provider counts no tokens, the tokens of
    /// the text are estimated. The input is 0 then, which counts as not reported: a budget estimates it as well.
    #[must_use]
    pub fn with_partial(self, text: &str) -> Self {
        let output_tokens = estimate_tokens(&Value::String(text.to_owned()));
        let estimate = (output_tokens > 0).then_some(TokenUsage { input_tokens: 0, output_tokens });
        Self { usage: self.usage.or(estimate), ..self }
    }

    /// Creates an error of which only type and text are known. Texts of rate limits, overload, timeouts and connections
    /// are transient, `ValueError` is a malformed answer, everything else has failed.
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

    /// Creates an error for an HTTP status: 408, 409, 425, 429 and 5xx are transient, all others have failed, whatever their words say.
    pub fn from_status(status: u16, message: impl Into<String>) -> Self {
        let kind = match status {
            408 | 409 | 425 | 429 | 500..600 => InferErrorKind::Transient { retry_after: None },
            _ => InferErrorKind::Failed,
        };
        Self::new(kind, "HttpStatusError", message)
    }

    /// Whether a retry may succeed a moment later.
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

/// The first delay before a retry.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest delay before a retry, jitter included.
const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// Returns the delay before retry `retry` (0 is the first): one second, doubled each time, and up to half of
/// that on top, so that many tasks do not retry at the same moment; 30 s at most. `jitter` is from 0 to 1 and
/// is passed in, because it must be recorded.
pub(crate) fn retry_delay(retry: u32, jitter: f64) -> Duration {
    let doubled = RETRY_FIRST.saturating_mul(2_u32.saturating_pow(retry.min(16)));
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
    doubled.min(RETRY_LONGEST).mul_f64(1.0 + jitter / 2.0).min(RETRY_LONGEST)
}

/// Returns the delay for a provider that asked for one: the requested time and up to a quarter more, so that
/// many tasks do not retry at the same moment. The added share is derived from the call, not from chance.
#[cfg(any(test, feature = "genai", feature = "openai"))]
pub(crate) fn spread_wait(asked: Duration, call_id: &str, attempt: u32) -> Duration {
    let digest = Digest::of_parts(&[call_id.as_bytes(), &attempt.to_be_bytes()]);
    let share = f64::from(digest.0.first().copied().unwrap_or(0)) / 255.0;
    Duration::try_from_secs_f64(asked.as_secs_f64() * (1.0 + share / 4.0)).unwrap_or(asked)
}

/// A model, or a substitute for one.
pub trait InferBackend: Send + Sync + 'static {
    /// Returns the kind of backend, for logs: `scripted`, `openai-compatible`.
    fn backend(&self) -> &str;

    /// Returns the requested model.
    fn model(&self) -> &str;

    /// Returns the other parameters that shape answers, such as a temperature. They are kept in the intent of
    /// each inference under these names, and are part of the prompt's digest. They are constant and never
    /// contain a secret. The names `backend`, `model` and `output_schema` are taken.
    fn parameters(&self) -> JsonObject {
        JsonObject::new()
    }

    /// Whether tools are called through the provider's own interface, so that a reply without an action is the answer.
    fn has_native_tools(&self) -> bool {
        false
    }

    /// Whether images that tools attach are sent to the model, see [`ChatMessage::images`](crate::infer::ChatMessage::images).
    /// Without it a model reads the words that stand for them.
    fn takes_images(&self) -> bool {
        false
    }

    /// Returns the most tools that the provider takes in one request, if that is known: an agent with more does not start.
    fn tools_max(&self) -> Option<usize> {
        None
    }

    /// Checks, without sending a request, whether the backend is usable; if not, the system does not start.
    ///
    /// # Errors
    /// A description of the fault, for the person who configured the backend.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Sends a request to the model. One call is one attempt: the router makes the retries, so that each is
    /// in the log. The future is dropped when the task is canceled or the attempt takes too long; dropping it
    /// must end the exchange.
    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>>;
}

/// A model with what it says of itself. It is asked once, when it is registered: its code never runs where
/// actors decide.
#[derive(Clone)]
pub(crate) struct KnownBackend {
    pub(crate) code: Arc<dyn InferBackend>,
    /// The kind of backend.
    pub(crate) name: String,
    pub(crate) model: String,
    pub(crate) parameters: JsonObject,
    /// Whether a reply that is not an action is the answer.
    pub(crate) may_talk: bool,
    pub(crate) takes_images: bool,
}

impl KnownBackend {
    /// Asks a model for what it says of itself.
    ///
    /// # Errors
    /// A text that names the model, as far as it said its name, if its code panics.
    pub(crate) fn from_backend(code: Arc<dyn InferBackend>) -> Result<Self, String> {
        let names = caught(|| (code.backend().to_owned(), code.model().to_owned()));
        let (name, model) =
            names.map_err(|panic| format!("the model panicked when it was asked for its name: {panic}"))?;
        let facts = caught(|| (code.parameters(), code.has_native_tools(), code.takes_images()));
        let (parameters, may_talk, takes_images) = facts.map_err(|panic| {
            format!("the model {name}/{model}: it panicked when it was registered: {panic}")
        })?;
        Ok(Self { code, name, model, parameters, may_talk, takes_images })
    }

    /// Returns the name under which calls record it.
    pub(crate) fn target(&self) -> String {
        format!("{}/{}", self.name, self.model)
    }
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
            [(400, false), (404, false), (408, true), (429, true), (500, true), (529, true), (600, false)]
        {
            for words in ["x", "14291 tokens", "connection timed out"] {
                assert_eq!(InferError::from_status(status, words).is_transient(), passes, "{status}");
            }
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
