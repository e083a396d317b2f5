//! A model that answers from a script: for tests, for the demo, for trying an agent without a model.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_events::json;
use proto_events::json::{JsonMap, JsonText, JsonValue as Value};
use proto_events::model::LlmRole;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::models::backend::{InferBackend, InferError, InferReply, InferRequest, ToolAsk};
use crate::models::message::{ChatMessage, NativeCall};
use crate::python::{python_json, type_name};
use crate::tools::future::BoxFuture;
use crate::tools::registry::ToolSpec;

/// The number of requests kept for [`Scripted::requests`], and their bytes (16 MiB). When there are more, the oldest are
/// dropped: each request of a long conversation holds all of it, and a script can serve for days.
const REQUESTS_KEPT: usize = 4_096;
const REQUEST_BYTES_KEPT: usize = 16 * 1024 * 1024;

/// An answer of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// A text, returned unchanged.
    Text(String),
    /// Calls asked for through the provider's own interface, and the text beside them.
    Calls {
        /// The text.
        content: String,
        /// The calls, in their order.
        calls: Vec<ToolAsk>,
    },
    /// A failure, see [`InferError::classify`].
    Raise {
        /// The error's type, for example `RuntimeError`.
        type_name: String,
        /// The error message.
        message: String,
    },
}

impl Entry {
    /// Creates an answer that is this JSON object.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Self {
        Self::Text(python_json(&Value::encode(value).unwrap_or_default()))
    }

    /// Reads an entry of a script: a text is an answer, returned unchanged; `{"raise", "message"}` is a
    /// failure; `{"calls": [{"tool", "args"}], "content"}` asks for calls as a provider's own interface does; any
    /// other object is an answer in JSON.
    ///
    /// # Errors
    /// A text that names the type of the unsuitable value.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(Self::Text(text.clone())),
            Value::Object(fields) => Ok(Self::from_fields(fields, value)),
            other => Err(format!(
                "an entry of a script is a text, an action object or {{\"raise\", \"message\"}}, not {}",
                type_name(other)
            )),
        }
    }

    fn from_fields(fields: &JsonMap, value: &Value) -> Self {
        let text = |name| fields.get(name).and_then(Value::as_str);
        if let Some(Value::Array(calls)) = fields.get("calls") {
            let ask = |call: &Value| {
                let tool = call.get("tool").and_then(Value::as_str).unwrap_or_default().to_owned();
                let args = call.get("args").cloned().map_or_else(JsonText::empty_object, JsonText::from);
                ToolAsk { tool, args, ..ToolAsk::default() }
            };
            let content = text("content").unwrap_or_default().to_owned();
            return Self::Calls { content, calls: calls.iter().map(ask).collect() };
        }
        match text("raise") {
            Some(type_name) => Self::Raise {
                type_name: type_name.to_owned(),
                message: text("message").unwrap_or_default().to_owned(),
            },
            None => Self::json(value),
        }
    }

    fn answer(&self, model: &str) -> Result<InferReply, InferError> {
        match self {
            Self::Text(content) => {
                Ok(InferReply { content: content.clone(), model: model.to_owned(), ..InferReply::default() })
            }
            Self::Calls { content, calls } => Ok(InferReply {
                content: content.clone(),
                calls: calls.clone(),
                model: model.to_owned(),
                ..InferReply::default()
            }),
            Self::Raise { type_name, message } => Err(InferError::classify(type_name, message)),
        }
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The rule that selects the next answer.
enum Script {
    /// The answers in order, for all requests.
    InOrder(VecDeque<Entry>),
    /// The answers by the newest user message and the number of steps since then.
    ByPrompt(Vec<(String, Vec<Entry>)>),
}

struct Inner {
    script: Script,
    /// The newest requests, each with its bytes, and the sum of these.
    requests: VecDeque<(InferRequest, usize)>,
    bytes: usize,
}

impl Inner {
    /// Keeps a request, and drops the oldest ones that are too many. The newest one stays, however long it is.
    fn record_request(&mut self, request: InferRequest) {
        let bytes = bytes_of(&request);
        self.bytes = self.bytes.saturating_add(bytes);
        self.requests.push_back((request, bytes));
        while self.requests.len() > 1
            && (self.requests.len() > REQUESTS_KEPT || self.bytes > REQUEST_BYTES_KEPT)
        {
            let dropped = self.requests.pop_front().map_or(0, |(_, bytes)| bytes);
            self.bytes = self.bytes.saturating_sub(dropped);
        }
    }
}

/// Returns about the bytes of memory that a request takes.
fn bytes_of(request: &InferRequest) -> usize {
    let call = |call: &NativeCall| size_of::<NativeCall>() + call.tool.len() + call.args.as_str().len();
    let message = |said: &ChatMessage| {
        size_of::<ChatMessage>() + said.content.len() + said.calls.iter().map(call).sum::<usize>()
    };
    let tools = request.tools.len().saturating_mul(size_of::<ToolSpec>());
    request.messages.iter().map(message).sum::<usize>().saturating_add(tools)
}

/// A model that answers from a script. After the end of the script it answers `script exhausted`, as a final
/// action.
///
/// Clones share the script.
#[derive(Clone)]
pub struct Scripted {
    inner: Arc<Mutex<Inner>>,
    model: Arc<str>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").finish_non_exhaustive()
    }
}

