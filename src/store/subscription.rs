//! Following the log: first what is there, then what becomes durable, with no gap and no repeat. Whoever is too
//! slow for the live feed is told so and reads on from the log.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use proto_events::id::{Position, StreamId, Version};

use super::sync::{broadcast, spawn_blocking};
use super::{EventStore, ReadError, StoredRecord};

/// Records that are read from the log at once.
const PAGE_RECORDS: usize = 256;

/// Records that become durable, as the store publishes them. Most readers want a [`Subscription`] instead, which
/// fills the gaps.
pub struct Feed {
    records: broadcast::Receiver<Arc<StoredRecord>>,
    only: Option<Only>,
}

/// Which records of a feed are handed out.
type Only = Box<dyn Fn(&StoredRecord) -> bool + Send + Sync>;

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("waiting", &self.records.len()).finish_non_exhaustive()
    }
}

/// Why a feed has no next record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The reader was too slow; the next call goes on behind the gap.
    #[error("{missed} records were missed; read them from the log")]
    Lagged {
        /// How many records are missing.
        missed: u64,
    },
    /// The store was closed.
    #[error("the log is closed")]
    Closed,
}

impl Feed {
    /// The feed of a store: what is sent must be durable, and in the order of the log.
    pub fn new(records: broadcast::Receiver<Arc<StoredRecord>>) -> Self {
        Self { records, only: None }
    }

    /// The same feed without the records that `only` refuses.
    #[must_use]
    pub fn only(self, only: impl Fn(&StoredRecord) -> bool + Send + Sync + 'static) -> Self {
        Self { only: Some(Box::new(only)), ..self }
    }

    /// Waits for the next record. Cancel-safe.
    ///
    /// # Errors
    /// [`FeedError`] if records were missed, or none will come.
    pub async fn next(&mut self) -> Result<Arc<StoredRecord>, FeedError> {
        loop {
            let record = self.records.recv().await.map_err(|error| match error {
                broadcast::error::RecvError::Lagged(missed) => FeedError::Lagged { missed },
                broadcast::error::RecvError::Closed => FeedError::Closed,
            })?;
            if self.only.as_ref().is_none_or(|only| only(&record)) {
                return Ok(record);
            }
        }
    }
}

/// What a subscription hands out.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// The next record.
    Record(Arc<StoredRecord>),
    /// The reader was too slow for the live feed. Nothing is lost: the records between these positions, and those
    /// after, follow from the log.
    Lagged {
        /// Position of the first event that the live feed no longer has.
        from: Position,
        /// The log's last position when that was noticed.
        to: Position,
    },
}

#[derive(Debug, Clone)]
enum Filter {
    All,
    Stream(StreamId),
}

/// How far the subscription is.
#[derive(Debug)]
enum Stage {
    /// Reading the log; with a feed, everything after that reading will come from the feed.
    CatchingUp(Option<Feed>),
    /// The log is read to where the feed began.
    Live(Feed),
    /// The store was closed, or a record could not be read.
    Ended,
}

/// Follows one stream, or the whole log.
pub struct Subscription {
    store: Arc<dyn EventStore>,
    filter: Filter,
    /// What was handed out or skipped ends before this position.
    next: Position,
    /// The same for the stream, if it is one stream.
    next_version: Version,
    ready: VecDeque<Arc<StoredRecord>>,
    stage: Stage,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("filter", &self.filter)
            .field("next", &self.next)
            .field("next_version", &self.next_version)
            .finish_non_exhaustive()
    }
}

impl Subscription {
    /// Follows the whole log, beginning with the record that holds position `from`.
    pub fn all(store: Arc<dyn EventStore>, from: Position) -> Self {
        Self::new(store, Filter::All, from, Version(0))
    }

    /// Follows one stream, beginning with the record that holds version `from`.
    pub fn stream(store: Arc<dyn EventStore>, stream: StreamId, from: Version) -> Self {
        Self::new(store, Filter::Stream(stream), Position(0), from)
    }

    fn new(store: Arc<dyn EventStore>, filter: Filter, next: Position, next_version: Version) -> Self {
        Self { store, filter, next, next_version, ready: VecDeque::new(), stage: Stage::CatchingUp(None) }
    }

    /// Whether the next record will come from the live feed.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Live(_))
    }

    /// Waits for the next delivery; `None` once the store is closed, or after an error. Cancel-safe. Must be called
    /// within a tokio runtime, whose blocking pool reads the log.
    ///
    /// # Errors
    /// [`ReadError`] if a record cannot be read; nothing follows then.
    pub async fn next(&mut self) -> Option<Result<Delivery, ReadError>> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(Ok(Delivery::Record(record)));
            }
            let step = match &mut self.stage {
                Stage::CatchingUp(_) => self.catch_up().await,
                Stage::Live(feed) => match feed.next().await {
                    Ok(record) => {
                        self.take(record);
                        Ok(None)
                    }
                    Err(FeedError::Lagged { .. }) => self.fall_behind(),
                    Err(FeedError::Closed) => Err(ReadError::Closed),
                },
                Stage::Ended => return None,
            };
            match step {
                Ok(None) => {}
                Ok(Some(delivery)) => return Some(Ok(delivery)),
                Err(error) => {
                    self.stage = Stage::Ended;
                    return (error != ReadError::Closed).then_some(Err(error));
                }
            }
        }
    }

    /// Reads the next page. At the log's end a feed is taken and the log is read once more: whatever was written
    /// before the feed began is then read, whatever came after is in the feed.
    async fn catch_up(&mut self) -> Result<Option<Delivery>, ReadError> {
        let page = self.read_page().await?;
        let at_end = page.is_empty();
        for record in page {
            self.take(Arc::new(record));
        }
        if at_end && let Stage::CatchingUp(feed) = &mut self.stage {
            self.stage = match feed.take() {
                Some(feed) => Stage::Live(feed),
                None => Stage::CatchingUp(Some(self.store.subscribe())),
            };
        }
        Ok(None)
    }

    fn fall_behind(&mut self) -> Result<Option<Delivery>, ReadError> {
        self.stage = Stage::CatchingUp(None);
        let (from, to) = (self.next, self.store.head()?);
        // What the feed no longer has may have been read from the log while it began: then nothing was missed.
        Ok((from <= to).then_some(Delivery::Lagged { from, to }))
    }

    async fn read_page(&self) -> Result<Vec<StoredRecord>, ReadError> {
        let store = Arc::clone(&self.store);
        let filter = self.filter.clone();
        let (position, version) = (self.next, self.next_version);
        let read = move || match filter {
            Filter::All => store.read_all(position, PAGE_RECORDS),
            Filter::Stream(stream) => store.read_stream(&stream, version, PAGE_RECORDS),
        };
        let read = spawn_blocking(read).await;
        read.unwrap_or_else(|error| Err(ReadError::Io(format!("the reading task did not end: {error}"))))
    }

    /// Makes a record the next to be handed out, unless it was already or is another stream's.
    fn take(&mut self, record: Arc<StoredRecord>) {
        let last = record.last_position();
        let wanted = match &self.filter {
            Filter::All => last >= self.next,
            Filter::Stream(stream) => {
                record.record.stream == *stream && record.record.last_version() >= self.next_version
            }
        };
        self.next = self.next.max(Position(last.0 + 1));
        if wanted {
            self.next_version = Version(record.record.last_version().0 + 1);
            self.ready.push_back(record);
        }
    }
}
