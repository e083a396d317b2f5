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
use crate::audit::json::{call_kind, costs_json, number, object, text, text_or_null};
use crate::audit::words;
use crate::read::fold::fold_stream;
use crate::views::candidates::candidates;
use crate::views::filter::session_of;
use crate::views::readable::Readable;

/// A call that is not settled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallRow {
    /// The task's stream.
    pub stream: StreamId,
    /// The session that the task belongs to: the one that it names, else the one under its own id.
    pub session: String,
    /// The call's id; for a call that waits for approval, the id that it will have.
    pub call_id: String,
    /// The name of the question that waits for a person's answer, see [`Call::question_id`].
    pub question_id: Option<String>,
    /// The approval that the call waits for.
    pub approval_id: Option<String>,
    /// `tool`, `infer`, `delegate` or `handler`; `agent` for the question whether the task goes on under a changed agent.
    pub kind: &'static str,
    /// The tool, or backend and model.
    pub target: String,
    /// A tool's arguments, or an inference's parameters.
    pub args: JsonText,
    /// The word for the call's status.
    pub status: &'static str,
    /// The time when the intent was written or the approval requested.
    pub since: Timestamp,
    /// The reason for the wait, in words.
    pub waits_for: String,
    /// The next step once a process resumes the task; none if a person must decide.
    pub next_step: Option<String>,
    /// The number of attempts so far.
    pub attempts: u32,
    /// The maximum number of attempts.
    pub max_attempts: u32,
    /// The cost of the attempts so far, by currency.
    pub costs: Costs,
    /// The recovery mode; none before the intent is written.
    pub recovery: Option<&'static str>,
}

impl CallRow {
    /// Returns the commands that end the wait, as typed after the program's name. Empty if no person needs to
    /// act.
    pub fn commands(&self) -> Vec<String> {
        let (task, call) = (shell_word(&self.stream.id()), shell_word(&self.call_id));
        if let Some(approval) = &self.approval_id {
            let approval = shell_word(approval);
            return vec![
                format!("approve {task} {approval}"),
                format!("deny {task} {approval} --reason WHY"),
            ];
        }
        if let Some(question) = &self.question_id {
            let question = shell_word(question);
            return vec![format!("answer {question} TEXT"), format!("answer {question} --decline WHY")];
        }
        if self.next_step.is_some() || self.status != "unknown" {
            return Vec::new();
        }
        vec![
            format!("reconcile {call} --landed RESULT"),
            format!("reconcile {call} --did-not-happen"),
            format!("abandon {call} --reason WHY"),
        ]
    }

    /// Returns the row as JSON.
    pub fn to_json(&self) -> JsonText {
        self.to_json_with(&self.commands())
    }

    /// Returns the row as JSON, with these commands, which may name the log.
    pub fn to_json_with(&self, commands: &[String]) -> JsonText {
        object([
            ("schema", text("taskreel.call/1")),
            ("task", text(&self.stream.id())),
            ("stream", text(self.stream.as_str())),
            ("session", text(&self.session)),
            ("call_id", text(&self.call_id)),
            ("question_id", text_or_null(self.question_id.as_deref())),
            ("approval_id", text_or_null(self.approval_id.as_deref())),
            ("kind", text(self.kind)),
            ("target", text(&self.target)),
            ("args", self.args.clone()),
            ("status", text(self.status)),
            ("since", text(&self.since.to_string())),
            ("waits_for", text(&self.waits_for)),
            ("then", text_or_null(self.next_step.as_deref())),
            ("attempts", number(self.attempts)),
            ("max_attempts", number(self.max_attempts)),
            ("costs", costs_json(&self.costs)),
            ("recovery", text_or_null(self.recovery)),
            ("commands", JsonText::of_model(commands)),
        ])
    }
}

/// Returns the unsettled calls of one task, or of all, oldest first. Of all tasks, those that a newer release wrote
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
        None => unsettled_of(reader, &candidates(reader)?.unsettled, now),
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
    found.rows.sort_by(|one, other| (one.since, &one.stream).cmp(&(other.since, &other.stream)));
    Ok(found)
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

/// Quotes a word for a shell, if it needs quotes.
pub fn shell_word(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
