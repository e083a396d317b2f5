//! The log: floor 2. [`EventReader`] reads it, [`EventStore`] extends it, [`Subscription`] follows it.
//!
//! Audit and inspection take an [`EventReader`]: the signature itself shows that they cannot write. Reading is
//! synchronous, so that it works without a runtime; actors read from the blocking pool. [`SledStore`] keeps
//! the log in a directory, [`JsonLines`] reads an exported one, [`MemoryStore`] is the reference that every store
//! must agree with, [`conformance`] is the suite that compares them, and [`faulty`] makes any of them fail as asked.

mod check;
mod chunks;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod durability;
mod error;
#[cfg(any(test, feature = "testing"))]
pub mod faulty;
mod files;
pub mod fold;
mod halt;
mod head;
mod holder;
mod index;
pub mod jsonl;
mod keys;
mod memory;
mod note;
pub mod open_work;
mod reading;
mod runs;
mod scanning;
#[cfg(not(shuttle))]
mod sled;
pub mod snapshot;
mod spacer;
mod subscription;
mod sync;
mod value;
mod writer;

use std::pin::Pin;
use std::sync::Arc;

use proto_events::codec::record::{EncodedRecord, Record};
use proto_events::envelope::Committed;
use proto_events::id::{Digest, ExpectedVersion, Position, StreamId, Version};

#[cfg(not(shuttle))]
pub use self::sled::{
    LogHeader, SledDamaged, SledImport, SledOptions, SledStore, SnapshotHealth, TreeSize, blob_files,
    log_header,
};
pub use durability::Durability;
pub use error::{AppendError, CloseError, OpenError, ReadError};
#[cfg(any(test, feature = "testing"))]
pub use faulty::{AppendFault, Faults, FaultyStore, ReadFault, Struck};
pub use head::{Frontier, Head};
pub use holder::Holder;
pub use jsonl::JsonLines;
pub use memory::MemoryStore;
pub use note::OpenNote;
pub use scanning::{Compare, Look, Scanned};
pub use snapshot::Snapshot;
pub use subscription::{Delivery, Feed, FeedError, Subscription};

/// A record with its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Position of its first event. Every event has a position of its own; the log's first is 1.
    pub position: Position,
    /// Its leaf hash, which the record after it in the same stream names.
    pub hash: Digest,
    /// What it says. Its bodies have the digests that the record holds.
    pub record: Record,
    /// The bytes that it was read from.
    pub bytes: Arc<[u8]>,
}

impl StoredRecord {
    /// Position of its last event.
    pub fn last_position(&self) -> Position {
        let more = u64::try_from(self.record.events.len()).unwrap_or(u64::MAX).saturating_sub(1);
        Position(self.position.0.saturating_add(more))
    }
}

/// Which writer an append comes from. A store refuses the appends of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// Partition of the log.
    pub partition: u32,
    /// Raised durably each time the partition gets a new writer.
    pub epoch: u64,
}

/// One stream's part of an append.
#[derive(Debug, Clone)]
pub struct AppendPart {
    /// The stream to extend.
    pub stream: StreamId,
    /// Where the writer saw it end.
    pub expected: ExpectedVersion,
    /// What to add. It must name the same stream, the version after the expected one, the append's set id and
    /// fence, and the leaf hash of the stream's last record.
    pub record: EncodedRecord,
}

/// Records of one or more streams, of which all are written or none.
#[derive(Debug, Clone)]
pub struct Append {
    /// The writer, as [`EventStore::fence`] gave it.
    pub fence: Fence,
    /// Names the append: the same id again gets the first answer again.
    pub set_id: [u8; 16],
    /// At least one; each stream at most once.
    pub parts: Vec<AppendPart>,
}

/// Where an append's events stand: one entry for each of its parts, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// Version and position of each part's last event.
    pub parts: Vec<Committed>,
}

/// A stream and where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// Its name.
    pub stream: StreamId,
    /// Version of its last event.
    pub version: Version,
}

/// One part of an append that is in the log, or about to be.
#[derive(Debug, Clone)]
struct SetPart {
    number: u16,
    of: u16,
    stream: String,
    first: Version,
    last: Committed,
}

/// The answer to an append, when it is durable. Dropping it does not take the append back.
pub type AppendFuture = Pin<Box<dyn Future<Output = Result<Appended, AppendError>> + Send>>;

/// Records that are read at a time when the whole log is gone through.
const SURVEY_RECORDS: usize = 256;

/// The reading half of the log. Only what is durable is ever read. Every record that is given out has been
/// compared with its leaf hash and its bodies' digests; what is read in log order, with its value's checksum too.
pub trait EventReader: Send + Sync {
    /// The records of `stream` that hold events from version `from` on, in order, at most `limit`. The first
    /// may begin before `from`. None, if the stream is unknown or ends before.
    ///
    /// # Errors
    /// [`ReadError`] at the first record that cannot be read.
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError>;

    /// The records of all streams that hold events from position `from` on, in order, at most `limit`.
    ///
    /// # Errors
    /// [`ReadError`] at the first record that cannot be read.
    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError>;

