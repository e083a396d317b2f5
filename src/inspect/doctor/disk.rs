//! The directory from outside: how large its files are, and what it costs to make something durable there.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the cost of a sync is measured; the median stands for all.
const SYNC_ROUNDS: usize = 15;

/// Bytes written before each sync: a page.
const SYNC_BYTES: usize = 4 * 1024;

/// Files of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSize {
    /// What they are: `db`, `snap`, `HEAD`, `blobs`, `other`, …
    pub part: &'static str,
    /// How many files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What it costs to make one page durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncCost {
    /// The median of some.
    pub median: Duration,
    /// The slowest of them.
    pub slowest: Duration,
}

const PARTS: [(&str, &str); 6] = [
    ("db", "db"),
    ("conf", "conf"),
    ("HEAD", "HEAD"),
    ("holder", "holder"),
    ("taskreel.format", "taskreel.format"),
    ("blobs", "blobs"),
];

/// The parts of a directory, the largest first. What cannot be looked at is left out.
pub(super) fn sizes(dir: &Path) -> Vec<PartSize> {
    let mut sizes: Vec<PartSize> = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let known = PARTS.iter().find(|(file, _)| *file == name).map(|(_, part)| *part);
        let part = known.unwrap_or(if name.starts_with("snap.") { "snap" } else { "other" });
        let (files, bytes) = weigh(&entry.path());
        match sizes.iter_mut().find(|size| size.part == part) {
            Some(size) => {
                size.files += files;
                size.bytes += bytes;
            }
            None => sizes.push(PartSize { part, files, bytes }),
        }
    }
    sizes.sort_by(|one, next| next.bytes.cmp(&one.bytes).then(one.part.cmp(next.part)));
    sizes
}

/// A file, or the files directly in a directory.
fn weigh(path: &Path) -> (u64, u64) {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            let inside = std::fs::read_dir(path).into_iter().flatten().flatten();
            inside
                .filter_map(|entry| entry.metadata().ok())
                .fold((0, 0), |(files, bytes), found| (files + 1, bytes + found.len()))
        }
        Ok(found) => (1, found.len()),
        Err(_) => (0, 0),
    }
}

/// A file that is gone when this is.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is named by its name, and counted as `other`.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a page and syncs it, some times over, in a file of its own beside the log.
pub(super) fn sync_cost(dir: &Path) -> Result<SyncCost, String> {
    let measure = || -> io::Result<Vec<Duration>> {
        let path = dir.join(format!("taskreel-doctor.{}.tmp", std::process::id()));
        let mut file = File::create_new(&path)?;
        let _removed_at_the_end = Scratch(path);
        (0..SYNC_ROUNDS)
            .map(|_| {
                let since = Instant::now();
                file.write_all(&[0; SYNC_BYTES])?;
                file.sync_data()?;
                Ok(since.elapsed())
            })
            .collect()
    };
    let mut costs = measure().map_err(|error| error.to_string())?;
    costs.sort_unstable();
    let at = |place: usize| costs.get(place).copied().unwrap_or_default();
    Ok(SyncCost { median: at(SYNC_ROUNDS / 2), slowest: at(SYNC_ROUNDS - 1) })
}
