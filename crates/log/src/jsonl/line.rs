//! A line of an export: its fields, compared with its record's bytes.

use std::borrow::Cow;

use proto_events::codec::record::{EncodedRecord, FORMAT};
use proto_events::id::{Digest, LogId, Position, StreamId, Version};
use proto_events::json::{JsonError, JsonObject, JsonText, JsonValue};
use proto_events::model::TaskState;
use serde::Deserialize;

use crate::api::durability::Durability;
use crate::api::record::StoredRecord;
use crate::engine::head::Head;
use crate::jsonl::end::ExportEnd;
use crate::jsonl::error::{DamagedLine, ExportError};
use crate::jsonl::schema::SCHEMA;

/// The first line of an export, which describes the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExportHeader {
    /// The id of the log.
    pub id: LogId,
    /// The name of the log's durability.
    pub durability: String,
    /// Position of the log's last event.
    pub head: Position,
    /// The number of records in the file.
    pub records: u64,
    /// The root of the Merkle tree over these records.
    pub root: Digest,
    /// Whether the line is what an export of such a log begins with, character by character.
    pub is_exact: bool,
}

#[derive(Deserialize)]
struct WireHeader {
    #[serde(rename = "log")]
    id: String,
    durability: String,
    head: u64,
    records: u64,
    root: String,
}

/// The fields that every format has.
#[derive(Deserialize)]
struct WireFormat {
    schema: String,
    format: u64,
}

impl ExportHeader {
    /// Describes a log.
    pub(crate) fn new(id: LogId, durability: &str, head: &Head) -> Self {
        Self {
            id,
            durability: durability.to_owned(),
            head: head.position,
            records: head.frontier.size(),
            root: head.frontier.root(),
            is_exact: true,
        }
    }

    /// Returns the last line of the export that begins with this line.
    pub(crate) fn export_end(&self) -> ExportEnd {
        ExportEnd { head: self.head, records: self.records, root: self.root }
    }

    /// Returns the first line of the log's export.
    pub(crate) fn to_line(&self) -> String {
        let states: Vec<&str> = TaskState::ALL.iter().map(|state| state.as_str()).collect();
        let fields = [
            ("schema", JsonText::string(SCHEMA)),
            ("format", JsonText::from(JsonValue::from(u64::from(FORMAT)))),
            ("log", JsonText::string(&self.id.to_string())),
            ("durability", JsonText::string(&self.durability)),
            ("head", JsonText::from(JsonValue::from(self.head.0))),
            ("records", JsonText::from(JsonValue::from(self.records))),
            ("root", JsonText::string(&self.root.to_string())),
            // For readers of the file.
            ("states", JsonText::of_model(&states)),
        ];
        let fields: JsonObject = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        fields.to_text().as_str().to_owned()
    }

    /// Reads the first line.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, ExportError> {
        let not_an_export = |why: &str| ExportError::NotAnExport { why: why.to_owned() };
        let read: JsonValue =
            serde_json::from_slice(line).map_err(|_| not_an_export("its first line is not JSON"))?;
        let schema = read.get("schema").and_then(JsonValue::as_str).unwrap_or_default();
        if schema != SCHEMA {
            if schema.starts_with("taskreel.export/") {
                return Err(ExportError::OtherFormat { found: schema.to_owned() });
            }
            if schema.starts_with("taskreel.extract/") {
                return Err(not_an_export(
                    "it is an extract, which a filtered `export` writes: it lacks the other records of the log",
                ));
            }
            return Err(not_an_export("its first line does not name the format of an export"));
        }
        let wrong = |error: JsonError| not_an_export(&format!("its first line: {error}"));
        let WireFormat { schema, format } = read.read().map_err(wrong)?;
        if format != u64::from(FORMAT) {
            let found = format!("{schema} of format {format}");
            return Err(ExportError::OtherFormat { found });
        }
        let header: WireHeader = read.read().map_err(wrong)?;
        let id = LogId::parse(&header.id);
        let id = id.ok_or_else(|| not_an_export("its first line: `log` is not the id of a log"))?;
        let root = Digest::parse(&header.root);
        let root = root.ok_or_else(|| not_an_export("its first line: `root` is not a digest"))?;
        let mut parsed = Self {
            id,
            durability: header.durability,
            head: Position(header.head),
            records: header.records,
            root,
            is_exact: false,
        };
        let known = Durability::of_name(&parsed.durability).is_some();
        parsed.is_exact = known && parsed.to_line().as_bytes() == line;
        Ok(parsed)
    }
}

