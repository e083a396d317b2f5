//! Steps after a person's decision on an approval: the waiting run continues as a new run with a turn of its
//! own. A run that is still active finds the decision by itself.

use proto_events::call::{Call, CallKind, CallStatus, FailureClass, Verdict};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::Part;
use proto_events::task::{ApprovalDecided, ApprovalRequested, Task, TaskCommand};

use crate::agent::capability::approval_required;
use crate::agent::peer::PeerAnswer;
use crate::run::notes;
use crate::run::notes::denied;
use crate::run::permission::is_agent_call;
use crate::run::question::{Act, Question};
use crate::run::steps::start_next_run;

/// The key in an infer part's metadata that names the call whose result completes its prompt.
const RESULT_OF: &str = "taskreel.result_of";

/// Returns the commands that resume the task, if it waits for this approval.
pub(crate) fn after_decision(question: &mut Question<'_>, approval_id: &str) -> Vec<Act> {
    let task = question.task;
    let Some(paused) = task.paused() else { return Vec::new() };
    let decided = task
        .approvals()
        .get(approval_id)
        .and_then(|approval| Some((&approval.request, approval.verdict()?)))
        .filter(|(asked, _)| {
            // These two hold a run; they stand for no call that could be made.
            let is_of_call = asked.changed_agent().is_none() && asked.exceeded_budget().is_none();
            asked.origin.run == task.runs() && is_of_call
        });
    let Some((asked, decided)) = decided else { return Vec::new() };
    let parts = paused.item.map_or(&[][..], |item| task.parts(item));
    let at = usize::try_from(asked.origin.part).unwrap_or(usize::MAX);
    let Some(part) = parts.get(at) else { return Vec::new() };
    let rest = parts.get(at.saturating_add(1)..).unwrap_or_default();
    let in_loop = asked.origin.step > 0;
    let first = match (decided.approved, in_loop) {
        (true, true) if is_agent_call(asked) => {
            let told = notes::note_approved(&asked.tool);
            vec![infer_part(question, part, &told)]
        }
        (true, false) => vec![call(asked)],
        (true, true) => vec![call(asked), with_result(question, &asked.call_id, part)],
        (false, true) => vec![denial(question, asked, decided, part)],
        (false, false) => {
            let error = denied(&asked.tool, &denial_reason(asked, decided));
            return vec![Act::Task(TaskCommand::Fail { error })];
        }
    };
    start_next_run(question, first.into_iter().chain(rest.iter().cloned()).collect())
}

/// Returns the approved call, with exactly the arguments that were approved.
fn call(asked: &ApprovalRequested) -> Part {
    let output_id = asked.origin.part_call_id.as_deref().unwrap_or(&asked.call_id);
    Part::tool_call_of(&asked.tool, asked.args.clone(), Some(output_id))
}

/// Returns the infer part that asked for the call, to go on with its result.
pub(crate) fn with_result(question: &Question<'_>, call_id: &str, part: &Part) -> Part {
    let mut content: JsonObject = part.content().read().unwrap_or_default();
    let mut metadata: JsonObject =
        content.get("metadata").and_then(|metadata| metadata.read().ok()).unwrap_or_default();
    metadata.set(RESULT_OF, JsonText::string(call_id));
    content.set("metadata", metadata.to_text());
    content.set("prompt", JsonText::string(&original_prompt(question, part).unwrap_or_default()));
    Part::new("infer", content.to_text())
}

/// Returns the infer part that asked for the call, to go on without it.
fn denial(
    question: &Question<'_>,
    asked: &ApprovalRequested,
    decided: &ApprovalDecided,
    part: &Part,
) -> Part {
    infer_part(question, part, &notes::note_denied(&asked.tool, &denial_reason(asked, decided)))
}

/// Returns the infer part that asked, with this text at the start of its prompt.
fn infer_part(question: &Question<'_>, part: &Part, told: &str) -> Part {
    let mut content: JsonObject = part.content().read().unwrap_or_default();
    content.set("prompt", JsonText::string(&joined(told, original_prompt(question, part).as_deref())));
    Part::new("infer", content.to_text())
}

/// Returns an infer part with this prompt, which says all that its prompt had said, a call's result included.
pub(crate) fn told_instead(part: &Part, told: &str) -> Part {
    let mut content: JsonObject = part.content().read().unwrap_or_default();
    let metadata = content.get("metadata").and_then(|metadata| metadata.read::<JsonObject>().ok());
    if let Some(mut metadata) = metadata
        && metadata.remove(RESULT_OF).is_some()
    {
        content.set("metadata", metadata.to_text());
    }
    content.set("prompt", JsonText::string(told));
    Part::new("infer", content.to_text())
}

