//! The page that follows the log: its newest events, and those that come while it is open.

use askama::Template;
use proto_events::id::Position;
use taskreel_log::api::{EventReader, Page};
use taskreel_log::views::{LogUse, Summaries, event_rows};

use crate::api::reading::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, Answered};
use crate::inspect::frame::{Cx, Frame};
use crate::inspect::words::{self, At, Mark};

/// The events that stand on the page before any script runs.
const NEWEST: u64 = 100;

#[derive(Template)]
#[template(path = "inspect/live.html")]
struct LivePage {
    frame: Frame,
    rows: Vec<LiveRow>,
    is_live: bool,
    next: u64,
    damage: Option<String>,
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
/// [`Problem`] if the end of the log cannot be read.
pub(crate) fn page(cx: &Cx, log: &dyn EventReader) -> Result<Answered, Problem> {
    let head = log.head().map_err(unread)?;
    let from = head.0.saturating_sub(NEWEST - 1).max(1);
    let (mut rows, mut next, mut damage) = (Vec::new(), from, None);
    let mut summaries = Summaries::default();
    while next <= head.0 {
        let page = match log.page_all(Position(next), Page::default()) {
            Ok(page) if page.is_empty() => break,
            Ok(page) => page,
            Err(error) => {
                damage = Some(error.to_string());
                break;
            }
        };
        for row in page.iter().flat_map(event_rows).filter(|row| (next..=head.0).contains(&row.position.0)) {
            rows.push(LiveRow {
                position: row.position.0,
                at: cx.at(row.at),
                kind: row.kind,
                mark: words::event(row.kind),
                name: row.stream.to_string(),
                stream_url: cx.links.stream(&row.stream),
                event_url: cx.links.event(&row.stream, row.version),
                line: summaries.of(&row).chars().take(300).collect(),
            });
        }
        next = page.last().map_or(head.0, |last| last.last_position().0) + 1;
    }
    rows.reverse();
    let is_live = cx.log.use_of() == LogUse::Open;
    answer::page(&LivePage { frame: cx.frame("Live", "Live"), rows, is_live, next: head.0 + 1, damage })
}
