//! `diff` and `explain`: compares two versions of a task, session or tool, and explains its recovery.

use proto_events::id::{Category, StreamId, Version};
use proto_events::json::JsonText;
use proto_events::session::Session;
use proto_events::task::Task;
use proto_events::tool_store::ToolStore;
use taskreel_log::api::EventReader;
use taskreel_log::audit;
use taskreel_log::audit::json::{call_kind, number, object, text, text_or_null, tool_store_json};
use taskreel_log::audit::words::{call_name, status_text};
use taskreel_log::audit::{
    CallRecovery, Change, Explanation, RecoveryExplanation, diff_sessions, diff_tasks, diff_tools,
    first_other_record, json, patch,
};
use taskreel_log::read::fold_stream;
use taskreel_log::views::Point;

use crate::print::answer::Answer;
use crate::print::grid::{Cell, uncut, words};
use crate::print::problem::{EXIT_UNKNOWN, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, count, note};
use crate::print::show::at_point;

/// Two states of a stream to compare.
pub(crate) struct StateComparison {
    /// The changes.
    pub(crate) changes: Vec<Change>,
    /// The first state, as `state` prints it.
    before: JsonText,
    after: JsonText,
}

/// Prints the changes from the first version to the second; with another log, from the first version in this
/// log to the second one in the other. A version left out is the newest.
///
/// # Errors
/// [`Problem`] if a version or the other log's stream does not exist, a log cannot be read, or the reader of
/// the output is gone.
pub(crate) fn diff(
    reader: &dyn EventReader,
    other: Option<&dyn EventReader>,
    stream: &StreamId,
    versions: (Option<Point>, Option<Point>),
    as_patch: bool,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let second = other.unwrap_or(reader);
    if second.stream_version(stream)?.0 == 0 {
        return Err(Problem::new(
            EXIT_UNKNOWN,
            format!("the other log has no {stream}"),
            "only a task, session or tool that is in both logs can be compared",
            "`taskreel ls --file FILE` lists the tasks of a log",
        ));
    }
    let version = |reader: &dyn EventReader, asked: Option<Point>| {
        at_point(reader, stream, asked.unwrap_or(Point::BeforeEnd(0)))
    };
    let (from, to) = (version(reader, versions.0)?, version(second, versions.1)?);
    let found = compare(reader, second, stream, (from, to))?;
    let diverged_at = match other {
        Some(other) => first_other_record(reader, other, stream)?,
        None => None,
    };
    let same = found.changes.is_empty() && diverged_at.is_none();
    if as_patch {
        return print_patch(&found, screen);
    }
    if screen.json {
        for change in &found.changes {
            screen.json_line(&change_json(change))?;
        }
        screen.json_line(&object([
            ("schema", text("taskreel.diff/1")),
            ("stream", text(stream.as_str())),
            ("from", number(from.0)),
            ("to", number(to.0)),
            ("changes", number(found.changes.len() as u64)),
            ("first_other_record", diverged_at.map_or_else(JsonText::null, |version| number(version.0))),
        ]))?;
    } else {
        print_diff(&found, stream, (from, to), (other.is_some(), diverged_at), screen)?;
    }
    screen.flush()?;
    Ok(if same { Answer::Yes } else { Answer::No })
}

/// Prints the patch between the two documents; the answer is whether they are equal. Calls and turns have no place in
/// them.
fn print_patch(found: &StateComparison, screen: &mut Screen) -> Result<Answer, Problem> {
    let operations = patch(&found.before.tree(), &found.after.tree());
    let same = operations.as_array().is_none_or(Vec::is_empty);
    screen.json_value(&JsonText::from(operations))?;
    screen.flush()?;
    if same && !found.changes.is_empty() {
        let changes = count(found.changes.len() as u64, "change", "changes");
        note(&format!("{changes} of calls or turns, which `state` does not print; --json has them"));
    }
    Ok(if same { Answer::Yes } else { Answer::No })
}

