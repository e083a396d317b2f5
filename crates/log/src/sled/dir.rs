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
use crate::engine::rights;
pub(crate) use crate::engine::rights::FORMAT_FILE;
use crate::ports::{IdSource as _, RandomIds};
use crate::sled::options::SledOptions;

/// The format of the log that this release reads and writes.
pub(crate) const FORMAT: u32 = 2;

/// First line of the marker.
const TITLE: &str = "taskreel log";

/// First line of the marker during an import: until the last record is written, the directory is not a log.
const IMPORT_TITLE: &str = "taskreel import";

/// Name of sled's data file, which we sync ourselves.
pub(crate) const DATA_FILE: &str = "db";

/// Longest time for which sled's own threads may keep the directory locked after the last handle is dropped.
const RELEASE_WITHIN: Duration = Duration::from_secs(10);

/// Longest time for which an opening waits for that of another process.
const OPENED_WITHIN: Duration = Duration::from_secs(10);

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
    if let Some(header) = existing(dir, options)? {
        return Ok(header);
    }
    if !is_empty(dir).map_err(io_error(dir, "the directory could not be read"))? {
        // Another process may have begun the log meanwhile.
        let begun = existing(dir, options)?;
        return begun.ok_or_else(|| not_a_log("it has files, but no file taskreel.format"));
    }
    if !options.create {
        return Err(not_a_log("it is empty"));
    }
    let id = LogId(RandomIds.random());
    let header = LogHeader { format: FORMAT, id, durability: options.durability.unwrap_or_default() };
    close(dir)?;
    let created = files::create(dir, FORMAT_FILE, &marker_text(TITLE, header));
    if created.map_err(io_error(&dir.join(FORMAT_FILE), "it could not be written"))? {
        return Ok(header);
    }
    existing(dir, options)?.ok_or_else(|| not_a_log("its file taskreel.format is gone"))
}

/// Reads the header of the log in `dir`; `None` without a log.
fn existing(dir: &Path, options: SledOptions) -> Result<Option<LogHeader>, OpenError> {
    let not_a_log = |why: &str| OpenError::NotALog { path: dir.to_owned(), why: why.to_owned() };
    let text = match files::read(dir, FORMAT_FILE) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(not_a_log("its file taskreel.format is not text"));
        }
        other => other.map_err(io_error(&dir.join(FORMAT_FILE), "it could not be read"))?,
    };
    let Some(text) = text else { return Ok(None) };
    let header = read_marker(dir, &text)?;
    refuse_pipes(dir)?;
    let found = header.durability;
    if let Some(asked) = options.durability.filter(|asked| *asked != found) {
        return Err(OpenError::OtherDurability { path: dir.to_owned(), found, asked });
    }
    // Without this check sled would create an empty database in the place of the missing one.
    if dir.join(HEAD_FILE).exists() && !dir.join(DATA_FILE).exists() {
        return Err(not_a_log("its database file `db` is missing, although it has a HEAD file"));
    }
    Ok(Some(header))
}

