//! The store over a log directory: [`EventReader`] and [`EventStore`] on sled's trees.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread::JoinHandle;

use proto_events::id::{Position, StreamId, Version};
use tokio::sync::mpsc;

use crate::api::append::{Append, AppendFuture, Appended};
use crate::api::check;
use crate::api::durability::Durability;
use crate::api::error::{CloseError, OpenError, ReadError};
use crate::api::feed::Feed;
use crate::api::figures::StoreFigures;
use crate::api::holder::Holder;
use crate::api::in_pieces::survey_in_pieces;
use crate::api::note::OpenNote;
use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::api::record::{Fence, StoredRecord, StreamInfo};
use crate::api::reply_sink::AppendToken;
use crate::api::scan::{Compare, ScanStep, ScannedRecord};
use crate::api::store::EventStore;
use crate::engine::index::stream_listing::StreamListing;
use crate::engine::index::walk::StreamSlots;
use crate::engine::index::{Index, compare, stream_listing};
use crate::engine::located_records::LocatedRecord;
use crate::engine::values::Values;
use crate::engine::writer::shared::{Job, Shared};
use crate::engine::{located_records, scan_value, survey, writer};
use crate::sled::dir;
use crate::sled::dir::LogHeader;
use crate::sled::fence::FencedHandle;
use crate::sled::options::SledOptions;
use crate::sled::reopen_check::KnownLog;
use crate::sled::sink::Trees;

/// The number of values that one thread of several reads before it takes others: about 1 MiB of full ones.
const PIECE_VALUES: u64 = 16;

/// A log in a directory. Dropping it closes it.
pub struct SledStore {
    pub(crate) dir: PathBuf,
    pub(crate) header: LogHeader,
    /// The process as the file `holder` names it.
    pub(crate) holder: Holder,
    /// Options for a reopening, with the log's own durability. If the log is gone, no new one is created in
    /// its place.
    pub(crate) options: SledOptions,
    pub(crate) notes: Vec<OpenNote>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: mpsc::Sender<Job>,
    pub(crate) slots: StreamSlots,
    pub(crate) listing: StreamListing,
    pub(crate) trees: RwLock<Option<FencedHandle<Trees>>>,
    pub(crate) writer: Mutex<Option<JoinHandle<Result<(), String>>>>,
    /// Whether the log is held. A store that was reopened shares it with the one before.
    pub(crate) held: Held,
    /// The log as it was known when it was first reopened.
    pub(crate) known: OnceLock<KnownLog>,
}

/// Whether a log is held, for who acts in its directory: while the guard of a reader is there, it stays so.
pub(crate) type Held = Arc<RwLock<bool>>;

impl fmt::Debug for SledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledStore")
            .field("dir", &self.dir)
            .field("fence", &self.shared.fence)
            .finish_non_exhaustive()
    }
}

impl SledStore {
    /// Returns the directory of the log, as an absolute path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the header of the log.
    pub fn header(&self) -> LogHeader {
        self.header
    }

    /// Returns this process, as the file `holder` names it.
    pub(crate) fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Returns the durability of the log, as its header states it.
    pub fn durability(&self) -> Durability {
        self.header.durability
    }

    /// Returns the notes of the opening; empty after a clean close.
    pub fn open_notes(&self) -> &[OpenNote] {
        &self.notes
    }

    /// Sets the notes, and adds one that the log was not closed if the previous holder's file is still there.
    pub(crate) fn with_notes(
        mut self,
        notes: Vec<OpenNote>,
        before: Option<Holder>,
        proven: Option<Position>,
    ) -> Self {
        self.notes = notes;
        if let Some(holder) = before {
            let end = self.index(Index::head);
            let proven = proven.unwrap_or_default();
            self.notes.push(OpenNote::NotClosed { holder: Some(holder), proven, end });
        }
        self
    }

    pub(crate) fn read<R>(&self, query: impl FnOnce(&Trees) -> Result<R, ReadError>) -> Result<R, ReadError> {
        // Closing waits for this guard, so that no reader holds the directory longer than the store.
        let trees = self.trees.read().unwrap_or_else(PoisonError::into_inner);
        query(trees.as_ref().ok_or(ReadError::Closed)?)
    }

