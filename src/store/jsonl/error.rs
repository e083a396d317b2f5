//! Why a file cannot be read as an exported log.

use std::fmt;
use std::io;

use proto_events::id::{Position, StreamId, Version};

use super::SCHEMA;
use crate::store::{ReadError, StoredRecord};

/// Why a file cannot be taken for an exported log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// Its first line is not that of an export.
    #[error("it is no export of a log: {why}; `taskreel export` writes one")]
    NotAnExport {
        /// What was found.
        why: String,
    },
    /// A newer release wrote it.
    #[error("it is a `{found}`, this program reads `{SCHEMA}`; use the release that wrote it")]
    NewerFormat {
        /// What its first line says.
        found: String,
    },
    /// A line is not what was written there.
    #[error("{0}")]
    Damaged(DamagedLine),
    /// Lines are missing at the end.
    #[error(
        "it ends at line {line} with position {ends}, but its first line says that the log goes on to {head}: the end is missing; export the log again, or use a whole copy"
    )]
    Cut {
        /// Its last line.
        line: u64,
        /// The last position in it.
        ends: Position,
        /// The last position of the log.
        head: Position,
    },
    /// The operating system refused.
    #[error("it could not be read: {why}")]
    Io {
        /// The reason.
        why: String,
        /// There is no such file.
        missing: bool,
    },
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Io { why: error.to_string(), missing: error.kind() == io::ErrorKind::NotFound }
    }
}

/// What is wrong with a line, and where in the log it stands, as far as it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedLine {
    /// Its number, from 1.
    pub line: u64,
    /// The stream that it names.
    pub stream: Option<StreamId>,
    /// The version that it names.
    pub version: Option<Version>,
    /// The position that it names.
    pub position: Option<Position>,
    /// What is wrong.
    pub what: String,
}

impl DamagedLine {
    /// A line whose record can be read, but must not stand there.
    pub fn of(line: u64, stored: &StoredRecord, what: impl Into<String>) -> Self {
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