/// Compares the states of a stream at two versions; the second one may stand in another log.
///
/// # Errors
/// [`Problem`] if the stream has no states, or cannot be read.
pub(crate) fn compare(
    reader: &dyn EventReader,
    second: &dyn EventReader,
    stream: &StreamId,
    (from, to): (Version, Version),
) -> Result<StateComparison, Problem> {
    if stream.category() == Some(Category::Session) {
        let before = fold_stream::<Session>(reader, stream, Some(from))?.state;
        let after = fold_stream::<Session>(second, stream, Some(to))?.state;
        return Ok(StateComparison {
            changes: diff_sessions(&before, &after),
            before: before.history().to_json(),
            after: after.history().to_json(),
        });
    }
    if stream.category() == Some(Category::Tool) {
        let before = fold_stream::<ToolStore>(reader, stream, Some(from))?.state;
        let after = fold_stream::<ToolStore>(second, stream, Some(to))?.state;
        return Ok(StateComparison {
            changes: diff_tools(&before, &after),
            before: tool_store_json(&before),
            after: tool_store_json(&after),
        });
    }
    if matches!(stream.category(), Some(Category::System | Category::Agent | Category::Registry)) {
        return Err(Problem::new(
            EXIT_USAGE,
            format!("cannot compare {stream}"),
            "only tasks, sessions and tools have states to compare",
            format!("`taskreel events {stream}` lists what changed"),
        ));
    }
    let before = fold_stream::<Task>(reader, stream, Some(from))?.state;
    let after = fold_stream::<Task>(second, stream, Some(to))?.state;
    Ok(StateComparison {
        changes: diff_tasks(&before, &after),
        before: before.to_json(),
        after: after.to_json(),
    })
}

fn print_diff(
    found: &StateComparison,
    stream: &StreamId,
    (from, to): (Version, Version),
    (two_logs, diverged_at): (bool, Option<Version>),
    screen: &mut Screen,
) -> Result<(), Problem> {
    let where_to = if two_logs { " of the other log" } else { "" };
    let category = stream.category().map_or("stream", Category::as_str);
    let title = format!("{} {}", category, screen.bold(&screen.plain(&stream.id())));
    screen.line(&format!("{title}   version {from} to version {to}{where_to}"))?;
    match diverged_at {
        Some(version) => screen.line(&format!("the two logs differ from version {version} on"))?,
        None if two_logs => {
            screen.line("the two logs have the same records up to the end of the shorter one")?;
        }
        None => {}
    }
    if found.changes.is_empty() {
        return screen.line("no difference");
    }
    let mut table = Screen::table(&[uncut("area"), uncut("change"), uncut("which"), words("value")]);
    for change in &found.changes {
        let which = screen.plain(&change.which);
        // Enough of a digest to distinguish it; --json has all of it.
        let which = if which.len() == 64 { which.chars().take(12).collect() } else { which };
        table.row(vec![
            Cell::new(change.area.as_str()),
            Cell::new(change.kind.as_str()),
            Cell::new(which),
            Cell::new(screen.plain(&change.words)),
        ]);
    }
    screen.print(&table)
}

fn change_json(change: &Change) -> JsonText {
    object([
        ("schema", text("taskreel.change/1")),
        ("area", text(change.area.as_str())),
        ("change", text(change.kind.as_str())),
        ("which", text(&change.which)),
        ("words", text(&change.words)),
        ("before", change.before.clone().unwrap_or_else(JsonText::null)),
        ("after", change.after.clone().unwrap_or_else(JsonText::null)),
    ])
}

/// Prints what recovery would do if the process had died after the given version, or after the newest without
/// one.
///
/// # Errors
/// [`Problem`] if the version does not exist, the log cannot be read, or the reader of the output is gone.
pub(crate) fn explain(
    reader: &dyn EventReader,
    stream: &StreamId,
    at: Option<Point>,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let asked = at_point(reader, stream, at.unwrap_or(Point::BeforeEnd(0)))?;
    let explained = audit::explain(reader, stream, asked)?;
    if screen.json {
        screen.json_line(&explained_json(stream, asked, &explained))?;
    } else {
        print_explained(stream, asked, &explained, screen)?;
    }
    screen.flush()?;
    Ok(Answer::Yes)
}

