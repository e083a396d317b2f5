//! A store around another that keeps no snapshot while it is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proto_events::id::{Position, StreamId, Version};
use taskreel::store::{
    Append, AppendFuture, Appended, CloseError, EventReader, EventStore, Feed, Fence, ReadError, Snapshot,
    StoredRecord, StreamInfo,
};

pub(crate) struct Holding {
    inner: Arc<dyn EventStore>,
    held: AtomicBool,
}

impl Holding {
    pub(crate) fn around(inner: Arc<dyn EventStore>) -> Self {
        Self { inner, held: AtomicBool::new(false) }
    }

    pub(crate) fn hold(&self, held: bool) {
        self.held.store(held, Ordering::SeqCst);
    }
}

impl EventReader for Holding {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.inner.read_stream(stream, from, limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.inner.read_all(from, limit)
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.inner.head()
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.inner.stream_version(stream)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.inner.list_streams(prefix, after, limit)
    }
}

impl EventStore for Holding {
    fn fence(&self) -> Fence {
        self.inner.fence()
    }

    fn append(&self, append: Append) -> AppendFuture {
        self.inner.append(append)
    }

    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, ReadError> {
        self.inner.resolve(set_id)
    }

    fn subscribe(&self) -> Feed {
        self.inner.subscribe()
    }

    fn put_snapshot(&self, snapshot: &Snapshot) -> Result<(), String> {
        while self.held.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        self.inner.put_snapshot(snapshot)
    }

    fn get_snapshot(&self, stream: &StreamId) -> Result<Option<Snapshot>, String> {
        self.inner.get_snapshot(stream)
    }

    fn close(&self) -> Result<(), CloseError> {
        self.inner.close()
    }
}
