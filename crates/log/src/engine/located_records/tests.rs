//! Tests of reading a record by its slot: its position, and that every change to it is detected.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use super::*;
use crate::api::page::Page;
use crate::engine::located_records::ahead::FROM_DISK;
use crate::engine::slot::RecordSlot;
use crate::engine::value::ValueBuilder;
use crate::testing::conformance::sketch::{draft, ok};

/// A source with one value, under ordinal 0.
struct One(Vec<u8>);

impl Values for One {
    type Bytes = Vec<u8>;

    fn get(&self, ordinal: u64) -> Result<Option<Vec<u8>>, ReadError> {
        Ok((ordinal == 0).then(|| self.0.clone()))
    }

    fn get_chunk(&self, _: u64) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(None)
    }
}

/// Builds a value of three records, of one, two and one events, and returns it with their places, each reached from
/// the value's first record.
fn value() -> (One, Vec<RecordPlace>) {
    let mut builder = ValueBuilder::new();
    let places = [("task-a/0", 1), ("task-a/1", 2), ("task-a/2", 1)].map(|(stream, events)| {
        let mut draft = draft(stream, 1, b"body");
        draft.events = vec![draft.events[0].clone(); events];
        place(builder.push(&draft.encode().unwrap()))
    });
    (One(builder.finish(Position(7), false).to_vec()), places.to_vec())
}

/// A place that is reached from the first record of value 0.
fn place(offset: u16) -> RecordPlace {
    RecordPlace { slot: RecordSlot { ordinal: 0, offset }, begin: 16, events: 0 }
}

fn read(values: &One, place: RecordPlace, stream: &str) -> Result<StoredRecord, ReadError> {
    read_places(values, &ok(StreamId::parse(stream)), &[place], Page::with_limit(1))
        .map(|mut records| records.remove(0))
}

#[test]
fn a_slot_gives_the_record_and_position_that_a_walk_gives() {
    let (values, slots) = value();
    let walked: Vec<StoredRecord> = located_records(&values.0, 0)
        .unwrap()
        .map(|located| located.unwrap().stored(&values).unwrap())
        .collect();
    let names = ["task-a/0", "task-a/1", "task-a/2"];
    let read: Vec<_> = slots.iter().zip(names).map(|(slot, name)| ok(read(&values, *slot, name))).collect();
    assert_eq!(read, walked);
    assert_eq!(read.iter().map(|record| record.position.0).collect::<Vec<_>>(), [7, 8, 10]);
}

#[test]
fn a_record_is_reached_from_any_record_before_it_and_from_nowhere_else() {
    let (values, places) = value();
    let whole = ok(read(&values, places[2], "task-a/2"));
    for (begin, events) in [(0, 0), (1, 1), (2, 3)] {
        let place = RecordPlace { begin: places[begin].slot.offset, events, ..places[2] };
        assert_eq!(ok(read(&values, place, "task-a/2")), whole);
    }
    for begin in [0, 15, places[1].slot.offset - 1, places[2].slot.offset + 1, u16::MAX] {
        let error = read(&values, RecordPlace { begin, ..places[2] }, "task-a/2").unwrap_err();
        assert!(matches!(error, ReadError::Index { .. }), "{begin}: {error}");
    }
}

#[test]
fn a_slot_in_which_no_record_begins_is_an_error() {
    let (values, slots) = value();
    for offset in [0, slots[1].slot.offset - 1, slots[1].slot.offset + 1, u16::MAX] {
        assert!(read(&values, place(offset), "task-a/1").is_err(), "{offset}");
    }
    let elsewhere = RecordSlot { ordinal: 1, ..slots[0].slot };
    assert!(read(&values, RecordPlace { slot: elsewhere, ..slots[0] }, "task-a/0").is_err());
    assert!(read(&values, slots[0], "task-a/1").is_err(), "another stream's");
}

