//! What follows when a person has decided about an approval: the run that waits for it goes on as a new run, with a
//! turn of its own. A run that is still going on finds the decision by itself.

use proto_events::call::CallStatus;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::Part;
use proto_events::task::{ApprovalDecided, ApprovalRequested, Task, TaskCommand};

use super::permit::is_agent_call;
use super::settled::go_on;
use super::{Act, Question};
use crate::agent::capability::denied;
use crate::agent::{approval, prompt};

/// The key in an infer part's metadata that names the call whose result completes its prompt.
const RESULT_OF: &str = "taskreel.result_of";

/// The commands that take the task up again, if it waits for this approval.
pub fn after_decision(question: &mut Question<'_>, approval_id: &str) -> Vec<Act> {
    let task = question.task;
    let Some(paused) = task.paused() else { return Vec::new() };
    let decided = task
        .approvals()
        .get(approval_id)
        .and_then(|approval| Some((&approval.request, approval.verdict()?)))
        .filter(|(asked, _)| asked.origin.run == task.runs());
    let Some((asked, decided)) = decided else { return Vec::new() };
    let parts = paused.item.map_or(&[][..], |item| task.parts(item));
    let at = usize::try_from(asked.origin.part).unwrap_or(usize::MAX);
    let Some(part) = parts.get(at) else { return Vec::new() };
    let rest = parts.get(at.saturating_add(1)..).unwrap_or_default();
    let in_loop = asked.origin.step > 0;
    let first = match (decided.approved, in_loop) {
        (true, true) if is_agent_call(asked) => {
            let told = approval::told_approved(&asked.tool);
            vec![goes_on(question, part, &told)]
        }
        (true, false) => vec![call(asked)],
        (true, true) => vec![call(asked), with_result(question, asked, part)],
        (false, true) => vec![told(question, asked, decided, part)],
        (false, false) => {
            let error = denied(&asked.tool, &why(asked, decided));
            return vec![Act::Task(TaskCommand::Fail { error })];
        }
    };
    go_on(question, first.into_iter().chain(rest.iter().cloned()).collect())
}

/// The approved call, with the very arguments that were approved.
fn call(asked: &ApprovalRequested) -> Part {
    let output_id = asked.origin.part_call_id.as_deref().unwrap_or(&asked.call_id);
    Part::tool_call_of(&asked.tool, asked.args.clone(), Some(output_id))
}

/// The infer part that asked for the call, to go on with its result.
fn with_result(question: &Question<'_>, asked: &ApprovalRequested, part: &Part) -> Part {
    let mut content: JsonObject = part.content().read().unwrap_or_default();
    let mut metadata: JsonObject =
        content.get("metadata").and_then(|metadata| metadata.read().ok()).unwrap_or_default();
    metadata.set(RESULT_OF, JsonText::string(&asked.call_id));
    content.set("metadata", metadata.to_text());
    content.set("prompt", JsonText::string(&again(question, part).unwrap_or_default()));
    Part::new("infer", content.to_text())
}

/// The infer part that asked for the call, to go on without it.
fn told(question: &Question<'_>, asked: &ApprovalRequested, decided: &ApprovalDecided, part: &Part) -> Part {
    goes_on(question, part, &approval::told_denied(&asked.tool, &why(asked, decided)))
}

/// The infer part that asked, to go on with this.
fn goes_on(question: &Question<'_>, part: &Part, told: &str) -> Part {
    let mut content: JsonObject = part.content().read().unwrap_or_default();
    content.set("prompt", JsonText::string(&joined(told, again(question, part).as_deref())));
    Part::new("infer", content.to_text())
}

/// What was asked at first: a conversation holds it, without one the model must hear it again.
fn again(question: &Question<'_>, part: &Part) -> Option<String> {
    let asked = part.as_infer().map(|asked| asked.prompt).ok().filter(|prompt| !prompt.is_empty());
    asked.filter(|_| !question.agent.conversation)
}

fn joined(told: &str, asked: Option<&str>) -> String {
    asked.map_or_else(|| told.to_owned(), |asked| format!("{told}\n\n{asked}"))
}

fn why(asked: &ApprovalRequested, decided: &ApprovalDecided) -> String {
    let reason = decided.reason.clone().filter(|reason| !reason.is_empty());
    let needed = || format!("Approval required for capabilities: {}", asked.capabilities.join(", "));
    reason.unwrap_or_else(needed)
}

/// The prompt of an infer part: its own, after the result of the call that it goes on from, if it names one.
///
/// # Errors
/// The words in which the run fails, if that call did.
pub(super) fn prompt_of(task: &Task, part: &Part) -> Result<String, String> {
    let Ok(asked) = part.as_infer() else { return Ok(String::new()) };
    let named = asked.metadata.read::<JsonObject>().ok();
    let named = named.and_then(|metadata| metadata.get(RESULT_OF).and_then(JsonText::to_str));
    let Some(call) = named.and_then(|call_id| task.calls().get(&call_id)) else { return Ok(asked.prompt) };
    let target = &call.request.target;
    match &call.status {
        CallStatus::Succeeded(result) => {
            let own = Some(asked.prompt.as_str()).filter(|own| !own.is_empty());
            Ok(joined(&approval::told_result(target, result), own))
        }
        CallStatus::Failed(failure) => Err(prompt::fatal_tool(target, &failure.message)),
        _ => Ok(asked.prompt),
    }
}
