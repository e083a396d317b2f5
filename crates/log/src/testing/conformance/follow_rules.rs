//! Rules of following the log.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use proto_events::id::{Position, StreamId, Version};

use crate::api::record::StoredRecord;
use crate::api::store::EventStore;
use crate::limits::SUBSCRIBER_BUFFER;
use crate::read::subscription::{Delivery, Subscription};
use crate::testing::conformance::rule::rule;
use crate::testing::conformance::sketch::{Author, ok, stream};

pub(crate) async fn run(make: &impl Fn() -> Arc<dyn EventStore>) {
    rule(
        "subscribers_that_join_under_load_see_no_gap_and_no_repeat",
        subscribers_that_join_under_load_see_no_gap_and_no_repeat(make()),
    )
    .await;
    rule(
        "a_slow_subscriber_is_told_and_misses_nothing",
        a_slow_subscriber_is_told_and_misses_nothing(make()),
    )
    .await;
    rule(
        "a_subscription_ends_when_the_store_is_closed",
        a_subscription_ends_when_the_store_is_closed(make()),
    )
    .await;
}

/// Appends `count` times, to three streams in turn, 16 at a time.
async fn load(store: Arc<dyn EventStore>, count: usize) {
    let mut author = Author::new(store.fence());
    let streams: Vec<StreamId> = (0..3).map(|n| stream(&format!("s{n}"))).collect();
    let mut turn = streams.iter().cycle();
    for _ in 0..count / 16 {
        let appends = turn.by_ref().take(16).map(|stream| author.many(&[(stream.clone(), vec![vec![1]; 2])]));
        let answers: Vec<_> = appends.map(|append| store.append(append)).collect();
        join_all(answers).await.into_iter().for_each(|answer| drop(ok(answer)));
        tokio::task::yield_now().await;
    }
}

/// Returns the next record, and counts the notices of lagging.
pub(crate) async fn record(subscription: &mut Subscription, lagged: &mut usize) -> Arc<StoredRecord> {
    loop {
        match subscription.next().await {
            Some(Ok(Delivery::Record(record))) => return record,
            Some(Ok(Delivery::Lagged { from, to })) => {
                assert!(from <= to, "{from} to {to}");
                *lagged += 1;
            }
            Some(Err(error)) => panic!("unexpected error: {error}"),
            None => panic!("the subscription ended early"),
        }
    }
}

async fn subscribers_that_join_under_load_see_no_gap_and_no_repeat(store: Arc<dyn EventStore>) {
    const COUNT: usize = 1_600;
    let writing = tokio::spawn(load(Arc::clone(&store), COUNT));
    let mut followers = Vec::new();
    for n in 0..8 {
        let (store, end) = (Arc::clone(&store), 2 * u64::try_from(COUNT).unwrap_or(0));
        while ok(store.head()).0 < n * 100 {
            tokio::task::yield_now().await;
        }
        followers.push(tokio::spawn(async move {
            let mut next = 1 + n * 50;
            let mut all = Subscription::all(store, Position(next));
            while next < end {
                let stored = record(&mut all, &mut 0).await;
                // The first may begin before the requested position.
                assert!(
                    stored.position.0 == next || (next == 1 + n * 50 && stored.last_position().0 >= next)
                );
                next = stored.last_position().0 + 1;
            }
        }));
    }
    let one = stream("s1");
    let mut of_stream = Subscription::stream(Arc::clone(&store), one.clone(), Version(3));
    let mut next = 3;
    let last = 2 * u64::try_from(COUNT / 3).unwrap_or(0);
    while next < last {
        let stored = record(&mut of_stream, &mut 0).await;
        assert_eq!((&stored.record.stream, stored.record.first_version.0), (&one, next));
        next = stored.record.last_version().0 + 1;
    }
    ok(writing.await);
    join_all(followers).await.into_iter().for_each(ok);
}

async fn a_slow_subscriber_is_told_and_misses_nothing(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    let a = stream("a");
    ok(store.append(author.append_one(&a, b"first")).await);
    let mut all = Subscription::all(Arc::clone(&store), Position(1));
    let mut lagged = 0;
    assert_eq!(record(&mut all, &mut lagged).await.position, Position(1));
    // The subscription waits for the live feed before the flood begins, and lags from then on.
    while !all.is_live() {
        let nothing = tokio::time::timeout(Duration::from_millis(1), all.next()).await;
        assert!(nothing.is_err(), "there is nothing to deliver yet");
    }
    let flood: Vec<_> =
        (0..3 * SUBSCRIBER_BUFFER).map(|_| store.append(author.append_one(&a, b"flood"))).collect();
    join_all(flood).await.into_iter().for_each(|answer| drop(ok(answer)));
    let end = ok(store.head()).0;
    for position in 2..=end {
        assert_eq!(record(&mut all, &mut lagged).await.position, Position(position));
    }
    assert!(lagged > 0, "it must be told that it lagged");
}

async fn a_subscription_ends_when_the_store_is_closed(store: Arc<dyn EventStore>) {
    ok(store.append(Author::new(store.fence()).append_one(&stream("a"), b"x")).await);
    let mut all = Subscription::all(Arc::clone(&store), Position(1));
    record(&mut all, &mut 0).await;
    let waiting = tokio::spawn(async move { all.next().await.is_none() });
    tokio::task::yield_now().await;
    ok(store.close());
    assert!(ok(waiting.await), "it must end");
}
