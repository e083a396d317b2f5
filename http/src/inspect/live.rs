//! The events of the log as server-sent events, for the page that follows it. The id of each is its position, so that a browser that
//! lost its connection goes on without a gap or a repeat: what follows a position is read from the log, not remembered.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, StatusCode};
use proto_events::id::Position;
use taskreel_log::api::{EventReader, Page};
use taskreel_log::audit::json::{number, object, one_line, text};
use taskreel_log::views::{EventRow, Summaries, event_rows};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::reading::{read, unread};
use crate::api::records::{Lines, turn_to_follow};
use crate::error::Problem;
use crate::face::connection::Stopping;
use crate::inspect::answer::Answered;
use crate::inspect::asked::Query;
use crate::inspect::escape::visible;
use crate::inspect::words;
use crate::limits::{INSPECT_FOLLOW_EVERY, SSE_HEARTBEAT};

/// The most characters of an event's summary in a row that follows.
const LINE_CHARACTERS: usize = 300;

/// Returns the position from which a request follows: behind the last one that the browser has, else the one that it names.
///
/// # Errors
/// [`Problem`] if it is none.
pub(crate) fn place(headers: &HeaderMap, query: &Query) -> Result<Option<u64>, Problem> {
    let Some(last) = headers.get("last-event-id") else { return query.number("from") };
    let last = last.to_str().ok().and_then(|last| last.trim().parse::<u64>().ok());
    let last = last.ok_or_else(|| Problem::malformed("`last-event-id` is not a position"))?;
    Ok(Some(last.saturating_add(1)))
}

/// A browser that follows.
struct Follower {
    log: Arc<dyn EventReader>,
    turns: Arc<Semaphore>,
    next: u64,
    ready: VecDeque<String>,
    spoken: Instant,
    summaries: Summaries,
    is_over: bool,
    _place: OwnedSemaphorePermit,
}

/// Answers a request for events.
///
/// # Errors
/// [`Problem`] if the position is none of this log or the next one, or too many others follow.
pub(crate) async fn events(
    log: Arc<dyn EventReader>,
    from: Option<u64>,
    (turns, followers): (&Arc<Semaphore>, &Arc<Semaphore>),
    stopping: Option<Stopping>,
) -> Result<Answered, Problem> {
    let head = read(turns, Arc::clone(&log), |log| log.head().map_err(unread)).await?.0;
    let next = from.unwrap_or(head.saturating_add(1)).max(1);
    if next > head.saturating_add(1) {
        let what = format!("the log ends at position {head}; {next} is after the next one");
        return Err(Problem::new(StatusCode::CONFLICT, "ahead", what));
    }
    let follower = Follower {
        log,
        turns: Arc::clone(turns),
        next,
        ready: VecDeque::new(),
        spoken: Instant::now(),
        summaries: Summaries::default(),
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
    Ok(Answered::Events(lines))
}

impl Follower {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            let next = self.next;
            let found = read(&self.turns, Arc::clone(&self.log), move |log| {
                let head = log.head().map_err(unread)?;
                let is_more = head.0 >= next;
                let page =
                    if is_more { log.page_all(Position(next), Page::default()) } else { Ok(Vec::new()) };
                Ok((head, page.map_err(unread)?))
            });
            match found.await {
                Ok((head, records)) => {
                    for row in records.iter().flat_map(event_rows).filter(|row| row.position.0 >= next) {
                        self.next = row.position.0.saturating_add(1);
                        let line = frame(&row, &self.summaries.of(&row), head);
                        self.ready.push_back(line);
                    }
                }
                Err(problem) if problem.status() == StatusCode::TOO_MANY_REQUESTS => {}
                Err(problem) => {
                    self.is_over = true;
                    let why = object([("error", text(problem.message()))]);
                    return Some(format!("event: failed\ndata: {}\n\n", one_line(&why)));
                }
            }
            if self.ready.is_empty() {
                if self.spoken.elapsed() >= SSE_HEARTBEAT {
                    return Some(": quiet\n\n".to_owned());
                }
                tokio::time::sleep(INSPECT_FOLLOW_EVERY).await;
            }
        }
    }
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
