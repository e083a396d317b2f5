//! A store that forwards every operation to another store, except those that a test overrides.

use std::fmt;
use std::sync::Arc;

use proto_events::id::{Position, StreamId, Version};

use crate::api::append::{Append, AppendFuture, Appended};
use crate::api::error::{CloseError, OpenError, ReadError};
use crate::api::feed::Feed;
use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::api::record::{Fence, StoredRecord, StreamInfo};
use crate::api::reply_sink::AppendToken;
use crate::api::scan::{Compare, ScanStep, ScannedRecord};
use crate::api::store::EventStore;

type Records = Result<Vec<StoredRecord>, ReadError>;

/// A read of a store, as [`Overrides::before_read`] is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreRead<'a> {
    /// Records of one stream, by a page or by a survey.
    Stream(&'a StreamId),
    /// Records of all streams, by a page, a scan or a survey.
    All,
    /// The last position.
    Head,
    /// The last version of a stream.
    StreamVersion(&'a StreamId),
    /// Names of streams, by the list of streams or that of open work.
    Streams,
    /// The result of an append, by its set id.
    Resolve,
}

/// The operations of a [`DelegatingStore`] that a test replaces. Each method is given the store behind, and forwards to the
/// same operation of it unless it is overridden; `()` overrides nothing.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use taskreel_log::api::{Append, AppendError, AppendFuture, EventReader as _, EventStore};
/// use taskreel_log::memory::MemoryStore;
/// use taskreel_log::testing::{DelegatingStore, Overrides};
///
/// /// A disk that is full once the test says so.
/// #[derive(Default)]
/// struct FullDisk(AtomicBool);
///
/// impl Overrides for FullDisk {
///     fn append(&self, log: &dyn EventStore, append: Append) -> AppendFuture {
///         if self.0.load(Ordering::SeqCst) {
///             let why = "no space left on device".to_owned();
///             return Box::pin(std::future::ready(Err(AppendError::Poisoned { why })));
///         }
///         log.append(append)
///     }
/// }
///
/// let store = Arc::new(DelegatingStore::new(Arc::new(MemoryStore::new()), FullDisk::default()));
/// store.overrides().0.store(true, Ordering::SeqCst);
/// assert_eq!(store.head().unwrap().0, 0, "all else is the store behind");
/// ```
#[expect(clippy::missing_errors_doc, reason = "the errors are those of the operations of the same names")]
pub trait Overrides: Send + Sync {
    /// Is called before each read, whichever method makes it; an error is the result of that read.
    fn before_read(&self, read: StoreRead<'_>) -> Result<(), ReadError> {
        let _ = read;
        Ok(())
    }

    /// Replaces [`EventReader::read_stream`].
    fn read_stream(&self, log: &dyn EventStore, stream: &StreamId, from: Version, limit: usize) -> Records {
        log.read_stream(stream, from, limit)
    }

    /// Replaces [`EventReader::read_all`].
    fn read_all(&self, log: &dyn EventStore, from: Position, limit: usize) -> Records {
        log.read_all(from, limit)
    }

    /// Replaces [`EventReader::page_stream`].
    fn page_stream(&self, log: &dyn EventStore, stream: &StreamId, from: Version, page: Page) -> Records {
        log.page_stream(stream, from, page)
    }

    /// Replaces [`EventReader::page_all`].
    fn page_all(&self, log: &dyn EventStore, from: Position, page: Page) -> Records {
        log.page_all(from, page)
    }

    /// Replaces [`EventReader::scan`].
    fn scan(
        &self,
        log: &dyn EventStore,
        from: Position,
        compare: Compare,
        visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
    ) -> Result<(), ReadError> {
        log.scan(from, compare, visit)
    }

    /// Replaces [`EventReader::head`].
    fn head(&self, log: &dyn EventStore) -> Result<Position, ReadError> {
        log.head()
    }

    /// Replaces [`EventReader::stream_version`].
    fn stream_version(&self, log: &dyn EventStore, stream: &StreamId) -> Result<Version, ReadError> {
        log.stream_version(stream)
    }

    /// Replaces [`EventReader::list_streams`].
    fn list_streams(
        &self,
        log: &dyn EventStore,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        log.list_streams(prefix, after, limit)
    }

    /// Replaces [`EventReader::open_work`].
    fn open_work(&self, log: &dyn EventStore) -> Result<Vec<StreamId>, ReadError> {
        log.open_work()
    }

    /// Replaces [`EventReader::survey`], and that alone: [`EventReader::survey_while`] does not come here. By default it comes to
    /// [`Overrides::survey_while`], so that an override of that one method sees both.
    fn survey(&self, log: &dyn EventStore, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.survey_while(log, &|| true, show);
    }

    /// Replaces [`EventReader::survey_while`], and [`EventReader::survey`] unless [`Overrides::survey`] is overridden too. By default
    /// it is the `survey_while` of the store behind, never [`Overrides::survey`].
    fn survey_while(
        &self,
        log: &dyn EventStore,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        log.survey_while(goes_on, show);
    }

    /// Replaces [`EventReader::survey_index`], and that alone: [`EventReader::survey_index_while`] is replaced by itself.
    fn survey_index(&self, log: &dyn EventStore, show: &mut dyn FnMut(ReadError)) {
        log.survey_index(show);
    }

    /// Replaces [`EventReader::survey_index_while`].
    fn survey_index_while(
        &self,
        log: &dyn EventStore,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(ReadError),
    ) {
        log.survey_index_while(goes_on, show);
    }

    /// Replaces [`EventReader::survey_stream`].
    fn survey_stream(
        &self,
        log: &dyn EventStore,
        stream: &StreamId,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        log.survey_stream(stream, show);
    }

    /// Replaces [`EventStore::fence`].
    fn fence(&self, log: &dyn EventStore) -> Fence {
        log.fence()
    }

    /// Replaces [`EventStore::is_in_memory`].
    fn is_in_memory(&self, log: &dyn EventStore) -> bool {
        log.is_in_memory()
    }

    /// Replaces [`EventStore::append`].
    fn append(&self, log: &dyn EventStore, append: Append) -> AppendFuture {
        log.append(append)
    }

    /// Replaces [`EventStore::append_with`]. By default the token is withdrawn and [`Overrides::append`] is called, so that
    /// one method sees every append.
    fn append_with(&self, log: &dyn EventStore, append: Append, token: AppendToken) -> Option<AppendFuture> {
        token.withdraw();
        Some(self.append(log, append))
    }

    /// Replaces [`EventStore::poisoned`].
    fn poisoned(&self, log: &dyn EventStore) -> Option<String> {
        log.poisoned()
    }

    /// Replaces [`EventStore::resolve`].
    fn resolve(&self, log: &dyn EventStore, set_id: [u8; 16]) -> Result<Option<Appended>, ReadError> {
        log.resolve(set_id)
    }

    /// Replaces [`EventStore::subscribe`].
    fn subscribe(&self, log: &dyn EventStore) -> Feed {
        log.subscribe()
    }

    /// Replaces [`EventStore::close`].
    fn close(&self, log: &dyn EventStore) -> Result<(), CloseError> {
        log.close()
    }

    /// Replaces [`EventStore::reopen`]. By default the reopened store is the plain one, without these overrides.
    fn reopen(&self, log: &dyn EventStore) -> Result<Arc<dyn EventStore>, OpenError> {
        log.reopen()
    }
}

impl Overrides for () {}

/// A store that forwards every operation to another store, except those that its [`Overrides`] replace. For tests of what a
/// host does when its log is slow, refuses, or panics; faults of a disk are planned with
/// [`FaultyStore`](crate::testing::FaultyStore).
pub struct DelegatingStore<O = ()> {
    log: Arc<dyn EventStore>,
    overrides: O,
}

impl<O> fmt::Debug for DelegatingStore<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegatingStore").field("fence", &self.log.fence()).finish_non_exhaustive()
    }
}

