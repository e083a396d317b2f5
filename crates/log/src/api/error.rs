//! Errors of the log, one small type for each operation. Texts are for people: what failed, why, what to do.

use std::path::{Path, PathBuf};

use proto_events::id::{ExpectedVersion, Position, StreamId, Version};

use crate::api::durability::Durability;
use crate::api::holder::Holder;
use crate::api::record::Fence;

/// The reasons why an append was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Another writer extended the stream. Nothing was written; decide again on the new state.
    #[error("stream {stream} ends at version {actual}, not {} as expected; read the stream and decide again", .expected.version())]
    Conflict {
        /// The first stream whose condition did not hold.
        stream: StreamId,
        /// The version at which the writer expected the stream to end.
        expected: ExpectedVersion,
        /// The version at which the stream ends.
        actual: Version,
    },
    /// The log has a newer writer. Nothing was written, and no later append of this writer will be.
    #[error(
        "this writer (partition {}, epoch {}) was replaced by a newer one (partition {}, epoch {}); use the fence of the store",
        .presented.partition, .presented.epoch, .current.partition, .current.epoch
    )]
    Fenced {
        /// The fence of the append.
        presented: Fence,
        /// The fence that the store accepts.
        current: Fence,
    },
    /// The append may be in the log or not.
    #[error(
        "the outcome of the append is unknown ({why}); reopen the log and resolve the set id of the append"
    )]
    Ambiguous {
        /// The operation that failed, and why.
        why: String,
    },
    /// No part of the append reached the log.
    #[error("the append was not written ({why}); remove the cause, then repeat the append")]
    NotWritten {
        /// The operation that failed, and why.
        why: String,
    },
    /// A record is too large for one value of the log.
    #[error("a record of {bytes} bytes exceeds the limit of {limit}; append fewer or smaller events at once")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
        /// The record's size in bytes.
        bytes: usize,
    },
    /// Records and append do not agree: a bug in the program that made them. Nothing was written.
    #[error("the append contradicts itself: {what}")]
    Invalid {
        /// The fields that do not agree.
        what: String,
    },
    /// An earlier write failed, so that no more appends are accepted. Nothing of this append was written.
    #[error("the log accepts no more appends since a write failed ({why}); reopen it")]
    Poisoned {
        /// The first failure.
        why: String,
    },
    /// The store was closed.
    #[error("the log is closed; reopen it to append")]
    Closed,
}

/// The reasons why records could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The log does not hold what was written to it.
    #[error("the log is damaged{}: {what}; run `taskreel verify`, then restore the log from a copy", location(.stream.as_ref(), *.version, *.position))]
    Corrupt {
        /// The damage found.
        what: String,
        /// The stream, where known.
        stream: Option<StreamId>,
        /// The version of the record's first event, where known.
        version: Option<Version>,
        /// The position of the record's first event, where known.
        position: Option<Position>,
    },
    /// A newer release wrote what this program cannot read. Nothing is damaged.
    #[error("the log was written by a newer release{}: {what}; use that release, since nothing is damaged", location(.stream.as_ref(), *.version, *.position))]
    Newer {
        /// The part that this program does not know.
        what: String,
        /// The stream, where known.
        stream: Option<StreamId>,
        /// The version of the event, or of the record's first event, where known.
        version: Option<Version>,
        /// The position of the record's first event, where known.
        position: Option<Position>,
    },
    /// The index does not lead to what the log holds. The log itself is sound there.
    #[error("the index of the log is damaged{}: {what}; the log itself is not: rebuild the index with `taskreel doctor --rebuild-index`", location(.stream.as_ref(), *.version, *.position))]
    Index {
        /// The contradiction found.
        what: String,
        /// The stream, where known.
        stream: Option<StreamId>,
        /// The version of the record's first event, where known.
        version: Option<Version>,
        /// The position of the record's first event, where known.
        position: Option<Position>,
    },
    /// The disk or the database reported an error.
    #[error("the log could not be read: {0}")]
    Io(String),
    /// A subscription was to begin after the end of the log, so that it would skip what comes next: the log is another one
    /// than that of the cursor, or was restored to an earlier state. Compare the log's id, and rebuild what was made from it.
    #[error(
        "{what} {asked} is after the end of the log, which is {head}; the cursor is of another log, or the log was restored"
    )]
    Ahead {
        /// The unit of the numbers: `position`, or `version of` the stream.
        what: String,
        /// The first position or version that was asked for.
        asked: u64,
        /// The last position of the log, or the last version of the stream.
        head: u64,
    },
    /// The store was closed.
    #[error("the log is closed; reopen it to read")]
    Closed,
}

