//! The next step of a run.

use std::time::Duration;

use proto_events::call::recovery::{Moment, Next, resume, retry};
use proto_events::call::{Call, CallCommand, CallFailure, CallStatus, FailureClass, Verdict};
use proto_events::envelope::Timestamp;
use proto_events::model::{BudgetLimit, LimitUse, Part};
use proto_events::task::{Approval, ApprovalRequested, BUDGET_STOP_ID, ChangeIds, TaskCommand};

use crate::agent::budget_stop::BudgetStop;
use crate::run::deadline::TimeOver;
use crate::run::model_input::is_still_shown;
use crate::run::person_steps::{after_own_approval, ask_person, await_answer};
use crate::run::question::{Act, At, Progress, Question, Step};
use crate::run::steps::{attach, break_off_turn, commit_turn, end_of_outputs, executable, session_id};
use crate::run::{deadline, delegation, handler, infer, notes, permission, responder, tool};

/// Returns the next step.
pub(crate) fn next(question: &mut Question<'_>) -> Step {
    let task = question.task;
    let Some(run) = task.run().copied() else {
        return Step::Wait;
    };
    if let Some(step) = waiting_step(question) {
        return step;
    }
    let parts = run.item.map_or(&[][..], |item| task.parts(item));
    let next_part = executable(parts, run.next_part).next();
    if let Some(act) = settled_output(question, next_part) {
        return Step::Do(vec![act]);
    }
    if let Some(over) = deadline::exceeded(question) {
        return ending(question, |question| match over {
            TimeOver::Budget(over) => over_budget(question, over),
            TimeOver::Deadline(error) => fatal(question, error),
        });
    }
    if let Some(step) = approved(question).or_else(|| delegation::step(question)) {
        return step;
    }
    if let Some(step) = unfinished(question, |_| true) {
        return step;
    }
    if let Some(step) = responder::step(question) {
        return step;
    }
    if handler::carries_out(question) {
        return handler::step(question);
    }
    if let Some(step) = continued(question) {
        return step;
    }
    let Some((at, part)) = next_part else {
        return ending(question, |question| finish(question));
    };
    match progress(question, at, part) {
        Progress::Output(output) => Step::Do(vec![attach(question, at, output)]),
        Progress::Next(step) => step,
        Progress::Fatal(error) => ending(question, |question| fatal(question, error)),
        Progress::OverBudget(over) => match ask_to_raise(question, &over) {
            Some(step) => step,
            None => ending(question, |question| over_budget(question, over)),
        },
        Progress::Unknown { say, call, why } => {
            ending(question, |question| ask_person(question, say, &call, &why))
        }
        Progress::Asked { say, call } => ending(question, |question| await_answer(question, say, &call)),
        // Any decision may end the run.
        Progress::Approver(approval_id) => ending(question, |_| Step::AskApprover { approval_id }),
        Progress::Approval { say, approval } => {
            ending(question, |question| permission::ask_person(question, say, &approval))
        }
    }
}

/// Returns the next step while the system shuts down: calls in flight end, and what they ask of other agents is carried
/// out for that. Nothing else begins.
pub(crate) fn while_stopping(question: &mut Question<'_>) -> Step {
    let task = question.task;
    let is_accepted = |approval: &Approval| approval.verdict().is_some_and(|decided| decided.approved);
    if task.run().is_none()
        || task.is_held()
        || task.changed_agent().is_some_and(|(approval, _)| !is_accepted(approval))
    {
        return Step::Wait;
    }
    let asked_for = |call: &Call| call.request.origin.parent.is_some();
    delegation::step(question).or_else(|| unfinished(question, asked_for)).unwrap_or(Step::Wait)
}

/// Returns the step for a call whose attempt ended for an approval that was decided meanwhile.
fn approved(question: &mut Question<'_>) -> Option<Step> {
    let task = question.task;
    let approval = |call| delegation::approval_of_question(task, call);
    let mut asked =
        task.open_questions().filter_map(approval).filter(|approval| approval.verdict().is_some());
    let approval = asked.next()?;
    Some(Step::Do(after_own_approval(question, approval)))
}

