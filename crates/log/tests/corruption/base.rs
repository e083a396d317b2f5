//! The logs to damage, and their contents while intact.

use std::fs;
use std::path::{Path, PathBuf};

use proto_events::id::Position;
use taskreel_log::api::{EventReader as _, EventStore as _};
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{Author, stream};

use crate::store_support::{append, fill};

/// A log before it is damaged.
pub(crate) struct Base {
    pub(crate) name: &'static str,
    /// The directory of the log's files.
    pub(crate) dir: PathBuf,
    /// The leaf hashes of the log's records, in order.
    pub(crate) hashes: Vec<String>,
    /// The number of records that `HEAD` covers.
    pub(crate) proven: usize,
}

/// The names of the logs.
pub(crate) const NAMES: [&str; 4] = ["closed", "killed", "small", "first"];

impl Base {
    /// Makes the log of this name below `root`.
    pub(crate) fn make(root: &Path, name: &'static str) -> Self {
        let (work, dir, earlier) = (root.join("work"), root.join(name), root.join(format!("{name}-earlier")));
        let _there_may_be_none = fs::remove_dir_all(&work);
        let mut author = Author::new(taskreel_log::api::Fence { partition: 0, epoch: 0 });
        let rounds: &[(u32, usize)] = match name {
            "small" => &[(6, 0), (9, 0), (7, 0)],
            "first" => &[(12, 3)],
            _ => &[(10, 4), (30, 60), (20, 110)],
        };
        for (round, (small, large)) in rounds.iter().enumerate() {
            let store = SledStore::open(&work).unwrap();
            author = author.with_fence(store.fence());
            fill(&store, &mut author, *small);
            for n in 0..*large {
                let streams = (0..=n % 3).map(|part| {
                    (stream(&format!("large-{part}")), vec![vec![u8::try_from(n % 251).unwrap(); 30_000]])
                });
                append(&store, author.many(&streams.collect::<Vec<_>>()));
            }
            if *large > 50 {
                // A body stored in chunks.
                append(
                    &store,
                    author.append_one(&stream("huge"), &vec![u8::try_from(round).unwrap(); 300_000]),
                );
            }
            fill(&store, &mut author, *small);
            let last = round + 1 == rounds.len();
            if last && name != "closed" {
                // What a killed process leaves: its files as the operating system has them.
                copy(&work, &dir);
            }
            store.close().unwrap();
            match rounds.len() - round {
                1 if name == "closed" => copy(&work, &dir),
                1 => {}
                _ => copy(&work, &earlier),
            }
        }
        if rounds.len() == 1 {
            copy(&dir, &earlier);
        }
        let store = SledStore::open(&work).unwrap();
        let records = store.read_all(Position(1), usize::MAX).unwrap();
        store.close().unwrap();
        let proven = proven_by(&dir);
        let hashes = records.iter().map(|stored| stored.hash.to_string()).collect();
        Self { name, dir, hashes, proven }
    }

    /// Returns the names of the log's files.
    pub(crate) fn files(&self) -> Vec<String> {
        names(&self.dir)
    }
}

/// Returns the names of the files in a directory.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.path().is_file());
    let mut names: Vec<String> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Copies a log's files.
pub(crate) fn copy(from: &Path, to: &Path) {
    let _there_may_be_none = fs::remove_dir_all(to);
    fs::create_dir_all(to.join("blobs")).unwrap();
    for name in names(from) {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// Returns the number of records that a log's `HEAD` covers.
pub(crate) fn proven_by(dir: &Path) -> usize {
    let head = fs::read_to_string(dir.join("HEAD")).unwrap();
    head.lines().find_map(|line| line.strip_prefix("records ")).unwrap().parse().unwrap()
}
