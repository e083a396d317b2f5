//! The decoded record and its events.

use crate::codec::record::draft::HeaderField;
use crate::envelope::Metadata;
use crate::id::{Digest, StreamId, Version};

/// A decoded record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
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
    /// The epoch of the writer.
    pub epoch: u64,
    /// The metadata of the record.
    pub metadata: Metadata,
    /// The optional header fields that this release does not know, by ascending tag.
    pub fields: Vec<HeaderField>,
    /// The leaf hash of the stream's previous record; all zeros for the first.
    pub previous: Digest,
    /// The events; never empty.
    pub events: Vec<StoredEvent>,
}

/// An event of a decoded record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The kind, one number for each variant of each event type.
    pub kind: u16,
    /// The schema version of that kind.
    pub schema: u8,
    /// The length of the body in bytes, set even if the body is missing.
    pub body_len: u32,
    /// The SHA-256(salt ‖ body).
    pub digest: Digest,
    /// The place of the body.
    pub place: Body,
}

/// The place of an event's body.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// The body is in the record itself.
    Inline {
        /// The salt that precedes the body in its digest.
        salt: [u8; 16],
        /// The encoded event.
        bytes: Vec<u8>,
    },
    /// The body is stored in chunks outside the record.
    Chunked {
        /// The salt that precedes the body, and each chunk, in its digest.
        salt: [u8; 16],
        /// The SHA-256(salt ‖ chunk) of each chunk, in order.
        chunks: Vec<Digest>,
        /// The body once it was fetched; [`Record::decode`] leaves it empty.
        bytes: Option<Vec<u8>>,
    },
}

impl StoredEvent {
    /// Returns the body, if present. Records returned by a store have all of their bodies.
    pub fn body(&self) -> Option<&[u8]> {
        match &self.place {
            Body::Inline { bytes, .. } => Some(bytes),
            Body::Chunked { bytes, .. } => bytes.as_deref(),
        }
    }

    /// Returns the salt that precedes the body in its digest.
    pub fn salt(&self) -> &[u8; 16] {
        match &self.place {
            Body::Inline { salt, .. } | Body::Chunked { salt, .. } => salt,
        }
    }

    /// Whether salt and body have the digest in the record; false if the body was not fetched.
    pub fn matches_digest(&self) -> bool {
        match &self.place {
            Body::Inline { salt, bytes } | Body::Chunked { salt, bytes: Some(bytes), .. } => {
                Digest::of_parts(&[salt, bytes]) == self.digest
            }
            Body::Chunked { bytes: None, .. } => false,
        }
    }
}

impl Record {
    /// Returns the version of the last event.
    pub fn last_version(&self) -> Version {
        let more = u64::try_from(self.events.len()).unwrap_or(u64::MAX).saturating_sub(1);
        Version(self.first_version.0.saturating_add(more))
    }
}
