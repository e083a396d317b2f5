//! Answers: assembled from one JSON document or from the pieces of a stream, then interpreted.

use proto_events::call::TokenUsage;
use proto_events::json::{JsonMap, JsonObject, JsonText, JsonValue as Value};

use crate::lenient_json::{ends_in_half, joined, repaired_piece};
use crate::models::backend::{InferError, InferErrorKind, InferReply, ToolAsk};
use crate::models::providers::common::{Names, end_reason, failed_end, is_token_limit, passing};
use crate::models::providers::openai::native_calls::{EntryPlace, NativeCalls};

/// The members in which servers send the reasoning of a model.
const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];

/// The parts of an answer received so far.
#[derive(Debug, Default)]
pub(crate) struct PartialAnswer {
    content: String,
    /// The choice whose text counts: the first one that has any.
    speaker: Option<u64>,
    refusal: String,
    reasoning: String,
    /// The member in which the reasoning came.
    reasoning_member: &'static str,
    /// Pieces of reasoning in a form of the provider's own.
    reasoning_details: Vec<Value>,
    calls: NativeCalls,
    finish: Option<String>,
    usage: Option<TokenUsage>,
    model: Option<String>,
    has_choice: bool,
    /// The end of what was told, which may be half a character.
    held: String,
}

impl PartialAnswer {
    /// Adds a whole answer or a piece of one. Returns the text in it.
    pub(crate) fn accept_json(&mut self, json: &Value) -> Result<String, InferError> {
        if let Some(error) = json.get("error").filter(|error| !error.is_null()) {
            return Err(read_error(error));
        }
        if is_bare_error(json) {
            return Err(read_error(json));
        }
        let groq = json.get("x_groq").and_then(|own| own.get("usage"));
        if let Some(usage) = json.get("usage").and_then(usage).or_else(|| groq.and_then(usage)) {
            self.usage = Some(usage);
        }
        let model = json.get("model").and_then(Value::as_str).filter(|model| !model.is_empty());
        if let (None, Some(model)) = (&self.model, model) {
            self.model = Some(model.to_owned());
        }
        let choices = json.get("choices").and_then(Value::as_array);
        let mut said = String::new();
        for (at, choice) in (0_u64..).zip(choices.into_iter().flatten()) {
            // Several choices are not requested: where they come, they are parts of one reply.
            let number = choice.get("index").and_then(Value::as_u64).unwrap_or(at);
            said.push_str(&self.take_choice(number, choice)?);
        }
        Ok(self.tell(&said))
    }

    fn take_choice(&mut self, number: u64, choice: &Value) -> Result<String, InferError> {
        if let Some(error) = choice.get("error").filter(|error| !error.is_null()) {
            return Err(read_error(error));
        }
        let message = ["delta", "message"].into_iter().find_map(|key| choice.get(key)?.as_object());
        let mut said = String::new();
        if let Some(message) = message {
            self.has_choice = true;
            said = text_of(message.get("content"));
            if !said.is_empty() && *self.speaker.get_or_insert(number) != number {
                said.clear();
            }
            self.content.push_str(&said);
            self.refusal.push_str(&text_of(message.get("refusal")));
            self.take_reasoning(message);
            self.take_calls(number, message)?;
        }
        let finish = choice.get("finish_reason").and_then(Value::as_str).and_then(end_reason);
        // A failure of one choice is a failure of the reply.
        if let Some(finish) = finish
            && self.finish.as_deref().and_then(failed_end).is_none()
        {
            self.finish = Some(finish.to_owned());
        }
        Ok(said)
    }

    fn take_reasoning(&mut self, message: &JsonMap) {
        let found = REASONING.into_iter().find_map(|key| Some((key, message.get(key)?.as_str()?)));
        if let Some((member, piece)) = found {
            self.reasoning_member = member;
            self.reasoning.push_str(piece);
        }
        let details = message.get("reasoning_details").and_then(Value::as_array);
        self.reasoning_details.extend(details.into_iter().flatten().cloned());
    }

    /// Returns what may be told of the text so far: half a character waits for its other half.
    fn tell(&mut self, said: &str) -> String {
        let text = std::mem::take(&mut self.held) + said;
        if ends_in_half(&text) {
            let last = text.char_indices().next_back().map_or(0, |(at, _)| at);
            text.get(last..).unwrap_or_default().clone_into(&mut self.held);
            return joined(text.get(..last).unwrap_or_default());
        }
        joined(&text)
    }

    /// Returns the number of bytes kept so far.
    pub(crate) fn len(&self) -> usize {
        let details = self.reasoning_details.len() * size_of::<Value>();
        self.content.len() + self.refusal.len() + self.reasoning.len() + details + self.calls.len()
    }

