//! The index of the log in memory: the end of each stream, the slots of its records, and the streams with
//! open work. It is a cache: it holds durable records only, and can be rebuilt from the log. Its form on disk
//! is in `blocks`.
//!
//! A stream costs 24 bytes, its name and 4 to 10 bytes of hash table; a record costs 6, a value 4. So a
//! stream of ten records costs about 95 bytes and its name. Memory grows in chunks, so that no allocation is
//! ever doubled.

#[cfg(any(test, feature = "testing"))]
pub(crate) mod alone;
pub(crate) mod chunked;
pub(crate) mod compare;
pub(crate) mod load;
pub(crate) mod remembered;
pub(crate) mod streams;
pub(crate) mod walk;

use std::collections::HashSet;

use proto_events::id::{Position, StreamId, Version};

use crate::api::open_work::WorkChange;
use crate::api::record::StreamInfo;
use crate::engine::blocks::BlockBuilder;
use crate::engine::index::chunked::Chunked;
use crate::engine::index::remembered::Remembered;
use crate::engine::index::streams::{Stream, Streams};
use crate::engine::slot::{BlockRecord, IndexedRecord, NO_SLOT, Slot, StreamEnd};
use crate::engine::value::HEADER_BYTES;

/// Number of values between two whose first position is kept, so that a position is found with a few reads.
const LANDMARK: u64 = 16;

/// The index.
#[derive(Debug, Default)]
pub(crate) struct Index {
    streams: Streams,
    /// The number of each value's first record.
    values: Chunked<u32>,
    offsets: Chunked<u16>,
    previous: Chunked<u32>,
    landmarks: Vec<u64>,
    remembered: Remembered,
    /// Numbers of the streams with open work.
    open: HashSet<u32>,
    head: Position,
}

impl Index {
    /// Returns the position of the last event.
    pub(crate) fn head(&self) -> Position {
        self.head
    }

    /// Returns the ordinal that the next value gets.
    pub(crate) fn next_ordinal(&self) -> u64 {
        self.values.len() as u64
    }

