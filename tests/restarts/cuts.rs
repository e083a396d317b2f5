//! Logs taken apart: append by append, or event by event, and the first part of one as a log of its own.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::collections::HashMap;
use std::sync::Arc;

use proto_events::codec::record::{EncodedRecord, EventBody, RecordDraft};
use proto_events::id::{Category, Digest, ExpectedVersion, Position, StreamId, Version};
use taskreel_log::api::{Append, AppendPart, EventReader, EventStore, StoredRecord};
use taskreel_log::memory::MemoryStore;

/// Returns the records of tasks, sessions and tools: those of starts are each process's own.
pub(crate) fn of_work(store: &dyn EventReader) -> Vec<StoredRecord> {
    let mut records = store.read_all(Position(1), usize::MAX).unwrap();
    let own = [Some(Category::System), Some(Category::Agent)];
    records.retain(|stored| !own.contains(&stored.record.stream.category()));
    records
}

/// Returns the appends of a log, in order: the records of one set together.
pub(crate) fn appends(store: &dyn EventReader) -> Vec<Vec<StoredRecord>> {
    let mut sets: Vec<Vec<StoredRecord>> = Vec::new();
    for record in of_work(store) {
        match sets.last_mut() {
            Some(set) if set[0].record.set_id == record.record.set_id => set.push(record),
            _ => sets.push(vec![record]),
        }
    }
    sets
}

pub(crate) async fn copy(sets: &[Vec<StoredRecord>]) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    for set in sets {
        let parts = set.iter().map(|stored| AppendPart {
            stream: stored.record.stream.clone(),
            expected: ExpectedVersion::exactly(Version(stored.record.first_version.0 - 1)),
            record: EncodedRecord::from_bytes(&stored.bytes).unwrap(),
        });
        let append = Append { fence: store.fence(), set_id: set[0].record.set_id, parts: parts.collect() };
        store.append(append).await.unwrap();
    }
    // The log that the next process finds.
    Arc::new(store.reopened().unwrap())
}

/// Returns the log with each event as an append of its own, so that a process may die after every single one.
pub(crate) async fn event_by_event(records: &[StoredRecord]) -> Vec<Vec<StoredRecord>> {
    let store = Arc::new(MemoryStore::new());
    let mut previous: HashMap<StreamId, Digest> = HashMap::new();
    let mut set = 0_u128;
    for stored in records {
        let record = &stored.record;
        for (event, version) in record.events.iter().zip(record.first_version.0..) {
            set += 1;
            let body = event.body().unwrap().to_vec();
            let draft = RecordDraft {
                stream: record.stream.clone(),
                first_version: Version(version),
                set_id: set.to_be_bytes(),
                part: 0,
                parts: 1,
                partition: 0,
                epoch: 1,
                metadata: record.metadata.clone(),
                fields: Vec::new(),
                previous: previous.get(&record.stream).copied().unwrap_or_default(),
                events: vec![EventBody { kind: event.kind, schema: event.schema, salt: [1; 16], body }],
            };
            let encoded = draft.encode().unwrap();
            previous.insert(record.stream.clone(), encoded.hash());
            let expected = ExpectedVersion::exactly(Version(version - 1));
            let part = AppendPart { stream: record.stream.clone(), expected, record: encoded };
            let append = Append { fence: store.fence(), set_id: set.to_be_bytes(), parts: vec![part] };
            store.append(append).await.unwrap();
        }
    }
    appends(store.as_ref())
}
