//! An event whole: its header, its payload, its place, and the hashes that hold it there.

use proto_events::codec::record::{Body, StoredEvent};
use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::audit::json::{number, object, text, text_or_null};
use crate::jsonl::line::hex;
use crate::views::event_row::{EventRow, event_rows};

/// An event, and the record that holds it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WholeEvent {
    /// The event.
    pub row: EventRow,
    /// The event as it is stored.
    pub event: StoredEvent,
    /// The record, which was compared with its leaf hash.
    pub record: StoredRecord,
}

/// Returns the event of a stream at a version; `None` if the stream ends before it.
///
/// # Errors
/// [`ReadError`] if the record cannot be read.
pub fn whole_event(
    reader: &dyn EventReader,
    stream: &StreamId,
    version: Version,
) -> Result<Option<WholeEvent>, ReadError> {
    let Some(record) = reader.read_stream(stream, version, 1)?.into_iter().next() else { return Ok(None) };
    let at = version.0.checked_sub(record.record.first_version.0).and_then(|at| usize::try_from(at).ok());
    let Some(at) = at else { return Ok(None) };
    let found = event_rows(&record).into_iter().nth(at).zip(record.record.events.get(at).cloned());
    Ok(found.map(|(row, event)| WholeEvent { row, event, record }))
}

impl WholeEvent {
    /// Whether the stored body has the digest that its record holds.
    pub fn is_intact(&self) -> bool {
        self.event.matches_digest()
    }

    /// Returns the event, its record's header and the stored bytes as JSON.
    pub fn to_json(&self) -> JsonText {
        object([
            ("schema", text("taskreel.whole-event/1")),
            ("event", self.row.to_json()),
            ("record", self.record_json()),
            ("body", self.body_json()),
        ])
    }

    fn record_json(&self) -> JsonText {
        let StoredRecord { position, hash, record, bytes } = &self.record;
        let digest = record.metadata.command_digest.as_ref().map(|command| command.digest.to_string());
        object([
            ("position", number(position.0)),
            ("last_position", number(self.record.last_position().0)),
            ("first_version", number(record.first_version.0)),
            ("last_version", number(record.last_version().0)),
            ("part", number(record.part)),
            ("parts", number(record.parts)),
            ("partition", number(record.partition)),
            ("epoch", number(record.epoch)),
            ("command_digest", text_or_null(digest.as_deref())),
            ("previous", text(&record.previous.to_string())),
            ("hash", text(&hash.to_string())),
            ("bytes", text(&hex(bytes))),
        ])
    }

    fn body_json(&self) -> JsonText {
        let stored = match &self.event.place {
            Body::Inline { .. } => "inline",
            Body::Chunked { .. } => "chunked",
            _ => "elsewhere",
        };
        object([
            ("length", number(self.event.body_len)),
            ("digest", text(&self.event.digest.to_string())),
            ("intact", JsonText::of_model(&self.is_intact())),
            ("stored", text(stored)),
            ("salt", text(&hex(self.event.salt()))),
            ("bytes", text_or_null(self.event.body().map(hex).as_deref())),
        ])
    }
}
