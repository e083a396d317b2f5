//! `ls`: the tasks or sessions there are, and the tools that keep something.

use comfy_table::Cell;
use proto_events::model::TaskState;

use super::screen::note;
use super::{Problem, Screen, Verdict, time};
use crate::inspect::find::streams;
use crate::inspect::view::{SessionRow, TaskRow, ToolRow, session_row, task_row, tool_row};
use crate::store::EventReader;

/// Rows shown to a person who did not ask for more.
const ROWS_SHOWN: usize = 50;

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Only tasks in one of these states; all, if empty.
    pub states: Vec<TaskState>,
    /// Most rows; 0 is no bound. `None` leaves it to who looks.
    pub limit: Option<usize>,
    /// What to type before an id to look at it, such as `taskreel show --data-dir d`.
    pub next: String,
}

/// Lists tasks, the one in which something happened last at the end.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output has gone.
pub fn tasks(
    reader: &dyn EventReader,
    options: &ListOptions,
    screen: &mut Screen,
) -> Result<Verdict, Problem> {
    let mut rows = Vec::new();
    for info in streams(reader, "task-")? {
        let row = task_row(reader, &info)?;
        if options.states.is_empty() || options.states.contains(&row.state) {
            rows.push(row);
        }
    }
    rows.sort_by_key(|row| row.last_position);
    let left_out = keep_newest(&mut rows, options.limit, screen);
    if screen.json {
        for row in &rows {
            screen.json_line(&row.to_json())?;
        }
    } else if rows.is_empty() {
        note("no tasks");
    } else {
        task_table(&rows, screen)?;
    }
    screen.flush()?;
    footer(rows.last().map(|row| row.id.as_str()), left_out, options);
    Ok(Verdict::Yes)
}

/// Prints tasks as a table.
///
/// # Errors
/// [`Problem`] if the reader of the output has gone.
pub fn task_table(rows: &[TaskRow], screen: &mut Screen) -> Result<(), Problem> {
    let mut table = screen.table(&["id", "state", "session", "events", "age", "waiting for"]);
    for row in rows {
        let waits = row.waiting_for.clone().or_else(|| row.error.clone()).unwrap_or_default();
        let session = row.session.as_deref().filter(|session| *session != row.id).unwrap_or("-");
        table.add_row(vec![
            screen.bold_cell(&row.id),
            screen.state_cell(row.state),
            Cell::new(screen.plain(session)),
            Cell::new(row.events),
            Cell::new(time::age(row.last_at)),
            Cell::new(screen.fit(&waits, 60)),
        ]);
    }
    screen.print(&table)
}

/// Lists sessions, the one in which something happened last at the end.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output has gone.
pub fn sessions(
    reader: &dyn EventReader,
    options: &ListOptions,
    screen: &mut Screen,
) -> Result<Verdict, Problem> {
    let mut rows: Vec<SessionRow> = Vec::new();
    for info in streams(reader, "session-")? {
        rows.push(session_row(reader, &info)?);
    }
    rows.sort_by_key(|row| row.last_position);
    let left_out = keep_newest(&mut rows, options.limit, screen);
    if screen.json {
        for row in &rows {
            screen.json_line(&row.to_json())?;
        }
    } else if rows.is_empty() {
        note("no sessions");
    } else {
        let mut table = screen.table(&["stream", "turns", "messages", "events", "age", "turn of"]);
        for row in &rows {
            table.add_row(vec![
                screen.bold_cell(row.stream.as_str()),
                Cell::new(row.turns),
                Cell::new(row.messages),
                Cell::new(row.events),
                Cell::new(time::age(row.last_at)),
                Cell::new(row.turn_of.clone().unwrap_or_default()),
            ]);
        }
        screen.print(&table)?;
    }
    screen.flush()?;
    footer(rows.last().map(|row| row.stream.as_str()), left_out, options);
    Ok(Verdict::Yes)
}

/// Lists the tools that keep something, the one in which something happened last at the end.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output has gone.
pub fn tools(
    reader: &dyn EventReader,
    options: &ListOptions,
    screen: &mut Screen,
) -> Result<Verdict, Problem> {
    let mut rows: Vec<ToolRow> = Vec::new();
    for info in streams(reader, "tool-")? {
        rows.push(tool_row(reader, &info)?);
    }
    rows.sort_by_key(|row| row.last_position);
    let left_out = keep_newest(&mut rows, options.limit, screen);
    if screen.json {
        for row in &rows {
            screen.json_line(&row.to_json())?;
        }
    } else if rows.is_empty() {
        note("no tool keeps anything");
    } else {
        let mut table = screen.table(&["stream", "keys", "bytes", "events", "age"]);
        for row in &rows {
            table.add_row(vec![
                screen.bold_cell(row.stream.as_str()),
                Cell::new(row.keys),
                Cell::new(row.bytes),
                Cell::new(row.events),
                Cell::new(time::age(row.last_at)),
            ]);
        }
        screen.print(&table)?;
    }
    screen.flush()?;
    footer(rows.last().map(|row| row.stream.as_str()), left_out, options);
    Ok(Verdict::Yes)
}

/// Keeps the newest rows, as many as were asked for; says how many were left out.
fn keep_newest<T>(rows: &mut Vec<T>, limit: Option<usize>, screen: &Screen) -> usize {
    let by_default = if screen.json || !screen.is_terminal() { 0 } else { ROWS_SHOWN };
    match limit.unwrap_or(by_default) {
        0 => 0,
        most => {
            let left_out = rows.len().saturating_sub(most);
            rows.drain(..left_out);
            left_out
        }
    }
}

fn footer(last: Option<&str>, left_out: usize, options: &ListOptions) {
    if left_out > 0 {
        note(&format!("{left_out} older ones are not shown; --limit 0 shows all"));
    }
    if let Some(id) = last {
        note(&format!("next: {} {id}", options.next));
    }
}
