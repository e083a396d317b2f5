//! The loop of an `infer` part, as a subscriber is told of it: its steps, its model calls, the pieces of their
//! answers, the actions that they ask for, the tools that run.

use proto_events::call::{Call, CallEvent, CallKind, CallRequested, FailureClass, TokenUsage};
use proto_events::json::{JsonObject, JsonText};
use serde_json::{Value, json};

use super::event::{Tells, boolean, event_id, number, object, text_or_null};
use super::fold::{Fold, Pieces};
use crate::agent::action::{Action, Reply, parse_reply};
use crate::agent::infer::InferReply;
use crate::agent::plan::{Reading, Verdict};
use crate::agent::prompt::PARSE_ATTEMPTS_MAX;

impl Fold {
    /// An event of an inference.
    pub(super) fn inference(&mut self, event: &CallEvent) {
        match event {
            CallEvent::Requested(request) => self.step(request),
            CallEvent::Dispatched { call_id, attempt, cause, .. } => self.asked(call_id, *attempt, cause),
            CallEvent::Succeeded { call_id, attempt, result, usage } => {
                self.answered(call_id, *attempt, result, *usage);
            }
            CallEvent::Failed { call_id, failure, .. } => {
                let Some(request) = self.request(call_id) else { return };
                if failure.class == FailureClass::Rejected {
                    self.unreadable(&request, &failure.message);
                } else {
                    let metadata = object([
                        ("message", JsonText::string(&failure.message)),
                        ("recoverable", boolean(false)),
                    ]);
                    self.llm("llm_error", Some(request.origin.step), metadata);
                }
            }
            _ => {}
        }
    }

    /// A step begins: what is about to be shown to the model.
    fn step(&mut self, request: &CallRequested) {
        let (part, step) = (request.origin.part, Some(request.origin.step));
        self.warn(part, &["max_steps", "max_runtime_seconds"]);
        self.llm("llm_step", step, JsonObject::new());
        self.llm("context_prepared", step, object([("manifest", self.manifest(request))]));
        self.warn(part, &["max_llm_calls", "max_input_tokens"]);
        let mut metadata = whom(request);
        metadata.set("manifest", self.manifest(request));
        metadata.set("context", context(None));
        self.llm("llm_context", step, metadata);
    }

    /// The model is asked. Pieces of an attempt that came to nothing are taken back.
    fn asked(&mut self, call_id: &str, attempt: u32, cause: &str) {
        let Some(request) = self.request(call_id) else { return };
        let step = Some(request.origin.step);
        if attempt == 1 {
            let mut metadata = whom(&request);
            metadata.set("streaming", boolean(true));
            metadata.set("manifest", self.manifest(&request));
            self.llm("llm_call_started", step, metadata);
        }
        let before = self.pieces.insert(call_id.to_owned(), Pieces { attempt, text: String::new() });
        if before.is_some_and(|before| !before.text.is_empty()) {
            let metadata = object([
                ("reason", JsonText::string(cause)),
                ("attempt", number(u64::from(attempt))),
                ("recoverable", boolean(true)),
            ]);
            let id = event_id(&[
                self.stream.as_str().as_bytes(),
                call_id.as_bytes(),
                b"retry",
                &attempt.to_be_bytes(),
            ]);
            self.tell_as(id, metadata, self.llm_tells("llm_retry", step));
        }
    }

    /// A piece of an answer, if it is the next one. Behind a gap nothing is told until the answer is whole.
    pub(super) fn piece(&mut self, call_id: &str, attempt: u32, at: usize, text: &str) {
        let Some(step) = self.request(call_id).map(|request| request.origin.step) else { return };
        let pieces = self.pieces.entry(call_id.to_owned()).or_default();
        if pieces.attempt != attempt || pieces.text.len() != at || text.is_empty() {
            return;
        }
        pieces.text.push_str(text);
        self.chunk(call_id, attempt, step, at, text, JsonObject::new());
    }

