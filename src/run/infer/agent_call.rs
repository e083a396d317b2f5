//! A call to another agent that the model asked for: start it, or report its result to the model.
//!
//! The other agent is given a task of its own. The intent holds that task in full: each attempt sends the
//! same one, so that an agent that knows its id returns the first answer again.

use std::sync::Arc;

use proto_events::call::{CallOrigin, CallStatus, FailureClass, Verdict};
use proto_events::json;

use crate::agent::peer::PeerAnswer;
use crate::grammar::action::{AGENT_CALL, AgentAction};
use crate::run::delegation::{AgentRequest, DelegationHindrance, intended};
use crate::run::infer::append_message::{answer, tell};
use crate::run::notes;
use crate::run::question::{Progress, Question, Step};
use crate::run::steps::start;
use crate::tools::policy::ToolPolicy;
use crate::tools::registry::ToolSpec;

/// Returns the function by which a model with native tools asks another agent.
pub(crate) fn function() -> ToolSpec {
    let text = |about: &str| json!({"type": "string", "description": about});
    let schema = json!({
        "type": "object",
        "properties": {
            "agent": text("the agent's name"),
            "action": {"type": "string", "enum": ["infer", "tool_call"]},
            "prompt": text("the request in words, for the action infer"),
            "tool": text("the agent's skill, for the action tool_call"),
            "args": {"type": "object", "description": "the arguments of the skill"},
        },
        "required": ["agent", "action"],
    });
    ToolSpec {
        name: AGENT_CALL.to_owned(),
        description: "Asks another agent, or has it call one of its skills. Call it alone in a reply."
            .to_owned(),
        input_schema: Arc::new(schema),
        policy: ToolPolicy::manual(),
    }
}

/// Returns the progress of the call. The turn already holds the message that asks for it.
pub(crate) fn progress(
    question: &mut Question<'_>,
    call_id: &str,
    agent: &str,
    what: &AgentAction,
    origin: &CallOrigin,
) -> Progress {
    let action = what.kind();
    let call = question.task.calls().get(call_id);
    match call.map(|call| (call, &call.status)) {
        None => start_agent_call(question, call_id, agent, what, origin),
        Some((_, CallStatus::Succeeded(answer))) => {
            let text = notes::agent_result(agent, action, &PeerAnswer::result_in(answer));
            tell(question, call_id, origin, text)
        }
        // A person decided about the call before its run had ended: the decision is the call's answer.
        Some((_, CallStatus::Reconciled(Verdict::Landed(result)))) => {
            tell(question, call_id, origin, notes::agent_result(agent, action, result))
        }
        Some((_, CallStatus::Reconciled(Verdict::DidNotHappen))) => {
            tell(question, call_id, origin, notes::did_not_happen(agent))
        }
        Some((_, CallStatus::Abandoned(reason))) => {
            tell(question, call_id, origin, notes::abandoned(agent, reason))
        }
        Some((_, CallStatus::Failed(failure))) if failure.class == FailureClass::Rejected => {
            tell(question, call_id, origin, notes::agent_failed(&failure.message))
        }
        Some((_, CallStatus::Failed(failure))) => {
            Progress::Fatal(notes::fatal_agent(agent, &failure.message))
        }
        Some((call, CallStatus::Unknown(why) | CallStatus::Reconciled(Verdict::Inconclusive(why)))) => {
            let (call, why) = (Box::new(call.clone()), why.clone());
            let text = notes::agent_outcome_unknown(agent, action);
            Progress::Unknown { say: vec![answer(question, call_id, origin, text)], call, why }
        }
        Some((call, CallStatus::Asked(_))) => {
            let call = Box::new(call.clone());
            let text = notes::waiting_for_agent(agent, action);
            Progress::Asked { say: vec![answer(question, call_id, origin, text)], call }
        }
        Some((
            _,
            CallStatus::Requested
            | CallStatus::Dispatched
            | CallStatus::TimedOut
            | CallStatus::RetryScheduled(..)
            | CallStatus::Unsent
            | CallStatus::Answered
            | CallStatus::Canceled,
        )) => Progress::Next(Step::Wait),
    }
}

fn start_agent_call(
    question: &mut Question<'_>,
    call_id: &str,
    agent: &str,
    what: &AgentAction,
    origin: &CallOrigin,
) -> Progress {
    let request = AgentRequest { agent, what, origin, call_id: Some(call_id) };
    match intended(question, &request) {
        Ok(intent) => Progress::Next(Step::Do(start(question, intent))),
        Err(DelegationHindrance::Refused(_, why)) => {
            tell(question, call_id, origin, notes::agent_failed(&why))
        }
        Err(DelegationHindrance::Fatal(error)) => Progress::Fatal(notes::fatal_agent(agent, &error)),
        Err(DelegationHindrance::Permission(permission)) => {
            let say = || vec![answer(question, call_id, origin, notes::waiting(agent))];
            permission.into_progress(say).unwrap_or(Progress::Next(Step::Wait))
        }
    }
}
