//! What comes next in a run: a pure function of the task's fold, the session's turn and the agent.
//!
//! Nothing is remembered between two questions. After a crash the same question is asked of the replayed
//! state, so going on and recovering are one piece of code. Every answer is a list of ordinary commands;
//! whoever asked decides them and asks again, until the answer is to wait.
//!
//! Source of the rules: Protolink 0.6.4's `execute_task` and infer loop, and the verdicts on them.

mod deadline;
mod decided;
mod infer;
mod permit;
mod settled;
mod tool;

pub use deadline::of_run as run_deadline;
pub use decided::after_decision;
pub use infer::infer_request;
pub(crate) use infer::{Reading, Verdict};
pub use proto_events::call::recovery::{after_failure, after_loss};
pub use settled::after_settlement;

use std::collections::BTreeSet;
use std::time::Duration;

use proto_events::call::recovery::{Moment, Next, first_attempt, resume};
use proto_events::call::{Call, CallCommand, CallRequested};
use proto_events::envelope::Timestamp;
use proto_events::id::{Digest, Mint, StreamId, Version};
use proto_events::json::JsonText;
use proto_events::model::{Artifact, FinalState, Message, Part, final_state};
use proto_events::session::{Session, SessionCommand};
use proto_events::task::{Approval, Task, TaskCommand};
use proto_events::turn::TurnMessage;

use crate::agent::Agent;

/// The answer to "what comes next?".
#[derive(Debug)]
pub enum Step {
    /// Decide these, then ask again.
    Do(Vec<Act>),
    /// A turn of this session is needed first.
    AwaitTurn {
        /// The caller's id of the session.
        session_id: String,
    },
    /// Whether the last attempt of this call took effect must be asked of its tool.
    Probe {
        /// The call.
        call_id: String,
        /// Why nobody knows.
        why: String,
    },
    /// The embedder's code must decide about this approval.
    AskApprover {
        /// The approval.
        approval_id: String,
    },
    /// A place among the calls that may be under way at once is needed first.
    AwaitPlace {
        /// The call.
        call_id: String,
        /// Its target.
        target: String,
    },
    /// Nothing, until a call ends or somebody says something.
    Wait,
}

/// One command of a step.
#[derive(Debug)]
pub enum Act {
    /// For the task itself.
    Task(TaskCommand),
    /// For the session whose turn it holds.
    Session(SessionCommand),
}

/// The session's turn that a run holds, and what is known of the session.
#[derive(Debug, Clone, Copy)]
pub struct Seat<'a> {
    /// The turn's id.
    pub turn_id: &'a str,
    /// The session's stream.
    pub stream: &'a StreamId,
    /// The session, what this run has added included.
    pub session: &'a Session,
    /// Its version on disk.
    pub version: Version,
}

/// Everything that the question is asked of.
pub struct Question<'a> {
    /// Tools, model, settings.
    pub agent: &'a Agent,
    /// The task's stream.
    pub stream: &'a StreamId,
    /// The task.
    pub task: &'a Task,
    /// The session's turn, if the run holds one.
    pub seat: Option<Seat<'a>>,
    /// The log's epoch, noted with every attempt.
    pub epoch: u64,
    /// The moment of the decision.
    pub now: Timestamp,
    /// When the run's time is up: [`run_deadline`].
    pub run_until: Option<Timestamp>,
    /// What goes on outside for its open calls.
    pub under_way: &'a UnderWay,
    /// New ids and times.
    pub mint: &'a mut dyn Mint,
}

/// What goes on outside for the open calls of a task, by call id: known to its actor, and lost with the process.
#[derive(Debug, Default)]
pub struct UnderWay {
    /// Their tools are being asked whether they took effect.
    pub probing: BTreeSet<String>,
    /// They have a place among the calls that may be under way at once.
    pub places: BTreeSet<String>,
    /// They wait for one.
    pub awaited: BTreeSet<String>,
    /// Approvals about which the embedder's code is being asked, by their own ids.
    pub asked: BTreeSet<String>,
    /// Approvals that it handed on to a person.
    pub to_person: BTreeSet<String>,
}

/// A part of the run, by its place in the item.
type At = u32;

/// How far a part has come.
enum Progress {
    /// It has its output.
    Output(Part),
    /// This comes next.
    Next(Step),
    /// It cannot be carried out, and neither can the run.
    Fatal(String),
    /// Nobody knows the outcome of this call: what is left to say, and why it is unknown.
    Unknown { say: Vec<Act>, call: Box<Call>, why: String },
    /// The embedder's code must decide about this approval first.
    Approver(String),
    /// A person must decide first: what is left to say, and about which approval.
    Approval { say: Vec<Act>, approval: Box<Approval> },
}

