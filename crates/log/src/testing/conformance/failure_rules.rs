//! Rules of failing: what callers get, what readers are shown, and what a reopening finds.

use std::sync::Arc;

use futures_util::future::join_all;
use proto_events::id::{Position, Version};

use crate::api::append::Append;
use crate::api::error::{AppendError, CloseError, ReadError};
use crate::api::store::EventStore;
use crate::testing::conformance::page_rules::check_pages;
use crate::testing::conformance::read_rules::check_log;
use crate::testing::conformance::rule::rule;
use crate::testing::conformance::sketch::{Author, ok, stream};
use crate::testing::faulty::FaultyStore;
use crate::testing::faulty::plan::{AppendFault, Faults, ReadFault};

pub(crate) async fn run(make: &impl Fn() -> Arc<dyn EventStore>) {
    for (fault, lands) in [
        (AppendFault::BeforeWrite, false),
        (AppendFault::AfterWrite, true),
        (AppendFault::LoseAnswer, true),
        (AppendFault::TearGroup { landing: 0 }, false),
        (AppendFault::TearGroup { landing: 1 }, true),
        (AppendFault::OutOfSpace, false),
    ] {
        rule(
            "after_a_failed_write_the_log_says_what_it_holds",
            after_a_failed_write_the_log_says_what_it_holds(make(), fault, lands),
        )
        .await;
    }
    rule("of_a_torn_group_each_append_is_there_or_not", of_a_torn_group_each_append_is_there_or_not(make()))
        .await;
    rule("a_full_disk_stays_full_until_there_is_room", a_full_disk_stays_full_until_there_is_room(make()))
        .await;
    rule(
        "what_is_spoilt_on_reading_is_noticed_whatever_the_bit",
        what_is_spoilt_on_reading_is_noticed_whatever_the_bit(make()),
    )
    .await;
}

fn several(author: &mut Author) -> Append {
    author.many(&[(stream("a"), vec![vec![1]; 2]), (stream("new"), vec![vec![2]])])
}

/// Returns the same append as another process would send it: with that process's fence.
fn again(author: &Author, store: &dyn EventStore) -> Append {
    several(&mut author.clone().with_fence(store.fence()))
}

async fn after_a_failed_write_the_log_says_what_it_holds(
    disk: Arc<dyn EventStore>,
    fault: AppendFault,
    lands: bool,
) {
    let faults = Faults::none();
    let store: Arc<dyn EventStore> = Arc::new(FaultyStore::new(disk, faults.clone()));
    let mut author = Author::new(store.fence());
    for turn in 0..8_u8 {
        ok(store.append(author.append_one(&stream(&format!("{}", turn % 3)), &[turn])).await);
    }
    ok(store.append(author.append_one(&stream("a"), b"before")).await);
    let before = ok(store.read_all(Position(1), usize::MAX));
    let mut feed = store.subscribe();
    let writer = author.clone();
    let failing = several(&mut author);
    assert_eq!(store.poisoned(), None);
    faults.at_next_append(fault);
    let answer = store.append(failing.clone()).await;
    assert!(store.poisoned().is_some(), "{fault:?}: known before the next append");
    match (fault, &answer) {
        (AppendFault::BeforeWrite | AppendFault::OutOfSpace, Err(AppendError::NotWritten { .. })) => {}
        (AppendFault::BeforeWrite | AppendFault::OutOfSpace, _) => panic!("{fault:?}: {answer:?}"),
        (_, Err(AppendError::Ambiguous { .. })) => {}
        _ => panic!("{fault:?}: {answer:?}"),
    }
    for _ in 0..3 {
        let late = store.append(author.clone().append_one(&stream("b"), b"late")).await;
        assert!(matches!(late, Err(AppendError::Poisoned { .. })), "{fault:?}: {late:?}");
    }
    if fault == AppendFault::LoseAnswer {
        assert_eq!(ok(feed.next().await).record.set_id, failing.set_id, "durable, and shown");
    } else {
        check_pages(store.as_ref(), &before);
        assert_eq!(ok(store.resolve(failing.set_id)), None, "{fault:?}");
    }
    assert!(matches!(store.close(), Err(CloseError::Poisoned { .. })), "{fault:?}");

    faults.free_space();
    faults.refuse_next_opening();
    assert!(store.reopen().is_err(), "opening may fail, and be tried again");
    let store = ok(store.reopen());
    let resolved = ok(store.resolve(failing.set_id));
    assert_eq!(resolved.is_some(), lands, "{fault:?}");
    let repeated = ok(store.append(again(&writer, store.as_ref())).await);
    assert_eq!(resolved.unwrap_or_else(|| repeated.clone()), repeated, "{fault:?}: the first answer again");
    assert_eq!(check_log(store.as_ref()), 12, "{fault:?}: it is there once");
    let mut author = author.with_fence(store.fence());
    let last = ok(store.read_stream(&stream("a"), Version(3), 1));
    for last in &last {
        author.learn(last);
    }
    ok(store.append(author.append_one(&stream("a"), b"on it goes")).await);
    assert_eq!(ok(store.stream_version(&stream("a"))), Version(4));
    ok(store.close());
}