/// Returns the original prompt if the model must be sent it again. A conversation already holds it.
fn original_prompt(question: &Question<'_>, part: &Part) -> Option<String> {
    let asked = part.as_infer().map(|asked| asked.prompt).ok().filter(|prompt| !prompt.is_empty());
    asked.filter(|_| !question.agent.conversation)
}

fn joined(told: &str, asked: Option<&str>) -> String {
    asked.map_or_else(|| told.to_owned(), |asked| format!("{told}\n\n{asked}"))
}

fn denial_reason(asked: &ApprovalRequested, decided: &ApprovalDecided) -> String {
    let reason = decided.reason.clone().filter(|reason| !reason.is_empty());
    reason.unwrap_or_else(|| approval_required(&asked.capabilities))
}

/// The messages with which an infer part begins.
pub(crate) struct PartStart {
    /// The prompt, a user's message.
    pub(crate) prompt: String,
    /// The id of the call that the part continues from, and the note with its result. It is a message of its own, since a
    /// prompt is always shown whole and a result may be long.
    pub(crate) result: Option<(String, String)>,
}

/// Returns the messages with which an infer part begins: its own prompt, after what became of the call that it continues from,
/// if it names one.
///
/// # Errors
/// The text with which the run fails, if that call failed.
pub(crate) fn beginning_of(task: &Task, part: &Part) -> Result<PartStart, String> {
    let asked = part.as_infer().ok();
    let named = asked.as_ref().and_then(|asked| asked.metadata.read::<JsonObject>().ok());
    let named = named.and_then(|metadata| metadata.get(RESULT_OF).and_then(JsonText::to_str));
    let own = asked.map(|asked| asked.prompt).unwrap_or_default();
    let Some(call) = named.and_then(|call_id| task.calls().get(&call_id)) else {
        return Ok(PartStart { prompt: own, result: None });
    };
    let target = &call.request.target;
    if call.request.kind == CallKind::Delegate {
        return beginning_after_agent(call, own);
    }
    let (told, result) = match &call.status {
        CallStatus::Succeeded(result) if call.questions.is_empty() => {
            (notes::note_made(target), Some(result))
        }
        CallStatus::Succeeded(result) => (notes::note_answered(target), Some(result)),
        // A person settled the call.
        CallStatus::Reconciled(Verdict::Landed(result)) => (notes::landed(target), Some(result)),
        CallStatus::Reconciled(Verdict::DidNotHappen) => (notes::did_not_happen(target), None),
        CallStatus::Abandoned(reason) => (notes::abandoned(target, reason), None),
        CallStatus::Failed(failure) => return Err(notes::fatal_tool(target, &failure.message)),
        _ => return Ok(PartStart { prompt: own, result: None }),
    };
    let prompt = joined(&told, Some(own.as_str()).filter(|own| !own.is_empty()));
    let result = result.map(|result| (call.request.call_id.clone(), notes::tool_result(target, result)));
    Ok(PartStart { prompt, result })
}

/// Returns the messages with which an infer part begins that goes on from a request to another agent.
fn beginning_after_agent(call: &Call, own: String) -> Result<PartStart, String> {
    let agent = &call.request.target;
    let args: JsonObject = call.request.args.read().unwrap_or_default();
    let action = args.get("action").and_then(JsonText::to_str).unwrap_or_default();
    let result = |result: &JsonText| notes::agent_result(agent, &action, result);
    let (told, result) = match &call.status {
        CallStatus::Succeeded(answer) => {
            (notes::note_agent_ended(agent), Some(result(&PeerAnswer::result_in(answer))))
        }
        // A person settled the call.
        CallStatus::Reconciled(Verdict::Landed(landed)) => (notes::landed(agent), Some(result(landed))),
        CallStatus::Reconciled(Verdict::DidNotHappen) => (notes::did_not_happen(agent), None),
        CallStatus::Abandoned(reason) => (notes::abandoned(agent, reason), None),
        CallStatus::Failed(failure) if failure.class == FailureClass::Rejected => {
            (notes::agent_failed(&failure.message), None)
        }
        CallStatus::Failed(failure) => return Err(notes::fatal_agent(agent, &failure.message)),
        _ => return Ok(PartStart { prompt: own, result: None }),
    };
    let prompt = joined(&told, Some(own.as_str()).filter(|own| !own.is_empty()));
    Ok(PartStart { prompt, result: result.map(|result| (call.request.call_id.clone(), result)) })
}
