//! Files written as a whole: to a name of its own, synced, then named, so that a crash leaves the old file or the new
//! one, and never a part.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::files::error::FileError;
use crate::files::name::numbered;

/// The names that are tried for one file.
const COPIES_MAX: usize = 1_000;

/// Replaces a file, or makes it.
pub(super) fn replace(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, FileError> {
    let (whole, path) = (temporary(folder, bytes)?, folder.join(name));
    fs::rename(&whole, &path).map_err(|error| {
        let _ = fs::remove_file(&whole);
        FileError::io("cannot name", &path)(error)
    })?;
    sync_folder(folder)?;
    Ok(path)
}

/// Makes a file that replaces none: under its own name, or under a numbered one if a file with other content has it.
pub(super) fn add(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, FileError> {
    let whole = temporary(folder, bytes)?;
    let named = first_free(folder, name, &whole, bytes);
    let removed = fs::remove_file(&whole).map_err(FileError::io("cannot remove", &whole));
    let path = named?;
    removed?;
    sync_folder(folder)?;
    Ok(path)
}

fn first_free(folder: &Path, name: &str, whole: &Path, bytes: &[u8]) -> Result<PathBuf, FileError> {
    for copy in 1..=COPIES_MAX {
        let path = if copy == 1 { folder.join(name) } else { folder.join(numbered(name, copy)) };
        match fs::hard_link(whole, &path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // The same content under the same name is the same file: an artifact that is saved again.
                let is_file = fs::symlink_metadata(&path).is_ok_and(|entry| entry.is_file());
                if is_file && fs::read(&path).is_ok_and(|found| found == bytes) {
                    return Ok(path);
                }
            }
            Err(error) => return Err(FileError::io("cannot name", &path)(error)),
        }
    }
    Err(FileError::NameTaken { path: folder.join(name) })
}

/// Writes a synced file under a name that nobody looks for.
fn temporary(folder: &Path, bytes: &[u8]) -> Result<PathBuf, FileError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".taskreel-{}-{number}.tmp", std::process::id()));
        let opened = OpenOptions::new().write(true).create_new(true).open(&path);
        // A program that had this process id was killed here.
        if opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
            continue;
        }
        let file = opened.map_err(FileError::io("cannot make", &path))?;
        let written = fill(file, bytes).map_err(FileError::io("cannot write", &path));
        if written.is_err() {
            let _ = fs::remove_file(&path);
        }
        return written.map(|()| path);
    }
}

fn fill(mut file: File, bytes: &[u8]) -> std::io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the names in a folder durable.
fn sync_folder(folder: &Path) -> Result<(), FileError> {
    if cfg!(unix) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(FileError::io("cannot sync", folder))?;
    }
    Ok(())
}

/// Returns a folder below the store's, made if it is missing, if it is still below it after its links are followed.
pub(super) fn folder_within(root: &Path, folder: &Path) -> Result<PathBuf, FileError> {
    contained(root, folder)?;
    fs::create_dir_all(folder).map_err(FileError::io("cannot make", folder))?;
    contained(root, folder)?;
    Ok(folder.to_owned())
}

/// Checks that a path stays below the store's folder after the links of the part of it that exists are followed.
pub(super) fn contained(root: &Path, path: &Path) -> Result<(), FileError> {
    let mut existing = path;
    let resolved = loop {
        match existing.canonicalize() {
            Ok(resolved) => break resolved,
            // A link to nothing exists and leads somewhere that cannot be checked.
            Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(existing).is_err() => {
                existing = existing.parent().ok_or_else(|| FileError::Escapes { path: path.to_owned() })?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(FileError::Escapes { path: path.to_owned() });
            }
            Err(error) => return Err(FileError::io("cannot look at", existing)(error)),
        }
    };
    if resolved.starts_with(root) { Ok(()) } else { Err(FileError::Escapes { path: path.to_owned() }) }
}
