//! Asking the model: the intent, which names what the model is shown, and the request itself.

use proto_events::call::{Call, CallKind, CallOrigin, CallRequested, CallStatus, PromptRef, Recovery};
use proto_events::id::{Digest, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{LlmMessage, LlmRole};
use proto_events::task::Task;
use proto_events::turn::{TurnMessage, chain};

use super::super::{At, Progress, Question, Seat, Step, idempotency_key, millis, start};
use crate::agent::Agent;
use crate::agent::budget::{Budget, BudgetUsage};
use crate::agent::infer::{ChatMessage, Deltas, InferRequest};
use crate::agent::prompt::{PromptParts, RENDERER_VERSION};

/// The next inference: budget first, then intent and dispatch in one append.
pub(super) fn model(question: &mut Question<'_>, at: At, before: &[&Call]) -> Progress {
    if let Err(exceeded) = within_budget(question, at, About::Inference) {
        return Progress::Fatal(exceeded);
    }
    let step = u32::try_from(before.len()).unwrap_or(u32::MAX).saturating_add(1);
    let Some(backend) = &question.agent.backend else {
        return Progress::Next(Step::Wait);
    };
    let parameters: JsonObject = [
        ("backend".to_owned(), JsonText::string(backend.backend())),
        ("model".to_owned(), JsonText::string(backend.model())),
    ]
    .into_iter()
    .collect();
    let args = parameters.to_text();
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

/// Names what the model will be shown: a digest that grows with the new messages, never a copy.
fn prompt_ref(question: &Question<'_>, at: At, parameters: &JsonText) -> PromptRef {
    let tools = tools_digest(question.agent);
    let system = system_message(question.agent, question.task, question.seat);
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

fn tools_digest(agent: &Agent) -> Digest {
    agent.tools.specs().into_iter().fold(Digest::default(), |digest, spec| {
        let schema = spec.input_schema.to_string();
        let (name, description) = (spec.name.as_bytes(), spec.description.as_bytes());
        Digest::of_parts(&[&digest.0, name, b"\0", description, b"\0", schema.as_bytes()])
    })
}

/// The leading system message for this task, as our own renderer writes it.
pub(super) fn system_prompt(agent: &Agent, task: &Task) -> String {
    let hint = task.flow_state().read::<JsonObject>().ok().and_then(|flow| flow.get("prompt")?.to_str());
    let tools = agent.tools.specs();
    crate::agent::prompt::system_prompt(&PromptParts {
        tools: &tools,
        agents: &[],
        user_prompt: agent.system_prompt.as_deref(),
        flow_hint: hint.as_deref(),
    })
}

/// The leading system message as it is sent: the turn's own, the history's, or a fresh one.
fn system_message(agent: &Agent, task: &Task, seat: Option<Seat<'_>>) -> String {
    let Some(seat) = seat else {
        return system_prompt(agent, task);
    };
    let fresh = seat.session.open_turn().and_then(|open| open.system_prompt.as_ref());
    let kept = || seat.session.history().as_slice().first().filter(|first| first.role == LlmRole::System);
    match fresh.or_else(kept) {
        Some(message) => message.content.clone(),
        None => system_prompt(agent, task),
    }
}

/// The committed history without its leading system message.
fn body(seat: Seat<'_>) -> &[LlmMessage] {
    match seat.session.history().as_slice() {
        [first, rest @ ..] if first.role == LlmRole::System => rest,
        all => all,
    }
}

/// Whether the step about to be taken is within the run's budget; the error is Protolink's text.
pub(super) fn within_budget(question: &Question<'_>, at: At, about: About) -> Result<(), String> {
    let context = question.task.metadata().get("run_context").map(JsonText::to_value);
    let Some(budget) = context.as_ref().and_then(|context| context.get("budget")) else {
        return Ok(());
    };
    let budget = Budget::from_json(budget).map_err(|error| error.to_string())?;
    budget.check(&usage(question, at, about)).map_err(|exceeded| exceeded.to_string())
}

/// What is about to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    Inference,
    ToolCall,
}

/// Counts what the part has used, what is about to be done included.
fn usage(question: &Question<'_>, at: At, about: About) -> BudgetUsage {
    let mut usage = BudgetUsage::default();
    for call in question.task.calls().iter() {
        let origin = &call.request.origin;
        if origin.run != question.task.runs() || origin.part != at || origin.step == 0 {
            continue;
        }
        match call.request.kind {
            CallKind::Infer => {
                usage.steps += 1;
                usage.llm_calls += 1;
            }
            CallKind::Tool => usage.tool_calls += 1,
        }
        if let Some(tokens) = call.usage.filter(|_| matches!(call.status, CallStatus::Succeeded(_))) {
            usage.input_tokens = usage.input_tokens.saturating_add(tokens.input_tokens);
            usage.output_tokens = usage.output_tokens.saturating_add(tokens.output_tokens);
        }
    }
    if about == About::ToolCall {
        usage.tool_calls += 1;
    } else {
        usage.steps += 1;
        usage.llm_calls += 1;
    }
    usage
}

/// The messages of the turn that the model is shown: in a conversation all of the run's, else only those of
/// the part itself.
fn shown<'a>(task: &'a Task, seat: Option<Seat<'a>>, at: At) -> Vec<&'a TurnMessage> {
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
    let system = ChatMessage::new(LlmRole::System, system_message(agent, task, seat));
    let history = seat.map_or(&[][..], body).iter();
    let turn = shown(task, seat, call.origin.part);
    let messages = std::iter::once(system)
        .chain(history.map(ChatMessage::of))
        .chain(turn.iter().map(|message| ChatMessage::of(&message.message)))
        .collect();
    InferRequest {
        messages,
        tools: agent.tools.specs().into_iter().cloned().collect(),
        task_id: task.id().to_owned(),
        session_id: seat.map(|seat| seat.session.id().to_owned()),
        call_id: call.call_id.clone(),
        idempotency_key: call.idempotency_key.clone(),
        attempt,
        output_schema: None,
        prompt_digest: call.prompt.as_ref().map_or(Digest::default(), |prompt| prompt.digest),
        deltas: Deltas::default(),
    }
}
