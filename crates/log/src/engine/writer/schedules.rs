//! Tests of the writer, its callers and its subscribers under many schedules. Built under
//! `--cfg shuttle` only, where locks, channels and tasks are scheduled by the crate `shuttle`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod store;

use std::collections::BTreeMap;

use proto_events::id::{Position, StreamId, Version};
use shuttle::future::block_on;
use shuttle::thread;

use self::store::Store;
use super::*;
use crate::api::append::{AppendFuture, AppendPart};
use crate::api::check;
use crate::api::error::{CloseError, ReadError};
use crate::api::feed::Feed;
use crate::api::reader::EventReader;
use crate::api::record::{Fence, StreamInfo};
use crate::api::store::EventStore;
use crate::engine::blocks::{BlockBuilder, Watermark};
use crate::engine::head::Frontier;
use crate::engine::index::Index;
use crate::engine::located_records;
use crate::engine::values::Values;
use crate::read::subscription::{Delivery, Subscription};
use crate::sync::Mutex;
use crate::sync::schedulers::try_interleavings;
use crate::testing::conformance::sketch::{Author, ok, stream};

const FENCE: Fence = Fence { partition: 0, epoch: 1 };

/// Appends to a stream of its own, and returns the set ids and results.
fn append_each(store: &Store, writer: u64, count: u64) -> Vec<([u8; 16], Result<Appended, AppendError>)> {
    let mut author = Author::new(FENCE).with_sets_from(writer * 1_000);
    let mine = stream(&format!("of-{writer}"));
    let appends = (0..count).map(|_| author.append_one(&mine, &[1]));
    appends.map(|append| (append.set_id, block_on(store.append(append)))).collect()
}