/// Refuses a log with a pipe or a device in the place of a file: sled opens its files by itself, and opening a pipe waits
/// for the owner.
fn refuse_pipes(dir: &Path) -> Result<(), OpenError> {
    let unreadable = || io_error(dir, "the directory could not be read");
    for entry in std::fs::read_dir(dir).map_err(unreadable())? {
        let path = entry.map_err(unreadable())?.path();
        // What is gone again, or leads nowhere, is not opened either.
        if std::fs::metadata(&path).is_ok_and(|found| files::is_pipe_or_device(&found)) {
            return Err(io_error(&path, "it could not be read")(io::Error::other(files::NO_PLAIN_FILE)));
        }
    }
    Ok(())
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

fn marker_text(title: &str, header: LogHeader) -> String {
    let LogHeader { format, id, durability } = header;
    format!("{title}\nformat {format}\ndurability {}\nid {id}\n", durability.name())
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
    close(dir)?;
    let claimed = files::create(dir, FORMAT_FILE, &marker_text(IMPORT_TITLE, header));
    if !claimed.map_err(io_error(&dir.join(FORMAT_FILE), "it could not be written"))? {
        return Err(OpenError::NotEmpty { path: dir.to_owned() });
    }
    Ok(created)
}

/// Ends an import: all records are written, and the directory is a log from now on.
pub(crate) fn end_import(dir: &Path, header: LogHeader) -> Result<(), OpenError> {
    files::replace(dir, FORMAT_FILE, &marker_text(TITLE, header))
        .map_err(io_error(&dir.join(FORMAT_FILE), "it could not be written"))
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

/// Creates a directory and its parents, and makes each that was made durable: its name stands in its parent.
fn create(dir: &Path) -> Result<(), OpenError> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let made: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    std::fs::create_dir_all(dir).map_err(io_error(dir, "the directory could not be created"))?;
    for path in made {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        files::sync_dir(parent).map_err(io_error(parent, "the directory could not be synced"))?;
    }
    Ok(())
}

/// Keeps all but its owner out of the directory of a new log. One that is somebody else's stays as it is.
fn close(dir: &Path) -> Result<(), OpenError> {
    match rights::close(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        closed => closed.map_err(io_error(dir, "its rights could not be set")),
    }
}

/// Makes the folder `blobs`, without which sled does not open a log, and makes that durable. One that a loss of power took
/// away, or left empty and unreadable, is made anew: we never let sled put anything there.
pub(crate) fn make_blobs(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join("blobs");
    match std::fs::read_dir(&path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // Only an empty folder can be removed: what cannot stays, and is told.
        Err(error) => std::fs::remove_dir(&path)
            .map_err(|_| io_error(&path, "the directory could not be read")(error))?,
    }
    rights::folder(dir, "blobs").map_err(io_error(&path, "the directory could not be created"))?;
    files::sync_dir(dir).map_err(io_error(dir, "the directory could not be synced"))
}

/// A lock on the directory while a log is opened: of several processes that open one log at once, the others wait
/// until the first has the database's own lock and is named by the file `holder`.
#[derive(Debug)]
pub(crate) struct OpenLock(Option<File>);

impl OpenLock {
    /// Takes the lock. Returns without it if another process has it for long: the database's own lock decides.
    pub(crate) fn open(dir: &Path) -> Self {
        // Windows lets nobody read a file that is locked.
        let marker = File::open(dir.join(FORMAT_FILE)).ok().filter(|_| cfg!(not(windows)));
        let since = Instant::now();
        let locked = marker.filter(|marker| {
            loop {
                match marker.try_lock() {
                    Ok(()) => return true,
                    Err(TryLockError::WouldBlock) if since.elapsed() < OPENED_WITHIN => {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Err(_) => return false,
                }
            }
        });
        Self(locked)
    }
}

impl Drop for OpenLock {
    fn drop(&mut self) {
        // Explicitly, since a process that is being started at this moment may hold a copy of the descriptor.
        if let Some(marker) = &self.0 {
            let _ = marker.unlock();
        }
    }
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
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !(name.starts_with(FORMAT_FILE) && name.ends_with(NEW)) {
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

/// Whether a process has the log in `dir` open. Nobody who opens the log meanwhile is refused because of this: other
/// openings wait while the lock is examined.
pub fn is_held(dir: &Path) -> bool {
    let Ok(db) = File::open(dir.join(DATA_FILE)) else { return false };
    let _opening = OpenLock::open(dir);
    match db.try_lock_shared() {
        Ok(()) => {
            // Explicitly, since a process that is being started at this moment may hold a copy of the descriptor.
            let _ = db.unlock();
            false
        }
        Err(error) => matches!(error, TryLockError::WouldBlock),
    }
}

/// Waits until sled's threads have released the directory, so that it can be opened again at once, or until
/// another process is known to have it.
pub(crate) fn await_release(dir: &Path, is_taken: impl Fn() -> bool) -> Result<(), String> {
    // If the directory was removed, no lock is held.
    let Ok(file) = File::open(dir.join(DATA_FILE)) else {
        return Ok(());
    };
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return file.unlock().map_err(|error| error.to_string()),
            Err(TryLockError::WouldBlock) if is_taken() => return Ok(()),
            Err(TryLockError::WouldBlock) if since.elapsed() < RELEASE_WITHIN => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}
