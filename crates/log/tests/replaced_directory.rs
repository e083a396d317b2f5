//! The directory of an open log is removed, or another log stands in its place: the store says so and takes no more appends, and the
//! other log stays as it was.
#![cfg(all(feature = "testing", unix))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod store_support;

use std::path::Path;
use std::time::{Duration, Instant};

use proto_events::id::Position;
use store_support::quick_dir;
use taskreel_log::api::{AppendError, EventReader as _, EventStore as _, OpenError};
use taskreel_log::sled::{SledStore, log_header};
use taskreel_log::testing::conformance::{Author, stream};

/// The time within which the store must have noticed.
const WITHIN: Duration = Duration::from_secs(30);

/// Writes until the store takes no more, and returns the reason.
async fn until_refused(store: &SledStore, author: &mut Author) -> String {
    let since = Instant::now();
    loop {
        match store.append(author.append_one(&stream("s"), b"more")).await {
            Ok(_) => assert!(since.elapsed() < WITHIN, "appends are acknowledged that no directory has"),
            Err(AppendError::Poisoned { why }) => return why,
            Err(other) => panic!("{other}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn written(dir: &Path, text: &[u8]) -> (SledStore, Author) {
    let store = SledStore::open(dir).unwrap();
    let mut author = Author::new(store.fence());
    store.append(author.append_one(&stream("s"), text)).await.unwrap();
    (store, author)
}

#[tokio::test]
async fn a_log_whose_directory_is_removed_takes_no_more_appends_and_says_why() {
    let folder = quick_dir();
    let dir = folder.path().join("log");
    let (store, mut author) = written(&dir, b"first").await;
    std::fs::remove_dir_all(&dir).unwrap();
    let why = until_refused(&store, &mut author).await;
    assert!(why.contains("removed, moved or replaced") && why.contains("log"), "{why}");
    assert!(store.close().is_err(), "a close that leaves nothing behind is no success");
    assert!(store.reopen().is_err() && !dir.exists(), "a reopening makes no new log");
}

#[tokio::test]
async fn another_log_in_the_place_of_an_open_one_keeps_its_own_end() {
    let folder = quick_dir();
    let (dir, other) = (folder.path().join("log"), folder.path().join("other"));
    let (restored, _) = written(&other, b"of the other log").await;
    restored.close().unwrap();
    let (store, mut author) = written(&dir, b"first").await;
    std::fs::rename(&dir, folder.path().join("away")).unwrap();
    std::fs::rename(&other, &dir).unwrap();
    let before = std::fs::read(dir.join("HEAD")).unwrap();
    until_refused(&store, &mut author).await;
    assert!(store.close().is_err());
    assert_eq!(std::fs::read(dir.join("HEAD")).unwrap(), before);
    let opened = SledStore::open(&dir).unwrap();
    assert_eq!((opened.head().unwrap().0, opened.open_notes().len()), (1, 0), "{:?}", opened.open_notes());
    opened.close().unwrap();
}

#[tokio::test]
async fn a_reopening_takes_neither_another_log_nor_an_older_state_nor_another_course_but_the_log_that_was_brought_back()
 {
    for case in ["another", "older", "another course"] {
        let is_older = case != "another";
        let folder = quick_dir();
        let [dir, other, away] = ["log", "other", "away"].map(|name| folder.path().join(name));
        let (before, mut author) = written(if is_older { &dir } else { &other }, b"first").await;
        before.close().unwrap();
        let store = if is_older {
            copy(&dir, &other);
            if case == "another course" {
                let beside = SledStore::open(&other).unwrap();
                let mut author = author.clone().with_fence(beside.fence());
                // More than are written until the other one is refused: its end alone does not tell.
                for n in 0..5_000_u32 {
                    beside.append(author.append_one(&stream("s"), &n.to_be_bytes())).await.unwrap();
                }
                beside.close().unwrap();
            }
            let store = SledStore::open(&dir).unwrap();
            author = author.with_fence(store.fence());
            store
        } else {
            let (store, of_store) = written(&dir, b"first").await;
            author = of_store;
            store
        };
        store.append(author.append_one(&stream("s"), b"second")).await.unwrap();
        std::fs::rename(&dir, &away).unwrap();
        std::fs::rename(&other, &dir).unwrap();
        until_refused(&store, &mut author).await;
        let known = log_header(&dir).unwrap();
        for _ in 0..2 {
            let refused = store.reopen().err().unwrap();
            assert!(matches!(refused, OpenError::Replaced { .. }), "{case}: {refused}");
            let is_course = refused.to_string().contains("another record at position");
            assert_eq!(is_course, case == "another course", "{case}: {refused}");
        }
        assert_eq!(log_header(&dir).unwrap().id, known.id);
        std::fs::rename(&dir, &other).unwrap();
        std::fs::rename(&away, &dir).unwrap();
        let reopened = store.reopen().unwrap();
        assert!(reopened.head().unwrap() >= Position(2), "{case}: what was acknowledged is there");
        reopened.close().unwrap();
    }
}

/// Copies the files of a closed log.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test]
async fn a_directory_that_is_moved_behind_a_link_is_the_same_log() {
    let folder = quick_dir();
    let (dir, moved) = (folder.path().join("log"), folder.path().join("moved"));
    let (store, mut author) = written(&dir, b"first").await;
    std::fs::rename(&dir, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &dir).unwrap();
    let head = std::fs::read(moved.join("HEAD")).unwrap();
    let since = Instant::now();
    // Until `HEAD` was written again.
    while std::fs::read(moved.join("HEAD")).unwrap() == head {
        assert!(since.elapsed() < WITHIN);
        store.append(author.append_one(&stream("s"), b"more")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    store.close().unwrap();
}
