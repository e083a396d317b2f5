//! `diff` and `explain`: a task, session or tool at one version and at another, and what would become of it.

use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;
use proto_events::session::Session;
use proto_events::task::Task;
use proto_events::tool_store::ToolStore;

use super::problem::EXIT_UNKNOWN;
use super::screen::count;
use super::show::known_version;
use super::{Problem, Screen, Verdict};
use crate::audit::diff::{Change, diff_sessions, diff_tasks, diff_tools, first_other_record};
use crate::audit::explain::{Explained, Fate, Found};
use crate::audit::json::{call_kind, number, object, text, text_or_null, tool_store_json};
use crate::audit::words::{became, call_name};
use crate::audit::{self, patch};
use crate::store::EventReader;
use crate::store::fold::fold_stream;

/// Two states of a stream, compared.
struct Compared {
    changes: Vec<Change>,
    /// As `state` prints them.
    before: JsonText,
    after: JsonText,
}

/// Tells what changed from the first version to the second one; with another log, from the first version here to the
/// second one there. A version that is not named is the newest.
///
/// # Errors
/// [`Problem`] if a version or the other log's stream does not exist, a log cannot be read, or the reader of the output
/// has gone.
pub fn diff(
    reader: &dyn EventReader,
    other: Option<&dyn EventReader>,
    stream: &StreamId,
    versions: (Option<Version>, Option<Version>),
    as_patch: bool,
    screen: &mut Screen,
) -> Result<Verdict, Problem> {
    let second = other.unwrap_or(reader);
    if second.stream_version(stream)?.0 == 0 {
        return Err(Problem::new(
            EXIT_UNKNOWN,
            format!("the other log has no {stream}"),
            "both logs must have the task or session for it to be compared",
            "`taskreel ls --file FILE` lists the tasks that it has",
        ));
    }
    let version = |reader: &dyn EventReader, asked: Option<Version>| match asked {
        Some(asked) => known_version(reader, stream, asked),
        None => Ok(reader.stream_version(stream)?),
    };
    let (from, to) = (version(reader, versions.0)?, version(second, versions.1)?);
    let found = compare(reader, second, stream, (from, to))?;
    let parted = match other {
        Some(other) => first_other_record(reader, other, stream)?,
        None => None,
    };
    let same = found.changes.is_empty() && parted.is_none();
    if as_patch {
        let operations = patch(&found.before.to_value(), &found.after.to_value());
        screen.json_thing(&JsonText::from(operations))?;
    } else if screen.json {
        for change in &found.changes {
            screen.json_line(&change_json(change))?;
        }
        screen.json_line(&object([
            ("schema", text("taskreel.diff/1")),
            ("stream", text(stream.as_str())),
            ("from", number(from.0)),
            ("to", number(to.0)),
            ("changes", number(found.changes.len() as u64)),
            ("first_other_record", parted.map_or_else(JsonText::null, |version| number(version.0))),
        ]))?;
    } else {
        tell(&found, stream, (from, to), (other.is_some(), parted), screen)?;
    }
    screen.flush()?;
    Ok(if same { Verdict::Yes } else { Verdict::No })
}

fn compare(
    reader: &dyn EventReader,
    second: &dyn EventReader,
    stream: &StreamId,
    (from, to): (Version, Version),
) -> Result<Compared, Problem> {
    if stream.category() == "session" {
        let before = fold_stream::<Session>(reader, stream, Some(from))?.state;
        let after = fold_stream::<Session>(second, stream, Some(to))?.state;
        return Ok(Compared {
            changes: diff_sessions(&before, &after),
            before: before.history().to_json(),
            after: after.history().to_json(),
        });
    }
    if stream.category() == "tool" {
        let before = fold_stream::<ToolStore>(reader, stream, Some(from))?.state;
        let after = fold_stream::<ToolStore>(second, stream, Some(to))?.state;
        return Ok(Compared {
            changes: diff_tools(&before, &after),
            before: tool_store_json(&before),
            after: tool_store_json(&after),
        });
    }
    let before = fold_stream::<Task>(reader, stream, Some(from))?.state;
    let after = fold_stream::<Task>(second, stream, Some(to))?.state;
    Ok(Compared { changes: diff_tasks(&before, &after), before: before.to_json(), after: after.to_json() })
}

fn tell(
    found: &Compared,
    stream: &StreamId,
    (from, to): (Version, Version),
    (two_logs, parted): (bool, Option<Version>),
    screen: &mut Screen,
) -> Result<(), Problem> {
    let where_to = if two_logs { " of the other log" } else { "" };
    let title = format!("{} {}", stream.category(), screen.bold(&screen.plain(&stream.id())));
    screen.line(&format!("{title}   version {from} to version {to}{where_to}"))?;
    match parted {
        Some(version) => screen.line(&format!(
            "the two logs part at version {version}: they have other records from there on"
        ))?,
        None if two_logs => screen.line("the two logs have the same records, as far as both go")?,
        None => {}
    }
    if found.changes.is_empty() {
        return screen.line("no difference");
    }
    let mut table = screen.table(&["what", "", "which", "says"]);
    for change in &found.changes {
        let which = screen.plain(&change.which);
        // Enough of a digest to tell it from others; --json has all of it.
        let which = if which.len() == 64 { which.chars().take(12).collect() } else { which };
        table.add_row(vec![
            change.area.as_str().to_owned(),
            change.how.as_str().to_owned(),
            which,
            screen.fit(&change.words, 60),
        ]);
    }
    screen.print(&table)
}

