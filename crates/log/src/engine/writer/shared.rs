//! The state that the writer shares with readers, and the jobs it is given.

use std::sync::{Arc, OnceLock, PoisonError};

use crate::api::append::{Append, Appended};
use crate::api::error::AppendError;
use crate::api::feed::Feed;
use crate::api::figures::{GROUP_SIZES, Histogram, SYNC_MICROS, StoreFigures};
use crate::api::published_record::PublishedRecord;
use crate::api::record::Fence;
use crate::api::reply_sink::{AnswersBySink, AppendToken};
use crate::engine::index::Index;
use crate::limits::{SUBSCRIBER_BUFFER, WRITER_QUEUE_APPENDS};
use crate::sync::{Mutex, Notify, RwLock, Semaphore, broadcast, oneshot};

/// An append in the queue.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) append: Append,
    pub(crate) reply: AppendReply,
}

/// The place where the answer to an append is expected.
#[derive(Debug)]
pub(crate) enum AppendReply {
    /// A caller that waits for this append alone.
    Caller(oneshot::Sender<Result<Appended, AppendError>>),
    /// A reply sink, which gets the answers of a group together.
    Sink(AppendToken),
}

impl AppendReply {
    /// Answers now.
    pub(crate) fn answer(self, answer: Result<Appended, AppendError>) {
        let mut by_sink = AnswersBySink::default();
        self.answer_or_add(answer, &mut by_sink);
        by_sink.hand_over();
    }

    /// Answers a caller now; an answer for a reply sink is added to the others.
    pub(crate) fn answer_or_add(self, answer: Result<Appended, AppendError>, by_sink: &mut AnswersBySink) {
        match self {
            Self::Caller(caller) => {
                // A caller that has gone away does not cancel the append.
                let _ = caller.send(answer);
            }
            Self::Sink(token) => by_sink.add(token, answer),
        }
    }
}

/// The state shared by writer and readers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) fence: Fence,
    pub(crate) index: RwLock<Index>,
    pub(crate) poisoned: OnceLock<String>,
    pub(crate) closing: Notify,
    /// The free places of the queue, which is never bounded lower. An append waits here, never at the queue: room
    /// there that is given to a future which nobody polls would keep the queue's receiver from its end.
    pub(crate) room: Semaphore,
    pub(crate) feed: Mutex<Option<broadcast::Sender<Arc<PublishedRecord>>>>,
    /// The sizes of the groups, in appends, and the times in which they were written and synced, in microseconds.
    pub(crate) groups: (Histogram, Histogram),
}

impl Shared {
    pub(crate) fn new(fence: Fence, index: Index) -> Self {
        Self {
            fence,
            index: RwLock::new(index),
            poisoned: OnceLock::new(),
            closing: Notify::new(),
            room: Semaphore::new(WRITER_QUEUE_APPENDS),
            feed: Mutex::new(Some(broadcast::Sender::new(SUBSCRIBER_BUFFER))),
            groups: (Histogram::new(GROUP_SIZES), Histogram::new(SYNC_MICROS)),
        }
    }

    /// Returns a feed of the records that become durable from now on, or an ended feed if the store was
    /// closed.
    pub(crate) fn subscribe(&self) -> Feed {
        let feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        Feed::of_writer(feed.as_ref().map_or_else(|| broadcast::channel(1).1, broadcast::Sender::subscribe))
    }

    /// Returns the figures of the writes so far.
    pub(crate) fn figures(&self) -> StoreFigures {
        let feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        let (feeds, feed_lag) = feed.as_ref().map_or((0, 0), |feed| (feed.receiver_count(), feed.len()));
        let (group_appends, sync_micros) = (self.groups.0.read(), self.groups.1.read());
        StoreFigures { group_appends, sync_micros, feeds, feed_lag }
    }

    /// Ends all feeds, after the writer has ended.
    pub(crate) fn end_feeds(&self) {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Returns why an append is refused after the writer has ended.
    pub(crate) fn refusal(&self) -> AppendError {
        match self.poisoned.get() {
            Some(why) => AppendError::Poisoned { why: why.clone() },
            None => AppendError::Closed,
        }
    }
}
