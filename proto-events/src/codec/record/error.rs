//! Errors of encoding and decoding records.

use crate::codec::record::format::FORMAT;
use crate::id::IdError;
use crate::limits::{EVENTS_PER_APPEND_MAX, PAYLOAD_BYTES_MAX};

/// The reason why bytes are not a record, or a draft cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The record has another format.
    #[error(
        "the record has format {found}, but this program reads format {FORMAT}; use the release that wrote it"
    )]
    UnknownFormat {
        /// The first byte of the record.
        found: u8,
    },
    /// The bytes end too early.
    #[error("the record ends within its {field}, at byte {at}")]
    Cut {
        /// The incomplete field.
        field: &'static str,
        /// The byte at which the field begins.
        at: usize,
    },
    /// Bytes follow the last body.
    #[error("{bytes} bytes follow the end of the record")]
    Trailing {
        /// The number of bytes.
        bytes: usize,
    },
    /// A text is not UTF-8.
    #[error("the record's {field} is not UTF-8")]
    NotUtf8 {
        /// The field.
        field: &'static str,
    },
    /// The stream id is not canonical.
    #[error("the record's stream id is not valid: {0}")]
    Stream(#[from] IdError),
    /// A value is outside the range of its field.
    #[error("the record's {field} is out of range: {value}")]
    Value {
        /// The field.
        field: &'static str,
        /// The number.
        value: u64,
    },
    /// The length of a text does not fit two bytes.
    #[error("the {field} has {bytes} bytes; the limit is 65535")]
    TextTooLong {
        /// The field.
        field: &'static str,
        /// The length in bytes.
        bytes: usize,
    },
    /// The record has no event, or too many.
    #[error("a record holds 1 to {EVENTS_PER_APPEND_MAX} events, not {count}")]
    EventCount {
        /// The number of events.
        count: usize,
    },
    /// The body of an event is too large.
    #[error("the body of event {event} has {bytes} bytes; the limit is {PAYLOAD_BYTES_MAX}")]
    BodyTooLarge {
        /// The event's number within the record, from 0.
        event: usize,
        /// The length in bytes.
        bytes: usize,
    },
    /// The body is stored in a place that this release does not know.
    #[error("the body of event {event} is in the unknown place {place}; use a newer release")]
    UnknownPlace {
        /// The event's number within the record, from 0.
        event: usize,
        /// The place byte.
        place: u8,
    },
    /// The digest of the command was made with another salt than that of the record's events.
    #[error("the command's digest was not made with the salts of the record's events")]
    CommandSalt,
    /// The header has a field that a reader must know, and this release does not.
    #[error("the record's header has the unknown field {tag}; use a newer release")]
    UnknownField {
        /// The field's tag.
        tag: u16,
    },
    /// A body stored in chunks was not supplied with the record.
    #[error("the body of event {event} is stored outside the record and is missing")]
    BodyMissing {
        /// The event's number within the record, from 0.
        event: usize,
    },
    /// Salt or body were changed after they were written.
    #[error("the body of event {event} does not match its digest in the record")]
    BodyChanged {
        /// The event's number within the record, from 0.
        event: usize,
    },
}

impl RecordError {
    /// Whether a newer program wrote the record: its format, a field that must be understood or a body's place came
    /// later than this program. The record is not damaged.
    pub const fn is_newer(&self) -> bool {
        match self {
            Self::UnknownFormat { found } => *found > FORMAT,
            Self::UnknownPlace { .. } | Self::UnknownField { .. } => true,
            _ => false,
        }
    }
}
