//! `events`: the log itself, one line for each event.

use std::ops::ControlFlow;

use anstyle::AnsiColor;
use proto_events::call::CallEvent;
use proto_events::codec::AnyEvent;
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, Position, StreamId, Version};
use proto_events::model::TaskState;
use proto_events::task::TaskEvent;
use taskreel_log::api::{EventReader, StoredRecord};
use taskreel_log::read::{for_each_page_of, for_each_record};
use taskreel_log::views::{EventRow, Summaries, event_rows};

use crate::print::answer::Answer;
use crate::print::problem::Problem;
use crate::print::screen::{Screen, note};
use crate::print::time;

/// The streams whose events are printed.
#[derive(Debug, Clone)]
pub(crate) enum EventsOf {
    /// The events of one stream.
    Stream(StreamId),
    /// The events of the whole log.
    All,
}

/// Prints events as they come, in order.
#[derive(Debug, Default)]
pub(crate) struct EventLines {
    summaries: Summaries,
    before: Option<Timestamp>,
    whole_log: bool,
    brief: bool,
    cut: bool,
}

impl EventLines {
    /// Returns a printer for live watching: position, task, kind and summary, without times and causes.
    pub(crate) fn to_watch() -> Self {
        Self { brief: true, ..Self::default() }
    }

    /// Prints one event as a line for a person or for a program.
    ///
    /// # Errors
    /// [`Problem`] if the reader of the output is gone.
    pub(crate) fn print(&mut self, row: &EventRow, screen: &mut Screen) -> Result<(), Problem> {
        // In every case: later events' summaries need it.
        let summary = self.summaries.of(row);
        if screen.json {
            return screen.json_line(&row.to_json());
        }
        let head = self.head(row);
        let fitted = screen.fit(&summary, head.chars().count() + 1);
        self.cut |= fitted != screen.plain(&summary);
        let colored = match color(row) {
            Some(color) => screen.colored(&head, color),
            None => head,
        };
        screen.line(format!("{colored} {fitted}").trim_end())
    }

    /// Returns the part of the line before the summary.
    fn head(&mut self, row: &EventRow) -> String {
        if self.brief {
            return format!("{:>5} {:<13} {:<18}", row.position, short_id(row), row.kind);
        }
        let since = self.before.replace(row.at).map(|before| time::since(before, row.at));
        let place = if self.whole_log {
            format!("{:>5} {:<14}", row.position, short_id(row))
        } else {
            format!("{:>4} {:>6}", row.version, row.position)
        };
        format!(
            "{place} {} {:>9} {:<18} {:<13}",
            time::of_day(row.at),
            since.unwrap_or_default(),
            row.kind,
            cause(row),
        )
    }

    /// Whether a line was cut off.
    pub(crate) fn was_cut(&self) -> bool {
        self.cut
    }
}

/// Prints events, oldest first.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn events(
    reader: &dyn EventReader,
    of: &EventsOf,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let mut lines = EventLines::default();
    let mut print = |stored: &StoredRecord, lines: &mut EventLines| {
        event_rows(stored).iter().try_for_each(|row| lines.print(row, screen))
    };
    match of {
        EventsOf::All => {
            lines.whole_log = true;
            for_each_record(reader, Position(1), |stored| print(stored, &mut lines))?;
        }
        EventsOf::Stream(stream) => {
            for_each_page_of(reader, stream, Version(1), |page| {
                page.iter().try_for_each(|stored| print(stored, &mut lines))?;
                Ok::<_, Problem>(ControlFlow::Continue(()))
            })?;
        }
    }
    screen.flush()?;
    if lines.was_cut() {
        note("lines that end in `…` are shortened; --full shows whole lines, --json all fields");
    }
    Ok(Answer::Yes)
}

fn short_id(row: &EventRow) -> String {
    let id = row.stream.id();
    match row.stream.category() {
        Some(Category::Session) => format!("s:{id}"),
        Some(Category::Tool) => format!("t:{id}"),
        Some(Category::System | Category::Agent) => row.stream.to_string(),
        Some(Category::Task) | None => id,
    }
}

/// The direct cause of the event: an earlier call or turn by the end of its id, the start, or a caller.
fn cause(row: &EventRow) -> String {
    let id = row.causation_id.as_str();
    match (id.split_once('_'), id.rsplit_once('_')) {
        _ if id.is_empty() => "caller".to_owned(),
        (Some((kind, _)), Some((_, end))) if id.len() > 13 => format!("{kind} {end}"),
        _ => id.chars().take(13).collect(),
    }
}

fn color(row: &EventRow) -> Option<AnsiColor> {
    match row.event.as_ref() {
        Err(_) => Some(AnsiColor::Red),
        Ok(AnyEvent::Task(TaskEvent::StateChanged { to, .. })) => match to {
            TaskState::Completed => Some(AnsiColor::Green),
            TaskState::Failed => Some(AnsiColor::Red),
            TaskState::Canceled => Some(AnsiColor::Magenta),
            TaskState::InputRequired => Some(AnsiColor::Yellow),
            _ => None,
        },
        Ok(AnyEvent::Task(TaskEvent::Call(event))) => match event {
            CallEvent::Failed { .. } => Some(AnsiColor::Red),
            CallEvent::OutcomeUnknown { .. } | CallEvent::TimedOut { .. } => Some(AnsiColor::Yellow),
            _ => None,
        },
        Ok(_) => None,
    }
}
