//! Rules of reopening a log in place.

use std::sync::Arc;

use futures_util::future::join_all;
use proto_events::id::{Position, Version};

use crate::api::error::{AppendError, ReadError};
use crate::api::record::Fence;
use crate::api::store::EventStore;
use crate::read::subscription::Subscription;
use crate::testing::conformance::read_rules::check_log;
use crate::testing::conformance::rule::rule;
use crate::testing::conformance::sketch::{Author, ok, stream};

pub(crate) async fn run(make: &impl Fn() -> Arc<dyn EventStore>) {
    rule(
        "a_log_opened_anew_goes_on_where_it_was_under_the_next_epoch",
        a_log_opened_anew_goes_on_where_it_was_under_the_next_epoch(make()),
    )
    .await;
    rule(
        "the_store_before_is_closed_and_its_writer_shut_out",
        the_store_before_is_closed_and_its_writer_shut_out(make()),
    )
    .await;
    rule("a_closed_store_can_be_opened_anew", a_closed_store_can_be_opened_anew(make())).await;
}

/// The number of appends after which an index on disk covers the first ones: two full groups end its first block.
const ENOUGH_FOR_A_BLOCK: u64 = 3_000;

/// Checks the appends that an opening no longer reads. It makes 3,001 of them.
pub(crate) async fn run_many(make: &impl Fn() -> Arc<dyn EventStore>) {
    rule(
        "an_append_before_thousands_of_others_is_known_under_its_fence_in_the_log_opened_anew",
        an_append_before_thousands_of_others_is_known_under_its_fence_in_the_log_opened_anew(make()),
    )
    .await;
}

async fn a_log_opened_anew_goes_on_where_it_was_under_the_next_epoch(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    let appends: Vec<_> = (0..5_u8).map(|n| author.append_one(&stream("a"), &[n])).collect();
    for append in appends.clone() {
        ok(store.append(append).await);
    }
    let before = ok(store.read_all(Position(1), usize::MAX));
    let fence = store.fence();
    let store = ok(store.reopen());
    assert_eq!(store.fence(), Fence { epoch: fence.epoch + 1, ..fence }, "the next epoch");
    assert_eq!(ok(store.read_all(Position(1), usize::MAX)), before, "the same records");
    assert_eq!(ok(store.stream_version(&stream("a"))), Version(5));
    for append in appends {
        let resolved = ok(store.resolve(append.set_id));
        assert_eq!(resolved, Some(ok(store.append(append).await)), "an append from before is known");
    }
    let mut author = author.with_fence(store.fence());
    ok(store.append(author.append_one(&stream("a"), &[5])).await);
    assert_eq!(ok(store.stream_version(&stream("a"))), Version(6));
}

async fn the_store_before_is_closed_and_its_writer_shut_out(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    ok(store.append(author.append_one(&stream("a"), &[0])).await);
    let mut old = Subscription::all(Arc::clone(&store), Position(1));
    assert!(old.next().await.is_some_and(|delivery| delivery.is_ok()));
    let next = ok(store.reopen());
    assert!(old.next().await.is_none(), "a subscription to the store before ends");
    assert_eq!(store.head(), Err(ReadError::Closed));
    let late = author.append_one(&stream("a"), &[1]);
    assert_eq!(store.append(late.clone()).await, Err(AppendError::Closed));
    let fenced = AppendError::Fenced { presented: late.fence, current: next.fence() };
    assert_eq!(next.append(late).await, Err(fenced), "the writer before writes nothing more");
    assert!(store.reopen().is_err(), "the log is open already");
    assert_eq!(ok(next.head()), Position(1));
}

async fn a_closed_store_can_be_opened_anew(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    ok(store.append(author.append_one(&stream("a"), &[0])).await);
    ok(store.close());
    let store = ok(store.reopen());
    assert_eq!(ok(store.head()), Position(1));
    let mut author = author.with_fence(store.fence());
    ok(store.append(author.append_one(&stream("a"), &[1])).await);
}

async fn an_append_before_thousands_of_others_is_known_under_its_fence_in_the_log_opened_anew(
    store: Arc<dyn EventStore>,
) {
    let fence = store.fence();
    let mut author = Author::new(fence);
    let append = author.many(&[(stream("a"), vec![b"x".to_vec()]), (stream("b"), vec![b"y".to_vec(); 2])]);
    let first = ok(store.append(append.clone()).await);
    let many: Vec<_> = (0..ENOUGH_FOR_A_BLOCK)
        .map(|n| store.append(author.append_one(&stream(&format!("many-{}", n % 50)), b"z")))
        .collect();
    join_all(many).await.into_iter().for_each(|answer| drop(ok(answer)));
    ok(store.close());
    let store = ok(store.reopen());
    assert_eq!(store.append(append.clone()).await, Ok(first.clone()), "it is in the log");
    assert_eq!(ok(store.resolve(append.set_id)), Some(first));
    // Never written: the next of a stream, one where the first append is, and one of a stream that is not there.
    let mut other = Author::new(fence).with_sets_from(50_000);
    let next = author.append_one(&stream("a"), b"next");
    for append in [next, other.append_one(&stream("a"), b"x"), other.append_one(&stream("c"), b"x")] {
        let fenced = AppendError::Fenced { presented: fence, current: store.fence() };
        assert_eq!(store.append(append).await, Err(fenced), "the writer before writes nothing more");
    }
    assert_eq!(check_log(&*store), 3 + ENOUGH_FOR_A_BLOCK);
}
