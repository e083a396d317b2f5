//! Rules of bodies that do not fit their records.

use std::sync::Arc;

use proto_events::id::{Position, Version};
use proto_events::limits::{CHUNK_BYTES, PAYLOAD_BYTES_MAX};

use crate::api::record::StoredRecord;
use crate::api::store::EventStore;
use crate::limits::RECORD_BYTES_MAX;
use crate::testing::conformance::read_rules::check_log;
use crate::testing::conformance::rule::rule;
use crate::testing::conformance::sketch::{Author, ok, stream};

pub(crate) async fn run(make: &impl Fn() -> Arc<dyn EventStore>) {
    rule(
        "bodies_of_any_size_come_back_to_readers_and_subscribers",
        bodies_of_any_size_come_back_to_readers_and_subscribers(make()),
    )
    .await;
}

async fn bodies_of_any_size_come_back_to_readers_and_subscribers(store: Arc<dyn EventStore>) {
    let sizes = [0, 60_000, 1, RECORD_BYTES_MAX, CHUNK_BYTES * 2, CHUNK_BYTES * 5 + 1, PAYLOAD_BYTES_MAX, 3];
    let body = |number: usize, size: usize| -> Vec<u8> {
        (0..size).map(|at| u8::try_from((at / 7 + number) % 251).unwrap_or_default()).collect()
    };
    let mut author = Author::new(store.fence());
    let mut feed = store.subscribe();
    let mut waiting = Vec::new();
    let mut expected = Vec::new();
    for (number, size) in sizes.into_iter().enumerate() {
        let name = stream(&format!("s{}", number % 3));
        let bodies = vec![body(number, size), body(number + 1, 100), body(number + 2, size / 3)];
        waiting.push(store.append(author.many(&[(name.clone(), bodies.clone())])));
        expected.push((name, bodies));
    }
    for append in waiting {
        ok(append.await);
    }
    let bodies = |stored: &StoredRecord| -> Vec<Vec<u8>> {
        stored
            .record
            .events
            .iter()
            .map(|event| event.body().map(<[u8]>::to_vec).unwrap_or_default())
            .collect()
    };
    let read = ok(store.read_all(Position(1), 100));
    let read: Vec<_> = read.iter().map(|stored| (stored.record.stream.clone(), bodies(stored))).collect();
    assert!(read == expected, "what was read is not what was appended");
    for (name, wanted) in &expected {
        let stored = ok(feed.next().await);
        assert!(stored.record.stream == *name && bodies(&stored) == *wanted, "the feed's {name} is another");
        assert!(ok(store.read_stream(name, Version(1), 9)).iter().any(|stored| bodies(stored) == *wanted));
    }
    assert_eq!(check_log(&*store), 3 * sizes.len() as u64);
}