/// The record of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineRecord {
    /// The record as a reader gets it.
    pub stored: StoredRecord,
    /// The record as a store takes it.
    pub encoded: EncodedRecord,
}

/// The fields that a line must have; all others are for people.
#[derive(Deserialize)]
struct Wire<'a> {
    position: u64,
    #[serde(borrow)]
    stream: Cow<'a, str>,
    first_version: u64,
    #[serde(borrow)]
    hash: Cow<'a, str>,
    #[serde(borrow)]
    bytes: Cow<'a, str>,
    /// Bodies outside the record's bytes; empty if the field is missing.
    #[serde(borrow, default)]
    detached: Vec<WireBody<'a>>,
}

#[derive(Deserialize)]
struct WireBody<'a> {
    /// The event's number within the record, from 0.
    event: usize,
    #[serde(borrow)]
    body: Cow<'a, str>,
}

/// Reads the line of a record: bytes, leaf hash and bodies must agree, and so must the line's fields and the bytes.
///
/// # Errors
/// [`DamagedLine`], which names the line by this number.
pub fn read(number: u64, text: &str) -> Result<LineRecord, DamagedLine> {
    examine(text).map_err(|what| damaged(number, text, what))
}

fn examine(text: &str) -> Result<LineRecord, String> {
    let wire: Wire<'_> =
        serde_json::from_str(text).map_err(|error| format!("it cannot be parsed: {error}"))?;
    let bytes = unhex(&wire.bytes).ok_or("its `bytes` are not hexadecimal")?;
    let body = |detached: &WireBody<'_>| {
        let body = unhex(&detached.body).ok_or("a body in its `detached` is not hexadecimal")?;
        Ok::<_, String>((detached.event, body))
    };
    let bodies = wire.detached.iter().map(body).collect::<Result<Vec<_>, _>>()?;
    let encoded = EncodedRecord::with_bodies(&bytes, bodies).map_err(|error| error.to_string())?;
    let says = |field: &str, line: &str, bytes: &str| {
        Err(format!("its `{field}` is {line}, but its bytes say {bytes}"))
    };
    let hash = encoded.hash().to_string();
    if *wire.hash != hash {
        return says("hash", &wire.hash, &hash);
    }
    if *wire.stream != *encoded.stream().as_str() {
        return says("stream", &wire.stream, encoded.stream().as_str());
    }
    let first = encoded.first_version();
    if wire.first_version != first.0 {
        return says("first_version", &wire.first_version.to_string(), &first.to_string());
    }
    if wire.position.checked_add(encoded.event_count().into()).is_none() || wire.position == 0 {
        return Err(format!("its `position` is {}, which is not a valid position", wire.position));
    }
    Ok(LineRecord { stored: StoredRecord::new(&encoded, Position(wire.position)), encoded })
}

/// Describes a line that cannot be used, with the place from its first fields, which may be readable even if
/// the rest is lost.
pub(crate) fn damaged(line: u64, text: &str, what: String) -> DamagedLine {
    let number = |field: &str| {
        let digits = after(text, field)?;
        let end = digits.find(|letter: char| !letter.is_ascii_digit())?;
        digits.get(..end)?.parse().ok()
    };
    let stream = after(text, "\"stream\":\"").and_then(|rest| rest.split_once('"'));
    DamagedLine {
        line,
        stream: stream.and_then(|(name, _)| StreamId::parse(name).ok()),
        version: number("\"first_version\":").map(Version),
        position: number("\"position\":").map(Position),
        what,
    }
}

fn after<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    text.split_once(field).map(|(_, rest)| rest)
}

/// Formats bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for nibble in bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
        // Four bits are always a digit.
        text.push(char::from_digit(nibble.into(), 16).unwrap_or('0'));
    }
    text
}

/// Parses hexadecimal; `None` if the text is not hexadecimal.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let nibble = |letter: &u8| char::from(*letter).to_digit(16).and_then(|nibble| u8::try_from(nibble).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some((nibble(high)? << 4) | nibble(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}
