//! Pieces that every kind of part shares: intents, outputs, ends of turns.

use std::time::Duration;

use proto_events::call::recovery::first_attempt;
use proto_events::call::{Call, CallCommand, CallRequested};
use proto_events::envelope::Timestamp;
use proto_events::id::{Digest, StreamId};
use proto_events::json::JsonText;
use proto_events::model::{Artifact, FinalState, Message, Part, final_state};
use proto_events::session::{OpenTurn, SessionCommand};
use proto_events::task::{Task, TaskCommand};
use proto_events::turn::TurnMessage;

use crate::run::question::{Act, At, Question};
use crate::run::turn_end::ended_early;

/// Whether the part is carried out; all other parts are for readers.
fn is_executable(part: &Part) -> bool {
    matches!(part.kind(), "tool_call" | "infer")
}

/// Returns the executable parts from this index on, with their indexes.
pub(crate) fn executable(parts: &[Part], from: At) -> impl Iterator<Item = (At, &Part)> {
    let rest = usize::try_from(from).ok().and_then(|from| parts.get(from..)).unwrap_or_default();
    (from..).zip(rest).filter(|(_, part)| is_executable(part))
}

/// Returns the intent, and the dispatch in the same append where the call needs no permit.
pub(crate) fn start(question: &Question<'_>, request: CallRequested) -> Vec<Act> {
    let dispatch = (!question.agent.is_limited(&request))
        .then(|| Act::Task(TaskCommand::Call(first_attempt(request.call_id.clone(), question.epoch))));
    let intent = Act::Task(TaskCommand::Call(CallCommand::Request(Box::new(request))));
    std::iter::once(intent).chain(dispatch).collect()
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Commits the open turn.
pub(crate) fn commit_turn(question: &Question<'_>) -> Vec<Act> {
    let commit = |open: &OpenTurn| SessionCommand::CommitTurn { turn_id: open.turn_id.clone() };
    open_turn(question).map(commit).map(Act::Session).into_iter().collect()
}

/// Ends the open turn of a run that does not come to its answer, for this reason.
pub(crate) fn break_off_turn(question: &mut Question<'_>, why: &str) -> Vec<Act> {
    let Some(open) = open_turn(question) else { return Vec::new() };
    let commands = ended_early(question.agent.loop_rules, open, question.task, why, question.mint);
    commands.into_iter().map(Act::Session).collect()
}

fn open_turn<'a>(question: &Question<'a>) -> Option<&'a OpenTurn> {
    let turn_view = question.turn_view?;
    turn_view.session.open_turn().filter(|open| open.turn_id == turn_view.turn_id)
}

/// Returns the end of a task whose parts all have their output.
pub(crate) fn end_of_outputs(task: &Task) -> TaskCommand {
    let outputs: Vec<Part> = task.all_outputs().cloned().collect();
    match final_state(&outputs) {
        FinalState::Completed => TaskCommand::Complete(None),
        FinalState::InputRequired => TaskCommand::RequireInput(None),
        FinalState::Failed { error } => TaskCommand::Fail { error },
    }
}

/// Attaches the output of a part as soon as the part has ended, so that it stays whatever happens to the run.
pub(crate) fn attach(question: &mut Question<'_>, at: At, output: Part) -> Act {
    let id = output_id(question.task, question.stream, at);
    let artifact = Artifact { id: Some(id), ..Artifact::new(vec![output], question.mint) };
    Act::Task(TaskCommand::AppendArtifact { artifact, part: Some(at) })
}

/// Returns the id of the artifact with the output of a part of the task's run. It follows from the part's place, so that it is
/// known while a model's answer still arrives, and has Protolink's form: the time, here that of the run's beginning, and eight
/// hexadecimal digits, counted on from the run's first part.
pub(crate) fn output_id(task: &Task, stream: &StreamId, at: At) -> String {
    let began = task.run().map_or(Timestamp(0), |run| run.began).to_string();
    let began: String = began.chars().filter(char::is_ascii_digit).take(14).collect();
    let run = task.runs().to_be_bytes();
    let digest = Digest::of_parts(&[b"taskreel.output.v1\0", stream.as_str().as_bytes(), b"\0", &run]);
    let [first, second, third, fourth, ..] = digest.0;
    let first = u32::from_be_bytes([first, second, third, fourth]);
    format!("art_{began}_{:08x}", first.wrapping_add(at))
}

/// Returns the key under which each attempt of a call is sent. It depends on the stream and the call id,
/// never on what a model wrote.
pub(crate) fn idempotency_key(stream: &StreamId, call_id: &str) -> String {
    Digest::of_parts(&[b"taskreel.call.v1\0", stream.as_str().as_bytes(), b"\0", call_id.as_bytes()])
        .to_string()
}

/// Returns the id of the task's session: the one named in its run context, else the task's own id.
pub(crate) fn session_id(task: &Task) -> String {
    let named = task.metadata().get("session_id").filter(|id| !id.is_null());
    named.and_then(JsonText::to_str).filter(|id| !id.is_empty()).unwrap_or_else(|| task.id().to_owned())
}

/// Returns the messages of the turn that belong to this part, kept by the session or the task.
pub(crate) fn part_messages<'a>(
    question: &Question<'a>,
    at: At,
) -> impl Iterator<Item = &'a TurnMessage> + use<'a> {
    let all = match question.turn_view {
        Some(turn_view) => turn_view.session.open_turn().map_or(&[][..], |open| open.turn.messages()),
        None => question.task.turn().messages(),
    };
    all.iter().filter(move |message| message.part == at)
}

/// Begins a new run on these parts.
pub(crate) fn start_next_run(question: &mut Question<'_>, parts: Vec<Part>) -> Vec<Act> {
    let message = Message {
        id: Some(question.mint.id("msg_")),
        role: Some("user".to_owned()),
        parts,
        timestamp: Some(question.mint.timestamp()),
    };
    vec![Act::Task(TaskCommand::AppendMessage(message)), Act::Task(TaskCommand::Begin)]
}

/// Returns the part of the paused run from which a call comes, and the parts after it. A call that an earlier run made
/// is continued by the first executable part.
pub(crate) fn find_part<'a>(task: &'a Task, call: &Call) -> Option<(&'a Part, &'a [Part])> {
    let parts = task.paused()?.item.map_or(&[][..], |item| task.parts(item));
    let at = if call.request.origin.run == task.runs() {
        call.request.origin.part
    } else {
        task.continued().filter(|continued| continued.request.call_id == call.request.call_id)?;
        executable(parts, 0).next()?.0
    };
    let at = usize::try_from(at).ok()?;
    Some((parts.get(at)?, parts.get(at.saturating_add(1)..).unwrap_or_default()))
}
