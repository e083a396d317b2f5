//! The index of the log in memory: the end of each stream, the slots of its records, and the streams with
//! open work. It is a cache: it holds durable records only, and can be rebuilt from the log. Its form on disk
//! is in `blocks`.
//!
//! A stream costs 24 bytes, its name and 6 to 13 bytes of hash table; a record costs 6, every sixteenth 2 more, a
//! value 4. So a stream of ten records costs about 97 bytes and its name. Memory grows in chunks, so that no
//! allocation is ever doubled.

#[cfg(any(test, feature = "testing"))]
pub(crate) mod alone;
pub(crate) mod arena;
pub(crate) mod chunked_vec;
pub(crate) mod compare;
pub(crate) mod image;
pub(crate) mod load;
pub(crate) mod recent_appends;
pub(crate) mod stream_listing;
pub(crate) mod streams;
#[cfg(test)]
mod tests;
pub(crate) mod walk;

use std::collections::BTreeSet;
use std::hash::RandomState;

use proto_events::id::{Position, Version};

use crate::api::open_work::WorkChange;
use crate::engine::blocks::BlockBuilder;
use crate::engine::index::arena::Arena;
use crate::engine::index::chunked_vec::ChunkedVec;
use crate::engine::index::recent_appends::RecentAppends;
use crate::engine::index::streams::{Stream, StreamTable};
use crate::engine::slot::{BlockRecord, IndexedRecord, NO_SLOT, RecordPlace, RecordSlot, StreamEnd};
use crate::engine::value::HEADER_BYTES;

/// Number of values between two whose first position is kept, so that a position is found with a few reads.
const LANDMARK: u64 = 16;

/// Number of records between two whose positions in their values are kept, so that a record is reached with a few
/// steps through its value: each step is a miss of the processor's cache.
const MARK: usize = 16;

