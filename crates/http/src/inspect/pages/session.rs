//! A session as the conversation that it is, each message with the events that it stands in. A message that a compaction or an aborted
//! turn has taken out of the history stays in its place, and is marked.

use askama::Template;
use proto_events::codec::AnyEvent;
use proto_events::id::{StreamId, Version};
use proto_events::session::SessionEvent;
use taskreel_log::api::{EventReader, Page, ReadError};
use taskreel_log::views::{EventRow, event_rows, shell_word};

use crate::api::bounded_reads::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, PageAnswer};
use crate::inspect::block::Block;
use crate::inspect::frame::{Cx, PageFrame};
use crate::inspect::page_request::Query;
use crate::inspect::pages::talk::{TalkLine, TalkReader};
use crate::inspect::words;
use crate::limits::INSPECT_EVENTS;

#[derive(Template)]
#[template(path = "inspect/session.html")]
struct SessionPage {
    frame: PageFrame,
    id: String,
    agent: String,
    end: String,
    says: Vec<TalkLine>,
    older: Option<String>,
    newer: Option<String>,
    first: u64,
    last: u64,
    damage: Option<String>,
    report_url: String,
    command: String,
}

/// Makes the page.
///
/// # Errors
/// [`Problem`] if the session or place does not exist, or the log cannot be read.
pub(crate) fn page(
    cx: &Cx,
    log: &dyn EventReader,
    stream: &StreamId,
    query: &Query,
) -> Result<PageAnswer, Problem> {
    let end = log.stream_version(stream).map_err(unread)?;
    if end == Version(0) {
        let what = format!("agent {} has no session with the id `{}`", stream.agent(), stream.id());
        return Err(Problem::not_found(what));
    }
    let from =
        query.number::<u64>("from")?.unwrap_or_else(|| end.0.saturating_sub(INSPECT_EVENTS - 1).max(1));
    if from == 0 || from > end.0 {
        return Err(Problem::not_found(format!(
            "the session has no version {from}: its versions are 1 to {end}"
        )));
    }
    let to = from.saturating_add(INSPECT_EVENTS - 1).min(end.0);
    let (rows, damage) = rows(log, stream, (from, to))?;
    let mut told = TalkReader::new(cx, stream, turn_before(log, stream, from)?);
    told.read_ahead(&rows);
    let mut says: Vec<TalkLine> = rows.iter().map(|row| told.said(row)).collect();
    Block::fit(says.iter_mut().map(|said| &mut said.block));
    let place = |from: u64| format!("{}?from={from}", cx.links.stream(stream));
    let page = SessionPage {
        frame: cx.frame(format!("Session {}", stream.id()), "Sessions"),
        id: stream.id(),
        agent: stream.agent(),
        end: words::count(end.0),
        says,
        older: (from > 1).then(|| place(from.saturating_sub(INSPECT_EVENTS).max(1))),
        newer: (to < end.0).then(|| place(to + 1)),
        first: from,
        last: to,
        damage: damage.map(|damage| damage.to_string()),
        report_url: cx.links.report(stream),
        command: cx.log.command_line(&format!("transcript {}", shell_word(stream.as_str()))),
    };
    answer::page(&page)
}

/// Returns the events between two versions, as far as they can be read.
fn rows(
    log: &dyn EventReader,
    stream: &StreamId,
    (from, to): (u64, u64),
) -> Result<(Vec<EventRow>, Option<ReadError>), Problem> {
    let (mut rows, mut next): (Vec<EventRow>, u64) = (Vec::new(), from);
    while next <= to {
        let page = match log.page_stream(stream, Version(next), Page::default()) {
            Err(damage @ (ReadError::Corrupt { .. } | ReadError::Newer { .. })) => {
                return Ok((rows, Some(damage)));
            }
            page => page.map_err(unread)?,
        };
        let Some(last) = page.last() else { break };
        next = last.record.last_version().0.saturating_add(1);
        rows.extend(page.iter().flat_map(event_rows).filter(|row| (from..=to).contains(&row.version.0)));
    }
    Ok((rows, None))
}

/// Returns the task whose turn is open before a version.
fn turn_before(log: &dyn EventReader, stream: &StreamId, from: u64) -> Result<Option<String>, Problem> {
    let begin = from.saturating_sub(INSPECT_EVENTS).max(1);
    if from <= 1 {
        return Ok(None);
    }
    let (rows, _) = rows(log, stream, (begin, from - 1))?;
    Ok(rows.iter().rev().find_map(|row| match &row.event {
        Ok(AnyEvent::Session(SessionEvent::TurnStarted { task, .. })) => Some(task.clone()),
        _ => None,
    }))
}
