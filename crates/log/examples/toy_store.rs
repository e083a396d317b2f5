//! A store of your own: a whole [`EventStore`] over one vector of records, with nothing but the public API of
//! `taskreel-log`, and the conformance suite that every store passes. Its log is not durable; a real store
//! writes the records of an append, flushes, and only then shows and acknowledges them.
//!
//! `cargo run -p taskreel-log --example toy_store --features testing`

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_events::id::{Digest, Position, StreamId, Version};
use taskreel_log::api::{
    Append, AppendError, AppendFuture, Appended, CloseError, EventReader, EventStore, Feed, Fence, OpenError,
    ReadError, StoredRecord, StreamInfo, WrittenPart, appended, check_append, other_history, repeated_append,
};
use taskreel_log::limits::SUBSCRIBER_BUFFER;
use tokio::sync::broadcast;

/// A log in a vector, and the fence of its only writer.
struct ToyStore {
    state: Mutex<State>,
    fence: Fence,
}

/// The state of a log.
enum State {
    /// The log takes appends.
    Open(Log),
    /// The log waits for a reopening.
    Closed(Vec<Arc<StoredRecord>>),
    /// The log belongs to the store that was reopened from this one.
    Moved,
}

/// An open log.
struct Log {
    records: Vec<Arc<StoredRecord>>,
    feed: broadcast::Sender<Arc<StoredRecord>>,
}

impl ToyStore {
    /// Opens a log with these records under an epoch.
    fn open(records: Vec<Arc<StoredRecord>>, epoch: u64) -> Self {
        let log = Log { records, feed: broadcast::Sender::new(SUBSCRIBER_BUFFER) };
        Self { state: Mutex::new(State::Open(log)), fence: Fence { partition: 0, epoch } }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the open log.
    fn read<R>(&self, query: impl FnOnce(&Log) -> R) -> Result<R, ReadError> {
        match &*self.lock() {
            State::Open(log) => Ok(query(log)),
            State::Closed(_) | State::Moved => Err(ReadError::Closed),
        }
    }
}

impl Log {
    /// Returns the records of a stream, in order.
    fn stream<'a>(&'a self, stream: &'a StreamId) -> impl DoubleEndedIterator<Item = &'a Arc<StoredRecord>> {
        self.records.iter().filter(move |stored| stored.record.stream == *stream)
    }

    /// Returns the last version of a stream and the leaf hash of its last record.
    fn end_of(&self, stream: &StreamId) -> (Version, Digest) {
        let last = self.stream(stream).next_back();
        last.map(|stored| (stored.record.last_version(), stored.hash)).unwrap_or_default()
    }

    fn head(&self) -> Position {
        self.records.last().map_or(Position(0), |stored| stored.last_position())
    }

    /// Returns the parts of the append with this set id.
    fn parts_of(&self, set_id: [u8; 16]) -> Vec<WrittenPart> {
        let records = self.records.iter().filter(|stored| stored.record.set_id == set_id);
        records.map(|stored| WrittenPart::from_record(stored)).collect()
    }

    /// Checks an append against the log, and adds its records.
    fn append(&mut self, append: &Append, fence: Fence) -> Result<Appended, AppendError> {
        let known = self.parts_of(append.set_id);
        if !known.is_empty() {
            return repeated_append(append, &known);
        }
        if append.fence != fence {
            return Err(AppendError::Fenced { presented: append.fence, current: fence });
        }
        for part in &append.parts {
            let (stream, expected) = (part.stream.clone(), part.expected);
            let (actual, hash) = self.end_of(&stream);
            if actual != expected.version() {
                return Err(AppendError::Conflict { stream, expected, actual });
            }
            if hash != part.record.previous() {
                return Err(other_history(&stream));
            }
        }
        for part in &append.parts {
            let stored = Arc::new(StoredRecord::new(&part.record, Position(self.head().0 + 1)));
            self.records.push(Arc::clone(&stored));
            // An error means that there is no subscriber.
            let _ = self.feed.send(stored);
        }
        Ok(appended(&self.parts_of(append.set_id)))
    }
}

/// Returns the first records, as many as the page holds.
fn page<'a>(records: impl Iterator<Item = &'a Arc<StoredRecord>>, limit: usize) -> Vec<StoredRecord> {
    records.take(limit).map(|stored| StoredRecord::clone(stored)).collect()
}

impl EventReader for ToyStore {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|log| page(log.stream(stream).filter(|stored| stored.record.last_version() >= from), limit))
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|log| page(log.records.iter().filter(|stored| stored.last_position() >= from), limit))
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.read(Log::head)
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.read(|log| log.end_of(stream).0)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.read(|log| {
            let mut streams: Vec<&StreamId> =
                log.records.iter().map(|stored| &stored.record.stream).collect();
            streams.sort();
            streams.dedup();
            streams.retain(|stream| stream.as_str().starts_with(prefix) && after.is_none_or(|a| *stream > a));
            let info =
                |stream: &StreamId| StreamInfo { stream: stream.clone(), version: log.end_of(stream).0 };
            streams.into_iter().take(limit).map(info).collect()
        })
    }
}

impl EventStore for ToyStore {
    fn fence(&self) -> Fence {
        self.fence
    }

    fn append(&self, append: Append) -> AppendFuture {
        let result = match &mut *self.lock() {
            State::Open(log) => check_append(&append).and_then(|()| log.append(&append, self.fence)),
            State::Closed(_) | State::Moved => Err(AppendError::Closed),
        };
        Box::pin(std::future::ready(result))
    }

    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, ReadError> {
        let parts = self.read(|log| log.parts_of(set_id))?;
        Ok((!parts.is_empty()).then(|| appended(&parts)))
    }

    fn subscribe(&self) -> Feed {
        // The feed of a closed store has no sender and ends at once.
        Feed::new(self.read(|log| log.feed.subscribe()).unwrap_or_else(|_| broadcast::channel(1).1))
    }

    fn close(&self) -> Result<(), CloseError> {
        let mut state = self.lock();
        if let State::Open(log) = &mut *state {
            // The sender is dropped with the open log, which ends all feeds.
            *state = State::Closed(std::mem::take(&mut log.records));
        }
        Ok(())
    }

    fn reopen(&self) -> Result<Arc<dyn EventStore>, OpenError> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Moved) {
            State::Open(Log { records, .. }) | State::Closed(records) => {
                Ok(Arc::new(Self::open(records, self.fence.epoch + 1)))
            }
            State::Moved => Err(OpenError::NotReopened { why: "it was reopened before".to_owned() }),
        }
    }
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example prints its result")]
async fn main() {
    taskreel_log::testing::conformance::run(|| Arc::new(ToyStore::open(Vec::new(), 1))).await;
    println!("the toy store passes the conformance suite");
}