fn print_explained(
    stream: &StreamId,
    asked: Version,
    explained: &RecoveryExplanation,
    screen: &mut Screen,
) -> Result<(), Problem> {
    let id = screen.bold(&screen.plain(&stream.id()));
    let (first, last) = explained.append;
    match &explained.explanation {
        Explanation::Task { state, .. } => {
            screen.line(&format!(
                "task {id}   {}   if the process had died after version {last}",
                screen.state(*state)
            ))?;
        }
        Explanation::Session { .. } => {
            screen.line(&format!("session {id}   if the process had died after version {last}"))?;
        }
        Explanation::Tool { .. } => {
            screen.line(&format!("tool {id}   if the process had died after version {last}"))?;
        }
        _ => screen.line(&format!("{id}   if the process had died after version {last}"))?,
    }
    if asked < last {
        screen.line(&format!(
            "(versions {first} to {last} are one append, which is on disk as a whole or not at all)"
        ))?;
    }
    screen.line("")?;
    match &explained.explanation {
        Explanation::Session { turn_of: Some(task) } => screen.line(&format!(
            "its open turn belongs to {task}, which ends the turn when it is resumed; a session makes no calls"
        )),
        Explanation::Tool { keys } => screen.line(&format!(
            "its state has {}; no action is needed, because it is written together with the success of a call",
            count(*keys as u64, "key", "keys")
        )),
        Explanation::System { .. } => screen.line("no action but the next start: a start has no calls"),
        Explanation::Agent { revision } => screen.line(&format!(
            "revision {revision} holds; the next start adds a revision if the definition differs"
        )),
        Explanation::Flow { .. } => screen.line("no action: a checkpoint has no calls"),
        Explanation::Registry { agents } => screen.line(&format!(
            "{} registered; nothing of a registry is open",
            count(*agents as u64, "agent is", "agents are")
        )),
        Explanation::Session { turn_of: None } => screen.line("no turn is open; a session makes no calls"),
        Explanation::Task { state, calls } if calls.is_empty() => screen.line(&without_open_calls(*state)),
        Explanation::Task { calls, .. } => calls.iter().try_for_each(|recovery| {
            let told = format!("{}, {}", call_name(&recovery.call.request), status_text(&recovery.call));
            screen.line(&format!("call {} ({})", screen.plain(&recovery.call.request.call_id), screen.plain(&told)))?;
            screen.line(&format!("  {}", screen.plain(&recovery.words)))
        }),
        _ => screen.line("nothing is known of the recovery of such a stream"),
    }
}

/// Describes the recovery of a task without open calls.
fn without_open_calls(state: proto_events::model::TaskState) -> String {
    use proto_events::model::TaskState;
    match state {
        TaskState::Working => "no call is open; the run continues with its next step".to_owned(),
        state if state.is_terminal() => format!("no call is open; the task is {state}, no action is taken"),
        state => format!("no call is open; the task is {state}, no action is taken until a command arrives"),
    }
}

fn explained_json(stream: &StreamId, asked: Version, explained: &RecoveryExplanation) -> JsonText {
    let (state, calls, turn_of) = match &explained.explanation {
        Explanation::Task { state, calls } => {
            (text(state.as_str()), calls.iter().map(call_recovery_json).collect(), None)
        }
        Explanation::Session { turn_of } => (JsonText::null(), Vec::new(), turn_of.as_deref()),
        _ => (JsonText::null(), Vec::new(), None),
    };
    object([
        ("schema", text("taskreel.explain/1")),
        ("stream", text(stream.as_str())),
        ("asked", number(asked.0)),
        ("version", number(explained.version.0)),
        ("append_from", number(explained.append.0.0)),
        ("state", state),
        ("turn_of", text_or_null(turn_of)),
        ("calls", JsonText::of_model::<Vec<JsonText>>(&calls)),
    ])
}

fn call_recovery_json(recovery: &CallRecovery) -> JsonText {
    let request = &recovery.call.request;
    let events: Vec<JsonText> = recovery.events.iter().map(json::call_event).collect();
    object([
        ("call_id", text(&request.call_id)),
        ("kind", text(call_kind(request.kind))),
        ("target", text(&request.target)),
        ("recovery", text(request.recovery.as_str())),
        ("status", text(recovery.call.status.as_str())),
        ("attempts", number(recovery.call.attempts)),
        ("does", text(&recovery.words)),
        ("events", JsonText::of_model(&events)),
    ])
}
