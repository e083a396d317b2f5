//! The settings with which a log directory is opened or read.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::api::durability::Durability;
use crate::engine::files;
use crate::limits::{COPY_ANNOUNCED_BYTES, SNAPSHOT_EVERY_BYTES};
use crate::sled::memory_size::default_cache_bytes;

/// Options for opening a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SledOptions {
    /// The failures that an acknowledged append must survive. `None` keeps the durability of an existing log,
    /// and makes a new one strict.
    pub durability: Option<Durability>,
    /// Whether to create a log where none exists: in a new or an empty directory.
    pub create: bool,
    /// Whether to discard the kept index and rebuild it from the whole log.
    pub rebuild_index: bool,
    /// Cache of the database in bytes. What was read or written is kept up to about this size: a small log takes little
    /// of it. It is a target: with values of this size sled keeps more. Less than 64 MiB counts as 64 MiB.
    pub cache_bytes: u64,
    /// Threads that a pass over the whole log may use, such as a verification or an export: 1 unless a log is only
    /// read, so that a reader does not take the processors of the actors beside it. An index is rebuilt by two in any case.
    pub scan_threads: usize,
    /// Bytes of log after which a snapshot of the database is made while the log is open. A start reads about
    /// so much of what the life before it wrote.
    pub snapshot_every_bytes: u64,
}

impl Default for SledOptions {
    /// The log's own durability, strict for a new log; creates a log if it is missing; a cache of
    /// an eighth of the memory, between 64 MiB and 128 MiB; one thread for a pass over the log; snapshots every [`SNAPSHOT_EVERY_BYTES`].
    fn default() -> Self {
        Self {
            durability: None,
            create: true,
            rebuild_index: false,
            cache_bytes: default_cache_bytes(),
            scan_threads: 1,
            snapshot_every_bytes: SNAPSHOT_EVERY_BYTES,
        }
    }
}

/// The purpose of an opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The log is used: what an opening does survives a loss of power, as all that follows.
    Use,
    /// A private copy of it is read and removed again: nothing in it has to survive, and no time is spent on that.
    Look,
}

/// A function that is told the size of a large log before it is copied.
type Announce = Arc<dyn Fn(u64) + Send + Sync>;

/// Options for reading a log without a trace.
#[derive(Clone)]
pub struct ReadOnlyOptions {
    pub(crate) scratch: Option<PathBuf>,
    pub(crate) announce: Option<Announce>,
    /// Whether values are read from the log's own file where that is sure.
    pub(crate) in_place: bool,
    /// Bytes from which on a log is announced.
    pub(crate) large: u64,
}

impl fmt::Debug for ReadOnlyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOnlyOptions").field("scratch", &self.scratch).finish_non_exhaustive()
    }
}

impl Default for ReadOnlyOptions {
    /// Copies go to the user's cache folder; nothing is announced.
    fn default() -> Self {
        Self { scratch: None, announce: None, in_place: false, large: COPY_ANNOUNCED_BYTES }
    }
}

impl ReadOnlyOptions {
    /// Sets the folder in which the private copy is made, by default `taskreel` in the user's cache folder
    /// (`$XDG_CACHE_HOME`, else `~/.cache`).
    #[must_use]
    pub fn scratch(mut self, folder: impl Into<PathBuf>) -> Self {
        self.scratch = Some(files::absolute(&folder.into()));
        self
    }

    /// Reads the values of a closed log from its own file, so that only a part of the log is copied. A whole copy is made when
    /// something is asked for that cannot be had so: a survey, the sizes of trees, bodies that stand outside of their records,
    /// what a program that opened the log since has moved, or what is damaged. For those who look at a log once.
    #[must_use]
    pub fn in_place(self) -> Self {
        Self { in_place: true, ..self }
    }

    /// Sets a function that is told the size in bytes of a log of more than [`COPY_ANNOUNCED_BYTES`] before it is
    /// copied, where the file system cannot share the contents of files.
    #[must_use]
    pub fn announce(mut self, announce: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.announce = Some(Arc::new(announce));
        self
    }
}
