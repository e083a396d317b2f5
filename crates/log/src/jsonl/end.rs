//! The last line of an export: how far the log reaches, and its Merkle root once more. A reader that reads the file as it
//! comes can compare the root without having kept the first line, and sees that nothing is missing at the end.

use proto_events::id::{Digest, Position};
use proto_events::json::JsonValue;
use serde::Deserialize;

/// The beginning of the line, which no record's line has.
const BEGIN: &str = "{\"end\":";

/// The last line of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportEnd {
    /// Position of the log's last event.
    pub head: Position,
    /// The number of records in the file.
    pub records: u64,
    /// The root of the Merkle tree over these records.
    pub root: Digest,
}

#[derive(Deserialize)]
struct WireEnd {
    end: u64,
    records: u64,
    root: String,
}

impl ExportEnd {
    /// Returns the text of the line.
    pub(crate) fn to_line(self) -> String {
        format!("{BEGIN}{},\"records\":{},\"root\":\"{}\"}}", self.head, self.records, self.root)
    }

    /// Parses the line; `None` if it is not a last line, character by character as it is written.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        if !is_end(line) {
            return None;
        }
        let read: WireEnd = serde_json::from_slice::<JsonValue>(line).ok()?.read().ok()?;
        let root = Digest::parse(&read.root)?;
        let parsed = Self { head: Position(read.end), records: read.records, root };
        (parsed.to_line().as_bytes() == line).then_some(parsed)
    }
}

/// Whether the line begins as the last line of an export does.
pub(crate) fn is_end(line: &[u8]) -> bool {
    line.starts_with(BEGIN.as_bytes())
}
