//! Simple records for tests.

use std::collections::HashMap;

use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::envelope::{Metadata, Timestamp};
use proto_events::id::{Digest, ExpectedVersion, StreamId, Version};

use crate::limits::RECORD_BYTES_MAX;
use crate::store::{Append, AppendPart, Fence, StoredRecord};

/// The value, or a panic with the error's text.
#[track_caller]
pub fn ok<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("unexpected error: {error}"))
}

/// The stream `task-agent/<name>`.
#[track_caller]
pub fn stream(name: &str) -> StreamId {
    ok(StreamId::task("agent", name))
}

/// A set id made of a number.
pub fn id(number: u64) -> [u8; 16] {
    let mut id = [7; 16];
    if let Some(place) = id.first_chunk_mut::<8>() {
        *place = number.to_be_bytes();
    }
    id
}

/// A draft of one event, alone in its append, as the first record of its stream unless you say otherwise.
#[track_caller]
pub fn draft(stream: &str, first_version: u64, body: &[u8]) -> RecordDraft {
    RecordDraft {
        stream: ok(StreamId::parse(stream)),
        first_version: Version(first_version),
        set_id: id(0),
        part: 0,
        parts: 1,
        partition: 0,
        epoch: 1,
        metadata: Metadata {
            at: Timestamp(1_795_000_000_123_456),
            command_id: "command".into(),
            ..Metadata::default()
        },
        previous: Digest::default(),
        events: vec![event(body)],
    }
}

fn event(body: &[u8]) -> EventBody {
    EventBody { kind: 1, schema: 1, salt: [3; 16], body: body.to_vec() }
}

/// Writes appends for a store, and knows where each stream ends if all of them are taken. A clone of an author
/// does not learn what the other writes: two of them are two writers.
#[derive(Debug, Clone)]
pub struct Author {
    fence: Fence,
    ends: HashMap<StreamId, (Version, Digest)>,
    next_set: u64,
}

impl Author {
    /// An author for an empty log with this fence.
    pub fn new(fence: Fence) -> Self {
        Self { fence, ends: HashMap::new(), next_set: 1 }
    }

    /// Goes on for the same log opened anew.
    #[must_use]
    pub fn with_fence(mut self, fence: Fence) -> Self {
        self.fence = fence;
        self
    }

    /// Takes set ids from here on, so that authors do not share any.
    #[must_use]
    pub fn with_sets_from(mut self, next_set: u64) -> Self {
        self.next_set = next_set;
        self
    }

    /// Learns where a stream ends, from its last record.
    pub fn learn(&mut self, last: &StoredRecord) {
        self.ends.insert(last.record.stream.clone(), (last.record.last_version(), last.hash));
    }

    /// One event for one stream.
    pub fn one(&mut self, stream: &StreamId, body: &[u8]) -> Append {
        self.many(&[(stream.clone(), vec![body.to_vec()])])
    }

    /// Several events for several streams.
    #[track_caller]
    pub fn many(&mut self, what: &[(StreamId, Vec<Vec<u8>>)]) -> Append {
        let set_id = id(self.next_set);
        self.next_set += 1;
        let parts = ok(u16::try_from(what.len()));
        let parts = (0..parts).zip(what).map(|(part, (stream, bodies))| {
            let (version, previous) = self.ends.get(stream).copied().unwrap_or_default();
            let draft = RecordDraft {
                set_id,
                part,
                parts,
                partition: self.fence.partition,
                epoch: self.fence.epoch,
                previous,
                events: bodies.iter().map(|body| event(body)).collect(),
                ..draft(stream.as_str(), version.0 + 1, &[])
            };
            let record = ok(draft.encode_within(RECORD_BYTES_MAX));
            self.ends.insert(stream.clone(), (record.last_version(), record.hash()));
            AppendPart { stream: stream.clone(), expected: ExpectedVersion::at(version), record }
        });
        Append { fence: self.fence, set_id, parts: parts.collect() }
    }
}
