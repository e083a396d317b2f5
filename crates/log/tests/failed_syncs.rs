//! A failed sync: what it should have made durable is not on the disk, and the operating system neither writes
//! it again nor says so a second time, while reading shows the data. Nothing is said to be in the log then
//! before it was written and synced again.
//!
//! strace lets one sync of a real process fail. The disk of the tests of power loss keeps nothing of what was
//! unsynced then.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    dead_code,
    reason = "in a test a panic is the answer, in helpers too; it borrows from the tests of power loss"
)]

#[path = "../../../tests/crash/dice.rs"]
mod dice;
#[path = "power_loss/disk.rs"]
mod disk;
mod store_support;
mod traced;

use std::path::Path;

use dice::Dice;
use disk::{Disk, Fate};
use proto_events::id::Position;
use store_support::{quick_dir, runtime};
use taskreel_log::api::{AppendError, Durability, EventReader as _, EventStore};
use taskreel_log::sled::{Head, SledOptions, SledStore};
use taskreel_log::testing::conformance::{Author, stream};
use traced::{Call, Deed};

/// The set id of the append whose sync fails.
const FAILED: u64 = 700;

/// The number of the writer's sync that fails.
const FAILING_SYNC: u32 = 4;

/// Entry of the traced process; not a test of its own.
#[test]
fn the_traced_child() {
    let Some((dir, work)) = traced::told() else {
        return;
    };
    match work.as_str() {
        "make" => make(&dir),
        "fail, reopen" => {
            let store = fail(&dir);
            let reopened = store.reopen().unwrap();
            tell_verdict(&*reopened);
            go_on(&*reopened);
            reopened.close().unwrap();
        }
        "fail, end" => {
            let store = fail(&dir);
            traced::say("ENDED");
            std::mem::forget(store);
        }
        "look" => {
            let store = SledStore::open(&dir).unwrap();
            tell_verdict(&store);
            store.close().unwrap();
        }
        "os" => os(&dir),
        other => panic!("{other}"),
    }
}

fn make(dir: &Path) {
    let store = SledStore::open(dir).unwrap();
    let mut author = Author::new(store.fence());
    for n in 0..4_u8 {
        store_support::append(&store, author.append_one(&stream("acknowledged"), &[n; 3_000]));
        traced::say(&format!("ACK {}", n + 1));
    }
    store.close().unwrap();
}

/// Appends until a sync fails. strace counts for each thread: the writer of a reopened log makes fewer syncs
/// than this one.
fn fail(dir: &Path) -> SledStore {
    let store = SledStore::open(dir).unwrap();
    let mut before = Author::new(store.fence()).with_sets_from(FAILED * 3);
    for n in 1..FAILING_SYNC {
        store_support::append(&store, before.append_one(&stream("before"), b"x"));
        traced::say(&format!("ACK {}", 4 + n));
    }
    let mut author = Author::new(store.fence()).with_sets_from(FAILED);
    let append = author.append_one(&stream("in-doubt"), &vec![9; 200_000]);
    let error = runtime().block_on(store.append(append)).unwrap_err();
    assert!(matches!(error, AppendError::Ambiguous { .. }), "{error}");
    store
}

fn set_id() -> [u8; 16] {
    let mut author = Author::new(taskreel_log::api::Fence { partition: 0, epoch: 0 }).with_sets_from(FAILED);
    author.append_one(&stream("any"), b"").set_id
}

fn tell_verdict(store: &dyn EventStore) {
    let landed = store.resolve(set_id()).unwrap().is_some();
    traced::say(if landed { "LANDED" } else { "NOT THERE" });
}

fn go_on(store: &dyn EventStore) {
    let mut author = Author::new(store.fence()).with_sets_from(FAILED * 2);
    runtime().block_on(store.append(author.append_one(&stream("later"), b"x"))).unwrap();
    traced::say("LATER");
}

/// Appends with durability `os` until an append is refused, or `HEAD` was rewritten over it.
fn os(dir: &Path) {
    let options = SledOptions { durability: Some(Durability::Os), ..SledOptions::default() };
    let store = SledStore::open_with(dir, options).unwrap();
    let mut author = Author::new(store.fence());
    loop {
        let append = author.append_one(&stream("acknowledged"), &[1; 500]);
        match runtime().block_on(store.append(append)) {
            Ok(_) if Head::read(dir).unwrap().is_some_and(|head| head.position > Position(0)) => {
                traced::say("VOUCHED");
                break;
            }
            Ok(_) => {}
            Err(error) => {
                traced::say(&format!("REFUSED {error}"));
                break;
            }
        }
    }
    let closed = store.close();
    traced::say(&format!("CLOSED {closed:?}"));
}

