//! Tests of the index: slots and places, listing, positions, open work, and its size in memory.

use proto_events::id::{Digest, StreamId};

use super::*;
use crate::engine::index::stream_listing::{StreamListing, open_work};

fn name(n: u32) -> String {
    format!("task-writer/task_20261121_{n:08x}")
}

fn filled(streams: u32, commits: u32) -> Index {
    let mut index = Index::default();
    for commit in 0..commits {
        for n in 0..streams {
            // About as many records as a full value has.
            let ordinal = (commit * streams + n) / 100;
            let slot = RecordSlot { ordinal, offset: u16::try_from(n % 60_000).unwrap() };
            let version = Version(u64::from(commit) + 1);
            let end = StreamEnd::new(version, Digest::compute(&n.to_be_bytes()));
            index.add_record(&name(n), &IndexedRecord { end, slot, events: 1, work: WorkChange::Unchanged });
        }
    }
    index
}

#[test]
fn a_streams_slots_come_oldest_first() {
    let index = filled(300, 3);
    let ordinals: Vec<u32> = index.places_of(&name(7)).iter().map(|place| place.slot.ordinal).collect();
    assert_eq!(ordinals, [0, 3, 6]);
    let places = index.places_of(&name(299));
    assert_eq!(places.last().map(|place| place.slot), Some(RecordSlot { ordinal: 8, offset: 299 }));
    assert_eq!(index.end_of(&name(7)).version, Version(3));
    assert_eq!(index.end_of("task-a/unknown"), StreamEnd::default());
    assert!(index.places_of("task-a/unknown").is_empty());
}

#[test]
fn a_stream_of_ten_commits_costs_at_most_105_bytes_and_its_name() {
    let streams = 100_000;
    let index = filled(streams, 10);
    let each = index.bytes() / streams as usize;
    assert!(each <= 105 + name(0).len(), "{each} bytes");
}

#[test]
fn streams_are_listed_in_order_page_by_page() {
    let (mut index, listing) = (filled(1_000, 1), StreamListing::default());
    let list = |index: &Index, prefix: &str, after: Option<&StreamId>, limit| {
        listing.list(prefix, after.map(StreamId::as_str), limit, &|question| question(index))
    };
    let mut all = Vec::new();
    loop {
        let after: Option<StreamId> = all.last().cloned();
        let page = list(&index, "task-", after.as_ref(), 99);
        if page.is_empty() {
            break;
        }
        all.extend(page.into_iter().map(|info| info.stream));
    }
    assert!(all.is_sorted() && all.len() == 1_000);
    let slot = RecordSlot { ordinal: 10, offset: 0 };
    let (end, work) = (StreamEnd::default(), WorkChange::Unchanged);
    index.add_record("session-a/b", &IndexedRecord { end, slot, events: 1, work });
    assert_eq!(list(&index, "", None, 1)[0].stream.as_str(), "session-a/b");
    assert_eq!(list(&index, "task-", None, usize::MAX).len(), 1_000);
    assert!(list(&index, "task-x", None, 9).is_empty());
}

#[test]
fn a_position_lies_between_two_landmarks() {
    let mut index = Index::default();
    for ordinal in 0..100 {
        let (end, slot) = (StreamEnd::default(), RecordSlot { ordinal, offset: 16 });
        index.add_record("task-a/b", &IndexedRecord { end, slot, events: 10, work: WorkChange::Unchanged });
    }
    assert_eq!(index.head(), Position(1_000));
    assert_eq!(index.value_range_for(Position(0)), (0, 16));
    assert_eq!(index.value_range_for(Position(161)), (16, 32));
    assert_eq!(index.value_range_for(Position(160)), (0, 16));
    assert_eq!(index.value_range_for(Position(u64::MAX)), (96, 100));
    assert_eq!(Index::default().value_range_for(Position(5)), (0, 0));
}

#[test]
fn work_is_open_until_it_is_not() {
    let mut index = Index::default();
    let mut add = |stream: &str, work| {
        let (end, slot) = (StreamEnd::default(), RecordSlot { ordinal: 0, offset: 16 });
        index.add_record(stream, &IndexedRecord { end, slot, events: 1, work });
        open_work(&|question| question(&index)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(add("task-a/2", WorkChange::Opened), ["task-a/2"]);
    assert_eq!(add("task-a/1", WorkChange::Opened), ["task-a/1", "task-a/2"]);
    assert_eq!(add("task-a/2", WorkChange::Unchanged), ["task-a/1", "task-a/2"]);
    assert_eq!(add("task-a/2", WorkChange::Ended), ["task-a/1"]);
    assert_eq!(add("task-a/3", WorkChange::Ended), ["task-a/1"]);
}
