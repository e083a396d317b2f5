//! Does the log hang together? Goes through it once and names every fault by stream, version and position.
//! What a log cannot show about itself is said as well.

mod calls;
mod stream;

use std::collections::BTreeMap;
use std::fmt;

use proto_events::codec::record::RecordView;
use proto_events::id::{Position, StreamId, Version};

use self::stream::StreamCheck;
use super::for_each_record;
use crate::store::{EventReader, ReadError, StoredRecord};

/// Findings that are kept; of a log that is wrong everywhere the first ones tell enough.
const FINDINGS_MAX: usize = 1_000;

/// What kind of fault a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FindingKind {
    /// A record cannot be read; nothing behind it was looked at.
    Unreadable,
    /// Positions of the log have a gap or an overlap.
    Position,
    /// Versions of a stream have a gap or an overlap.
    Version,
    /// A record does not name the hash of the one before it in its stream.
    Chain,
    /// The bytes of a record do not have the hash that is stored with them.
    Hash,
    /// An append is not whole.
    Append,
    /// An event is not one that this version can read.
    Event,
    /// A lifecycle went where it cannot.
    Lifecycle,
    /// A call's life is not that of a call: no intent, two outcomes, a repetition that its mode forbids.
    Call,
    /// A conversation's turn is not well formed.
    Turn,
    /// The index and the log disagree.
    Index,
}

impl FindingKind {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Position => "position",
            Self::Version => "version",
            Self::Chain => "chain",
            Self::Hash => "hash",
            Self::Append => "append",
            Self::Event => "event",
            Self::Lifecycle => "lifecycle",
            Self::Call => "call",
            Self::Turn => "turn",
            Self::Index => "index",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One fault, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind.
    pub kind: FindingKind,
    /// In which stream.
    pub stream: Option<StreamId>,
    /// At which version of it.
    pub version: Option<Version>,
    /// At which position of the log.
    pub position: Option<Position>,
    /// What is wrong.
    pub what: String,
}

/// What was looked at, and what was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// Streams.
    pub streams: u64,
    /// Records.
    pub records: u64,
    /// Events.
    pub events: u64,
    /// The faults, in the order of the log; the first 1,000.
    pub findings: Vec<Finding>,
    /// Faults that were found and not kept.
    pub more: u64,
    /// What could not be checked, in words.
    pub unchecked: Vec<&'static str>,
}

impl Verified {
    /// Whether nothing was found.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }
}

/// What no log can show about itself.
const UNCHECKED: [&str; 3] = [
    "events cut off at the end that were written after HEAD was last rewritten (it lags up to a second while a process writes)",
    "a log rewritten as a whole, hashes included: nothing outside the directory vouches for it yet",
    "whether tools and models really did what the log says that they answered",
];

/// Goes through the whole log.
pub fn verify(reader: &dyn EventReader) -> Verified {
    let mut verifier = Verifier::default();
    let read = for_each_record(reader, Position(1), |stored| {
        verifier.take(stored);
        Ok::<(), ReadError>(())
    });
    if let Err(error) = read {
        verifier.found.add(unreadable(error, verifier.next));
    } else {
        verifier.end_of_log(reader);
    }
    verifier.found.streams = verifier.streams.len() as u64;
    verifier.found.unchecked = UNCHECKED.to_vec();
    verifier.found
}

fn unreadable(error: ReadError, next: u64) -> Finding {
    let (stream, version, position, what) = match error {
        ReadError::Corrupt { what, stream, version, position } => (stream, version, position, what),
        other => (None, None, None, other.to_string()),
    };
    Finding {
        kind: FindingKind::Unreadable,
        stream,
        version,
        position: position.or(Some(Position(next + 1))),
        what: format!("{what}; nothing behind it was looked at"),
    }
}

/// An append of which not all records have come yet.
struct OpenAppend {
    set_id: [u8; 16],
    next: u16,
    of: u16,
    position: Position,
}

