//! A directory whose log has unreadable values: verifying reports them and checks all the others.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::path::Path;

use proto_events::id::Position;
use taskreel_log::api::{EventReader as _, EventStore as _, ReadError};
use taskreel_log::audit::{FindingKind, Scope, verify_within};
use taskreel_log::sled::SledStore;
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
        (0..8_000_u64).map(|n| store.append(author.one(&name(n), &n.to_be_bytes()))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answers = runtime.block_on(futures_util::future::join_all(appends));
    assert!(answers.iter().all(Result::is_ok));
    let bytes: usize =
        store.read_all(Position(1), usize::MAX).unwrap().iter().map(|stored| stored.bytes.len()).sum();
    store.close().unwrap();
    (8_000, (bytes / (60 * 1024)) as u64)
}
