//! sled's small files: `conf` and the snapshots `snap.*`. Both can be rebuilt: `conf` is the same for every
//! log of this format, a snapshot is a cache of the log. A damaged one is set aside; an unfinished one is
//! removed.

use std::fs::{self, File};
use std::path::Path;

use crate::api::error::OpenError;
use crate::api::note::OpenNote;
use crate::sled::dir::{DATA_FILE, io_error};
use crate::sled::guard::aside;
use crate::sled::guard::fit::fits;
use crate::sled::guard::pages::{PageTable, SNAPSHOT, UNFINISHED, snapshot_names};

/// Name of the file with the parameters with which a database was created.
const CONF: &str = "conf";

/// Checks that sled can read its small files. Returns the page table of the newest snapshot, with the lsn from
/// which on sled will read the log.
pub(crate) fn check(dir: &Path, db: &File, notes: &mut Vec<OpenNote>) -> Result<PageTable, OpenError> {
    conf(dir, notes)?;
    snapshot(dir, db, notes)
}

/// Removes an incomplete `conf` left by a power failure during the creation of a log. Without a database it
/// is not needed.
pub(crate) fn remove_incomplete_conf(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(CONF);
    if conf_is_whole(&path)? {
        return Ok(());
    }
    fs::remove_file(&path).map_err(io_error(&path, "it could not be removed"))
}

fn conf(dir: &Path, notes: &mut Vec<OpenNote>) -> Result<(), OpenError> {
    if conf_is_whole(&dir.join(CONF))? {
        return Ok(());
    }
    set_aside(dir, CONF, "is incomplete", notes)
}

/// Whether the file is a text followed by its CRC32. A missing file counts as whole: sled creates it.
fn conf_is_whole(path: &Path) -> Result<bool, OpenError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(io_error(path, "it could not be read")(error)),
    };
    let parts = bytes.split_last_chunk::<4>();
    Ok(parts.is_some_and(|(text, crc)| !text.is_empty() && crc32fast::hash(text).to_le_bytes() == *crc))
}

/// Returns the newest whole snapshot of this database, and sets newer ones aside: sled reads the last by name, and fails if it is
/// damaged or of another state.
fn snapshot(dir: &Path, db: &File, notes: &mut Vec<OpenNote>) -> Result<PageTable, OpenError> {
    let mut names = snapshot_names(dir).map_err(io_error(dir, "the directory could not be read"))?;
    while let Some(name) = names.pop() {
        let path = dir.join(&name);
        if name.ends_with(UNFINISHED) {
            // It was never renamed, so it is not in use: a crash during an opening leaves it.
            fs::remove_file(&path).map_err(io_error(&path, "it could not be removed"))?;
            continue;
        }
        let bytes = fs::read(&path).map_err(io_error(&path, "it could not be read"))?;
        let of_name = u64::from_str_radix(name.trim_start_matches(SNAPSHOT), 16).ok();
        match PageTable::parse(&bytes).filter(|table| table.stable == of_name) {
            Some(table)
                if fits(&table, db).map_err(io_error(&dir.join(DATA_FILE), "it could not be read"))? =>
            {
                return Ok(table);
            }
            Some(_) => set_aside(dir, &name, "is a snapshot of another, newer state of the database", notes)?,
            None => set_aside(dir, &name, "is a damaged snapshot of the database", notes)?,
        }
    }
    Ok(PageTable::default())
}

fn set_aside(dir: &Path, name: &str, why: &'static str, notes: &mut Vec<OpenNote>) -> Result<(), OpenError> {
    let kept = aside::file(dir, name).map_err(io_error(&dir.join(name), "it could not be set aside"))?;
    notes.push(OpenNote::FileSetAside { file: name.to_owned(), why, kept });
    Ok(())
}