fn change_json(change: &Change) -> JsonText {
    object([
        ("schema", text("taskreel.change/1")),
        ("area", text(change.area.as_str())),
        ("change", text(change.how.as_str())),
        ("which", text(&change.which)),
        ("words", text(&change.words)),
    ])
}

/// Tells what recovery would do, had the process died after a version; after the newest, without one.
///
/// # Errors
/// [`Problem`] if there is no such version, the log cannot be read, or the reader of the output has gone.
pub fn explain(
    reader: &dyn EventReader,
    stream: &StreamId,
    at: Option<Version>,
    screen: &mut Screen,
) -> Result<Verdict, Problem> {
    let asked = known_version(reader, stream, at.unwrap_or(reader.stream_version(stream)?))?;
    let explained = audit::explain(reader, stream, asked)?;
    if screen.json {
        screen.json_line(&explained_json(stream, asked, &explained))?;
    } else {
        tell_explained(stream, asked, &explained, screen)?;
    }
    screen.flush()?;
    Ok(Verdict::Yes)
}

fn tell_explained(
    stream: &StreamId,
    asked: Version,
    explained: &Explained,
    screen: &mut Screen,
) -> Result<(), Problem> {
    let id = screen.bold(&screen.plain(&stream.id()));
    let (first, last) = explained.append;
    match &explained.found {
        Found::Task { state, .. } => {
            screen.line(&format!(
                "task {id}   {}   if the process had died after version {last}",
                screen.state(*state)
            ))?;
        }
        Found::Session { .. } => {
            screen.line(&format!("session {id}   if the process had died after version {last}"))?;
        }
        Found::Tool { .. } => {
            screen.line(&format!("tool {id}   if the process had died after version {last}"))?;
        }
    }
    if asked < last {
        screen.line(&format!(
            "(versions {first} to {last} are one append: they are on disk together or not at all)"
        ))?;
    }
    screen.line("")?;
    match &explained.found {
        Found::Session { turn_of: Some(task) } => screen.line(&format!(
            "its open turn belongs to {task}, which ends it when it is taken up again; a session makes no calls"
        )),
        Found::Tool { keys } => screen.line(&format!(
            "its state has {}; nothing is done, since it is written with the success of a call or not at all",
            count(*keys as u64, "key", "keys")
        )),
        Found::Session { turn_of: None } => screen.line("no turn is open; a session makes no calls"),
        Found::Task { state, calls } if calls.is_empty() => screen.line(&at_rest(*state)),
        Found::Task { calls, .. } => calls.iter().try_for_each(|fate| {
            let words = format!("{}, {}", call_name(&fate.call.request), became(&fate.call));
            screen.line(&format!("call {} ({})", screen.plain(&fate.call.request.call_id), screen.plain(&words)))?;
            screen.line(&format!("  {}", screen.plain(&fate.words)))
        }),
    }
}

/// What happens where no call is open.
fn at_rest(state: proto_events::model::TaskState) -> String {
    use proto_events::model::TaskState;
    match state {
        TaskState::Working => "no call is open; the run goes on with what comes next".to_owned(),
        state if state.is_terminal() => format!("no call is open; the task is {state}, nothing is done"),
        state => format!("no call is open; the task is {state}, nothing is done until somebody asks"),
    }
}

fn explained_json(stream: &StreamId, asked: Version, explained: &Explained) -> JsonText {
    let (state, calls, turn_of) = match &explained.found {
        Found::Task { state, calls } => (text(state.as_str()), calls.iter().map(fate_json).collect(), None),
        Found::Session { turn_of } => (JsonText::null(), Vec::new(), turn_of.as_deref()),
        Found::Tool { .. } => (JsonText::null(), Vec::new(), None),
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

fn fate_json(fate: &Fate) -> JsonText {
    let request = &fate.call.request;
    let events: Vec<JsonText> = fate.events.iter().map(audit::json::call_event).collect();
    object([
        ("call_id", text(&request.call_id)),
        ("kind", text(call_kind(request.kind))),
        ("target", text(&request.target)),
        ("recovery", text(request.recovery.as_str())),
        ("status", text(fate.call.status.as_str())),
        ("attempts", number(fate.call.attempts)),
        ("does", text(&fate.words)),
        ("events", JsonText::of_model(&events)),
    ])
}
