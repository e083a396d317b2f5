//! A storm of readers beside many writers: at the socket, following, and from private copies. Nothing is lost, and nobody is
//! refused. `TASKREEL_STORM_SECS` sets its length in seconds, `TASKREEL_STORM_WRITERS` and `TASKREEL_STORM_READERS` its size.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod store_support;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proto_events::id::Position;
use store_support::quick_dir;
use taskreel_log::api::{EventReader, EventStore, ReadError};
use taskreel_log::read::for_each_page;
use taskreel_log::sled::{ReadOnlyLog, ReadOnlyOptions, SledStore, is_held};
use taskreel_log::socket::{FollowEnd, FollowerItem, LocalSocket, SocketReader};
use taskreel_log::testing::conformance;
use taskreel_log::testing::conformance::{Author, stream};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The work that all readers have done.
#[derive(Default)]
struct Tally {
    verified: AtomicU64,
    followed: AtomicU64,
    copied: AtomicU64,
    acknowledged: AtomicU64,
}

#[test]
fn readers_of_every_kind_beside_many_writers_lose_nothing_and_are_never_refused() {
    let time = Duration::from_secs(setting("TASKREEL_STORM_SECS", 2));
    let (writers, readers) = (setting("TASKREEL_STORM_WRITERS", 32), setting("TASKREEL_STORM_READERS", 12));
    let (dir, scratch) = (quick_dir(), quick_dir());
    let store = Arc::new(SledStore::open(dir.path()).unwrap());
    let socket =
        LocalSocket::open(&store.socket_path(), Arc::clone(&store) as Arc<dyn EventStore>, None).unwrap();
    let (done, tally) = (AtomicBool::new(false), Tally::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let until = Instant::now() + time;
    let acknowledged: Vec<u64> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..readers {
            let (dir, scratch, done, tally) = (dir.path(), scratch.path(), &done, &tally);
            threads.push(scope.spawn(move || match number % 3 {
                0 => verify_at_the_socket(dir, done, tally),
                1 => follow(dir, done, tally),
                _ => read_copies(dir, scratch, done, tally),
            }));
        }
        let tasks: Vec<_> = (0..writers)
            .map(|number| {
                let (store, fence) = (Arc::clone(&store), store.fence());
                runtime.spawn(async move {
                    let mut author = Author::new(fence).with_sets_from(number * 10_000_000 + 1);
                    let name = stream(&format!("writer-{number}"));
                    let mut count = 0;
                    while Instant::now() < until {
                        store.append(author.append_one(&name, &[7; 200])).await.unwrap();
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        let counts: Vec<u64> = tasks.into_iter().map(|task| runtime.block_on(task).unwrap()).collect();
        tally.acknowledged.store(counts.iter().sum(), Ordering::Release);
        done.store(true, Ordering::Release);
        for thread in threads {
            thread.join().unwrap();
        }
        counts
    });
    let all: u64 = acknowledged.iter().sum();
    assert_eq!(conformance::check_log(&SocketReader::connect(dir.path()).unwrap()), all);
    let told = |count: &AtomicU64| count.load(Ordering::Acquire);
    eprintln!(
        "{all} appends of {writers} writers in {time:?}; {} whole readings at the socket, {} records followed, {} copies",
        told(&tally.verified),
        told(&tally.followed),
        told(&tally.copied)
    );
    assert!(all > 0 && told(&tally.verified) > 0 && told(&tally.copied) > 0);
    let socket = socket.shut();
    store.close().unwrap();
    drop(socket);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_log_that_is_closed_in_the_middle_of_a_storm_is_read_to_its_last_record_by_each_follower() {
    let rounds = setting("TASKREEL_STORM_CLOSES", 12);
    for round in 0..rounds {
        let (dir, scratch) = (quick_dir(), quick_dir());
        let store = Arc::new(SledStore::open(dir.path()).unwrap());
        let log = Arc::clone(&store) as Arc<dyn EventStore>;
        let socket = LocalSocket::open(&store.socket_path(), log, None).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let acknowledged = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..8)
            .map(|number| {
                let (store, acknowledged) = (Arc::clone(&store), Arc::clone(&acknowledged));
                runtime.spawn(async move {
                    let mut author = Author::new(store.fence()).with_sets_from(number * 10_000_000 + 1);
                    let name = stream(&format!("writer-{number}"));
                    while let Ok(appended) = store.append(author.append_one(&name, &[7; 4_000])).await {
                        let last = appended.parts.iter().map(|part| part.position.0).max();
                        acknowledged.fetch_max(last.unwrap(), Ordering::AcqRel);
                    }
                })
            })
            .collect();
        let followers: Vec<_> = (0..6)
            .map(|number| {
                let (dir, scratch) = (dir.path().to_owned(), scratch.path().to_owned());
                let acknowledged = Arc::clone(&acknowledged);
                std::thread::spawn(move || {
                    // Some follow the feed at the end, others are still reading the log.
                    while acknowledged.load(Ordering::Acquire) < number * 40 {
                        std::thread::yield_now();
                    }
                    let next = follow_to_the_end(&dir);
                    (next, rest_of_a_copy(&dir, &scratch, next))
                })
            })
            .collect();
        // Closed at another moment each time, in the order of a shutdown: the socket, the log.
        while acknowledged.load(Ordering::Acquire) < 250 + round * 17 {
            std::thread::yield_now();
        }
        let shut = socket.shut();
        store.close().unwrap();
        drop(shut);
        for writer in writers {
            runtime.block_on(writer).unwrap();
        }
        drop(store);
        let acknowledged = acknowledged.load(Ordering::Acquire);
        for follower in followers {
            let (at_socket, end) = follower.join().unwrap();
            assert!(
                end > acknowledged,
                "round {round}: {acknowledged} acknowledged, read to {end}, {at_socket} at the socket"
            );
        }
    }
}

/// Follows the log from its begin until the socket says that it ended, or the link is cut. Returns the position from which the
/// rest follows from a copy.
fn follow_to_the_end(dir: &std::path::Path) -> u64 {
    let mut next = 1;
    let Ok(reader) = SocketReader::connect(dir) else { return next };
    let Ok(mut follower) = reader.follow(Position(1)) else { return next };
    loop {
        match follower.next() {
            Ok(FollowerItem::Record(record)) => {
                assert_eq!(record.position.0, next, "no gap and no repeat");
                next = record.last_position().0 + 1;
            }
            Ok(_) => {}
            Err(FollowEnd::Ended | FollowEnd::Dropped(_)) => return next,
            Err(other) => panic!("{other}"),
        }
    }
}

/// Reads a copy of the closed log from this position. Returns the position behind its last event.
fn rest_of_a_copy(dir: &std::path::Path, scratch: &std::path::Path, from: u64) -> u64 {
    // What the program writes last is in the log once it has let go of it.
    while is_held(dir) {
        std::thread::yield_now();
    }
    let options = ReadOnlyOptions::default().scratch(scratch);
    let log = ReadOnlyLog::open_with(dir, &options).unwrap();
    let mut next = from;
    for_each_page(&log, Position(from), |page| {
        for stored in page {
            assert_eq!(stored.position.0, next, "what follows is there whole");
            next = stored.last_position().0 + 1;
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })
    .unwrap();
    next
}

/// Reads the whole log through the socket, again and again.
fn verify_at_the_socket(dir: &std::path::Path, done: &AtomicBool, tally: &Tally) {
    let reader = SocketReader::connect(dir).unwrap();
    let mut before = 0;
    while !done.load(Ordering::Acquire) {
        let events = check_growing(&reader);
        assert!(events >= before, "{events} after {before}");
        before = events;
        tally.verified.fetch_add(1, Ordering::AcqRel);
    }
}

/// Reads a log that grows meanwhile, and checks positions and chains. Returns the number of events.
fn check_growing(reader: &dyn EventReader) -> u64 {
    let (sure, mut next) = (reader.head().unwrap().0, Position(1));
    let mut ends = std::collections::HashMap::new();
    for_each_page(reader, Position(1), |page| {
        for stored in page {
            let previous = ends.insert(stored.record.stream.clone(), stored.hash).unwrap_or_default();
            assert_eq!((stored.position, stored.record.previous), (next, previous));
            next = Position(stored.last_position().0 + 1);
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })
    .unwrap();
    assert!(next.0 > sure, "what the head covered was read");
    next.0 - 1
}

/// Follows the log from its begin to the last acknowledged event, without gap or repeat.
fn follow(dir: &std::path::Path, done: &AtomicBool, tally: &Tally) {
    let mut follower = SocketReader::connect(dir).unwrap().follow(Position(1)).unwrap();
    let mut next = 1;
    loop {
        if let FollowerItem::Record(record) = follower.next().unwrap() {
            assert_eq!(record.position.0, next);
            next = record.last_position().0 + 1;
            tally.followed.fetch_add(1, Ordering::AcqRel);
        }
        if done.load(Ordering::Acquire) && next > tally.acknowledged.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Reads private copies of the log, one after another.
fn read_copies(dir: &std::path::Path, scratch: &std::path::Path, done: &AtomicBool, tally: &Tally) {
    let options = ReadOnlyOptions::default().scratch(scratch);
    while !done.load(Ordering::Acquire) {
        let log = ReadOnlyLog::open_with(dir, &options).unwrap();
        assert_eq!(log.open_notes(), []);
        assert_eq!(conformance::check_log(&log), log.head().unwrap().0);
        tally.copied.fetch_add(1, Ordering::AcqRel);
    }
}
