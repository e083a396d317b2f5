//! Kill -9 at chosen points: in every step of opening, before and after a flush, while chunks, the index
//! and snapshots of the database are written. One log goes through all of them, reopened after each kill, and never loses what was
//! acknowledged.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "in a test a panic is the answer, in helpers too; its figures are to be seen"
)]

mod store_support;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use futures_util::future::join_all;
use store_support::{all, runtime};
use taskreel_log::api::EventStore as _;
use taskreel_log::sled::{SledOptions, SledStore, blob_files};
use taskreel_log::testing::conformance::{Author, check_log, stream};

/// The variable that names the child's log.
const LOG: &str = "TASKREEL_KILLS_LOG";

/// The points, and how often each is passed before the kill.
const KILLS: [(&str, &[u64]); 13] = [
    ("guarded", &[0, 0]),
    ("database open", &[0, 0, 0]),
    ("epoch raised", &[0, 0]),
    ("epoch synced", &[0]),
    ("head written", &[0, 0]),
    ("value", &[0, 3, 20]),
    ("flush", &[0, 2, 9]),
    ("sync", &[0, 2, 9]),
    ("chunk", &[0, 1, 5, 12]),
    ("block", &[0, 1]),
    ("watermark", &[0, 0]),
    ("snapshot read", &[0, 0, 0]),
    ("snapshot replaced", &[0, 0, 0]),
];

/// Entry of the process that is killed; not a test of its own.
#[test]
fn the_child_that_is_killed() {
    let Some(dir) = std::env::var_os(LOG) else {
        return;
    };
    // A snapshot of the database follows every group.
    let options = SledOptions { snapshot_every_bytes: 1, ..SledOptions::default() };
    let store = SledStore::open_with(dir, options).unwrap();
    let epoch = store.fence().epoch;
    let mut author = Author::new(store.fence()).with_sets_from(epoch * 1_000_000);
    let body = |n: usize, bytes: usize| vec![u8::try_from(n % 256).unwrap(); bytes];
    let of = |n: usize| stream(&format!("epoch-{epoch}-number-{n}"));
    let tell = |last: u64| println!("\nACKED {last}");
    for round in 0.. {
        let mut appends = vec![author.append_one(&of(round), &body(round, 100 + round % 7 * 100_000))];
        appends.extend((0..30).map(|n| author.append_one(&of(n % 20), &body(n, 300))));
        let many: Vec<_> = (0..150).map(|n| (of(1_000 + round * 150 + n), vec![body(n, 50)])).collect();
        appends.push(author.many(&many));
        runtime().block_on(join_all(appends.into_iter().map(|append| async {
            let appended = store.append(append).await.unwrap();
            tell(appended.parts.iter().map(|part| part.position.0).max().unwrap());
        })));
        if round == 25 {
            break;
        }
    }
    store.close().unwrap();
    println!("\nCLOSED");
}

/// Lets a child work until it reaches the point, and kills it there. Returns the last acknowledged position,
/// if any, and whether the point was reached.
fn kill_at(dir: &Path, place: &str, passes: u64) -> (Option<u64>, bool) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["the_child_that_is_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(LOG, dir)
        .env("TASKREEL_HALT_AT", format!("{place} {passes}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (mut acked, mut halted) = (None, false);
    for line in lines {
        if let Some(position) = line.strip_prefix("ACKED ") {
            acked = acked.max(Some(position.parse().unwrap()));
        } else if line.starts_with("HALT ") {
            halted = true;
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    (acked, halted)
}

#[test]
fn a_process_killed_at_any_place_loses_nothing_that_it_acknowledged() {
    // In the target folder: a file system in memory would prove nothing.
    let root = tempfile::tempdir_in(PathBuf::from(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let dir = root.path().join("log");
    let (mut acked, mut kills) = (0, BTreeMap::new());
    let mut before = Vec::new();
    for (place, passes) in KILLS {
        for (number, passes) in passes.iter().enumerate() {
            let (last, halted) = kill_at(&dir, place, *passes);
            assert!(halted, "{place} was never passed {passes} times");
            *kills.entry(place).or_insert(0) += 1;
            acked = last.unwrap_or(0).max(acked);
            // After every second kill, the next child handles what the last one left.
            if number % 2 == 1 {
                continue;
            }
            let store = SledStore::open(&dir).unwrap();
            assert!(check_log(&store) >= acked, "{place}, {passes}: {acked} were acknowledged");
            let records = all(&store);
            let hashes: Vec<_> = records.iter().map(|stored| stored.hash).collect();
            assert!(hashes.starts_with(&before), "{place}, {passes}: the log was rewritten");
            before = hashes;
            store.close().unwrap();
            assert_eq!(blob_files(&dir).unwrap(), Vec::<PathBuf>::new());
        }
    }
    let total: usize = kills.values().sum();
    assert!(total >= 20);
    eprintln!("kills at places: {total} kills of one log, lost 0 of {acked} acknowledged: {kills:?}");
}
