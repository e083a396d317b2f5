//! What the tests of the log in a directory share.
#![allow(dead_code, reason = "not every test file uses all of it")]

use std::path::Path;

use proto_events::id::Position;
use taskreel::store::conformance::{Author, stream};
use taskreel::store::{Append, EventReader as _, EventStore as _, SledStore, StoredRecord};

/// A folder whose content matters and not the disk under it: in memory where there is such a place, since every
/// opening waits for a dozen syncs otherwise.
pub(crate) fn quick_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

pub(crate) fn append(store: &SledStore, append: Append) {
    runtime().block_on(store.append(append)).unwrap();
}

/// Appends this many events to two streams.
pub(crate) fn fill(store: &SledStore, author: &mut Author, count: u32) {
    for n in 0..count {
        append(store, author.one(&stream(&format!("s{}", n % 2)), &n.to_be_bytes()));
    }
}

pub(crate) fn all(store: &SledStore) -> Vec<StoredRecord> {
    store.read_all(Position(1), usize::MAX).unwrap()
}

/// A closed log of ten events, and who wrote it.
pub(crate) fn closed_log(dir: &Path) -> Author {
    let store = SledStore::open(dir).unwrap();
    let mut author = Author::new(store.fence());
    fill(&store, &mut author, 10);
    store.close().unwrap();
    author
}
