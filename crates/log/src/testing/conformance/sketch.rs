//! Simple records for tests.

use std::collections::HashMap;

use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::envelope::{CommandDigest, Metadata, Timestamp};
use proto_events::id::{Digest, ExpectedVersion, StreamId, Version};

use crate::api::append::{Append, AppendPart};
use crate::api::record::{Fence, StoredRecord};
use crate::limits::RECORD_BYTES_MAX;

/// Returns the value, or panics with the error's text.
#[track_caller]
pub fn ok<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("unexpected error: {error}"))
}

/// Returns the stream `task-agent/<name>`.
#[track_caller]
pub fn stream(name: &str) -> StreamId {
    ok(StreamId::task("agent", name))
}

/// Returns a set id made from a number.
pub fn id(number: u64) -> [u8; 16] {
    let mut id = [7; 16];
    if let Some(place) = id.first_chunk_mut::<8>() {
        *place = number.to_be_bytes();
    }
    id
}

/// Returns a draft of one event, alone in its append, as the first record of its stream; all fields can be
/// changed.
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
        fields: Vec::new(),
        previous: Digest::default(),
        events: vec![event(body)],
    }
}

fn event(body: &[u8]) -> EventBody {
    EventBody { kind: 1, schema: 1, salt: [3; 16], body: body.to_vec() }
}

/// An author of appends for a store, which tracks the end of each stream as if all of them are accepted. A
/// clone does not learn what the original writes: the two are two writers.
#[derive(Debug, Clone)]
pub struct Author {
    fence: Fence,
    ends: HashMap<StreamId, (Version, Digest)>,
    next_set: u64,
}

impl Author {
    /// Creates an author for an empty log with this fence.
    pub fn new(fence: Fence) -> Self {
        Self { fence, ends: HashMap::new(), next_set: 1 }
    }

    /// Continues with another fence, for the same log after a reopening.
    #[must_use]
    pub fn with_fence(mut self, fence: Fence) -> Self {
        self.fence = fence;
        self
    }

    /// Takes set ids from this number on, so that authors do not share any.
    #[must_use]
    pub fn with_sets_from(mut self, next_set: u64) -> Self {
        self.next_set = next_set;
        self
    }

    /// Learns the end of a stream from its last record.
    pub fn learn(&mut self, last: &StoredRecord) {
        self.ends.insert(last.record.stream.clone(), (last.record.last_version(), last.hash));
    }

    /// Returns an append of one event to one stream.
    pub fn append_one(&mut self, stream: &StreamId, body: &[u8]) -> Append {
        self.many(&[(stream.clone(), vec![body.to_vec()])])
    }

    /// Returns an append of several events to several streams.
    #[track_caller]
    pub fn many(&mut self, what: &[(StreamId, Vec<Vec<u8>>)]) -> Append {
        let set_id = id(self.next_set);
        self.next_set += 1;
        let parts = ok(u16::try_from(what.len()));
        let parts = (0..parts).zip(what).map(|(part, (stream, bodies))| {
            let (version, previous) = self.ends.get(stream).copied().unwrap_or_default();
            let first = draft(stream.as_str(), version.0 + 1, &[]);
            let events: Vec<EventBody> = bodies.iter().map(|body| event(body)).collect();
            let digest = CommandDigest::new(events.iter().map(|event| &event.salt), &set_id);
            let draft = RecordDraft {
                set_id,
                part,
                parts,
                partition: self.fence.partition,
                epoch: self.fence.epoch,
                metadata: Metadata { command_digest: Some(digest), ..first.metadata },
                previous,
                events,
                ..first
            };
            let record = ok(draft.encode_within(RECORD_BYTES_MAX));
            self.ends.insert(stream.clone(), (record.last_version(), record.hash()));
            AppendPart { stream: stream.clone(), expected: ExpectedVersion::exactly(version), record }
        });
        Append { fence: self.fence, set_id, parts: parts.collect() }
    }
}
