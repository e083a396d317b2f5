//! Rules of joining a log that is being written: a subscriber sees each record once, whenever and wherever it
//! joins.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use proto_events::codec::record::Record;
use proto_events::id::{Position, StreamId, Version};

use crate::api::store::EventStore;
use crate::limits::SUBSCRIBER_BUFFER;
use crate::read::subscription::Subscription;
use crate::testing::conformance::follow_rules::record;
use crate::testing::conformance::rule::rule;
use crate::testing::conformance::sketch::{Author, ok, stream};

/// Number of subscribers that join.
const JOINS: u64 = 60;

/// Positions written during the joins.
const EVENTS: u64 = 3_000;

/// Parts of the append that ends the load; no other append has as many.
const LAST_PARTS: u16 = 3;

pub(crate) async fn run(make: &impl Fn() -> Arc<dyn EventStore>) {
    rule(
        "a_subscriber_that_joins_under_load_gets_each_record_once",
        a_subscriber_that_joins_under_load_gets_each_record_once(make()),
    )
    .await;
    rule(
        "a_slow_subscriber_of_a_stream_is_told_and_misses_nothing",
        a_slow_subscriber_of_a_stream_is_told_and_misses_nothing(make()),
    )
    .await;
}

/// Writes three streams, several events a record, in small and large groups, up to `EVENTS`; then one append
/// to all three, which ends the load.
async fn load(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    let streams: Vec<StreamId> = (0..3).map(|n| stream(&format!("joined-{n}"))).collect();
    for turn in 0_usize.. {
        let count = 1 + turn % 20;
        let appends = streams.iter().cycle().skip(turn).take(count);
        let appends = appends.map(|stream| author.many(&[(stream.clone(), vec![vec![1]; 1 + turn % 3])]));
        let answers: Vec<_> = appends.map(|append| store.append(append)).collect();
        join_all(answers).await.into_iter().for_each(|answer| drop(ok(answer)));
        if ok(store.head()).0 >= EVENTS {
            break;
        }
        tokio::task::yield_now().await;
    }
    let last = streams.into_iter().map(|stream| (stream, vec![vec![1]]));
    ok(store.append(author.many(&last.collect::<Vec<_>>())).await);
}

/// Returns a number below `below` that looks random but depends on the seed only.
fn scattered(seed: u64, below: u64) -> u64 {
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9) % below
}

async fn a_subscriber_that_joins_under_load_gets_each_record_once(store: Arc<dyn EventStore>) {
    let writing = tokio::spawn(load(Arc::clone(&store)));
    let mut followers = Vec::new();
    for number in 0..JOINS {
        // Spread over the load: this subscriber joins when the log has reached this position.
        while ok(store.head()).0 < EVENTS * number / JOINS {
            tokio::task::yield_now().await;
        }
        let store = Arc::clone(&store);
        followers.push(tokio::spawn(async move {
            if number % 3 == 0 {
                let joined = stream(&format!("joined-{}", scattered(number, 3)));
                let end = ok(store.stream_version(&joined)).0;
                follow_stream(store, joined, scattered(number, 200).min(end + 1)).await;
            } else {
                // From earlier positions, and from the next one, which is not written yet.
                let end = ok(store.head()).0;
                let from = scattered(number, 2 * EVENTS * (number + 1) / JOINS).min(end + 1);
                follow_all(store, from).await;
            }
        }));
    }
    ok(writing.await);
    join_all(followers).await.into_iter().for_each(ok);
}

/// Whether this record belongs to the last append of the load, which ends every stream.
fn is_last(record: &Record) -> bool {
    record.parts == LAST_PARTS
}

async fn follow_all(store: Arc<dyn EventStore>, from: u64) {
    let mut all = Subscription::all(store, Position(from));
    let mut next = None;
    loop {
        let stored = record(&mut all, &mut 0).await;
        match next {
            Some(next) => assert_eq!(stored.position.0, next, "no gap, no repeat"),
            None => assert!(stored.last_position().0 >= from && stored.position.0 <= from.max(1)),
        }
        next = Some(stored.last_position().0 + 1);
        if is_last(&stored.record) && stored.record.part + 1 == LAST_PARTS {
            break;
        }
    }
}

async fn follow_stream(store: Arc<dyn EventStore>, of: StreamId, from: u64) {
    let mut one = Subscription::stream(store, of.clone(), Version(from));
    let mut next = None;
    loop {
        let stored = record(&mut one, &mut 0).await;
        assert_eq!(stored.record.stream, of);
        let first = stored.record.first_version.0;
        match next {
            Some(next) => assert_eq!(first, next, "no gap, no repeat"),
            None => assert!(stored.record.last_version().0 >= from && first <= from.max(1)),
        }
        next = Some(stored.record.last_version().0 + 1);
        if is_last(&stored.record) {
            break;
        }
    }
}

async fn a_slow_subscriber_of_a_stream_is_told_and_misses_nothing(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    let (mine, other) = (stream("mine"), stream("other"));
    ok(store.append(author.append_one(&mine, b"first")).await);
    let mut slow = Subscription::stream(Arc::clone(&store), mine.clone(), Version(1));
    let (mut lagged, mut next) = (0, 1);
    for flood in 0..3 {
        while next <= ok(store.stream_version(&mine)).0 {
            let stored = record(&mut slow, &mut lagged).await;
            assert_eq!((&stored.record.stream, stored.record.first_version.0), (&mine, next));
            next += 1;
        }
        assert_eq!(lagged, flood, "it is told once for each flood");
        while !slow.is_live() {
            let nothing = tokio::time::timeout(Duration::from_millis(1), slow.next()).await;
            assert!(nothing.is_err(), "there is nothing to deliver yet");
        }
        // Most of it belongs to another stream, but the subscriber lags all the same.
        let names = (0..2 * SUBSCRIBER_BUFFER).map(|n| if n % 8 == 0 { &mine } else { &other });
        let appends: Vec<_> = names.map(|name| store.append(author.append_one(name, b"flood"))).collect();
        join_all(appends).await.into_iter().for_each(|answer| drop(ok(answer)));
    }
}