    fn index<R>(&self, query: impl FnOnce(&Index) -> R) -> R {
        query(&self.shared.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the ordinals of the values of a piece.
    fn values_of(&self, piece: u64) -> Range<u64> {
        let (end, first) = (self.index(Index::next_ordinal), piece.saturating_mul(PIECE_VALUES));
        first.min(end)..first.saturating_add(PIECE_VALUES).min(end)
    }

    /// Shows the records of these values that hold events from a position on.
    fn scan_values(
        &self,
        ordinals: Range<u64>,
        from: Position,
        compare: Compare,
        visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
    ) -> ScanStep {
        // The guard is released between values: closing need not wait for a long scan, and `visit` may read.
        let whole = |located: &LocatedRecord<'_>| self.read(|trees| located.stored(trees).map(drop));
        for ordinal in ordinals {
            let bytes = self.read(|trees| trees.require_once(ordinal))?;
            if scan_value::scan_value((ordinal, &bytes), from, compare, &whole, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The values of a store, each read under a guard of its own: closing need not wait for a long survey, and those who are
/// shown its records may read. Nobody who no longer goes on is given one: for them the log is closed.
struct OneAtATime<'a>(&'a SledStore, &'a dyn Fn() -> bool);

impl OneAtATime<'_> {
    fn read<R>(&self, query: impl FnOnce(&Trees) -> Result<R, ReadError>) -> Result<R, ReadError> {
        if self.1() { self.0.read(query) } else { Err(ReadError::Closed) }
    }
}

impl Values for OneAtATime<'_> {
    type Bytes = sled::IVec;

    fn get(&self, ordinal: u64) -> Result<Option<Self::Bytes>, ReadError> {
        self.read(|trees| trees.get_sure(ordinal))
    }

    fn get_chunk(&self, ordinal: u64) -> Result<Option<Self::Bytes>, ReadError> {
        self.read(|trees| trees.get_chunk(ordinal))
    }
}

/// The values of a store, each read once and under a guard of its own, past the database where that can be.
struct OnceAtATime<'a>(&'a SledStore);

impl Values for OnceAtATime<'_> {
    type Bytes = sled::IVec;

    fn get(&self, ordinal: u64) -> Result<Option<Self::Bytes>, ReadError> {
        self.0.read(|trees| trees.get_once(ordinal))
    }

    fn get_chunk(&self, ordinal: u64) -> Result<Option<Self::Bytes>, ReadError> {
        self.0.read(|trees| trees.get_chunk(ordinal))
    }
}

impl EventReader for SledStore {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.page_stream(stream, from, Page::with_limit(limit))
    }

    fn page_stream(
        &self,
        stream: &StreamId,
        from: Version,
        page: Page,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|trees| {
            let places = self.slots.places(stream, from, &|question| self.index(question));
            let first = match self.slots.number_of(stream, from) {
                Some(number) => number,
                None => located_records::place_for_version(trees, &places, from)?,
            };
            let wanted = places.get(first..).unwrap_or_default();
            let records = located_records::read_places(trees, stream, wanted, page)?;
            if let Some(last) = records.last() {
                let next = Version(last.record.last_version().0.saturating_add(1));
                self.slots.note_end(stream, (next, first + records.len()));
            }
            Ok(records)
        })
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.page_all(from, Page::with_limit(limit))
    }

    fn page_all(&self, from: Position, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|trees| {
            let (range, end) = self.index(|index| (index.value_range_for(from), index.next_ordinal()));
            located_records::read_from(trees, from, range, end, page)
        })
    }

    fn scan(
        &self,
        from: Position,
        compare: Compare,
        visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
    ) -> Result<(), ReadError> {
        let (range, end) = self.index(|index| (index.value_range_for(from), index.next_ordinal()));
        let first = self.read(|trees| located_records::value_for_position(trees, from, range))?;
        self.scan_values(first..end, from, compare, visit).map(drop)
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.read(|_| Ok(self.index(Index::head)))
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.read(|_| Ok(self.index(|index| index.end_of(stream.as_str()).version)))
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        let after = after.map(StreamId::as_str);
        self.read(|_| Ok(self.listing.list(prefix, after, limit, &|question| self.index(question))))
    }

    fn open_work(&self) -> Result<Vec<StreamId>, ReadError> {
        self.read(|_| Ok(stream_listing::open_work(&|question| self.index(question))))
    }

    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.survey_while(&|| true, show);
    }

    fn survey_while(
        &self,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        if let Err(error) = self.head() {
            return show(Err(error));
        }
        let end = self.index(Index::next_ordinal);
        match end.div_ceil(PIECE_VALUES) {
            pieces if pieces > 1 && self.options.scan_threads > 1 => {
                survey_in_pieces(self, pieces, goes_on, show);
            }
            _ => survey::survey_all(&OneAtATime(self, goes_on), end, show),
        }
    }

    fn scan_threads(&self) -> usize {
        self.options.scan_threads
    }

    fn pieces(&self) -> Result<u64, ReadError> {
        self.read(|_| Ok(self.index(Index::next_ordinal).div_ceil(PIECE_VALUES)))
    }

    fn scan_piece(
        &self,
        piece: u64,
        compare: Compare,
        visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
    ) -> ScanStep {
        self.scan_values(self.values_of(piece), Position(1), compare, visit)
    }

    fn survey_piece(
        &self,
        piece: u64,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>) -> ControlFlow<()>,
    ) {
        let _ = survey::survey(&OneAtATime(self, &|| true), self.values_of(piece), show);
    }

    fn read_piece(
        &self,
        piece: u64,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>) -> ControlFlow<()>,
    ) {
        let _ = survey::survey(&OnceAtATime(self), self.values_of(piece), show);
    }

    fn survey_index(&self, show: &mut dyn FnMut(ReadError)) {
        self.survey_index_while(&|| true, show);
    }

    fn survey_index_while(&self, goes_on: &dyn Fn() -> bool, show: &mut dyn FnMut(ReadError)) {
        if let Err(error) = self.head() {
            return show(error);
        }
        let values = OneAtATime(self, goes_on);
        compare::compare(&values, &|question| self.index(question), goes_on, show);
    }
}

