//! One line of an export: what it says of its record, held against the record's own bytes.

use std::borrow::Cow;

use proto_events::codec::record::{EncodedRecord, FORMAT};
use proto_events::id::{Position, StreamId, Version};
use serde::Deserialize;

use super::{DamagedLine, ExportError};
use crate::store::StoredRecord;
use crate::store::writer::stored;

/// Name of the format, the first thing in the first line.
pub const SCHEMA: &str = "taskreel.export/1";

/// Name of the field with the bodies that stand outside a record's bytes.
pub const DETACHED: &str = "detached";

/// What the first line says of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExportHeader {
    /// The name of the log's durability.
    pub durability: String,
    /// Position of the log's last event.
    pub head: Position,
}

#[derive(Deserialize)]
struct WireHeader {
    schema: String,
    format: u64,
    durability: String,
    head: u64,
}

impl ExportHeader {
    /// Reads the first line.
    pub(super) fn parse(line: &[u8]) -> Result<Self, ExportError> {
        let no_export = |why: &str| ExportError::NotAnExport { why: why.to_owned() };
        let read: serde_json::Value =
            serde_json::from_slice(line).map_err(|_| no_export("its first line is no JSON"))?;
        let schema = read.get("schema").and_then(serde_json::Value::as_str).unwrap_or_default();
        if schema != SCHEMA {
            if schema.starts_with("taskreel.export/") {
                return Err(ExportError::NewerFormat { found: schema.to_owned() });
            }
            return Err(no_export("its first line does not say that it is one"));
        }
        let header: WireHeader =
            serde_json::from_value(read).map_err(|error| no_export(&format!("its first line: {error}")))?;
        if header.format != u64::from(FORMAT) {
            let found = format!("{} of format {}", header.schema, header.format);
            return Err(ExportError::NewerFormat { found });
        }
        Ok(Self { durability: header.durability, head: Position(header.head) })
    }
}

/// The record of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRecord {
    /// As a reader gets it.
    pub stored: StoredRecord,
    /// As a store takes it.
    pub encoded: EncodedRecord,
}

/// What a line must say; all else in it is for people.
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
    /// Bodies that stand outside the record's bytes; none, if the field is not there.
    #[serde(borrow, default)]
    detached: Vec<WireBody<'a>>,
}

#[derive(Deserialize)]
struct WireBody<'a> {
    /// Its event's number within the record, from 0.
    event: usize,
    #[serde(borrow)]
    body: Cow<'a, str>,
}

/// Reads a line: bytes, leaf hash and bodies agree, and what the line says of its place is what the bytes say.
pub(super) fn read(number: u64, text: &str) -> Result<LineRecord, DamagedLine> {
    examine(text).map_err(|what| damaged(number, text, what))
}

fn examine(text: &str) -> Result<LineRecord, String> {
    let wire: Wire<'_> = serde_json::from_str(text).map_err(|error| format!("it cannot be read: {error}"))?;
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
        return Err(format!("its `position` is {}, which cannot be", wire.position));
    }
    Ok(LineRecord { stored: stored(&encoded, Position(wire.position)), encoded })
}

/// A line that cannot be used, with the place that its beginning tells: that is read even where the rest is gone.
pub(super) fn damaged(line: u64, text: &str, what: String) -> DamagedLine {
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

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for nibble in bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
        // Four bits are always a digit.
        text.push(char::from_digit(nibble.into(), 16).unwrap_or('0'));
    }
    text
}

/// Hexadecimal as bytes; nothing, if it is none.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let nibble = |letter: &u8| char::from(*letter).to_digit(16).and_then(|nibble| u8::try_from(nibble).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some((nibble(high)? << 4) | nibble(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}
