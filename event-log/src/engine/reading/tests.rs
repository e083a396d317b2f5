//! Tests of reading a record by its slot: its position, and that every change to it is detected.

use super::*;
use crate::api::reader::Page;
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

/// Builds a value of three records, of one, two and one events, and returns it with their slots.
fn value() -> (One, Vec<Slot>) {
    let mut builder = ValueBuilder::new();
    let slots = [("task-a/0", 1), ("task-a/1", 2), ("task-a/2", 1)].map(|(stream, events)| {
        let mut draft = draft(stream, 1, b"body");
        draft.events = vec![draft.events[0].clone(); events];
        Slot { ordinal: 0, offset: builder.push(&draft.encode().unwrap()) }
    });
    (One(builder.finish(Position(7), false).to_vec()), slots.to_vec())
}

fn read(values: &One, slot: Slot, stream: &str) -> Result<StoredRecord, ReadError> {
    read_slots(values, &ok(StreamId::parse(stream)), &[slot], Page::of(1))
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
fn a_slot_in_which_no_record_begins_is_an_error() {
    let (values, slots) = value();
    for offset in [0, slots[1].offset - 1, slots[1].offset + 1, u16::MAX] {
        let slot = Slot { ordinal: 0, offset };
        assert!(read(&values, slot, "task-a/1").is_err(), "{offset}");
    }
    assert!(read(&values, Slot { ordinal: 1, offset: slots[0].offset }, "task-a/0").is_err());
    assert!(read(&values, slots[0], "task-a/1").is_err(), "another stream's");
}

#[test]
fn every_flipped_bit_of_a_record_and_its_leaf_hash_is_noticed_by_its_slot() {
    let (mut values, slots) = value();
    let (begin, end) = (usize::from(slots[1].offset), usize::from(slots[2].offset));
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
