//! Rules of reopening a log in place.

use std::sync::Arc;

use proto_events::id::{Position, Version};

use crate::api::error::{AppendError, ReadError};
use crate::api::record::Fence;
use crate::api::store::EventStore;
use crate::read::subscription::Subscription;
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

async fn a_log_opened_anew_goes_on_where_it_was_under_the_next_epoch(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    let appends: Vec<_> = (0..5_u8).map(|n| author.one(&stream("a"), &[n])).collect();
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
    ok(store.append(author.one(&stream("a"), &[5])).await);
    assert_eq!(ok(store.stream_version(&stream("a"))), Version(6));
}

async fn the_store_before_is_closed_and_its_writer_shut_out(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    ok(store.append(author.one(&stream("a"), &[0])).await);
    let mut old = Subscription::all(Arc::clone(&store), Position(1));
    assert!(old.next().await.is_some_and(|delivery| delivery.is_ok()));
    let next = ok(store.reopen());
    assert!(old.next().await.is_none(), "a subscription to the store before ends");
    assert_eq!(store.head(), Err(ReadError::Closed));
    let late = author.one(&stream("a"), &[1]);
    assert_eq!(store.append(late.clone()).await, Err(AppendError::Closed));
    let fenced = AppendError::Fenced { presented: late.fence, current: next.fence() };
    assert_eq!(next.append(late).await, Err(fenced), "the writer before writes nothing more");
    assert!(store.reopen().is_err(), "the log is open already");
    assert_eq!(ok(next.head()), Position(1));
}

async fn a_closed_store_can_be_opened_anew(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    ok(store.append(author.one(&stream("a"), &[0])).await);
    ok(store.close());
    let store = ok(store.reopen());
    assert_eq!(ok(store.head()), Position(1));
    let mut author = author.with_fence(store.fence());
    ok(store.append(author.one(&stream("a"), &[1])).await);
}