    fn chunk(&mut self, call_id: &str, attempt: u32, step: u32, at: usize, text: &str, metadata: JsonObject) {
        let (from, to) = (at.to_be_bytes(), (at + text.len()).to_be_bytes());
        let stream = self.stream.as_str().as_bytes();
        let id = event_id(&[stream, call_id.as_bytes(), &attempt.to_be_bytes(), &from, &to]);
        let mut tells = self.llm_tells("llm_chunk", Some(step));
        if let Tells::Llm { content, .. } = &mut tells {
            *content = Some(text.to_owned());
        }
        self.tell_as(id, metadata, tells);
    }

    /// The answer is whole: what was not told of it yet, what it cost, what it asks for.
    fn answered(&mut self, call_id: &str, attempt: u32, result: &JsonText, usage: Option<TokenUsage>) {
        let Some(request) = self.request(call_id) else { return };
        let reply = InferReply::from_json(result).ok();
        let content = reply.as_ref().map(|reply| reply.content.as_str()).unwrap_or_default();
        self.rest_of(call_id, attempt, request.origin.step, content);
        let reading = Reading::of_calls(&self.agent, &self.inferences(&request));
        if let Verdict::Malformed(error) | Verdict::Unfit(error) = &reading.last {
            self.unreadable(&request, error);
            return;
        }
        self.measured(&request, reply.as_ref(), usage);
        let step = Some(request.origin.step);
        let (action, payload) = match &reading.last {
            Verdict::Action { action, .. } => (action.kind(), self.payload(content, Some(action))),
            Verdict::Answer { output, .. } => {
                let action = Action::Final { content: words(output) };
                (action.kind(), self.payload(content, Some(&action)))
            }
            Verdict::Repeated(kind) => (*kind, self.payload(content, None)),
            _ => return,
        };
        let metadata = object([("action", JsonText::string(action)), ("payload", payload)]);
        self.llm("llm_action", step, metadata.clone());
        match &reading.last {
            Verdict::Repeated(_) => {
                let mut metadata = metadata;
                metadata.set("reason", JsonText::string("duplicate_action"));
                self.llm("llm_retry", step, metadata);
            }
            Verdict::Answer { output, .. } => {
                let mut tells = self.llm_tells("llm_final", step);
                if let Tells::Llm { content, last, .. } = &mut tells {
                    (*content, *last) = (Some(words(output)), true);
                }
                self.tell(JsonObject::new(), tells);
            }
            _ => {}
        }
    }

    /// Hands out what is missing of an answer: all of it, where nothing came in pieces. An answer that does not begin
    /// with its own pieces replaces them.
    fn rest_of(&mut self, call_id: &str, attempt: u32, step: u32, content: &str) {
        let told =
            self.pieces.remove(call_id).filter(|pieces| pieces.attempt == attempt).unwrap_or_default().text;
        match content.strip_prefix(told.as_str()) {
            Some("") => {}
            Some(rest) => self.chunk(call_id, attempt, step, told.len(), rest, JsonObject::new()),
            None => {
                let replaces = object([("replaces", boolean(true))]);
                self.chunk(call_id, attempt, step, 0, content, replaces);
            }
        }
    }

    /// What a model call took and cost.
    fn measured(&mut self, request: &CallRequested, reply: Option<&InferReply>, usage: Option<TokenUsage>) {
        let step = request.origin.step;
        let sent = self.sent.get(&request.call_id).copied().unwrap_or_else(|| self.now());
        let latency = number(self.now().millis_since(sent));
        let mut metrics = whom(request);
        metrics.set("latency_ms", latency.clone());
        metrics.set("usage", tokens(usage));
        metrics.set("context", context(usage));
        metrics.set("cost", JsonText::null());
        metrics.set("streaming", boolean(true));
        metrics.set("native", boolean(false));
        self.llm("llm_call_metrics", Some(step), metrics.clone());
        self.warn(request.origin.part, &["max_output_tokens"]);
        let mut whole = object([("step", number(u64::from(step)))]);
        whole.merge(&metrics);
        let mut completed = whom(request);
        completed.set("latency_ms", latency);
        completed.set("streaming", boolean(true));
        completed.set("native", boolean(false));
        completed.set("metrics", whole.to_text());
        completed.set("budget", self.used(request.origin.part));
        self.llm("llm_call_completed", Some(step), completed);
        let model = text_or_null(reply.map(|reply| reply.model.as_str()));
        let response = object([
            ("streaming", boolean(true)),
            ("native", boolean(false)),
            ("metadata", object([("model", model), ("usage", tokens(usage))]).to_text()),
            ("metrics", whole.to_text()),
        ]);
        self.llm("llm_response", Some(step), response);
    }

