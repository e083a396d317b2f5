//! An event of any stream, as it is stored: header, hashes, payload.

use askama::Template;
use proto_events::id::{StreamId, Version};
use taskreel_log::api::EventReader;
use taskreel_log::audit::event_json;
use taskreel_log::jsonl::hex;
use taskreel_log::views::{Summaries, WholeEvent, whole_event};

use crate::api::bounded_reads::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, PageAnswer};
use crate::inspect::block::{Block, indented};
use crate::inspect::frame::{Cx, PageFrame};
use crate::inspect::words::{self, Mark};

#[derive(Template)]
#[template(path = "inspect/event.html")]
struct EventPage {
    frame: PageFrame,
    stream: String,
    stream_url: Option<String>,
    version: u64,
    end: u64,
    kind: &'static str,
    mark: Mark,
    line: String,
    facts: Vec<(&'static str, String)>,
    is_intact: bool,
    payload: Option<Block>,
    fault: Option<String>,
    before: Option<String>,
    after: Option<String>,
}

fn find_event(
    log: &dyn EventReader,
    stream: &StreamId,
    version: Version,
) -> Result<(WholeEvent, Version), Problem> {
    let end = log.stream_version(stream).map_err(unread)?;
    if end == Version(0) {
        return Err(Problem::not_found(format!("there is no stream `{stream}`")));
    }
    let none =
        || Problem::not_found(format!("{stream} has no version {version}: its versions are 1 to {end}"));
    if version == Version(0) || version > end {
        return Err(none());
    }
    Ok((whole_event(log, stream, version).map_err(unread)?.ok_or_else(none)?, end))
}

/// Makes the page.
///
/// # Errors
/// [`Problem`] if the event does not exist, or the log cannot be read.
pub(crate) fn page(
    cx: &Cx,
    log: &dyn EventReader,
    stream: &StreamId,
    version: Version,
) -> Result<PageAnswer, Problem> {
    let (found, end) = find_event(log, stream, version)?;
    let row = &found.row;
    let own = cx.links.stream(stream);
    let at = |number: u64| cx.links.raw(stream, Version(number));
    let (payload, fault) = match &row.event {
        Ok(event) => (Some(Block::json(&event_json(event), &cx.whole(stream, version))), None),
        Err(why) => (None, Some(why.clone())),
    };
    let page = EventPage {
        frame: cx.frame(format!("Event {version} of {stream}"), "none"),
        stream: stream.to_string(),
        stream_url: (!own.contains("/e/")).then_some(own),
        version: version.0,
        end: end.0,
        kind: row.kind,
        mark: words::event(row.kind),
        line: Summaries::default().of(row).chars().take(400).collect(),
        facts: facts_of(cx, &found),
        is_intact: found.is_intact(),
        payload,
        fault,
        before: (version.0 > 1).then(|| at(version.0 - 1)),
        after: (version < end).then(|| at(version.0 + 1)),
    };
    answer::page(&page)
}

/// Returns the payload of an event, whole.
///
/// # Errors
/// [`Problem`] if the event does not exist, or the log cannot be read.
pub(crate) fn body(
    log: &dyn EventReader,
    stream: &StreamId,
    version: Version,
) -> Result<PageAnswer, Problem> {
    let (found, _) = find_event(log, stream, version)?;
    match &found.row.event {
        Ok(event) => Ok(PageAnswer::Text(indented(event_json(event).as_str()))),
        Err(why) => Err(Problem::not_found(format!("the payload cannot be read: {why}"))),
    }
}

/// Returns what a record says of an event, and the hashes that hold it in its place.
pub(crate) fn facts_of(cx: &Cx, found: &WholeEvent) -> Vec<(&'static str, String)> {
    let (row, stored) = (&found.row, &found.record);
    let record = &stored.record;
    let or_dash = |text: &str| if text.is_empty() { "–".to_owned() } else { text.to_owned() };
    let digest = record.metadata.command_digest.as_ref().map(|command| command.digest.to_string());
    vec![
        ("event", format!("{} ({}, schema {})", row.kind, row.kind_number, row.schema)),
        ("time", cx.at(row.at).iso),
        ("position in the log", row.position.to_string()),
        ("command", row.command_id.clone()),
        ("content", or_dash(digest.as_deref().unwrap_or_default())),
        ("caused by", or_dash(&row.causation_id)),
        ("request", or_dash(&row.correlation_id)),
        ("by", format!("{} ({})", or_dash(&row.principal), row.principal_basis)),
        ("append", format!("{}, record {} of {}", row.set_id, record.part + 1, record.parts)),
        ("epoch", format!("{} of partition {}", record.epoch, record.partition)),
        (
            "record",
            format!(
                "versions {} to {}, {} bytes",
                record.first_version,
                record.last_version(),
                words::count(stored.bytes.len() as u64)
            ),
        ),
        ("leaf hash", stored.hash.to_string()),
        ("previous", record.previous.to_string()),
        ("body", format!("{} bytes", words::count(found.event.body_len.into()))),
        ("digest", found.event.digest.to_string()),
        ("salt", hex(found.event.salt())),
    ]
}
