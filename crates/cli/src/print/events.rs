//! `events`: the log itself, one line for each event.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::ControlFlow;

use anstyle::AnsiColor;
use proto_events::call::CallEvent;
use proto_events::codec::AnyEvent;
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, Position, StreamId, Version};
use proto_events::model::TaskState;
use proto_events::task::TaskEvent;
use taskreel_log::api::{EventReader, ReadError, StoredRecord};
use taskreel_log::read::{for_each_page, for_each_page_of};
use taskreel_log::views::{EventRow, Selection, Summaries, event_rows};

use crate::print::answer::Answer;
use crate::print::causes::Causes;
use crate::print::plain::columns;
use crate::print::problem::Problem;
use crate::print::screen::{Screen, note};
use crate::print::time;

/// The width below which a line has no column for the time since the line before and for the cause.
const WIDE: usize = 110;

/// The streams whose events are printed.
#[derive(Debug, Clone)]
pub(crate) enum EventsOf {
    /// The events of one stream.
    Stream(StreamId),
    /// The events of the whole log.
    All,
}

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Of one stream: version and position.
    Stream,
    /// Of the whole log: position and id.
    Log,
    /// For live watching: without times and causes.
    Brief,
}

/// Prints events as they come, in order.
#[derive(Debug)]
pub(crate) struct EventLines {
    form: Form,
    selection: Selection,
    summaries: Summaries,
    causes: Causes,
    /// The newest events, if only so many are printed.
    newest: Option<(usize, VecDeque<PrintedEvent>)>,
    before: Option<Timestamp>,
    day: Option<String>,
    cut: bool,
}

/// An event to print.
#[derive(Debug)]
struct PrintedEvent {
    row: EventRow,
    summary: String,
    cause: String,
}

impl EventLines {
    fn new(form: Form, selection: Selection, limit: Option<usize>) -> Self {
        Self {
            form,
            selection,
            summaries: Summaries::default(),
            causes: Causes::default(),
            newest: limit.map(|limit| (limit, VecDeque::new())),
            before: None,
            day: None,
            cut: false,
        }
    }

    /// Returns a printer for live watching: position, task, kind and summary, without times and causes.
    pub(crate) fn to_watch() -> Self {
        Self::new(Form::Brief, Selection::default(), None)
    }

    /// Returns a printer of the events that the selection takes, with a limit of the newest ones only.
    pub(crate) fn for_events(of: &EventsOf, selection: Selection, limit: Option<usize>) -> Self {
        let form = if matches!(of, EventsOf::All) { Form::Log } else { Form::Stream };
        Self::new(form, selection, limit)
    }

    /// Prints one event as a line for a person or for a program, if it is taken.
    ///
    /// # Errors
    /// [`Problem`] if the reader of the output is gone.
    pub(crate) fn print(&mut self, row: &EventRow, screen: &mut Screen) -> Result<(), Problem> {
        // In every case: later events' summaries and causes need it.
        let summary = self.summaries.of(row);
        let cause = self.causes.cause(row);
        let place = if self.form == Form::Stream {
            format!("v{}", row.version)
        } else {
            format!("@{}", row.position)
        };
        self.causes.record(row, place);
        if !self.selection.takes(row) {
            return Ok(());
        }
        let line = PrintedEvent { row: row.clone(), summary, cause };
        match &mut self.newest {
            None => self.print_event(&line, screen),
            Some((limit, newest)) => {
                newest.push_back(line);
                if newest.len() > *limit {
                    newest.pop_front();
                }
                Ok(())
            }
        }
    }

    /// Prints what was kept back until the end was known. What comes later is printed at once.
    ///
    /// # Errors
    /// [`Problem`] if the reader of the output is gone.
    pub(crate) fn finish(&mut self, screen: &mut Screen) -> Result<(), Problem> {
        let newest = self.newest.take().map(|(_, newest)| newest).unwrap_or_default();
        newest.iter().try_for_each(|line| self.print_event(line, screen))
    }

    fn print_event(&mut self, line: &PrintedEvent, screen: &mut Screen) -> Result<(), Problem> {
        let row = &line.row;
        if screen.json {
            return screen.json_line(&row.to_json());
        }
        self.new_day(row, screen)?;
        let head = self.head(line, screen);
        let fitted = screen.fit(&line.summary, columns(&head) + 1);
        self.cut |= fitted != screen.plain(&line.summary);
        let colored = match color(row) {
            Some(color) => screen.colored(&head, color),
            None => head,
        };
        screen.line(format!("{colored} {fitted}").trim_end())
    }

    /// Prints the date where another day begins, since the lines only have the time of day.
    fn new_day(&mut self, row: &EventRow, screen: &mut Screen) -> Result<(), Problem> {
        let day = time::day(row.at);
        if self.form == Form::Brief || self.day.as_ref() == Some(&day) {
            return Ok(());
        }
        let heading = screen.dim(&day);
        self.day = Some(day);
        screen.line(&heading)
    }