/// The index.
#[derive(Debug, Default)]
pub(crate) struct Index {
    streams: StreamTable,
    /// The number of each value's first record.
    values: ChunkedVec<u32>,
    offsets: ChunkedVec<u16>,
    previous: ChunkedVec<u32>,
    /// For every sixteenth record the number of events before it in its value.
    marks: ChunkedVec<u16>,
    /// The position before the first event of the last value.
    before_value: u64,
    landmarks: Vec<u64>,
    remembered: RecentAppends,
    /// Numbers of the streams with open work, in order, so that they can be read in pieces.
    open: BTreeSet<u32>,
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
        if let Some(number) = self.number_of(stream) {
            self.add_numbered_to_blocks(number, record, blocks);
        } else {
            let number = self.add_record(stream, record);
            blocks.push(&of_block(number, record), Some(stream));
        }
    }

    /// Enters the next record of a stream whose number is known, here and in the sorted blocks.
    pub(crate) fn add_numbered_to_blocks(
        &mut self,
        number: u32,
        record: &IndexedRecord,
        blocks: &mut BlockBuilder,
    ) {
        self.add_numbered(number, record);
        blocks.push(&of_block(number, record), None);
    }

    /// Creates an index whose names are hashed in the same way as in the index that loads it.
    pub(crate) fn hashed_by(hasher: RandomState) -> Self {
        Self { streams: StreamTable::hashed_by(hasher), ..Self::default() }
    }

    /// Adds a stream from the index on disk, unless it is known, and returns its number.
    pub(crate) fn add_stream(&mut self, name: &str) -> u32 {
        self.streams.upsert(name)
    }

    /// Adds a stream from the index on disk. It is found by its name after [`Index::find_streams_by`].
    pub(crate) fn begin_stream(&mut self, name: &str) {
        self.streams.begin(name);
    }

    /// Makes all streams findable by the hashes of their names. Returns false if two have the same name.
    pub(crate) fn find_streams_by(&mut self, hashes: &[u64]) -> bool {
        self.streams.build_table(hashes)
    }

    /// Enters the log's next record from the index on disk. Returns false if the record cannot be the next.
    pub(crate) fn add_block_record(&mut self, record: &BlockRecord) -> bool {
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
            self.before_value = self.head.0;
        }
        let Some(known) = self.streams.get_mut(stream) else { return };
        self.previous.push(known.last);
        known.last = number;
        known.end = record.end;
        if self.offsets.len().is_multiple_of(MARK) {
            // A value of 60 KiB has at most 1,800 events, since each has a digest in its record's header.
            self.marks.push(u16::try_from(self.head.0 - self.before_value).unwrap_or(u16::MAX));
        }
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

    /// Adds the numbers and names of at most `most` streams with open work, from the one with number `from` on.
    pub(crate) fn add_open(&self, from: u32, most: usize, open: &mut Vec<(u32, String)>) {
        let named = |number: &u32| Some((*number, self.name(*number)?.to_owned()));
        open.extend(self.open.range(from..).take(most).filter_map(named));
    }

    /// Copies the names of at most `most` streams from the one with number `from` on, and adds their numbers and places.
    pub(crate) fn copy_names(&self, from: u32, most: usize, names: &mut Arena, places: &mut Vec<(u32, u32)>) {
        self.streams.copy_names(from, most, names, places);
    }

    /// Returns the ordinal of the log's last value, and the slot of its last record.
    pub(crate) fn last(&self) -> Option<(u64, RecordSlot)> {
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

    /// Returns the number of the stream with this name.
    pub(crate) fn number_of(&self, stream: &str) -> Option<u32> {
        self.streams.number(stream)
    }

    /// Returns the numbers of the streams with these names, of those that are known, sooner than one by one.
    pub(crate) fn numbers_of<'a>(&self, streams: impl Iterator<Item = &'a str> + Clone) -> Vec<Option<u32>> {
        self.streams.numbers(streams)
    }

    /// Returns the end of the stream with this number.
    pub(crate) fn end_of_number(&self, number: u32) -> StreamEnd {
        self.streams.get(number).map_or_else(StreamEnd::default, |known| known.end)
    }

    /// Returns the number of a stream's newest record.
    pub(crate) fn newest_of(&self, stream: &str) -> Option<u32> {
        self.streams.find(stream).map(|known: &Stream| known.last)
    }

    /// Returns the number of the newest record of the stream with this number.
    pub(crate) fn newest_of_number(&self, number: u32) -> Option<u32> {
        self.streams.get(number).map(|known| known.last).filter(|last| *last != NO_SLOT)
    }

    /// Adds the places of a stream's records, from this one backwards: `most` of them at most, and not the one
    /// with the number `until` or those before it. Returns the number to continue with, if any is left.
    pub(crate) fn walk_back(
        &self,
        from: u32,
        until: Option<u32>,
        most: usize,
        places: &mut Vec<RecordPlace>,
    ) -> Option<u32> {
        let mut number = from;
        for _ in 0..most {
            if Some(number) == until {
                return None;
            }
            places.push(self.place(number)?);
            number = self.previous.get(number as usize)?;
        }
        Some(number).filter(|number| *number != NO_SLOT && Some(*number) != until)
    }

    /// Returns the places of a stream's records, the oldest first.
    #[cfg(any(test, shuttle))]
    pub(crate) fn places_of(&self, stream: &str) -> Vec<RecordPlace> {
        let mut places = Vec::new();
        if let Some(newest) = self.newest_of(stream) {
            self.walk_back(newest, None, usize::MAX, &mut places);
        }
        places.reverse();
        places
    }

    fn slot(&self, number: u32) -> Option<RecordSlot> {
        self.place(number).map(|place| place.slot)
    }

    fn place(&self, number: u32) -> Option<RecordPlace> {
        self.streams.touch();
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
        let value = low.checked_sub(1)?;
        let slot = RecordSlot { ordinal: u32::try_from(value).ok()?, offset };
        let marked = number as usize / MARK * MARK;
        let (begin, events) = if marked >= self.values.get(value)? as usize {
            (self.offsets.get(marked)?, self.marks.get(marked / MARK)?)
        } else {
            (u16::try_from(HEADER_BYTES).ok()?, 0)
        };
        Some(RecordPlace { slot, begin, events })
    }

    /// Returns the range of values that contains the one with `position`: from the first to before the
    /// second.
    pub(crate) fn value_range_for(&self, position: Position) -> (u64, u64) {
        let after = self.landmarks.partition_point(|first| *first <= position.0);
        let landmark = u64::try_from(after.saturating_sub(1)).unwrap_or(u64::MAX);
        let from = landmark.saturating_mul(LANDMARK).min(self.next_ordinal());
        (from, from.saturating_add(LANDMARK).min(self.next_ordinal()))
    }

    /// Returns the bytes of memory used, without the remembered set ids.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.streams.bytes()
            + self.values.bytes()
            + self.offsets.bytes()
            + self.previous.bytes()
            + self.marks.bytes()
    }
}

/// Returns a record's data as the index on disk keeps it.
fn of_block(stream: u32, record: &IndexedRecord) -> BlockRecord {
    let IndexedRecord { end, slot, events, work } = *record;
    BlockRecord { stream, slot, events, tag: end.tag, work }
}
