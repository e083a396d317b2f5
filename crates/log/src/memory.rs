//! A store that keeps its log in memory: the reference for the behavior of every store, and a fast double for
//! tests. The log is not durable.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};

use proto_events::id::{Digest, Position, StreamId, Version};

use crate::api::append::{Append, AppendFuture, Appended};
use crate::api::check;
use crate::api::check::WrittenPart;
use crate::api::error::{AppendError, CloseError, OpenError, ReadError};
use crate::api::feed::Feed;
use crate::api::reader::EventReader;
use crate::api::record::{Fence, StoredRecord, StreamInfo};
use crate::api::store::EventStore;
use crate::limits::SUBSCRIBER_BUFFER;
use crate::sync::{Mutex, MutexGuard, broadcast};

/// A log in memory.
#[derive(Debug)]
pub struct MemoryStore {
    log: Mutex<LogState>,
    fence: Fence,
}

/// The current owner of the log.
#[derive(Debug)]
enum LogState {
    Open(Log),
    /// The log is kept for a reopening.
    Closed(Log),
    /// The log belongs to the reopened store.
    Moved,
}

#[derive(Debug)]
struct Log {
    records: Vec<Arc<StoredRecord>>,
    /// Numbers of each stream's records.
    streams: BTreeMap<StreamId, Vec<usize>>,
    sets: HashMap<[u8; 16], Vec<WrittenPart>>,
    feed: broadcast::Sender<Arc<StoredRecord>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// Creates an empty log.
    pub fn new() -> Self {
        let log = Log {
            records: Vec::new(),
            streams: BTreeMap::new(),
            sets: HashMap::new(),
            feed: broadcast::Sender::new(SUBSCRIBER_BUFFER),
        };
        Self { log: Mutex::new(LogState::Open(log)), fence: Fence { partition: 0, epoch: 1 } }
    }

    /// Returns the store that a new process would find if this one died now: a copy of the records, under the
    /// next epoch. This store stays open.
    ///
    /// # Errors
    /// [`ReadError::Closed`] after closing.
    pub fn reopened(&self) -> Result<Self, ReadError> {
        let log = self.read(|log| Log {
            records: log.records.clone(),
            streams: log.streams.clone(),
            sets: log.sets.clone(),
            feed: broadcast::Sender::new(SUBSCRIBER_BUFFER),
        })?;
        Ok(self.next(log))
    }

    /// Returns the next store of this log.
    fn next(&self, log: Log) -> Self {
        let fence = Fence { epoch: self.fence.epoch + 1, ..self.fence };
        Self { log: Mutex::new(LogState::Open(log)), fence }
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<R>(&self, query: impl FnOnce(&Log) -> R) -> Result<R, ReadError> {
        self.lock().open().map(|log| query(log)).ok_or(ReadError::Closed)
    }
}

impl LogState {
    fn open(&mut self) -> Option<&mut Log> {
        match self {
            Self::Open(log) => Some(log),
            Self::Closed(_) | Self::Moved => None,
        }
    }
}

impl Log {
    fn end_position(&self) -> Position {
        self.records.last().map_or(Position::default(), |record| record.last_position())
    }

    fn stream_end(&self, stream: &StreamId) -> (Version, Digest) {
        let last = self.streams.get(stream).and_then(|numbers| numbers.last());
        let record = last.and_then(|number| self.records.get(*number));
        record.map_or((Version::default(), Digest::default()), |stored| {
            (stored.record.last_version(), stored.hash)
        })
    }

    fn append(&mut self, append: &Append, fence: Fence) -> Result<Appended, AppendError> {
        if let Some(parts) = self.sets.get(&append.set_id) {
            return check::repeated_append(append, parts);
        }
        if append.fence != fence {
            return Err(AppendError::Fenced { presented: append.fence, current: fence });
        }
        for part in &append.parts {
            let (actual, hash) = self.stream_end(&part.stream);
            if actual != part.expected.version() {
                return Err(AppendError::Conflict {
                    stream: part.stream.clone(),
                    expected: part.expected,
                    actual,
                });
            }
            if hash != part.record.previous() {
                return Err(check::other_history(&part.stream));
            }
        }
        Ok(self.write(append))
    }

    fn write(&mut self, append: &Append) -> Appended {
        let mut parts = Vec::with_capacity(append.parts.len());
        for part in &append.parts {
            let record = Arc::new(StoredRecord::new(&part.record, Position(self.end_position().0 + 1)));
            parts.push(WrittenPart::new(&part.record, record.last_position()));
            let number = self.records.len();
            self.streams.entry(part.stream.clone()).or_default().push(number);
            self.records.push(Arc::clone(&record));
            // An error means that nobody subscribes.
            let _ = self.feed.send(record);
        }
        let appended = check::appended(&parts);
        self.sets.insert(append.set_id, parts);
        appended
    }
}

impl EventReader for MemoryStore {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|log| {
            let numbers = log.streams.get(stream).map_or(&[][..], Vec::as_slice);
            let record = |number: &usize| log.records.get(*number);
            let before = |number: &usize| record(number).is_some_and(|it| it.record.last_version() < from);
            let wanted = numbers.get(numbers.partition_point(before)..).unwrap_or_default();
            wanted.iter().filter_map(record).take(limit).map(|record| (**record).clone()).collect()
        })
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|log| {
            let first = log.records.partition_point(|record| record.last_position() < from);
            let wanted = log.records.iter().skip(first).take(limit);
            wanted.map(|record| (**record).clone()).collect()
        })
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.read(Log::end_position)
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.read(|log| log.stream_end(stream).0)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.read(|log| {
            let streams = log.streams.keys();
            let wanted = streams.filter(|stream| {
                stream.as_str().starts_with(prefix) && after.is_none_or(|after| *stream > after)
            });
            let info =
                |stream: &StreamId| StreamInfo { stream: stream.clone(), version: log.stream_end(stream).0 };
            wanted.take(limit).map(info).collect()
        })
    }
}

impl EventStore for MemoryStore {
    fn fence(&self) -> Fence {
        self.fence
    }

    fn is_in_memory(&self) -> bool {
        true
    }

    fn append(&self, append: Append) -> AppendFuture {
        let result = check::check_append(&append).and_then(|()| {
            let mut state = self.lock();
            state.open().ok_or(AppendError::Closed)?.append(&append, self.fence)
        });
        Box::pin(std::future::ready(result))
    }

    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, ReadError> {
        self.read(|log| log.sets.get(&set_id).map(|parts| check::appended(parts)))
    }

    fn subscribe(&self) -> Feed {
        Feed::new(self.lock().open().map_or_else(|| broadcast::channel(1).1, |log| log.feed.subscribe()))
    }

    fn close(&self) -> Result<(), CloseError> {
        let mut state = self.lock();
        *state = match std::mem::replace(&mut *state, LogState::Moved) {
            LogState::Open(mut log) => {
                // The replaced sender is dropped, which ends the old feeds.
                log.feed = broadcast::Sender::new(SUBSCRIBER_BUFFER);
                LogState::Closed(log)
            }
            other => other,
        };
        Ok(())
    }

    fn reopen(&self) -> Result<Arc<dyn EventStore>, OpenError> {
        // Closing a log in memory cannot fail.
        let _ = self.close();
        match std::mem::replace(&mut *self.lock(), LogState::Moved) {
            LogState::Open(log) | LogState::Closed(log) => Ok(Arc::new(self.next(log))),
            LogState::Moved => Err(OpenError::NotReopened { why: "it was reopened before".to_owned() }),
        }
    }
}
