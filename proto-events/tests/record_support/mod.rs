//! The golden record, for tests of the record's bytes.
#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]

use proto_events::codec::record::{Body, EventBody, HeaderField, Record, RecordDraft};
use proto_events::envelope::{Basis, CommandDigest, Metadata, Principal, Timestamp};
use proto_events::id::{Digest, StreamId, Version};

/// Returns the record in `golden/v2/record.bin`. Record and file must never change.
pub(crate) fn golden() -> RecordDraft {
    RecordDraft {
        stream: StreamId::task("weather desk", "tâche/1").unwrap(),
        first_version: Version(3),
        set_id: *b"set-id-of-16-byt",
        part: 1,
        parts: 2,
        partition: 5,
        epoch: 9,
        metadata: Metadata {
            at: Timestamp(1_795_000_000_123_456),
            command_id: "command-1".into(),
            command_digest: Some(CommandDigest::new(
                [b"sixteen bytes of", &[0; 16]],
                b"the command's content",
            )),
            causation_id: "cause".into(),
            correlation_id: "request ☃".into(),
            principal: Principal { name: "ana".into(), basis: Basis::Authenticated },
        },
        fields: vec![HeaderField { tag: 7, bytes: b"later".to_vec() }],
        previous: Digest::compute(b"the record before"),
        events: vec![
            EventBody { kind: 201, schema: 1, salt: *b"sixteen bytes of", body: b"first body".to_vec() },
            EventBody { kind: 65_535, schema: 255, salt: [0; 16], body: Vec::new() },
        ],
    }
}

pub(crate) const GOLDEN: &[u8] = include_bytes!("../golden/v2/record.bin");

pub(crate) fn draft_of(record: &Record) -> RecordDraft {
    let event = |event: &proto_events::codec::record::StoredEvent| match &event.place {
        Body::Inline { salt, bytes } => {
            assert_eq!(event.body_len as usize, bytes.len());
            EventBody { kind: event.kind, schema: event.schema, salt: *salt, body: bytes.clone() }
        }
        other => panic!("a body in place {other:?}"),
    };
    RecordDraft {
        stream: record.stream.clone(),
        first_version: record.first_version,
        set_id: record.set_id,
        part: record.part,
        parts: record.parts,
        partition: record.partition,
        epoch: record.epoch,
        metadata: record.metadata.clone(),
        fields: record.fields.clone(),
        previous: record.previous,
        events: record.events.iter().map(event).collect(),
    }
}