    /// Returns the number of streams. They are numbered in the order of their first records.
    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns the number of records.
    pub(crate) fn records(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the name of the stream with this number.
    pub(crate) fn name(&self, number: u32) -> Option<&str> {
        self.streams.name(number)
    }

    /// Whether this number of further values and records can be indexed. Their numbers have 32 bits, which is
    /// more than memory can hold.
    pub(crate) fn has_room(&self, values: usize, records: usize) -> bool {
        let values = u64::try_from(values).unwrap_or(u64::MAX);
        self.next_ordinal().saturating_add(values) < u64::from(NO_SLOT)
            && self.offsets.len().saturating_add(records) < NO_SLOT as usize
            && self.streams.has_room(records)
    }

    /// Enters the log's next record, and the value if the record is its first. Returns the number of the
    /// stream.
    fn add_record(&mut self, stream: &str, record: &IndexedRecord) -> u32 {
        let number = self.streams.upsert(stream);
        self.add_numbered(number, record);
        number
    }

    /// Enters the log's next record, here and in the sorted blocks to be written to disk.
    pub(crate) fn add_to_blocks(&mut self, stream: &str, record: &IndexedRecord, blocks: &mut BlockBuilder) {
        let known = self.streams();
        let number = self.add_record(stream, record);
        let IndexedRecord { end, slot, events, work } = *record;
        let entry = BlockRecord { stream: number, slot, events, tag: end.tag, work };
        blocks.push(&entry, (number as usize == known).then_some(stream));
    }

    /// Enters the log's next record from the index on disk, with its stream's name if this is the stream's
    /// first record. Returns false if the record cannot be the next.
    pub(crate) fn add_block_record(&mut self, record: &BlockRecord, name: Option<&str>) -> bool {
        if let Some(name) = name
            && self.streams.upsert(name) != record.stream
        {
            return false;
        }
        let Some(known) = self.streams.get_mut(record.stream) else { return false };
        let end =
            StreamEnd { version: Version(known.end.version.0 + u64::from(record.events)), tag: record.tag };
        let ordinal = u64::from(record.slot.ordinal);
        if ordinal != self.next_ordinal() && ordinal + 1 != self.next_ordinal() {
            return false;
        }
        // The records of a value follow one another.
        let is_first = ordinal == self.next_ordinal();
        let before = self.offsets.len().checked_sub(1).filter(|_| !is_first);
        let follows = match before.and_then(|last| self.offsets.get(last)) {
            Some(before) => record.slot.offset > before,
            None => usize::from(record.slot.offset) == HEADER_BYTES,
        };
        if !follows {
            return false;
        }
        self.add_numbered(
            record.stream,
            &IndexedRecord { end, slot: record.slot, events: record.events, work: record.work },
        );
        true
    }

    /// Enters the next record of a stream whose number is known.
    fn add_numbered(&mut self, stream: u32, record: &IndexedRecord) {
        let number = u32::try_from(self.offsets.len()).unwrap_or(NO_SLOT);
        if u64::from(record.slot.ordinal) >= self.next_ordinal() {
            if self.next_ordinal().is_multiple_of(LANDMARK) {
                self.landmarks.push(self.head.0 + 1);
            }
            self.values.push(number);
        }
        let Some(known) = self.streams.get_mut(stream) else { return };
        self.previous.push(known.last);
        known.last = number;
        known.end = record.end;
        self.offsets.push(record.slot.offset);
        self.head.0 += u64::from(record.events);
        match record.work {
            WorkChange::Unchanged => {}
            WorkChange::Opened => {
                self.open.insert(stream);
            }
            WorkChange::Ended => {
                self.open.remove(&stream);
            }
        }
    }

    /// Returns the streams with open work, in order of their names.
    pub(crate) fn open_work(&self) -> Vec<StreamId> {
        let names = self.open.iter().filter_map(|number| self.name(*number));
        let mut open: Vec<_> = names.filter_map(|name| StreamId::parse(name).ok()).collect();
        open.sort();
        open
    }

    /// Returns the ordinal of the log's last value, and the slot of its last record.
    pub(crate) fn last(&self) -> Option<(u64, Slot)> {
        let number = u32::try_from(self.records().checked_sub(1)?).ok()?;
        Some((self.next_ordinal() - 1, self.slot(number)?))
    }

    /// Remembers the value in which an append begins.
    pub(crate) fn remember(&mut self, set_id: [u8; 16], ordinal: u32) {
        self.remembered.add(set_id, ordinal);
    }

    /// Returns the value in which a recent append begins.
    pub(crate) fn recall(&self, set_id: [u8; 16]) -> Option<u32> {
        self.remembered.find(set_id)
    }

    /// Returns the end of a stream.
    pub(crate) fn end_of(&self, stream: &str) -> StreamEnd {
        self.streams.find(stream).map_or_else(StreamEnd::default, |known| known.end)
    }

    /// Returns the number of a stream's newest record.
    pub(crate) fn newest_of(&self, stream: &str) -> Option<u32> {
        self.streams.find(stream).map(|known: &Stream| known.last)
    }

    /// Adds the slots of a stream's records, from this one backwards: `most` of them at most, and not the one
    /// with the number `until` or those before it. Returns the number to continue with, if any is left.
    pub(crate) fn walk_back(
        &self,
        from: u32,
        until: Option<u32>,
        most: usize,
        slots: &mut Vec<Slot>,
    ) -> Option<u32> {
        let mut number = from;
        for _ in 0..most {
            if Some(number) == until {
                return None;
            }
            slots.push(self.slot(number)?);
            number = self.previous.get(number as usize)?;
        }
        Some(number).filter(|number| *number != NO_SLOT && Some(*number) != until)
    }

    /// Returns the slots of a stream's records, the oldest first.
    #[cfg(any(test, shuttle))]
    pub(crate) fn slots_of(&self, stream: &str) -> Vec<Slot> {
        let mut slots = Vec::new();
        if let Some(newest) = self.newest_of(stream) {
            self.walk_back(newest, None, usize::MAX, &mut slots);
        }
        slots.reverse();
        slots
    }

    fn slot(&self, number: u32) -> Option<Slot> {
        let offset = self.offsets.get(number as usize)?;
        let (mut low, mut high) = (0, self.values.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.values.get(middle)? <= number {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(Slot { ordinal: u32::try_from(low.checked_sub(1)?).ok()?, offset })
    }

    /// Returns the range of values that contains the one with `position`: from the first to before the
    /// second.
    pub(crate) fn value_range_for(&self, position: Position) -> (u64, u64) {
        let after = self.landmarks.partition_point(|first| *first <= position.0);
        let landmark = u64::try_from(after.saturating_sub(1)).unwrap_or(u64::MAX);
        let from = landmark.saturating_mul(LANDMARK).min(self.next_ordinal());
        (from, from.saturating_add(LANDMARK).min(self.next_ordinal()))
    }

    /// Returns the streams in order of their names.
    pub(crate) fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<StreamInfo> {
        self.streams
            .list(prefix, after, limit)
            .into_iter()
            .filter_map(|(name, version)| {
                // Names come from records; their stream ids were checked when they were written or scanned.
                let stream = StreamId::parse(name).ok()?;
                Some(StreamInfo { stream, version })
            })
            .collect()
    }

    /// Returns the bytes of memory used, without the remembered set ids.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.streams.bytes() + self.values.bytes() + self.offsets.bytes() + self.previous.bytes()
    }
}

#[cfg(test)]
mod tests {
    use proto_events::id::Digest;

    use super::*;

    fn name(n: u32) -> String {
        format!("task-writer/task_20261121_{n:08x}")
    }

    fn filled(streams: u32, commits: u32) -> Index {
        let mut index = Index::default();
        for commit in 0..commits {
            for n in 0..streams {
                // About as many records as a full value has.
                let ordinal = (commit * streams + n) / 100;
                let slot = Slot { ordinal, offset: u16::try_from(n % 60_000).unwrap() };
                let version = Version(u64::from(commit) + 1);
                let end = StreamEnd::of(version, Digest::of(&n.to_be_bytes()));
                index.add_record(
                    &name(n),
                    &IndexedRecord { end, slot, events: 1, work: WorkChange::Unchanged },
                );
            }
        }
        index
    }

    #[test]
    fn a_streams_slots_come_oldest_first() {
        let index = filled(300, 3);
        let ordinals: Vec<u32> = index.slots_of(&name(7)).iter().map(|slot| slot.ordinal).collect();
        assert_eq!(ordinals, [0, 3, 6]);
        let slots = index.slots_of(&name(299));
        assert_eq!(slots.last(), Some(&Slot { ordinal: 8, offset: 299 }));
        assert_eq!(index.end_of(&name(7)).version, Version(3));
        assert_eq!(index.end_of("task-a/unknown"), StreamEnd::default());
        assert!(index.slots_of("task-a/unknown").is_empty());
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
        let mut index = filled(1_000, 1);
        let mut all = Vec::new();
        loop {
            let after: Option<StreamId> = all.last().cloned();
            let page = index.list("task-", after.as_ref().map(StreamId::as_str), 99);
            if page.is_empty() {
                break;
            }
            all.extend(page.into_iter().map(|info| info.stream));
        }
        assert!(all.is_sorted() && all.len() == 1_000);
        let slot = Slot { ordinal: 10, offset: 0 };
        let (end, work) = (StreamEnd::default(), WorkChange::Unchanged);
        index.add_record("session-a/b", &IndexedRecord { end, slot, events: 1, work });
        assert_eq!(index.list("", None, 1)[0].stream.as_str(), "session-a/b");
        assert_eq!(index.list("task-", None, usize::MAX).len(), 1_000);
        assert!(index.list("task-x", None, 9).is_empty());
    }

    #[test]
    fn a_position_lies_between_two_landmarks() {
        let mut index = Index::default();
        for ordinal in 0..100 {
            let (end, slot) = (StreamEnd::default(), Slot { ordinal, offset: 16 });
            index.add_record(
                "task-a/b",
                &IndexedRecord { end, slot, events: 10, work: WorkChange::Unchanged },
            );
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
            let (end, slot) = (StreamEnd::default(), Slot { ordinal: 0, offset: 16 });
            index.add_record(stream, &IndexedRecord { end, slot, events: 1, work });
            index.open_work().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(add("task-a/2", WorkChange::Opened), ["task-a/2"]);
        assert_eq!(add("task-a/1", WorkChange::Opened), ["task-a/1", "task-a/2"]);
        assert_eq!(add("task-a/2", WorkChange::Unchanged), ["task-a/1", "task-a/2"]);
        assert_eq!(add("task-a/2", WorkChange::Ended), ["task-a/1"]);
        assert_eq!(add("task-a/3", WorkChange::Ended), ["task-a/1"]);
    }
}
