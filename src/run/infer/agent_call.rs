//! A call to another agent that the model asked for: start it, or report its result to the model.
//!
//! The other agent is given a task of its own. The intent holds that task in full: each attempt sends the
//! same one, so that an agent that knows its id returns the first answer again.

use proto_events::call::{CallKind, CallOrigin, CallRequested, CallStatus, FailureClass, NewCall, Verdict};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, ModelError, Part, PostedTask, RunContext};

use crate::agent::peer::{KnownPeer, PeerAnswer};
use crate::grammar::action::{Action, AgentAction, Reply};
use crate::run::infer::append_message::{answer, tell};
use crate::run::permission::{Permission, PermissionRequest};
use crate::run::question::{Progress, Question, Step};
use crate::run::spent::left;
use crate::run::steps::{idempotency_key, millis, start};
use crate::run::{deadline, notes, permission};

/// The capability that a model needs in order to ask another agent, under Protolink's name.
pub(crate) const CAPABILITY: &str = "agent.delegate";

/// Returns the progress of the call. The turn already holds the message that asks for it.
pub(crate) fn progress(
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
            let text = notes::agent_result(agent, action, &PeerAnswer::result_in(answer));
            tell(question, &call_id, &origin, text)
        }
        // A person decided about the call before its run had ended: the decision is the call's answer.
        Some((_, CallStatus::Reconciled(Verdict::Landed(result)))) => {
            tell(question, &call_id, &origin, notes::agent_result(agent, action, result))
        }
        Some((_, CallStatus::Reconciled(Verdict::DidNotHappen))) => {
            tell(question, &call_id, &origin, notes::did_not_happen(agent))
        }
        Some((_, CallStatus::Abandoned(reason))) => {
            tell(question, &call_id, &origin, notes::abandoned(agent, reason))
        }
        Some((_, CallStatus::Failed(failure))) if failure.class == FailureClass::Rejected => {
            tell(question, &call_id, &origin, notes::agent_failed(&failure.message))
        }
        Some((_, CallStatus::Failed(failure))) => {
            Progress::Fatal(notes::fatal_agent(agent, &failure.message))
        }
        Some((call, CallStatus::Unknown(why) | CallStatus::Reconciled(Verdict::Inconclusive(why)))) => {
            let (call, why) = (Box::new(call.clone()), why.clone());
            let text = notes::agent_outcome_unknown(agent, action);
            Progress::Unknown { say: vec![answer(question, &call_id, &origin, text)], call, why }
        }
        Some((
            _,
            CallStatus::Requested
            | CallStatus::Dispatched
            | CallStatus::TimedOut
            | CallStatus::RetryScheduled(..)
            | CallStatus::Unsent
            | CallStatus::Asked(_)
            | CallStatus::Answered
            | CallStatus::Canceled,
        )) => Progress::Next(Step::Wait),
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
    // The approval covers the model's action; the task made from it has ids and times of ours.
    let wish =
        Reply { thought: None, action: Action::AgentCall { agent: agent.to_owned(), what: what.clone() } };
    let wish: JsonObject = JsonText::from(wish.to_json()).read().unwrap_or_default();
    let wanted = PermissionRequest {
        name: agent,
        needs: &[CAPABILITY.to_owned()],
        args: &wish.to_text(),
        origin: &origin,
        call_id: Some(&call_id),
    };
    let approval = match permission::permission_for(question, &wanted) {
        Permission::Granted(approval) => approval.map(|approval| approval.request.approval_id),
        Permission::Unreadable(error) => {
            return tell(question, &call_id, &origin, notes::agent_failed(&error));
        }
        permission => {
            let say = || vec![answer(question, &call_id, &origin, notes::waiting(agent))];
            return permission.into_progress(say).unwrap_or(Progress::Next(Step::Wait));
        }
    };
    let Some(peer) = asking.peers.get(agent) else {
        // An agent without peers is in no registry itself.
        let own = agent == asking.name && asking.peers.iter().next().is_some();
        let why = if own { notes::self_delegation(agent) } else { notes::agent_not_found(agent) };
        return tell(question, &call_id, &origin, notes::agent_failed(&why));
    };
    let task = question.task;
    let context = RunContext::of_task(task.metadata(), task.id(), &asking.name, None, question.mint);
    let context = match context {
        Ok(context) => context,
        Err(error) => return Progress::Fatal(notes::fatal_agent(agent, &error.to_string())),
    };
    if context.agent_chain.iter().any(|waits| waits == agent) {
        let why = notes::circular_delegation(agent, &context.agent_chain);
        return tell(question, &call_id, &origin, notes::agent_failed(&why));
    }
    let budget = left(question, origin.part, &context.budget);
    let context = RunContext { budget, ..context };
    match child(question, &context, what) {
        Ok(task) => {
            let mut request = intent(question, peer, call_id, &task, wish);
            (request.origin, request.approval) = (origin, approval);
            Progress::Next(Step::Do(start(question, request)))
        }
        Err(error) => Progress::Fatal(notes::fatal_agent(agent, &error.to_string())),
    }
}

/// Returns the other agent's task, in a run of its own that names this one as its parent.
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

/// Returns the intent recorded before the call is sent.
fn intent(
    question: &Question<'_>,
    peer: &KnownPeer,
    call_id: String,
    task: &PostedTask,
    mut args: JsonObject,
) -> CallRequested {
    args.set("task", task.to_json());
    let (args, policy) = (args.to_text(), &peer.policy);
    CallRequested {
        retry_errors: policy.retries_errors(),
        window_ms: policy.window().map(millis),
        deadline: deadline::of_call(question, policy.get_deadline()),
        capabilities: vec![CAPABILITY.to_owned()],
        ..CallRequested::of(NewCall {
            idempotency_key: idempotency_key(question.stream, &call_id),
            call_id,
            kind: CallKind::Delegate,
            target: peer.name.clone(),
            args,
            recovery: policy.recovery(),
            recovery_source: policy.get_declared_by().to_owned(),
            timeout_ms: millis(policy.get_timeout()),
            max_attempts: policy.attempts_max(),
        })
    }
}
