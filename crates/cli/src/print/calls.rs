//! `calls`: prints the calls that are not settled, why each waits, and the commands that settle it.

use proto_events::id::StreamId;
use taskreel_log::api::EventReader;
use taskreel_log::audit::json::one_line;
use taskreel_log::audit::words::tool_server;
use taskreel_log::ports::{Clock as _, SystemClock};
use taskreel_log::views::{CallRow, Expression, Filter, Readable, tool_servers, unsettled};

use crate::print::answer::Answer;
use crate::print::newer::name_left_out;
use crate::print::problem::Problem;
use crate::print::screen::{Screen, count, note};
use crate::print::time;

/// Lists the calls of one task, or of all, that are open, unknown or wait for approval, oldest first, as far as the filter
/// takes them; with a limit the newest ones. `typed` turns a command's words into the full command line, or for
/// JSON into all that is typed after the program's name.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn calls(
    reader: &dyn EventReader,
    only: Option<&StreamId>,
    (filter, condition, limit): (&Filter, Option<&Expression>, Option<usize>),
    typed: &dyn Fn(&str) -> String,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let Readable { mut rows, newer, .. } = unsettled(reader, only, SystemClock.now())?;
    let json = |row: &CallRow| {
        let commands: Vec<_> = row.commands().iter().map(|command| typed(command)).collect();
        row.to_json_with(&commands)
    };
    let waiting = rows.len();
    rows.retain(|row| filter.takes_call(row) && condition.is_none_or(|it| it.holds(&json(row).tree())));
    rows.drain(..limit.map_or(0, |limit| rows.len().saturating_sub(limit)));
    let read = name_left_out(&newer, "not shown");
    for row in &rows {
        if screen.json {
            screen.json_line(&json(row))?;
        } else {
            block(row, typed, screen)?;
        }
    }
    screen.flush()?;
    if !screen.json {
        let people = rows.iter().filter(|row| !row.commands().is_empty()).count();
        note(&match rows.len() {
            0 if waiting > 0 => {
                format!("none of {} fits", count(waiting as u64, "call that waits", "calls that wait"))
            }
            0 => "no call is open, has an unknown outcome, or waits for approval".to_owned(),
            all => {
                format!("{}, {} of them for a person", count(all as u64, "call waits", "calls wait"), people)
            }
        });
        if only.is_none() {
            for seen in tool_servers(reader)? {
                note(&format!("when a program last wrote here, {}", screen.plain(&tool_server(&seen))));
            }
        }
    }
    Ok(read)
}

fn block(row: &CallRow, typed: &dyn Fn(&str) -> String, screen: &mut Screen) -> Result<(), Problem> {
    let what = screen.bold(&screen.plain(&format!("{} {}", row.kind, row.target)));
    screen.line(&format!("{what}   {} for {}", row.status, time::age(row.since)))?;
    // A person who decides about a call sees all of its arguments, and all of what is asked.
    let is_decided = !row.commands().is_empty();
    let shown = |screen: &Screen, said: &str, before| {
        if is_decided { screen.plain(said) } else { screen.fit(said, before) }
    };
    let args = shown(screen, &one_line(&row.args), 9);
    screen.line(&format!("  args   {args}"))?;
    if let Some(asked) = &row.asked_args {
        let asked = shown(screen, &one_line(asked), 9);
        screen.line(&format!("  asked  {asked}"))?;
    }
    let modes = row.recovery.map_or_else(String::new, |mode| {
        format!("   attempt {} of {}, {mode}", row.attempts, row.max_attempts)
    });
    let of = row.task().map_or_else(|| format!("session {}", row.session), |task| format!("task   {task}"));
    let of = screen.plain(&of);
    screen.line(&format!("  {of}   call {}{}", screen.plain(&row.call_id), screen.plain(&modes)))?;
    let waits_for = shown(screen, &row.waits_for, 14);
    screen.line(&format!("  waits  for {waits_for}"))?;
    if let Some(then) = &row.next_step {
        let then = shown(screen, then, 40);
        screen.line(&format!("  then   when a process resumes the task: {then}"))?;
    }
    for command in row.commands() {
        screen.line(&format!("  type   {}", screen.plain(&typed(&command))))?;
    }
    screen.line("")
}
