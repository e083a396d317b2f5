//! Helpers of the tests of the log in a directory.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]
#![allow(dead_code, reason = "not every test file uses all of it")]

use std::path::Path;

use proto_events::id::Position;
use taskreel_log::api::{Append, EventReader as _, EventStore as _, StoredRecord};
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{Author, stream};

/// Returns a folder for tests that do not depend on the disk: in memory if possible, since each opening
/// otherwise waits for a dozen syncs.
pub(crate) fn quick_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

pub(crate) fn append(store: &SledStore, append: Append) {
    runtime().block_on(store.append(append)).unwrap();
}

/// Appends this many events to two streams.
pub(crate) fn fill(store: &SledStore, author: &mut Author, count: u32) {
    for n in 0..count {
        append(store, author.append_one(&stream(&format!("s{}", n % 2)), &n.to_be_bytes()));
    }
}

pub(crate) fn all(store: &SledStore) -> Vec<StoredRecord> {
    store.read_all(Position(1), usize::MAX).unwrap()
}

/// Makes a closed log of ten events and returns its author.
pub(crate) fn closed_log(dir: &Path) -> Author {
    let store = SledStore::open(dir).unwrap();
    let mut author = Author::new(store.fence());
    fill(&store, &mut author, 10);
    store.close().unwrap();
    author
}