impl<O: Overrides> DelegatingStore<O> {
    /// Returns a store over `log` with these overrides.
    pub fn new(log: Arc<dyn EventStore>, overrides: O) -> Self {
        Self { log, overrides }
    }

    /// Returns the overrides, such as to switch a fault on.
    pub fn overrides(&self) -> &O {
        &self.overrides
    }

    /// Returns the store behind, without the overrides.
    pub fn log(&self) -> &Arc<dyn EventStore> {
        &self.log
    }

    fn overrides_for(&self, read: StoreRead<'_>) -> Result<&O, ReadError> {
        self.overrides.before_read(read).map(|()| &self.overrides)
    }
}

impl<O: Overrides> EventReader for DelegatingStore<O> {
    fn read_stream(&self, stream: &StreamId, from: Version, limit: usize) -> Records {
        self.overrides_for(StoreRead::Stream(stream))?.read_stream(self.log.as_ref(), stream, from, limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Records {
        self.overrides_for(StoreRead::All)?.read_all(self.log.as_ref(), from, limit)
    }

    fn page_stream(&self, stream: &StreamId, from: Version, page: Page) -> Records {
        self.overrides_for(StoreRead::Stream(stream))?.page_stream(self.log.as_ref(), stream, from, page)
    }

    fn page_all(&self, from: Position, page: Page) -> Records {
        self.overrides_for(StoreRead::All)?.page_all(self.log.as_ref(), from, page)
    }

    fn scan(
        &self,
        from: Position,
        compare: Compare,
        visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
    ) -> Result<(), ReadError> {
        self.overrides_for(StoreRead::All)?.scan(self.log.as_ref(), from, compare, visit)
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.overrides_for(StoreRead::Head)?.head(self.log.as_ref())
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.overrides_for(StoreRead::StreamVersion(stream))?.stream_version(self.log.as_ref(), stream)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.overrides_for(StoreRead::Streams)?.list_streams(self.log.as_ref(), prefix, after, limit)
    }

    fn open_work(&self) -> Result<Vec<StreamId>, ReadError> {
        self.overrides_for(StoreRead::Streams)?.open_work(self.log.as_ref())
    }

    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        match self.overrides_for(StoreRead::All) {
            Ok(overrides) => overrides.survey(self.log.as_ref(), show),
            Err(error) => show(Err(error)),
        }
    }

    fn survey_while(
        &self,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        match self.overrides_for(StoreRead::All) {
            Ok(overrides) => overrides.survey_while(self.log.as_ref(), goes_on, show),
            Err(error) => show(Err(error)),
        }
    }

    fn survey_index_while(&self, goes_on: &dyn Fn() -> bool, show: &mut dyn FnMut(ReadError)) {
        match self.overrides_for(StoreRead::All) {
            Ok(overrides) => overrides.survey_index_while(self.log.as_ref(), goes_on, show),
            Err(error) => show(error),
        }
    }

    fn survey_index(&self, show: &mut dyn FnMut(ReadError)) {
        match self.overrides_for(StoreRead::All) {
            Ok(overrides) => overrides.survey_index(self.log.as_ref(), show),
            Err(error) => show(error),
        }
    }

    fn survey_stream(&self, stream: &StreamId, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        match self.overrides_for(StoreRead::Stream(stream)) {
            Ok(overrides) => overrides.survey_stream(self.log.as_ref(), stream, show),
            Err(error) => show(Err(error)),
        }
    }
}

impl<O: Overrides> EventStore for DelegatingStore<O> {
    fn fence(&self) -> Fence {
        self.overrides.fence(self.log.as_ref())
    }

    fn is_in_memory(&self) -> bool {
        self.overrides.is_in_memory(self.log.as_ref())
    }

    fn append(&self, append: Append) -> AppendFuture {
        self.overrides.append(self.log.as_ref(), append)
    }

    fn append_with(&self, append: Append, token: AppendToken) -> Option<AppendFuture> {
        self.overrides.append_with(self.log.as_ref(), append, token)
    }

    fn poisoned(&self) -> Option<String> {
        self.overrides.poisoned(self.log.as_ref())
    }

    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, ReadError> {
        self.overrides_for(StoreRead::Resolve)?.resolve(self.log.as_ref(), set_id)
    }

    fn subscribe(&self) -> Feed {
        self.overrides.subscribe(self.log.as_ref())
    }

    fn close(&self) -> Result<(), CloseError> {
        self.overrides.close(self.log.as_ref())
    }

    fn reopen(&self) -> Result<Arc<dyn EventStore>, OpenError> {
        self.overrides.reopen(self.log.as_ref())
    }
}
