//! Rules of paging: for every start and limit, a page holds exactly the records there.

use std::collections::BTreeMap;
use std::sync::Arc;

use proto_events::id::{Position, StreamId, Version};

use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::api::store::EventStore;
use crate::testing::conformance::rule::rule;
use crate::testing::conformance::sketch::{Author, ok, stream};

pub(crate) async fn run(make: &impl Fn() -> Arc<dyn EventStore>) {
    rule(
        "every_page_from_every_start_is_what_stands_there",
        every_page_from_every_start_is_what_stands_there(make()),
    )
    .await;
}

async fn every_page_from_every_start_is_what_stands_there(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    check_pages(store.as_ref(), &[]);
    for turn in 0..14_usize {
        // One event, several events, several streams, sometimes a body that fills a value.
        let bodies = vec![vec![7; if turn % 5 == 0 { 30_000 } else { turn }]; 1 + turn % 3];
        let names = (0..=turn % 2).map(|part| stream(&format!("paged-{}", (turn + part) % 4)));
        let parts: Vec<(StreamId, Vec<Vec<u8>>)> = names
            .map(|name| {
                (
                    name,
                    if turn % 5 == 0 { bodies.get(..1).unwrap_or_default().to_vec() } else { bodies.clone() },
                )
            })
            .collect();
        ok(store.append(author.many(&parts)).await);
    }
    let records = ok(store.read_all(Position(1), usize::MAX));
    assert_eq!(records.len(), 21);
    check_pages(store.as_ref(), &records);
}

pub(crate) fn check_pages(reader: &dyn EventReader, records: &[StoredRecord]) {
    let head = records.last().map_or(0, |stored| stored.last_position().0);
    assert_eq!(ok(reader.head()).0, head);
    let limits = || (0..=records.len() + 1).chain([usize::MAX]);
    check_bytes(reader, records);
    for from in (0..=head + 2).chain([u64::MAX]) {
        let rest = records.iter().filter(|stored| stored.last_position().0 >= from);
        let rest: Vec<_> = rest.cloned().collect();
        for limit in limits() {
            let page = ok(reader.read_all(Position(from), limit));
            assert_eq!(page, rest.get(..limit).unwrap_or(&rest), "from position {from}, at most {limit}");
        }
    }
    let mut streams: BTreeMap<StreamId, Vec<StoredRecord>> = BTreeMap::new();
    for stored in records {
        streams.entry(stored.record.stream.clone()).or_default().push(stored.clone());
    }
    for (of, records) in &streams {
        check_stream(reader, of, records);
    }
    check_list(reader, &streams);
}

fn check_stream(reader: &dyn EventReader, of: &StreamId, records: &[StoredRecord]) {
    let end = records.last().map_or(Version(0), |stored| stored.record.last_version());
    assert_eq!(ok(reader.stream_version(of)), end);
    for from in (0..=end.0 + 2).chain([u64::MAX]) {
        let rest = records.iter().filter(|stored| stored.record.last_version().0 >= from);
        let rest: Vec<_> = rest.cloned().collect();
        for limit in (0..=records.len() + 1).chain([usize::MAX]) {
            let page = ok(reader.read_stream(of, Version(from), limit));
            assert_eq!(page, rest.get(..limit).unwrap_or(&rest), "{of} from {from}, at most {limit}");
        }
    }
}

fn check_list(reader: &dyn EventReader, streams: &BTreeMap<StreamId, Vec<StoredRecord>>) {
    let names: Vec<&StreamId> = streams.keys().collect();
    let starts = std::iter::once(None).chain(names.iter().copied().map(Some));
    for after in starts {
        for prefix in ["", "task-", "task-agent/paged-1", "flow-"] {
            let rest = names.iter().filter(|name| after.is_none_or(|after| **name > after));
            let rest: Vec<&StreamId> =
                rest.filter(|name| name.as_str().starts_with(prefix)).copied().collect();
            for limit in 0..=names.len() + 1 {
                let page = ok(reader.list_streams(prefix, after, limit));
                let wanted = rest.get(..limit).unwrap_or(&rest);
                let listed: Vec<&StreamId> = page.iter().map(|info| &info.stream).collect();
                assert_eq!(listed, wanted, "`{prefix}` after {after:?}, at most {limit}");
            }
        }
    }
}

/// Checks the pages that are bounded by bytes: each has a record until the end, none goes on after its bound, and
/// together they are the log.
fn check_bytes(reader: &dyn EventReader, records: &[StoredRecord]) {
    let size = |page: &[StoredRecord]| page.iter().map(StoredRecord::bytes_in_memory).sum::<usize>();
    for bytes in [0, 1, 700, 40_000, usize::MAX] {
        let page = Page { records: 5, bytes };
        let (mut all, mut next) = (Vec::new(), Position(1));
        loop {
            let read = ok(reader.page_all(next, page));
            let Some((last, before)) = read.split_last() else { break };
            assert!(read.len() <= 5 && (before.is_empty() || size(before) < bytes), "{bytes} bytes");
            next = Position(last.last_position().0 + 1);
            all.extend(read);
        }
        assert_eq!(all, records, "pages of {bytes} bytes");
        for name in records.iter().map(|stored| &stored.record.stream) {
            let read = ok(reader.page_stream(name, Version(1), page));
            let wanted = ok(reader.read_stream(name, Version(1), read.len()));
            assert!(!read.is_empty() && read == wanted, "{name}: pages of {bytes} bytes");
            let before = read.split_last().map_or(&[][..], |(_, before)| before);
            assert!(before.is_empty() || size(before) < bytes, "{name}: {bytes} bytes");
        }
    }
    assert_eq!(ok(reader.page_all(Position(1), Page { records: 0, bytes: 9 })), []);
}