    /// The model is told that its reply is no action.
    fn unreadable(&mut self, request: &CallRequested, error: &str) {
        let failures = Reading::of_calls(&self.agent, &self.inferences(request)).malformed_in_a_row;
        let metadata = object([
            ("message", JsonText::string(error)),
            ("parse_failures", number(u64::from(failures))),
            ("retry_count", number(u64::from(failures))),
            ("recoverable", boolean(failures < PARSE_ATTEMPTS_MAX)),
        ]);
        self.llm("llm_parse_error", Some(request.origin.step), metadata);
    }

    /// The reply as the object that the model should have written.
    pub(super) fn payload(&self, content: &str, action: Option<&Action>) -> JsonText {
        let read = parse_reply(content, &self.agent.tools.names(), &self.agent.peers.skills()).ok();
        let made = || action.map(|action| Reply { thought: None, action: action.clone() });
        read.or_else(made).map_or_else(JsonText::null, |reply| JsonText::from(reply.to_json()))
    }

    /// The inferences of the part up to this one, oldest first.
    fn inferences(&self, request: &CallRequested) -> Vec<&Call> {
        let same = |call: &&Call| {
            let origin = &call.request.origin;
            call.request.kind == CallKind::Infer
                && (origin.run, origin.part) == (request.origin.run, request.origin.part)
        };
        self.task.calls().iter().filter(same).collect()
    }

    pub(super) fn request(&self, call_id: &str) -> Option<CallRequested> {
        Some(self.task.calls().get(call_id)?.request.clone())
    }

    /// What the model is shown, as the intent names it.
    fn manifest(&self, request: &CallRequested) -> JsonText {
        let mut manifest = object([("agent_name", JsonText::string(&self.agent.name))]);
        manifest.merge(&whom(request));
        if let Some(prompt) = &request.prompt {
            manifest.merge(&object([
                ("session_id", text_or_null(prompt.session.as_deref())),
                ("messages", number(u64::from(prompt.messages))),
                ("read_to", number(prompt.read_to.0)),
                ("digest", JsonText::string(&prompt.digest.to_string())),
                ("renderer", number(u64::from(prompt.renderer))),
            ]));
        }
        manifest.to_text()
    }

    pub(super) fn llm(&mut self, kind: &'static str, step: Option<u32>, metadata: JsonObject) {
        let tells = self.llm_tells(kind, step);
        self.tell(metadata, tells);
    }

    fn llm_tells(&self, kind: &'static str, step: Option<u32>) -> Tells {
        Tells::Llm { agent: self.agent.name.clone(), kind, step, content: None, last: false }
    }
}

/// Provider and model.
fn whom(request: &CallRequested) -> JsonObject {
    let asked: JsonObject = request.args.read().unwrap_or_default();
    let said = |key| asked.get(key).cloned().unwrap_or_default();
    object([("provider", said("backend")), ("model", said("model"))])
}

fn tokens(usage: Option<TokenUsage>) -> JsonText {
    let Some(TokenUsage { input_tokens, output_tokens }) = usage else {
        return JsonText::from(json!({
            "input_tokens": null, "output_tokens": null, "total_tokens": null, "estimated": false, "source": null,
        }));
    };
    JsonText::from(json!({
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "total_tokens": input_tokens.saturating_add(output_tokens),
        "estimated": false,
        "source": "provider",
    }))
}

/// How much of the model's window is used; how large it is nobody told us.
fn context(usage: Option<TokenUsage>) -> JsonText {
    let used = usage.map_or(Value::Null, |usage| usage.input_tokens.into());
    JsonText::from(json!({"used_tokens": used, "window_tokens": null}))
}

/// An answer as text: its own, or its JSON.
fn words(output: &JsonText) -> String {
    output.to_str().unwrap_or_else(|| output.to_string())
}
