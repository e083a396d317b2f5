//! The tool calls that one reply of the model asks for: start them, or report their results to the model.
//!
//! A reply in the grammar of actions asks for one call, a provider's own interface for any number. Nothing starts
//! before the budget and the policy allow all of them. Calls of parallel tools that stand side by side start together,
//! the others one after another; the answers stand in the order of the asks.

use proto_events::call::{Call, CallOrigin, CallStatus, FailureClass, Verdict};
use proto_events::json::JsonText;
use proto_events::model::{LlmMessage, LlmRole};

use crate::grammar::action::{AGENT_CALL, parse_agent_call};
use crate::models::message::answering;
use crate::run::infer::append_message::append_answer;
use crate::run::permission::{Permission, PermissionRequest};
use crate::run::question::{Act, Progress, Question, Step};
use crate::run::reply_reading::AskedCall;
use crate::run::spent::{About, over_budget};
use crate::run::steps::part_messages;
use crate::run::{notes, permission, tool};
use crate::tools::registry::ToolSpec;
use crate::tools::texts::short;

/// The calls of one reply, each with its id.
pub(crate) struct AskedCalls {
    pub(crate) calls: Vec<(String, AskedCall)>,
    /// Whether they were asked for through the provider's own interface: their answers are a tool's then.
    pub(crate) is_native: bool,
    pub(crate) origin: CallOrigin,
}

/// The state of one call.
enum SettledCall {
    /// The call has its answer, or cannot be made: the text for the model.
    Answer(String),
    /// The call has no outcome yet.
    Open,
    /// The call ends the run, with this error.
    Fatal(String),
    /// The outcome of the call is unknown, for this reason.
    Unknown(Box<Call>, String),
    /// The call waits for a person's answer.
    Asked(Box<Call>),
    /// The call has no intent yet; holds its checked arguments.
    NotMade(JsonText),
}

/// A call that has no intent yet and can be made.
struct ToolCallRequest<'a> {
    call_id: &'a str,
    spec: &'a ToolSpec,
    args: JsonText,
}

/// Returns the progress of the calls. The turn already holds the message that asks for them.
pub(crate) fn progress(question: &mut Question<'_>, asked: &AskedCalls) -> Progress {
    let infer_call = asked.origin.infer_call.as_deref();
    let of_reply = part_messages(question, asked.origin.part)
        .filter(|message| message.infer_call.as_deref() == infer_call && message.answers.is_some());
    let open = asked.calls.get(of_reply.count()..).unwrap_or_default();
    let Some((call_id, call)) = open.first() else {
        return Progress::Next(Step::Wait);
    };
    match settled(question, asked, call_id, call) {
        SettledCall::Answer(text) => {
            Progress::Next(Step::Do(vec![answer(question, asked, call_id, call, text)]))
        }
        SettledCall::Open => Progress::Next(Step::Wait),
        SettledCall::Fatal(error) => Progress::Fatal(error),
        SettledCall::Unknown(lost, why) => {
            let say = answer_all(question, asked, open, &|_, call| notes::not_made(&call.tool));
            Progress::Unknown { say, call: lost, why }
        }
        SettledCall::Asked(waiting) => {
            let say = answer_all(question, asked, open, &|call_id, call| {
                if call_id == waiting.request.call_id {
                    notes::waiting_for_answer(&call.tool)
                } else {
                    notes::not_made(&call.tool)
                }
            });
            Progress::Asked { say, call: waiting }
        }
        SettledCall::NotMade(_) => start_calls(question, asked, open),
    }
}

fn settled(question: &Question<'_>, asked: &AskedCalls, call_id: &str, call: &AskedCall) -> SettledCall {
    let name = &call.tool;
    let Some(made) = question.task.calls().get(call_id) else {
        return not_made(question, call);
    };
    match &made.status {
        // A person decided about the call before its run had ended: the decision is the call's answer. Where a tool answers, that
        // is the result itself: a note around it would be taken for the result when the message is minimized.
        CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result))
            if asked.is_native =>
        {
            SettledCall::Answer(result.as_str().to_owned())
        }
        CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result)) => {
            SettledCall::Answer(notes::tool_result(name, result))
        }
        CallStatus::Reconciled(Verdict::DidNotHappen) => SettledCall::Answer(notes::did_not_happen(name)),
        CallStatus::Abandoned(reason) => SettledCall::Answer(notes::abandoned(name, reason)),
        CallStatus::Failed(failure) if failure.class == FailureClass::Rejected => {
            SettledCall::Answer(notes::argument_error(name, &failure.message))
        }
        CallStatus::Failed(failure) => SettledCall::Fatal(notes::fatal_tool(name, &failure.message)),
        CallStatus::Unknown(why) | CallStatus::Reconciled(Verdict::Inconclusive(why)) => {
            SettledCall::Unknown(Box::new(made.clone()), why.clone())
        }
        CallStatus::Asked(_) => SettledCall::Asked(Box::new(made.clone())),
        CallStatus::Requested
        | CallStatus::Dispatched
        | CallStatus::TimedOut
        | CallStatus::RetryScheduled(..)
        | CallStatus::Unsent
        | CallStatus::Answered
        | CallStatus::Canceled => SettledCall::Open,
    }
}

