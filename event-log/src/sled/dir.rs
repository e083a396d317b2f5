//! The directory around the database: the marker file that identifies it as a log, its blob files, its lock.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proto_events::id::LogId;

use crate::api::durability::Durability;
use crate::api::error::OpenError;
use crate::engine::files;
use crate::engine::files::NEW;
use crate::engine::head::HEAD_FILE;
use crate::ports::{IdSource as _, RandomIds};
use crate::sled::options::SledOptions;

/// The format of the log that this release reads and writes.
pub(crate) const FORMAT: u32 = 2;

/// Name of the marker.
const FORMAT_FILE: &str = "taskreel.format";

/// First line of the marker.
const TITLE: &str = "taskreel log";

/// First line of the marker during an import: until the last record is written, the directory is not a log.
const IMPORT_TITLE: &str = "taskreel import";

/// Name of sled's data file, which we sync ourselves.
pub(crate) const DATA_FILE: &str = "db";

/// Longest time for which sled's own threads may keep the directory locked after the last handle is dropped.
const RELEASE_WITHIN: Duration = Duration::from_secs(10);

/// Returns a function that wraps an IO error with its path.
pub(crate) fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Io { path: path.to_owned(), what, source }
}

/// Checks that `dir` is a log that this program knows, or makes a new or empty directory one. Any other
/// directory is refused before anything in it is touched.
pub(crate) fn claim(dir: &Path, options: SledOptions) -> Result<LogHeader, OpenError> {
    let not_a_log = |why: &str| OpenError::NotALog { path: dir.to_owned(), why: why.to_owned() };
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(not_a_log("it is a file, not a directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound && options.create => create(dir)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_a_log("it does not exist")),
        Err(error) => return Err(io_error(dir, "the directory could not be examined")(error)),
    }
    let marker = files::read(dir, FORMAT_FILE);
    let marker = match marker {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(not_a_log("its file taskreel.format is not text"));
        }
        other => other.map_err(io_error(&dir.join(FORMAT_FILE), "it could not be read"))?,
    };
    if let Some(text) = marker {
        let header = read_marker(dir, &text)?;
        let found = header.durability;
        if let Some(asked) = options.durability.filter(|asked| *asked != found) {
            return Err(OpenError::OtherDurability { path: dir.to_owned(), found, asked });
        }
        // Without this check sled would create an empty database in the place of the missing one.
        if dir.join(HEAD_FILE).exists() && !dir.join(DATA_FILE).exists() {
            return Err(not_a_log("its database file `db` is missing, although it has a HEAD file"));
        }
        return Ok(header);
    }
    if !is_empty(dir).map_err(io_error(dir, "the directory could not be read"))? {
        return Err(not_a_log("it has files, but no file taskreel.format"));
    }
    if !options.create {
        return Err(not_a_log("it is empty"));
    }
    let id = LogId(RandomIds.random());
    let header = LogHeader { format: FORMAT, id, durability: options.durability.unwrap_or_default() };
    write_marker(dir, TITLE, header)?;
    Ok(header)
}

/// The properties of a log that can be read without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogHeader {
    /// The log's format.
    pub format: u32,
    /// The log's id, which its exports keep.
    pub id: LogId,
    /// The failures that an acknowledged append survives.
    pub durability: Durability,
}

/// Reads the header of the log in `dir`. Nothing is created, changed or locked.
///
/// # Errors
/// [`OpenError`] if `dir` is not a log that this program knows.
pub fn log_header(dir: &Path) -> Result<LogHeader, OpenError> {
    claim(dir, SledOptions { create: false, ..SledOptions::default() })
}

fn write_marker(dir: &Path, title: &str, header: LogHeader) -> Result<(), OpenError> {
    let LogHeader { format, id, durability } = header;
    let text = format!("{title}\nformat {format}\ndurability {}\nid {id}\n", durability.name());
    files::replace(dir, FORMAT_FILE, &text)
        .map_err(io_error(&dir.join(FORMAT_FILE), "it could not be written"))
}

