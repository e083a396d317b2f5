//! The settings with which a log directory is opened.

use crate::api::durability::Durability;
use crate::limits::SNAPSHOT_EVERY_BYTES;

/// Options for opening a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SledOptions {
    /// The failures that an acknowledged append must survive. `None` keeps the durability of an existing log,
    /// and makes a new one strict.
    pub durability: Option<Durability>,
    /// Whether to create a log where there is none: in a new or an empty directory.
    pub create: bool,
    /// Whether to discard the kept index and rebuild it from the whole log.
    pub rebuild_index: bool,
    /// Cache of the database in bytes. It is a target: with values of this size sled keeps more.
    pub cache_bytes: u64,
    /// Bytes of log after which a snapshot of the database is made while the log is open. A start reads about
    /// so much of what the life before it wrote.
    pub snapshot_every_bytes: u64,
}

impl Default for SledOptions {
    /// The log's own durability, strict for a new log; creates a log if there is none; a cache of 64 MiB;
    /// snapshots every [`SNAPSHOT_EVERY_BYTES`].
    fn default() -> Self {
        Self {
            durability: None,
            create: true,
            rebuild_index: false,
            cache_bytes: 64 * 1024 * 1024,
            snapshot_every_bytes: SNAPSHOT_EVERY_BYTES,
        }
    }
}