/// Returns the state of a call without an intent: what the model did wrong, or the checked arguments.
fn not_made(question: &Question<'_>, call: &AskedCall) -> SettledCall {
    if call.is_repeated {
        return SettledCall::Answer(notes::repeated(question.agent.loop_rules, call.action().kind()));
    }
    if call.tool == AGENT_CALL && question.agent.offers_agent_call() {
        let refused = parse_agent_call(&call.args, &question.agent.peers.skills()).err();
        let text = refused.map_or_else(
            || notes::agent_call_alone().to_owned(),
            |error| notes::agent_failed(&short(&error.to_string())),
        );
        return SettledCall::Answer(text);
    }
    let Some(registered) = question.agent.tools.get(&call.tool) else {
        return SettledCall::Answer(notes::unknown_tool(&call.tool, &question.agent.tools.names()));
    };
    match registered.check(&call.args) {
        Ok(args) => SettledCall::NotMade(args),
        Err(error) => SettledCall::Answer(notes::argument_error(&call.tool, &error.to_string())),
    }
}

/// Starts the first call, and with it the parallel ones beside it, once all calls of the reply may be made.
fn start_calls(question: &mut Question<'_>, asked: &AskedCalls, open: &[(String, AskedCall)]) -> Progress {
    let agent = question.agent;
    let mut wanted = Vec::new();
    for (call_id, call) in open {
        if let (SettledCall::NotMade(args), Some(tool)) =
            (settled(question, asked, call_id, call), agent.tools.get(&call.tool))
        {
            wanted.push(ToolCallRequest { call_id, spec: tool.spec(), args });
        }
    }
    let count = u64::try_from(wanted.len()).unwrap_or(u64::MAX);
    if let Some(end) = over_budget(question, asked.origin.part, About::ToolCalls(count)) {
        return end;
    }
    let approvals = match permitted(question, asked, open, &wanted) {
        Ok(approvals) => approvals,
        Err(progress) => return progress,
    };
    let together = wanted.iter().take_while(|call| call.spec.policy.is_parallel()).count().max(1);
    let mut acts = Vec::new();
    for (call, approval) in wanted.into_iter().zip(approvals).take(together) {
        let (call_id, origin) = (call.call_id.to_owned(), asked.origin.clone());
        acts.extend(tool::request(question, call.spec, call_id, call.args, origin, approval));
    }
    Progress::Next(Step::Do(acts))
}

/// Returns the approval of each call, or what comes before any of them starts. A call that is denied decides before
/// one that waits for a person.
fn permitted(
    question: &mut Question<'_>,
    asked: &AskedCalls,
    open: &[(String, AskedCall)],
    wanted: &[ToolCallRequest<'_>],
) -> Result<Vec<Option<String>>, Progress> {
    let mut approvals = Vec::with_capacity(wanted.len());
    let mut first = None;
    for call in wanted {
        let request = PermissionRequest {
            name: &call.spec.name,
            needs: call.spec.policy.get_capabilities(),
            args: &call.args,
            origin: &asked.origin,
            call_id: Some(call.call_id),
        };
        match permission::permission_for(question, &request) {
            Permission::Granted(approval) => {
                approvals.push(approval.map(|approval| approval.request.approval_id));
            }
            Permission::Unreadable(error) => {
                return Err(Progress::Fatal(notes::fatal_tool(&call.spec.name, &error)));
            }
            Permission::Denied(error) => return Err(Progress::Fatal(error)),
            permission => first = first.or(Some((call.call_id, permission))),
        }
    }
    let Some((waits, permission)) = first else { return Ok(approvals) };
    let say = || {
        answer_all(question, asked, open, &|call_id, call| {
            if call_id == waits { notes::waiting(&call.tool) } else { notes::not_made(&call.tool) }
        })
    };
    Err(permission.into_progress(say).unwrap_or(Progress::Next(Step::Wait)))
}

/// Answers all open calls at the end of the run: those that are settled with what they came to, the others with
/// `otherwise`.
fn answer_all(
    question: &mut Question<'_>,
    asked: &AskedCalls,
    open: &[(String, AskedCall)],
    otherwise: &dyn Fn(&str, &AskedCall) -> String,
) -> Vec<Act> {
    let mut acts = Vec::with_capacity(open.len());
    for (call_id, call) in open {
        let text = match settled(question, asked, call_id, call) {
            SettledCall::Answer(text) => text,
            SettledCall::Unknown(..) => notes::outcome_unknown(&call.tool),
            SettledCall::Fatal(error) => error,
            SettledCall::Open | SettledCall::Asked(_) | SettledCall::NotMade(_) => otherwise(call_id, call),
        };
        acts.push(answer(question, asked, call_id, call, text));
    }
    acts
}

/// Returns the one answer to a call: in the tool's words where the provider's own interface asked, else in the ones
/// of the system, as in Protolink.
fn answer(
    question: &mut Question<'_>,
    asked: &AskedCalls,
    call_id: &str,
    call: &AskedCall,
    text: String,
) -> Act {
    let message = if asked.is_native {
        answering(call_id, &call.tool, text, question.mint)
    } else {
        LlmMessage::new(LlmRole::System, text, question.mint)
    };
    append_answer(question, call_id, &asked.origin, message)
}