    /// Returns all text that the model wrote so far, the arguments of its calls included.
    fn text(&self) -> String {
        let calls = self.calls.iter().map(|call| call.arguments.as_str());
        [self.content.as_str(), self.refusal.as_str()].into_iter().chain(calls).collect()
    }

    /// Adds to an error what came back before it.
    pub(crate) fn before(&self, error: InferError) -> InferError {
        error.with_usage(self.usage).with_partial(&self.text())
    }

    /// Whether the server reported the end of the answer.
    pub(crate) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Whether the server reported what the answer cost.
    pub(crate) fn has_usage(&self) -> bool {
        self.usage.is_some()
    }

    fn take_calls(&mut self, choice: u64, message: &JsonMap) -> Result<(), InferError> {
        let calls = message.get("tool_calls").and_then(Value::as_array);
        calls.into_iter().flatten().try_for_each(|call| self.calls.accept_entry(choice, call))?;
        // The older form, for a single call.
        if let Some(function) = message.get("function_call").filter(|function| function.is_object()) {
            self.calls.add(EntryPlace { choice, index: Some(0) }, "", function)?;
        }
        Ok(())
    }

    /// Returns the members of the reply's message that the provider takes back with its calls.
    fn provider(&self) -> JsonObject {
        let mut provider = JsonObject::new();
        if !self.reasoning.is_empty() {
            provider.set(self.reasoning_member, JsonText::string(&joined(&self.reasoning)));
        }
        if !self.reasoning_details.is_empty() {
            let details = Value::Array(self.reasoning_details.clone());
            provider.set("reasoning_details", JsonText::from(details));
        }
        provider
    }

    /// Returns the reply, or the reason why it is missing.
    pub(crate) fn reply(self, names: &Names, model: &str) -> Result<InferReply, InferError> {
        let error = |kind, name: &str, why: String| Err(self.before(InferError::new(kind, name, why)));
        let malformed = |name: &str, why: String| error(InferErrorKind::Malformed, name, why);
        let failed = |name: &str, why: String| error(InferErrorKind::Failed, name, why);
        if !self.has_choice {
            let why = "the answer of the model's server holds no choice: it may have failed without a word";
            return Err(self.before(passing("EmptyAnswer", why.to_owned(), None)));
        }
        if !self.refusal.trim().is_empty() {
            return failed("Refusal", format!("the model refused: {}", self.refusal.trim()));
        }
        if let Some(error) = self.finish.as_deref().and_then(failed_end) {
            return Err(self.before(error));
        }
        if self.finish.as_deref().is_some_and(is_token_limit) {
            return malformed("LengthLimit", too_long(self.usage));
        }
        let calls = self.calls.completed();
        if calls.iter().any(|call| call.name.is_empty()) {
            return malformed("UnnamedCall", "the model called a tool without naming it".to_owned());
        }
        if calls.is_empty() && self.content.trim().is_empty() && !self.reasoning.trim().is_empty() {
            let why = "the model said nothing but its reasoning; say the answer, or call a function";
            return malformed("OnlyReasoning", why.to_owned());
        }
        let calls = calls.into_iter().map(|call| {
            let is_json = JsonText::parse(&call.arguments).is_ok();
            let mended = (!is_json).then(|| joined(&repaired_piece(&call.arguments)));
            let ask =
                ToolAsk::from_provider(names.tool(&call.name), mended.as_deref().unwrap_or(&call.arguments));
            ToolAsk { provider: call.provider, ..ask }
        });
        Ok(InferReply {
            calls: calls.collect(),
            content: joined(&self.content),
            usage: self.usage,
            reasoning: Some(joined(&self.reasoning)).filter(|reasoning| !reasoning.is_empty()),
            provider: self.provider(),
            without_reason: self.finish.is_none(),
            model: self.model.unwrap_or_else(|| model.to_owned()),
        })
    }
}

fn too_long(usage: Option<TokenUsage>) -> String {
    let spent = usage.map_or_else(String::new, |usage| format!(" after {} tokens", usage.output_tokens));
    format!("the reply was cut off at the token limit{spent}; make it shorter")
}

/// Returns a text, or the joined texts of a list of content parts.
fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}

/// Returns the token counts, if both are exact.
fn usage(usage: &Value) -> Option<TokenUsage> {
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    Some(TokenUsage { input_tokens: count("prompt_tokens")?, output_tokens: count("completion_tokens")? })
}

