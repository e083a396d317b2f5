//! Does the log hang together? Goes through it once and names every fault by stream, version and position; behind a
//! piece that cannot be read it goes on. What a log cannot show about itself is said as well.

mod approvals;
mod calls;
mod ends;
mod stream;
mod writes;

use std::collections::BTreeMap;
use std::fmt;

use proto_events::codec::record::RecordView;
use proto_events::id::{Position, StreamId, Version};

use self::ends::HeadCheck;
use self::stream::StreamCheck;
use self::writes::WritesCheck;
use super::claims::contradiction;
use crate::store::{EventReader, Head, JsonLines, ReadError, StoredRecord};

/// Findings that are kept; of a log that is wrong everywhere the first ones tell enough.
const FINDINGS_MAX: usize = 1_000;

/// What kind of fault a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FindingKind {
    /// The log cannot be opened.
    Open,
    /// A record cannot be read.
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
    /// A tool's state was written by no call, or a key taken away that was not there.
    State,
    /// The index and the log disagree.
    Index,
    /// `HEAD` and the log disagree.
    Head,
    /// An exported line says in words what its bytes do not say.
    Words,
}

impl FindingKind {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
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
            Self::State => "state",
            Self::Index => "index",
            Self::Head => "head",
            Self::Words => "words",
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
    /// Bytes of records and bodies that were hashed.
    pub bytes: u64,
    /// The faults, in the order of the log; the first 1,000.
    pub findings: Vec<Finding>,
    /// Faults that were found and not kept.
    pub more: u64,
    /// What could not be checked, in words.
    pub unchecked: Vec<String>,
}

impl Verified {
    /// Whether nothing was found.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// How many faults were found.
    pub fn faults(&self) -> u64 {
        self.findings.len() as u64 + self.more
    }

    fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }
}

/// What to verify, and what to hold it against.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope<'a> {
    /// Only this stream.
    pub only: Option<&'a StreamId>,
    /// What `HEAD` said before the log was opened.
    pub head: Option<&'a Head>,
    /// The file, if it is an exported log: its words are held against its bytes. It has no index to be checked.
    pub file: Option<&'a JsonLines>,
    /// Why the log cannot be opened, if it cannot: a fault in itself. It has no index then.
    pub refused: Option<&'a str>,
}

impl Scope<'_> {
    fn has_index(&self) -> bool {
        self.file.is_none() && self.refused.is_none()
    }
}

/// How far verifying has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Position of the last event seen; of one stream, its version.
    pub at: u64,
    /// Where it ends.
    pub of: u64,
    /// Bytes hashed so far.
    pub bytes: u64,
}

/// What no log can show about itself.
const UNCHECKED: [&str; 2] = [
    "a log rewritten as a whole, hashes included: nothing outside the directory vouches for it yet",
    "whether tools and models really did what the log says that they answered",
];

/// What is cut off within a second of being written leaves no trace in `HEAD`.
const BEHIND_HEAD: &str = "events cut off at the end that were written after HEAD was last rewritten (it lags up to a second while a process writes)";

/// Goes through the whole log.
pub fn verify(reader: &dyn EventReader) -> Verified {
    verify_within(reader, &Scope::default(), &mut |_| {})
}

/// Goes through what the scope says, and tells how far it has come.
pub fn verify_within(
    reader: &dyn EventReader,
    scope: &Scope<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Verified {
    let mut verifier = Verifier { scope: *scope, head: HeadCheck::new(scope.head), ..Verifier::default() };
    if let Some(why) = scope.refused {
        verifier.of_log(FindingKind::Open, why.to_owned());
    }
    let of = match scope.only {
        Some(stream) => reader.stream_version(stream).map(|version| version.0),
        None => reader.head().map(|head| head.0),
    };
    let of = of.unwrap_or_default();
    let mut show = |read: Result<StoredRecord, ReadError>| {
        match read {
            Ok(stored) => verifier.take(&stored),
            Err(error) => verifier.unreadable(error),
        }
        let at = if scope.only.is_some() { verifier.version() } else { verifier.next };
        progress(Progress { at, of, bytes: verifier.found.bytes });
    };
    match scope.only {
        Some(stream) => reader.survey_stream(stream, &mut show),
        None => reader.survey(&mut show),
    }
    verifier.end(reader)
}

/// Verifies records that somebody else goes through, in their order.
#[derive(Default)]
pub(super) struct Auditor(Verifier<'static>);

impl Auditor {
    pub(super) fn take(&mut self, stored: &StoredRecord) {
        self.0.take(stored);
    }

    pub(super) fn found(&self) -> &Verified {
        &self.0.found
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
struct Verifier<'a> {
    scope: Scope<'a>,
    found: Verified,
    streams: BTreeMap<StreamId, StreamCheck>,
    /// The position of the last event seen.
    next: u64,
    epoch: u64,
    append: Option<OpenAppend>,
    head: HeadCheck<'a>,
    writes: WritesCheck,
    /// Pieces that could not be read; what follows one of them is not asked how it joins on.
    unreadable: u64,
    behind_damage: bool,
}

impl Verifier<'_> {
    fn take(&mut self, stored: &StoredRecord) {
        self.found.records += 1;
        self.found.events += stored.record.events.len() as u64;
        self.found.bytes += bytes(stored);
        self.check_place(stored);
        self.check_bytes(stored);
        if self.scope.only.is_none() {
            self.check_append(stored);
            self.head.take(stored);
            let by_nobody = self.writes.take(stored);
            for finding in by_nobody {
                self.found.add(finding);
            }
        }
        self.check_words(stored);
        self.behind_damage = false;
        let stream = stored.record.stream.clone();
        let faults = self.streams.entry(stream).or_default().take(stored);
        for fault in faults {
            self.found.add(fault);
        }
    }

    /// The version up to which the one stream was seen.
    fn version(&self) -> u64 {
        self.streams.values().next().map_or(0, |stream| stream.version().0)
    }

    fn unreadable(&mut self, error: ReadError) {
        let (stream, version, position, what) = match error {
            ReadError::Corrupt { what, stream, version, position } => (stream, version, position, what),
            other => (None, None, None, other.to_string()),
        };
        let position = position.or((self.scope.only.is_none()).then_some(Position(self.next + 1)));
        self.found.add(Finding { kind: FindingKind::Unreadable, stream, version, position, what });
        self.unreadable += 1;
        self.behind_damage = true;
        // Its other parts may be what could not be read.
        self.append = None;
        self.writes.forget();
    }

    fn check_words(&mut self, stored: &StoredRecord) {
        let Some(file) = self.scope.file else { return };
        match file.line_at(stored.position) {
            Ok(Some(line)) => {
                if let Some(what) = contradiction(&line, stored) {
                    self.report(FindingKind::Words, stored, what);
                }
            }
            Ok(None) => {}
            Err(error) => self.report(FindingKind::Unreadable, stored, error.to_string()),
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
        // Of one stream positions only grow; behind what could not be read they may have a gap.
        let may_skip = self.behind_damage || self.scope.only.is_some();
        let joins = stored.position.0 == expected || (may_skip && stored.position.0 > expected);
        if !joins {
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
            None => record.part == 0 || self.behind_damage,
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
}

/// Bytes of a record and of the bodies that stand outside it.
fn bytes(stored: &StoredRecord) -> u64 {
    use proto_events::codec::record::Body;
    let outside = stored.record.events.iter().filter(|event| matches!(event.place, Body::Chunked { .. }));
    let outside: u64 = outside.map(|event| u64::from(event.body_len)).sum();
    stored.bytes.len() as u64 + outside
}
