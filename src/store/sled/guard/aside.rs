//! Setting aside: what is to be removed from a log is kept in the folder `damaged` first, durably.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::store::files;

/// Name of the folder.
const FOLDER: &str = "damaged";

/// A name in the folder that is not taken yet.
fn free_name(dir: &Path, name: &str) -> io::Result<PathBuf> {
    let folder = dir.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let mut path = folder.join(name);
    let mut number = 2_u32;
    while path.try_exists()? {
        path = folder.join(format!("{name}-{number}"));
        number += 1;
    }
    Ok(path)
}

/// Moves a file into the folder. Answers where it is.
pub(super) fn file(dir: &Path, name: &str) -> io::Result<PathBuf> {
    let path = free_name(dir, name)?;
    fs::rename(dir.join(name), &path)?;
    files::sync_dir(&dir.join(FOLDER))?;
    files::sync_dir(dir)?;
    Ok(path)
}

/// Keeps bytes in the folder.
pub(super) fn bytes(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let path = free_name(dir, name)?;
    let mut kept = File::create_new(&path)?;
    kept.write_all(bytes)?;
    kept.sync_all()?;
    files::sync_dir(&dir.join(FOLDER))?;
    files::sync_dir(dir)?;
    Ok(path)
}
