//! The logs whose openings are made to fail, and their contents.

use std::fs;
use std::path::{Path, PathBuf};

use taskreel_log::api::EventStore as _;
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{Author, stream};

use crate::store_support;
use crate::store_support::{append, fill};

/// A log before one of its openings.
pub(crate) struct Base {
    pub(crate) name: String,
    /// The directory of the log's files.
    pub(crate) dir: PathBuf,
    /// The leaf hashes of the log's records, in order.
    pub(crate) hashes: Vec<String>,
}

/// Makes one log of two lives, with this many large values in each.
fn make(root: &Path, large: u8, closed: bool, snapshot: bool) -> Base {
    let name = format!("{large}-large-{closed}-closed-{snapshot}-snapshot");
    let (work, dir) = (root.join("work"), root.join(&name));
    let _there_may_be_none = fs::remove_dir_all(&work);
    let mut author = Author::new(taskreel_log::api::Fence { partition: 0, epoch: 0 });
    for life in 0..2 {
        let store = SledStore::open(&work).unwrap();
        author = author.with_fence(store.fence());
        fill(&store, &mut author, 7);
        for n in 0..large {
            append(&store, author.append_one(&stream(&format!("large-{}", n % 3)), &vec![n; 50_000]));
        }
        fill(&store, &mut author, 3);
        if life == 1 && !closed {
            copy(&work, &dir);
        }
        store.close().unwrap();
    }
    if closed {
        copy(&work, &dir);
    }
    for name in names(&dir) {
        // Without it the database reads its whole log.
        if name.starts_with("snap.") && !snapshot {
            fs::remove_file(dir.join(name)).unwrap();
        }
    }
    let store = SledStore::open(&work).unwrap();
    let hashes = store_support::all(&store).iter().map(|stored| stored.hash.to_string()).collect();
    store.close().unwrap();
    Base { name, dir, hashes }
}

/// Makes all logs.
pub(crate) fn all(root: &Path) -> Vec<Base> {
    let mut bases = Vec::new();
    for large in [0, 120] {
        for (closed, snapshot) in [(true, true), (true, false), (false, true), (false, false)] {
            bases.push(make(root, large, closed, snapshot));
        }
    }
    bases
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .filter(|entry| entry.path().is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

/// Copies a log's files.
pub(crate) fn copy(from: &Path, to: &Path) {
    let _there_may_be_none = fs::remove_dir_all(to);
    fs::create_dir_all(to.join("blobs")).unwrap();
    for name in names(from) {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}
