//! An append: the records that are written together or not at all, and the answer to it.

use std::pin::Pin;

use proto_events::codec::record::EncodedRecord;
use proto_events::envelope::Committed;
use proto_events::id::{ExpectedVersion, StreamId};

use crate::api::error::AppendError;
use crate::api::record::Fence;

/// The part of an append that extends one stream.
#[derive(Debug, Clone)]
pub struct AppendPart {
    /// The stream to extend.
    pub stream: StreamId,
    /// The version at which the writer expects the stream to end.
    pub expected: ExpectedVersion,
    /// The record to add. It must name the same stream, the version after the expected one, the append's set
    /// id and fence, and the leaf hash of the stream's last record.
    pub record: EncodedRecord,
}

/// Records of one or more streams: all of them are written or none.
#[derive(Debug, Clone)]
pub struct Append {
    /// The writer's fence, from [`EventStore::fence`](crate::api::EventStore::fence).
    pub fence: Fence,
    /// The id of the append: repeating it returns the first result again.
    pub set_id: [u8; 16],
    /// The parts of the append: at least one; each stream at most once.
    pub parts: Vec<AppendPart>,
}

/// The result of a durable append: one entry for each of its parts, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// The version and position of each part's last event.
    pub parts: Vec<Committed>,
}

/// The result of an append, available once it is durable. Dropping the future does not cancel the append.
pub type AppendFuture = Pin<Box<dyn Future<Output = Result<Appended, AppendError>> + Send>>;
