//! A question to another agent that the model asked for: put it, or tell the model what came of it.
//!
//! The other agent is given a task of its own, which stands in the intent as a whole: every attempt sends the same one,
//! so that an agent that knows its id gives the first answer again.

use proto_events::call::{CallKind, CallOrigin, CallRequested, CallStatus, FailureClass};
use proto_events::id::Digest;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{LlmMessage, LlmRole, Message, ModelError, Part, PostedTask, RunContext};
use proto_events::turn::TurnMessage;

use super::super::permit::{self, Permit, Wanted};
use super::super::{Act, Progress, Question, Step, deadline, idempotency_key, millis, start};
use super::say;
use crate::agent::action::{Action, AgentAction, Reply};
use crate::agent::approval;
use crate::agent::peer::{Peer, PeerAnswer};
use crate::agent::prompt;

/// What the policy is asked for when a model wants to ask another agent, Protolink's word.
const CAPABILITY: &str = "agent.delegate";

/// How far the call has come. Its asking message stands in the turn already.
pub(super) fn progress(
    question: &mut Question<'_>,
    call_id: String,
    agent: &str,
    what: &AgentAction,
    origin: CallOrigin,
) -> Progress {
    let action = what.kind();
    let call = question.task.calls().get(&call_id);
    match call.map(|call| (call, &call.status)) {
        None => begin(question, call_id, agent, what, origin),
        Some((_, CallStatus::Succeeded(answer))) => {
            let text = prompt::agent_result(agent, action, &PeerAnswer::result_in(answer));
            tell(question, &call_id, &origin, text)
        }
        Some((_, CallStatus::Failed(failure))) if failure.class == FailureClass::Rejected => {
            tell(question, &call_id, &origin, prompt::agent_failed(&failure.message))
        }
        Some((_, CallStatus::Failed(failure))) => {
            Progress::Fatal(prompt::fatal_agent(agent, &failure.message))
        }
        Some((call, CallStatus::Unknown(why))) => {
            let (call, why) = (Box::new(call.clone()), why.clone());
            let text = prompt::agent_outcome_unknown(agent, action);
            Progress::Unknown { say: vec![answer(question, &call_id, &origin, text)], call, why }
        }
        Some(_) => Progress::Next(Step::Wait),
    }
}

fn begin(
    question: &mut Question<'_>,
    call_id: String,
    agent: &str,
    what: &AgentAction,
    origin: CallOrigin,
) -> Progress {
    let asking = question.agent;
    // What is approved is what the model wants; the task that follows from it has ids and times of ours.
    let wish =
        Reply { thought: None, action: Action::AgentCall { agent: agent.to_owned(), what: what.clone() } };
    let wish: JsonObject = JsonText::from(wish.to_json()).read().unwrap_or_default();
    let wanted = Wanted {
        name: agent,
        needs: &[CAPABILITY.to_owned()],
        args: &wish.to_text(),
        origin: &origin,
        call_id: Some(&call_id),
    };
    let approval = match permit::permit(question, &wanted) {
        Permit::Granted(approval) => approval.map(|approval| approval.request.approval_id),
        Permit::Unreadable(error) => {
            return tell(question, &call_id, &origin, prompt::agent_failed(&error));
        }
        permit => {
            let say = || vec![answer(question, &call_id, &origin, approval::waiting(agent))];
            return permit.hinders(say).unwrap_or(Progress::Next(Step::Wait));
        }
    };
    let Some(peer) = asking.peers.get(agent) else {
        // Who has no peers is in no registry himself.
        let own = agent == asking.name && asking.peers.iter().next().is_some();
        let why = if own { prompt::self_delegation(agent) } else { prompt::agent_not_found(agent) };
        return tell(question, &call_id, &origin, prompt::agent_failed(&why));
    };
    let task = question.task;
    let context = RunContext::of_task(task.metadata(), task.id(), &asking.name, None, question.mint);
    let context = match context {
        Ok(context) => context,
        Err(error) => return Progress::Fatal(prompt::fatal_agent(agent, &error.to_string())),
    };
    if context.agent_chain.iter().any(|waits| waits == agent) {
        let why = prompt::circular_delegation(agent, &context.agent_chain);
        return tell(question, &call_id, &origin, prompt::agent_failed(&why));
    }
    match child(question, &context, what) {
        Ok(task) => {
            let mut request = intent(question, peer.as_ref(), call_id, &task, wish);
            (request.origin, request.approval) = (origin, approval);
            Progress::Next(Step::Do(start(question, request)))
        }
        Err(error) => Progress::Fatal(prompt::fatal_agent(agent, &error.to_string())),
    }
}

/// The other agent's task, in a run of its own that names this one as its parent.
fn child(
    question: &mut Question<'_>,
    context: &RunContext,
    what: &AgentAction,
) -> Result<PostedTask, ModelError> {
    let mint = &mut *question.mint;
    let (role, part) = match what {
        AgentAction::Infer { prompt } => ("user", Part::infer(prompt)),
        AgentAction::ToolCall { tool, args } => ("agent", Part::tool_call_new(tool, args.clone(), mint)),
    };
    let message = Message::new(role, vec![part.hydrated(mint)?], mint);
    let mut task = PostedTask::new(message, mint);
    task.metadata = context.child(mint).mirrored();
    Ok(task)
}

/// What is written of the call before it is sent, whoever asked for it and allowed it.
fn intent(
    question: &Question<'_>,
    peer: &dyn Peer,
    call_id: String,
    task: &PostedTask,
    mut args: JsonObject,
) -> CallRequested {
    args.set("task", task.to_json());
    let (args, policy) = (args.to_text(), peer.policy());
    CallRequested {
        idempotency_key: idempotency_key(question.stream, &call_id),
        call_id,
        kind: CallKind::Delegate,
        target: peer.name().to_owned(),
        args_digest: Digest::of(args.as_str().as_bytes()),
        args,
        recovery: policy.recovery(),
        recovery_source: policy.source().to_owned(),
        timeout_ms: millis(policy.attempt_timeout()),
        max_attempts: policy.attempts_max(),
        retry_errors: policy.retries_errors(),
        window_ms: policy.window().map(millis),
        deadline: deadline::of_call(question, policy.overall()),
        capabilities: vec![CAPABILITY.to_owned()],
        approval: None,
        origin: CallOrigin::default(),
        prompt: None,
    }
}

fn tell(question: &mut Question<'_>, call_id: &str, origin: &CallOrigin, text: String) -> Progress {
    Progress::Next(Step::Do(vec![answer(question, call_id, origin, text)]))
}

/// The one answer that the asking message waits for.
fn answer(question: &mut Question<'_>, call_id: &str, origin: &CallOrigin, text: String) -> Act {
    let message = LlmMessage::new(LlmRole::System, text, question.mint);
    let infer_call = origin.infer_call.clone();
    say(question, TurnMessage { message, part: origin.part, infer_call, origin: Some(call_id.to_owned()) })
}