    /// Shows `look` the records of all streams that hold events from position `from` on, in order, where they
    /// stand: what goes through a whole log copies none of it. Ends when `look` says so.
    ///
    /// # Errors
    /// [`ReadError`] at the first record that cannot be read, or that `look` answers.
    fn scan(
        &self,
        from: Position,
        compare: Compare,
        look: &mut dyn FnMut(&Scanned<'_>) -> Look,
    ) -> Result<(), ReadError> {
        // Pages are compared in any case.
        let _ = compare;
        scanning::scan_pages(self, from, look)
    }

    /// The last durable position; 0 if the log is empty.
    ///
    /// # Errors
    /// [`ReadError::Closed`] after closing.
    fn head(&self) -> Result<Position, ReadError>;

    /// Where `stream` ends; 0 if it is unknown. Answers from memory: actors ask on their own thread.
    ///
    /// # Errors
    /// [`ReadError::Closed`] after closing.
    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError>;

    /// Streams whose id begins with `prefix`, in order of their ids, from the one behind `after` on, at most
    /// `limit`.
    ///
    /// # Errors
    /// [`ReadError::Closed`] after closing.
    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError>;

    /// The streams whose work was going on when the log was closed or its process died, in order of their names:
    /// those are resumed at a start. A store without an index reads the whole log for it.
    ///
    /// # Errors
    /// [`ReadError`] if the log cannot be read.
    fn open_work(&self) -> Result<Vec<StreamId>, ReadError> {
        open_work::open_work(self)
    }

    /// Shows every record in order and, in its place, each piece of the log that cannot be read. This is how a
    /// damaged log is looked at: all other reading ends at the first error, and so does this where a store knows
    /// no way to go on behind it.
    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        let mut next = Position(1);
        loop {
            match self.read_all(next, SURVEY_RECORDS) {
                Err(error) => return show(Err(error)),
                Ok(page) => {
                    let Some(last) = page.last() else { return };
                    next = Position(last.last_position().0.saturating_add(1));
                    for stored in page {
                        show(Ok(stored));
                    }
                }
            }
        }
    }

    /// The same for one stream. Goes on at the next version behind a record that cannot be read.
    fn survey_stream(&self, stream: &StreamId, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        let end = match self.stream_version(stream) {
            Ok(end) => end,
            Err(error) => return show(Err(error)),
        };
        let (mut next, mut told) = (Version(1), false);
        // One record at a time: an error is then that of one record. Every round goes at least one version on.
        while next <= end {
            match self.read_stream(stream, next, 1).map(|page| page.into_iter().next()) {
                Ok(Some(stored)) => {
                    next = Version(stored.record.last_version().0.max(next.0) + 1);
                    told = false;
                    show(Ok(stored));
                }
                Ok(None) => return,
                Err(error) => {
                    if !std::mem::replace(&mut told, true) {
                        show(Err(error));
                    }
                    next = Version(next.0 + 1);
                }
            }
        }
    }
}

/// The whole log.
pub trait EventStore: EventReader {
    /// What an append must carry to be taken.
    fn fence(&self) -> Fence;

    /// Whether reading never waits for a disk, so that whoever reads needs no thread for it.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Adds records. The place in the queue is taken at the call; the future resolves when they are durable,
    /// and waits while the queue is full.
    ///
    /// Repeating an append (the same set id, streams and expected versions) answers as the first one did,
    /// even if the streams have gone on since.
    fn append(&self, append: Append) -> AppendFuture;

    /// Whether the append with this id is in the log, and where: what to ask after
    /// [`AppendError::Ambiguous`], on the store opened anew. Quick for the newest 8,192 appends, a scan of
    /// the whole log for others.
    ///
    /// # Errors
    /// [`ReadError`] if the log cannot be read.
    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, ReadError>;

    /// Records that become durable from now on, in order.
    fn subscribe(&self) -> Feed;

    /// Refuses new appends, makes all queued ones durable, and lets go of the log, so that it can be opened
    /// again at once. Blocks until then: call it from the blocking pool. Closing twice is fine.
    ///
    /// # Errors
    /// [`CloseError`] if something could not be finished. What was acknowledged is durable all the same.
    fn close(&self) -> Result<(), CloseError>;

    /// Keeps a snapshot in the place of the stream's last one, unless it is too large. It is a cache: not durable at
    /// once, and nothing waits for it. May block: call it from the blocking pool.
    ///
    /// # Errors
    /// What refused. Nothing is lost.
    fn put_snapshot(&self, _snapshot: &Snapshot) -> Result<(), String> {
        Ok(())
    }

    /// The snapshot of a stream, if one is kept. Whether it fits the log is for the caller to see.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn get_snapshot(&self, _stream: &StreamId) -> Result<Option<Snapshot>, String> {
        Ok(None)
    }

    /// Closes this store, if it is not closed yet, and opens the same log anew, under the next epoch: what to do when
    /// a write has failed. This store stays closed. Blocks: call it from the blocking pool. After an error it may
    /// be called again, once the cause is removed.
    ///
    /// # Errors
    /// [`OpenError`], as at any opening; [`OpenError::NotReopened`] from a store that cannot do it.
    fn reopen(&self) -> Result<Arc<dyn EventStore>, OpenError> {
        Err(OpenError::NotReopened { why: "this kind of store does not say how".to_owned() })
    }
}
