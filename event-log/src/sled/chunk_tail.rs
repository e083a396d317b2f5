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
    /// The chunks after those of the log's records: their append was never durable. The first of these
    /// ordinals is reused next.
    pub(crate) leftover: std::ops::Range<u64>,
    pub(crate) last_spaced: Option<u64>,
}

/// Reads the chunks from their end back to the first one whose record is in the log.
pub(crate) fn chunk_tail(dir: &Path, chunks: &Tree, head: Position) -> Result<ChunkTail, OpenError> {
    let read = || {
        let mut tail = ChunkTail { leftover: 0..0, last_spaced: None };
        let mut end = None;
        for item in chunks.iter().rev() {
            let (key, value) = item.map_err(|error| sled_error(dir, &error))?;
            match keys::parse(&key) {
                Some(Key::Spacer(ordinal)) if value.is_empty() => {
                    tail.last_spaced = tail.last_spaced.or(Some(ordinal));
                }
                Some(Key::Value(ordinal)) => {
                    let chunk = Chunk::open(&value)
                        .map_err(|what| damaged(dir, format!("chunk {ordinal}: {what}")))?;
                    let end = *end.get_or_insert(ordinal.saturating_add(1));
                    if chunk.position <= head {
                        tail.leftover = ordinal.saturating_add(1)..end;
                        return Ok(tail);
                    }
                }
                _ => return Err(damaged(dir, format!("the chunks have an unknown key: {key:02x?}"))),
            }
        }
        tail.leftover = 0..end.unwrap_or_default();
        Ok(tail)
    };
    fenced(read).unwrap_or_else(|why| Err(panicked(dir, why)))
}
