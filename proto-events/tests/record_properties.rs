//! Properties of the record's bytes, for all records and for hostile bytes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod record_support;

use proptest::prelude::*;
use proto_events::codec::record::{
    EncodedRecord, EventBody, EventView, HeaderField, Record, RecordDraft, RecordView,
};
use proto_events::envelope::{Basis, CommandDigest, Metadata, Principal, Timestamp};
use proto_events::id::{Digest, StreamId, Version};
use record_support::{GOLDEN, draft_of};

fn bodies_of(events: &[EventView<'_>]) -> Vec<EventBody> {
    let body = |event: &EventView<'_>| EventBody {
        kind: event.kind,
        schema: event.schema,
        salt: *event.salt,
        body: event.body.unwrap().to_vec(),
    };
    events.iter().map(body).collect()
}

prop_compose! {
    fn any_event()(
        kind: u16, schema: u8, salt: [u8; 16], body in prop::collection::vec(any::<u8>(), 0..200),
    ) -> EventBody {
        EventBody { kind, schema, salt, body }
    }
}

prop_compose! {
    fn any_metadata()(
        at: i64, texts: [String; 4], authenticated: bool,
    ) -> Metadata {
        let [command_id, causation_id, correlation_id, name] = texts;
        let basis = if authenticated { Basis::Authenticated } else { Basis::Asserted };
        Metadata {
            at: Timestamp(at), command_id, command_digest: None, causation_id, correlation_id,
            principal: Principal { name, basis },
        }
    }
}

prop_compose! {
    fn any_draft()(
        agent in "\\PC{1,30}", id in "\\PC{1,30}", first in 1..u64::MAX - 2_000, set_id: [u8; 16],
        part in 0..u16::MAX, more in 1..100_u16, partition: u32, epoch: u64, previous: [u8; 32],
        metadata in any_metadata(), events in prop::collection::vec(any_event(), 1..8),
        content: Option<String>, fields in prop::collection::btree_map(2..0x8000_u16, any::<Vec<u8>>(), 0..3),
    ) -> RecordDraft {
        let salts = events.iter().map(|event| &event.salt);
        let command_digest = content.map(|content| CommandDigest::new(salts, content.as_bytes()));
        let metadata = Metadata { command_digest, ..metadata };
        let fields = fields.into_iter().map(|(tag, bytes)| HeaderField { tag, bytes }).collect();
        RecordDraft {
            stream: StreamId::task(&agent, &id).unwrap(), first_version: Version(first), set_id, part,
            parts: part.saturating_add(more), partition, epoch, metadata, fields, previous: Digest(previous), events,
        }
    }
}

proptest! {
    #[test]
    fn every_record_comes_back(draft in any_draft()) {
        let encoded = draft.encode().unwrap();
        prop_assert_eq!(encoded.bytes().len(), draft.size());
        let record = Record::decode(encoded.bytes()).unwrap();
        record.check_bodies().unwrap();
        prop_assert_eq!(record.last_version(), encoded.last_version());
        let view = RecordView::peek(encoded.bytes()).unwrap();
        let seen: Vec<_> = view.events().map(Result::unwrap).collect();
        prop_assert!(seen.iter().all(EventView::matches_digest));
        prop_assert_eq!(&bodies_of(&seen), &draft.events);
        prop_assert_eq!(RecordView::count_events(encoded.bytes()), Ok(encoded.event_count()));
        prop_assert_eq!(&draft_of(&record), &draft);
        let view = RecordView::peek(encoded.bytes()).unwrap();
        for (event, stored) in view.events().zip(&record.events) {
            let event = event.unwrap();
            let same = (event.kind, event.schema, event.body_len, event.digest, event.body);
            prop_assert_eq!(same, (stored.kind, stored.schema, stored.body_len, stored.digest, stored.body()));
            prop_assert_eq!(Digest::of_parts(&[event.salt, event.body.unwrap()]), event.digest);
        }
        prop_assert_eq!(view.events().count(), record.events.len());
        prop_assert_eq!(EncodedRecord::from_bytes(encoded.bytes()).unwrap(), encoded);
    }

    #[test]
    fn a_record_within_any_limit_has_the_same_hash_and_its_bodies_come_back(
        draft in any_draft(), limit in 0..2_000_usize,
    ) {
        let encoded = draft.encode_within(limit).unwrap();
        prop_assert_eq!(encoded.hash(), draft.encode().unwrap().hash());
        let mut record = Record::decode(encoded.bytes()).unwrap();
        for detached in encoded.detached() {
            record.put_body(detached.event.into(), detached.body.to_vec()).unwrap();
        }
        record.check_bodies().unwrap();
        let bodies: Vec<_> = record.events.iter().map(|event| event.body().unwrap()).collect();
        let drafted: Vec<_> = draft.events.iter().map(|event| event.body.as_slice()).collect();
        prop_assert_eq!(bodies, drafted);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = Record::decode(&bytes);
        let mut known = bytes;
        known.insert(0, 1);
        let _ = Record::decode(&known);
    }

    #[test]
    fn mutated_bytes_never_panic_and_never_pass_unnoticed(
        changes in prop::collection::vec((0..310_usize, any::<u8>()), 1..6), cut in 0..=310_usize,
    ) {
        let mut bytes = GOLDEN.to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        bytes.truncate(cut);
        let read = Record::decode(&bytes).and_then(|record| record.check_bodies());
        if read.is_ok() && bytes != GOLDEN {
            let hash = RecordView::peek(&bytes).unwrap().leaf_hash();
            prop_assert_ne!(hash, RecordView::peek(GOLDEN).unwrap().leaf_hash());
        }
    }
}
