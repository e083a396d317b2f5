//! The whole copy of a log of which a reader has copied a part: made when something is asked for that the part does not have.
//! A log is only ever appended to, so that what was read of it before is in a later copy too.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ::sled::IVec;
use proto_events::id::LogId;

use crate::api::error::{OpenError, ReadError};
use crate::api::in_order::threads_where_free;
use crate::engine::files;
use crate::engine::values::Values;
use crate::sled::dir::is_held;
use crate::sled::options::{ReadOnlyOptions, SledOptions};
use crate::sled::private_copy::PrivateCopy;
use crate::sled::store::SledStore;

/// Copies of a log that is being written of which one must open: a part of the database may be replaced while it is
/// copied.
const ATTEMPTS: usize = 8;

/// A whole copy of a log, opened.
#[derive(Debug)]
pub(crate) struct WholeCopy {
    // Declared before the copy that it is in, so that it is closed first.
    pub(crate) store: SledStore,
    pub(crate) copy: PrivateCopy,
    /// Whether a program had the log open, or wrote to it, while it was copied.
    pub(crate) is_live: bool,
}

impl WholeCopy {
    /// Copies the log in `dir`, and opens the copy.
    ///
    /// # Errors
    /// [`OpenError`] as an opening of the log; [`OpenError::NoRoom`] if the disk has no room for the copy.
    pub(crate) fn open(dir: &Path, options: &ReadOnlyOptions) -> Result<Self, OpenError> {
        let (mut attempt, mut was_announced) = (1, false);
        loop {
            let was_held = is_held(dir);
            let copy = PrivateCopy::made_again(dir, options, &mut was_announced)?;
            let is_live = was_held || copy.changed || is_held(dir);
            if is_live {
                copy.forget_holder()?;
            }
            match SledStore::open_copy(&copy.dir(), opening(), None) {
                Ok(store) => return Ok(Self { store, copy, is_live }),
                Err(error) if is_live && attempt < ATTEMPTS && may_be_of_copying(&error) => {
                    tracing::debug!(%error, attempt, "the log changed while it was copied; it is copied again");
                    attempt += 1;
                }
                Err(error) => return Err(error.of_copy(&copy.dir(), dir)),
            }
        }
    }
}

/// Returns the options with which a copy is opened.
pub(crate) fn opening() -> SledOptions {
    SledOptions { create: false, scan_threads: threads_where_free(), ..SledOptions::default() }
}

/// Whether an error may come from a copy of which one part is newer than another.
fn may_be_of_copying(error: &OpenError) -> bool {
    matches!(error, OpenError::Corrupt { .. } | OpenError::EndsBeforeHead { .. } | OpenError::NotALog { .. })
}

/// The whole copy of a log, made when it is first asked for.
#[derive(Debug)]
pub(crate) struct WholeWhenAsked {
    dir: PathBuf,
    id: LogId,
    options: ReadOnlyOptions,
    copy: OnceLock<Result<WholeCopy, ReadError>>,
}

impl WholeWhenAsked {
    /// Returns the whole copy of the log with this id in `dir`, which is not made yet.
    pub(crate) fn new(dir: &Path, id: LogId, options: &ReadOnlyOptions) -> Self {
        Self { dir: files::absolute(dir), id, options: options.clone(), copy: OnceLock::new() }
    }

    /// Returns the store over the copy.
    ///
    /// # Errors
    /// [`ReadError`] if there can be none: the log is gone or damaged, or the disk is full.
    pub(crate) fn store(&self) -> Result<&SledStore, ReadError> {
        let copy = self.copy.get_or_init(|| {
            tracing::debug!(dir = %self.dir.display(), "a part of the log is not enough; all of it is copied");
            let copy = WholeCopy::open(&self.dir, &self.options).map_err(|error| self.error(&error))?;
            if copy.store.header().id == self.id {
                Ok(copy)
            } else {
                Err(ReadError::Io(format!("{}: another log has taken the place of this one", self.dir.display())))
            }
        });
        copy.as_ref().map(|copy| &copy.store).map_err(ReadError::clone)
    }

    fn error(&self, error: &OpenError) -> ReadError {
        match error {
            OpenError::Corrupt { what, .. } => ReadError::corrupt(what.clone(), None),
            error => ReadError::Io(format!("{}: {error}", self.dir.display())),
        }
    }
}

impl Values for WholeWhenAsked {
    type Bytes = IVec;

    fn get(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        self.store()?.read(|trees| trees.get(ordinal))
    }

    fn get_in_pass(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        self.store()?.read(|trees| trees.get_in_pass(ordinal))
    }

    fn get_chunk(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        self.store()?.read(|trees| trees.get_chunk(ordinal))
    }
}
