//! The part of a log that a start reads does not grow with the life before it: while a log is open, snapshots of the database follow
//! it, and a log whose process is killed at any moment opens from the newest one to all of its records.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "in a test a panic is the answer, in helpers too; its figures are to be seen"
)]

mod store_support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use store_support::{all, append, quick_dir};
use taskreel_log::api::EventStore as _;
use taskreel_log::sled::{SledOptions, SledStore};
use taskreel_log::testing::conformance::{Author, check_log, stream};

/// Bytes of log between two snapshots in these tests.
const EVERY: u64 = 8 * 1024 * 1024;

/// Returns the place in the log up to which the newest snapshot goes.
fn covered(dir: &Path) -> u64 {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let lsn = |name: String| u64::from_str_radix(name.strip_prefix("snap.")?, 16).ok();
    names.filter_map(lsn).max().unwrap_or(0)
}

/// Returns the number of bytes that this process has read so far, from files of all kinds.
fn read_so_far() -> u64 {
    let told = fs::read_to_string("/proc/self/io").unwrap();
    told.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

fn copy(from: &Path, to: &Path) {
    let _there_may_be_none = fs::remove_dir_all(to);
    fs::create_dir_all(to.join("blobs")).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        if entry.path().is_file() {
            // A file may be replaced meanwhile.
            let _ = fs::copy(entry.path(), to.join(entry.file_name()));
        }
    }
}

#[test]
fn what_a_start_reads_is_bounded_by_the_interval_of_snapshots_and_not_by_the_life_before() {
    let root = quick_dir();
    let (dir, killed) = (root.path().join("log"), root.path().join("killed"));
    let options = SledOptions { snapshot_every_bytes: EVERY, ..SledOptions::default() };
    let store = SledStore::open_with(&dir, options).unwrap();
    let mut author = Author::new(store.fence());
    let mut written = 0_u64;
    for round in 0..6_u8 {
        for n in 0..200_u8 {
            append(&store, author.append_one(&stream(&format!("s{}", n % 7)), &vec![n; 50_000]));
            written += 50_000;
        }
        append(&store, author.append_one(&stream("chunked"), &vec![round; 300_000]));
        for part in 0..4 {
            let many: Vec<_> =
                (0..1_000).map(|n| (stream(&format!("r{round}-{part}-{n}")), vec![vec![1]])).collect();
            append(&store, author.many(&many));
        }
        let since = Instant::now();
        while covered(&dir) + 3 * EVERY < written {
            assert!(since.elapsed() < Duration::from_secs(20), "no snapshot followed: {}", covered(&dir));
            append(&store, author.append_one(&stream("waiting"), b"x"));
        }
        // As a killed process leaves it.
        copy(&dir, &killed);
        let before = read_so_far();
        let found = SledStore::open(&killed).unwrap();
        let read = read_so_far() - before;
        // What is read twice and more often, and the records behind the index, whatever the life before wrote.
        assert!(read < 10 * EVERY, "round {round}: a start read {read} bytes, of {written} in one life");
        assert!(check_log(&found) >= all(&store).len() as u64 - 1, "round {round}");
        assert_eq!(all(&found), all(&store), "round {round}");
        found.close().unwrap();
        eprintln!("snapshots: {written} bytes written in one life, a start reads {read}");
    }
    assert!(written > 7 * EVERY, "the life was long");
    store.close().unwrap();
    assert_eq!(SledStore::open(&dir).unwrap().open_notes(), []);
}
