//! The yardstick: the smallest durable store. One growing file, one writer thread that takes all queued
//! appends, checks each expected version, writes the group's bytes in one write, calls `fdatasync` once and
//! replies to all. It writes what the sled store writes, checksum and framing included. It cannot read
//! anything back, so it supports new streams only.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use proto_events::envelope::Committed;
use proto_events::id::{Position, StreamId, Version};
use taskreel_log::api::{
    AnswersBySink, Append, AppendError, AppendFuture, AppendPart, AppendToken, Appended, CloseError,
    EventReader, EventStore, Feed, Fence, ReadError, StoredRecord, StreamInfo,
};
use taskreel_log::limits::{GROUP_APPENDS, WRITER_QUEUE_APPENDS};
use taskreel_log::memory::MemoryStore;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

const FENCE: Fence = Fence { partition: 0, epoch: 1 };

type Answer = Result<Appended, AppendError>;

struct Job {
    append: Append,
    reply: Reply,
}

/// The place where an answer is expected, as in the store under comparison.
enum Reply {
    Caller(oneshot::Sender<Answer>),
    CollectedReplies(AppendToken),
}

/// The bytes before the records of a group: checksum, position, count.
pub(crate) const GROUP_HEAD_BYTES: usize = 16;

/// The yardstick's store.
pub(crate) struct RawStore {
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// A store that lends its feed, which has no subscribers here.
    silent: MemoryStore,
}

impl RawStore {
    pub(crate) fn create(path: &Path) -> std::io::Result<Self> {
        let file = File::create_new(path)?;
        let (queue, jobs) = mpsc::channel(WRITER_QUEUE_APPENDS);
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let work = move || runtime.block_on(Writer::new(file).run(jobs));
        let writer = std::thread::Builder::new().name("raw-writer".to_owned()).spawn(work)?;
        Ok(Self {
            queue: Mutex::new(Some(queue)),
            writer: Mutex::new(Some(writer)),
            silent: MemoryStore::new(),
        })
    }
}

struct Writer {
    file: File,
    versions: HashMap<StreamId, Version>,
    position: u64,
    bytes: Vec<u8>,
}

impl Writer {
    fn new(file: File) -> Self {
        let (versions, bytes) = (HashMap::new(), Vec::new());
        Self { file, versions, position: 0, bytes }
    }

    async fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut jobs = Vec::new();
        while queue.recv_many(&mut jobs, GROUP_APPENDS).await > 0 {
            let first = self.position + 1;
            self.bytes.clear();
            self.bytes.extend_from_slice(&[0; 4]);
            self.bytes.extend_from_slice(&first.to_be_bytes());
            self.bytes.extend_from_slice(&u32::try_from(jobs.len()).unwrap_or(u32::MAX).to_be_bytes());
            let mut answers = Vec::with_capacity(jobs.len());
            for Job { append, reply } in jobs.drain(..) {
                answers.push((reply, self.admit(append)));
            }
            let written = self.write();
            let mut by_sink = AnswersBySink::default();
            for (reply, answer) in answers {
                let answer = match &written {
                    Ok(()) => answer,
                    Err(error) => Err(AppendError::Ambiguous { why: error.to_string() }),
                };
                match reply {
                    Reply::Caller(caller) => {
                        let _a_caller_may_be_gone = caller.send(answer);
                    }
                    Reply::CollectedReplies(token) => by_sink.add(token, answer),
                }
            }
            by_sink.hand_over();
        }
    }

    fn admit(&mut self, append: Append) -> Answer {
        // Of several parts all are written or none.
        if append.parts.len() > 1 {
            for part in &append.parts {
                let actual = self.versions.get(&part.stream).copied().unwrap_or_default();
                if actual != part.expected.version() {
                    return Err(conflict(part, actual));
                }
            }
        }
        let mut parts = Vec::with_capacity(append.parts.len());
        for part in append.parts {
            let version = part.record.last_version();
            match self.versions.entry(part.stream.clone()) {
                Entry::Occupied(known) if *known.get() != part.expected.version() => {
                    return Err(conflict(&part, *known.get()));
                }
                Entry::Occupied(mut known) => *known.get_mut() = version,
                Entry::Vacant(_) if part.expected.version() != Version(0) => {
                    return Err(conflict(&part, Version(0)));
                }
                Entry::Vacant(new) => drop(new.insert(version)),
            }
            let record = part.record.bytes();
            self.bytes.extend_from_slice(&u32::try_from(record.len()).unwrap_or(u32::MAX).to_be_bytes());
            self.bytes.extend_from_slice(&part.record.hash().0);
            self.bytes.extend_from_slice(record);
            self.position += u64::from(part.record.event_count());
            parts.push(Committed { version, position: Position(self.position) });
        }
        Ok(Appended { parts })
    }

    fn write(&mut self) -> std::io::Result<()> {
        if let Some((checksum, rest)) = self.bytes.split_first_chunk_mut::<4>() {
            *checksum = crc32c::crc32c(rest).to_be_bytes();
        }
        self.file.write_all(&self.bytes)?;
        self.file.sync_data()
    }
}

