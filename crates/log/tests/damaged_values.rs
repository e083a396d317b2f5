//! A directory whose log has unreadable values: verifying reports them and checks all the others.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::path::Path;
use std::time::Duration;

use proto_events::id::Position;
use taskreel_log::api::{EventReader as _, EventStore as _, OpenError, ReadError};
use taskreel_log::audit::{FindingKind, Scope, verify_within};
use taskreel_log::sled::{SledDamaged, SledStore};
use taskreel_log::testing::conformance::{Author, stream};

/// Checks damage that opening does not notice: a log with an index on disk is opened without reading its
/// values.
#[test]
fn verifying_a_directory_goes_on_behind_values_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let (records, values) = indexed_log(dir.path());
    let db = sled::Config::new().path(dir.path()).segment_size(4 * 1024 * 1024).open().unwrap();
    let log = db.open_tree("log").unwrap();
    let key = |ordinal: u64| [&ordinal.to_be_bytes()[..], &[0]].concat();
    let mut value = log.get(key(2)).unwrap().unwrap().to_vec();
    value[40] ^= 1;
    log.insert(key(2), value).unwrap();
    log.remove(key(4)).unwrap();
    db.flush().unwrap();
    drop((log, db));
    std::fs::File::open(dir.path().join("db")).unwrap().lock().unwrap();

    let store = SledStore::open(dir.path()).unwrap();
    let found = verify_within(&store, &Scope::default(), &mut |_| {});
    let unreadable: Vec<_> =
        found.findings.iter().filter(|finding| finding.kind == FindingKind::Unreadable).collect();
    assert_eq!(unreadable.len(), 2, "{unreadable:?}");
    assert!(unreadable[0].what.contains("value 2") && unreadable[1].what.contains("value 4"));
    assert!(found.records > records * (values - 3) / values && found.records < records, "{}", found.records);
    assert!(matches!(store.read_all(Position(1), usize::MAX), Err(ReadError::Corrupt { .. })));
    store.close().unwrap();
}

/// Makes a closed log whose stored index covers the first values; returns its number of records and values.
fn indexed_log(dir: &Path) -> (u64, u64) {
    let store = SledStore::open(dir).unwrap();
    let mut author = Author::new(store.fence());
    let name = |n: u64| stream(&format!("s{}", n % 50));
    let appends: Vec<_> =
        (0..8_000_u64).map(|n| store.append(author.append_one(&name(n), &n.to_be_bytes()))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answers = runtime.block_on(futures_util::future::join_all(appends));
    assert!(answers.iter().all(Result::is_ok));
    let bytes: usize =
        store.read_all(Position(1), usize::MAX).unwrap().iter().map(|stored| stored.bytes.len()).sum();
    store.close().unwrap();
    (8_000, (bytes / (60 * 1024)) as u64)
}

/// Makes a closed log of this many records, each with a body that is kept in chunks.
fn log_with_bodies(dir: &Path, records: u8) {
    let store = SledStore::open(dir).unwrap();
    let mut author = Author::new(store.fence());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for number in 0..records {
        runtime.block_on(store.append(author.append_one(&stream("a"), &vec![number; 100_000]))).unwrap();
    }
    store.close().unwrap();
}

/// Opens the database under a closed log for a moment.
fn in_database<T>(dir: &Path, work: impl FnOnce(&sled::Db) -> T) -> T {
    let db = sled::Config::new().path(dir).segment_size(4 * 1024 * 1024).open().unwrap();
    let done = work(&db);
    db.flush().unwrap();
    drop(db);
    std::fs::File::open(dir.join("db")).unwrap().lock().unwrap();
    done
}

/// Returns the values of a tree.
fn values_of(dir: &Path, tree: &str) -> Vec<Vec<u8>> {
    in_database(dir, |db| {
        let values = db.open_tree(tree).unwrap().iter().map(|item| item.unwrap().1.to_vec());
        values.filter(|value| !value.is_empty()).collect()
    })
}

/// Opens a log, appends to it and verifies it; one that is damaged is surveyed. Returns what came of it.
fn used(dir: &Path) -> &'static str {
    let store = match SledStore::open(dir) {
        Ok(store) => store,
        Err(OpenError::Corrupt { .. }) => {
            let mut seen = 0;
            SledDamaged::open(dir).unwrap().survey(&mut |_| seen += 1);
            assert!(seen >= 1, "nothing of the log is shown");
            return "damaged";
        }
        Err(error) => panic!("{error}"),
    };
    let mut author = Author::new(store.fence()).with_sets_from(900);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.append(author.append_one(&stream("b"), &vec![9; 100_000]))).unwrap();
    let found = verify_within(&store, &Scope::default(), &mut |_| {});
    // The bodies are no events of any kind that there is.
    let read = |kind| matches!(kind, FindingKind::Event);
    assert!(found.findings.iter().all(|finding| read(finding.kind)), "{:?}", found.findings);
    store.close().unwrap();
    "sound"
}

