//! Following the log: first the records that exist, then those that become durable, without gaps or repeats.
//! A reader that is too slow for the live feed is notified and reads on from the log.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use proto_events::id::{Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::feed::{Feed, FeedError};
use crate::api::page::Page;
use crate::api::published_record::NextRecord;
use crate::api::record::StoredRecord;
use crate::api::store::EventStore;
use crate::read::steps::{Step, Steps};
use crate::sync::spawn_blocking;

/// An item that a subscription delivers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Delivery {
    /// The next record.
    Record(Arc<StoredRecord>),
    /// The reader was too slow for the live feed. No record is lost: the records between these positions, and
    /// those after them, follow from the log.
    Lagged {
        /// Position of the first event that the live feed no longer has.
        from: Position,
        /// The log's last position when that was noticed.
        to: Position,
    },
}

/// The next of a subscription, with a record that may not be decoded yet.
#[derive(Debug)]
pub(crate) enum SubscriptionItem {
    /// The next record.
    Record(NextRecord),
    /// As [`Delivery::Lagged`].
    Lagged { from: Position, to: Position },
}

impl SubscriptionItem {
    fn delivery(self) -> Delivery {
        match self {
            Self::Record(record) => Delivery::Record(Arc::clone(record.stored())),
            Self::Lagged { from, to } => Delivery::Lagged { from, to },
        }
    }
}

#[derive(Debug, Clone)]
enum SubscriptionFilter {
    All,
    Stream(StreamId),
}

/// The progress of a subscription.
#[derive(Debug)]
enum Stage {
    /// Reading the log; with a feed, everything after that reading will come from the feed.
    CatchingUp(Option<Feed>),
    /// The log has been read up to the start of the feed.
    Live(Feed),
    /// The store was closed, or a record could not be read.
    Ended,
}

/// A subscription to one stream, or to the whole log: [`Subscription::next`] waits for the next delivery, and it is a
/// `Stream` of them.
///
/// ```
/// # use std::sync::Arc;
/// # use taskreel_log::api::EventStore;
/// # use taskreel_log::read::{Delivery, Subscription};
/// # async fn follow(store: Arc<dyn EventStore>) -> Result<(), taskreel_log::api::ReadError> {
/// let mut all = Subscription::all(store, proto_events::id::Position(1));
/// while let Some(delivery) = all.next().await {
///     match delivery? {
///         Delivery::Record(record) => println!("{} {}", record.position, record.record.stream),
///         Delivery::Lagged { from, to } => println!("positions {from} to {to} follow from the log"),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Subscription(Steps<SubscriptionCursor>);

/// The reading of a subscription.
struct SubscriptionCursor {
    store: Arc<dyn EventStore>,
    filter: SubscriptionFilter,
    /// The position before which all events were delivered or skipped.
    next: Position,
    /// The version before which all events of the stream were delivered or skipped, for a subscription to one
    /// stream.
    next_version: Version,
    ready: VecDeque<NextRecord>,
    stage: Stage,
    /// Whether nothing was read yet.
    is_new: bool,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reading = self.0.idle();
        f.debug_struct("Subscription")
            .field("filter", &reading.map(|reading| &reading.filter))
            .field("next", &reading.map(|reading| reading.next))
            .finish_non_exhaustive()
    }
}

impl Stream for Subscription {
    type Item = Result<Delivery, ReadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_next_record(cx).map(|next| next.map(|next| next.map(SubscriptionItem::delivery)))
    }
}

impl Subscription {
    /// Subscribes to the whole log, beginning with the record that holds position `from`. A position after the next one is
    /// an error of the first delivery, [`ReadError::Ahead`]: keep the log's id beside a cursor to tell logs apart.
    pub fn all(store: Arc<dyn EventStore>, from: Position) -> Self {
        Self::new(store, SubscriptionFilter::All, from, Version(0))
    }

    /// Subscribes to one stream, beginning with the record that holds version `from`. A version after the next one is an
    /// error of the first delivery, [`ReadError::Ahead`].
    pub fn stream(store: Arc<dyn EventStore>, stream: StreamId, from: Version) -> Self {
        Self::new(store, SubscriptionFilter::Stream(stream), Position(0), from)
    }

    fn new(
        store: Arc<dyn EventStore>,
        filter: SubscriptionFilter,
        next: Position,
        next_version: Version,
    ) -> Self {
        let (ready, stage) = (VecDeque::new(), Stage::CatchingUp(None));
        Self(Steps::new(SubscriptionCursor { store, filter, next, next_version, ready, stage, is_new: true }))
    }

