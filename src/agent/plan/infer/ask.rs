//! Asking the model: the intent, which names what the model is shown, and the request itself.

use std::sync::Arc;

use proto_events::call::{Call, CallKind, CallOrigin, CallRequested, PromptRef, Recovery};
use proto_events::id::{Digest, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{LlmMessage, LlmRole, Part};
use proto_events::task::Task;
use proto_events::turn::{TurnMessage, chain};

use super::super::{At, Progress, Question, Seat, Step, idempotency_key, millis, start};
use super::spent::{About, within_budget};
use crate::agent::Agent;
use crate::agent::infer::{ChatMessage, Deltas, InferBackend, InferRequest};
use crate::agent::messages::Messages;
use crate::agent::prompt::{self, PromptParts, RENDERER_VERSION};
use crate::agent::registry::tools_digest;

/// The next inference: budget first, then intent and dispatch in one append.
pub(super) fn model(question: &mut Question<'_>, at: At, part: &Part, before: &[&Call]) -> Progress {
    if let Err(exceeded) = within_budget(question, at, About::Inference(part)) {
        return Progress::Fatal(exceeded);
    }
    let step = u32::try_from(before.len()).unwrap_or(u32::MAX).saturating_add(1);
    let Some(backend) = &question.agent.backend else {
        return Progress::Next(Step::Wait);
    };
    let args = parameters(backend.as_ref(), part);
    let call_id = question.mint.id("call_");
    let request = CallRequested {
        idempotency_key: idempotency_key(question.stream, &call_id),
        call_id: call_id.clone(),
        kind: CallKind::Infer,
        target: format!("{}/{}", backend.backend(), backend.model()),
        args_digest: Digest::of(args.as_str().as_bytes()),
        prompt: Some(prompt_ref(question, at, &args)),
        args,
        recovery: Recovery::Reissue,
        recovery_source: "inference".to_owned(),
        timeout_ms: millis(question.agent.infer_policy.attempt_timeout()),
        max_attempts: question.agent.infer_policy.attempts_max(),
        retry_errors: false,
        window_ms: None,
        deadline: question.run_until,
        capabilities: Vec::new(),
        approval: None,
        origin: CallOrigin {
            run: question.task.runs(),
            part: at,
            step,
            infer_call: None,
            part_call_id: None,
        },
    };
    Progress::Next(Step::Do(start(question, request)))
}

/// The schema that a part asks for; none where it says null.
pub(super) fn output_schema(part: &Part) -> Option<JsonText> {
    part.as_infer().ok().map(|asked| asked.output_schema).filter(|schema| !schema.is_null())
}

/// What an intent says of the question beside its messages: who is asked, and how.
fn parameters(backend: &dyn InferBackend, part: &Part) -> JsonText {
    let mut said = JsonObject::new();
    said.set("backend", JsonText::string(backend.backend()));
    said.set("model", JsonText::string(backend.model()));
    for (name, value) in backend.parameters().iter().filter(|(name, _)| !OWN_PARAMETERS.contains(name)) {
        said.set(name, value.clone());
    }
    if let Some(schema) = output_schema(part) {
        said.set("output_schema", schema);
    }
    said.to_text()
}

/// Names that the intent gives itself.
const OWN_PARAMETERS: [&str; 3] = ["backend", "model", "output_schema"];

/// The schema that an intent names.
pub(super) fn schema_in(args: &JsonText) -> Option<JsonText> {
    args.read::<JsonObject>().ok()?.get("output_schema").cloned()
}

/// Names what the model will be shown: a digest that grows with the new messages, never a copy.
fn prompt_ref(question: &Question<'_>, at: At, parameters: &JsonText) -> PromptRef {
    let tools = tools_digest(question.agent.tools.specs());
    let system = system_message(question.agent, question.task, question.seat, schema_in(parameters).as_ref());
    let start = Digest::of_parts(&[
        &RENDERER_VERSION.to_be_bytes(),
        &tools.0,
        parameters.as_str().as_bytes(),
        system.as_bytes(),
        &question.seat.map_or(Digest::default(), |seat| seat.session.digest()).0,
    ]);
    let turn = shown(question.task, question.seat, at);
    let digest = turn.iter().fold(start, |digest, message| chain(digest, &message.message));
    let history = question.seat.map_or(0, |seat| body(seat).len());
    PromptRef {
        session: question.seat.map(|seat| seat.stream.to_string()),
        read_to: question.seat.map_or(Version(0), |seat| seat.version),
        messages: u32::try_from(1 + history + turn.len()).unwrap_or(u32::MAX),
        digest,
        renderer: RENDERER_VERSION,
        tools,
    }
}

/// The leading system message for this task, as our own renderer writes it.
pub(super) fn system_prompt(agent: &Agent, task: &Task) -> String {
    let hint = task.flow_state().read::<JsonObject>().ok().and_then(|flow| flow.get("prompt")?.to_str());
    let (tools, agents) = (agent.tools.specs(), agent.peers.lines());
    prompt::system_prompt(&PromptParts {
        tools: &tools,
        agents: &agents,
        user_prompt: agent.system_prompt.as_deref(),
        flow_hint: hint.as_deref(),
    })
}

/// The leading system message as it is sent: the turn's own, the history's, or a fresh one, and the schema of the
/// answer where the part asks for one.
pub(super) fn system_message(
    agent: &Agent,
    task: &Task,
    seat: Option<Seat<'_>>,
    schema: Option<&JsonText>,
) -> String {
    let kept = seat.and_then(|seat| {
        let fresh = seat.session.open_turn().and_then(|open| open.system_prompt.as_ref());
        let history = seat.session.history().as_slice();
        fresh.or_else(|| history.first().filter(|first| first.role == LlmRole::System))
    });
    let text = kept.map_or_else(|| system_prompt(agent, task), |message| message.content.clone());
    match schema {
        Some(schema) => prompt::with_output_schema(&text, schema),
        None => text,
    }
}

/// The committed history without its leading system message.
pub(super) fn body(seat: Seat<'_>) -> &[LlmMessage] {
    match seat.session.history().as_slice() {
        [first, rest @ ..] if first.role == LlmRole::System => rest,
        all => all,
    }
}

/// The messages of the turn that the model is shown: in a conversation all of the run's, else only those of
/// the part itself.
pub(super) fn shown<'a>(task: &'a Task, seat: Option<Seat<'a>>, at: At) -> Vec<&'a TurnMessage> {
    match seat {
        Some(seat) => seat.session.open_turn().map_or(&[][..], |open| open.turn.messages()).iter().collect(),
        None => task.turn().messages().iter().filter(|message| message.part == at).collect(),
    }
}

/// What the backend is sent for an attempt of this inference.
pub fn infer_request(
    agent: &Agent,
    task: &Task,
    seat: Option<Seat<'_>>,
    call: &CallRequested,
    attempt: u32,
) -> InferRequest {
    let output_schema = schema_in(&call.args);
    let text = system_message(agent, task, seat, output_schema.as_ref());
    let system = ChatMessage::new(LlmRole::System, text);
    let history = seat.map(|seat| Arc::clone(seat.session.history()));
    let turn = shown(task, seat, call.origin.part);
    let turn = turn.iter().map(|message| ChatMessage::of(&message.message)).collect();
    let messages = Messages::of(system, history, turn);
    InferRequest {
        messages,
        tools: agent.tools.specs().into_iter().cloned().collect(),
        task_id: task.id().to_owned(),
        session_id: seat.map(|seat| seat.session.id().to_owned()),
        call_id: call.call_id.clone(),
        idempotency_key: call.idempotency_key.clone(),
        attempt,
        output_schema,
        prompt_digest: call.prompt.as_ref().map_or(Digest::default(), |prompt| prompt.digest),
        deltas: Deltas::default(),
    }
}
