//! Errors of encoding and decoding events.

use crate::codec::kind;
use crate::json::JsonError;

/// The reason why bytes are not an event, or an event cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The kind does not belong to this stream's category.
    #[error("event kind {kind} is unknown in streams of category `{category}`")]
    UnknownKind {
        /// The kind found.
        kind: u16,
        /// The stream's category.
        category: &'static str,
    },
    /// The event was written by a newer program.
    #[error(
        "event kind {kind} has schema version {found}, but this program reads versions up to {known}; use a newer release"
    )]
    UnknownSchema {
        /// The kind.
        kind: u16,
        /// The version found.
        found: u8,
        /// The newest version that this program knows.
        known: u8,
    },
    /// The body is damaged.
    #[error("the body of event kind {kind} cannot be read: {why}")]
    Damaged {
        /// The kind.
        kind: u16,
        /// The decoder's error.
        why: String,
    },
    /// The body is over the limit.
    #[error("the event has {bytes} bytes; the limit is {limit}")]
    TooLarge {
        /// The size in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

impl CodecError {
    /// Whether a newer program wrote the event: its kind, its schema version or its stream's category came later than
    /// this program. The event is not damaged.
    pub fn is_newer(&self) -> bool {
        match self {
            Self::UnknownKind { kind, category } => *category == UNKNOWN_CATEGORY || !kind::is_known(*kind),
            Self::UnknownSchema { found, known, .. } => found > known,
            Self::Damaged { .. } | Self::TooLarge { .. } => false,
        }
    }
}

/// The name of a category that this program does not know.
pub(super) const UNKNOWN_CATEGORY: &str = "unknown";

/// The reason why a stored field is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum FieldError {
    #[error("JSON: {0}")]
    Json(#[from] JsonError),
    #[error("unknown code {0}")]
    Code(u8),
    #[error("{0}")]
    Model(#[from] crate::model::ModelError),
}
