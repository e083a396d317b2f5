//! Steps after a person has settled a call whose outcome was unknown: the waiting run continues as a new run,
//! with a turn of its own (R7). Earlier messages stay as they are.

use proto_events::call::{Call, CallKind, CallStatus, Verdict};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, Part};
use proto_events::task::TaskCommand;

use crate::run::after_decision::{told_instead, with_result};
use crate::run::question::{Act, Question};
use crate::run::settled_actions::with_settled;
use crate::run::steps::{end_of_outputs, executable, find_part, start_next_run};
use crate::run::{handler, notes};

/// Returns the commands that resume the task, if it waits for this call. Otherwise it returns none: the
/// resolution is evidence only.
pub(crate) fn after_resolution(question: &mut Question<'_>, call_id: &str) -> Vec<Act> {
    let task = question.task;
    if task.paused().is_none() {
        return Vec::new();
    }
    let is_awaited = |call: &&Call| {
        let continued = task.continued().is_some_and(|continued| continued.request.call_id == call_id);
        call.request.origin.run == task.runs() || continued
    };
    // What another call asked for in its middle stands at that call's place, and is not one of the run's own.
    let is_own = |call: &&Call| call.request.origin.parent.is_none();
    let Some(call) = task.calls().get(call_id).filter(is_awaited).filter(is_own) else { return Vec::new() };
    if call.request.kind == CallKind::Handler {
        return handler::after_resolution(question, call);
    }
    let Some((part, rest)) = find_part(task, call) else { return Vec::new() };
    if call.request.origin.step > 0 {
        in_loop(question, call, part, rest)
    } else {
        as_part(question, call, part, rest)
    }
}

/// Resumes a run whose model asked for the call: the model receives the result in a turn of its own.
fn in_loop(question: &mut Question<'_>, call: &Call, part: &Part, rest: &[Part]) -> Vec<Act> {
    let target = &call.request.target;
    let asked = part.as_infer().map(|asked| asked.prompt).unwrap_or_default();
    // A conversation holds the prompt; without one it must be sent again.
    let with_prompt =
        |told: String| if question.agent.conversation { told } else { format!("{told}\n\n{asked}") };
    let infer = match &call.status {
        CallStatus::Reconciled(Verdict::Landed(_)) => with_result(question, &call.request.call_id, part),
        CallStatus::Reconciled(Verdict::DidNotHappen) => {
            told_instead(part, &with_prompt(notes::did_not_happen(target)))
        }
        CallStatus::Abandoned(reason) => told_instead(part, &with_prompt(notes::abandoned(target, reason))),
        _ => return Vec::new(),
    };
    let infer = with_settled(infer, call);
    start_next_run(question, std::iter::once(infer).chain(rest.iter().cloned()).collect())
}

/// Resumes a run in which a part of the message asked for the call: its output is attached, or the call is
/// repeated.
fn as_part(question: &mut Question<'_>, call: &Call, part: &Part, rest: &[Part]) -> Vec<Act> {
    let task = question.task;
    let output_id = call.request.origin.part_call_id.clone();
    let output_id = output_id.unwrap_or_else(|| question.mint.id("tool_output_"));
    match &call.status {
        CallStatus::Reconciled(Verdict::Landed(result)) => {
            let output = attach(question, Part::tool_output(&output_id, result.clone()));
            let then = if executable(rest, 0).next().is_some() {
                start_next_run(question, rest.to_vec())
            } else {
                vec![Act::Task(end_of_outputs(task))]
            };
            std::iter::once(output).chain(then).collect()
        }
        CallStatus::Reconciled(Verdict::DidNotHappen) => {
            start_next_run(question, std::iter::once(part.clone()).chain(rest.iter().cloned()).collect())
        }
        CallStatus::Abandoned(reason) => {
            let error = notes::abandoned(&call.request.target, reason);
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
