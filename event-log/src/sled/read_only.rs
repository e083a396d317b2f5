//! A log in a directory, read without a trace: from a private copy, so that reading works on a directory that cannot be
//! written, by another user, by many readers at once, and beside the program that writes the log.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use proto_events::id::{Position, StreamId, Version};

use crate::api::durability::Durability;
use crate::api::error::{OpenError, ReadError};
use crate::api::in_order::threads_where_free;
use crate::api::note::OpenNote;
use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::api::record::{StoredRecord, StreamInfo};
use crate::api::scan::{Compare, ScanStep, Scanned};
use crate::api::store::EventStore as _;
use crate::sled::database::refuse_blobs;
use crate::sled::dir::{LogHeader, is_held, log_header};
use crate::sled::options::{ReadOnlyOptions, SledOptions};
use crate::sled::private_copy::PrivateCopy;
use crate::sled::sizes::TreeSize;
use crate::sled::store::SledStore;

/// Copies of a log that is being written of which one must open: a part of the database may be replaced while it is
/// copied.
const ATTEMPTS: usize = 8;

/// A log in a directory, as it was when it was opened for reading. Nothing in the directory is changed: not by the
/// opening, not by the reading. Dropping it removes the private copy that it reads; a program that ends by a signal calls
/// [`remove_private_copies`](crate::sled::remove_private_copies) before.
#[derive(Debug)]
pub struct ReadOnlyLog {
    // Declared before the copy that it is in, so that it is closed first.
    store: SledStore,
    _copy: PrivateCopy,
    dir: PathBuf,
    is_live: bool,
    notes: Vec<OpenNote>,
}

impl ReadOnlyLog {
    /// Opens the log in `dir` for reading, with the default options.
    ///
    /// # Errors
    /// As [`ReadOnlyLog::open_with`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(dir, &ReadOnlyOptions::default())
    }

    /// Opens the log in `dir` for reading. A program may have it open and write to it: what was durable before the
    /// call is read in any case.
    ///
    /// # Errors
    /// [`OpenError`] if `dir` is not a log of a known format, is damaged, or ends before its `HEAD`;
    /// [`OpenError::NoRoom`] if there is no room for the copy.
    pub fn open_with(dir: impl AsRef<Path>, options: &ReadOnlyOptions) -> Result<Self, OpenError> {
        let dir = dir.as_ref();
        log_header(dir)?;
        refuse_blobs(dir)?;
        let (mut attempt, mut was_announced) = (1, false);
        loop {
            let was_held = is_held(dir);
            let copy = PrivateCopy::made_again(dir, options, &mut was_announced)?;
            let is_live = was_held || copy.changed || is_held(dir);
            if is_live {
                copy.forget_holder()?;
            }
            let opening =
                SledOptions { create: false, scan_threads: threads_where_free(), ..SledOptions::default() };
            match SledStore::open_copy(&copy.dir(), opening) {
                Ok(store) => return Ok(Self::of(dir, store, copy, is_live)),
                Err(error) if is_live && attempt < ATTEMPTS && may_be_of_copying(&error) => {
                    tracing::debug!(%error, attempt, "the log changed while it was copied; it is copied again");
                    attempt += 1;
                }
                Err(error) => return Err(error.of_copy(&copy.dir(), dir)),
            }
        }
    }

    fn of(dir: &Path, store: SledStore, copy: PrivateCopy, is_live: bool) -> Self {
        let notes = store.notes().iter().filter(|note| !(is_live && note.is_of_writing()));
        let notes = notes.map(|note| note.clone().of_original()).collect();
        Self { store, _copy: copy, dir: dir.to_owned(), is_live, notes }
    }

    /// Returns the directory of the log.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the header of the log.
    pub fn header(&self) -> LogHeader {
        self.store.header()
    }

    /// Returns the durability of the log, as its header states it.
    pub fn durability(&self) -> Durability {
        self.store.durability()
    }

    /// Whether a program had the log open, or wrote to it, while it was copied.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Returns what an opening would note of the log; empty after a clean close, and what only shows that a program
    /// writes the log is left out.
    pub fn notes(&self) -> &[OpenNote] {
        &self.notes
    }

    /// Returns the size of each tree. Reads all of them.
    ///
    /// # Errors
    /// [`ReadError`] if the database cannot be read.
    pub fn trees(&self) -> Result<Vec<TreeSize>, ReadError> {
        self.store.trees()
    }
}

impl Drop for ReadOnlyLog {
    fn drop(&mut self) {
        // Only the copy is closed, which is removed next: a failure loses nothing.
        if let Err(error) = self.store.close() {
            tracing::debug!(%error, "closing a private copy failed");
        }
    }
}

/// Whether an error may come from a copy of which one part is newer than another.
fn may_be_of_copying(error: &OpenError) -> bool {
    matches!(error, OpenError::Corrupt { .. } | OpenError::EndsBeforeHead { .. } | OpenError::NotALog { .. })
}

impl EventReader for ReadOnlyLog {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.store.read_stream(stream, from, limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.store.read_all(from, limit)
    }

    fn page_stream(
        &self,
        stream: &StreamId,
        from: Version,
        page: Page,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.store.page_stream(stream, from, page)
    }

    fn page_all(&self, from: Position, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        self.store.page_all(from, page)
    }

    fn scan(
        &self,
        from: Position,
        compare: Compare,
        visit: &mut dyn FnMut(&Scanned<'_>) -> ScanStep,
    ) -> Result<(), ReadError> {
        self.store.scan(from, compare, visit)
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.store.head()
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.store.stream_version(stream)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.store.list_streams(prefix, after, limit)
    }

    fn open_work(&self) -> Result<Vec<StreamId>, ReadError> {
        self.store.open_work()
    }

    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.store.survey(show);
    }

    fn survey_while(
        &self,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        self.store.survey_while(goes_on, show);
    }

    fn survey_index_while(&self, goes_on: &dyn Fn() -> bool, show: &mut dyn FnMut(ReadError)) {
        self.store.survey_index_while(goes_on, show);
    }

    fn scan_threads(&self) -> usize {
        self.store.scan_threads()
    }

    fn pieces(&self) -> Result<u64, ReadError> {
        self.store.pieces()
    }

    fn scan_piece(
        &self,
        piece: u64,
        compare: Compare,
        visit: &mut dyn FnMut(&Scanned<'_>) -> ScanStep,
    ) -> ScanStep {
        self.store.scan_piece(piece, compare, visit)
    }

    fn survey_piece(
        &self,
        piece: u64,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>) -> ControlFlow<()>,
    ) {
        self.store.survey_piece(piece, show);
    }

    fn survey_index(&self, show: &mut dyn FnMut(ReadError)) {
        self.store.survey_index(show);
    }

    fn survey_stream(&self, stream: &StreamId, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.store.survey_stream(stream, show);
    }
}