impl ReadError {
    /// Makes the error of damage that of a newer release, if that is the reason.
    #[must_use]
    pub(crate) fn newer_if(self, is_newer: bool) -> Self {
        match self {
            Self::Corrupt { what, stream, version, position } if is_newer => {
                Self::Newer { what, stream, version, position }
            }
            other => other,
        }
    }

    /// Whether the reader failed, not the log: its program, its disk or its copy. Such an error says nothing of what the
    /// log holds.
    pub fn is_of_reader(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Closed)
    }

    /// Damage of which at most the position is known.
    pub(crate) fn corrupt(what: impl Into<String>, position: Option<Position>) -> Self {
        Self::Corrupt { what: what.into(), stream: None, version: None, position }
    }
}

fn location(stream: Option<&StreamId>, version: Option<Version>, position: Option<Position>) -> String {
    let mut text = String::new();
    if let Some(stream) = stream {
        text.push_str(" in stream ");
        text.push_str(stream.as_str());
    }
    if let Some(version) = version {
        text.push_str(" at version ");
        text.push_str(&version.to_string());
    }
    if let Some(position) = position {
        text.push_str(" at position ");
        text.push_str(&position.to_string());
    }
    text
}

/// The reasons why a log could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path holds something other than a log, or nothing. It was not touched.
    #[error("{} is not a taskreel log: {why}; give the directory of a log, or a new or empty directory", .path.display())]
    NotALog {
        /// The path.
        path: PathBuf,
        /// A description of what the path holds.
        why: String,
    },
    /// A log can be imported into a new or an empty directory only. The directory was not touched.
    #[error("{} is not empty; import the log into a new or an empty directory", .path.display())]
    NotEmpty {
        /// The path.
        path: PathBuf,
    },
    /// The log was written by a newer release. It was not touched.
    #[error("{} has format {found}, but this program reads format {known}; use the release that wrote it", .path.display())]
    NewerFormat {
        /// The path.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format known.
        known: u32,
    },
    /// A part of the log was written by a newer release of the same format. Nothing is damaged.
    #[error("{} was written by a newer release: {what}; use that release, since nothing is damaged", .path.display())]
    Newer {
        /// The path.
        path: PathBuf,
        /// The part that this program does not know.
        what: String,
    },
    /// The log was written by a release before the first stable format. It was not touched.
    #[error("{} has format {found}, but this program reads format {known}, and no release converts the older one; read it with the build that wrote it, and give this program a new directory", .path.display())]
    OlderFormat {
        /// The path.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The oldest format known.
        known: u32,
    },
    /// The log was created with a durability that this program does not know. It was not touched.
    #[error("{} was created with durability `{found}`, which this program does not know; use a newer release", .path.display())]
    UnknownDurability {
        /// The path.
        path: PathBuf,
        /// The name found.
        found: String,
    },
    /// The log was created with a durability other than the requested one. It was not touched.
    #[error("{} was created with durability {}, not {}, and a log keeps its durability; open it without asking for another, or create a new log", .path.display(), .found.name(), .asked.name())]
    OtherDurability {
        /// The path.
        path: PathBuf,
        /// The log's durability.
        found: Durability,
        /// The requested durability.
        asked: Durability,
    },
    /// The log is already open, in another process or in this one.
    #[error("{} is already open {}; stop that process first, or use another directory", .path.display(), holder_text(.holder.as_ref()))]
    Held {
        /// The path.
        path: PathBuf,
        /// The process that has the log open, if its `holder` file could be read.
        holder: Option<Holder>,
    },
    /// The database has moved data to files that it does not sync.
    #[error("{} has {count} file(s) that the database never syncs, so they may not survive a power failure; export the log and import it into a new one", .path.display())]
    BlobsPresent {
        /// The `blobs` directory.
        path: PathBuf,
        /// The number of files in it.
        count: usize,
    },
    /// The log is shorter than `HEAD` says.
    #[error(
        "{} ends at position {log}, but its HEAD file proves that position {head} was durable: the end of the log is missing; restore the log from a copy, or move HEAD aside to continue without the lost events",
        .path.display()
    )]
    EndsBeforeHead {
        /// The path.
        path: PathBuf,
        /// The last position according to `HEAD`.
        head: Position,
        /// The last position in the log.
        log: Position,
    },
    /// The log is damaged.
    #[error("{} is damaged: {what}; copy the directory first, then restore the log from a copy, or save what can be read with `taskreel salvage`", .path.display())]
    Corrupt {
        /// The path.
        path: PathBuf,
        /// The damage found.
        what: String,
    },
    /// The directory has another log than the one that was open, or an older state or another course of it.
    #[error("{} is not the log that was open: {why}; bring the directory of that log back, then reopen it", .path.display())]
    Replaced {
        /// The directory.
        path: PathBuf,
        /// The difference between what is there and that log.
        why: String,
    },
    /// The store cannot reopen its log by itself.
    #[error("this store cannot reopen its log: {why}; open the log as at the start")]
    NotReopened {
        /// The reason.
        why: String,
    },
    /// The room for the private copy of a reader is missing. Nothing was copied.
    #[error(
        "reading the log needs {needed} bytes for a private copy (twice its size, at least 16 MiB), but {} has {free} free; name another folder with --scratch, or read the log while a program with a local socket has it open",
        .path.display()
    )]
    NoRoom {
        /// The folder for private copies.
        path: PathBuf,
        /// The bytes that must be free.
        needed: u64,
        /// The bytes that are free.
        free: u64,
    },
    /// The operating system reported an error.
    #[error("{}: {what}: {source}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The reason.
        source: std::io::Error,
    },
}

