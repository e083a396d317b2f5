//! Rules of reading.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::join_all;
use proto_events::codec::record::Record;
use proto_events::id::{Digest, Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::api::scan::{Compare, ScannedRecord};
use crate::api::store::EventStore;
use crate::testing::conformance::rule::rule_here;
use crate::testing::conformance::sketch::{Author, ok, stream};

/// Checks the rules, each on a store of its own, read through the reader that `open` creates once it is
/// filled.
pub(crate) async fn run(
    make: &impl Fn() -> Arc<dyn EventStore>,
    open: &impl Fn(Arc<dyn EventStore>) -> Arc<dyn EventReader>,
) {
    rule_here("what_was_appended_is_read_back", what_was_appended_is_read_back(make(), open)).await;
    rule_here(
        "any_page_of_any_size_gives_the_same_log",
        any_page_of_any_size_gives_the_same_log(make(), open),
    )
    .await;
    rule_here("a_scan_shows_what_the_pages_hold", a_scan_shows_what_the_pages_hold(make(), open)).await;
    rule_here(
        "reading_a_stream_begins_with_the_record_that_holds_the_version",
        reading_a_stream_begins_with_the_record_that_holds_the_version(make(), open),
    )
    .await;
    rule_here(
        "streams_are_listed_in_order_by_prefix_and_page",
        streams_are_listed_in_order_by_prefix_and_page(make(), open),
    )
    .await;
    rule_here("a_survey_shows_every_record_in_order", a_survey_shows_every_record_in_order(make(), open))
        .await;
    rule_here("an_empty_log_has_nothing_to_read", async {
        an_empty_log_has_nothing_to_read(&*open(make()));
    })
    .await;
}

/// A function that makes a reader of a filled store.
trait Open: Fn(Arc<dyn EventStore>) -> Arc<dyn EventReader> {}
impl<F: Fn(Arc<dyn EventStore>) -> Arc<dyn EventReader>> Open for F {}

pub(crate) fn check_log(store: &dyn EventReader) -> u64 {
    let mut next = Position(1);
    let mut ends: HashMap<StreamId, (Version, Digest)> = HashMap::new();
    let mut open: Option<([u8; 16], u16, u16)> = None;
    loop {
        let page = ok(store.read_all(next, 100));
        if page.is_empty() {
            break;
        }
        for stored in page {
            let record = &stored.record;
            assert_eq!(stored.position, next, "positions follow one another");
            let (version, previous) = ends.get(&record.stream).copied().unwrap_or_default();
            assert_eq!(record.first_version.0, version.0 + 1, "versions of {}", record.stream);
            assert_eq!(record.previous, previous, "chain of {}", record.stream);
            let (set_id, part, of) = open.take().unwrap_or((record.set_id, 0, record.parts));
            assert_eq!((record.set_id, record.part, record.parts), (set_id, part, of), "appends are whole");
            open = (part + 1 < of).then_some((set_id, part + 1, of));
            ends.insert(record.stream.clone(), (record.last_version(), stored.hash));
            next = Position(stored.last_position().0 + 1);
        }
    }
    assert_eq!(open, None, "the last append is whole");
    assert_eq!(ok(store.head()).0 + 1, next.0, "the head is the last event");
    for (stream, (version, hash)) in &ends {
        assert_eq!(ok(store.stream_version(stream)), *version);
        let last = ok(store.read_stream(stream, *version, 2));
        assert_eq!(last.iter().map(|stored| stored.hash).collect::<Vec<_>>(), [*hash]);
    }
    next.0 - 1
}

/// Writes 300 appends of one to five events to 7 streams.
async fn fill(store: &dyn EventStore) -> Vec<StreamId> {
    let mut author = Author::new(store.fence());
    let streams: Vec<StreamId> = (0..7).map(|n| stream(&format!("s{n}"))).collect();
    let appends: Vec<_> = (0..300)
        .zip(streams.iter().cycle())
        .map(|(n, stream)| {
            let bodies = (0..=n % 5).map(|event| format!("{n}/{event}").into_bytes().repeat(n));
            store.append(author.many(&[(stream.clone(), bodies.collect())]))
        })
        .collect();
    join_all(appends).await.into_iter().for_each(|answer| drop(ok(answer)));
    streams
}

async fn what_was_appended_is_read_back(store: Arc<dyn EventStore>, open: &impl Open) {
    let append = Author::new(store.fence()).many(&[(stream("a"), vec![b"one".to_vec(), Vec::new()])]);
    ok(store.append(append.clone()).await);
    let store = open(store);
    let sent = append.parts.first().map(|part| part.record.clone()).expect("the append has one part");
    let expected = StoredRecord {
        position: Position(1),
        hash: sent.hash(),
        record: ok(Record::decode(sent.bytes())),
        bytes: Arc::clone(sent.bytes()),
    };
    assert_eq!(ok(store.read_all(Position(0), 10)), std::slice::from_ref(&expected));
    assert_eq!(ok(store.read_stream(&stream("a"), Version(0), 10)), [expected]);
    assert!(ok(store.read_stream(&stream("unknown"), Version(0), 10)).is_empty());
    assert_eq!(ok(store.stream_version(&stream("unknown"))), Version(0));
}

async fn any_page_of_any_size_gives_the_same_log(store: Arc<dyn EventStore>, open: &impl Open) {
    fill(&*store).await;
    let store = open(store);
    assert_eq!(check_log(&*store), 900);
    let all = ok(store.read_all(Position(0), usize::MAX));
    assert_eq!(all.len(), 300);
    for size in [1, 7, 64] {
        let mut paged = Vec::new();
        let mut from = Position(1);
        loop {
            let page = ok(store.read_all(from, size));
            assert!(page.len() <= size);
            let Some(last) = page.last() else { break };
            from = Position(last.last_position().0 + 1);
            paged.extend(page);
        }
        assert_eq!(paged, all, "pages of {size}");
    }
    for from in 1..=900 {
        let page = ok(store.read_all(Position(from), 1));
        let stored = page.first().expect("every position up to the head is held by a record");
        assert!(stored.position.0 <= from && from <= stored.last_position().0, "position {from}");
    }
    assert!(ok(store.read_all(Position(901), 1)).is_empty());
    assert!(ok(store.read_all(Position(u64::MAX), 1)).is_empty());
    assert!(ok(store.read_all(Position(1), 0)).is_empty());
}

async fn a_scan_shows_what_the_pages_hold(store: Arc<dyn EventStore>, open: &impl Open) {
    fill(&*store).await;
    let store = open(store);
    for compare in [Compare::Checksums, Compare::Hashes] {
        for from in [0, 1, 2, 450, 899, 900, 901, u64::MAX] {
            let mut seen = Vec::new();
            let mut look = |scanned: &ScannedRecord<'_>| {
                assert!(scanned.last_position() >= Position(from));
                let record = ok(Record::of_view(&scanned.record));
                seen.push((scanned.position, scanned.hash, record));
                Ok(ControlFlow::Continue(()))
            };
            ok(store.scan(Position(from), compare, &mut look));
            let all = ok(store.read_all(Position(from), usize::MAX));
            let all: Vec<_> = all.into_iter().map(|read| (read.position, read.hash, read.record)).collect();
            assert_eq!(seen, all, "from {from}");
        }
        let mut shown = 0;
        let ended = store.scan(Position(1), compare, &mut |_| {
            shown += 1;
            Ok(if shown == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        assert_eq!((ended, shown), (Ok(()), 5), "it ends when it is told to");
        let stop = ReadError::Closed;
        assert_eq!(store.scan(Position(1), compare, &mut |_| Err(stop.clone())), Err(ReadError::Closed));
    }
}

async fn reading_a_stream_begins_with_the_record_that_holds_the_version(
    store: Arc<dyn EventStore>,
    open: &impl Open,
) {
    let streams = fill(&*store).await;
    let store = open(store);
    for stream in streams {
        let all = ok(store.read_stream(&stream, Version(1), usize::MAX));
        let end = ok(store.stream_version(&stream));
        for from in 1..=end.0 {
            let read = ok(store.read_stream(&stream, Version(from), usize::MAX));
            let wanted: Vec<_> =
                all.iter().filter(|stored| stored.record.last_version().0 >= from).cloned().collect();
            assert_eq!(read, wanted, "{stream} from {from}");
            assert_eq!(ok(store.read_stream(&stream, Version(from), 2)), wanted.get(..2).unwrap_or(&wanted));
        }
        assert!(ok(store.read_stream(&stream, Version(end.0 + 1), 9)).is_empty());
    }
}

async fn streams_are_listed_in_order_by_prefix_and_page(store: Arc<dyn EventStore>, open: &impl Open) {
    let mut author = Author::new(store.fence());
    let mut names: Vec<StreamId> = Vec::new();
    for n in 0..30_u64 {
        names.push(ok(StreamId::session("agent", &format!("{}", n * 7_919 % 97))));
        names.push(ok(StreamId::task("agent", &format!("{}", n * 7_919 % 89))));
    }
    for name in &names {
        ok(store.append(author.many(&[(name.clone(), vec![vec![1]; 2])])).await);
    }
    let store = open(store);
    names.sort();
    for (prefix, count) in [("", 60), ("task-", 30), ("session-agent/", 30), ("flow-", 0)] {
        let mut listed: Vec<StreamId> = Vec::new();
        loop {
            let page = ok(store.list_streams(prefix, listed.last(), 7));
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= 7 && page.iter().all(|info| info.version == Version(2)));
            listed.extend(page.into_iter().map(|info| info.stream));
        }
        let wanted: Vec<_> = names.iter().filter(|name| name.as_str().starts_with(prefix)).cloned().collect();
        assert_eq!((listed.len(), listed), (count, wanted), "prefix `{prefix}`");
    }
}

async fn a_survey_shows_every_record_in_order(store: Arc<dyn EventStore>, open: &impl Open) {
    let streams = fill(&*store).await;
    let store = open(store);
    let mut shown = Vec::new();
    store.survey(&mut |read| shown.push(ok(read)));
    assert_eq!(shown, ok(store.read_all(Position(1), usize::MAX)));
    for stream in streams {
        let mut shown = Vec::new();
        store.survey_stream(&stream, &mut |read| shown.push(ok(read)));
        assert_eq!(shown, ok(store.read_stream(&stream, Version(1), usize::MAX)), "{stream}");
    }
}

fn an_empty_log_has_nothing_to_read(store: &dyn EventReader) {
    assert_eq!(ok(store.head()), Position(0));
    assert!(ok(store.read_all(Position(0), 9)).is_empty());
    assert!(ok(store.list_streams("", None, 9)).is_empty());
    assert_eq!(ok(store.stream_version(&stream("a"))), Version(0));
    store.survey(&mut |read| panic!("an empty log showed {read:?}"));
}