#[test]
fn a_key_far_behind_the_end_of_the_log_makes_nobody_count_up_to_it() {
    let longer = tempfile::tempdir().unwrap();
    log_with_bodies(longer.path(), 3);
    let behind_the_end = values_of(longer.path(), "chunks").pop().unwrap();
    for far in [1_u64 << 50, 1 << 60, u64::MAX] {
        for (tree, is_own, expected) in
            [("chunks", true, "damaged"), ("chunks", false, "sound"), ("log", true, "damaged")]
        {
            let folder = tempfile::tempdir().unwrap();
            let dir = folder.path().to_owned();
            log_with_bodies(&dir, 1);
            let own = values_of(&dir, tree).swap_remove(0);
            let value = if is_own { &own } else { &behind_the_end };
            let key = [&far.to_be_bytes()[..], &[0]].concat();
            in_database(&dir, |db| drop(db.open_tree(tree).unwrap().insert(key, &value[..]).unwrap()));
            let (tell, told) = std::sync::mpsc::channel();
            std::thread::spawn(move || tell.send(used(&dir)));
            let came = told.recv_timeout(Duration::from_secs(60));
            // A key that no log of ours can have is damage wherever it is.
            let expected = if far == 1 << 50 { expected } else { "damaged" };
            assert_eq!(came, Ok(expected), "{tree} at {far}, its own: {is_own}");
        }
    }
}

/// Copies a directory of files.
fn copied(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
        }
    }
    to
}

/// An opening removes an append that a crash left without its end, value by value. A second crash among these removals leaves
/// what this test makes: they go from the end back.
#[test]
fn an_append_without_its_last_values_is_removed_and_one_without_its_first_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let mut author = Author::new(store.fence());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.append(author.append_one(&stream("before"), b"kept"))).unwrap();
    let before = values_of(copied(dir.path()).path(), "log").len();
    let parts: Vec<_> = (0..40_u8).map(|n| (stream(&format!("s{n}")), vec![vec![n; 8_000]])).collect();
    runtime.block_on(store.append(author.many(&parts))).unwrap();
    // As a crash leaves it: what closing writes is missing.
    let crashed = copied(dir.path());
    store.close().unwrap();
    let values = values_of(copied(crashed.path()).path(), "log").len();
    assert!(values > before + 3, "{values} values, {before} before");
    let key = |ordinal: usize| [&(ordinal as u64).to_be_bytes()[..], &[0]].concat();
    let without = |ordinals: std::ops::Range<usize>| {
        let log = copied(crashed.path());
        in_database(log.path(), |db| {
            let tree = db.open_tree("log").unwrap();
            for ordinal in ordinals {
                assert!(tree.remove(key(ordinal)).unwrap().is_some(), "value {ordinal}");
            }
        });
        log
    };
    for first in before..values {
        let log = without(first..values);
        let store = SledStore::open(log.path()).unwrap();
        let records = store.read_all(Position(1), usize::MAX).unwrap();
        assert_eq!(records.len(), 1, "the append was never acknowledged as a whole: {first} of {values}");
        store.close().unwrap();
    }
    let log = without(before..before + 1);
    assert!(matches!(SledStore::open(log.path()), Err(OpenError::Corrupt { .. })));
}
