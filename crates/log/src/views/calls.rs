//! The calls that are not settled: open ones, those whose outcome is unknown, and those that wait for
//! approval; with the reason why each waits and the action that ends the wait.

use proto_events::call::recovery::{Moment, Next, resume};
use proto_events::call::{Call, CallStatus, Costs};
use proto_events::envelope::Timestamp;
use proto_events::id::StreamId;
use proto_events::json::JsonText;
use proto_events::task::{Approval, Task};

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::audit::call_json::costs_of;
use crate::audit::json::call_kind;
use crate::audit::words;
use crate::read::fold::fold_stream;
use crate::views::asked_args::asked_args;
use crate::views::call_row::CallRow;
use crate::views::candidates::candidates;
use crate::views::filter::session_of;
use crate::views::readable::Readable;
use crate::views::summaries::open_summaries;

/// Returns the unsettled calls of one task, or of all with the calls for summaries, oldest first. Of all streams, those that a newer release wrote
/// are left out and named.
///
/// # Errors
/// [`ReadError`] if the log cannot be read, or a newer release wrote the one task.
pub fn unsettled(
    reader: &dyn EventReader,
    only: Option<&StreamId>,
    now: Timestamp,
) -> Result<Readable<CallRow>, ReadError> {
    match only {
        None => {
            let candidates = candidates(reader)?;
            let mut found = unsettled_of(reader, &candidates.unsettled, now)?;
            let summaries = open_summaries(reader, &candidates.summaries)?;
            found.rows.extend(summaries.rows);
            found.newer.extend(summaries.newer);
            sort(&mut found.rows);
            Ok(found)
        }
        Some(stream) => {
            let mut found = unsettled_of(reader, std::slice::from_ref(stream), now)?;
            found.newer.pop().map_or(Ok(found), Err)
        }
    }
}

/// Returns the unsettled calls of these tasks, oldest first. Those that a newer release wrote are left out and named.
pub(crate) fn unsettled_of(
    reader: &dyn EventReader,
    streams: &[StreamId],
    now: Timestamp,
) -> Result<Readable<CallRow>, ReadError> {
    let mut found = Readable::default();
    for stream in streams {
        let task = match fold_stream::<Task>(reader, stream, None) {
            Ok(folded) => folded.state,
            Err(error @ ReadError::Newer { .. }) => {
                found.newer.push(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let approvals = task.awaited_approvals().map(|approval| of_approval(stream, &task, approval));
        let unsettled = |call: &&Call| call.status.is_open() || matches!(call.status, CallStatus::Unknown(_));
        let calls = task.calls().iter().filter(unsettled).map(|call| of_call(stream, &task, call, now));
        found.rows.extend(approvals.chain(calls));
    }
    sort(&mut found.rows);
    Ok(found)
}

fn sort(rows: &mut [CallRow]) {
    rows.sort_by(|one, other| (one.since, &one.stream).cmp(&(other.since, &other.stream)));
}

fn of_approval(stream: &StreamId, task: &Task, approval: &Approval) -> CallRow {
    let asked = &approval.request;
    CallRow {
        stream: stream.clone(),
        session: session(stream, task),
        call_id: asked.call_id.clone(),
        question_id: None,
        approval_id: Some(asked.approval_id.clone()),
        kind: if asked.changed_agent().is_some() || asked.exceeded_budget().is_some() {
            "agent"
        } else {
            "tool"
        },
        target: asked.tool.clone(),
        args: asked.args.clone(),
        asked_args: asked_args(task, &asked.origin, &asked.tool, &asked.args),
        status: "approval",
        since: approval.requested_at,
        waits_for: match asked.changed_agent() {
            Some(change) => format!("approval to go on, because {}", change.in_words()),
            None => match asked.exceeded_budget() {
                Some(over) => format!("approval to go on: {over}"),
                None => format!("approval, because it needs {}", asked.capabilities.join(", ")),
            },
        },
        next_step: None,
        attempts: 0,
        max_attempts: 0,
        costs: Costs::default(),
        recovery: None,
    }
}

fn session(stream: &StreamId, task: &Task) -> String {
    let named = task.metadata().get("session_id").and_then(JsonText::to_str);
    session_of(stream, named.as_deref()).into_owned()
}

fn of_call(stream: &StreamId, task: &Task, call: &Call, now: Timestamp) -> CallRow {
    let request = &call.request;
    CallRow {
        stream: stream.clone(),
        session: session(stream, task),
        call_id: request.call_id.clone(),
        question_id: call.open_question().filter(|_| !task.waits_for_agent(call)).map(|_| call.question_id()),
        approval_id: None,
        kind: call_kind(request.kind),
        target: request.target.clone(),
        args: request.args.clone(),
        asked_args: asked_args(task, &request.origin, &request.target, &request.args),
        status: call.status.as_str(),
        since: call.requested_at,
        waits_for: waits_for(task, call),
        next_step: next_step(task, call, now),
        attempts: call.attempts,
        max_attempts: request.max_attempts,
        costs: costs_of(call),
        recovery: Some(request.recovery.as_str()),
    }
}

/// Describes why a call waits.
fn waits_for(task: &Task, call: &Call) -> String {
    let attempt = format!("attempt {} of {}", call.attempts, call.request.max_attempts);
    match &call.status {
        CallStatus::Requested => {
            "a permit or a turn, since the number or the rate of calls is limited; it was not sent".to_owned()
        }
        CallStatus::Dispatched => format!("the result of {attempt}"),
        CallStatus::TimedOut => format!("the next step: {attempt} timed out"),
        CallStatus::RetryScheduled(due, why) => {
            format!("the end of its back-off at {due}: {attempt} failed: {why}")
        }
        CallStatus::Unsent => format!("another attempt: {attempt} had no effect"),
        CallStatus::Asked(words) if task.waits_for_agent(call) => format!("another agent's task: {words}"),
        CallStatus::Asked(question) => format!("a person's answer: {question}"),
        CallStatus::Answered => "its next attempt, which is given the answer".to_owned(),
        CallStatus::Unknown(why) => format!("a person, because its outcome is unknown: {why}"),
        _ => "nothing".to_owned(),
    }
}

/// Describes what a process that resumes the task does with an open call.
fn next_step(task: &Task, call: &Call, now: Timestamp) -> Option<String> {
    if let Some(question) = call.open_question() {
        return Some(if task.waits_for_agent(call) {
            words::agent_step(question)
        } else {
            words::question_step(question)
        });
    }
    task.run()?;
    if let Some(held) = words::held_step(task) {
        return Some(held);
    }
    if let Some(parent) = &call.request.origin.parent {
        return call.status.is_open().then(|| words::parent_step(parent));
    }
    let moment = Moment::new(call.epoch.saturating_add(1), now);
    match resume(call, moment)? {
        Next::Probe { why } => Some(words::probe_step(&why)),
        Next::Wait { until, .. } => Some(words::wait_step(until)),
        Next::Write(command) => {
            let events = task.calls().decide(command, false).ok()?;
            words::own_event(&events, call).map(|event| words::recovery_step(event, &call.request))
        }
    }
}
