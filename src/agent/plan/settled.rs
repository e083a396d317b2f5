//! What follows when a person has said what became of a call whose outcome was unknown: the run that waits for it goes
//! on as a new run, with a turn of its own (R7). What was said before stays as it is.

use proto_events::call::{Call, CallStatus, Verdict};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, Message, Part};
use proto_events::task::TaskCommand;

use super::{Act, Question, executable};
use crate::agent::prompt;

/// The commands that take the task up again, if it waits for this call. Otherwise none: what was found out is evidence.
pub fn after_settlement(question: &mut Question<'_>, call_id: &str) -> Vec<Act> {
    let task = question.task;
    let Some(paused) = task.paused() else { return Vec::new() };
    let Some(call) = task.calls().get(call_id).filter(|call| call.request.origin.run == task.runs()) else {
        return Vec::new();
    };
    let parts = paused.item.map_or(&[][..], |item| task.parts(item));
    let at = usize::try_from(call.request.origin.part).unwrap_or(usize::MAX);
    let Some(part) = parts.get(at) else { return Vec::new() };
    let rest = parts.get(at.saturating_add(1)..).unwrap_or_default();
    if call.request.origin.step > 0 {
        in_loop(question, call, part, rest)
    } else {
        as_part(question, call, part, rest)
    }
}

/// The model asked for the call: it is told in a turn of its own.
fn in_loop(question: &mut Question<'_>, call: &Call, part: &Part, rest: &[Part]) -> Vec<Act> {
    let target = &call.request.target;
    let told = match &call.status {
        CallStatus::Reconciled(Verdict::Landed(result)) => prompt::landed(target, result),
        CallStatus::Reconciled(Verdict::DidNotHappen) => prompt::did_not_happen(target),
        CallStatus::Abandoned(reason) => prompt::abandoned(target, reason),
        _ => return Vec::new(),
    };
    // A conversation holds what was asked; without one the model must hear it again.
    let asked = part.as_infer().map(|asked| asked.prompt).unwrap_or_default();
    let told = if question.agent.conversation { told } else { format!("{told}\n\n{asked}") };
    let mut content: JsonObject = part.content().read().unwrap_or_default();
    content.set("prompt", JsonText::string(&told));
    let infer = Part::new("infer", content.to_text());
    go_on(question, std::iter::once(infer).chain(rest.iter().cloned()).collect())
}

/// A part of the message asked for it: its output takes its place, or it is called again.
fn as_part(question: &mut Question<'_>, call: &Call, part: &Part, rest: &[Part]) -> Vec<Act> {
    let output_id = call.request.origin.part_call_id.clone();
    let output_id = output_id.unwrap_or_else(|| question.mint.id("tool_output_"));
    match &call.status {
        CallStatus::Reconciled(Verdict::Landed(result)) => {
            let output = attach(question, Part::tool_output(&output_id, result.clone()));
            let then = if executable(rest).next().is_some() {
                go_on(question, rest.to_vec())
            } else {
                vec![Act::Task(TaskCommand::Complete(None))]
            };
            std::iter::once(output).chain(then).collect()
        }
        CallStatus::Reconciled(Verdict::DidNotHappen) => {
            go_on(question, std::iter::once(part.clone()).chain(rest.iter().cloned()).collect())
        }
        CallStatus::Abandoned(reason) => {
            let error = prompt::abandoned(&call.request.target, reason);
            let message: JsonObject =
                [("message".to_owned(), JsonText::string(&error))].into_iter().collect();
            let output = attach(question, Part::tool_failure(&output_id, message.to_text()));
            vec![output, Act::Task(TaskCommand::Fail { error })]
        }
        _ => Vec::new(),
    }
}

fn attach(question: &mut Question<'_>, output: Part) -> Act {
    let artifact = Artifact::new(vec![output], question.mint);
    Act::Task(TaskCommand::AppendArtifact { artifact, part: None })
}

/// A new run on these parts.
pub(super) fn go_on(question: &mut Question<'_>, parts: Vec<Part>) -> Vec<Act> {
    let message = Message {
        id: Some(question.mint.id("msg_")),
        role: Some("user".to_owned()),
        parts,
        timestamp: Some(question.mint.timestamp()),
    };
    vec![Act::Task(TaskCommand::AppendMessage(message)), Act::Task(TaskCommand::Begin)]
}
