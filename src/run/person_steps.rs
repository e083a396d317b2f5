//! Steps that end a run for a person: at a question of a call, or at a call whose outcome is unknown. With the answer to
//! a question, a new run sends the call again and continues where the task stopped.

use proto_events::call::{Answer, Call, CallCommand, CallKind};
use proto_events::id::StreamId;
use proto_events::model::{Message, Part};
use proto_events::task::{Approval, Task, TaskCommand, TaskRejection};

use crate::run::after_decision::{after_decision, with_result};
use crate::run::child_wait::awaited_child;
use crate::run::delegation::approval_of_question;
use crate::run::question::{Act, Question, Step};
use crate::run::steps::{commit_turn, find_part, start_next_run};

/// Ends the run for a person's answer: the turn is committed as it is, the call stays open and the task waits.
pub(crate) fn await_answer(question: &mut Question<'_>, mut say: Vec<Act>, call: &Call) -> Step {
    let text = call.open_question().unwrap_or_default().to_owned();
    say.extend(commit_turn(question));
    let call_id = call.request.call_id.clone();
    let message = Message::agent(&text, question.mint);
    say.push(Act::Task(TaskCommand::AwaitAnswer { call_id, question: message }));
    Step::Do(say)
}

/// Checks that a text may answer the open question of a call. A question with which the system itself ended an attempt
/// stands for an approval, and is answered by the decision about that: after a text the call would only ask again.
pub(crate) fn check_answer(task: &Task, call_id: &str) -> Result<(), TaskRejection> {
    let call = task.calls().get(call_id);
    if let Some(child) = call.and_then(|call| awaited_child(task, call)) {
        return Err(TaskRejection::AwaitsTask { call_id: call_id.to_owned(), task: child.to_string() });
    }
    let approval = call.and_then(|call| approval_of_question(task, call));
    match approval.filter(|approval| approval.verdict().is_none()) {
        Some(approval) => Err(TaskRejection::AwaitsApproval {
            call_id: call_id.to_owned(),
            approval_id: approval.request.approval_id.clone(),
        }),
        None => Ok(()),
    }
}

/// The commands that record a person's answer, and the call from which the task goes on after them.
pub(crate) struct AnswerCommands {
    pub(crate) commands: Vec<TaskCommand>,
    pub(crate) call_id: String,
}

/// Returns the commands that record an answer to the question that a text names: the id of a call, or a
/// [`Call::question_id`]. An answer to a question that was passed on is one to the call that passes it on: that call is
/// the one which is sent again, and takes the other up.
///
/// # Errors
/// As [`check_answer`].
pub(crate) fn answering(task: &Task, named: &str, answer: Answer) -> Result<AnswerCommands, TaskRejection> {
    let (call_id, question) = task.calls().question_named(named);
    check_answer(task, &call_id)?;
    let is_last = is_last(task, &call_id, question);
    let (call_id, question) = match passed_on_by(task, &call_id).filter(|_| is_last) {
        Some((by, number)) => (by, Some(number)),
        None => (call_id, question),
    };
    let commands = answers(task, call_id.clone(), question, answer);
    Ok(AnswerCommands { commands, call_id })
}

/// Returns the commands that record an answer to a question of a call, for the other calls that wait for it too. The
/// call itself comes last: the next run continues the call that was answered last.
pub(crate) fn answers(
    task: &Task,
    call_id: String,
    question: Option<u32>,
    answer: Answer,
) -> Vec<TaskCommand> {
    let is_last = is_last(task, &call_id, question);
    let alike = asked_alike(task, &call_id).into_iter().filter(|_| is_last);
    let mut commands: Vec<_> = alike.map(|call| answer_to_last(call, answer.clone())).collect();
    commands.push(TaskCommand::Call(CallCommand::Answer { call_id, question, answer }));
    commands
}

/// Whether the last question of a call is meant: an answer that comes again answers nothing that was asked since. Without a
/// number that is certain only where the call has asked once.
fn is_last(task: &Task, call_id: &str, question: Option<u32>) -> bool {
    let asked = task.calls().get(call_id).map(Call::asked);
    question.map_or(asked == Some(1), |number| asked == Some(number))
}

/// Returns the call that passes the question of this one on to a person, and the number of its question: an answer to either is
/// one to both.
fn passed_on_by(task: &Task, call_id: &str) -> Option<(String, u32)> {
    let call = task.calls().get(call_id)?;
    let parent = call.request.origin.parent.as_ref()?;
    let by = task.calls().get(&parent.call_id)?;
    let is_same = call.open_question().is_some() && by.open_question() == call.open_question();
    is_same.then(|| (by.request.call_id.clone(), by.asked()))
}

/// Returns the other calls that wait for the same answer as this one: a tool or a handler asks with the text of the agent
/// elsewhere whose task it waits for, and both go on with the answer.
fn asked_alike<'a>(task: &'a Task, call_id: &str) -> Vec<&'a Call> {
    let Some(call) = task.calls().get(call_id) else { return Vec::new() };
    let Some(asked) = call.open_question() else { return Vec::new() };
    let by = call.request.origin.parent.as_ref().and_then(|parent| task.calls().get(&parent.call_id));
    let own = task.calls().children(call_id);
    let alike = by.into_iter().chain(own).filter(|other| other.open_question() == Some(asked));
    // Those that wait for a task of the same system, or for an approval, go on with those.
    let alone = |other: &&Call| approval_of_question(task, other).is_none();
    alike.filter(alone).collect()
}

