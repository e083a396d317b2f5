//! The verification of an extract: the lines that a filtered export wrote. Each record proves itself by its bytes; what only
//! the whole log can prove is named.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use proto_events::id::{Digest, StreamId, Version};
use proto_events::json::JsonValue;

use crate::api::record::StoredRecord;
use crate::audit::claims::contradiction;
use crate::audit::export::{EXTRACT_END_SCHEMA, EXTRACT_SCHEMA};
use crate::audit::verify::finding::{Finding, FindingKind};
use crate::audit::verify::report::VerifyReport;
use crate::jsonl::error::ExportError;
use crate::jsonl::line;
use crate::limits::EXPORT_LINE_BYTES_MAX;

/// The checks that no extract allows, in words.
const UNCHECKED: [&str; 4] = [
    "whether records that fit the filter are missing: an extract does not hold the other records of its log",
    "the chain of a stream where the record before is not in the extract",
    "the rules of tasks, sessions, calls and prompts: they are about the states that all records of a stream lead to",
    "the Merkle root of the log, and whether this extract is of that log: its first line is not covered by any hash",
];

/// Verifies an extract: each record's bytes, hash and bodies, the words beside them, the order of positions and versions,
/// the chain between records of a stream that follow each other, and the count in the last line. `None` if the file is no
/// extract.
///
/// # Errors
/// [`ExportError`] if the file cannot be read.
pub fn verify_extract(path: impl AsRef<Path>) -> Result<Option<VerifyReport>, ExportError> {
    let mut from = BufReader::new(File::open(path.as_ref())?);
    let mut checked = LineCheck::default();
    let mut number = 0;
    let mut text = Vec::new();
    loop {
        text.clear();
        let read = from.by_ref().take(EXPORT_LINE_BYTES_MAX).read_until(b'\n', &mut text)?;
        if read == 0 {
            break;
        }
        number += 1;
        if text.last() == Some(&b'\n') {
            text.pop();
        }
        if number > 1 {
            checked.accept_line(number, &text);
        } else if !is_header(&text) {
            return Ok(None);
        }
    }
    Ok((number > 0).then(|| checked.finish()))
}

fn is_header(line: &[u8]) -> bool {
    schema_of(line).is_some_and(|schema| schema == EXTRACT_SCHEMA)
}

/// Returns the form that a line names, if it names one.
fn schema_of(line: &[u8]) -> Option<String> {
    // The line of a record is long and does not begin so.
    line.starts_with(b"{\"schema\":").then_some(())?;
    let read: JsonValue = serde_json::from_slice(line).ok()?;
    read.get("schema").and_then(JsonValue::as_str).map(str::to_owned)
}

/// The last record that was seen of a stream.
struct Last {
    version: Version,
    hash: Digest,
}

/// The lines so far.
#[derive(Default)]
struct LineCheck {
    verified: VerifyReport,
    streams: BTreeMap<StreamId, Last>,
    /// The numbers of records and events in the last line.
    end: Option<(Option<u64>, Option<u64>)>,
}

impl LineCheck {
    fn find(&mut self, kind: FindingKind, stored: &StoredRecord, what: String) {
        let version = stored.record.first_version.0;
        self.verified.add(Finding::new(stored, version, kind, what));
    }

    fn find_in(&mut self, kind: FindingKind, number: u64, what: &str) {
        let what = format!("line {number}: {what}");
        self.verified.add(Finding { kind, stream: None, version: None, position: None, what });
    }

    fn accept_line(&mut self, number: u64, bytes: &[u8]) {
        if self.end.is_some() {
            return self.find_in(
                FindingKind::Unreadable,
                number,
                "it stands after the last line of the extract",
            );
        }
        if schema_of(bytes).is_some_and(|schema| schema == EXTRACT_END_SCHEMA) {
            let read: JsonValue = serde_json::from_slice(bytes).unwrap_or_default();
            let field = |name: &str| read.get(name).and_then(JsonValue::as_u64);
            self.end = Some((field("records"), field("events")));
            return;
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return self.find_in(FindingKind::Unreadable, number, "it is not UTF-8");
        };
        match line::read(number, text) {
            Ok(read) => self.take_record(text, &read.stored),
            Err(damaged) => {
                let what = format!("line {number}: {}", damaged.what);
                let (stream, version, position) = (damaged.stream, damaged.version, damaged.position);
                let kind = FindingKind::Unreadable;
                self.verified.add(Finding { kind, stream, version, position, what });
            }
        }
    }

    fn take_record(&mut self, text: &str, stored: &StoredRecord) {
        let record = &stored.record;
        self.verified.records += 1;
        self.verified.events += record.events.len() as u64;
        self.verified.bytes += stored.bytes_in_memory() as u64;
        if let Some(what) = contradiction(text, stored) {
            self.find(FindingKind::Words, stored, what);
        }
        let before = self.verified.end;
        self.verified.end = before.max(stored.last_position());
        if stored.position <= before {
            let what =
                format!("it begins at position {}, but a line before it ends at {before}", stored.position);
            self.find(FindingKind::Position, stored, what);
        }
        let last = self.streams.get(&record.stream);
        let fault = fault_behind(last, stored);
        if let Some((kind, what)) = fault {
            self.find(kind, stored, what);
        }
        let last = Last { version: record.last_version(), hash: stored.hash };
        self.streams.insert(record.stream.clone(), last);
    }

    fn finish(mut self) -> VerifyReport {
        let found = (Some(self.verified.records), Some(self.verified.events));
        let what = match self.end {
            None => Some("the last line is missing: the file is cut off".to_owned()),
            Some(said) if said == found => None,
            Some((records, events)) => {
                let number =
                    |said: Option<u64>| said.map_or_else(|| "none".to_owned(), |said| said.to_string());
                Some(format!(
                    "the last line says {} records with {} events, but the file has {} with {}",
                    number(records),
                    number(events),
                    self.verified.records,
                    self.verified.events
                ))
            }
        };
        if let Some(what) = what {
            let kind = FindingKind::Position;
            self.verified.add(Finding { kind, stream: None, version: None, position: None, what });
        }
        self.verified.streams = self.streams.len() as u64;
        self.verified.unchecked = UNCHECKED.map(str::to_owned).into();
        self.verified
    }
}

/// Returns what is wrong between a record and the last one of its stream in the extract.
fn fault_behind(last: Option<&Last>, stored: &StoredRecord) -> Option<(FindingKind, String)> {
    let (first, previous) = (stored.record.first_version, stored.record.previous);
    let (ends, hash) = last.map_or((Version(0), Digest::default()), |last| (last.version, last.hash));
    if first <= ends {
        let what = format!("it begins at version {first}, but its stream is at {ends} before it");
        return Some((FindingKind::Version, what));
    }
    let follows = first.0 == ends.0.saturating_add(1);
    (follows && previous != hash).then(|| {
        let what = format!("it names {previous} as the record before it, which has the hash {hash}");
        (FindingKind::Chain, what)
    })
}