impl Scripted {
    /// Creates a model that answers in the order of the calls. Tasks that run at the same time share the
    /// answers.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> Self {
        Self::from_script(Script::InOrder(entries.into_iter().collect()))
    }

    /// Creates a model that answers by the prompt: the first key that occurs in the newest user message
    /// selects the replies (the empty key matches every message), and the number of steps since that message
    /// selects one of them. The answer is a pure function of the request, so concurrent tasks and a restarted
    /// process get the same answers.
    pub fn by_prompt(replies: impl IntoIterator<Item = (String, Vec<Entry>)>) -> Self {
        Self::from_script(Script::ByPrompt(replies.into_iter().collect()))
    }

    /// Reads a script file: an array of entries as in [`Self::new`], or an object that maps keys to arrays as
    /// in [`Self::by_prompt`].
    ///
    /// # Errors
    /// A description of the fault, with line and column.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let keyed = text.trim_start().starts_with('{');
        let read = if keyed {
            serde_json::from_str::<Keyed>(text).map(|keyed| Self::by_prompt(keyed.0))
        } else {
            serde_json::from_str::<Vec<Entry>>(text).map(Self::new)
        };
        read.map_err(|error| ScriptError(error.to_string()))
    }

    fn from_script(script: Script) -> Self {
        let inner = Inner { script, requests: VecDeque::new(), bytes: 0 };
        Self { inner: Arc::new(Mutex::new(inner)), model: Arc::from("scripted") }
    }

    /// Sets the model's name, so that several scripts can be distinguished in a log; `scripted` by default.
    #[must_use]
    pub fn named(self, model: &str) -> Self {
        Self { model: Arc::from(model), ..self }
    }

    /// Returns the received requests, oldest first: the newest 4,096 of them, and of long ones as many as have 16 MiB
    /// together.
    pub fn requests(&self) -> Vec<InferRequest> {
        self.lock().requests.iter().map(|(request, _)| request.clone()).collect()
    }

    /// Locks the script. No code panics while it holds the lock, and the script stays usable if one ever
    /// does.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, request: InferRequest) -> Entry {
        let mut inner = self.lock();
        let entry = match &mut inner.script {
            Script::InOrder(entries) => entries.pop_front(),
            Script::ByPrompt(replies) => reply_to(replies, &request.messages),
        };
        inner.record_request(request);
        entry.unwrap_or_else(|| Entry::json(&json!({"type": "final", "content": "script exhausted"})))
    }
}

fn reply_to(replies: &[(String, Vec<Entry>)], messages: &[ChatMessage]) -> Option<Entry> {
    let asked = messages.iter().rposition(|message| message.role == LlmRole::User)?;
    let prompt = &messages.get(asked)?.content;
    let (_, entries) = replies.iter().find(|(key, _)| prompt.contains(key.as_str()))?;
    let behind = match messages.get(asked + 1..)? {
        // The result of a call for which an earlier run had waited belongs to the prompt.
        [first, rest @ ..] if is_result(first) => rest,
        behind => behind,
    };
    entries.get(steps_in(behind)).cloned()
}

fn is_result(message: &ChatMessage) -> bool {
    let is_it = |kind: &str| message.content.starts_with(kind);
    message.role == LlmRole::System
        && [r#"{"type": "tool_result""#, r#"{"type": "agent_result""#].into_iter().any(is_it)
}

/// Returns the number of steps of the loop that left these messages. Each step leaves an assistant message
/// and its answer, or a note alone if the reply was not an action or repeated one.
fn steps_in(messages: &[ChatMessage]) -> usize {
    let mut previous_assistant = false;
    let mut steps = 0;
    for message in messages {
        let assistant = message.role == LlmRole::Assistant;
        steps += usize::from(assistant || !previous_assistant);
        previous_assistant = assistant;
    }
    steps
}

/// A script file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the script is not usable: {0}; it is a JSON array of replies, or an object of such arrays by prompt"
)]
pub struct ScriptError(String);

/// The keys in the order of the file, because the first match counts.
struct Keyed(Vec<(String, Vec<Entry>)>);