/// Returns the commands that resume the task, if it waits for this answer. In a run that is still active the call is
/// sent again there.
pub(crate) fn after_answer(question: &mut Question<'_>, call_id: &str) -> Vec<Act> {
    let task = question.task;
    let Some(call) = task.calls().get(call_id).filter(|_| task.paused().is_some()) else { return Vec::new() };
    match call.questions.last().and_then(|asked| asked.answer.as_ref()) {
        Some(answer) => resumed(question, call, answer),
        None => Vec::new(),
    }
}

/// Returns the commands that resume the task with this answer to the question of a call.
fn resumed(question: &mut Question<'_>, call: &Call, answer: &Answer) -> Vec<Act> {
    let told = Part::text(match answer {
        Answer::Given(text) => text.clone(),
        Answer::Declined(why) if why.is_empty() => "No answer.".to_owned(),
        Answer::Declined(why) => format!("No answer: {why}"),
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
    let Some((part, rest)) = find_part(question.task, call) else { return Vec::new() };
    let call_id = &call.request.call_id;
    let part = if call.request.origin.step > 0 { with_result(question, call_id, part) } else { part.clone() };
    start_next_run(question, told.into_iter().chain([part]).chain(rest.iter().cloned()).collect())
}

/// Returns the commands that resume the task, if it waits for this approval.
pub(crate) fn after_approval(question: &mut Question<'_>, approval_id: &str) -> Vec<Act> {
    let known = question.task.approvals().get(approval_id);
    match known.filter(|approval| approval.request.origin.parent.is_some()) {
        Some(approval) => after_own_approval(question, approval),
        None => after_decision(question, approval_id),
    }
}

/// Returns the commands that follow the decision about an approval for which a call asked in its middle: the decision
/// answers the question with which the attempt ended, and resumes the task if it waits for it.
pub(crate) fn after_own_approval(question: &mut Question<'_>, approval: &Approval) -> Vec<Act> {
    let task = question.task;
    let parent = approval.request.origin.parent.as_ref().and_then(|parent| task.calls().get(&parent.call_id));
    let is_its = |call: &&Call| {
        let asked = approval_of_question(task, call);
        asked.is_some_and(|asked| asked.request.approval_id == approval.request.approval_id)
    };
    let (Some(call), Some(verdict)) = (parent.filter(is_its), approval.verdict()) else { return Vec::new() };
    let reason = verdict.reason.clone().unwrap_or_default();
    let answer =
        if verdict.approved { Answer::Given("approved".to_owned()) } else { Answer::Declined(reason) };
    let call_id = call.request.call_id.clone();
    let (number, said) = (Some(call.asked()), answer.clone());
    let answered = TaskCommand::Call(CallCommand::Answer { call_id, question: number, answer: said });
    let resumed = if task.paused().is_some() { resumed(question, call, &answer) } else { Vec::new() };
    std::iter::once(Act::Task(answered)).chain(resumed).collect()
}

/// Ends the run at a call whose outcome is unknown: the turn is committed as it is, the task waits for a
/// person.
pub(crate) fn ask_person(question: &mut Question<'_>, mut say: Vec<Act>, call: &Call, why: &str) -> Step {
    let text = format!(
        "The outcome of the call to {} ({}) is unknown: {why}. It was not repeated. Find out whether it took \
         effect before you ask for it again.",
        call.request.target, call.request.call_id
    );
    say.extend(commit_turn(question));
    say.push(Act::Task(TaskCommand::RequireInput(Some(Message::agent(&text, question.mint)))));
    Step::Do(say)
}

/// Returns the commands that follow the end of another agent's task, if this call waits for it: the call may be sent again,
/// and a call which had asked for it too. A task that waits for them goes on with a new run.
pub(crate) fn after_child(question: &mut Question<'_>, call_id: &str, child: &StreamId) -> Vec<Act> {
    let task = question.task;
    let Some(call) = task.calls().get(call_id) else { return Vec::new() };
    let Some(asked) = call.open_question().filter(|_| awaited_child(task, call).as_ref() == Some(child))
    else {
        return Vec::new();
    };
    let answer = Answer::Given(format!("The task {child} has ended."));
    let mut answered = vec![answered(call, &answer)];
    let by = call.request.origin.parent.as_ref().and_then(|parent| task.calls().get(&parent.call_id));
    let by = by.filter(|by| by.open_question() == Some(asked));
    // The call that the next run continues comes last.
    answered.extend(by.map(|by| self::answered(by, &answer)));
    let outermost = by.or(Some(call)).filter(|_| task.paused().is_some());
    let goes_on = outermost.filter(|call| call.request.origin.parent.is_none());
    answered.extend(goes_on.map(|call| resumed(question, call, &answer)).unwrap_or_default());
    answered
}

fn answered(call: &Call, answer: &Answer) -> Act {
    Act::Task(answer_to_last(call, answer.clone()))
}

/// Returns the command that records an answer to the last question of a call.
fn answer_to_last(call: &Call, answer: Answer) -> TaskCommand {
    let call_id = call.request.call_id.clone();
    TaskCommand::Call(CallCommand::Answer { call_id, question: Some(call.asked()), answer })
}
