//! A tool call that the model asked for: make it, or tell the model what came of it.

use proto_events::call::{CallOrigin, CallStatus, FailureClass};
use proto_events::json::JsonText;
use proto_events::model::{LlmMessage, LlmRole};
use proto_events::turn::TurnMessage;

use super::super::permit::{self, Permit, Wanted};
use super::super::{Act, Progress, Question, Step, tool};
use super::say;
use super::spent::{About, within_budget};
use crate::agent::{approval, prompt};

/// How far the call has come. Its asking message stands in the turn already.
pub(super) fn progress(
    question: &mut Question<'_>,
    call_id: String,
    name: &str,
    args: &JsonText,
    origin: CallOrigin,
) -> Progress {
    let call = question.task.calls().get(&call_id);
    match call.map(|call| (call, &call.status)) {
        None => begin(question, call_id, name, args, origin),
        Some((_, CallStatus::Succeeded(result))) => {
            tell(question, &call_id, &origin, prompt::tool_result(name, result))
        }
        Some((_, CallStatus::Failed(failure))) if failure.class == FailureClass::Rejected => {
            tell(question, &call_id, &origin, prompt::argument_error(name, &failure.message))
        }
        Some((_, CallStatus::Failed(failure))) => Progress::Fatal(prompt::fatal_tool(name, &failure.message)),
        Some((call, CallStatus::Unknown(why))) => {
            let say = vec![answer(question, &call_id, &origin, prompt::outcome_unknown(name))];
            Progress::Unknown { say, call: Box::new(call.clone()), why: why.clone() }
        }
        Some(_) => Progress::Next(Step::Wait),
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
        let text = prompt::unknown_tool(name, &question.agent.tools.names());
        return tell(question, &call_id, &origin, text);
    };
    if let Err(exceeded) = within_budget(question, origin.part, About::ToolCall) {
        return Progress::Fatal(exceeded);
    }
    let spec = registered.spec();
    let args = match spec.check(args) {
        Ok(args) => args,
        Err(error) => {
            let text = prompt::argument_error(name, &error.to_string());
            return tell(question, &call_id, &origin, text);
        }
    };
    let wanted =
        Wanted { name, needs: spec.policy.needs(), args: &args, origin: &origin, call_id: Some(&call_id) };
    let approval = match permit::permit(question, &wanted) {
        Permit::Granted(approval) => approval.map(|approval| approval.request.approval_id),
        Permit::Unreadable(error) => return Progress::Fatal(prompt::fatal_tool(name, &error)),
        permit => {
            let say = || vec![answer(question, &call_id, &origin, approval::waiting(name))];
            return permit.hinders(say).unwrap_or(Progress::Next(Step::Wait));
        }
    };
    Progress::Next(Step::Do(tool::request(question, spec, call_id, args, origin, approval)))
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
