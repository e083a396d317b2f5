//! The commit record: one stream's part of an append, as bytes. This layout is for ever; see also
//! `docs/format.md`, which tells the same, and what stands around a record in a log.
//!
//! All integers are big-endian. A *text* is its length in bytes (u16) and then that many bytes of UTF-8.
//!
//! | part | bytes | field |
//! |---|---|---|
//! | hashed | 1 | format version, [`FORMAT`] |
//! | hashed | text | stream id, in canonical form |
//! | hashed | 8 | version of the record's first event, at least 1 |
//! | hashed | 16 | set id: the same in every record of one append |
//! | hashed | 2 + 2 | this record's number within the set, from 0; how many records the set has |
//! | hashed | 4 + 8 | partition; epoch of the writer |
//! | hashed | 8 | time in microseconds since 1970-01-01 UTC, signed |
//! | hashed | text + 32 | command id; SHA-256 of the command's body |
//! | hashed | text | causation id |
//! | hashed | text | correlation id |
//! | hashed | text + 1 | principal's name; basis: 0 asserted, 1 authenticated |
//! | hashed | 32 | leaf hash of the stream's previous record; zeros for its first |
//! | hashed | 2 | how many events: 1 to [`EVENTS_PER_APPEND_MAX`] |
//! | hashed | 39 each | for each event: kind (2), schema version (1), body length (4), SHA-256(salt ‖ body) (32) |
//! | beside | 17 + body each | for each event: place (1), salt (16), body |
//!
//! Place 0 is a body that stands inline, as above. Place 1 is one that stands in chunks outside the record: the
//! salt is followed by the number of chunks (2) and the SHA-256(salt ‖ chunk) (32) of each. 2 (erased) is
//! reserved: a reader that does not know it says so. Nothing follows the last body.
//!
//! The leaf hash is SHA-256(0x00 ‖ hashed part), as in RFC 6962. Salts and bodies are not in it, only their
//! digests are, so that erasing both later leaves every hash valid.
//!
//! [`EVENTS_PER_APPEND_MAX`]: crate::limits::EVENTS_PER_APPEND_MAX

mod chunk;
mod decode;
mod encode;
mod event_view;
mod view;

use std::sync::Arc;

use crate::envelope::Metadata;
use crate::id::{Digest, IdError, StreamId, Version};
use crate::limits::{EVENTS_PER_APPEND_MAX, PAYLOAD_BYTES_MAX};

pub use chunk::Detached;
pub use event_view::{EventView, Events};
pub use view::RecordView;

/// The only format version there is.
pub const FORMAT: u8 = 1;

/// The place byte of a body that stands inline.
const INLINE: u8 = 0;

/// The place byte of a body that stands in chunks.
const CHUNKED: u8 = 1;

/// Bytes that the hashed part holds for one event.
const EVENT_ENTRY_BYTES: usize = 2 + 1 + 4 + 32;

/// Domain byte of a leaf in RFC 6962.
const LEAF: &[u8] = &[0];

/// An encoded event on its way into a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBody {
    /// Kind, one number for each variant of each event type.
    pub kind: u16,
    /// Schema version of that kind.
    pub schema: u8,
    /// 16 random bytes, so that a short body cannot be guessed from its digest after it was erased.
    pub salt: [u8; 16],
    /// The event's own bytes.
    pub body: Vec<u8>,
}

/// What one record shall say; [`RecordDraft::encode`] makes the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordDraft {
    /// The stream that it extends.
    pub stream: StreamId,
    /// Version of its first event.
    pub first_version: Version,
    /// The append that it belongs to.
    pub set_id: [u8; 16],
    /// Its number within the append, from 0.
    pub part: u16,
    /// How many records the append has.
    pub parts: u16,
    /// Partition of the log.
    pub partition: u32,
    /// Epoch of the writer: raised at every open.
    pub epoch: u64,
    /// Who, when, why.
    pub metadata: Metadata,
    /// Leaf hash of the stream's previous record; all zeros for its first.
    pub previous: Digest,
    /// What happened.
    pub events: Vec<EventBody>,
}

/// A record as bytes, with what a store must know of it. Made by [`RecordDraft::encode`] or, from bytes of
/// elsewhere, by [`EncodedRecord::from_bytes`]: so the facts and the bytes always agree. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedRecord {
    bytes: Arc<[u8]>,
    hash: Digest,
    facts: Facts,
    detached: Arc<[Detached]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    stream: StreamId,
    first_version: Version,
    set_id: [u8; 16],
    part: u16,
    parts: u16,
    partition: u32,
    epoch: u64,
    previous: Digest,
    event_count: u16,
}

impl EncodedRecord {
    /// The whole record.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// Its leaf hash.
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// The bodies that stand outside, in the order of their events. A store keeps their chunks beside the record.
    pub fn detached(&self) -> &[Detached] {
        &self.detached
    }

    /// The stream that it extends.
    pub fn stream(&self) -> &StreamId {
        &self.facts.stream
    }

    /// Version of its first event.
    pub fn first_version(&self) -> Version {
        self.facts.first_version
    }

    /// Version of its last event.
    pub fn last_version(&self) -> Version {
        Version(self.facts.first_version.0 + u64::from(self.facts.event_count) - 1)
    }

    /// The append that it belongs to.
    pub fn set_id(&self) -> [u8; 16] {
        self.facts.set_id
    }

