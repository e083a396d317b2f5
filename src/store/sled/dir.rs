//! The directory around the database: the marker that makes it a log, its blob files, its lock.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::store::head::HEAD_FILE;
use crate::store::{OpenError, files};

use super::{Durability, SledOptions};

/// The only format of the log there is.
pub(super) const FORMAT: u32 = 1;

/// Name of the marker.
const FORMAT_FILE: &str = "taskreel.format";

/// First line of the marker.
const TITLE: &str = "taskreel log";

/// First line of the marker while a log is imported: until the last record is there, it is no log.
const IMPORT_TITLE: &str = "taskreel import";

/// Name of sled's data file, which we sync ourselves.
pub(super) const DATA_FILE: &str = "db";

/// Longest time that sled's own threads may keep the directory after the last handle is gone.
const RELEASE_WITHIN: Duration = Duration::from_secs(10);

/// An IO error that names its file.
pub(super) fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Io { path: path.to_owned(), what, source }
}

/// Sees that `dir` is a log that this program knows, or makes it one where that harms nobody. Whatever is something
/// else is refused before anything in it is touched.
pub(super) fn claim(dir: &Path, options: SledOptions) -> Result<Durability, OpenError> {
    let not_a_log = |why: &str| OpenError::NotALog { path: dir.to_owned(), why: why.to_owned() };
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(not_a_log("it is a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound && options.create => create(dir)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_a_log("it does not exist")),
        Err(error) => return Err(io_error(dir, "the directory could not be looked at")(error)),
    }
    let marker = files::read(dir, FORMAT_FILE);
    let marker = match marker {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(not_a_log("its taskreel.format is no text"));
        }
        other => other.map_err(io_error(&dir.join(FORMAT_FILE), "it could not be read"))?,
    };
    if let Some(text) = marker {
        let durability = read_marker(dir, &text)?;
        if let Some(asked) = options.durability.filter(|asked| *asked != durability) {
            return Err(OpenError::OtherDurability { path: dir.to_owned(), found: durability, asked });
        }
        // Left to itself, the database would begin an empty one in the place of the one that is gone.
        if dir.join(HEAD_FILE).exists() && !dir.join(DATA_FILE).exists() {
            return Err(not_a_log("its database file `db` is gone, and its HEAD says that there was one"));
        }
        return Ok(durability);
    }
    if !is_empty(dir).map_err(io_error(dir, "the directory could not be read"))? {
        return Err(not_a_log("it holds files, but none named taskreel.format"));
    }
    if !options.create {
        return Err(not_a_log("it is empty"));
    }
    let durability = options.durability.unwrap_or_default();
    write_marker(dir, TITLE, durability)?;
    Ok(durability)
}

/// What a log says of itself before it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHeader {
    /// Its format.
    pub format: u32,
    /// What an acknowledged append has survived.
    pub durability: Durability,
}

/// Reads what the log in `dir` says of itself. Nothing is made, changed or locked.
///
/// # Errors
/// [`OpenError`] if there is no log that this program knows.
pub fn log_header(dir: &Path) -> Result<LogHeader, OpenError> {
    let options = SledOptions { create: false, ..SledOptions::default() };
    Ok(LogHeader { format: FORMAT, durability: claim(dir, options)? })
}

fn write_marker(dir: &Path, title: &str, durability: Durability) -> Result<(), OpenError> {
    let text = format!("{title}\nformat {FORMAT}\ndurability {}\n", durability.name());
    files::replace(dir, FORMAT_FILE, &text)
        .map_err(io_error(&dir.join(FORMAT_FILE), "it could not be written"))
}

/// Takes a new or an empty directory for a log that is imported. Answers whether it was made.
pub(super) fn claim_for_import(dir: &Path, durability: Durability) -> Result<bool, OpenError> {
    let made = match std::fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(dir).map(|()| true)?,
        Err(error) => return Err(io_error(dir, "the directory could not be looked at")(error)),
        Ok(_) => false,
    };
    if !is_empty(dir).map_err(io_error(dir, "the directory could not be read"))? {
        return Err(OpenError::NotEmpty { path: dir.to_owned() });
    }
    write_marker(dir, IMPORT_TITLE, durability)?;
    Ok(made)
}

/// All records are there: from now on it is a log.
pub(super) fn end_import(dir: &Path, durability: Durability) -> Result<(), OpenError> {
    write_marker(dir, TITLE, durability)
}

/// Takes back an import that failed: what it wrote goes, and the directory if it was made for it.
pub(super) fn undo_import(dir: &Path, made: bool) -> io::Result<()> {
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
    if made { std::fs::remove_dir(dir) } else { Ok(()) }
}

fn create(dir: &Path) -> Result<(), OpenError> {
    std::fs::create_dir_all(dir).map_err(io_error(dir, "the directory could not be made"))?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    files::sync_dir(parent).map_err(io_error(parent, "the directory could not be synced"))
}

fn read_marker(dir: &Path, text: &str) -> Result<Durability, OpenError> {
    let damaged = || OpenError::NotALog {
        path: dir.to_owned(),
        why: "its taskreel.format is not one that taskreel wrote".to_owned(),
    };
    let mut lines = text.lines();
    match lines.next() {
        Some(TITLE) => {}
        Some(IMPORT_TITLE) => {
            return Err(OpenError::NotALog {
                path: dir.to_owned(),
                why: "an import into it was cut off; remove it and import again".to_owned(),
            });
        }
        _ => return Err(damaged()),
    }
    let format = lines.next().and_then(|line| line.strip_prefix("format "));
    let found: u32 = format.and_then(|number| number.parse().ok()).ok_or_else(damaged)?;
    if found > FORMAT {
        return Err(OpenError::NewerFormat { path: dir.to_owned(), found, known: FORMAT });
    }
    let durability = lines.next().and_then(|line| line.strip_prefix("durability ")).ok_or_else(damaged)?;
    if found != FORMAT {
        return Err(damaged());
    }
    Durability::of_name(durability)
        .ok_or_else(|| OpenError::UnknownDurability { path: dir.to_owned(), found: durability.to_owned() })
}

/// Whether a directory holds nothing but, perhaps, a marker that was never finished.
fn is_empty(dir: &Path) -> io::Result<bool> {
    let unfinished = format!("{FORMAT_FILE}{}", files::NEW);
    for entry in std::fs::read_dir(dir)? {
        if entry?.file_name() != unfinished.as_str() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The files to which sled has moved large data, which it never syncs: there must be none.
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

/// Waits until sled's threads have let go of the directory, so that it can be opened again at once.
pub(super) fn await_release(dir: &Path) -> Result<(), String> {
    // If somebody has removed the directory, nothing is held.
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
