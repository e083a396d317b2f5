//! What can go wrong with the log, one small error for each operation. Texts are for people: what, why, what to do.

use std::path::PathBuf;

use proto_events::id::{ExpectedVersion, Position, StreamId, Version};

use super::{Durability, Fence, Holder};

/// Why an append was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Somebody else extended the stream. Nothing was written; decide again on the new state.
    #[error("stream {stream} ends at version {actual}, not {} as expected; read it and decide again", .expected.version())]
    Conflict {
        /// The first stream whose condition did not hold.
        stream: StreamId,
        /// Where the writer thought it ends.
        expected: ExpectedVersion,
        /// Where it ends.
        actual: Version,
    },
    /// The log has a newer writer. Nothing was written, and nothing of this writer ever will be.
    #[error(
        "this writer (partition {}, epoch {}) was replaced (partition {}, epoch {}); take the store's own fence",
        .presented.partition, .presented.epoch, .current.partition, .current.epoch
    )]
    Fenced {
        /// What the append carried.
        presented: Fence,
        /// What the store would take.
        current: Fence,
    },
    /// It may be in the log or not.
    #[error("whether the append is in the log is unknown ({why}); open the log again and resolve its set id")]
    Ambiguous {
        /// What failed.
        why: String,
    },
    /// Nothing of it reached the log.
    #[error("the append was not written ({why}); it may be repeated once the cause is removed")]
    NotWritten {
        /// What failed.
        why: String,
    },
    /// A record is too large for one value of the log.
    #[error("a record of {bytes} bytes is over the limit of {limit}; append less at once")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
        /// The record's size in bytes.
        bytes: usize,
    },
    /// Records and append do not agree: a fault of the program that made them. Nothing was written.
    #[error("the append contradicts itself: {what}")]
    Invalid {
        /// What does not agree.
        what: String,
    },
    /// An earlier write failed, so that nothing more is taken. Nothing of this append was written.
    #[error("the log takes no more appends since a write failed ({why}); open it again")]
    Poisoned {
        /// The first failure.
        why: String,
    },
    /// The store was closed.
    #[error("the log is closed; open it again to append")]
    Closed,
}

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// What is in the log is not what was written there.
    #[error("the log is damaged{}: {what}; run `taskreel verify` and restore from a copy", place(.stream.as_ref(), *.version, *.position))]
    Corrupt {
        /// What was found.
        what: String,
        /// The stream, where known.
        stream: Option<StreamId>,
        /// The version of the record's first event, where known.
        version: Option<Version>,
        /// The position of the record's first event, where known.
        position: Option<Position>,
    },
    /// The disk or the database refused.
    #[error("the log could not be read: {0}")]
    Io(String),
    /// The store was closed.
    #[error("the log is closed; open it again to read")]
    Closed,
}

impl ReadError {
    /// Damage of which only the position is known, if that.
    pub(crate) fn corrupt(what: impl Into<String>, position: Option<Position>) -> Self {
        Self::Corrupt { what: what.into(), stream: None, version: None, position }
    }
}

fn place(stream: Option<&StreamId>, version: Option<Version>, position: Option<Position>) -> String {
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

/// Why a log could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path holds something else, or nothing. It was not touched.
    #[error("{} is not a taskreel log: {why}; name an empty or new directory, or the right one", .path.display())]
    NotALog {
        /// The path.
        path: PathBuf,
        /// What was found there.
        why: String,
    },
    /// A log can be imported into a new or an empty directory only. It was not touched.
    #[error("{} is not empty; a log is imported into a new or an empty directory", .path.display())]
    NotEmpty {
        /// The path.
        path: PathBuf,
    },
    /// A newer release wrote it. It was not touched.
    #[error("{} has format {found}, this program reads format {known}; use the release that wrote it", .path.display())]
    NewerFormat {
        /// The path.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format known.
        known: u32,
    },
    /// The log was made with a durability that this program does not know. It was not touched.
    #[error("{} was created with durability `{found}`, which this program does not know; use a newer release", .path.display())]
    UnknownDurability {
        /// The path.
        path: PathBuf,
        /// The name found.
        found: String,
    },
    /// The log was made with another durability than the one that was asked for. It was not touched.
    #[error("{} was made with durability {}, not {}, and keeps it; ask for that, or make a new log", .path.display(), .found.name(), .asked.name())]
    OtherDurability {
        /// The path.
        path: PathBuf,
        /// The log's own.
        found: Durability,
        /// The one asked for.
        asked: Durability,
    },
    /// Another process, or this one, has it open.
    #[error("{} is open already, {}; stop that one first, or name another directory", .path.display(), holder_text(.holder.as_ref()))]
    Held {
        /// The path.
        path: PathBuf,
        /// Who has it, if they have written that down already.
        holder: Option<Holder>,
    },
    /// The database has moved data to files that it does not sync.
    #[error("{} holds {count} file(s); they are never synced, so that the log must not have any: export it and import it into a new one", .path.display())]
    BlobsPresent {
        /// The `blobs` directory.
        path: PathBuf,
        /// How many files it holds.
        count: usize,
    },
    /// The log is shorter than it was.
    #[error(
        "{} ends at position {log}, but its HEAD file says that {head} was durable: the end was cut off; restore it from a copy, or move HEAD aside to go on without the lost events",
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
    #[error("{} is damaged: {what}; copy the directory before anything else, then restore it or ask `taskreel verify`", .path.display())]
    Corrupt {
        /// The path.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The store cannot open its log anew by itself.
    #[error("the log cannot be opened anew in place: {why}; open it as at the start")]
    NotReopened {
        /// The reason.
        why: String,
    },
    /// The operating system refused.
    #[error("{}: {what}: {source}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The reason.
        source: std::io::Error,
    },
}

fn holder_text(holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) if holder.pid == std::process::id() => "by this very process".to_owned(),
        Some(holder) => format!("by process {} ({}) since {}", holder.pid, holder.program, holder.started),
        None => "by a process that has not written its name down".to_owned(),
    }
}

/// What could not be finished while closing. What was acknowledged is durable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// An earlier write had failed.
    #[error(
        "the log was closed after a failed write ({why}); the last appends are to be resolved when it is open again"
    )]
    Poisoned {
        /// The first failure.
        why: String,
    },
    /// `HEAD` could not be rewritten: a cut-off end may go unnoticed next time.
    #[error("the log is closed, but its HEAD file could not be rewritten: {why}")]
    Head {
        /// The reason.
        why: String,
    },
    /// The database did not let go of the directory.
    #[error("the log is closed, but the database still holds the directory: {why}")]
    StillHeld {
        /// The reason.
        why: String,
    },
}