/// Whether this is an error that does not stand in a member of its own, as some servers send it with status 200.
fn is_bare_error(json: &Value) -> bool {
    let is_named =
        ["object", "type"].iter().any(|key| json.get(key).and_then(Value::as_str) == Some("error"));
    let has = |key: &str| json.get(key).is_some_and(|value| !value.is_null());
    !has("choices") && !has("usage") && (is_named || ["message", "detail"].into_iter().any(has))
}

/// Converts an error that a server reports in an answer of status 200, or in the middle of a stream: the error itself, or
/// an object that holds it.
pub(crate) fn read_error(error: &Value) -> InferError {
    let error = error.get("error").filter(|inner| inner.is_object()).unwrap_or(error);
    let text = |key: &str| error.get(key).and_then(Value::as_str);
    let message = error
        .as_str()
        .or_else(|| text("message"))
        .or_else(|| text("error"))
        .or_else(|| text("detail"))
        .map_or_else(|| error.to_string(), str::to_owned);
    let message = format!("the model's server says: {message}");
    let status = ["raw_status_code", "code", "status", "status_code"];
    let status = status.into_iter().find_map(|key| error.get(key)?.as_u64());
    if let Some(status) = status.and_then(|status| u16::try_from(status).ok()) {
        return InferError::from_status(status, message);
    }
    let kind = text("type").or_else(|| text("code")).unwrap_or("ServerError");
    let passing = ["rate_limit", "overloaded", "server_error", "unavailable", "timeout"];
    if passing.iter().any(|word| kind.contains(word)) {
        return InferError::new(InferErrorKind::Transient { retry_after: None }, kind, message);
    }
    // A `ValueError` of the server does not mean that the model's reply was malformed.
    let told = InferError::classify("ServerError", message);
    InferError { type_name: kind.to_owned(), ..told }
}

#[cfg(test)]
mod tests {
    use proto_events::json;

    use super::*;

    fn read(pieces: &[Value]) -> Result<InferReply, InferError> {
        let mut answer = PartialAnswer::default();
        for piece in pieces {
            answer.accept_json(piece)?;
        }
        answer.reply(&Names::default(), "asked")
    }