fn said(calls: &[Call]) -> Vec<&str> {
    calls
        .iter()
        .filter_map(|call| match &call.deed {
            Deed::Said(line) => Some(line.as_str()),
            _ => None,
        })
        .collect()
}

/// Opens the log that is left at this moment if the power fails. Returns whether the append in doubt is there,
/// and the number of records.
fn after_power_loss(disk: &Disk, dir: &Path) -> (bool, usize) {
    disk.after(Fate::Lost, &mut Dice::new(1), dir);
    let store =
        SledStore::open(dir).unwrap_or_else(|why| panic!("it does not open after a power loss: {why}"));
    let landed = store.resolve(set_id()).unwrap().is_some();
    let count = store.read_all(Position(1), usize::MAX).unwrap().len();
    store.close().unwrap();
    (landed, count)
}

/// Plays the calls to the disk, and lets the power fail at each verdict and acknowledgement.
fn play(calls: &[Call], disk: &mut Disk, state: &Path) -> usize {
    let (mut checked, mut acknowledged) = (0, 0);
    for call in calls {
        disk.take(call);
        let Deed::Said(line) = &call.deed else { continue };
        let (landed, count) = match line.split(' ').next().unwrap() {
            "LANDED" | "LATER" | "ACK" | "NOT" => after_power_loss(disk, state),
            _ => continue,
        };
        checked += 1;
        acknowledged += usize::from(line != "NOT THERE");
        assert!(line != "LANDED" || landed, "it was said to be in the log, and was not on the disk");
        assert!(count >= acknowledged, "{line}: {count} of {acknowledged} are left");
    }
    checked
}

/// Returns the calls of a process of which a sync of the writer fails.
fn failing(dir: &Path, work: &str, number: u32) -> Vec<Call> {
    let inject = format!("inject=fdatasync:error=EIO:when={number}");
    let calls = traced::watch_with(dir, work, &["-e", &inject]);
    assert!(calls.iter().any(|call| matches!(call.deed, Deed::SyncFailed { .. })), "no sync failed: {work}");
    calls
}

#[test]
fn an_append_whose_sync_failed_is_on_the_disk_before_a_reopening_says_that_it_landed() {
    if !traced::strace_works() {
        return;
    }
    for (lives, verdicts) in [(&["fail, reopen"][..], 2), (&["fail, end", "look"][..], 1)] {
        let root = quick_dir();
        let log = root.path().join("log");
        std::fs::create_dir(&log).unwrap();
        let made = traced::watch(&log, "make");
        let mut calls = made.clone();
        for (number, work) in lives.iter().enumerate() {
            calls.extend(if number == 0 {
                failing(&log, work, FAILING_SYNC)
            } else {
                traced::watch(&log, work)
            });
        }
        for (number, call) in calls.iter_mut().enumerate() {
            // The lives follow each other.
            (call.began, call.ended) = (number, number);
        }
        assert!(said(&calls).contains(&"LANDED"), "{:?}", said(&calls));
        let checked = play(&calls, &mut Disk::default(), &root.path().join("state"));
        assert_eq!(checked, 7 + verdicts, "{:?}", said(&calls));
    }
}

#[test]
fn with_durability_os_a_failed_sync_before_head_ends_the_writing_and_head_vouches_for_nothing_after_it() {
    if !traced::strace_works() {
        return;
    }
    let root = quick_dir();
    let log = root.path().join("log");
    std::fs::create_dir(&log).unwrap();
    let calls = failing(&log, "os", 1);
    let mut said = said(&calls);
    said.retain(|line| line.starts_with("REFUSED") || line.starts_with("CLOSED"));
    assert!(said[0].contains("accepts no more appends since a write failed"), "{said:?}");
    assert!(said[1].contains("Poisoned"), "{said:?}");
    assert_eq!(Head::read(&log).unwrap().unwrap().position, Position(0));
    // The next opening writes it again before it vouches for it.
    let store = SledStore::open(&log).unwrap();
    assert!(store.head().unwrap() > Position(0));
    store.close().unwrap();
}