    /// Whether the next record will come from the live feed.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn is_live(&self) -> bool {
        self.0.idle().is_some_and(|reading| matches!(reading.stage, Stage::Live(_)))
    }

    /// Waits for the next delivery; `None` once the store is closed, or after an error. Cancel-safe. Must be
    /// called within a tokio runtime, whose blocking pool reads the log.
    ///
    /// # Errors
    /// [`ReadError`] if a record cannot be read; the subscription then ends.
    pub async fn next(&mut self) -> Option<Result<Delivery, ReadError>> {
        self.next_record().await.map(|next| next.map(SubscriptionItem::delivery))
    }

    /// Waits for the next delivery, as [`Subscription::next`], and leaves its record as it is.
    pub(crate) async fn next_record(&mut self) -> Option<Result<SubscriptionItem, ReadError>> {
        self.0.next().await
    }

    /// Polls for the next delivery, and leaves its record as it is.
    pub(crate) fn poll_next_record(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<SubscriptionItem, ReadError>>> {
        self.0.poll_step(cx)
    }
}

impl Step for SubscriptionCursor {
    type Item = Result<SubscriptionItem, ReadError>;

    async fn step(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(Ok(SubscriptionItem::Record(record)));
            }
            let step = match &mut self.stage {
                Stage::CatchingUp(_) => self.catch_up().await,
                Stage::Live(feed) => match feed.next_record().await {
                    Ok(record) => {
                        self.accept_record(record);
                        Ok(None)
                    }
                    Err(FeedError::Lagged { .. }) => self.read_missed(),
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
}

impl SubscriptionCursor {
    /// Refuses a start after the next event of the log: what comes first would be skipped.
    fn refuse_ahead(&self) -> Result<(), ReadError> {
        let (what, asked, head) = match &self.filter {
            SubscriptionFilter::All => ("position".to_owned(), self.next.0, self.store.head()?.0),
            SubscriptionFilter::Stream(stream) => {
                let last = self.store.stream_version(stream)?;
                (format!("version of {stream}"), self.next_version.0, last.0)
            }
        };
        if asked > head.saturating_add(1) { Err(ReadError::Ahead { what, asked, head }) } else { Ok(()) }
    }

    /// Reads the next page. At the log's end it subscribes to the feed and reads the log once more: this
    /// finds what was written before the feed began, and the feed has what came after.
    async fn catch_up(&mut self) -> Result<Option<SubscriptionItem>, ReadError> {
        let page = self.read_page().await?;
        let at_end = page.is_empty();
        if std::mem::take(&mut self.is_new) && at_end {
            self.refuse_ahead()?;
        }
        for record in page {
            self.accept_record(NextRecord::Stored(Arc::new(record)));
        }
        if at_end && let Stage::CatchingUp(feed) = &mut self.stage {
            self.stage = match feed.take() {
                Some(feed) => Stage::Live(feed),
                None => Stage::CatchingUp(Some(self.store.subscribe())),
            };
        }
        Ok(None)
    }

    fn read_missed(&mut self) -> Result<Option<SubscriptionItem>, ReadError> {
        self.stage = Stage::CatchingUp(None);
        let (from, to) = (self.next, self.store.head()?);
        // The missing records may have been read from the log while the feed began: then none was missed.
        Ok((from <= to).then_some(SubscriptionItem::Lagged { from, to }))
    }

    async fn read_page(&self) -> Result<Vec<StoredRecord>, ReadError> {
        let store = Arc::clone(&self.store);
        let filter = self.filter.clone();
        let (position, version) = (self.next, self.next_version);
        let read = move || match filter {
            SubscriptionFilter::All => store.page_all(position, Page::default()),
            SubscriptionFilter::Stream(stream) => store.page_stream(&stream, version, Page::default()),
        };
        let read = spawn_blocking(read).await;
        read.unwrap_or_else(|error| {
            Err(ReadError::Io(format!("the task that reads the log failed: {error}")))
        })
    }

    /// Queues a record for delivery, unless it was delivered before or belongs to another stream.
    fn accept_record(&mut self, record: NextRecord) {
        let last = record.last_position();
        let wanted = match &self.filter {
            SubscriptionFilter::All => last >= self.next,
            SubscriptionFilter::Stream(stream) => {
                record.stream() == stream && record.last_version() >= self.next_version
            }
        };
        self.next = self.next.max(Position(last.0 + 1));
        if wanted {
            self.next_version = Version(record.last_version().0 + 1);
            self.ready.push_back(record);
        }
    }
}