/// Returns the step that asks a person to raise the budget, if the agent is set so. Time passes while a person is waited for,
/// so that its limit ends the run all the same.
fn ask_to_raise(question: &mut Question<'_>, over: &LimitUse) -> Option<Step> {
    if question.agent.on_budget == BudgetStop::Fail || over.limit == BudgetLimit::RuntimeSeconds {
        return None;
    }
    let ids =
        ChangeIds { approval_id: question.mint.id("approval_"), call_id: question.mint.id(BUDGET_STOP_ID) };
    let asked = ApprovalRequested::of_budget(question.task, &question.agent.name, over, ids);
    Some(Step::Do(vec![Act::Task(TaskCommand::RequestApproval(Box::new(asked)))]))
}

/// Returns the step of a run that waits for a person as it is: under a changed agent that nobody has accepted, or with a
/// budget that is used up.
fn waiting_step(question: &mut Question<'_>) -> Option<Step> {
    if let Some((approval, over)) = question.task.budget_stop() {
        match approval.verdict() {
            None => return Some(Step::Wait),
            Some(decided) if !decided.approved => {
                return Some(ending(question, |question| over_budget(question, over)));
            }
            Some(_) => {}
        }
    }
    let (approval, change) = question.task.changed_agent()?;
    let Some(decided) = approval.verdict() else { return Some(Step::Wait) };
    if decided.approved {
        return None;
    }
    let error = notes::not_continued(change, decided);
    Some(ending(question, |question| fatal(question, error)))
}

/// Returns the step for a model's call that this run continues after a person's answer, where the call again ends the
/// run; otherwise its result is in the prompt of the run's first part.
fn continued(question: &mut Question<'_>) -> Option<Step> {
    let call = question.task.continued().filter(|call| call.request.origin.step > 0)?;
    match &call.status {
        CallStatus::Asked(_) => Some(ending(question, |question| await_answer(question, Vec::new(), call))),
        CallStatus::Unknown(why) | CallStatus::Reconciled(Verdict::Inconclusive(why)) => {
            Some(ending(question, |question| ask_person(question, Vec::new(), call, why)))
        }
        _ => None,
    }
}

/// Returns the command that attaches the output of the next part, if it is a call that has its outcome. It comes
/// before everything else, so that the output stands in the same append as the outcome: neither a cancel nor the
/// other calls of the run can lose it.
fn settled_output(question: &mut Question<'_>, next: Option<(At, &Part)>) -> Option<Act> {
    let (at, part) = next.filter(|(_, part)| part.kind() == "tool_call")?;
    if !tool::has_ended(question, at) {
        return None;
    }
    match tool::progress(question, at, part) {
        Progress::Output(output) => Some(attach(question, at, output)),
        _ => None,
    }
}

fn progress(question: &mut Question<'_>, at: At, part: &Part) -> Progress {
    match part.kind() {
        "tool_call" => tool::progress(question, at, part),
        _ => infer::progress(question, at, part),
    }
}

/// Ends the run by `end`. The end of a run ends its turn as well, so a resumed run must hold the turn first.
fn ending(question: &mut Question<'_>, end: impl FnOnce(&mut Question<'_>) -> Step) -> Step {
    let task = question.task;
    let opened = |call: &Call| {
        let request = &call.request;
        request.origin.run == task.runs()
            && request.prompt.as_ref().is_some_and(|prompt| prompt.session.is_some())
    };
    if question.agent.conversation && question.turn_view.is_none() && task.calls().iter().any(opened) {
        return Step::AwaitTurn { session_id: session_id(task) };
    }
    end(question)
}