#[test]
fn every_flipped_bit_of_a_record_and_its_leaf_hash_is_noticed_by_its_slot() {
    let (mut values, slots) = value();
    let (begin, end) = (usize::from(slots[1].slot.offset), usize::from(slots[2].slot.offset));
    for bit in begin * 8..end * 8 {
        values.0[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&values, slots[1], "task-a/1").is_err(), "bit {bit}");
        values.0[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(read(&values, slots[1], "task-a/1").is_ok());
}

#[test]
fn a_header_field_that_must_be_understood_is_newer_and_not_damage() {
    use proto_events::codec::record::HeaderField;

    let mut builder = ValueBuilder::new();
    let mut draft = draft("task-a/0", 1, b"body");
    draft.fields = vec![HeaderField { tag: 0x7ffe, bytes: b"a later release".to_vec() }];
    builder.push(&draft.encode().unwrap());
    let mut value = builder.finish(Position(1), false).to_vec();
    let read = |value: &[u8]| located_records(value, 0).unwrap().next().unwrap().map(drop);
    assert_eq!(read(&value), Ok(()), "a field that may be skipped");
    let at = value.windows(2).position(|tag| tag == [0x7f, 0xfe]).unwrap();
    value[at] = 0xff;
    let checksum = crc32c::crc32c(&value[4..]).to_be_bytes();
    value[..4].copy_from_slice(&checksum);
    let error = read(&value).unwrap_err();
    assert!(matches!(error, ReadError::Newer { position: Some(Position(1)), .. }), "{error}");
}

/// A disk: the first value takes as long as one, and the others come only when all of them were asked for.
struct Disk {
    values: Vec<Vec<u8>>,
    /// Whether the first value too comes only when all were asked for.
    is_first_held: bool,
    was_asked: AtomicBool,
    asked: Mutex<usize>,
    all: Condvar,
}

impl Values for Disk {
    type Bytes = Vec<u8>;

    fn get(&self, ordinal: u64) -> Result<Option<Vec<u8>>, ReadError> {
        let value = usize::try_from(ordinal).ok().and_then(|ordinal| self.values.get(ordinal)).cloned();
        if ordinal == 0 && !self.is_first_held {
            let begin = Instant::now();
            while begin.elapsed() < 2 * FROM_DISK {
                std::hint::spin_loop();
            }
            return Ok(value);
        }
        let mut asked = self.asked.lock().unwrap();
        *asked += 1;
        self.all.notify_all();
        let is_alone = |asked: &mut usize| *asked < 3 + usize::from(self.is_first_held);
        let (_asked, waited) = self.all.wait_timeout_while(asked, Duration::from_secs(20), is_alone).unwrap();
        if waited.timed_out() { Err(ReadError::Io("read alone".to_owned())) } else { Ok(value) }
    }

    fn get_chunk(&self, _: u64) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(None)
    }

    fn disk_was_asked(&self) -> Option<&AtomicBool> {
        Some(&self.was_asked)
    }
}

/// Makes a disk with a record of one stream in each of four values, two in the first one.
fn disk(was_asked: bool) -> (Disk, Vec<RecordPlace>) {
    let (mut values, mut places, mut version) = (Vec::new(), Vec::new(), 0);
    for ordinal in 0..4 {
        let mut builder = ValueBuilder::new();
        let first = Position(version + 1);
        for _ in 0..if ordinal == 0 { 2 } else { 1 } {
            version += 1;
            let offset = builder.push(&draft("task-a/0", version, b"body").encode().unwrap());
            places.push(RecordPlace { slot: RecordSlot { ordinal, offset }, begin: 16, events: 0 });
        }
        values.push(builder.finish(first, false).to_vec());
    }
    let (asked, all) = (Mutex::new(0), Condvar::new());
    (Disk { values, is_first_held: was_asked, was_asked: AtomicBool::new(was_asked), asked, all }, places)
}

#[test]
fn values_that_the_disk_must_be_asked_for_are_read_at_once_and_come_in_order() {
    let stream = ok(StreamId::parse("task-a/0"));
    let (disk, mut places) = disk(false);
    // The records are written without a chain, which the reader of a stream does not compare.
    let read = ok(read_places(&disk, &stream, &places, Page::default()));
    assert_eq!(read.iter().map(|stored| stored.position.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    // What was read ahead and cannot be read is an error of its own record only.
    places[3].slot.ordinal = 9;
    let page = |records| read_places(&disk, &stream, &places, Page::with_limit(records));
    assert_eq!(ok(page(3)).len(), 3);
    assert!(page(4).unwrap_err().to_string().contains("value 9 is missing"));
}

#[test]
fn where_the_disk_was_asked_before_the_values_of_the_next_stream_are_read_at_once_from_the_first_on() {
    let stream = ok(StreamId::parse("task-a/0"));
    let (disk, places) = disk(true);
    let read = ok(read_places(&disk, &stream, &places, Page::default()));
    assert_eq!(read.iter().map(|stored| stored.position.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(*disk.asked.lock().unwrap(), 4, "each value is asked for once");
    // All have been asked for, so that none takes the time of a disk any more.
    while disk.was_asked.load(Ordering::Relaxed) {
        ok(read_places(&disk, &stream, &places, Page::default()));
    }
}
