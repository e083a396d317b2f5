//! The trait of a place that the writer writes to, and where its log ends.

use proto_events::id::LogId;

use crate::engine::blocks::{BlockBuilder, Watermark};
use crate::engine::head::{Frontier, Head};
use crate::engine::values::Values;

/// The destination of the writer's data.
pub(crate) trait Sink: Values {
    /// Hands a value over. It need not be durable yet.
    fn insert(&mut self, ordinal: u64, value: &[u8]) -> Result<(), String>;
    /// Hands a chunk over, before the value whose record names it. It need not be durable yet.
    fn put_chunk(&mut self, ordinal: u64, value: &[u8]) -> Result<(), String>;
    /// Makes all values and chunks handed over so far durable.
    fn sync(&mut self) -> Result<(), String>;
    /// Hands a sorted block of the index over. It need not become durable soon.
    fn put_block(&mut self, ordinal: u64, block: &[u8]) -> Result<(), String>;
    /// Records how much of the log the sorted blocks handed over before cover.
    fn put_watermark(&mut self, mark: &Watermark) -> Result<(), String>;
    /// Makes durable what `HEAD` will cover, if [`Sink::sync`] does not. After an error nothing written so far may
    /// be vouched for: a later sync may say that all is well although the data never reached the disk.
    fn vouch(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// Keeps an image of the whole index, which `make` returns; without one the next opening loads the sorted blocks.
    fn keep_image(&mut self, make: &mut dyn FnMut(LogId) -> Vec<u8>) -> Result<(), String> {
        let _ = make;
        Ok(())
    }
    /// Replaces `HEAD`.
    fn write_head(&mut self, head: &Head) -> Result<(), String>;
}

/// The state from which a writer continues.
#[derive(Debug)]
pub(crate) struct WriterTail {
    pub(crate) frontier: Frontier,
    pub(crate) next_chunk: u64,
    pub(crate) blocks: BlockBuilder,
}
