//! Setting aside: data to be removed from a log is first kept in the folder `damaged`, durably.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::engine::{files, rights};

/// Name of the folder.
const FOLDER: &str = "damaged";

/// Returns an unused path in the folder.
fn free_name(dir: &Path, name: &str) -> io::Result<PathBuf> {
    let folder = dir.join(FOLDER);
    rights::folder(dir, FOLDER)?;
    let mut path = folder.join(name);
    let mut number = 2_u32;
    while path.try_exists()? {
        path = folder.join(format!("{name}-{number}"));
        number += 1;
    }
    Ok(path)
}

/// Moves a file into the folder. Returns its new path.
pub(crate) fn file(dir: &Path, name: &str) -> io::Result<PathBuf> {
    let path = free_name(dir, name)?;
    fs::rename(dir.join(name), &path)?;
    files::sync_dir(&dir.join(FOLDER))?;
    files::sync_dir(dir)?;
    Ok(path)
}

/// Writes bytes to a new file in the folder. Returns its path.
pub(crate) fn bytes(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let path = free_name(dir, name)?;
    let mut kept = File::create_new(&path)?;
    kept.write_all(bytes)?;
    kept.sync_all()?;
    files::sync_dir(&dir.join(FOLDER))?;
    files::sync_dir(dir)?;
    Ok(path)
}
