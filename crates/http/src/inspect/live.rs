//! The events of the log as server-sent events, for the page that follows it. The id of each is its position, so that a browser that
//! lost its connection goes on without a gap or a repeat: what follows a position is read from the log, not remembered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, StatusCode};
use proto_events::id::Position;
use taskreel_log::api::{EventReader, Page, ReadError};
use taskreel_log::audit::json::{number, object, one_line, text};
use taskreel_log::views::{EventRow, Summaries, event_rows};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::bounded_reads::{read, unread};
use crate::api::records::{Lines, turn_to_follow};
use crate::error::Problem;
use crate::handler::connection::StopSignal;
use crate::inspect::answer::PageAnswer;
use crate::inspect::escape::visible;
use crate::inspect::event_filter::EventFilter;
use crate::inspect::page_request::Query;
use crate::inspect::words;
use crate::limits::{INSPECT_FOLLOW_EVERY, INSPECT_SEEN_EVERY, SSE_HEARTBEAT};

/// The most characters of an event's summary in a row that follows.
const LINE_CHARACTERS: usize = 300;

/// Returns the position from which a request follows: behind the last one that the browser has, else the one that it names.
///
/// # Errors
/// [`Problem`] if it is not valid.
pub(crate) fn place(headers: &HeaderMap, query: &Query) -> Result<Option<u64>, Problem> {
    let Some(last) = headers.get("last-event-id") else { return query.number("from") };
    let last = last.to_str().ok().and_then(|last| last.trim().parse::<u64>().ok());
    let last = last.ok_or_else(|| Problem::malformed("`last-event-id` is not a position"))?;
    Ok(Some(last.saturating_add(1)))
}

/// A browser that follows.
struct LiveFollower {
    log: Arc<dyn EventReader>,
    turns: Arc<Semaphore>,
    next: u64,
    ready: VecDeque<String>,
    spoken: Instant,
    summaries: Summaries,
    /// The filter, which is used by one read at a time.
    wanted: Arc<Mutex<EventFilter>>,
    /// The position up to which the browser knows that the log was looked through.
    told: u64,
    /// Whether the browser was told that the log cannot be read at this moment.
    is_waiting: bool,
    is_over: bool,
    _place: OwnedSemaphorePermit,
}

/// Answers a request for events.
///
/// # Errors
/// [`Problem`] if the position is not one of this log or the next one, or too many others follow.
pub(crate) async fn events(
    log: Arc<dyn EventReader>,
    (from, wanted): (Option<u64>, EventFilter),
    (turns, followers): (&Arc<Semaphore>, &Arc<Semaphore>),
    stopping: Option<StopSignal>,
) -> Result<PageAnswer, Problem> {
    let head = read(turns, Arc::clone(&log), |log| log.head().map_err(unread)).await?.0;
    let next = from.unwrap_or(head.saturating_add(1)).max(1);
    if next > head.saturating_add(1) {
        let what = format!("the log ends at position {head}; {next} is after the next one");
        return Err(Problem::new(StatusCode::CONFLICT, "ahead", what));
    }
    let follower = LiveFollower {
        log,
        turns: Arc::clone(turns),
        next,
        ready: VecDeque::new(),
        spoken: Instant::now(),
        summaries: Summaries::default(),
        wanted: Arc::new(Mutex::new(wanted)),
        told: next - 1,
        is_waiting: false,
        is_over: false,
        _place: turn_to_follow(followers)?,
    };
    // At once, so that the browser knows that it is connected; and soon again after a lost connection.
    let first = stream::iter([Bytes::from("retry: 1000\n: connected\n\n")]);
    let rest = stream::unfold(follower, |mut follower| async {
        let event = follower.next().await?;
        follower.spoken = Instant::now();
        Some((Bytes::from(event), follower))
    });
    let lines = first.chain(rest);
    let lines: Lines = match stopping {
        Some(stopping) => lines.take_until(stopping.begun()).boxed(),
        None => lines.boxed(),
    };
    Ok(PageAnswer::Events(lines))
}

impl LiveFollower {
    fn accept_rows(&mut self, looked: &LiveRows) {
        for row in &looked.rows {
            self.told = row.position.0;
            self.ready.push_back(frame(row, &self.summaries.of(row), looked.head));
        }
        self.next = looked.next;
    }