/// Claims a new or an empty directory for an import. Returns whether the directory was created.
pub(crate) fn claim_for_import(dir: &Path, header: LogHeader) -> Result<bool, OpenError> {
    let created = match std::fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(dir).map(|()| true)?,
        Err(error) => return Err(io_error(dir, "the directory could not be examined")(error)),
        Ok(_) => false,
    };
    if !is_empty(dir).map_err(io_error(dir, "the directory could not be read"))? {
        return Err(OpenError::NotEmpty { path: dir.to_owned() });
    }
    write_marker(dir, IMPORT_TITLE, header)?;
    Ok(created)
}

/// Ends an import: all records are written, and the directory is a log from now on.
pub(crate) fn end_import(dir: &Path, header: LogHeader) -> Result<(), OpenError> {
    write_marker(dir, TITLE, header)
}

/// Undoes a failed import: removes the files it wrote, and the directory if it was created for it.
pub(crate) fn undo_import(dir: &Path, created: bool) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if name == "blobs" {
                std::fs::remove_dir(entry.path())?;
            }
        } else if matches!(&*name, DATA_FILE | "conf" | HEAD_FILE)
            || name.starts_with("snap.")
            || name.starts_with(FORMAT_FILE)
            || name.starts_with(HEAD_FILE)
        {
            std::fs::remove_file(entry.path())?;
        }
    }
    if created { std::fs::remove_dir(dir) } else { Ok(()) }
}

fn create(dir: &Path) -> Result<(), OpenError> {
    std::fs::create_dir_all(dir).map_err(io_error(dir, "the directory could not be created"))?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    files::sync_dir(parent).map_err(io_error(parent, "the directory could not be synced"))
}

fn read_marker(dir: &Path, text: &str) -> Result<LogHeader, OpenError> {
    let damaged = || OpenError::NotALog {
        path: dir.to_owned(),
        why: "its file taskreel.format was not written by taskreel".to_owned(),
    };
    let mut lines = text.lines();
    match lines.next() {
        Some(TITLE) => {}
        Some(IMPORT_TITLE) => {
            return Err(OpenError::NotALog {
                path: dir.to_owned(),
                why: "an import into it was interrupted; remove the directory and import again".to_owned(),
            });
        }
        _ => return Err(damaged()),
    }
    let format = lines.next().and_then(|line| line.strip_prefix("format "));
    let found: u32 = format.and_then(|number| number.parse().ok()).ok_or_else(damaged)?;
    if found > FORMAT {
        return Err(OpenError::NewerFormat { path: dir.to_owned(), found, known: FORMAT });
    }
    if found < FORMAT {
        return Err(OpenError::OlderFormat { path: dir.to_owned(), found, known: FORMAT });
    }
    let name = lines.next().and_then(|line| line.strip_prefix("durability ")).ok_or_else(damaged)?;
    let id = lines.next().and_then(|line| line.strip_prefix("id ")).and_then(LogId::parse);
    let id = id.ok_or_else(damaged)?;
    let durability = Durability::of_name(name)
        .ok_or_else(|| OpenError::UnknownDurability { path: dir.to_owned(), found: name.to_owned() })?;
    Ok(LogHeader { format: FORMAT, id, durability })
}

/// Whether a directory is empty, apart from an unfinished marker.
fn is_empty(dir: &Path) -> io::Result<bool> {
    let unfinished = format!("{FORMAT_FILE}{NEW}");
    for entry in std::fs::read_dir(dir)? {
        if entry?.file_name() != unfinished.as_str() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the files to which sled has moved large data. sled never syncs them, so there must be none.
///
/// # Errors
/// The reason, if the directory cannot be read.
pub fn blob_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(dir.join("blobs")) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Waits until sled's threads have released the directory, so that it can be opened again at once.
pub(crate) fn await_release(dir: &Path) -> Result<(), String> {
    // If the directory was removed, no lock is held.
    let Ok(file) = File::open(dir.join(DATA_FILE)) else {
        return Ok(());
    };
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return file.unlock().map_err(|error| error.to_string()),
            Err(TryLockError::WouldBlock) if since.elapsed() < RELEASE_WITHIN => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}
