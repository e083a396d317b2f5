//! The rows of the lists: streams, events and calls; and a thing that waits, whole.

use jiff::tz::TimeZone;
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, StreamId};

use crate::opened_log::Typed;
use crate::print::plain::indented;
use crate::print::time::{since, span_us};
use crate::tui::data::{CallGroup, EventLine, InboxRow, StreamRow};
use crate::tui::line::ScreenLine;
use crate::tui::marks::{Marks, Tone};
use crate::tui::wrap::wrapped;

/// Returns the time of day.
pub(crate) fn of_day(at: Timestamp, zone: &TimeZone) -> String {
    formatted(at, zone, "%H:%M:%S%.3f")
}

/// Returns the date and the time of day.
pub(crate) fn day_and_time(at: Timestamp, zone: &TimeZone) -> String {
    formatted(at, zone, "%Y-%m-%d %H:%M:%S%.3f")
}

fn formatted(at: Timestamp, zone: &TimeZone, form: &str) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(instant) => instant.to_zoned(zone.clone()).strftime(form).to_string(),
        Err(_) => at.to_string(),
    }
}

/// Returns the id of a stream as commands take it.
pub(crate) fn short(stream: &StreamId) -> String {
    match stream.category() {
        Some(Category::Task) => stream.id(),
        Some(Category::Session) => format!("s:{}", stream.id()),
        Some(Category::Tool) => format!("t:{}", stream.id()),
        _ => stream.to_string(),
    }
}

/// Returns the row of a stream.
pub(crate) fn stream_line(row: &StreamRow, marks: Marks, zone: &TimeZone) -> ScreenLine {
    match row {
        StreamRow::Other(stream, version) => {
            ScreenLine::plain(short(stream)).and(format!("  {version} events"), Tone::Dim)
        }
        StreamRow::Unreadable(stream, why) => {
            let mark = marks.pick("✗ ", "x ");
            ScreenLine::new(mark, Tone::Bad).and(stream.id(), Tone::Plain).and(format!("  {why}"), Tone::Bad)
        }
        StreamRow::Run(row) => {
            let (mark, tone) = marks.state(row.task.state);
            let line = ScreenLine::new(format!("{mark} "), tone).and(row.task.id.clone(), Tone::Plain);
            let line = line.and(format!("  {}", row.task.state), tone);
            let failed = row.failed_calls;
            let line = match failed {
                0 => line,
                some => line.and(format!("  {some} failed"), Tone::Bad),
            };
            let line = match (&row.task.error, &row.task.waiting_for) {
                (Some(error), _) => line.and(format!("  {error}"), Tone::Bad),
                (None, Some(waits)) => line.and(format!("  {waits}"), Tone::Asks),
                (None, None) => line,
            };
            let events = row.task.events;
            line.and(format!("  {events} ev  {}", of_day(row.task.last_at, zone)), Tone::Dim)
        }
    }
}

/// Returns the row of an event; `before` is the time of the one before it.
pub(crate) fn event_line(
    event: &EventLine,
    before: Option<Timestamp>,
    (width, is_of_call): (usize, bool),
    marks: Marks,
    zone: &TimeZone,
) -> ScreenLine {
    let (mark, tone) = marks.sign(event.sign);
    let indent = if is_of_call { "   " } else { "" };
    let line =
        ScreenLine::new(format!("{:>5} ", event.version), Tone::Dim).and(format!("{indent}{mark} "), tone);
    let line = if width >= 70 {
        let since = before.map_or_else(String::new, |before| since(before, event.at));
        line.and(format!("{} {since:>9} ", of_day(event.at, zone)), Tone::Dim)
    } else {
        line
    };
    let kind = if width >= 50 { format!("{:<18} ", event.kind) } else { format!("{} ", event.kind) };
    line.and(kind, tone).and(event.words.clone(), Tone::Plain)
}

/// Returns the row of a call.
pub(crate) fn call_line(call: &CallGroup, first: u64, is_open: bool, marks: Marks) -> ScreenLine {
    let (mark, tone) = marks.sign(call.sign);
    let line = ScreenLine::new(format!("{first:>5} "), Tone::Dim)
        .and(format!("{mark} "), tone)
        .and(format!("{} ", call.name), Tone::Bold);
    let line = match call.took_us {
        Some(took) => line.and(format!("{} ", span_us(took)), Tone::Dim),
        None => line,
    };
    let line = match call.usage {
        Some(usage) => {
            line.and(format!("{} tok ", usage.input_tokens.saturating_add(usage.output_tokens)), Tone::Dim)
        }
        None => line,
    };
    let fold = if is_open { format!("{} ", marks.fold(true)) } else { String::new() };
    line.and(fold, Tone::Dim).and(call.words.clone(), Tone::Plain)
}

/// Returns the lines about a thing that waits: all of it, the arguments whole.
pub(crate) fn waiting_lines(row: &InboxRow, width: usize, typed: &Typed, zone: &TimeZone) -> Vec<ScreenLine> {
    let mut lines = Vec::new();
    let mut text = |said: &str, tone: Tone| {
        lines.extend(wrapped(said, width).into_iter().map(|row| ScreenLine::new(row, tone)));
    };
    text(&row.what, Tone::Bold);
    if let Some(task) = &row.task {
        text(&format!("task {}", task.id()), Tone::Plain);
    }
    if let Some(call) = &row.call {
        let mode = call.recovery.map_or(String::new(), |mode| format!(", {mode}"));
        text(&format!("call {}", call.call_id), Tone::Plain);
        if call.max_attempts > 0 {
            text(&format!("attempt {} of {}{mode}", call.attempts, call.max_attempts), Tone::Dim);
        }
    }
    if let Some(since) = row.since {
        let at = day_and_time(since, zone);
        text(&format!("since {at}"), Tone::Dim);
    }
    if let Some(args) = &row.args {
        text("", Tone::Plain);
        text("arguments", Tone::Bold);
        text(&indented(args), Tone::Plain);
        if let Some(asked) = row.call.as_ref().and_then(|call| call.asked_args.as_ref()) {
            text("as asked for", Tone::Bold);
            text(&indented(asked), Tone::Plain);
        }
        text("", Tone::Plain);
    }
    for command in &row.commands {
        text(&typed(command), Tone::Dim);
    }
    if let Some(advice) = &row.advice {
        text(advice, Tone::Dim);
    }
    lines
}
