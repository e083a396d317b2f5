//! The encoded record, with the header fields that a store needs.

use std::sync::Arc;

use crate::codec::record::chunk::DetachedBody;
use crate::id::{Digest, StreamId, Version};

/// An encoded record with the header fields that a store needs. It is created only by
/// [`RecordDraft::encode`](super::RecordDraft::encode) and [`EncodedRecord::from_bytes`], so that fields and
/// bytes always agree. Clones are cheap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedRecord {
    pub(super) bytes: Arc<[u8]>,
    pub(super) hash: Digest,
    pub(super) facts: Facts,
    pub(super) detached: Option<Arc<[DetachedBody]>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) stream: StreamId,
    pub(super) first_version: Version,
    pub(super) set_id: [u8; 16],
    pub(super) part: u16,
    pub(super) parts: u16,
    pub(super) partition: u32,
    pub(super) epoch: u64,
    pub(super) previous: Digest,
    pub(super) event_count: u16,
}

impl EncodedRecord {
    /// Returns the bytes of the whole record, without detached bodies.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// Returns the leaf hash.
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// Returns the bodies outside the record, in the order of their events. A store keeps their chunks next
    /// to the record.
    pub fn detached(&self) -> &[DetachedBody] {
        self.detached.as_deref().unwrap_or_default()
    }

    /// Returns the stream that the record extends.
    pub fn stream(&self) -> &StreamId {
        &self.facts.stream
    }

    /// Returns the version of the first event.
    pub fn first_version(&self) -> Version {
        self.facts.first_version
    }

    /// Returns the version of the last event.
    pub fn last_version(&self) -> Version {
        Version(self.facts.first_version.0 + u64::from(self.facts.event_count) - 1)
    }

    /// Returns the id of the append.
    pub fn set_id(&self) -> [u8; 16] {
        self.facts.set_id
    }

    /// Returns the record's number within the append, from 0, and the number of records in the append.
    pub fn part(&self) -> (u16, u16) {
        (self.facts.part, self.facts.parts)
    }

    /// Returns the partition of the log.
    pub fn partition(&self) -> u32 {
        self.facts.partition
    }

    /// Returns the epoch of the writer.
    pub fn epoch(&self) -> u64 {
        self.facts.epoch
    }

    /// Returns the leaf hash of the stream's previous record.
    pub fn previous(&self) -> Digest {
        self.facts.previous
    }

    /// Returns the number of events, at least 1.
    pub fn event_count(&self) -> u16 {
        self.facts.event_count
    }
}
