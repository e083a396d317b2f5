//! The end of a log's chunks, read when the log is opened.

use std::path::Path;

use ::sled::Tree;
use proto_events::id::Position;

use crate::api::error::OpenError;
use crate::engine::chunks::Chunk;
use crate::engine::keys;
use crate::engine::keys::Key;
use crate::sled::database::{damaged, panicked, sled_error};
use crate::sled::fence::fenced;

/// The end of the chunks.
pub(crate) struct ChunkTail {
    /// The ordinal of the next chunk.
    pub(crate) next: u64,
    /// The chunks after the last one that belongs to a record of the log: their append was never durable. They are the keys that exist, not all
    /// ordinals up to the last one: a key may be anywhere.
    pub(crate) leftover: Vec<u64>,
    pub(crate) last_spaced: Option<u64>,
}

/// Reads the chunks from their end back to the first one whose record is in the log, and to the one before it: a chunk that
/// stands apart is not ours, and those that follow it would not be found.
pub(crate) fn chunk_tail(dir: &Path, chunks: &Tree, head: Position) -> Result<ChunkTail, OpenError> {
    let read = || {
        let mut tail = ChunkTail { next: 0, leftover: Vec::new(), last_spaced: None };
        for item in chunks.iter().rev() {
            let (key, value) = item.map_err(|error| sled_error(dir, &error))?;
            match keys::parse(&key) {
                Some(Key::Spacer(ordinal)) if value.is_empty() => {
                    tail.last_spaced = tail.last_spaced.or(Some(ordinal));
                }
                Some(Key::Value(ordinal)) if tail.next > 0 => {
                    if ordinal.saturating_add(2) == tail.next {
                        return Ok(tail);
                    }
                    break;
                }
                Some(Key::Value(ordinal)) => {
                    let chunk = Chunk::open(&value)
                        .map_err(|what| damaged(dir, format!("chunk {ordinal}: {what}")))?;
                    if chunk.position <= head {
                        tail.next = ordinal.saturating_add(1);
                        if ordinal == 0 {
                            return Ok(tail);
                        }
                    } else {
                        tail.leftover.push(ordinal);
                    }
                }
                _ => return Err(damaged(dir, format!("the chunks have an unknown key: {key:02x?}"))),
            }
        }
        let Some(last) = tail.next.checked_sub(1) else { return Ok(tail) };
        Err(damaged(dir, format!("chunk {last} has no chunk before it, as all but the first have")))
    };
    fenced(read).unwrap_or_else(|why| Err(panicked(dir, why)))
}
