//! `open`: prints what an exported log holds.

use proto_events::json::{JsonObject, JsonText};
use taskreel_log::audit::json::{number, object, text, text_or_null};
use taskreel_log::jsonl::ExportHeader;
use taskreel_log::views::LogSummary;

use crate::print::problem::Problem;
use crate::print::screen::{Screen, count};
use crate::print::time;

/// Prints the contents of an export, and the commands to go on with. `typed` turns a command into the full command line.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn log_summary(
    header: &ExportHeader,
    summary: &LogSummary,
    is_whole: bool,
    typed: &dyn Fn(&str) -> String,
    screen: &mut Screen,
) -> Result<(), Problem> {
    if screen.json {
        screen.json_line(&json(header, summary, is_whole))?;
        return screen.flush();
    }
    screen.line(&format!("log     {}", header.id))?;
    let end = if is_whole {
        "whole".to_owned()
    } else {
        format!("up to position {} of {}", summary.head, header.head)
    };
    screen.line(&format!(
        "holds   {}, {}: {end}",
        count(summary.head.0, "event", "events"),
        count(summary.records, "record", "records")
    ))?;
    if let Some((first, last)) = summary.span {
        screen.line(&format!("from    {}", time::local(first)))?;
        screen.line(&format!("to      {}", time::local(last)))?;
    }
    let states: Vec<_> = summary.tasks.iter().map(|(state, tasks)| format!("{tasks} {state}")).collect();
    let tasks = count(summary.tasks.values().sum(), "task", "tasks");
    let states = if states.is_empty() { String::new() } else { format!(": {}", states.join(", ")) };
    screen.line(&format!("tasks   {tasks}{states}"))?;
    screen.line(&format!(
        "streams {}, {}",
        summary.streams,
        count(summary.sessions, "session", "sessions")
    ))?;
    screen.line("")?;
    if is_whole {
        for command in ["ls", "ls --sessions", "attention", "trace @last", "search TEXT", "verify"] {
            screen.line(&format!("next: {}", screen.plain(&typed(command))))?;
        }
    } else {
        for command in ["events --all", "search TEXT", "verify"] {
            screen.line(&format!("next: {}", screen.plain(&typed(command))))?;
        }
    }
    screen.flush()
}

fn json(header: &ExportHeader, summary: &LogSummary, is_whole: bool) -> JsonText {
    let tasks: JsonObject =
        summary.tasks.iter().map(|(state, tasks)| ((*state).to_owned(), number(*tasks))).collect();
    let at =
        |at: Option<proto_events::envelope::Timestamp>| text_or_null(at.map(|at| at.to_string()).as_deref());
    object([
        ("schema", text("taskreel.open/1")),
        ("log", text(&header.id.to_string())),
        ("durability", text(&header.durability)),
        ("whole", JsonText::of_model(&is_whole)),
        ("events", number(summary.head.0)),
        ("records", number(summary.records)),
        ("head", number(header.head.0)),
        ("streams", number(summary.streams)),
        ("sessions", number(summary.sessions)),
        ("tasks", tasks.to_text()),
        ("first_at", at(summary.span.map(|(first, _)| first))),
        ("last_at", at(summary.span.map(|(_, last)| last))),
    ])
}
