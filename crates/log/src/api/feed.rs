//! The live feed of a store: records as they become durable.

use std::fmt;
use std::sync::Arc;

use crate::api::published_record::{NextRecord, PublishedRecord};
use crate::api::record::StoredRecord;
use crate::sync::broadcast;

/// A live feed of the records that become durable, as the store publishes them. Most readers want a
/// [`Subscription`](crate::read::Subscription) instead, which fills the gaps.
pub struct Feed {
    records: Records,
    only: Option<Only>,
}

/// The records of a feed, as their store publishes them.
enum Records {
    /// Decoded for a reader that wants it so.
    Published(broadcast::Receiver<Arc<PublishedRecord>>),
    /// Decoded by the store.
    Stored(broadcast::Receiver<Arc<StoredRecord>>),
}

impl Records {
    fn waiting(&self) -> usize {
        match self {
            Self::Published(records) => records.len(),
            Self::Stored(records) => records.len(),
        }
    }

    async fn next(&mut self) -> Result<NextRecord, broadcast::error::RecvError> {
        match self {
            Self::Published(records) => records.recv().await.map(NextRecord::Published),
            Self::Stored(records) => records.recv().await.map(NextRecord::Stored),
        }
    }
}

/// A filter for the records of a feed.
type Only = Box<dyn Fn(&StoredRecord) -> bool + Send + Sync>;

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("waiting", &self.records.waiting()).finish_non_exhaustive()
    }
}

/// The reasons why a feed has no next record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The reader was too slow; the next call continues after the gap.
    #[error("{missed} records were missed; read them from the log")]
    Lagged {
        /// The number of records missed.
        missed: u64,
    },
    /// The store was closed.
    #[error("the log is closed")]
    Closed,
}

impl Feed {
    /// Creates the feed of a store: what is sent must be durable, and in the order of the log. The channel holds
    /// [`SUBSCRIBER_BUFFER`](crate::limits::SUBSCRIBER_BUFFER) records; the feed ends when its sender is dropped.
    pub fn new(records: broadcast::Receiver<Arc<StoredRecord>>) -> Self {
        Self { records: Records::Stored(records), only: None }
    }

    /// Creates the feed of a writer.
    pub(crate) fn of_writer(records: broadcast::Receiver<Arc<PublishedRecord>>) -> Self {
        Self { records: Records::Published(records), only: None }
    }

    /// Limits the feed to the records that `only` accepts.
    #[must_use]
    pub fn only(self, only: impl Fn(&StoredRecord) -> bool + Send + Sync + 'static) -> Self {
        Self { only: Some(Box::new(only)), ..self }
    }

    /// Waits for the next record. Cancel-safe.
    ///
    /// # Errors
    /// [`FeedError`] if records were missed, or the store was closed.
    pub async fn next(&mut self) -> Result<Arc<StoredRecord>, FeedError> {
        self.next_record().await.map(|record| Arc::clone(record.stored()))
    }

    /// Waits for the next record, which is not decoded if nobody has wanted it so. Cancel-safe.
    pub(crate) async fn next_record(&mut self) -> Result<NextRecord, FeedError> {
        loop {
            let record = self.records.next().await.map_err(|error| match error {
                broadcast::error::RecvError::Lagged(missed) => FeedError::Lagged { missed },
                broadcast::error::RecvError::Closed => FeedError::Closed,
            })?;
            if self.only.as_ref().is_none_or(|only| only(record.stored())) {
                return Ok(record);
            }
        }
    }
}