    fn delta(delta: &Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta}]})
    }

    fn call(index: Option<u64>, name: Option<&str>, arguments: &str) -> Value {
        json!({"index": index, "function": {"name": name, "arguments": arguments}})
    }

    fn asked(reply: &InferReply) -> Vec<(&str, &str)> {
        reply.calls.iter().map(|ask| (ask.tool.as_str(), ask.args.as_str())).collect()
    }

    #[test]
    fn native_calls_are_kept_in_their_order_and_their_arguments_keep_their_text() {
        let big = r#"{"n": 1180591620717411303424, "x":1.0,"e":1e16 , "z":-0.0}"#;
        let (left, right) = big.split_at(20);
        let reply = read(&[
            delta(&json!({"content": "let me\nsee"})),
            delta(&json!({"tool_calls": [call(Some(0), Some("add"), left)]})),
            delta(&json!({"tool_calls": [call(Some(1), Some("other"), "{}")]})),
            delta(&json!({"tool_calls": [call(Some(0), None, right)]})),
            json!({"choices": [], "usage": {"prompt_tokens": 9_007_199_254_740_993_u64, "completion_tokens": 2}}),
        ])
        .unwrap();
        assert_eq!(
            (reply.content.as_str(), asked(&reply)),
            ("let me\nsee", vec![("add", big), ("other", "{}")])
        );
        assert_eq!(reply.usage.unwrap().input_tokens, 9_007_199_254_740_993);
        assert_eq!(reply.model, "asked");
    }

    #[test]
    fn calls_are_told_apart_where_a_server_numbers_none() {
        let reply = read(&[
            delta(&json!({"tool_calls": [call(None, Some("a"), "{\"n\":")]})),
            delta(&json!({"tool_calls": [call(None, None, "1}")]})),
            delta(&json!({"tool_calls": [call(None, Some("b"), "{}")]})),
            delta(&json!({"tool_calls": [call(None, None, " ")]})),
        ]);
        assert_eq!(asked(&reply.unwrap()), [("a", r#"{"n":1}"#), ("b", "{}")]);
    }

    #[test]
    fn odd_arguments_reach_the_reader_of_actions_as_they_are() {
        for (arguments, expected) in [
            ("", "{}"),
            ("[1]", "[1]"),
            ("{\"a\":", r#""{\"a\":""#),
            ("{},\"type\":\"final\"", r#""{},\"type\":\"final\"""#),
        ] {
            assert_eq!(ToolAsk::from_provider("t\"", arguments).args.as_str(), expected);
        }
        let object = json!({"choices": [{"message": {"tool_calls": [{"function": {"name": "t", "arguments": {"a": 1}}}]}}]});
        assert_eq!(asked(&read(&[object]).unwrap()), [("t", r#"{"a":1}"#)]);
        let old = json!({"choices": [{"message": {"content": null, "function_call": {"name": "t", "arguments": "{}"}}}]});
        assert_eq!(asked(&read(&[old]).unwrap()), [("t", "{}")]);
    }

    #[test]
    fn what_is_no_answer_says_why() {
        let kind = |pieces: &[Value]| {
            let error = read(pieces).unwrap_err();
            (error.type_name.clone(), error.kind)
        };
        let end = |reason: &str| json!({"choices": [{"delta": {"content": "{"}, "finish_reason": reason}]});
        let passing = InferErrorKind::Transient { retry_after: None };
        assert_eq!(kind(&[]), ("EmptyAnswer".to_owned(), passing));
        assert_eq!(kind(&[json!({"choices": []})]), ("EmptyAnswer".to_owned(), passing));
        assert_eq!(kind(&[end("length")]), ("LengthLimit".to_owned(), InferErrorKind::Malformed));
        assert_eq!(kind(&[end("content_filter")]), ("ContentFilter".to_owned(), InferErrorKind::Failed));
        let cut = read(&[end("length")]).unwrap_err().usage;
        assert_eq!(cut, Some(TokenUsage { input_tokens: 0, output_tokens: 1 }), "estimated from what came");
        let refused = delta(&json!({"refusal": "I can't"}));
        assert_eq!(read(&[refused]).unwrap_err().message, "the model refused: I can't");
        assert_eq!(read(&[end("stop")]).unwrap().content, "{");
    }

    #[test]
    fn an_error_in_an_answer_is_classified_by_what_it_says() {
        let kind = |error: Value| {
            let kind = read(&[json!({ "error": error.clone() })]).unwrap_err().kind;
            // A stream may have it under an event's name of its own.
            assert_eq!(read_error(&json!({ "error": error.clone() })).kind, kind);
            assert_eq!(read_error(&json!({ "type": "error", "error": error })).kind, kind);
            kind
        };
        let passing = InferErrorKind::Transient { retry_after: None };
        assert_eq!(kind(json!({"message": "x", "code": 503})), passing);
        assert_eq!(kind(json!({"message": "x", "type": "server_error"})), passing);
        assert_eq!(kind(json!("Overloaded")), passing);
        assert_eq!(
            kind(json!({"message": "no such model", "code": "model_not_found"})),
            InferErrorKind::Failed
        );
        assert_eq!(kind(json!({"odd": 1})), InferErrorKind::Failed);
        assert_eq!(kind(json!({"message": "x", "type": "ValueError"})), InferErrorKind::Failed);
    }

    #[test]
    fn a_failure_beside_the_text_is_no_answer_and_an_end_without_a_reason_is_marked() {
        let text = |choice: Value| json!({"choices": [choice]});
        let failed = text(
            json!({"message": {"content": "I will"}, "finish_reason": "error", "error": {"code": 502, "message": "gone"}}),
        );
        let error = read(&[failed]).unwrap_err();
        assert!(error.is_transient() && error.message.contains("gone"), "{error:?}");
        let word = text(json!({"message": {"content": "Step one"}, "finish_reason": "network_error"}));
        assert!(read(&[word]).unwrap_err().is_transient());
        for (bare, passes) in [
            (json!({"object": "error", "message": "busy", "raw_status_code": 429}), true),
            (json!({"object": "error", "message": "too long", "code": 400}), false),
            (json!({"detail": "no such model"}), false),
        ] {
            let error = read(&[bare]).unwrap_err();
            assert_eq!(
                (error.is_transient(), error.kind == InferErrorKind::Malformed),
                (passes, false),
                "{error:?}"
            );
        }
        let mut answer = PartialAnswer::default();
        answer
            .accept_json(&text(json!({"delta": {"content": "a", "reasoning": "b"}, "finish_reason": ""})))
            .unwrap();
        assert!(!answer.is_finished());
        let reply = answer.reply(&Names::default(), "asked").unwrap();
        assert_eq!((reply.without_reason, reply.reasoning.as_deref()), (true, Some("b")));
        let stored = InferReply::from_json(&reply.to_json()).unwrap();
        assert_eq!(stored, reply);
    }

    #[test]
    fn content_may_come_in_parts_and_counts_only_as_exact_integers() {
        let parts = json!({"model": "m", "choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"text": "b"}, {}]}}],
            "usage": {"prompt_tokens": 1.5, "completion_tokens": 2}});
        let reply = read(&[parts]).unwrap();
        assert_eq!((reply.content.as_str(), reply.model.as_str(), reply.usage), ("ab", "m", None));
    }
}
