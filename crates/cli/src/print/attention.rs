//! `attention`: prints everything that waits for somebody or is wrong.

use taskreel_log::audit::json::one_line;
use taskreel_log::views::{AttentionRow, Readable};

use crate::print::answer::Answer;
use crate::print::newer::name_left_out;
use crate::print::problem::Problem;
use crate::print::screen::{Screen, count};
use crate::print::time;

/// Prints what needs attention, each with the command that ends it; the answer is "no" if there is any. `typed` turns a
/// command's words into the full command line.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn attention(
    found: &Readable<AttentionRow>,
    typed: &dyn Fn(&str) -> String,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    for row in &found.rows {
        if screen.json {
            screen.json_line(&row.to_json())?;
        } else {
            block(row, typed, screen)?;
        }
    }
    let read = name_left_out(&found.newer, "not examined");
    if !screen.json {
        screen.line(&match found.rows.len() {
            0 => "nothing waits for anybody, and nothing is wrong that this log or its disk shows".to_owned(),
            some => count(some as u64, "thing needs attention", "things need attention"),
        })?;
    }
    screen.flush()?;
    Ok(if found.rows.is_empty() { read } else { Answer::No.and(read) })
}

fn block(row: &AttentionRow, typed: &dyn Fn(&str) -> String, screen: &mut Screen) -> Result<(), Problem> {
    let kind = screen.bold(row.kind.as_str());
    let task = row.task.as_ref().map_or_else(String::new, |task| format!("   task {}", task.id()));
    let since = row.since.map_or_else(String::new, |since| format!("   for {}", time::age(since)));
    let task = screen.plain(&task);
    screen.line(&format!("{kind}{task}{since}"))?;
    let what = screen.plain(&row.what);
    screen.line(&format!("  what   {what}"))?;
    if let Some(args) = &row.args {
        let args = screen.plain(&one_line(args));
        screen.line(&format!("  args   {args}"))?;
    }
    if let Some(asked) = &row.asked_args {
        let asked = screen.plain(&one_line(asked));
        screen.line(&format!("  asked  {asked}"))?;
    }
    if let Some(call) = &row.call_id {
        let call = screen.plain(call);
        screen.line(&format!("  call   {call}"))?;
    }
    for command in &row.commands {
        let command = screen.plain(&typed(command));
        screen.line(&format!("  type   {command}"))?;
    }
    if let Some(advice) = &row.advice {
        let advice = screen.plain(advice);
        screen.line(&format!("  {}     {advice}", if row.commands.is_empty() { "do" } else { "or" }))?;
    }
    screen.line("")
}
