//! The directory from outside: the size of its files, and the cost of a sync.

use std::fs::File;
use std::io;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// The number of syncs measured.
const SYNC_ROUNDS: usize = 15;

/// The number of bytes written before each sync: a page.
const SYNC_BYTES: usize = 4 * 1024;

/// The files of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartSize {
    /// The kind of files: `db`, `snap`, `HEAD`, `blobs`, `other`, …
    pub part: &'static str,
    /// The number of files.
    pub files: u64,
    /// The total size in bytes.
    pub bytes: u64,
}

/// The cost of making one page durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncCost {
    /// The median of all measurements.
    pub median: Duration,
    /// The slowest measurement.
    pub slowest: Duration,
}

const PARTS: [(&str, &str); 7] = [
    ("db", "db"),
    ("conf", "conf"),
    ("HEAD", "HEAD"),
    ("index", "index"),
    ("holder", "holder"),
    ("taskreel.format", "taskreel.format"),
    ("blobs", "blobs"),
];

/// Returns the sizes of a directory's parts, largest first. Unreadable entries are left out.
pub(crate) fn sizes(dir: &Path) -> Vec<PartSize> {
    let mut sizes: Vec<PartSize> = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let known = PARTS.iter().find(|(file, _)| *file == name).map(|(_, part)| *part);
        let part = known.unwrap_or(if name.starts_with("snap.") { "snap" } else { "other" });
        let (files, bytes) = measure_path(&entry.path());
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

/// Returns the number and bytes of a file, or of the files directly in a directory.
fn measure_path(path: &Path) -> (u64, u64) {
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

/// The reasons why the cost of a sync could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoSync {
    /// The user may not write to the directory.
    #[error("{0}")]
    NotAllowed(String),
    /// The system cannot write a file without leaving a trace of it in the directory.
    #[error("the system has no files without a name")]
    NotKnown,
    /// The directory cannot be written.
    #[error("{0}")]
    Failed(String),
}

impl From<io::Error> for NoSync {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{IsADirectory, PermissionDenied, ReadOnlyFilesystem, Unsupported};
        match error.kind() {
            PermissionDenied | ReadOnlyFilesystem => Self::NotAllowed(error.to_string()),
            // A system that does not know such files takes the directory for the file.
            IsADirectory | Unsupported => Self::NotKnown,
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// Measures the time to write and sync a page, repeatedly, in a file without a name: nothing in the directory changes.
pub(crate) fn sync_cost(dir: &Path) -> Result<SyncCost, NoSync> {
    let mut file = nameless(dir)?;
    let costs = (0..SYNC_ROUNDS).map(|_| {
        let since = Instant::now();
        file.write_all(&[0; SYNC_BYTES])?;
        file.sync_data()?;
        Ok(since.elapsed())
    });
    let mut costs = costs.collect::<io::Result<Vec<Duration>>>()?;
    costs.sort_unstable();
    let at = |place: usize| costs.get(place).copied().unwrap_or_default();
    Ok(SyncCost { median: at(SYNC_ROUNDS / 2), slowest: at(SYNC_ROUNDS - 1) })
}

/// Opens a file in a directory that has no name and is gone when it is closed.
#[cfg(target_os = "linux")]
fn nameless(dir: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    File::options().write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(dir)
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}
