//! The page that follows the log: its newest events, and those that come while it is open.

use std::collections::VecDeque;

use askama::Template;
use proto_events::id::Position;
use taskreel_log::api::{EventReader, Page, ReadError};
use taskreel_log::views::{EventRow, LogUse, Summaries, event_rows};

use crate::api::bounded_reads::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, PageAnswer};
use crate::inspect::escape::Value;
use crate::inspect::event_filter::EventFilter;
use crate::inspect::frame::{Cx, PageFrame};
use crate::inspect::page_request::Query;
use crate::inspect::words::{self, At, Mark};

/// The events that stand on the page before any script runs.
const NEWEST: u64 = 100;

/// The events that are looked through for those that a filter takes.
const LOOKED: u64 = 10_000;

/// The fields of the filter.
const FIELDS: [&str; 7] = ["kind", "task", "session", "tool", "agent", "text", "not"];

#[derive(Template)]
#[template(path = "inspect/live.html")]
struct LivePage {
    frame: PageFrame,
    rows: Vec<LiveRow>,
    /// The number of events that a filter takes, in words.
    found: Option<String>,
    is_followed: bool,
    is_written: bool,
    next: u64,
    damage: Option<String>,
    follow_url: String,
    here_url: String,
    is_set: bool,
    kind: Value,
    task: Value,
    session: Value,
    tool: Value,
    text: Value,
    not: Value,
}

struct LiveRow {
    position: u64,
    at: At,
    kind: &'static str,
    mark: Mark,
    name: String,
    stream_url: String,
    event_url: String,
    line: String,
}

/// Makes the page.
///
/// # Errors
/// [`Problem`] if a condition of the filter is not valid, or the end of the log cannot be read.
pub(crate) fn page(cx: &Cx, log: &dyn EventReader, query: &Query) -> Result<PageAnswer, Problem> {
    let head = log.head().map_err(unread)?;
    let mut wanted = EventFilter::from_query(query)?;
    let (rows, looked_from, damage) = newest(cx, log, head, &mut wanted)?;
    let value = |name: &str| Value(query.text(name).unwrap_or_default().to_owned());
    let asked: Vec<(&str, &str)> = query.pairs().filter(|(name, _)| FIELDS.contains(name)).collect();
    answer::page(&LivePage {
        frame: cx.frame("Live", "Live"),
        found: (!asked.is_empty()).then(|| {
            let rows = words::of(rows.len() as u64, "event", "events");
            format!("{rows} of those from position {} on", words::count(looked_from))
        }),
        rows,
        is_followed: cx.log.is_followed(),
        is_written: cx.log.use_of() == LogUse::Open,
        next: head.0 + 1,
        damage,
        follow_url: cx.links.asked("live/events", &asked),
        here_url: cx.links.asked("live", &asked),
        is_set: !asked.is_empty(),
        kind: value("kind"),
        task: value("task"),
        session: value("session"),
        tool: value("tool"),
        text: value("text"),
        not: Value(query.texts("not").collect::<Vec<_>>().join(" ")),
    })
}

/// Returns the newest events that are wanted, newest first; the position from which on they were looked for, and why no further.
fn newest(
    cx: &Cx,
    log: &dyn EventReader,
    head: Position,
    wanted: &mut EventFilter,
) -> Result<(Vec<LiveRow>, u64, Option<String>), Problem> {
    // With a filter, more are looked through for those that it takes.
    let reach = if wanted.is_all() { NEWEST } else { LOOKED };
    let from = head.0.saturating_sub(reach - 1).max(1);
    let (mut rows, mut next, mut damage) = (VecDeque::new(), from, None);
    let mut summaries = Summaries::default();
    while next <= head.0 && damage.is_none() {
        let page = match log.page_all(Position(next), Page::default()) {
            Ok(page) if page.is_empty() => break,
            Ok(page) => page,
            Err(error) => {
                damage = Some(error.to_string());
                break;
            }
        };
        for row in page.iter().flat_map(event_rows).filter(|row| (next..=head.0).contains(&row.position.0)) {
            let line: String = summaries.of(&row).chars().take(300).collect();
            match wanted.takes(log, &row) {
                Ok(true) => rows.push_front(LiveRow::new(cx, &row, line)),
                Ok(false) => {}
                Err(error @ (ReadError::Corrupt { .. } | ReadError::Newer { .. })) => {
                    damage = Some(error.to_string());
                    break;
                }
                Err(error) => return Err(unread(error)),
            }
            rows.truncate(usize::try_from(NEWEST).unwrap_or(usize::MAX));
        }
        next = page.last().map_or(head.0, |last| last.last_position().0) + 1;
    }
    Ok((rows.into(), from, damage))
}

impl LiveRow {
    fn new(cx: &Cx, row: &EventRow, line: String) -> Self {
        Self {
            position: row.position.0,
            at: cx.at(row.at),
            kind: row.kind,
            mark: words::event(row.kind),
            name: row.stream.to_string(),
            stream_url: cx.links.stream(&row.stream),
            event_url: cx.links.event(&row.stream, row.version),
            line,
        }
    }
}
