//! The entries of the index: a stream's end, and the place of a record.

use proto_events::id::{Digest, Version};

use crate::api::open_work::WorkChange;

/// The place of a record in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordSlot {
    /// The value's ordinal.
    pub(crate) ordinal: u32,
    /// The offset in bytes of the record in the value.
    pub(crate) offset: u16,
}

/// A slot, and the place in its value from which its record is reached in a few steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    /// The record's slot.
    pub(crate) slot: RecordSlot,
    /// The offset of a record at or before it in the same value.
    pub(crate) begin: u16,
    /// The number of events before `begin` in the value.
    pub(crate) events: u16,
}

/// The end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StreamEnd {
    /// The version of the last event; 0 if the stream is unknown.
    pub(crate) version: Version,
    /// The beginning of the last record's leaf hash: enough to detect a writer that saw another log.
    pub(crate) tag: u64,
}

impl StreamEnd {
    /// Returns the stream's end after a record.
    pub(crate) fn new(version: Version, hash: Digest) -> Self {
        Self { version, tag: tag(hash) }
    }
}

/// Returns the first eight bytes of a leaf hash.
pub(crate) fn tag(hash: Digest) -> u64 {
    hash.0.first_chunk::<8>().map_or(0, |first| u64::from_be_bytes(*first))
}

/// The data of a record that enters the index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexedRecord {
    /// The stream's end after the record.
    pub(crate) end: StreamEnd,
    /// The record's slot.
    pub(crate) slot: RecordSlot,
    /// The number of the record's events.
    pub(crate) events: u16,
    /// The effect of the record on its stream's open work.
    pub(crate) work: WorkChange,
}

/// The data of a record as the index on disk keeps it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRecord {
    /// The number of the record's stream.
    pub(crate) stream: u32,
    /// The record's slot.
    pub(crate) slot: RecordSlot,
    /// The number of the record's events.
    pub(crate) events: u16,
    /// The beginning of the record's leaf hash.
    pub(crate) tag: u64,
    /// The effect of the record on its stream's open work.
    pub(crate) work: WorkChange,
}

/// The number that no slot has; it ends a stream's chain.
pub(crate) const NO_SLOT: u32 = u32::MAX;