fn conflict(part: &AppendPart, actual: Version) -> AppendError {
    AppendError::Conflict { stream: part.stream.clone(), expected: part.expected, actual }
}

fn unsupported() -> ReadError {
    ReadError::Io("the raw file is for measuring only and cannot be read".to_owned())
}

impl EventReader for RawStore {
    fn read_stream(&self, _: &StreamId, from: Version, _: usize) -> Result<Vec<StoredRecord>, ReadError> {
        // A new stream is read from its first version; other reads do not occur.
        if from == Version(1) { Ok(Vec::new()) } else { Err(unsupported()) }
    }

    fn read_all(&self, from: Position, _: usize) -> Result<Vec<StoredRecord>, ReadError> {
        if from == Position(1) { Ok(Vec::new()) } else { Err(unsupported()) }
    }

    fn head(&self) -> Result<Position, ReadError> {
        Err(unsupported())
    }

    /// Returns 0: it is read when an actor starts, and all streams are new here.
    fn stream_version(&self, _: &StreamId) -> Result<Version, ReadError> {
        Ok(Version(0))
    }

    fn list_streams(&self, _: &str, _: Option<&StreamId>, _: usize) -> Result<Vec<StreamInfo>, ReadError> {
        Err(unsupported())
    }
}

impl EventStore for RawStore {
    fn fence(&self) -> Fence {
        FENCE
    }

    fn append(&self, append: Append) -> AppendFuture {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (reply, answer) = oneshot::channel();
        // The place in the queue is taken at the call, as in the store under comparison.
        let job = Job { append, reply: Reply::Caller(reply) };
        let sent = queue.map(|queue| queue.try_send(job).map_err(|error| (queue, error)));
        Box::pin(async move {
            match sent.ok_or(AppendError::Closed)? {
                Ok(()) => {}
                Err((queue, TrySendError::Full(job))) => {
                    queue.send(job).await.map_err(|_| AppendError::Closed)?;
                }
                Err((_, TrySendError::Closed(_))) => return Err(AppendError::Closed),
            }
            answer.await.unwrap_or(Err(AppendError::Closed))
        })
    }

    fn append_with(&self, append: Append, token: AppendToken) -> Option<AppendFuture> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(queue) = queue else {
            token.withdraw();
            return Some(Box::pin(std::future::ready(Err(AppendError::Closed))));
        };
        let refused = queue.try_send(Job { append, reply: Reply::CollectedReplies(token) }).err()?;
        let (TrySendError::Full(Job { append, reply }) | TrySendError::Closed(Job { append, reply })) =
            refused;
        if let Reply::CollectedReplies(token) = reply {
            token.withdraw();
        }
        Some(self.append(append))
    }

    fn resolve(&self, _: [u8; 16]) -> Result<Option<Appended>, ReadError> {
        Err(unsupported())
    }

    fn subscribe(&self) -> Feed {
        self.silent.subscribe()
    }

    fn close(&self) -> Result<(), CloseError> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        match writer.map(JoinHandle::join) {
            Some(Err(_)) => Err(CloseError::Poisoned { why: "the writer panicked".to_owned() }),
            _ => Ok(()),
        }
    }
}
