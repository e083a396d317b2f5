//! The content of a record before encoding.

use crate::envelope::Metadata;
use crate::id::{Digest, StreamId, Version};

/// An encoded event for a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBody {
    /// The kind, one number for each variant of each event type.
    pub kind: u16,
    /// The schema version of that kind.
    pub schema: u8,
    /// The salt, 16 random bytes: it prevents guessing a short erased body from its digest.
    pub salt: [u8; 16],
    /// The encoded event.
    pub body: Vec<u8>,
}

/// An optional field of a record's header. This release writes none but the command's digest, which
/// [`Metadata`] holds; it keeps those that a later release wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderField {
    /// The number of the field's meaning. A reader skips a tag that it does not know, unless the tag is
    /// [`REQUIRED_FIELDS`](super::REQUIRED_FIELDS) or higher.
    pub tag: u16,
    /// The content.
    pub bytes: Vec<u8>,
}

/// The content of a record; [`RecordDraft::encode`] encodes it. `M` is [`Metadata`], or a borrow of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordDraft<M = Metadata> {
    /// The stream that the record extends.
    pub stream: StreamId,
    /// The version of the first event.
    pub first_version: Version,
    /// The id of the append.
    pub set_id: [u8; 16],
    /// The record's number within the append, from 0.
    pub part: u16,
    /// The number of records in the append.
    pub parts: u16,
    /// The partition of the log.
    pub partition: u32,
    /// The epoch of the writer, raised at every open.
    pub epoch: u64,
    /// The metadata of the record.
    pub metadata: M,
    /// Further header fields, by ascending tag, without the command's digest.
    pub fields: Vec<HeaderField>,
    /// The leaf hash of the stream's previous record; all zeros for the first.
    pub previous: Digest,
    /// The events.
    pub events: Vec<EventBody>,
}