    /// Returns the last word, after which nothing comes.
    fn failed(&mut self, why: &str) -> String {
        self.is_over = true;
        told_frame("failed", why)
    }

    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            let (next, wanted) = (self.next, Arc::clone(&self.wanted));
            let found = read(&self.turns, Arc::clone(&self.log), move |log| {
                let mut wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(read_rows(log, next, &mut wanted))
            });
            match found.await {
                Ok(Ok(looked)) => {
                    // Whatever comes next, the waiting is over; the browser has all before it.
                    let before = std::mem::take(&mut self.is_waiting).then(|| seen_frame(self.next - 1));
                    self.ready.extend(before);
                    self.accept_rows(&looked);
                }
                // The program that has the log is gone, and may come back: nothing is wrong with the log.
                Ok(Err(error)) if error.is_of_reader() => {
                    if !std::mem::replace(&mut self.is_waiting, true) {
                        return Some(told_frame("waiting", &error.to_string()));
                    }
                    tokio::time::sleep(INSPECT_SEEN_EVERY).await;
                }
                Ok(Err(error)) => return Some(self.failed(unread(error).message())),
                Err(problem) if problem.status() == StatusCode::TOO_MANY_REQUESTS => {}
                Err(problem) => return Some(self.failed(problem.message())),
            }
            if self.ready.is_empty() {
                let seen = self.next - 1;
                if seen > self.told && self.spoken.elapsed() >= INSPECT_SEEN_EVERY {
                    self.told = seen;
                    return Some(seen_frame(seen));
                }
                if self.spoken.elapsed() >= SSE_HEARTBEAT {
                    return Some(": quiet\n\n".to_owned());
                }
                tokio::time::sleep(INSPECT_FOLLOW_EVERY).await;
            }
        }
    }
}

/// The part of the log that was looked through.
struct LiveRows {
    head: Position,
    /// The first position that was not looked at.
    next: u64,
    /// The events that are wanted.
    rows: Vec<EventRow>,
}

fn read_rows(log: &dyn EventReader, next: u64, wanted: &mut EventFilter) -> Result<LiveRows, ReadError> {
    let head = log.head()?;
    let mut looked = LiveRows { head, next, rows: Vec::new() };
    if head.0 < next {
        return Ok(looked);
    }
    for row in log.page_all(Position(next), Page::default())?.iter().flat_map(event_rows) {
        if row.position.0 < next {
            continue;
        }
        looked.next = row.position.0.saturating_add(1);
        if wanted.takes(log, &row)? {
            looked.rows.push(row);
        }
    }
    Ok(looked)
}

/// Returns the word that the log was looked through up to a position: a browser that comes back begins there.
fn seen_frame(seen: u64) -> String {
    let data = object([("seen", number(seen))]);
    format!("id: {seen}\nevent: seen\ndata: {}\n\n", one_line(&data))
}

/// Returns the reason why no events come, as an event of its own kind. It has no id: the browser keeps its place.
fn told_frame(kind: &str, why: &str) -> String {
    let why = object([("error", text(why))]);
    format!("event: {kind}\ndata: {}\n\n", one_line(&why))
}

/// Returns the frame of an event. Its texts are put into the page as texts.
fn frame(row: &EventRow, line: &str, head: Position) -> String {
    let mark = words::event(row.kind);
    let line: String = line.chars().take(LINE_CHARACTERS).collect();
    let data = object([
        ("position", number(row.position.0)),
        ("head", number(head.0)),
        ("stream", text(&visible(row.stream.as_str()))),
        ("agent", text(&row.stream.agent())),
        ("id", text(&row.stream.id())),
        ("name", text(row.stream.as_str())),
        ("category", text(row.stream.category().map_or("", |category| category.as_str()))),
        ("version", number(row.version.0)),
        ("at", text(&row.at.to_string())),
        ("kind", text(row.kind)),
        ("mark", text(mark.sign)),
        ("class", text(mark.class)),
        ("line", text(&visible(&line))),
    ]);
    format!("id: {}\ndata: {}\n\n", row.position, one_line(&data))
}