fn what_is_acknowledged_can_be_read_at_once(capacity: usize) {
    let store = Store::open(capacity, None);
    let writers: Vec<_> = (1..=3)
        .map(|writer| {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                let mut author = Author::new(FENCE).with_sets_from(writer * 1_000);
                let (mine, other) = (stream(&format!("of-{writer}")), stream(&format!("too-{writer}")));
                for version in 1..=2 {
                    let append =
                        author.many(&[(mine.clone(), vec![vec![1]]), (other.clone(), vec![vec![2]])]);
                    let set_id = append.set_id;
                    let appended = ok(block_on(store.append(append)));
                    let position = appended.parts[1].position;
                    assert!(ok(store.head()) >= position);
                    assert_eq!(ok(store.stream_version(&other)), Version(version));
                    assert_eq!(ok(store.read_stream(&other, Version(version), 9))[0].position, position);
                    assert_eq!(ok(store.resolve(set_id)), Some(appended));
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(ok(store.head()), Position(12));
    store.close().unwrap();
}

#[test]
fn what_is_acknowledged_can_be_read_at_once_under_every_schedule() {
    try_interleavings(|| what_is_acknowledged_can_be_read_at_once(8));
}

#[test]
fn what_is_acknowledged_can_be_read_at_once_with_a_full_queue() {
    try_interleavings(|| what_is_acknowledged_can_be_read_at_once(1));
}

#[test]
fn of_several_appends_at_one_version_exactly_one_succeeds() {
    try_interleavings(|| {
        let store = Store::open(4, None);
        let contended = stream("contended");
        let writers: Vec<_> = (1..=3_u8)
            .map(|writer| {
                let (store, contended) = (Arc::clone(&store), contended.clone());
                thread::spawn(move || {
                    let mut author = Author::new(FENCE).with_sets_from(u64::from(writer) * 1_000);
                    block_on(store.append(author.append_one(&contended, &[writer])))
                })
            })
            .collect();
        let answers: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
        let lost = answers
            .iter()
            .filter(|answer| matches!(answer, Err(AppendError::Conflict { actual: Version(1), .. })));
        assert_eq!(lost.count(), 2, "{answers:?}");
        assert_eq!(ok(store.head()), Position(1));
        store.close().unwrap();
    });
}

/// Follows the log from a position to its end, while it is written.
fn follow(store: Arc<Store>, from: u64, end: u64) {
    block_on(async move {
        let mut all = Subscription::all(store, Position(from));
        let mut next = from;
        while next <= end {
            match all.next().await.unwrap().unwrap() {
                Delivery::Record(record) => {
                    assert_eq!(record.position.0, next, "positions have no gap and no repeat");
                    next += 1;
                }
                Delivery::Lagged { from, to } => assert!(from.0 == next && to.0 >= next, "{from} to {to}"),
            }
        }
    });
}

#[test]
fn a_subscriber_that_joins_during_writes_gets_each_record_once() {
    try_interleavings(|| {
        let store = Store::open(2, None);
        // A follower may begin with the next position of the log, and with none behind that.
        for (_, answer) in append_each(&store, 3, 2) {
            ok(answer);
        }
        let writing: Vec<_> = (1..=2)
            .map(|writer| {
                let store = Arc::clone(&store);
                thread::spawn(move || {
                    for (_, answer) in append_each(&store, writer, 4) {
                        ok(answer);
                    }
                })
            })
            .collect();
        let following: Vec<_> = [1, 3]
            .map(|from| {
                let store = Arc::clone(&store);
                thread::spawn(move || follow(store, from, 10))
            })
            .into();
        writing.into_iter().chain(following).for_each(|thread| thread.join().unwrap());
        store.close().unwrap();
    });
}

#[test]
fn a_subscriber_of_one_stream_gets_each_of_its_records_once_and_the_end() {
    try_interleavings(|| {
        let store = Store::open(2, None);
        let following = {
            let store: Arc<dyn EventStore> = Arc::clone(&store) as Arc<dyn EventStore>;
            thread::spawn(move || {
                block_on(async move {
                    let mut one = Subscription::stream(store, stream("of-1"), Version(1));
                    let mut next = 1;
                    while let Some(delivery) = one.next().await {
                        if let Delivery::Record(record) = delivery.unwrap() {
                            assert_eq!(
                                record.record.first_version,
                                Version(next),
                                "positions have no gap and no repeat"
                            );
                            next += 1;
                        }
                    }
                    next
                })
            })
        };
        let writing: Vec<_> = (1..=2)
            .map(|writer| {
                let store = Arc::clone(&store);
                thread::spawn(move || append_each(&store, writer, 3).len())
            })
            .collect();
        for thread in writing {
            assert_eq!(thread.join().unwrap(), 3);
        }
        store.close().unwrap();
        // The follower may have been cut short by the end, but must not have missed a record in the middle.
        assert!(following.join().unwrap() <= 4);
    });
}

#[test]
fn closing_during_appends_answers_each_caller_and_keeps_acknowledged_appends() {
    try_interleavings(|| {
        let store = Store::open(1, None);
        let writing: Vec<_> = (1..=3)
            .map(|writer| {
                let store = Arc::clone(&store);
                thread::spawn(move || append_each(&store, writer, 3))
            })
            .collect();
        let closing = {
            let store = Arc::clone(&store);
            thread::spawn(move || store.close().unwrap())
        };
        let answers: Vec<_> = writing.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        closing.join().unwrap();
        assert_eq!(answers.len(), 9, "each append has a result");
        for (set_id, answer) in answers {
            match answer {
                Ok(appended) => assert_eq!(ok(store.resolve(set_id)), Some(appended)),
                Err(AppendError::Closed) => assert!(!store.has(set_id), "a refused append is not in the log"),
                Err(other) => panic!("unexpected: {other}"),
            }
        }
    });
}

#[test]
fn after_a_failed_sync_no_caller_waits_and_no_lost_record_is_shown() {
    try_interleavings(|| {
        let store = Store::open(2, Some(2));
        let writing: Vec<_> = (1..=3)
            .map(|writer| {
                let store = Arc::clone(&store);
                thread::spawn(move || append_each(&store, writer, 2))
            })
            .collect();
        let answers: Vec<_> = writing.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let head = ok(store.head());
        let mut acknowledged = 0;
        for (set_id, answer) in answers {
            match answer {
                Ok(_) => {
                    acknowledged += 1;
                    assert!(store.has(set_id));
                }
                Err(
                    AppendError::Ambiguous { .. }
                    | AppendError::Poisoned { .. }
                    | AppendError::Conflict { .. }
                    | AppendError::Invalid { .. },
                ) => assert!(!store.has(set_id), "a failed append is not shown"),
                Err(other) => panic!("unexpected: {other}"),
            }
        }
        assert_eq!(head.0, acknowledged);
        assert!(store.shared.poisoned.get().is_some());
        store.close().unwrap();
    });
}
