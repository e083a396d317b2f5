//! Rules of failing: what a caller hears, what readers are shown, and what is found when the log is opened again.

use std::sync::Arc;

use futures_util::future::join_all;
use proto_events::id::{Position, Version};

use crate::store::{
    Append, AppendError, AppendFault, CloseError, EventReader as _, EventStore as _, Faults, FaultyStore,
    ReadError, ReadFault,
};

use super::{Author, Opener, check_log, check_pages, ok, stream};

pub(super) async fn run(make: &impl Fn() -> Opener) {
    for (fault, lands) in [
        (AppendFault::BeforeWrite, false),
        (AppendFault::AfterWrite, true),
        (AppendFault::LoseAnswer, true),
        (AppendFault::TearGroup { landing: 0 }, false),
        (AppendFault::TearGroup { landing: 1 }, true),
        (AppendFault::OutOfSpace, false),
    ] {
        after_a_failed_write_the_log_says_what_it_holds(make(), fault, lands).await;
    }
    of_a_torn_group_each_append_is_there_or_not(make()).await;
    a_full_disk_stays_full_until_there_is_room(make()).await;
    what_is_spoilt_on_reading_is_noticed_whatever_the_bit(make()).await;
}

/// The log that one scenario is about.
struct Disk {
    open: Opener,
    faults: Faults,
}

impl Disk {
    fn new(open: Opener) -> Self {
        Self { open, faults: Faults::none() }
    }

    fn open(&mut self) -> Arc<FaultyStore> {
        Arc::new(FaultyStore::new((self.open)(), self.faults.clone()))
    }
}

fn several(author: &mut Author) -> Append {
    author.many(&[(stream("a"), vec![vec![1]; 2]), (stream("new"), vec![vec![2]])])
}

/// The same append as another process would send it: under the fence that it was given.
fn again(author: &Author, store: &FaultyStore) -> Append {
    several(&mut author.clone().with_fence(store.fence()))
}

async fn after_a_failed_write_the_log_says_what_it_holds(open: Opener, fault: AppendFault, lands: bool) {
    let mut disk = Disk::new(open);
    let store = disk.open();
    let mut author = Author::new(store.fence());
    for turn in 0..8_u8 {
        ok(store.append(author.one(&stream(&format!("{}", turn % 3)), &[turn])).await);
    }
    ok(store.append(author.one(&stream("a"), b"before")).await);
    let before = ok(store.read_all(Position(1), usize::MAX));
    let mut feed = store.subscribe();
    let writer = author.clone();
    let failing = several(&mut author);
    disk.faults.at_next_append(fault);
    let answer = store.append(failing.clone()).await;
    match (fault, &answer) {
        (AppendFault::BeforeWrite | AppendFault::OutOfSpace, Err(AppendError::NotWritten { .. })) => {}
        (AppendFault::BeforeWrite | AppendFault::OutOfSpace, _) => panic!("{fault:?}: {answer:?}"),
        (_, Err(AppendError::Ambiguous { .. })) => {}
        _ => panic!("{fault:?}: {answer:?}"),
    }
    for _ in 0..3 {
        let late = store.append(author.clone().one(&stream("b"), b"late")).await;
        assert!(matches!(late, Err(AppendError::Poisoned { .. })), "{fault:?}: {late:?}");
    }
    if fault == AppendFault::LoseAnswer {
        assert_eq!(ok(feed.next().await).record.set_id, failing.set_id, "durable, and shown");
    } else {
        check_pages(store.as_ref(), &before);
        assert_eq!(ok(store.resolve(failing.set_id)), None, "{fault:?}");
    }
    assert!(matches!(store.close(), Err(CloseError::Poisoned { .. })), "{fault:?}");
    drop(store);

    disk.faults.free_space();
    let store = disk.open();
    let resolved = ok(store.resolve(failing.set_id));
    assert_eq!(resolved.is_some(), lands, "{fault:?}");
    let repeated = ok(store.append(again(&writer, &store)).await);
    assert_eq!(resolved.unwrap_or_else(|| repeated.clone()), repeated, "{fault:?}: the first answer again");
    assert_eq!(check_log(store.as_ref()), 12, "{fault:?}: it is there once");
    let mut author = author.with_fence(store.fence());
    let last = ok(store.read_stream(&stream("a"), Version(3), 1));
    last.iter().for_each(|last| author.learn(last));
    ok(store.append(author.one(&stream("a"), b"on it goes")).await);
    assert_eq!(ok(store.stream_version(&stream("a"))), Version(4));
    ok(store.close());
}

