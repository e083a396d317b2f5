//! sled's database: how it is opened, and its errors in our words.

use std::path::Path;
use std::time::SystemTime;

use ::sled::{Db, Mode};

use crate::api::error::OpenError;
use crate::api::holder::Holder;
use crate::engine::head::HEAD_FILE;
use crate::engine::rights;
use crate::sled::dir::{blob_files, io_error};
use crate::sled::fence::{fenced, is_io};
use crate::sled::memory_size::{CACHE_BYTES_LOOK, CACHE_BYTES_MIN};
use crate::sled::options::{Purpose, SledOptions};

/// Bytes of sled's segments: sled keeps data up to a quarter of one out of blob files, and 17 values together
/// are smaller than that. Fixed when a log is created.
pub(crate) const SEGMENT_BYTES: usize = 4 * 1024 * 1024;

/// The partition of a log that is not one of several.
pub(crate) const PARTITION: u32 = 0;

pub(crate) fn refuse_blobs(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join("blobs");
    let count = blob_files(dir).map_err(io_error(&path, "the directory could not be read"))?.len();
    if count == 0 { Ok(()) } else { Err(OpenError::BlobsPresent { path, count }) }
}

pub(crate) fn open_database(dir: &Path, options: SledOptions) -> Result<Db, OpenError> {
    open_for((dir, Purpose::Use), options)
}

/// Opens a database for a purpose. One that is only looked at is never synced, and removed by sled when it is closed.
pub(crate) fn open_for((dir, purpose): (&Path, Purpose), options: SledOptions) -> Result<Db, OpenError> {
    // sled counts the time from 1970 on, and panics before.
    if SystemTime::now() < SystemTime::UNIX_EPOCH {
        let what = "the clock of this machine shows a time before 1970; set it, then open the log again";
        return Err(io_error(dir, what)(std::io::Error::other("no time can be recorded")));
    }
    // A reader of a private copy reads most values once, and writes nothing whose flush could fail.
    let cache_bytes = match purpose {
        Purpose::Use => options.cache_bytes.max(CACHE_BYTES_MIN),
        Purpose::Look => CACHE_BYTES_LOOK,
    };
    let config = ::sled::Config::new()
        .temporary(purpose == Purpose::Look)
        .path(dir)
        .mode(Mode::HighThroughput)
        .segment_size(SEGMENT_BYTES)
        .flush_every_ms(None)
        .cache_capacity(cache_bytes);
    // sled panics on some kinds of damage; none of our own work has begun yet that could be left incomplete.
    match fenced(|| config.open()) {
        Ok(Ok(db)) => {
            let restricted = rights::restrict(dir);
            restricted.map_err(io_error(dir, "the rights of the database's files could not be set"))?;
            Ok(db)
        }
        Ok(Err(error)) => Err(sled_error(dir, &error)),
        Err(why) => Err(panicked(dir, why)),
    }
}

/// Returns the error for a panic of sled: it panics on some kinds of damage, and on some errors of the disk.
pub(crate) fn panicked(dir: &Path, why: String) -> OpenError {
    if is_io(&why) {
        return io_error(dir, "the database could not be read or written")(std::io::Error::other(why));
    }
    damaged(dir, why)
}

/// The only sign by which sled reports that another process has the lock. The exact version is pinned, and a
/// test checks the text.
const LOCKED: &str = "could not acquire lock";

pub(crate) fn sled_error(dir: &Path, error: &::sled::Error) -> OpenError {
    match error {
        ::sled::Error::Io(source) if source.to_string().contains(LOCKED) => {
            OpenError::Held { path: dir.to_owned(), holder: Holder::read(dir) }
        }
        ::sled::Error::Io(source) => OpenError::Io {
            path: dir.to_owned(),
            what: "the database could not be opened",
            source: std::io::Error::new(source.kind(), source.to_string()),
        },
        ::sled::Error::Corruption { .. } => {
            damaged(dir, "a page of the database under the log has a wrong checksum")
        }
        other => damaged(dir, format!("the database under the log reports: {other}")),
    }
}

pub(crate) fn damaged(dir: &Path, what: impl Into<String>) -> OpenError {
    OpenError::Corrupt { path: dir.to_owned(), what: what.into() }
}

pub(crate) fn head_error(dir: &Path, why: String) -> OpenError {
    io_error(&dir.join(HEAD_FILE), "it could not be written")(std::io::Error::other(why))
}
