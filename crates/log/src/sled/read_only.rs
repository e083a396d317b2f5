//! A log in a directory, read without a trace: from a private copy, so that reading works on a directory that cannot be
//! written, by another user, by many readers at once, and beside the program that writes the log.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_events::id::{Position, StreamId, Version};

use crate::api::durability::Durability;
use crate::api::error::{OpenError, ReadError};
use crate::api::note::OpenNote;
use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::api::record::{StoredRecord, StreamInfo};
use crate::api::scan::{Compare, ScanStep, ScannedRecord};
use crate::api::store::EventStore as _;
use crate::engine::files;
use crate::sled::database::refuse_blobs;
use crate::sled::dir::{LogHeader, is_held, log_header};
use crate::sled::options::ReadOnlyOptions;
use crate::sled::private_copy::PrivateCopy;
use crate::sled::sizes::TreeSize;
use crate::sled::store::SledStore;
use crate::sled::straight::{Original, WholeValues};
use crate::sled::whole::{WholeCopy, WholeWhenAsked, opening};

/// A log in a directory, as it was when it was opened for reading. Nothing in the directory is changed: not by the
/// opening, not by the reading. Dropping it removes the private copy that it reads; a program that ends by a signal calls
/// [`remove_private_copies`](crate::sled::remove_private_copies) before.
#[derive(Debug)]
pub struct ReadOnlyLog {
    // Declared before the copy that it is in, so that it is closed first.
    store: SledStore,
    _copy: PrivateCopy,
    /// The whole log, of which the copy has a part.
    whole: Option<Arc<WholeWhenAsked>>,
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
    /// [`OpenError::NoRoom`] if the disk has no room for the copy.
    pub fn open_with(dir: impl AsRef<Path>, options: &ReadOnlyOptions) -> Result<Self, OpenError> {
        let dir = dir.as_ref();
        let header = log_header(dir)?;
        refuse_blobs(dir)?;
        if options.in_place
            && let Some(log) = Self::open_in_place(dir, header, options)
        {
            return Ok(log);
        }
        let WholeCopy { store, copy, is_live } = WholeCopy::open(dir, options)?;
        Ok(Self::new(dir, store, copy, is_live))
    }

    /// Opens a part of a log that is closed; `None` if all of it must be copied, or whatever is wrong: that is said of the
    /// whole log.
    fn open_in_place(dir: &Path, header: LogHeader, options: &ReadOnlyOptions) -> Option<Self> {
        if is_held(dir) {
            return None;
        }
        let (copy, straight) = PrivateCopy::of_part(dir, header.durability, options).ok()??;
        if is_held(dir) {
            return None;
        }
        let whole = Arc::new(WholeWhenAsked::new(dir, header.id, options));
        let values: WholeValues = Arc::<WholeWhenAsked>::clone(&whole);
        let store = SledStore::open_copy(&copy.dir(), opening(), Some(Original { straight, whole: values }));
        match store {
            Ok(store) if store.open_notes().is_empty() && store.header() == header => {
                let mut log = Self::new(dir, store, copy, false);
                log.whole = Some(whole);
                Some(log)
            }
            opened => {
                tracing::debug!(?opened, "a part of the log is not enough; all of it is copied");
                None
            }
        }
    }

    fn new(dir: &Path, store: SledStore, copy: PrivateCopy, is_live: bool) -> Self {
        let notes = store.open_notes().iter().filter(|note| !(is_live && note.is_of_writing()));
        let notes = notes.map(|note| note.clone().of_original()).collect();
        Self { store, _copy: copy, whole: None, dir: files::absolute(dir), is_live, notes }
    }

    /// Returns the directory of the log, as an absolute path.
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
    pub fn open_notes(&self) -> &[OpenNote] {
        &self.notes
    }

    /// Returns the size of each tree. Reads all of them.
    ///
    /// # Errors
    /// [`ReadError`] if the database cannot be read.
    pub fn trees(&self) -> Result<Vec<TreeSize>, ReadError> {
        self.whole.as_ref().map_or(Ok(&self.store), |whole| whole.store())?.trees()
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
        visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
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
        visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
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

    fn read_piece(
        &self,
        piece: u64,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>) -> ControlFlow<()>,
    ) {
        self.store.read_piece(piece, show);
    }

    fn survey_index(&self, show: &mut dyn FnMut(ReadError)) {
        self.store.survey_index(show);
    }

    fn survey_stream(&self, stream: &StreamId, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.store.survey_stream(stream, show);
    }
}