async fn of_a_torn_group_each_append_is_there_or_not(open: Opener) {
    let mut disk = Disk::new(open);
    let store = disk.open();
    let mut author = Author::new(store.fence());
    ok(store.append(author.one(&stream("a"), b"before")).await);
    disk.faults.at_next_append(AppendFault::TearGroup { landing: 3 });
    let group: Vec<_> = (0..6).map(|n| author.one(&stream("a"), &[n])).collect();
    let answers = join_all(group.iter().cloned().map(|append| store.append(append))).await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(AppendError::Ambiguous { .. }))), "{answers:?}");
    assert_eq!((check_log(store.as_ref()), ok(store.head())), (1, Position(1)));
    let late = store.append(author.one(&stream("b"), b"late")).await;
    assert!(matches!(late, Err(AppendError::Poisoned { .. })), "{late:?}");
    assert!(store.close().is_err());
    drop(store);
    let store = disk.open();
    let there: Vec<bool> = group.iter().map(|append| ok(store.resolve(append.set_id)).is_some()).collect();
    assert_eq!(there, [true, true, true, false, false, false]);
    assert_eq!(check_log(store.as_ref()), 4);
    ok(store.close());
}

async fn a_full_disk_stays_full_until_there_is_room(open: Opener) {
    let mut disk = Disk::new(open);
    let mut author = None;
    for round in 0..3_u64 {
        let store = disk.open();
        let mut writer: Author = author.take().unwrap_or_else(|| Author::new(store.fence()));
        writer = writer.with_fence(store.fence());
        if round == 0 {
            ok(store.append(writer.one(&stream("a"), b"there was room")).await);
            disk.faults.fill_disk();
        }
        let refused = store.append(writer.clone().one(&stream("a"), b"no room")).await;
        assert!(matches!(refused, Err(AppendError::NotWritten { .. })), "round {round}: {refused:?}");
        assert_eq!(check_log(store.as_ref()), 1, "what was acknowledged can be read");
        assert!(store.close().is_err());
        author = Some(writer);
    }
    disk.faults.free_space();
    let store = disk.open();
    let mut writer = author.map(|author| author.with_fence(store.fence())).expect("each round leaves one");
    ok(store.append(writer.one(&stream("a"), b"room")).await);
    assert_eq!(check_log(store.as_ref()), 2);
    ok(store.close());
}

async fn what_is_spoilt_on_reading_is_noticed_whatever_the_bit(open: Opener) {
    let mut disk = Disk::new(open);
    let store = disk.open();
    let mut author = Author::new(store.fence());
    ok(store.append(author.one(&stream("a"), b"one")).await);
    ok(store.append(author.one(&stream("b"), b"two")).await);
    let intact = ok(store.read_all(Position(1), 9));
    let bytes: usize = intact.iter().map(|stored| stored.bytes.len()).sum();
    for bit in 0..8 * bytes {
        disk.faults.at_next_read(ReadFault::FlipBit { bit });
        let place = intact.get(usize::from(bit / 8 >= intact.first().map_or(0, |first| first.bytes.len())));
        match store.read_all(Position(1), 9) {
            Err(ReadError::Corrupt { stream, version, position, .. }) => {
                assert_eq!(stream.as_ref(), place.map(|stored| &stored.record.stream), "bit {bit}");
                assert_eq!((version, position), (Some(Version(1)), place.map(|stored| stored.position)));
            }
            other => panic!("bit {bit}: {other:?}"),
        }
    }
    disk.faults.at_next_read(ReadFault::Refuse);
    assert!(matches!(store.read_stream(&stream("a"), Version(1), 1), Err(ReadError::Io(_))));
    assert_eq!(ok(store.read_all(Position(1), 9)), intact, "the disk itself was not touched");
    ok(store.close());
}