#[derive(Default)]
struct Verifier {
    found: Verified,
    streams: BTreeMap<StreamId, StreamCheck>,
    /// The position of the last event seen.
    next: u64,
    epoch: u64,
    append: Option<OpenAppend>,
}

impl Verifier {
    fn take(&mut self, stored: &StoredRecord) {
        self.found.records += 1;
        self.found.events += stored.record.events.len() as u64;
        self.check_place(stored);
        self.check_bytes(stored);
        self.check_append(stored);
        let stream = stored.record.stream.clone();
        let faults = self.streams.entry(stream).or_default().take(stored);
        for fault in faults {
            self.found.add(fault);
        }
    }

    fn report(&mut self, kind: FindingKind, stored: &StoredRecord, what: String) {
        self.found.add(Finding {
            kind,
            stream: Some(stored.record.stream.clone()),
            version: Some(stored.record.first_version),
            position: Some(stored.position),
            what,
        });
    }

    fn check_place(&mut self, stored: &StoredRecord) {
        let expected = self.next + 1;
        if stored.position.0 != expected {
            let what = format!("the record stands at position {}, not at {expected}", stored.position);
            self.report(FindingKind::Position, stored, what);
        }
        self.next = stored.last_position().0;
        let epoch = stored.record.epoch;
        if epoch < self.epoch {
            let what = format!(
                "a writer of epoch {epoch} wrote after one of epoch {}, which had replaced it",
                self.epoch
            );
            self.report(FindingKind::Append, stored, what);
        }
        self.epoch = self.epoch.max(epoch);
    }

    /// The hash is taken anew from the stored bytes, and every body is held against its digest.
    fn check_bytes(&mut self, stored: &StoredRecord) {
        match RecordView::peek(&stored.bytes) {
            Ok(view) if view.leaf_hash() == stored.hash => {}
            Ok(view) => {
                let what = format!("its bytes have the hash {}, not {}", view.leaf_hash(), stored.hash);
                self.report(FindingKind::Hash, stored, what);
            }
            Err(error) => self.report(FindingKind::Hash, stored, error.to_string()),
        }
        for (event, version) in stored.record.events.iter().zip(stored.record.first_version.0..) {
            if !event.matches_digest() {
                let what =
                    format!("the body of version {version} is not the one whose digest the record holds");
                self.report(FindingKind::Hash, stored, what);
            }
        }
    }

    fn check_append(&mut self, stored: &StoredRecord) {
        let record = &stored.record;
        let follows = match &self.append {
            Some(open) => record.set_id == open.set_id && record.part == open.next && record.parts == open.of,
            None => record.part == 0,
        };
        if !follows {
            let what = match &self.append {
                Some(open) => format!(
                    "the append that began at position {} has {} of {} records only",
                    open.position, open.next, open.of
                ),
                None => format!("record {} of {} of its append comes first", record.part + 1, record.parts),
            };
            self.report(FindingKind::Append, stored, what);
        }
        let began = self.append.take().filter(|_| follows).map(|open| open.position);
        let next = record.part.saturating_add(1);
        self.append = (next < record.parts).then_some(OpenAppend {
            set_id: record.set_id,
            next,
            of: record.parts,
            position: began.unwrap_or(stored.position),
        });
    }

    /// What only shows when all was read.
    fn end_of_log(&mut self, reader: &dyn EventReader) {
        if let Some(open) = &self.append {
            let what = format!("the last append has {} of {} records only", open.next, open.of);
            self.found.add(Finding {
                kind: FindingKind::Append,
                stream: None,
                version: None,
                position: Some(open.position),
                what,
            });
        }
        let mut faults = Vec::new();
        for (stream, check) in &self.streams {
            let indexed = reader.stream_version(stream).unwrap_or_default();
            if indexed != check.version() {
                faults.push(Finding {
                    kind: FindingKind::Index,
                    stream: Some(stream.clone()),
                    version: Some(check.version()),
                    position: None,
                    what: format!(
                        "the index ends the stream at version {indexed}, the log at {}",
                        check.version()
                    ),
                });
            }
        }
        for fault in faults {
            self.found.add(fault);
        }
    }
}
