//! An export of a log that grows as fast as it is read: it has an end all the same.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Mutex;

use proto_events::id::{LogId, Position, StreamId, Version};
use taskreel_log::api::{EventReader, EventStore as _, ReadError, StoredRecord, StreamInfo};
use taskreel_log::audit::export;
use taskreel_log::memory::MemoryStore;
use taskreel_log::testing::conformance::{Author, stream};

/// The most records that its readers cause.
const MOST: u64 = 4_000;

/// A log to which each read of a record adds another.
struct Growing {
    log: MemoryStore,
    author: Mutex<Author>,
}

impl Growing {
    fn append(&self) {
        if self.log.head().unwrap().0 < MOST {
            let append = self.author.lock().unwrap().append_one(&stream("s"), b"more");
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(self.log.append(append)).unwrap();
        }
    }
}

impl EventReader for Growing {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.log.read_stream(stream, from, limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.append();
        self.log.read_all(from, limit)
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.log.head()
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
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

#[test]
fn an_export_ends_at_the_head_that_it_found_however_fast_the_log_grows() {
    let log = MemoryStore::new();
    let author = Mutex::new(Author::new(log.fence()));
    let log = Growing { log, author };
    (0..10).for_each(|_| log.append());
    let mut lines = Vec::new();
    let done = export::<ReadError>(&log, LogId([7; 16]), "strict", |line| {
        lines.push(line.to_owned());
        Ok(())
    });
    assert_eq!((done.unwrap().records, lines.len()), (10, 12));
    // A page of each of both passes.
    assert!(log.head().unwrap() < Position(1_000), "{}", log.head().unwrap());
}
