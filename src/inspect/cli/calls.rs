//! `calls`: what is not settled, why, and what to type.

use super::screen::{count, note};
use super::{Problem, Screen, Verdict, time};
use crate::audit::json::one_line;
use crate::inspect::calls::{CallRow, unsettled};
use crate::ports::{Clock as _, SystemClock};
use crate::store::EventReader;
use proto_events::id::StreamId;

/// Lists the calls of one task, or of all, that are open, unknown or wait for approval; the oldest first. `typed` makes
/// of a command's words what is to be typed.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output has gone.
pub fn calls(
    reader: &dyn EventReader,
    only: Option<&StreamId>,
    typed: &dyn Fn(&str) -> String,
    screen: &mut Screen,
) -> Result<Verdict, Problem> {
    let rows = unsettled(reader, only, SystemClock.now())?;
    for row in &rows {
        if screen.json {
            screen.json_line(&row.to_json())?;
        } else {
            block(row, typed, screen)?;
        }
    }
    screen.flush()?;
    if !screen.json {
        let people = rows.iter().filter(|row| !row.commands().is_empty()).count();
        note(&match rows.len() {
            0 => "no call is open, unknown, or waits for approval".to_owned(),
            all => {
                format!("{}, {} of them for a person", count(all as u64, "call waits", "calls wait"), people)
            }
        });
    }
    Ok(Verdict::Yes)
}

fn block(row: &CallRow, typed: &dyn Fn(&str) -> String, screen: &mut Screen) -> Result<(), Problem> {
    let what = screen.bold(&screen.plain(&format!("{} {}", row.kind, row.target)));
    let args = screen.fit(&one_line(&row.args), row.target.chars().count() + 30);
    screen.line(&format!("{what} {args}   {} for {}", row.status, time::age(row.since)))?;
    let modes = row.recovery.map_or_else(String::new, |mode| {
        format!("   attempt {} of {}, {mode}", row.attempts, row.max_attempts)
    });
    let task = screen.plain(&row.stream.id());
    screen.line(&format!("  task   {task}   call {}{}", screen.plain(&row.call_id), screen.plain(&modes)))?;
    screen.line(&format!("  waits  for {}", screen.fit(&row.waits, 14)))?;
    if let Some(then) = &row.then {
        screen.line(&format!("  then   when a process takes it up: {}", screen.fit(then, 40)))?;
    }
    for command in row.commands() {
        screen.line(&format!("  type   {}", screen.plain(&typed(&command))))?;
    }
    screen.line("")
}
