//! A small store over the writer, whose disk is a map: the subject of the tests under many schedules.

use std::collections::BTreeMap;

use proto_events::id::{Position, StreamId, Version};
use shuttle::future::block_on;
use shuttle::thread;

use crate::api::append::{Append, AppendFuture, Appended};
use crate::api::check;
use crate::api::error::{CloseError, ReadError};
use crate::api::feed::Feed;
use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::api::record::{Fence, StoredRecord, StreamInfo};
use crate::api::store::EventStore;
use crate::engine::blocks::{BlockBuilder, Watermark};
use crate::engine::head::{Frontier, Head};
use crate::engine::index::Index;
use crate::engine::index::stream_listing::StreamListing;
use crate::engine::located_records;
use crate::engine::values::Values;
use crate::engine::writer::schedules::FENCE;
use crate::engine::writer::shared::{Job, Shared};
use crate::engine::writer::sink::{Sink, WriterTail};
use crate::engine::writer::*;
use crate::sync::{Mutex, Semaphore};
use crate::testing::conformance::sketch::ok;
/// Values in a map: those handed over, and those that are durable.
#[derive(Debug, Default)]
pub(super) struct DiskState {
    pub(super) handed: BTreeMap<u64, Vec<u8>>,
    pub(super) durable: BTreeMap<u64, Vec<u8>>,
    /// The number of the sync that fails.
    pub(super) fail_at: Option<u64>,
    pub(super) syncs: u64,
}

/// The disk, as the writer and the readers share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk(pub(super) Arc<Mutex<DiskState>>);

impl Values for Disk {
    type Bytes = Vec<u8>;

    fn get(&self, ordinal: u64) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(self.0.lock().unwrap().durable.get(&ordinal).cloned())
    }

    fn get_chunk(&self, _: u64) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(None)
    }
}

impl Sink for Disk {
    fn insert(&mut self, ordinal: u64, value: &[u8]) -> Result<(), String> {
        self.0.lock().unwrap().handed.insert(ordinal, value.to_vec());
        Ok(())
    }

    fn put_chunk(&mut self, _: u64, _: &[u8]) -> Result<(), String> {
        Err("bodies here are small".to_owned())
    }

    fn sync(&mut self) -> Result<(), String> {
        let mut inside = self.0.lock().unwrap();
        inside.syncs += 1;
        if inside.fail_at == Some(inside.syncs) {
            return Err("the disk is gone".to_owned());
        }
        let synced = std::mem::take(&mut inside.handed);
        inside.durable.extend(synced);
        Ok(())
    }

    fn put_block(&mut self, _: u64, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn put_watermark(&mut self, _: &Watermark) -> Result<(), String> {
        Ok(())
    }

    fn write_head(&mut self, _: &Head) -> Result<(), String> {
        Ok(())
    }
}

/// A store like that in a directory, without sled: it appends, reads, follows and closes in the same way.
pub(super) struct Store {
    pub(super) shared: Arc<Shared>,
    queue: mpsc::Sender<Job>,
    pub(super) disk: Disk,
    writer: Mutex<Option<thread::JoinHandle<Result<(), String>>>>,
}

impl Store {
    /// Opens a store with a queue of this capacity.
    pub(super) fn open(capacity: usize, fail_at: Option<u64>) -> Arc<Self> {
        let disk = Disk(Arc::new(Mutex::new(DiskState { fail_at, ..DiskState::default() })));
        let room = Semaphore::new(capacity);
        let shared = Arc::new(Shared { room, ..Shared::new(FENCE, Index::default()) });
        let (queue, jobs) = mpsc::channel(capacity);
        let tail =
            WriterTail { frontier: Frontier::default(), next_chunk: 0, blocks: BlockBuilder::from_zero(0) };
        let writer = LogWriter::new(disk.clone(), Arc::clone(&shared), tail);
        let writer = thread::spawn(move || block_on(writer.run(jobs)));
        Arc::new(Self { shared, queue, disk, writer: Mutex::new(Some(writer)) })
    }

    pub(super) fn index<R>(&self, query: impl FnOnce(&Index) -> R) -> R {
        query(&self.shared.index.read().unwrap())
    }

    pub(super) fn has(&self, set_id: [u8; 16]) -> bool {
        ok(self.resolve(set_id)).is_some()
    }
}

impl EventReader for Store {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let (end, places) =
            self.index(|index| (index.end_of(stream.as_str()).version, index.places_of(stream.as_str())));
        if end < from {
            return Ok(Vec::new());
        }
        let first = located_records::place_for_version(&self.disk, &places, from)?;
        let wanted = places.get(first..).unwrap_or_default();
        located_records::read_places(&self.disk, stream, wanted, Page::with_limit(limit))
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        let (range, end) = self.index(|index| (index.value_range_for(from), index.next_ordinal()));
        located_records::read_from(&self.disk, from, range, end, Page::with_limit(limit))
    }

    fn head(&self) -> Result<Position, ReadError> {
        Ok(self.index(Index::head))
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        Ok(self.index(|index| index.end_of(stream.as_str()).version))
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        let after = after.map(StreamId::as_str);
        Ok(StreamListing::default().list(prefix, after, limit, &|question| self.index(question)))
    }
}

impl EventStore for Store {
    fn fence(&self) -> Fence {
        FENCE
    }

    fn append(&self, append: Append) -> AppendFuture {
        ask(&self.shared, &self.queue, append)
    }

    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, ReadError> {
        let parts = match self.index(|index| index.recall(set_id)) {
            Some(ordinal) => located_records::whole_append(&self.disk, ordinal.into(), set_id)?,
            None => None,
        };
        Ok(parts.map(|parts| check::appended(&parts)))
    }

    fn subscribe(&self) -> Feed {
        self.shared.subscribe()
    }

    fn close(&self) -> Result<(), CloseError> {
        let Some(writer) = self.writer.lock().unwrap().take() else { return Ok(()) };
        self.shared.closing.notify_one();
        writer.join().unwrap().unwrap();
        self.shared.end_feeds();
        Ok(())
    }
}
