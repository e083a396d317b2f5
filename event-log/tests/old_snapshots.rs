//! A log in which an earlier release kept snapshots of states: the first opening removes them and notes it,
//! and no record is lost when sled reuses the segments that this frees.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod store_support;

use std::path::Path;

use store_support::{all, append, closed_log, fill, quick_dir};
use taskreel_log::api::{EventStore as _, OpenNote};
use taskreel_log::audit;
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{check_log, stream};

fn database(dir: &Path) -> sled::Db {
    sled::Config::new()
        .path(dir)
        .mode(sled::Mode::HighThroughput)
        .segment_size(4 * 1024 * 1024)
        .flush_every_ms(None)
        .open()
        .unwrap()
}

/// Closes the database and waits until its own threads have let go of the directory.
fn close(db: sled::Db, dir: &Path) {
    db.flush().unwrap();
    drop(db);
    std::fs::File::open(dir.join("db")).unwrap().lock().unwrap();
}

/// Adds the tree `snapshots` as an earlier release did: each of 300 values is overwritten twice.
fn add_snapshots(dir: &Path) {
    let db = database(dir);
    let snapshots = db.open_tree("snapshots").unwrap();
    for round in 0..3_u8 {
        for stream in 0..300_u32 {
            let key: Vec<u8> = stream.wrapping_mul(2_654_435_761).to_be_bytes().repeat(8);
            snapshots.insert(key, vec![round; 20_000 + stream as usize]).unwrap();
        }
        db.flush().unwrap();
    }
    drop(snapshots);
    close(db, dir);
}

fn has_snapshots(dir: &Path) -> bool {
    let db = database(dir);
    let found = db.tree_names().iter().any(|name| *name == "snapshots");
    close(db, dir);
    found
}

fn db_bytes(dir: &Path) -> u64 {
    std::fs::metadata(dir.join("db")).unwrap().len()
}

/// Copies a log as the disk shows it while a process has it open: what a killed process leaves.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn snapshots_are_removed_and_noted_once_and_every_record_can_be_read() {
    let dir = quick_dir();
    closed_log(dir.path());
    let store = SledStore::open(dir.path()).unwrap();
    let before = all(&store);
    let verified = audit::verify(&store).findings;
    store.close().unwrap();
    add_snapshots(dir.path());
    assert!(has_snapshots(dir.path()));

    let store = SledStore::open(dir.path()).unwrap();
    assert_eq!(store.notes(), [OpenNote::SnapshotsRemoved]);
    assert!(store.notes()[0].to_string().starts_with("snapshots of an earlier release were removed"));
    assert_eq!(all(&store), before);
    store.close().unwrap();
    assert!(!has_snapshots(dir.path()));

    let store = SledStore::open(dir.path()).unwrap();
    assert_eq!(store.notes(), []);
    assert_eq!(all(&store), before);
    assert_eq!(audit::verify(&store).findings, verified);
}

#[test]
fn an_empty_tree_of_snapshots_goes_without_a_note() {
    let dir = quick_dir();
    closed_log(dir.path());
    let db = database(dir.path());
    db.open_tree("snapshots").unwrap();
    close(db, dir.path());
    let store = SledStore::open(dir.path()).unwrap();
    assert_eq!(store.notes(), []);
    store.close().unwrap();
    assert!(!has_snapshots(dir.path()));
}

#[test]
fn a_log_that_reuses_the_segments_of_its_snapshots_opens_whole_after_every_end() {
    let dir = quick_dir();
    let mut author = closed_log(dir.path());
    add_snapshots(dir.path());
    let (before, mut written) = (db_bytes(dir.path()), 0);
    for round in 0..5_u64 {
        let store = SledStore::open(dir.path()).unwrap();
        let notes: &[OpenNote] = if round == 0 { &[OpenNote::SnapshotsRemoved] } else { &[] };
        assert_eq!(store.notes(), notes, "round {round}");
        author = author.with_fence(store.fence()).with_sets_from(1_000_000 * (round + 1));
        fill(&store, &mut author, 20);
        for n in 0..10_u8 {
            append(&store, author.one(&stream(&format!("round{round}")), &vec![n; 500_000]));
            written += 500_000;
            if n % 3 == 0 {
                let killed = quick_dir();
                copy(dir.path(), killed.path());
                let left = SledStore::open(killed.path()).unwrap();
                assert!(matches!(left.notes(), [OpenNote::NotClosed { .. }]), "{:?}", left.notes());
                assert_eq!(all(&left), all(&store), "round {round}, append {n}");
                check_log(&left);
            }
        }
        let records = all(&store);
        store.close().unwrap();
        let store = SledStore::open(dir.path()).unwrap();
        assert_eq!(store.notes(), [], "round {round}");
        assert_eq!(all(&store), records);
        check_log(&store);
        store.close().unwrap();
    }
    let grown = db_bytes(dir.path()) - before;
    assert!(grown < written / 2, "freed segments are reused: {written} bytes written, {grown} grown");
}
