//! `show` and `state`: prints one task or session, or one tool's state.

use proto_events::id::{Category, StreamId, Version};
use proto_events::session::Session;
use proto_events::tool_store::ToolStore;
use taskreel_log::api::EventReader;
use taskreel_log::audit::json::one_line;
use taskreel_log::documents::{ShownError, show_json, state_json};
use taskreel_log::read::fold_stream;
use taskreel_log::views::{Point, PointError, SessionRow, ToolRow, version_at};

use crate::print::answer::Answer;
use crate::print::grid::{Cell, uncut, words};
use crate::print::problem::{EXIT_UNKNOWN, Problem};
use crate::print::screen::{Screen, count, note};
use crate::print::show_task::show_task;
use crate::print::time;

/// Shows one task or session. `events` is the command to type for its events.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn show(
    reader: &dyn EventReader,
    stream: &StreamId,
    events: &str,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    match stream.category() {
        Some(Category::Session) => show_session(reader, stream, screen)?,
        Some(Category::Tool) => show_tool(reader, stream, screen)?,
        // They have no view of their own.
        Some(Category::System | Category::Agent | Category::Flow | Category::Registry) => {
            return state(reader, stream, screen);
        }
        Some(Category::Task) | None => show_task(reader, stream, screen)?,
    }
    screen.flush()?;
    note(&format!("next: {events}"));
    Ok(Answer::Yes)
}

fn show_session(reader: &dyn EventReader, stream: &StreamId, screen: &mut Screen) -> Result<(), Problem> {
    if screen.json {
        return screen.json_line(&show_json(reader, stream)?);
    }
    let folded = fold_stream::<Session>(reader, stream, None)?;
    let (row, session) = (SessionRow::new(stream, &folded), &folded.state);
    screen.line(&format!(
        "session {}   {}, {}, {}, the last {}",
        screen.bold(&screen.plain(session.id())),
        count(row.turns, "turn", "turns"),
        count(row.messages as u64, "message", "messages"),
        count(row.events, "event", "events"),
        time::local(row.last_at)
    ))?;
    if let Some(task) = &row.turn_of {
        let task = screen.plain(task);
        screen.line(&format!("task {task} holds the turn"))?;
    }
    screen.line("")?;
    for message in session.history().as_slice() {
        let role = message.role.as_str();
        let said = screen.fit(&message.content.replace('\n', " "), role.len() + 2);
        screen.line(&format!("{role}: {said}"))?;
    }
    Ok(())
}

fn show_tool(reader: &dyn EventReader, stream: &StreamId, screen: &mut Screen) -> Result<(), Problem> {
    if screen.json {
        return screen.json_line(&show_json(reader, stream)?);
    }
    let folded = fold_stream::<ToolStore>(reader, stream, None)?;
    let (row, store) = (ToolRow::new(stream, &folded), &folded.state);
    screen.line(&format!(
        "tool {}   {}, {}, the last {}",
        screen.bold(&screen.plain(&row.name)),
        count(row.keys as u64, "key", "keys"),
        count(row.events, "event", "events"),
        time::local(row.last_at)
    ))?;
    if store.is_empty() {
        return Ok(());
    }
    let mut table = Screen::table(&[uncut("key"), uncut("version"), words("value")]);
    for (key, entry) in store.list("") {
        let (key, value) = (screen.plain(key), screen.plain(&one_line(&entry.value)));
        table.row(vec![Cell::new(key), Cell::figure(entry.version), Cell::new(value)]);
    }
    screen.line("")?;
    screen.print(&table)
}

/// Prints a task in Protolink's form, a session's history, a tool's state, a partition's last start, or an agent's definition.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn state(
    reader: &dyn EventReader,
    stream: &StreamId,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let json = state_json(reader, stream, None).map_err(|error| match error {
        ShownError::Read(error) => Problem::from(error),
        error => {
            Problem::new(EXIT_UNKNOWN, "the state cannot be shown", error.to_string(), "use another version")
        }
    })?;
    screen.json_value(&json)?;
    screen.flush()?;
    Ok(Answer::Yes)
}

/// Returns the version of a stream at a point.
///
/// # Errors
/// [`Problem`] if the stream has no such point, or cannot be read.
pub(crate) fn at_point(
    reader: &dyn EventReader,
    stream: &StreamId,
    point: Point,
) -> Result<Version, Problem> {
    version_at(reader, stream, point).map_err(|error| match (error, point) {
        (PointError::Read(error), _) => error.into(),
        (PointError::NoVersion(end), Point::Version(asked)) => no_version(&stream.id(), asked, end),
        (error @ PointError::NoVersion(_), Point::BeforeEnd(events)) => {
            let what = format!("{} has no version {events} events before its end", stream.id());
            Problem::new(EXIT_UNKNOWN, what, error.to_string(), "use a smaller number, or a version")
        }
        (error, _) => Problem::point(error, &stream.id()),
    })
}

fn no_version(id: &str, asked: Version, end: Version) -> Problem {
    Problem::new(
        EXIT_UNKNOWN,
        format!("{id} has no version {asked}"),
        format!("it has {end} events; its versions are 1 to {end}"),
        format!("use a version from 1 to {end}; without a version the newest is used"),
    )
}