    /// Its number within the append, from 0, and how many records the append has.
    pub fn part(&self) -> (u16, u16) {
        (self.facts.part, self.facts.parts)
    }

    /// Partition of the log.
    pub fn partition(&self) -> u32 {
        self.facts.partition
    }

    /// Epoch of the writer.
    pub fn epoch(&self) -> u64 {
        self.facts.epoch
    }

    /// Leaf hash of the stream's previous record.
    pub fn previous(&self) -> Digest {
        self.facts.previous
    }

    /// How many events it holds: at least 1.
    pub fn event_count(&self) -> u16 {
        self.facts.event_count
    }
}

/// A record as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The stream that it extends.
    pub stream: StreamId,
    /// Version of its first event.
    pub first_version: Version,
    /// The append that it belongs to.
    pub set_id: [u8; 16],
    /// Its number within the append, from 0.
    pub part: u16,
    /// How many records the append has.
    pub parts: u16,
    /// Partition of the log.
    pub partition: u32,
    /// Epoch of the writer.
    pub epoch: u64,
    /// Who, when, why.
    pub metadata: Metadata,
    /// Leaf hash of the stream's previous record; all zeros for its first.
    pub previous: Digest,
    /// What happened; never empty.
    pub events: Vec<StoredEvent>,
}

/// One event of a record that was read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Kind, one number for each variant of each event type.
    pub kind: u16,
    /// Schema version of that kind.
    pub schema: u8,
    /// Length of the body in bytes, also when the body is not here.
    pub body_len: u32,
    /// SHA-256(salt ‖ body).
    pub digest: Digest,
    /// Where the body is.
    pub place: Body,
}

/// Where an event's body is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// In the record itself.
    Inline {
        /// What was put before the body when its digest was taken.
        salt: [u8; 16],
        /// The event's own bytes.
        bytes: Vec<u8>,
    },
    /// Outside the record, in chunks.
    Chunked {
        /// What was put before the body, and before each chunk, when its digest was taken.
        salt: [u8; 16],
        /// SHA-256(salt ‖ chunk) of each chunk, in order.
        chunks: Vec<Digest>,
        /// The body, once somebody has fetched it: [`Record::decode`] sees the record only.
        bytes: Option<Vec<u8>>,
    },
}

impl StoredEvent {
    /// The body, if it is here: whatever a store hands out has all of its bodies.
    pub fn body(&self) -> Option<&[u8]> {
        match &self.place {
            Body::Inline { bytes, .. } => Some(bytes),
            Body::Chunked { bytes, .. } => bytes.as_deref(),
        }
    }

    /// Whether salt and body are those whose digest the record holds; not, if the body is not here.
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
    /// Version of its last event.
    pub fn last_version(&self) -> Version {
        let more = u64::try_from(self.events.len()).unwrap_or(u64::MAX).saturating_sub(1);
        Version(self.first_version.0.saturating_add(more))
    }
}

/// Why bytes are no record, or a draft cannot become one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Another program wrote it.
    #[error(
        "the record has format {found}, this program reads format {FORMAT}; read it with the release that wrote it"
    )]
    UnknownFormat {
        /// Its first byte.
        found: u8,
    },
    /// The bytes end too early.
    #[error("the record ends within its {field}, at byte {at}")]
    Cut {
        /// The field that is not whole.
        field: &'static str,
        /// Where that field begins.
        at: usize,
    },
    /// Bytes follow the last body.
    #[error("{bytes} bytes follow the end of the record")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// A text is not UTF-8.
    #[error("the record's {field} is not UTF-8")]
    NotUtf8 {
        /// Which text.
        field: &'static str,
    },
    /// The stream id is not canonical.
    #[error("the record's stream id is wrong: {0}")]
    Stream(#[from] IdError),
    /// A number is outside what the field allows.
    #[error("the record's {field} is {value}, which cannot be")]
    Value {
        /// Which field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// A text does not fit the two bytes of its length.
    #[error("the {field} has {bytes} bytes; a record holds at most 65535 there")]
    TextTooLong {
        /// Which text.
        field: &'static str,
        /// Its length in bytes.
        bytes: usize,
    },
    /// No event, or too many.
    #[error("a record holds 1 to {EVENTS_PER_APPEND_MAX} events, not {count}")]
    EventCount {
        /// How many there are.
        count: usize,
    },
    /// One event is too large.
    #[error("the body of event {event} has {bytes} bytes; the limit is {PAYLOAD_BYTES_MAX}")]
    BodyTooLarge {
        /// Its number within the record, from 0.
        event: usize,
        /// Its length in bytes.
        bytes: usize,
    },
    /// The body is kept in a way that this release does not know.
    #[error(
        "event {event} keeps its body in place {place}, which this program does not know; use a newer one"
    )]
    UnknownPlace {
        /// Its number within the record, from 0.
        event: usize,
        /// The place byte.
        place: u8,
    },
    /// A body that stands in chunks was not given with the record.
    #[error("the body of event {event} stands outside the record and is not there")]
    BodyMissing {
        /// Its number within the record, from 0.
        event: usize,
    },
    /// Salt or body were changed after they were written.
    #[error("the body of event {event} does not have the digest that the record holds for it")]
    BodyChanged {
        /// Its number within the record, from 0.
        event: usize,
    },
}
