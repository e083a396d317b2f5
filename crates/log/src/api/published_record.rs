//! A record on its way to a reader of the log: as the writer published it, or as it was read.

use std::sync::{Arc, OnceLock};

use proto_events::codec::record::EncodedRecord;
use proto_events::id::{Position, StreamId, Version};

use crate::api::record::StoredRecord;

/// A record as the writer published it. It is decoded for the first reader that wants it so, on that reader's thread: all
/// callers of the log wait for the writer's.
#[derive(Debug)]
pub(crate) struct PublishedRecord {
    position: Position,
    encoded: EncodedRecord,
    decoded: OnceLock<Arc<StoredRecord>>,
}

impl PublishedRecord {
    pub(crate) fn new(encoded: &EncodedRecord, position: Position) -> Self {
        Self { position, encoded: encoded.clone(), decoded: OnceLock::new() }
    }

    /// Returns the record as its author encoded it.
    pub(crate) fn encoded(&self) -> &EncodedRecord {
        &self.encoded
    }

    /// Returns the record, decoded.
    pub(crate) fn stored(&self) -> &Arc<StoredRecord> {
        self.decoded.get_or_init(|| Arc::new(StoredRecord::new(&self.encoded, self.position)))
    }
}

/// A record that a reader gets next, decoded or not yet.
#[derive(Debug, Clone)]
pub(crate) enum NextRecord {
    /// As the writer published it.
    Published(Arc<PublishedRecord>),
    /// As it was read, or as another store published it.
    Stored(Arc<StoredRecord>),
}

impl NextRecord {
    /// Returns the record, decoded.
    pub(crate) fn stored(&self) -> &Arc<StoredRecord> {
        match self {
            Self::Published(published) => published.stored(),
            Self::Stored(stored) => stored,
        }
    }

    /// Returns the position of the record's first event.
    pub(crate) fn position(&self) -> Position {
        match self {
            Self::Published(published) => published.position,
            Self::Stored(stored) => stored.position,
        }
    }

    /// Returns the position of the record's last event.
    pub(crate) fn last_position(&self) -> Position {
        match self {
            Self::Published(published) => {
                Position(published.position.0 + u64::from(published.encoded.event_count()) - 1)
            }
            Self::Stored(stored) => stored.last_position(),
        }
    }

    /// Returns the stream that the record extends.
    pub(crate) fn stream(&self) -> &StreamId {
        match self {
            Self::Published(published) => published.encoded.stream(),
            Self::Stored(stored) => &stored.record.stream,
        }
    }

    /// Returns the version of the record's last event.
    pub(crate) fn last_version(&self) -> Version {
        match self {
            Self::Published(published) => published.encoded.last_version(),
            Self::Stored(stored) => stored.record.last_version(),
        }
    }
}
