//! Findings and actions of opening a log that its owner should know of, but that are no reason to refuse it.

use std::fmt;
use std::path::PathBuf;

use proto_events::id::Position;

use crate::api::holder::Holder;

/// A note about a log that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenNote {
    /// The previous process did not close the log. Nothing is damaged, but nothing proves that the log ended
    /// here.
    NotClosed {
        /// The process that had the log open, if its `holder` file could be read.
        holder: Option<Holder>,
        /// The last position that `HEAD` proves.
        proven: Position,
        /// The last position in the log.
        end: Position,
    },
    /// The log ended in an incomplete write, as a crash leaves it. The bytes removed are kept.
    TailSetAside {
        /// Bytes that were set aside.
        bytes: u64,
        /// The path of the kept bytes: each file is named after its place in `db`.
        kept: PathBuf,
    },
    /// A file of the database was damaged, and was rebuilt from the log.
    FileSetAside {
        /// The name of the file.
        file: String,
        /// The damage found.
        why: &'static str,
        /// The path to which the file was moved.
        kept: PathBuf,
    },
    /// The file `HEAD` was older than the index kept beside the log, as no process leaves it: it may have been
    /// restored from a copy. The whole log was read and agrees with it; it has been rewritten since.
    HeadOlder {
        /// The position up to which `HEAD` was written.
        head: Position,
        /// The position of the end of the kept index.
        index: Position,
    },
    /// The database's epoch was below that of the log's records, as no process leaves it: a part of the database
    /// may have been restored from a copy. The epoch is now above both.
    EpochBehind {
        /// The epoch in the database.
        database: u64,
        /// The epoch of the last records.
        records: u64,
    },
    /// The index kept beside the log did not match it, and was rebuilt.
    IndexRebuilt {
        /// The mismatch found.
        why: String,
    },
    /// The log ends in an incomplete write, as a crash leaves it. A reader has left it as it is.
    TailIncomplete {
        /// Bytes of the incomplete write.
        bytes: u64,
    },
    /// A file of the database is damaged. A reader has left it as it is.
    FileDamaged {
        /// The name of the file.
        file: String,
        /// The damage found.
        why: &'static str,
    },
    /// The index kept beside the log does not match it. A reader has left it as it is.
    IndexUnfit {
        /// The mismatch found.
        why: String,
    },
}

impl OpenNote {
    /// Makes the note about a private copy that about the original, in which a reader changes nothing.
    #[must_use]
    pub(crate) fn of_original(self) -> Self {
        match self {
            Self::TailSetAside { bytes, .. } => Self::TailIncomplete { bytes },
            Self::FileSetAside { file, why, .. } => Self::FileDamaged { file, why },
            Self::IndexRebuilt { why } => Self::IndexUnfit { why },
            other => other,
        }
    }

    /// Whether the note says only that the log ends without a close, as it does while a program writes it.
    pub(crate) fn is_of_writing(&self) -> bool {
        matches!(self, Self::NotClosed { .. } | Self::TailSetAside { .. } | Self::TailIncomplete { .. })
    }
}

impl fmt::Display for OpenNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotClosed { holder, proven, end } => {
                write!(f, "the log was not closed")?;
                if let Some(holder) = holder {
                    write!(f, " by process {} ({})", holder.pid, holder.program)?;
                }
                write!(
                    f,
                    "; it ends at position {end}, and HEAD proves that it reached position {proven}: later events may have been lost without a trace"
                )
            }
            Self::TailSetAside { bytes, kept } => write!(
                f,
                "the log ended in an incomplete write, as after a crash; {bytes} bytes were cut off and are kept in {}",
                kept.display()
            ),
            Self::FileSetAside { file, why, kept } => write!(
                f,
                "{file} {why}; it was moved to {}, and its contents were rebuilt from the log",
                kept.display()
            ),
            Self::HeadOlder { head, index } => write!(
                f,
                "HEAD was of position {head}, older than the index of position {index}: it may have been restored from a copy; the whole log was read and agrees with it"
            ),
            Self::EpochBehind { database, records } => write!(
                f,
                "the epoch of the database was {database}, below the {records} of the log's last records, as no process leaves it; it was raised above both"
            ),
            Self::IndexRebuilt { why } => write!(f, "the index was rebuilt from the log ({why})"),
            Self::TailIncomplete { bytes } => write!(
                f,
                "the log ends in an incomplete write of {bytes} bytes, as after a crash; the next program that opens the log cuts them off and keeps them"
            ),
            Self::FileDamaged { file, why } => {
                write!(
                    f,
                    "{file} {why}; the next program that opens the log rebuilds it and keeps the old one"
                )
            }
            Self::IndexUnfit { why } => write!(
                f,
                "the index kept beside the log does not match it ({why}); the next program that opens the log rebuilds it"
            ),
        }
    }
}