impl EventStore for SledStore {
    fn fence(&self) -> Fence {
        self.shared.fence
    }

    fn append(&self, append: Append) -> AppendFuture {
        writer::ask(&self.shared, &self.queue, append)
    }

    fn append_with(&self, append: Append, token: AppendToken) -> Option<AppendFuture> {
        writer::ask_with(&self.shared, &self.queue, append, token)
    }

    fn poisoned(&self) -> Option<String> {
        self.shared.poisoned.get().cloned()
    }

    fn figures(&self) -> Option<StoreFigures> {
        Some(self.shared.figures())
    }

    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, ReadError> {
        self.read(|trees| {
            let (recent, end) = self.index(|index| (index.recall(set_id), index.next_ordinal()));
            let parts = match recent {
                Some(ordinal) => located_records::whole_append(trees, ordinal.into(), set_id)?,
                None => located_records::find_append(trees, end, set_id)?,
            };
            Ok(parts.map(|parts| check::appended(&parts)))
        })
    }

    fn subscribe(&self) -> Feed {
        self.shared.subscribe()
    }

    fn close(&self) -> Result<(), CloseError> {
        // Held to the end: a close beside this call returns when the directory is free, not before.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(writer) = writer.take() else { return Ok(()) };
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = false;
        self.shared.closing.notify_one();
        let ended = writer.join().unwrap_or_else(|_| Err("the writer panicked".to_owned()));
        self.shared.end_feeds();
        let trees = self.trees.write().unwrap_or_else(PoisonError::into_inner).take();
        self.holder.remove(&self.dir);
        let dropped = trees.map_or(Ok(()), FencedHandle::finish);
        let is_taken = || Holder::read(&self.dir).is_some_and(|holder| holder != self.holder);
        dir::await_release(&self.dir, is_taken).map_err(|why| CloseError::StillHeld { why })?;
        match (self.shared.poisoned.get(), ended, dropped) {
            (Some(why), ..) => Err(CloseError::Poisoned { why: why.clone() }),
            (None, Err(why), _) => Err(CloseError::Head { why }),
            (None, Ok(()), Err(why)) => Err(CloseError::Database { why }),
            (None, Ok(()), Ok(())) => Ok(()),
        }
    }

    fn reopen(&self) -> Result<Arc<dyn EventStore>, OpenError> {
        // Read while the log is open: a refused reopening may be tried again.
        let of = || KnownLog::new((&self.dir, self.header), self, self.index(Index::head));
        let known = self.known.get_or_init(of);
        if let Err(error) = self.close() {
            // After a failed write this returns that failure; the reopening determines what is durable.
            tracing::warn!(%error, "closing the log failed; it is reopened all the same");
        }
        // Looked at before it is opened, which raises the epoch.
        known.check_id()?;
        let mut reopened = match Self::open_with(&self.dir, self.options) {
            // On a device that had refused writes, pages of the file that were read while the system still wrote them back may
            // be of two times. Whatever is wrong with the log itself is met again.
            Err(OpenError::Corrupt { what, .. }) => {
                tracing::warn!(what, "the log looked damaged when it was reopened; it is read once more");
                Self::open_with(&self.dir, self.options)?
            }
            opened => opened?,
        };
        known.check(&reopened, reopened.index(Index::head))?;
        reopened.held = Arc::clone(&self.held);
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = true;
        Ok(Arc::new(reopened))
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "closing the log failed");
        }
    }
}
