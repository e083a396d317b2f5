//! The log as NDJSON: one line for each record, in order of position, with its events in words and the stored
//! bytes, so that a reader of the file can check every hash without this program.

use std::ops::ControlFlow;

use proto_events::codec::record::{Body, StoredEvent};
use proto_events::codec::{AnyEvent, kind};
use proto_events::id::{LogId, Position};
use proto_events::json::JsonText;

use crate::api::error::ReadError;
use crate::api::in_pieces::for_each_mapped;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::api::scan::Compare;
use crate::artifacts::KeptFileAt;
use crate::audit::json::{event_json, number, object, one_line, text};
use crate::audit::kept_files::kept_files_in;
use crate::engine::head::Head;
use crate::jsonl::line::{ExportHeader, hex};
use crate::jsonl::schema::DETACHED;

/// The form of an extract, the value of the first field of its first line.
pub const EXTRACT_SCHEMA: &str = "taskreel.extract/1";

/// The form of the last line of an extract.
pub const EXTRACT_END_SCHEMA: &str = "taskreel.extract-end/1";

/// The amount exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExportSummary {
    /// The number of records, one line each.
    pub records: u64,
    /// The number of events in them.
    pub events: u64,
}

/// Passes the whole log to `write`, line by line, without line ends. `id` and `durability` are the log's own,
/// as its header names them. The log is read twice, since the first line has the Merkle root; what is appended
/// meanwhile is left out.
///
/// # Errors
/// The error of `write`, or a converted [`ReadError`] at the first record that cannot be read.
pub fn export<E: From<ReadError>>(
    reader: &dyn EventReader,
    id: LogId,
    durability: &str,
    write: impl FnMut(&str) -> Result<(), E>,
) -> Result<ExportSummary, E> {
    export_with_files(reader, id, durability, write, |_| {})
}

/// Exports as [`export`] does, and shows the files beside the log to which the exported events refer: the export does not carry
/// them, and its form has no place for their names.
///
/// # Errors
/// As [`export`].
pub fn export_with_files<E: From<ReadError>>(
    reader: &dyn EventReader,
    id: LogId,
    durability: &str,
    mut write: impl FnMut(&str) -> Result<(), E>,
    mut show: impl FnMut(&KeptFileAt),
) -> Result<ExportSummary, E> {
    let head = end_of(reader)?;
    let [first, last] = outer_lines(id, durability, &head);
    write(&first)?;
    let mut done = ExportSummary::default();
    let line = |stored: StoredRecord| {
        (stored.position, stored.record.events.len(), record_line(&stored), kept_files_in(&stored))
    };
    for_each_mapped(reader, line, |(position, events, line, kept)| {
        if position > head.position {
            return Ok(ControlFlow::Break(()));
        }
        write(&line)?;
        kept.iter().for_each(&mut show);
        done.records += 1;
        done.events += events as u64;
        Ok::<_, E>(ControlFlow::Continue(()))
    })?;
    write(&last)?;
    Ok(done)
}

/// Returns the end of the log as it is now, and the tree over its records. What is written meanwhile is not read: a log that
/// grows as fast as it is read has an end all the same.
fn end_of(reader: &dyn EventReader) -> Result<Head, ReadError> {
    let (mut head, now) = (Head::default(), reader.head()?);
    reader.scan(Position(1), Compare::Checksums, &mut |scanned| {
        if scanned.position > now {
            return Ok(ControlFlow::Break(()));
        }
        head.frontier.push(scanned.hash);
        head.position = scanned.last_position();
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(head)
}

/// Returns the first and the last line of an export.
pub(crate) fn outer_lines(id: LogId, durability: &str, head: &Head) -> [String; 2] {
    let header = ExportHeader::new(id, durability, head);
    [header.to_line(), header.export_end().to_line()]
}

/// Returns the line of a record in an export, without its end.
pub fn record_line(stored: &StoredRecord) -> String {
    one_line(&record_json(stored))
}

/// Returns a whole record as JSON.
pub(crate) fn record_json(stored: &StoredRecord) -> JsonText {
    let record = &stored.record;
    let events: Vec<JsonText> = events_json(stored);
    object([
        ("position", number(stored.position.0)),
        ("stream", text(record.stream.as_str())),
        ("first_version", number(record.first_version.0)),
        ("set_id", text(&hex(&record.set_id))),
        ("part", number(record.part)),
        ("parts", number(record.parts)),
        ("partition", number(record.partition)),
        ("epoch", number(record.epoch)),
        ("at", text(&record.metadata.at.to_string())),
        ("command_id", text(&record.metadata.command_id)),
        ("command_digest", command_digest(stored)),
        ("causation_id", text(&record.metadata.causation_id)),
        ("correlation_id", text(&record.metadata.correlation_id)),
        ("principal", text(&record.metadata.principal.name)),
        ("principal_basis", text(record.metadata.principal.basis.as_str())),
        ("previous", text(&record.previous.to_string())),
        ("hash", text(&stored.hash.to_string())),
        ("events", JsonText::of_model(&events)),
        ("bytes", text(&hex(&stored.bytes))),
        (DETACHED, JsonText::of_model(&detached(stored))),
    ])
}

/// The bodies stored outside the record's bytes, by the number of their event within the record, from 0.
fn detached(stored: &StoredRecord) -> Vec<JsonText> {
    let outside = |event: &StoredEvent| match &event.place {
        Body::Chunked { bytes, .. } => bytes.as_deref().map(hex),
        _ => None,
    };
    let line = |(event, body): (u64, String)| object([("event", number(event)), ("body", text(&body))]);
    let numbered = (0..).zip(&stored.record.events);
    numbered.filter_map(|(number, event)| Some((number, outside(event)?))).map(line).collect()
}

/// Returns the digest of the command's content; null for a command whose id no caller chose.
fn command_digest(stored: &StoredRecord) -> JsonText {
    match &stored.record.metadata.command_digest {
        Some(command) => text(&command.digest.to_string()),
        None => JsonText::null(),
    }
}

fn events_json(stored: &StoredRecord) -> Vec<JsonText> {
    let record = &stored.record;
    let places = (stored.position.0..).zip(record.first_version.0..);
    let one = |(event, (position, version)): (&StoredEvent, (u64, u64))| {
        let category = record.stream.category();
        let decoded = event.body().map(|body| {
            AnyEvent::decode(category, event.kind, event.schema, body).map_err(|error| error.to_string())
        });
        let (payload, error) = match decoded {
            Some(Ok(decoded)) => (event_json(&decoded), JsonText::null()),
            Some(Err(error)) => (JsonText::null(), text(&error)),
            None => (JsonText::null(), text("its body is missing from the log")),
        };
        object([
            ("position", number(position)),
            ("version", number(version)),
            ("kind", text(kind::name(event.kind))),
            ("kind_number", number(event.kind)),
            ("schema_version", number(event.schema)),
            ("digest", text(&event.digest.to_string())),
            ("payload", payload),
            ("error", error),
        ])
    };
    record.events.iter().zip(places).map(one).collect()
}
