//! Records as the log returns them, and the fence that separates one writer from the next.

use std::sync::Arc;

use proto_events::codec::record::{EncodedRecord, Record, RecordError};
use proto_events::id::{Digest, Position, StreamId, Version};

/// A record with its place in the log. A store makes one of an append's record with [`StoredRecord::new`]; a
/// store that keeps bytes fills in the fields, after it has compared bytes and bodies with their hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Position of the record's first event. Every event has a position of its own; the log's first is 1.
    pub position: Position,
    /// The record's leaf hash, which the next record of the same stream names.
    pub hash: Digest,
    /// The decoded record. Its bodies have the digests that the record holds.
    pub record: Record,
    /// The bytes that the record was decoded from.
    pub bytes: Arc<[u8]>,
}

impl StoredRecord {
    /// Returns a record as readers get it from the log, with its detached bodies in their places.
    ///
    /// # Panics
    /// Never: only the encoder creates an [`EncodedRecord`], and what it wrote can be decoded.
    pub fn new(encoded: &EncodedRecord, position: Position) -> Self {
        let whole = || -> Result<Record, RecordError> {
            let mut record = Record::decode(encoded.bytes())?;
            for detached in encoded.detached() {
                record.put_body(detached.event.into(), detached.body.to_vec())?;
            }
            Ok(record)
        };
        Self {
            position,
            hash: encoded.hash(),
            record: whole()
                .expect("an encoded record can always be decoded: only the encoder creates this type"),
            bytes: Arc::clone(encoded.bytes()),
        }
    }

    /// Returns about the number of bytes of memory that the record takes: its bytes, and the bodies decoded from them
    /// or stored outside them.
    pub fn bytes_in_memory(&self) -> usize {
        let bodies = self.record.events.iter().filter_map(|event| event.body().map(<[u8]>::len));
        bodies.fold(self.bytes.len(), usize::saturating_add)
    }

    /// Returns the position of the record's last event.
    pub fn last_position(&self) -> Position {
        let more = u64::try_from(self.record.events.len()).unwrap_or(u64::MAX).saturating_sub(1);
        Position(self.position.0.saturating_add(more))
    }
}

/// The writer that an append comes from. A store refuses the appends of an earlier writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The partition of the log.
    pub partition: u32,
    /// The epoch of the writer, raised durably each time the partition gets a new writer.
    pub epoch: u64,
}

/// A stream and its last version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// The name of the stream.
    pub stream: StreamId,
    /// The version of the stream's last event.
    pub version: Version,
}