impl std::fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question").field("stream", self.stream).finish_non_exhaustive()
    }
}

/// What comes next.
pub fn next(question: &mut Question<'_>) -> Step {
    let task = question.task;
    let Some(run) = task.run().copied() else {
        return Step::Wait;
    };
    if let Some(error) = deadline::exceeded(question) {
        return ending(question, |question| {
            let outputs = ended(question);
            fatal(question, outputs, error)
        });
    }
    if let Some(step) = unfinished(question) {
        return step;
    }
    let parts = run.item.map_or(&[][..], |item| task.parts(item));
    let mut outputs = Vec::new();
    for (at, part) in executable(parts).filter(|(at, _)| *at >= run.next_part) {
        match progress(question, at, part) {
            Progress::Output(output) => outputs.push((at, output)),
            Progress::Next(step) => return step,
            Progress::Fatal(error) => return ending(question, |question| fatal(question, outputs, error)),
            Progress::Unknown { say, call, why } => {
                return ending(question, |question| ask_person(question, outputs, say, &call, &why));
            }
            // Whatever is decided may end the run.
            Progress::Approver(approval_id) => {
                return ending(question, |_| Step::AskApprover { approval_id });
            }
            Progress::Approval { say, approval } => {
                return ending(question, |question| permit::ask_person(question, outputs, say, &approval));
            }
        }
    }
    if outputs.is_empty() {
        return ending(question, |question| finish(question));
    }
    Step::Do(attach(question, outputs))
}

/// The outputs of the parts that have come to their end, up to the first that has not.
fn ended(question: &mut Question<'_>) -> Vec<(At, Part)> {
    let task = question.task;
    let Some(run) = task.run() else { return Vec::new() };
    let parts = run.item.map_or(&[][..], |item| task.parts(item));
    let mut outputs = Vec::new();
    for (at, part) in executable(parts).filter(|(at, _)| *at >= run.next_part) {
        match progress(question, at, part) {
            Progress::Output(output) => outputs.push((at, output)),
            _ => break,
        }
    }
    outputs
}

fn progress(question: &mut Question<'_>, at: At, part: &Part) -> Progress {
    match part.kind() {
        "tool_call" => tool::progress(question, at, part),
        _ => infer::progress(question, at, part),
    }
}

/// What ends a run ends its turn as well: a run that was taken up again must hold it first.
fn ending(question: &mut Question<'_>, end: impl FnOnce(&mut Question<'_>) -> Step) -> Step {
    let task = question.task;
    let opened = |call: &Call| {
        let request = &call.request;
        request.origin.run == task.runs()
            && request.prompt.as_ref().is_some_and(|prompt| prompt.session.is_some())
    };
    if question.agent.conversation && question.seat.is_none() && task.calls().iter().any(opened) {
        return Step::AwaitTurn { session_id: session_id(task) };
    }
    end(question)
}

/// Only these parts are carried out; all others are for readers.
fn is_executable(part: &Part) -> bool {
    matches!(part.kind(), "tool_call" | "infer")
}

/// The executable parts, with their places.
fn executable(parts: &[Part]) -> impl Iterator<Item = (At, &Part)> {
    (0..).zip(parts).filter(|(_, part)| is_executable(part))
}

/// Open calls come before everything else: one that was never sent is sent, one whose process has ended or
/// whose time is up is dealt with as its recovery mode says (R7), any other is waited for. Nothing, if none is open.
fn unfinished(question: &Question<'_>) -> Option<Step> {
    let moment = Moment { epoch: question.epoch, at: question.now };
    let mut open = question.task.calls().open().peekable();
    open.peek()?;
    let step = open.find_map(|call| match resume(call, moment)? {
        Next::Probe { why } => {
            let call_id = call.request.call_id.clone();
            (!question.under_way.probing.contains(&call_id)).then_some(Step::Probe { call_id, why })
        }
        Next::Write(command) => go_on(question, call, command),
    });
    Some(step.unwrap_or(Step::Wait))
}

/// What it takes to write what follows for an open call; nothing, if that is being waited for.
fn go_on(question: &Question<'_>, call: &Call, command: CallCommand) -> Option<Step> {
    let CallRequested { call_id, target, .. } = &call.request;
    let sends = matches!(command, CallCommand::Dispatch { .. });
    // What a model is shown stands in the session, so an inference needs the run's turn before it is sent.
    if sends && call.request.prompt.is_some() && question.agent.conversation && question.seat.is_none() {
        return Some(Step::AwaitTurn { session_id: session_id(question.task) });
    }
    if sends && question.agent.is_limited(&call.request) && !question.under_way.places.contains(call_id) {
        let asked = question.under_way.awaited.contains(call_id);
        return (!asked).then(|| Step::AwaitPlace { call_id: call_id.clone(), target: target.clone() });
    }
    Some(Step::Do(vec![Act::Task(TaskCommand::Call(command))]))
}

