//! Events as rows: each with its place, its time and its cause.

use proto_events::codec::{AnyEvent, kind};
use proto_events::envelope::Timestamp;
use proto_events::id::{Position, StreamId, Version};
use proto_events::json::JsonText;

use crate::api::record::StoredRecord;
use crate::audit::json::{event_json, number, object, text};
use crate::jsonl::line::hex;
use crate::views::expression::Expression;

/// An event with its place and cause.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EventRow {
    /// The event's stream.
    pub stream: StreamId,
    /// The version in the stream.
    pub version: Version,
    /// The position in the log.
    pub position: Position,
    /// The time when the command was accepted.
    pub at: Timestamp,
    /// The number of the event's kind.
    pub kind_number: u16,
    /// The name of the event's kind.
    pub kind: &'static str,
    /// The schema version of the stored event.
    pub schema: u8,
    /// The command that appended the event.
    pub command_id: String,
    /// The direct cause of the command; empty if a caller sent it.
    pub causation_id: String,
    /// The outside request that started the chain of causes.
    pub correlation_id: String,
    /// The author of the command.
    pub principal: String,
    /// `asserted` or `authenticated`.
    pub principal_basis: &'static str,
    /// The id of the append, in hexadecimal.
    pub set_id: String,
    /// The event, or the reason why it cannot be read.
    pub event: Result<AnyEvent, String>,
}

/// Returns the events of a record.
pub fn event_rows(stored: &StoredRecord) -> Vec<EventRow> {
    let record = &stored.record;
    let metadata = &record.metadata;
    let places = (stored.position.0..).zip(record.first_version.0..);
    record
        .events
        .iter()
        .zip(places)
        .map(|(event, (position, version))| EventRow {
            stream: record.stream.clone(),
            version: Version(version),
            position: Position(position),
            at: metadata.at,
            kind_number: event.kind,
            kind: kind::name(event.kind),
            schema: event.schema,
            command_id: metadata.command_id.clone(),
            causation_id: metadata.causation_id.clone(),
            correlation_id: metadata.correlation_id.clone(),
            principal: metadata.principal.name.clone(),
            principal_basis: stored.record.metadata.principal.basis.as_str(),
            set_id: hex(&record.set_id),
            event: match event.body() {
                None => Err("its body is missing from the log".to_owned()),
                Some(body) => AnyEvent::decode(record.stream.category(), event.kind, event.schema, body)
                    .map_err(|error| error.to_string()),
            },
        })
        .collect()
}

impl EventRow {
    /// Whether a condition holds for the fields of the row's JSON.
    pub fn fits(&self, condition: &Expression) -> bool {
        // The payload may be large, and most conditions do not name it.
        condition.holds(&self.json(condition.names("payload")).tree())
    }

    /// Returns the whole row as JSON, payload included.
    pub fn to_json(&self) -> JsonText {
        self.json(true)
    }

    fn json(&self, has_payload: bool) -> JsonText {
        let (payload, error) = match &self.event {
            Ok(event) if has_payload => (event_json(event), JsonText::null()),
            Ok(_) => (JsonText::null(), JsonText::null()),
            Err(error) => (JsonText::null(), text(error)),
        };
        object([
            ("schema", text("taskreel.event/1")),
            ("position", number(self.position.0)),
            ("stream", text(self.stream.as_str())),
            ("id", text(&self.stream.id())),
            ("version", number(self.version.0)),
            ("at", text(&self.at.to_string())),
            ("kind", text(self.kind)),
            ("kind_number", number(self.kind_number)),
            ("schema_version", number(self.schema)),
            ("command_id", text(&self.command_id)),
            ("causation_id", text(&self.causation_id)),
            ("correlation_id", text(&self.correlation_id)),
            ("principal", text(&self.principal)),
            ("principal_basis", text(self.principal_basis)),
            ("set_id", text(&self.set_id)),
            ("payload", payload),
            ("error", error),
        ])
    }
}
