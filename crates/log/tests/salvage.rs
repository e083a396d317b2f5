//! Salvage of a physically damaged log: every sound value is in the export, what is missing is named by position,
//! and the source is left as it was; the error of opening names the last sound record before the damage.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod store_support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proto_events::id::Position;
use store_support::{all, append, quick_dir};
use taskreel_log::api::{EventReader as _, EventStore as _, StoredRecord};
use taskreel_log::doctor::{Gap, SalvageError, salvage};
use taskreel_log::jsonl::JsonLines;
use taskreel_log::sled::{SledStore, log_header};
use taskreel_log::testing::conformance::{Author, stream};

/// Makes a log of several segments and lives, with bodies in chunks, and returns its records.
fn make(dir: &Path) -> Vec<StoredRecord> {
    let mut author = Author::new(taskreel_log::api::Fence { partition: 0, epoch: 0 });
    for life in 0..3_u8 {
        let store = SledStore::open(dir).unwrap();
        author = author.with_fence(store.fence());
        for n in 0..60_u8 {
            append(&store, author.append_one(&stream(&format!("s{}", n % 4)), &vec![n; 30_000]));
        }
        append(&store, author.append_one(&stream("chunked"), &vec![life; 400_000]));
        for n in 0..9_u8 {
            append(&store, author.append_one(&stream("small"), &[n; 40]));
        }
        store.close().unwrap();
    }
    let store = SledStore::open(dir).unwrap();
    let records = all(&store);
    store.close().unwrap();
    records
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files.map(|path| (path.display().to_string(), fs::read(&path).unwrap())).collect()
}

fn exported(path: &Path) -> Vec<StoredRecord> {
    let mut records = Vec::new();
    JsonLines::open_damaged(path).unwrap().survey(&mut |read| records.extend(read.ok()));
    records
}

#[test]
fn a_sound_log_is_salvaged_whole_and_its_export_is_importable() {
    let root = quick_dir();
    let (dir, out) = (root.path().join("log"), root.path().join("out.jsonl"));
    let records = make(&dir);
    let before = contents(&dir);
    let report = salvage(&dir, &out).unwrap();
    assert_eq!((report.records, report.gaps.as_slice()), (records.len() as u64, &[][..]));
    assert_eq!(JsonLines::open(&out).unwrap().read_all(Position(1), usize::MAX).unwrap(), records);
    assert_eq!(JsonLines::open(&out).unwrap().header().id, log_header(&dir).unwrap().id);
    assert_eq!(contents(&dir), before);
    assert!(matches!(salvage(&dir, &out), Err(SalvageError::Write { .. })), "an export is never overwritten");
    let store = SledStore::open(&dir).unwrap();
    let beside = salvage(&dir, root.path().join("other")).unwrap();
    assert_eq!(beside.records, records.len() as u64, "a program that has the log open is no obstacle");
    store.close().unwrap();
}

#[test]
fn of_a_damaged_log_every_sound_record_is_salvaged_and_the_gaps_are_named() {
    let root = quick_dir();
    let dir = root.path().join("log");
    let records = make(&dir);
    let db = fs::read(dir.join("db")).unwrap();
    let used = db.iter().rposition(|byte| *byte != 0).unwrap();
    for (number, (at, bytes)) in
        [(used / 2, 1), (used / 3, 200_000), (20, 1), (0, 4 * 1024 * 1024), (used / 5, 4096), (0, used)]
            .into_iter()
            .enumerate()
    {
        let damaged = root.path().join(format!("damaged-{number}"));
        fs::create_dir(&damaged).unwrap();
        for (path, content) in contents(&dir) {
            fs::write(damaged.join(Path::new(&path).file_name().unwrap()), content).unwrap();
        }
        let mut bad = db.clone();
        bad[at..at + bytes].iter_mut().for_each(|byte| *byte ^= 0x55);
        fs::write(damaged.join("db"), bad).unwrap();
        let before = contents(&damaged);
        let out = root.path().join(format!("out-{number}"));
        let report = salvage(&damaged, &out).unwrap();
        assert_eq!(contents(&damaged), before, "the source is evidence");
        let found = exported(&out);
        assert_eq!(report.records, found.len() as u64);
        assert!(found.iter().all(|stored| records.contains(stored)), "{number}: something else was found");
        let missing: Vec<u64> = records
            .iter()
            .filter(|stored| !found.contains(stored))
            .flat_map(|stored| stored.position.0..=stored.last_position().0)
            .collect();
        let told: Vec<u64> = report.gaps.iter().flat_map(|Gap { first, last }| first.0..=last.0).collect();
        assert_eq!(told, missing, "{number}: the gaps are named");
        assert_eq!(report.is_whole(), missing.is_empty());
        let most = 12 + bytes / 20_000;
        assert!(missing.len() <= most, "{number}: {} positions lost of {bytes} bytes", missing.len());
    }
}

#[test]
fn the_error_of_opening_names_the_last_sound_record_before_the_damage() {
    let root = quick_dir();
    let dir = root.path().join("log");
    let store = SledStore::open(&dir).unwrap();
    let mut author = Author::new(store.fence());
    for n in 0..20_u8 {
        append(&store, author.append_one(&stream("only"), &[n; 5_000]));
    }
    store.close().unwrap();
    let expected = |position: u64| {
        format!(
            "the last sound record before it is version {position} of task-agent/only (position {position})"
        )
    };
    let damaged = |how: &dyn Fn(&Path), position: u64| {
        let copy = root.path().join(format!("damaged-{position}"));
        fs::create_dir(&copy).unwrap();
        for (path, content) in contents(&dir) {
            fs::write(copy.join(Path::new(&path).file_name().unwrap()), content).unwrap();
        }
        how(&copy);
        let told = SledStore::open(&copy).unwrap_err().to_string();
        assert!(told.contains(&expected(position)), "{told}");
    };
    // A bit that the guard finds before the database opens.
    let flip = |dir: &Path| {
        let mut db = fs::read(dir.join("db")).unwrap();
        let body = [11_u8; 5_000];
        let at = db.windows(body.len()).position(|piece| piece == body).unwrap();
        db[at + 9] ^= 1;
        fs::write(dir.join("db"), db).unwrap();
    };
    damaged(&flip, 11);
    // A value that the scan misses in a whole database.
    let remove = |dir: &Path| {
        let db = sled::Config::new().path(dir).segment_size(4 * 1024 * 1024).open().unwrap();
        let key = [&7_u64.to_be_bytes()[..], &[0]].concat();
        assert!(db.open_tree("log").unwrap().remove(key).unwrap().is_some());
        db.flush().unwrap();
        drop(db);
        fs::File::open(dir.join("db")).unwrap().lock().unwrap();
    };
    damaged(&remove, 7);
}
