//! The loop of an `infer` part, as a subscriber sees it: its steps, its model calls, the pieces of their
//! answers, the actions that they ask for, the tools that are called.

use proto_events::call::{Call, CallEvent, CallKind, CallRequested, FailureClass, TokenUsage};
use proto_events::json;
use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use proto_events::model::BudgetUsage;

use crate::grammar::action::{Action, Reply};
use crate::models::backend::InferReply;
use crate::protolink::stream::event::{TaskStreamPayload, boolean, event_id, number, object, text_or_null};
use crate::protolink::stream::fold::Fold;
use crate::protolink::stream::resume::Pieces;
use crate::run::notes;
use crate::run::notes::PARSE_ATTEMPTS_MAX;
use crate::run::reply_reading::{PartReading, ReplyReading};
use crate::run::settled_actions::SettledActions;

impl Fold {
    /// Handles an event of an inference.
    pub(crate) fn inference(&mut self, event: &CallEvent) {
        match event {
            CallEvent::Requested(request) => self.step(request),
            CallEvent::Dispatched { call_id, attempt, cause, .. } => {
                self.start_attempt(call_id, *attempt, cause);
            }
            CallEvent::Succeeded { call_id, attempt, result, usage } => {
                self.answered(call_id, *attempt, result, *usage);
            }
            // Another inference takes its place.
            CallEvent::Failed { failure, .. } if failure.class == FailureClass::Superseded => {}
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

    /// Reports the beginning of a step, with what the model is about to be shown.
    fn step(&mut self, request: &CallRequested) {
        let (part, step) = (request.origin.part, Some(request.origin.step));
        let after = self.usage(part);
        let before = BudgetUsage { llm_calls: after.llm_calls.saturating_sub(1), ..after };
        self.warn(part, &before);
        self.llm("llm_step", step, JsonObject::new());
        self.llm("context_prepared", step, object([("manifest", self.manifest(request))]));
        self.warn(part, &after);
        let mut metadata = model_fields(request);
        metadata.set("manifest", self.manifest(request));
        metadata.set("context", context(None));
        self.llm("llm_context", step, metadata);
    }

    /// Reports that an attempt is sent. Pieces of an earlier, failed attempt are withdrawn.
    fn start_attempt(&mut self, call_id: &str, attempt: u32, cause: &str) {
        let Some(request) = self.request(call_id) else { return };
        let step = Some(request.origin.step);
        if attempt == 1 {
            let mut metadata = model_fields(&request);
            metadata.set("streaming", boolean(true));
            metadata.set("manifest", self.manifest(&request));
            self.llm("llm_call_started", step, metadata);
        }
        let resumed = self.resumed.as_ref().and_then(|told| told.of_attempt(call_id, attempt));
        let pieces = resumed.unwrap_or_else(|| Pieces::new(attempt));
        let told = pieces.told_answer(call_id);
        let before = self.pieces.insert(call_id.to_owned(), pieces);
        if before.is_some_and(|before| before.bytes > 0) {
            self.told = Some(told);
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
            self.push_with_id(id, metadata, self.llm_payload("llm_retry", step));
        }
    }

    /// Reports a piece of an answer, if it is the next one. After a gap no piece is reported until the answer
    /// is complete.
    pub(crate) fn piece(&mut self, call_id: &str, attempt: u32, at: usize, text: &str) {
        let Some(step) = self.request(call_id).map(|request| request.origin.step) else { return };
        let pieces = self.pieces.entry(call_id.to_owned()).or_default();
        if pieces.attempt != attempt || pieces.bytes != at || text.is_empty() {
            return;
        }
        pieces.add(text);
        self.told = Some(pieces.told_answer(call_id));
        self.chunk(call_id, attempt, step, at, text, JsonObject::new());
    }

    fn chunk(&mut self, call_id: &str, attempt: u32, step: u32, at: usize, text: &str, metadata: JsonObject) {
        let (from, to) = (at.to_be_bytes(), (at + text.len()).to_be_bytes());
        let stream = self.stream.as_str().as_bytes();
        let id = event_id(&[stream, call_id.as_bytes(), &attempt.to_be_bytes(), &from, &to]);
        let mut payload = self.llm_payload("llm_chunk", Some(step));
        if let TaskStreamPayload::Llm { content, .. } = &mut payload {
            *content = Some(text.to_owned());
        }
        self.push_with_id(id, metadata, payload);
    }

    /// Reports a complete answer: the text not reported yet, its cost, and the action it asks for.
    fn answered(&mut self, call_id: &str, attempt: u32, result: &JsonText, usage: Option<TokenUsage>) {
        let Some(request) = self.request(call_id) else { return };
        let reply = InferReply::from_json(result).ok();
        let content = reply.as_ref().map(|reply| reply.content.as_str()).unwrap_or_default();
        self.rest_of(call_id, attempt, request.origin.step, content);
        let reading = self.reading(&request);
        match &reading.last {
            ReplyReading::Malformed(error) | ReplyReading::Unfit(error) => {
                self.unreadable(&request, error);
                return;
            }
            ReplyReading::TextCall => {
                self.unreadable(&request, notes::text_call());
                return;
            }
            _ => {}
        }
        self.measured(&request, reply.as_ref(), usage);
        let step = Some(request.origin.step);
        if let ReplyReading::Calls { calls, .. } = &reading.last {
            for call in calls {
                let action = call.action();
                let payload = JsonText::from(Reply { thought: None, action: action.clone() }.to_json());
                let fields = [("action", JsonText::string(action.kind())), ("payload", payload)];
                self.llm("llm_action", step, object(fields));
            }
            return;
        }
        let (action, payload) = match &reading.last {
            ReplyReading::Action { action, .. } => (action.kind(), self.payload(content, Some(action))),
            ReplyReading::AgentCall { agent, what, .. } => {
                let action = Action::AgentCall { agent: agent.clone(), what: what.clone() };
                (action.kind(), self.payload("", Some(&action)))
            }
            ReplyReading::Answer { output, .. } => {
                let action = Action::Final { content: words(output) };
                (action.kind(), self.payload(content, Some(&action)))
            }
            ReplyReading::Repeated(kind) => (*kind, self.payload(content, None)),
            _ => return,
        };
        let metadata = object([("action", JsonText::string(action)), ("payload", payload)]);
        self.llm("llm_action", step, metadata.clone());
        match &reading.last {
            ReplyReading::Repeated(_) => {
                let mut metadata = metadata;
                metadata.set("reason", JsonText::string("duplicate_action"));
                self.llm("llm_retry", step, metadata);
            }
            ReplyReading::Answer { output, .. } => {
                let mut payload = self.llm_payload("llm_final", step);
                if let TaskStreamPayload::Llm { content, last, .. } = &mut payload {
                    (*content, *last) = (Some(words(output)), true);
                }
                self.push(JsonObject::new(), payload);
            }
            _ => {}
        }
    }

    /// Reports the missing rest of an answer: all of it, even if that is nothing, if no piece arrived. An answer
    /// that does not begin with its own pieces replaces them.
    fn rest_of(&mut self, call_id: &str, attempt: u32, step: u32, content: &str) {
        let pieces = self.pieces.remove(call_id).filter(|pieces| pieces.attempt == attempt);
        let pieces = pieces.unwrap_or_else(|| Pieces::new(attempt));
        let mut whole = Pieces::new(attempt);
        whole.add(content);
        self.told = Some(whole.told_answer(call_id));
        match pieces.unseen_text(content) {
            Some("") if pieces.bytes > 0 => {}
            Some(rest) => self.chunk(call_id, attempt, step, pieces.bytes, rest, JsonObject::new()),
            None => {
                let replaces = object([("replaces", boolean(true))]);
                self.chunk(call_id, attempt, step, 0, content, replaces);
            }
        }
    }

    /// Reports the duration and the cost of a model call.
    fn measured(&mut self, request: &CallRequested, reply: Option<&InferReply>, usage: Option<TokenUsage>) {
        let step = request.origin.step;
        let is_native = reply.is_some_and(|reply| !reply.calls.is_empty());
        let sent = self.sent.get(&request.call_id).copied().unwrap_or_else(|| self.now());
        let latency = number(self.now().millis_since(sent));
        let mut metrics = model_fields(request);
        metrics.set("latency_ms", latency.clone());
        metrics.set("usage", tokens(usage));
        metrics.set("context", context(usage));
        metrics.set("cost", JsonText::null());
        metrics.set("streaming", boolean(true));
        metrics.set("native", boolean(is_native));
        self.llm("llm_call_metrics", Some(step), metrics.clone());
        self.warn(request.origin.part, &self.usage(request.origin.part));
        let mut whole = object([("step", number(u64::from(step)))]);
        whole.merge(&metrics);
        let mut completed = model_fields(request);
        completed.set("latency_ms", latency);
        completed.set("streaming", boolean(true));
        completed.set("native", boolean(is_native));
        completed.set("metrics", whole.to_text());
        completed.set("budget", self.used(request.origin.part));
        self.llm("llm_call_completed", Some(step), completed);
        let model = text_or_null(reply.map(|reply| reply.model.as_str()));
        let response = object([
            ("streaming", boolean(true)),
            ("native", boolean(is_native)),
            ("metadata", object([("model", model), ("usage", tokens(usage))]).to_text()),
            ("metrics", whole.to_text()),
        ]);
        self.llm("llm_response", Some(step), response);
    }

    /// Reports that the reply is not an action; the model receives this error.
    fn unreadable(&mut self, request: &CallRequested, error: &str) {
        let failures = self.reading(request).malformed_in_a_row;
        let metadata = object([
            ("message", JsonText::string(error)),
            ("parse_failures", number(u64::from(failures))),
            ("retry_count", number(u64::from(failures))),
            ("recoverable", boolean(failures < PARSE_ATTEMPTS_MAX)),
        ]);
        self.llm("llm_parse_error", Some(request.origin.step), metadata);
    }

    /// Returns the reply as the object that the model should have written.
    pub(crate) fn payload(&self, content: &str, action: Option<&Action>) -> JsonText {
        let read = self.agent.parse_reply(content).ok();
        let made = || action.map(|action| Reply { thought: None, action: action.clone() });
        read.or_else(made).map_or_else(JsonText::null, |reply| JsonText::from(reply.to_json()))
    }

    /// Reads the replies of the part up to this one.
    pub(crate) fn reading(&self, request: &CallRequested) -> PartReading {
        let is_current = request.origin.run == self.task.runs();
        let settled = SettledActions::new(&self.task, request.origin.part);
        let settled = if is_current { settled } else { SettledActions::default() };
        PartReading::of_calls(&self.agent, self.task.calls(), &self.inferences(request), settled)
    }

    /// Returns the inferences of the part up to this one, oldest first.
    fn inferences(&self, request: &CallRequested) -> Vec<&Call> {
        let of_part = self.task.calls().of_part(request.origin.run, request.origin.part);
        of_part.filter(|call| call.request.kind == CallKind::Infer).collect()
    }

    pub(crate) fn request(&self, call_id: &str) -> Option<CallRequested> {
        Some(self.task.calls().get(call_id)?.request.clone())
    }

    /// Returns what the model is shown, as the intent names it.
    fn manifest(&self, request: &CallRequested) -> JsonText {
        let mut manifest = object([("agent_name", JsonText::string(&self.agent.name))]);
        manifest.merge(&model_fields(request));
        if let Some(prompt) = &request.prompt {
            manifest.merge(&object([
                ("session_id", text_or_null(prompt.session.as_deref())),
                ("messages", number(u64::from(prompt.messages))),
                ("read_to", number(prompt.read_through.0)),
                ("digest", JsonText::string(&prompt.digest.to_string())),
                ("renderer", number(u64::from(prompt.renderer))),
            ]));
        }
        manifest.to_text()
    }

    pub(crate) fn llm(&mut self, kind: &'static str, step: Option<u32>, metadata: JsonObject) {
        let payload = self.llm_payload(kind, step);
        self.push(metadata, payload);
    }

    fn llm_payload(&self, kind: &'static str, step: Option<u32>) -> TaskStreamPayload {
        let agent = self.agent.name.clone();
        TaskStreamPayload::Llm { agent, kind: kind.into(), step, content: None, last: false }
    }
}

/// Returns provider and model.
fn model_fields(request: &CallRequested) -> JsonObject {
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

/// Returns the used part of the model's window, whose size is unknown.
fn context(usage: Option<TokenUsage>) -> JsonText {
    let used = usage.map_or(Value::Null, |usage| usage.input_tokens.into());
    JsonText::from(json!({"used_tokens": used, "window_tokens": null}))
}

/// Returns an answer as text: its own, or its JSON.
fn words(output: &JsonText) -> String {
    output.to_str().unwrap_or_else(|| output.to_string())
}