/// Intent, and dispatch in the same append where the call need not wait for others to end.
fn start(question: &Question<'_>, request: CallRequested) -> Vec<Act> {
    let dispatch = (!question.agent.is_limited(&request))
        .then(|| Act::Task(TaskCommand::Call(first_attempt(request.call_id.clone(), question.epoch))));
    let intent = Act::Task(TaskCommand::Call(CallCommand::Request(Box::new(request))));
    std::iter::once(intent).chain(dispatch).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// All parts have their output: outputs, turn and final state are one append.
fn finish(question: &Question<'_>) -> Step {
    let outputs: Vec<Part> = question.task.outputs().cloned().collect();
    let end = match final_state(&outputs) {
        FinalState::Completed => TaskCommand::Complete(None),
        FinalState::InputRequired => TaskCommand::RequireInput(None),
        FinalState::Failed { error } => TaskCommand::Fail { error },
    };
    let mut acts = end_turn(question, None);
    acts.push(Act::Task(end));
    Step::Do(acts)
}

/// The run cannot go on: earlier outputs are kept, the turn is dropped, the task fails with this text.
fn fatal(question: &mut Question<'_>, outputs: Vec<(At, Part)>, error: String) -> Step {
    let mut acts = attach(question, outputs);
    acts.extend(end_turn(question, Some(&error)));
    acts.push(Act::Task(TaskCommand::Fail { error }));
    Step::Do(acts)
}

/// Commits the open turn, or aborts it for a reason.
fn end_turn(question: &Question<'_>, abort: Option<&str>) -> Vec<Act> {
    let open =
        question.seat.and_then(|seat| seat.session.open_turn().filter(|open| open.turn_id == seat.turn_id));
    let Some(open) = open else { return Vec::new() };
    let turn_id = open.turn_id.clone();
    vec![Act::Session(match abort {
        None => SessionCommand::CommitTurn { turn_id },
        Some(reason) => SessionCommand::AbortTurn { turn_id, reason: reason.to_owned() },
    })]
}

/// A call whose outcome nobody knows needs a person: the turn ends as it is, the task waits.
fn ask_person(
    question: &mut Question<'_>,
    outputs: Vec<(At, Part)>,
    say: Vec<Act>,
    call: &Call,
    why: &str,
) -> Step {
    let text = format!(
        "The outcome of the call to {} ({}) is unknown: {why}. It was not repeated. Find out whether it took \
         effect before you ask for it again.",
        call.request.target, call.request.call_id
    );
    let mut acts = attach(question, outputs);
    acts.extend(say);
    acts.extend(end_turn(question, None));
    acts.push(Act::Task(TaskCommand::RequireInput(Some(Message::agent(&text, question.mint)))));
    Step::Do(acts)
}

/// Attaches outputs, in the order of their parts, when the run ends: a canceled run attaches none.
fn attach(question: &mut Question<'_>, outputs: Vec<(At, Part)>) -> Vec<Act> {
    let mut append = |(at, output): (At, Part)| {
        let artifact = Artifact::new(vec![output], question.mint);
        Act::Task(TaskCommand::AppendArtifact { artifact, part: Some(at) })
    };
    outputs.into_iter().map(&mut append).collect()
}

/// The key under which every attempt of a call is sent: fixed by where the call stands, never by what a
/// model wrote.
fn idempotency_key(stream: &StreamId, call_id: &str) -> String {
    Digest::of_parts(&[b"taskreel.call.v1\0", stream.as_str().as_bytes(), b"\0", call_id.as_bytes()])
        .to_string()
}

/// The session that a task belongs to: named in its run context, else the task is its own.
pub fn session_id(task: &Task) -> String {
    let named = task.metadata().get("session_id").filter(|id| !id.is_null());
    named.and_then(JsonText::to_str).filter(|id| !id.is_empty()).unwrap_or_else(|| task.id().to_owned())
}

/// The messages that belong to this part, wherever the turn is kept.
fn part_messages<'a>(question: &Question<'a>, at: At) -> impl Iterator<Item = &'a TurnMessage> + use<'a> {
    let all = match question.seat {
        Some(seat) => seat.session.open_turn().map_or(&[][..], |open| open.turn.messages()),
        None => question.task.turn().messages(),
    };
    all.iter().filter(move |message| message.part == at)
}
