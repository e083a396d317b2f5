//! Steps that end a run for a person: at a question of a call, or at a call whose outcome is unknown. With the answer to
//! a question, a new run sends the call again and continues where the task stopped.

use proto_events::call::{Answer, Call, CallKind};
use proto_events::model::{Message, Part};
use proto_events::task::TaskCommand;

use crate::run::decided::with_result;
use crate::run::question::{Act, Question, Step};
use crate::run::steps::{end_turn, place, start_next_run};

/// Ends the run for a person's answer: the turn is committed as it is, the call stays open and the task waits.
pub(crate) fn await_answer(question: &mut Question<'_>, mut say: Vec<Act>, call: &Call) -> Step {
    let text = call.open_question().unwrap_or_default().to_owned();
    say.extend(end_turn(question, None));
    let call_id = call.request.call_id.clone();
    let message = Message::agent(&text, question.mint);
    say.push(Act::Task(TaskCommand::AwaitAnswer { call_id, question: message }));
    Step::Do(say)
}

/// Returns the commands that resume the task, if it waits for this answer. In a run that is still active the call is
/// sent again there.
pub(crate) fn after_answer(question: &mut Question<'_>, call_id: &str) -> Vec<Act> {
    let task = question.task;
    let Some(call) = task.calls().get(call_id).filter(|_| task.paused().is_some()) else { return Vec::new() };
    let answer = call.questions.last().and_then(|asked| asked.answer.as_ref());
    let told = Part::text(match answer {
        Some(Answer::Given(text)) => text.clone(),
        Some(Answer::Declined(why)) if why.is_empty() => "No answer.".to_owned(),
        Some(Answer::Declined(why)) => format!("No answer: {why}"),
        None => return Vec::new(),
    });
    if call.request.kind == CallKind::Handler {
        return start_next_run(question, vec![told]);
    }
    go_on(question, call, Some(told))
}

/// Returns the commands that resume the task after the message that answered this call: the message itself holds the
/// answer, so that a handler's run begins with it, and any other run with what is left to do.
pub(crate) fn after_message(question: &mut Question<'_>, call_id: &str) -> Vec<Act> {
    let task = question.task;
    let Some(call) = task.calls().get(call_id).filter(|_| task.paused().is_some()) else { return Vec::new() };
    if call.request.kind == CallKind::Handler {
        return vec![Act::Task(TaskCommand::Begin)];
    }
    go_on(question, call, None)
}

/// Begins the run that sends the call again, with the answer in its message unless that is told already.
fn go_on(question: &mut Question<'_>, call: &Call, told: Option<Part>) -> Vec<Act> {
    let Some((part, rest)) = place(question.task, call) else { return Vec::new() };
    let call_id = &call.request.call_id;
    let part = if call.request.origin.step > 0 { with_result(question, call_id, part) } else { part.clone() };
    start_next_run(question, told.into_iter().chain([part]).chain(rest.iter().cloned()).collect())
}

/// Ends the run at a call whose outcome is unknown: the turn is committed as it is, the task waits for a
/// person.
pub(crate) fn ask_person(question: &mut Question<'_>, mut say: Vec<Act>, call: &Call, why: &str) -> Step {
    let text = format!(
        "The outcome of the call to {} ({}) is unknown: {why}. It was not repeated. Find out whether it took \
         effect before you ask for it again.",
        call.request.target, call.request.call_id
    );
    say.extend(end_turn(question, None));
    say.push(Act::Task(TaskCommand::RequireInput(Some(Message::agent(&text, question.mint)))));
    Step::Do(say)
}
