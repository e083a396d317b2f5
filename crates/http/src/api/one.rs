//! A single thing: the log, a task, its events and its state, a session, a verification.

use std::path::Path;
use std::time::Instant;

use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;
use taskreel_log::api::{EventReader, Page};
use taskreel_log::audit::json::{number, object, text, text_or_null};
use taskreel_log::audit::{Scope, verify_within};
use taskreel_log::documents::{ShownError, finding_json, show_json, state_json, verified_json};
use taskreel_log::sled::{Head, disk_space, log_header};
use taskreel_log::views::event_rows;

use crate::api::bounded_reads::{WatchedLog, unread};
use crate::api::lists::page;
use crate::api::routed_request::RoutedRequest;
use crate::error::Problem;

/// Returns what is known of the log in a directory, or of a store of the host's own.
pub(crate) fn log(reader: &WatchedLog, dir: Option<&Path>) -> Result<JsonText, Problem> {
    // HEAD first: what it vouches for is in the log from then on.
    let head_file = dir.and_then(|dir| Head::read(dir).ok().flatten()).map(|head| head.to_text());
    let header = dir.and_then(|dir| log_header(dir).ok());
    let disk = dir.and_then(disk_space).map_or_else(JsonText::null, |disk| {
        object([("free", number(disk.free)), ("size", number(disk.total))])
    });
    let id = header.map(|header| header.id).unwrap_or_default();
    let durability = header.map_or("os", |header| header.durability.name());
    Ok(object([
        ("schema", text("taskreel.log/1")),
        ("log", text(&id.to_string())),
        ("format", number(header.map_or(proto_events::codec::record::FORMAT.into(), |header| header.format))),
        ("durability", text(durability)),
        ("head", number(reader.head().map_err(unread)?.0)),
        ("head_file", text_or_null(head_file.as_deref())),
        ("disk", disk),
        ("poisoned", text_or_null(reader.poisoned().as_deref())),
    ]))
}

pub(crate) fn show(reader: &dyn EventReader, stream: &StreamId) -> Result<JsonText, Problem> {
    show_json(reader, stream).map_err(unread)
}

pub(crate) fn state(
    asked: &RoutedRequest,
    reader: &dyn EventReader,
    stream: &StreamId,
) -> Result<JsonText, Problem> {
    let at = asked.number("at")?.map(Version);
    state_json(reader, stream, at).map_err(|error| match error {
        ShownError::Read(error) => unread(error),
        other => Problem::not_found(other.to_string()),
    })
}

pub(crate) fn events(
    asked: &RoutedRequest,
    reader: &dyn EventReader,
    stream: &StreamId,
) -> Result<JsonText, Problem> {
    let limit = asked.limit()?;
    let from = asked.number::<u64>("from")?.unwrap_or(1).max(1);
    // A record has one event or more, and the page ends after so many bytes.
    let records = Page { records: limit, ..Page::default() };
    let read = reader.page_stream(stream, Version(from), records).map_err(unread)?;
    let end = reader.stream_version(stream).map_err(unread)?;
    let rows = read.iter().flat_map(event_rows).filter(|row| row.version.0 >= from);
    let (mut items, mut last) = (Vec::new(), 0);
    for row in rows.take(limit) {
        last = row.version.0;
        items.push(row.to_json());
    }
    let next = (last > 0 && last < end.0).then(|| last.saturating_add(1).to_string());
    Ok(page(&items, next.as_deref()))
}

/// Verifies the log, or one stream of it.
#[allow(clippy::cast_precision_loss, reason = "a speed for people")]
pub(crate) fn verify(
    asked: &RoutedRequest,
    reader: &dyn EventReader,
    dir: Option<&Path>,
) -> Result<JsonText, Problem> {
    let only = match asked.text("stream").map(StreamId::parse).transpose() {
        Err(error) => return Err(Problem::not_found(format!("`stream`: {error}"))),
        Ok(None) => None,
        Ok(Some(stream)) => {
            if reader.stream_version(&stream).map_err(unread)?.0 == 0 {
                return Err(Problem::not_found(format!("there is no stream `{stream}`")));
            }
            Some(stream)
        }
    };
    let head = dir.and_then(|dir| Head::read(dir).ok().flatten());
    let scope = Scope { only: only.as_ref(), head: head.as_ref(), ..Scope::default() };
    let began = Instant::now();
    let found = verify_within(reader, &scope, &mut |_| {});
    if let Some(error) = &found.failed {
        return Err(unread(error.clone()));
    }
    let seconds = began.elapsed().as_secs_f64();
    let speed = found.bytes as f64 / 1e6 / seconds;
    let speed = if speed.is_finite() { (speed * 10.0).round() / 10.0 } else { 0.0 };
    let findings: Vec<JsonText> = found.findings.iter().map(finding_json).collect();
    Ok(object([
        ("findings", JsonText::of_model(&findings)),
        ("report", verified_json(&found, seconds, speed)),
    ]))
}
