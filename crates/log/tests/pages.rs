//! A reader of a log holds a page of it, and a page is bounded by bytes: large bodies do not fill the memory.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

mod export_support;

use std::sync::atomic::{AtomicUsize, Ordering};

use export_support::{append, exported};
use proto_events::id::{LogId, Position, StreamId, Version};
use taskreel_log::api::{EventReader, EventStore as _, Page, ReadError, StoredRecord, StreamInfo};
use taskreel_log::audit::{first_other_record, verify};
use taskreel_log::jsonl::JsonLines;
use taskreel_log::limits::READ_PAGE_BYTES;
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{Author, stream};

/// The size of each body: several fit a page, all of them do not.
const BODY: usize = 1_500_000;

/// A reader that notes the size of the largest page that it gave.
struct Counting<R> {
    reader: R,
    largest: AtomicUsize,
}

impl<R: EventReader> Counting<R> {
    fn new(reader: R) -> Self {
        Self { reader, largest: AtomicUsize::new(0) }
    }

    fn note(&self, page: Vec<StoredRecord>) -> Vec<StoredRecord> {
        let bytes = page.iter().map(StoredRecord::bytes_in_memory).sum();
        self.largest.fetch_max(bytes, Ordering::Relaxed);
        page
    }

    /// Returns the size of the largest page since the last question.
    fn largest(&self) -> usize {
        self.largest.swap(0, Ordering::Relaxed)
    }
}

impl<R: EventReader> EventReader for Counting<R> {
    fn read_stream(
        &self,
        of: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.reader.read_stream(of, from, limit).map(|page| self.note(page))
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.reader.read_all(from, limit).map(|page| self.note(page))
    }

    fn page_stream(&self, of: &StreamId, from: Version, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        self.reader.page_stream(of, from, page).map(|page| self.note(page))
    }

    fn page_all(&self, from: Position, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        self.reader.page_all(from, page).map(|page| self.note(page))
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.reader.head()
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.reader.stream_version(stream)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.reader.list_streams(prefix, after, limit)
    }
}

/// Reads a log in every way that takes pages, and checks what a page holds.
fn check<R: EventReader>(reader: R) -> String {
    let reader = Counting::new(reader);
    let bound = READ_PAGE_BYTES + 2 * BODY;
    let check = |what: &str| {
        let largest = reader.largest();
        assert!(largest > BODY && largest <= bound, "{what}: a page of {largest} bytes");
    };
    let text = exported(&reader, LogId::default(), "strict");
    check("export");
    assert_eq!(verify(&reader).records, 12);
    check("verify");
    first_other_record(&reader, &reader, &stream("one")).unwrap();
    check("diff");
    text
}

#[test]
fn a_page_of_large_records_is_bounded_by_their_bytes_in_each_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let mut author = Author::new(store.fence());
    for n in 0..12_u8 {
        append(&store, author.append_one(&stream(if n % 2 == 0 { "one" } else { "other" }), &vec![n; BODY]));
    }
    let memory = taskreel_log::memory::MemoryStore::new();
    let mut author = Author::new(memory.fence());
    for n in 0..12_u8 {
        append(&memory, author.append_one(&stream(if n % 2 == 0 { "one" } else { "other" }), &vec![n; BODY]));
    }
    let text = check(store);
    check(memory);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    check(JsonLines::open(file.path()).unwrap());
}
