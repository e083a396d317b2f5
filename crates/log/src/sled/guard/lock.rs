//! The lock on the log's directory while the guard reads it.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::api::error::OpenError;
use crate::sled::dir::io_error;

/// Takes the lock that sled takes. Returns false if another process holds it.
pub(crate) fn lock(db: &File, path: &Path) -> Result<bool, OpenError> {
    match db.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => {
            Err(io_error(path, "the database file could not be locked")(error))
        }
    }
}
