//! A tool call that the model asked for: start it, or report its result to the model.

use proto_events::call::{CallOrigin, CallStatus, FailureClass, Verdict};
use proto_events::json::JsonText;

use crate::run::infer::append_message::{answer, tell};
use crate::run::infer::spent::{About, over_budget};
use crate::run::permission::{Permission, PermissionRequest};
use crate::run::question::{Progress, Question, Step};
use crate::run::{notes, permission, tool};

/// Returns the progress of the call. The turn already holds the message that asks for it.
pub(crate) fn progress(
    question: &mut Question<'_>,
    call_id: String,
    name: &str,
    args: &JsonText,
    origin: CallOrigin,
) -> Progress {
    let call = question.task.calls().get(&call_id);
    match call.map(|call| (call, &call.status)) {
        None => begin(question, call_id, name, args, origin),
        // A person decided about the call before its run had ended: the decision is the call's answer.
        Some((_, CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result)))) => {
            tell(question, &call_id, &origin, notes::tool_result(name, result))
        }
        Some((_, CallStatus::Reconciled(Verdict::DidNotHappen))) => {
            tell(question, &call_id, &origin, notes::did_not_happen(name))
        }
        Some((_, CallStatus::Abandoned(reason))) => {
            tell(question, &call_id, &origin, notes::abandoned(name, reason))
        }
        Some((_, CallStatus::Failed(failure))) if failure.class == FailureClass::Rejected => {
            tell(question, &call_id, &origin, notes::argument_error(name, &failure.message))
        }
        Some((_, CallStatus::Failed(failure))) => Progress::Fatal(notes::fatal_tool(name, &failure.message)),
        Some((call, CallStatus::Unknown(why) | CallStatus::Reconciled(Verdict::Inconclusive(why)))) => {
            let say = vec![answer(question, &call_id, &origin, notes::outcome_unknown(name))];
            Progress::Unknown { say, call: Box::new(call.clone()), why: why.clone() }
        }
        Some((
            _,
            CallStatus::Requested
            | CallStatus::Dispatched
            | CallStatus::TimedOut
            | CallStatus::Unsent
            | CallStatus::Canceled,
        )) => Progress::Next(Step::Wait),
    }
}

fn begin(
    question: &mut Question<'_>,
    call_id: String,
    name: &str,
    args: &JsonText,
    origin: CallOrigin,
) -> Progress {
    let Some(registered) = question.agent.tools.get(name) else {
        let text = notes::unknown_tool(name, &question.agent.tools.names());
        return tell(question, &call_id, &origin, text);
    };
    let spec = registered.spec();
    let args = match spec.check(args) {
        Ok(args) => args,
        Err(error) => {
            let text = notes::argument_error(name, &error.to_string());
            return tell(question, &call_id, &origin, text);
        }
    };
    // A call that cannot be made uses nothing of the budget, as in 0.8.3.
    if let Some(end) = over_budget(question, origin.part, About::ToolCall) {
        return end;
    }
    let wanted = PermissionRequest {
        name,
        needs: spec.policy.get_capabilities(),
        args: &args,
        origin: &origin,
        call_id: Some(&call_id),
    };
    let approval = match permission::permission_for(question, &wanted) {
        Permission::Granted(approval) => approval.map(|approval| approval.request.approval_id),
        Permission::Unreadable(error) => return Progress::Fatal(notes::fatal_tool(name, &error)),
        permission => {
            let say = || vec![answer(question, &call_id, &origin, notes::waiting(name))];
            return permission.into_progress(say).unwrap_or(Progress::Next(Step::Wait));
        }
    };
    Progress::Next(Step::Do(tool::request(question, spec, call_id, args, origin, approval)))
}