    /// Returns the part of the line before the summary.
    fn head(&mut self, line: &PrintedEvent, screen: &Screen) -> String {
        let row = &line.row;
        let id = screen.plain(&short_id(row));
        if self.form == Form::Brief {
            return format!("{:>5} {id:<13} {:<18}", row.position, row.kind);
        }
        let since = self.before.replace(row.at).map(|before| time::since(before, row.at));
        let is_wide = screen.width().is_none_or(|width| width >= WIDE);
        let place = match (self.form, is_wide) {
            (Form::Log, _) => format!("{:>6}", row.position),
            (_, true) => format!("{:>4} {:>6}", row.version, row.position),
            (_, false) => format!("{:>4}", row.version),
        };
        let mut head = format!("{place} {}", time::of_day(row.at));
        if is_wide {
            let _ = write!(head, " {:>9}", since.unwrap_or_default());
        }
        let _ = write!(head, " {:<18}", row.kind);
        if is_wide {
            let _ = write!(head, " {:<13}", screen.plain(&line.cause));
        }
        if self.form == Form::Log {
            let _ = write!(head, " {id:<14}");
        }
        head
    }

    /// Whether a line was cut off.
    pub(crate) fn was_cut(&self) -> bool {
        self.cut
    }
}

/// Returns the last position of the log, or the last version of the stream.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub(crate) fn end_of(reader: &dyn EventReader, of: &EventsOf) -> Result<u64, ReadError> {
    Ok(match of {
        EventsOf::All => reader.head()?.0,
        EventsOf::Stream(stream) => reader.stream_version(stream)?.0,
    })
}

/// Prints the events from here on, without those that are written meanwhile, and returns what comes next. Of a damaged log whose
/// end is not known, all is printed that stands before the damage.
///
/// # Errors
/// As [`print_events`].
pub(crate) fn print_to_its_end(
    reader: &dyn EventReader,
    of: &EventsOf,
    from: u64,
    lines: &mut EventLines,
    screen: &mut Screen,
) -> Result<u64, Problem> {
    let end = match end_of(reader, of) {
        Err(ReadError::Corrupt { .. } | ReadError::Newer { .. } | ReadError::Index { .. }) => u64::MAX,
        end => end?,
    };
    print_events_to(reader, of, (from, end), lines, screen)
}

/// Prints events, oldest first, without those that are written meanwhile.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn events(
    reader: &dyn EventReader,
    of: &EventsOf,
    lines: &mut EventLines,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    print_to_its_end(reader, of, 1, lines, screen)?;
    end_of_events(lines, screen)
}

/// Prints what was kept back, and what is left to say.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn end_of_events(lines: &mut EventLines, screen: &mut Screen) -> Result<Answer, Problem> {
    lines.finish(screen)?;
    screen.flush()?;
    if lines.was_cut() {
        note("lines that end in `…` are shortened; --full shows whole lines, --json all fields");
    }
    Ok(Answer::Yes)
}

/// Prints the events from a position of the log, or from a version of the stream, on, and returns the one after the last.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn print_events(
    reader: &dyn EventReader,
    of: &EventsOf,
    from: u64,
    lines: &mut EventLines,
    screen: &mut Screen,
) -> Result<u64, Problem> {
    print_events_to(reader, of, (from, u64::MAX), lines, screen)
}

/// Prints the events between two positions of the log, or two versions of the stream, and returns the one after the last. Nothing
/// is read behind the page that has the end: a program may write all the time.
///
/// # Errors
/// As [`print_events`].
pub(crate) fn print_events_to(
    reader: &dyn EventReader,
    of: &EventsOf,
    (from, end): (u64, u64),
    lines: &mut EventLines,
    screen: &mut Screen,
) -> Result<u64, Problem> {
    if from > end {
        return Ok(from);
    }
    let mut next = from;
    let is_all = matches!(of, EventsOf::All);
    let print = |page: Vec<StoredRecord>| {
        for row in page.iter().flat_map(event_rows) {
            let at = if is_all { row.position.0 } else { row.version.0 };
            // The first record may begin before what was asked for, the last one may end behind it.
            if (next..=end).contains(&at) {
                next = at + 1;
                lines.print(&row, screen)?;
            }
        }
        let is_over = next > end;
        Ok::<_, Problem>(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    match of {
        EventsOf::All => for_each_page(reader, Position(from), print)?,
        EventsOf::Stream(stream) => for_each_page_of(reader, stream, Version(from), print)?,
    }
    Ok(next)
}

/// Returns the id of an event's stream as lists show it, and as commands take it.
pub(crate) fn short_id(row: &EventRow) -> String {
    let id = row.stream.id();
    match row.stream.category() {
        Some(Category::Session) => format!("s:{id}"),
        Some(Category::Tool) => format!("t:{id}"),
        Some(Category::System | Category::Agent | Category::Flow | Category::Registry) => {
            row.stream.to_string()
        }
        Some(Category::Task) | None => id,
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use taskreel_log::jsonl::JsonLines;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn shown(of: &EventsOf, width: usize) -> String {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../log/tests/golden/v2/varied.ndjson");
        let log = JsonLines::open(golden).unwrap();
        let page = Page::default();
        let mut screen = Screen::onto(page.clone(), false).with_width(width);
        let mut lines = EventLines::for_events(of, Selection::default(), None);
        events(&log, of, &mut lines, &mut screen).unwrap();
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_id_is_cut() {
        for width in [80, 100, 140] {
            let all = shown(&EventsOf::All, width);
            assert!(all.lines().count() > 20, "{all}");
            assert!(all.lines().all(|line| columns(line) <= width), "{width}\n{all}");
        }
    }
}
