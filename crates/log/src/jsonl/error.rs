//! Errors of reading a file as an exported log.

use std::{fmt, io};

use proto_events::id::{Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::record::StoredRecord;
use crate::jsonl::end::ExportEnd;
use crate::jsonl::schema::SCHEMA;

/// The reasons why a file is not accepted as an exported log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The first line is not that of an export.
    #[error("it is not an export of a log: {why}; `taskreel export` writes one")]
    NotAnExport {
        /// The reason.
        why: String,
    },
    /// The file was written by a release of another format.
    #[error("its format is `{found}`, but this program reads `{SCHEMA}`; use the release that wrote it")]
    OtherFormat {
        /// The format that the first line names.
        found: String,
    },
    /// A line differs from what was written.
    #[error("{0}")]
    Damaged(DamagedLine),
    /// Lines are missing at the end.
    #[error(
        "lines are missing at its end: its last record is in line {line} and ends at position {ends}, but the log ends at position {head}, and a line with the Merkle root follows; export the log again, or use a complete copy"
    )]
    Cut {
        /// The number of the last record's line.
        line: u64,
        /// The last position in the last line.
        ends: Position,
        /// The last position of the log.
        head: Position,
    },
    /// The Merkle root of the records is not the one that the first or the last line names.
    #[error(
        "its {place} line says {} records up to position {} with the Merkle root {}, but it has {} up to {} with {}; export the log again, or use an undamaged copy",
        .said.records, .said.head, .said.root, .computed.records, .computed.head, .computed.root
    )]
    OtherRoot {
        /// The line: `first` or `last`.
        place: &'static str,
        /// The contents of the line.
        said: ExportEnd,
        /// The line that the records lead to.
        computed: ExportEnd,
    },
    /// The operating system reported an error.
    #[error("it could not be read: {why}")]
    Io {
        /// The reason.
        why: String,
        /// Whether the file does not exist.
        missing: bool,
    },
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Io { why: error.to_string(), missing: error.kind() == io::ErrorKind::NotFound }
    }
}

/// A damaged line: the damage, and its place in the log as far as the line shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedLine {
    /// The number of the line, from 1.
    pub line: u64,
    /// The stream that it names.
    pub stream: Option<StreamId>,
    /// The version that it names.
    pub version: Option<Version>,
    /// The position that it names.
    pub position: Option<Position>,
    /// The damage found.
    pub what: String,
}

impl DamagedLine {
    /// Describes a line whose record can be read, but does not belong there.
    pub fn new(line: u64, stored: &StoredRecord, what: impl Into<String>) -> Self {
        Self {
            line,
            stream: Some(stored.record.stream.clone()),
            version: Some(stored.record.first_version),
            position: Some(stored.position),
            what: what.into(),
        }
    }
}

impl fmt::Display for DamagedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is damaged", self.line)?;
        if let Some(stream) = &self.stream {
            write!(f, ", stream {stream}")?;
        }
        if let Some(version) = self.version {
            write!(f, ", version {version}")?;
        }
        if let Some(position) = self.position {
            write!(f, ", position {position}")?;
        }
        write!(f, ": {}; export the log again, or use an undamaged copy", self.what)
    }
}

impl From<DamagedLine> for ReadError {
    fn from(damaged: DamagedLine) -> Self {
        let DamagedLine { line, stream, version, position, what } = damaged;
        Self::Corrupt { what: format!("line {line}: {what}"), stream, version, position }
    }
}
