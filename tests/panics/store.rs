//! A log whose appends panic on demand, before or after they are written.

use std::sync::atomic::{AtomicU32, Ordering};

use proto_events::id::{Position, StreamId, Version};
use taskreel_log::api::{
    Append, AppendFuture, Appended, CloseError, EventReader, EventStore, Feed, Fence, ReadError,
    StoredRecord, StreamInfo,
};
use taskreel_log::memory::MemoryStore;

/// The log, and how many of the next appends panic, unwritten or written.
#[derive(Default)]
pub(crate) struct Panicking {
    log: MemoryStore,
    pub(crate) unwritten: AtomicU32,
    pub(crate) written: AtomicU32,
    /// The number of the next looks at a session that panic.
    pub(crate) sessions: AtomicU32,
}

fn takes_one(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl EventReader for Panicking {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.log.read_stream(stream, from, limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.log.read_all(from, limit)
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.log.head()
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        let is_session = stream.as_str().starts_with("session-");
        assert!(!is_session || !takes_one(&self.sessions), "BOOM of a session");
        self.log.stream_version(stream)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.log.list_streams(prefix, after, limit)
    }
}

impl EventStore for Panicking {
    fn fence(&self) -> Fence {
        self.log.fence()
    }

    fn is_in_memory(&self) -> bool {
        true
    }

    fn append(&self, append: Append) -> AppendFuture {
        assert!(!takes_one(&self.unwritten), "BOOM before the write");
        let done = self.log.append(append);
        if takes_one(&self.written) {
            return Box::pin(async move {
                let done = done.await;
                panic!("BOOM after the write of {done:?}")
            });
        }
        done
    }

    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, ReadError> {
        self.log.resolve(set_id)
    }

    fn subscribe(&self) -> Feed {
        self.log.subscribe()
    }

    fn close(&self) -> Result<(), CloseError> {
        self.log.close()
    }
}
