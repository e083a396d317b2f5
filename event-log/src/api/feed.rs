//! The live feed of a store: records as they become durable.

use std::fmt;
use std::sync::Arc;

use crate::api::record::StoredRecord;
use crate::sync::broadcast;

/// A live feed of the records that become durable, as the store publishes them. Most readers want a
/// [`Subscription`](crate::read::Subscription) instead, which fills the gaps.
pub struct Feed {
    records: broadcast::Receiver<Arc<StoredRecord>>,
    only: Option<Only>,
}

/// A filter for the records of a feed.
type Only = Box<dyn Fn(&StoredRecord) -> bool + Send + Sync>;

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("waiting", &self.records.len()).finish_non_exhaustive()
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
        Self { records, only: None }
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