async fn of_a_torn_group_each_append_is_there_or_not(disk: Arc<dyn EventStore>) {
    let faults = Faults::none();
    let store: Arc<dyn EventStore> = Arc::new(FaultyStore::new(disk, faults.clone()));
    let mut author = Author::new(store.fence());
    ok(store.append(author.append_one(&stream("a"), b"before")).await);
    faults.at_next_append(AppendFault::TearGroup { landing: 3 });
    let group: Vec<_> = (0..6).map(|n| author.append_one(&stream("a"), &[n])).collect();
    let answers = join_all(group.iter().cloned().map(|append| store.append(append))).await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(AppendError::Ambiguous { .. }))), "{answers:?}");
    assert_eq!((check_log(store.as_ref()), ok(store.head())), (1, Position(1)));
    let late = store.append(author.append_one(&stream("b"), b"late")).await;
    assert!(matches!(late, Err(AppendError::Poisoned { .. })), "{late:?}");
    assert!(store.close().is_err());
    let store = ok(store.reopen());
    let there: Vec<bool> = group.iter().map(|append| ok(store.resolve(append.set_id)).is_some()).collect();
    assert_eq!(there, [true, true, true, false, false, false]);
    assert_eq!(check_log(store.as_ref()), 4);
    ok(store.close());
}

async fn a_full_disk_stays_full_until_there_is_room(disk: Arc<dyn EventStore>) {
    let faults = Faults::none();
    let mut store: Arc<dyn EventStore> = Arc::new(FaultyStore::new(disk, faults.clone()));
    let mut author = Author::new(store.fence());
    ok(store.append(author.append_one(&stream("a"), b"there was room")).await);
    faults.fill_disk();
    for round in 0..3 {
        let mut writer = author.clone().with_fence(store.fence());
        let refused = store.append(writer.append_one(&stream("a"), b"no room")).await;
        assert!(matches!(refused, Err(AppendError::NotWritten { .. })), "round {round}: {refused:?}");
        assert_eq!(check_log(store.as_ref()), 1, "what was acknowledged can be read");
        store = ok(store.reopen());
    }
    faults.free_space();
    let mut writer = author.with_fence(store.fence());
    ok(store.append(writer.append_one(&stream("a"), b"room")).await);
    assert_eq!(check_log(store.as_ref()), 2);
    ok(store.close());
}

async fn what_is_spoilt_on_reading_is_noticed_whatever_the_bit(disk: Arc<dyn EventStore>) {
    let faults = Faults::none();
    let store: Arc<dyn EventStore> = Arc::new(FaultyStore::new(disk, faults.clone()));
    let mut author = Author::new(store.fence());
    ok(store.append(author.append_one(&stream("a"), b"one")).await);
    ok(store.append(author.append_one(&stream("b"), b"two")).await);
    let intact = ok(store.read_all(Position(1), 9));
    let bytes: usize = intact.iter().map(|stored| stored.bytes.len()).sum();
    for bit in 0..8 * bytes {
        faults.at_next_read(ReadFault::FlipBit { bit });
        let place = intact.get(usize::from(bit / 8 >= intact.first().map_or(0, |first| first.bytes.len())));
        match store.read_all(Position(1), 9) {
            Err(ReadError::Corrupt { stream, version, position, .. }) => {
                assert_eq!(stream.as_ref(), place.map(|stored| &stored.record.stream), "bit {bit}");
                assert_eq!((version, position), (Some(Version(1)), place.map(|stored| stored.position)));
            }
            other => panic!("bit {bit}: {other:?}"),
        }
    }
    faults.at_next_read(ReadFault::Refuse);
    assert!(matches!(store.read_stream(&stream("a"), Version(1), 1), Err(ReadError::Io(_))));
    assert_eq!(ok(store.read_all(Position(1), 9)), intact, "the disk itself was not touched");
    ok(store.close());
}