/// Returns the step for those open calls that are meant, which come before everything else; `None` if none is open. A call that
/// was never sent is sent; one whose process has ended or whose deadline has passed is handled by its
/// recovery mode (R7); any other is waited for.
fn unfinished(question: &Question<'_>, is_meant: impl Fn(&Call) -> bool) -> Option<Step> {
    let moment = Moment { epoch: question.epoch, at: question.now, steady: question.steady };
    // A call that waits for a person's answer ends the run once all others have ended.
    let goes_on = |call: &&Call| {
        is_meant(call) && call.open_question().is_none() && !delegation::is_dormant(question, call)
    };
    let mut open = question.task.calls().open().filter(goes_on).peekable();
    open.peek()?;
    let step = open.find_map(|call| match resume(call, moment)? {
        Next::Probe { .. } => {
            let call_id = call.request.call_id.clone();
            (!question.outside.probing.contains(&call_id)).then_some(Step::Probe { call_id })
        }
        Next::Wait { until, longest } => await_retry(question, call, moment, until, longest),
        Next::Write(command) => continue_call(question, call, command),
    });
    Some(step.unwrap_or(Step::Wait))
}

/// Returns the step for a call whose retry is scheduled; `None` if its back-off is already waited for.
fn await_retry(
    question: &Question<'_>,
    call: &Call,
    moment: Moment,
    until: Timestamp,
    longest: Duration,
) -> Option<Step> {
    let (call_id, attempt) = (&call.request.call_id, call.attempts);
    if question.outside.retry_due.get(call_id) == Some(&attempt) {
        return continue_call(question, call, retry(call, moment));
    }
    let waits = question.outside.awaiting_retry.contains(call_id);
    let wait = until.since(question.now).min(longest);
    (!waits).then(|| Step::AwaitRetry { call_id: call_id.clone(), attempt, wait })
}

/// Returns the step that records what follows for an open call; `None` if it is already waited for.
fn continue_call(question: &Question<'_>, call: &Call, command: CallCommand) -> Option<Step> {
    let call_id = &call.request.call_id;
    let sends = matches!(command, CallCommand::Dispatch { .. });
    // The prompt is part of the session, so an inference needs the run's turn before it is sent.
    if sends && call.request.prompt.is_some() && question.agent.conversation && question.turn_view.is_none() {
        return Some(Step::AwaitTurn { session_id: session_id(question.task) });
    }
    if sends && !is_still_shown(question, &call.request) {
        return Some(Step::Do(vec![Act::Task(TaskCommand::Call(superseded(call)))]));
    }
    let outside = question.outside;
    if sends && question.agent.is_limited(&call.request) {
        let has_turn = || outside.turns.contains(call_id) || question.agent.rate_of(&call.request).is_none();
        let has_permit = outside.permits.contains(call_id) || !question.agent.takes_place(&call.request);
        if !has_permit || !has_turn() {
            let waits = outside.awaiting_permit.contains(call_id);
            return (!waits).then(|| Step::AwaitPermit { call_id: call_id.clone() });
        }
    }
    Some(Step::Do(vec![Act::Task(TaskCommand::Call(command))]))
}

/// Ends an inference whose prompt cannot be sent again as it was intended. Another one follows.
fn superseded(call: &Call) -> CallCommand {
    let failure = CallFailure {
        class: FailureClass::Superseded,
        error_type: "AgentChanged".to_owned(),
        message: "the agent's definition or the conversation has changed since this inference was intended; another one takes its place"
            .to_owned(),
        usage: None,
    };
    CallCommand::Fail { call_id: call.request.call_id.clone(), attempt: call.attempts, failure }
}

/// Ends a run whose parts all have their output: the last output, the end of the turn and the final state are one
/// append.
fn finish(question: &Question<'_>) -> Step {
    let mut acts = commit_turn(question);
    acts.push(Act::Task(end_of_outputs(question.task)));
    Step::Do(acts)
}

/// Fails the run: earlier outputs are kept, the turn ends, the task fails with this text.
fn fatal(question: &mut Question<'_>, error: String) -> Step {
    broken_off(question, &error.clone(), TaskCommand::Fail { error })
}

/// Ends a run that exceeds its budget: as [`fatal`], and the limit is recorded in the log.
fn over_budget(question: &mut Question<'_>, over: LimitUse) -> Step {
    broken_off(question, &over.to_string(), TaskCommand::ExceedBudget(over))
}

fn broken_off(question: &mut Question<'_>, why: &str, end: TaskCommand) -> Step {
    let mut acts = break_off_turn(question, why);
    acts.push(Act::Task(end));
    Step::Do(acts)
}
