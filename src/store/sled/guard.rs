//! What happens before sled opens its files. sled ends its log at the first message that is not whole, clears what
//! stands behind it, and tells nobody. So we read first what it would read. A log that a crash has torn goes on
//! being opened, with what is cut off set aside; a log that is damaged is refused before anything in it is changed.
//!
//! Which of the two it is, the values behind the tear tell: one that begins a group proves that all before it had
//! been durable when it was written, and so does `HEAD`.

mod aside;
mod cache;
mod copy;
mod segment;
mod tear;

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use crate::store::head::Head;
use crate::store::{OpenError, OpenNote};

pub(super) use self::copy::Copy;
use super::Durability;
use super::dir::{DATA_FILE, io_error};

/// What the guard has seen.
#[derive(Debug)]
pub(super) struct Guarded {
    /// To be told to whoever opens the log.
    pub(super) notes: Vec<OpenNote>,
    /// Whether all was as it should be, so that caches of the log may be used.
    pub(super) trusted: bool,
}

/// Looks at the files in `dir` before sled does, and makes them such that sled loses nothing that counts.
///
/// # Errors
/// [`OpenError::Corrupt`] if something is damaged that had been durable; nothing was changed then.
pub(super) fn look(dir: &Path, head: Option<&Head>, durability: Durability) -> Result<Guarded, OpenError> {
    let path = dir.join(DATA_FILE);
    let mut guarded = Guarded { notes: Vec::new(), trusted: true };
    let db = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(db) => db,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            cache::forget_half_made(dir)?;
            return Ok(guarded);
        }
        Err(error) => return Err(io_error(&path, "the database's file could not be opened")(error)),
    };
    if !lock(&db, &path)? {
        // Somebody has it open: sled will say so.
        return Ok(guarded);
    }
    let looked = look_locked(dir, &db, head, durability, &mut guarded.notes);
    // By name, since a process that is being started at this moment may hold a copy of the descriptor.
    let freed = db.unlock().map_err(io_error(&path, "the database's file could not be unlocked"));
    looked.and(freed)?;
    guarded.trusted = guarded.notes.is_empty();
    Ok(guarded)
}

fn look_locked(
    dir: &Path,
    db: &File,
    head: Option<&Head>,
    durability: Durability,
    notes: &mut Vec<OpenNote>,
) -> Result<(), OpenError> {
    let path = dir.join(DATA_FILE);
    let from = cache::look(dir, notes)?;
    let torn = tear::find(db, from, head, durability).map_err(io_error(&path, "it could not be read"))?;
    if let Some(tear) = torn {
        tear::mend(dir, db, &tear, notes)?;
    }
    Ok(())
}

/// Takes the lock that sled takes.
fn lock(db: &File, path: &Path) -> Result<bool, OpenError> {
    match db.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => {
            Err(io_error(path, "the database's file could not be locked")(error))
        }
    }
}