impl<'de> Deserialize<'de> for Keyed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> serde::de::Visitor<'de> for Pairs {
            type Value = Keyed;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of arrays of replies")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Keyed, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Keyed(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

impl InferBackend for Scripted {
    fn backend(&self) -> &'static str {
        "scripted"
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let answer = self.next(request).answer(self.model());
        Box::pin(std::future::ready(answer))
    }
}

#[cfg(test)]
mod tests {
    use proto_events::id::Digest;

    use super::*;
    use crate::models::backend::{Deltas, InferErrorKind};

    fn request(said: &[(LlmRole, &str)]) -> InferRequest {
        InferRequest {
            messages: said.iter().map(|(role, text)| ChatMessage::new(*role, *text)).collect(),
            tools: Vec::new(),
            task_id: "t".to_owned(),
            session_id: None,
            call_id: "c".to_owned(),
            idempotency_key: "k".to_owned(),
            attempt: 1,
            output_schema: None,
            prompt_digest: Digest::default(),
            deltas: Deltas::default(),
        }
    }

    async fn ask(model: &Scripted, said: &[(LlmRole, &str)]) -> Result<String, InferErrorKind> {
        let answer = model.infer(request(said)).await;
        answer.map(|reply| reply.content).map_err(|error| error.kind)
    }

    #[tokio::test]
    async fn a_script_answers_in_order_and_then_says_that_it_ended() {
        let model = Scripted::from_json(
            r#"[{"type": "final","content":"a","n":1.50}, " verbatim ",
                {"raise":"RuntimeError","message":"down"}, {"raise":"ValueError","message":"odd"}]"#,
        )
        .unwrap();
        let hi = [(LlmRole::User, "hi")];
        assert_eq!(ask(&model, &hi).await.unwrap(), r#"{"type": "final", "content": "a", "n": 1.50}"#);
        assert_eq!(ask(&model, &hi).await.unwrap(), " verbatim ");
        assert_eq!(ask(&model, &hi).await, Err(InferErrorKind::Failed));
        assert_eq!(ask(&model, &hi).await, Err(InferErrorKind::Malformed));
        assert_eq!(ask(&model, &hi).await.unwrap(), r#"{"type": "final", "content": "script exhausted"}"#);
        assert_eq!(model.requests().len(), 5);
    }

    #[tokio::test]
    async fn a_keyed_script_answers_by_the_newest_question_and_the_steps_since() {
        use LlmRole::{Assistant, System, User};
        let model = Scripted::from_json(r#"{"Oslo":["o1","o2","o3"], "": ["any"]}"#).unwrap();
        let oslo = [(System, "s"), (User, "old"), (Assistant, "x"), (User, "in Oslo?")];
        for _ in 0..2 {
            assert_eq!(ask(&model, &oslo).await.unwrap(), "o1");
        }
        let mut later = oslo.to_vec();
        later.extend([(Assistant, "o1"), (System, "result")]);
        assert_eq!(ask(&model, &later).await.unwrap(), "o2");
        later.push((System, "you did that already"));
        assert_eq!(ask(&model, &later).await.unwrap(), "o3");
        assert_eq!(ask(&model, &[(User, "Rome")]).await.unwrap(), "any");
        assert!(ask(&model, &[(System, "s")]).await.unwrap().contains("exhausted"));
    }

    #[tokio::test]
    async fn a_long_conversation_keeps_a_bounded_number_of_bytes_and_its_newest_request() {
        let model = Scripted::new([]);
        let text = "x".repeat(64 * 1024);
        let mut said = Vec::new();
        for turn in 1..200 {
            said.push((LlmRole::User, text.as_str()));
            model.infer(request(&said)).await.unwrap();
            let kept = model.requests();
            let bytes: usize =
                kept.iter().flat_map(|request| &request.messages).map(|m| m.content.len()).sum();
            assert!(bytes <= REQUEST_BYTES_KEPT && kept.last().unwrap().messages.len() == turn, "{bytes}");
        }
        model.infer(request(&[(LlmRole::User, &"y".repeat(2 * REQUEST_BYTES_KEPT))])).await.unwrap();
        assert_eq!(model.requests().len(), 1);
        model.infer(request(&said[..1])).await.unwrap();
        assert_eq!(model.requests().len(), 1);
    }

    #[test]
    fn a_script_that_cannot_be_read_is_told_with_line_and_column() {
        let error = Scripted::from_json("[\"a\",\n 5]").unwrap_err().to_string();
        assert!(error.contains("not int") && error.contains("line 2"), "{error}");
        let error = Scripted::from_json("[\"a\",\n").unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
        assert!(Scripted::from_json("{\"a\":\"b\"}").is_err());
        assert!(Scripted::from_json("5").is_err());
    }
}
