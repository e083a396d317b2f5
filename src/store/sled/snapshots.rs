//! The tree `snapshots`: SHA-256 of a stream's id ─▶ its newest snapshot. Keys of one length and values of at most
//! 56 KiB keep a full leaf of them below what sled would move to a blob file.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proto_events::id::{Digest, StreamId};

use super::sink::Trees;
use crate::store::Snapshot;

fn key(stream: &StreamId) -> [u8; 32] {
    Digest::of(stream.as_str().as_bytes()).0
}

/// Keeps a snapshot, unless it is too large.
pub(super) fn put(trees: &Trees, snapshot: &Snapshot) -> Result<(), String> {
    let Some(bytes) = snapshot.to_bytes() else { return Ok(()) };
    guarded(|| trees.snapshots.insert(key(&snapshot.stream), bytes)).map(drop)
}

/// The snapshot of a stream.
pub(super) fn get(trees: &Trees, stream: &StreamId) -> Result<Option<Snapshot>, String> {
    let bytes = guarded(|| trees.snapshots.get(key(stream)))?;
    bytes.map(|bytes| Snapshot::from_bytes(&bytes)).transpose()
}

/// sled panics at some kinds of damage; a cache must not end whoever asks it.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, ::sled::Error>) -> Result<T, String> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.map_err(|_| "the database gave up".to_owned())?.map_err(|error| error.to_string())
}
