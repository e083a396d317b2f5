//! A finding: one fault that verification found, with its kind and place.

use std::fmt;

use proto_events::id::{Position, StreamId, Version};

use crate::api::record::StoredRecord;

/// The kind of fault that a finding reports.
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
    /// An append is not whole, or a record is not one of its writer's: of another partition or an older epoch,
    /// or with the set id of another append.
    Append,
    /// An event that this program cannot read.
    Event,
    /// An event or a record that a newer release wrote: this program cannot read it, but nothing is damaged.
    Newer,
    /// A change of a task that its state forbids.
    Lifecycle,
    /// A command was decided twice under one id.
    Command,
    /// A call that the rules of calls and approvals forbid: without an intent, with two outcomes, repeated although
    /// its mode forbids it, or not the one that was approved.
    Call,
    /// A conversation's turn is not well formed.
    Turn,
    /// A write to a tool's state without a call of that tool, or a start, an end or a revision that does not follow
    /// from those before it.
    State,
    /// The index and the log disagree.
    Index,
    /// `HEAD` and the log disagree.
    Head,
    /// The Merkle root is not the one that was given, or that an export names.
    Root,
    /// The members of an exported line disagree with its bytes.
    Words,
    /// A file beside the log is missing, or is not the one that the log names.
    File,
}

impl FindingKind {
    /// Returns the name of this kind of fault.
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
            Self::Newer => "newer",
            Self::Lifecycle => "lifecycle",
            Self::Command => "command",
            Self::Call => "call",
            Self::Turn => "turn",
            Self::State => "state",
            Self::Index => "index",
            Self::Head => "head",
            Self::Root => "root",
            Self::Words => "words",
            Self::File => "file",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A single fault, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of fault.
    pub kind: FindingKind,
    /// The stream.
    pub stream: Option<StreamId>,
    /// The version in the stream.
    pub version: Option<Version>,
    /// The position in the log.
    pub position: Option<Position>,
    /// The fault in words.
    pub what: String,
}

impl Finding {
    /// Returns a finding at a version of a record.
    pub(crate) fn new(stored: &StoredRecord, version: u64, kind: FindingKind, what: String) -> Self {
        Self {
            kind,
            stream: Some(stored.record.stream.clone()),
            version: Some(Version(version)),
            position: Some(position_of(stored, version)),
            what,
        }
    }
}

/// Returns the position of a version of a record.
pub(crate) fn position_of(stored: &StoredRecord, version: u64) -> Position {
    let before = version.saturating_sub(stored.record.first_version.0);
    Position(stored.position.0.saturating_add(before))
}
