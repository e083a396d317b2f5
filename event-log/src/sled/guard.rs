//! The checks made before sled opens its files. sled ends its log at the first incomplete message, clears
//! what follows, and reports nothing. So we first read what it would read. A log torn by a crash is opened,
//! with the part that is cut off set aside; a damaged log is refused before anything in it is changed.
//!
//! The values after the tear distinguish the two: a value that begins a group proves that all before it was
//! durable when it was written, and so does `HEAD`.

pub(crate) mod aside;
pub(crate) mod cache;
pub(crate) mod copy;
pub(crate) mod lock;
pub(crate) mod segment;
pub(crate) mod tear;

use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::api::durability::Durability;
use crate::api::error::OpenError;
use crate::api::note::OpenNote;
use crate::engine::head::Head;
use crate::sled::dir::{DATA_FILE, io_error};
use crate::sled::guard::lock::lock;

/// The result of the guard's checks.
#[derive(Debug)]
pub(crate) struct Guarded {
    /// Notes for the caller that opens the log.
    pub(crate) notes: Vec<OpenNote>,
    /// Whether nothing was set aside, so that caches of the log may be used.
    pub(crate) trusted: bool,
}

/// Checks the files in `dir` before sled does, and prepares them so that sled loses no durable data.
///
/// # Errors
/// [`OpenError::Corrupt`] if durable data is damaged; nothing was changed then.
pub(crate) fn check_files(
    dir: &Path,
    head: Option<&Head>,
    durability: Durability,
) -> Result<Guarded, OpenError> {
    let path = dir.join(DATA_FILE);
    let mut guarded = Guarded { notes: Vec::new(), trusted: true };
    let db = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(db) => db,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            cache::remove_incomplete_conf(dir)?;
            return Ok(guarded);
        }
        Err(error) => return Err(io_error(&path, "the database file could not be opened")(error)),
    };
    if !lock(&db, &path)? {
        // Another process has it open: sled will report that.
        return Ok(guarded);
    }
    let checked = check_locked(dir, &db, head, durability, &mut guarded.notes);
    // Unlocked explicitly, since a process that is being started at this moment may hold a copy of the
    // descriptor.
    let freed = db.unlock().map_err(io_error(&path, "the database file could not be unlocked"));
    checked.and(freed)?;
    guarded.trusted = guarded.notes.is_empty();
    Ok(guarded)
}

fn check_locked(
    dir: &Path,
    db: &File,
    head: Option<&Head>,
    durability: Durability,
    notes: &mut Vec<OpenNote>,
) -> Result<(), OpenError> {
    let path = dir.join(DATA_FILE);
    let from = cache::check(dir, notes)?;
    let torn = tear::find(db, from, head, durability).map_err(io_error(&path, "it could not be read"))?;
    if let Some(tear) = torn {
        tear::mend(dir, db, &tear, notes)?;
    }
    Ok(())
}
