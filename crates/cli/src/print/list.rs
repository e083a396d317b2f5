//! `ls`: lists the tasks or sessions, or the tools that have state.

use proto_events::id::Position;
use proto_events::json::JsonText;
use proto_events::model::TaskState;
use taskreel_log::api::EventReader;
use taskreel_log::views::{
    Expression, Readable, SessionRow, TaskRow, ToolRow, session_rows, task_rows, tool_rows,
};

use crate::print::answer::Answer;
use crate::print::grid::{Cell, spare, uncut, words};
use crate::print::problem::Problem;
use crate::print::screen::{Screen, note};
use crate::print::time;

/// The default number of rows on a terminal.
const ROWS_SHOWN: usize = 50;

/// The options of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListOptions {
    /// The states whose tasks are listed; all if empty.
    pub states: Vec<TaskState>,
    /// The condition over the fields of the rows' JSON.
    pub only: Option<Expression>,
    /// The maximum number of rows; 0 means no limit. `None` chooses a limit by the kind of output.
    pub limit: Option<usize>,
    /// The command to type before an id to show it, such as `taskreel show --data-dir d`.
    pub next: String,
}

/// Lists tasks, the most recently changed last.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn tasks(
    reader: &dyn EventReader,
    options: &ListOptions,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let (mut rows, read) = rows(task_rows(reader)?);
    rows.retain(|row| options.states.is_empty() || options.states.contains(&row.state));
    print_newest(rows, "no tasks", task_table, options, screen).map(|answer| answer.and(read))
}

/// Prints tasks as a table.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn task_table(rows: &[TaskRow], screen: &mut Screen) -> Result<(), Problem> {
    let mut table = Screen::table(&[
        uncut("id"),
        uncut("state"),
        uncut("session"),
        spare("events"),
        spare("age"),
        words("waiting for"),
    ]);
    for row in rows {
        let waits = row.waiting_for.clone().or_else(|| row.error.clone()).unwrap_or_default();
        let session = row.session.as_deref().filter(|session| *session != row.id).unwrap_or("-");
        table.row(vec![
            screen.bold_cell(&row.id),
            screen.state_cell(row.state),
            Cell::new(screen.plain(session)),
            Cell::figure(row.events),
            Cell::figure(time::age(row.last_at)),
            Cell::new(screen.plain(&waits)),
        ]);
    }
    screen.print(&table)
}

/// Lists sessions, the most recently changed last.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn sessions(
    reader: &dyn EventReader,
    options: &ListOptions,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let (rows, read) = rows(session_rows(reader)?);
    print_newest(rows, "no sessions", session_table, options, screen).map(|answer| answer.and(read))
}

fn session_table(rows: &[SessionRow], screen: &mut Screen) -> Result<(), Problem> {
    let mut table = Screen::table(&[
        uncut("stream"),
        spare("turns"),
        spare("messages"),
        spare("events"),
        spare("age"),
        uncut("turn of"),
    ]);
    for row in rows {
        table.row(vec![
            screen.bold_cell(row.stream.as_str()),
            Cell::figure(row.turns),
            Cell::figure(row.messages),
            Cell::figure(row.events),
            Cell::figure(time::age(row.last_at)),
            Cell::new(screen.plain(row.turn_of.as_deref().unwrap_or_default())),
        ]);
    }
    screen.print(&table)
}

/// Lists the tools that have state, the most recently changed last.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn tools(
    reader: &dyn EventReader,
    options: &ListOptions,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let (rows, read) = rows(tool_rows(reader)?);
    print_newest(rows, "no tool has state", tool_table, options, screen).map(|answer| answer.and(read))
}

fn tool_table(rows: &[ToolRow], screen: &mut Screen) -> Result<(), Problem> {
    let mut table =
        Screen::table(&[uncut("stream"), spare("keys"), spare("bytes"), spare("events"), spare("age")]);
    for row in rows {
        table.row(vec![
            screen.bold_cell(row.stream.as_str()),
            Cell::figure(row.keys),
            Cell::figure(row.bytes),
            Cell::figure(row.events),
            Cell::figure(time::age(row.last_at)),
        ]);
    }
    screen.print(&table)
}

/// A row of a list.
trait ListRow {
    /// Returns the position of the stream's last event.
    fn last_position(&self) -> Position;
    /// Returns the id by which the footer names the row.
    fn id(&self) -> &str;
    fn json(&self) -> JsonText;
}

impl ListRow for TaskRow {
    fn last_position(&self) -> Position {
        self.last_position
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn json(&self) -> JsonText {
        self.to_json()
    }
}

impl ListRow for SessionRow {
    fn last_position(&self) -> Position {
        self.last_position
    }

    fn id(&self) -> &str {
        self.stream.as_str()
    }

    fn json(&self) -> JsonText {
        self.to_json()
    }
}

impl ListRow for ToolRow {
    fn last_position(&self) -> Position {
        self.last_position
    }

    fn id(&self) -> &str {
        self.stream.as_str()
    }

    fn json(&self) -> JsonText {
        self.to_json()
    }
}

/// Returns the rows that can be read. Streams that a newer release wrote have none: each is named on stderr.
fn rows<T>(readable: Readable<T>) -> (Vec<T>, Answer) {
    let Readable { rows, newer, .. } = readable;
    for error in &newer {
        note(&format!("a stream is not shown: {error}"));
    }
    (rows, if newer.is_empty() { Answer::Yes } else { Answer::Newer })
}

/// Prints the newest rows, the newest last, as lines of JSON or as a table.
fn print_newest<T: ListRow>(
    mut rows: Vec<T>,
    none: &str,
    table: impl Fn(&[T], &mut Screen) -> Result<(), Problem>,
    options: &ListOptions,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    if let Some(condition) = &options.only {
        rows.retain(|row| condition.holds(&row.json().tree()));
    }
    rows.sort_by_key(ListRow::last_position);
    let by_default = if screen.json || !screen.is_terminal() { 0 } else { ROWS_SHOWN };
    let left_out = match options.limit.unwrap_or(by_default) {
        0 => 0,
        limit => rows.len().saturating_sub(limit),
    };
    rows.drain(..left_out);
    if screen.json {
        rows.iter().try_for_each(|row| screen.json_line(&row.json()))?;
    } else if rows.is_empty() {
        note(none);
    } else {
        table(&rows, screen)?;
    }
    screen.flush()?;
    footer(rows.last().map(ListRow::id), left_out, options);
    Ok(Answer::Yes)
}

fn footer(last: Option<&str>, left_out: usize, options: &ListOptions) {
    if left_out > 0 {
        note(&format!("{left_out} older rows are not shown; --limit 0 shows all"));
    }
    if let Some(id) = last {
        note(&format!("next: {} {id}", options.next));
    }
}