impl OpenError {
    /// Makes the error of a private copy that of the log in `dir`, which has the same fault.
    #[must_use]
    pub(crate) fn of_copy(mut self, copy: &Path, dir: &Path) -> Self {
        let path = match &mut self {
            Self::NotALog { path, .. }
            | Self::NotEmpty { path }
            | Self::NewerFormat { path, .. }
            | Self::Newer { path, .. }
            | Self::OlderFormat { path, .. }
            | Self::UnknownDurability { path, .. }
            | Self::OtherDurability { path, .. }
            | Self::Held { path, .. }
            | Self::BlobsPresent { path, .. }
            | Self::EndsBeforeHead { path, .. }
            | Self::Replaced { path, .. }
            | Self::Corrupt { path, .. } => path,
            // What could not be written is the copy.
            Self::NotReopened { .. } | Self::NoRoom { .. } | Self::Io { .. } => return self,
        };
        if let Ok(inner) = path.strip_prefix(copy) {
            *path = if inner.as_os_str().is_empty() { dir.to_owned() } else { dir.join(inner) };
        }
        self
    }
}

fn holder_text(holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) if holder.pid == std::process::id() => "in this process".to_owned(),
        Some(holder) => format!("in process {} ({}) since {}", holder.pid, holder.program, holder.started),
        None => "in another process, which is unknown because the file `holder` cannot be read".to_owned(),
    }
}

/// The steps of closing that could fail. Acknowledged appends are durable in each case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// An earlier write had failed.
    #[error("the log was closed after a failed write ({why}); reopen it to resolve the last appends")]
    Poisoned {
        /// The first failure.
        why: String,
    },
    /// `HEAD` could not be rewritten: the next opening may not notice that the end of the log was cut off.
    #[error("the log is closed, but rewriting its HEAD file failed: {why}")]
    Head {
        /// The reason.
        why: String,
    },
    /// The database failed while it was closed, as on a disk that reports errors.
    #[error(
        "the log is closed, but its database failed meanwhile: {why}; check the disk before you open the log again"
    )]
    Database {
        /// The reason.
        why: String,
    },
    /// The database did not release the directory.
    #[error("the log is closed, but the database still holds the directory: {why}")]
    StillHeld {
        /// The reason.
        why: String,
    },
}
