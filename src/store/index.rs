//! What is known of the log without reading it: each stream's end, where its records stand, and which streams have
//! open work. A cache: it holds only what is durable, and can be rebuilt from the log. What is kept of it on disk
//! is in `runs`.
//!
//! A stream costs 24 bytes, its name and 4 to 10 bytes of hash table; a record costs 6, a value 4. So a stream of ten
//! commits costs about 95 bytes and its name. Memory grows in chunks, so that nothing is ever doubled.

#[cfg(any(test, feature = "testing"))]
mod alone;
mod chunked;
mod remembered;
mod streams;

use std::collections::HashSet;

use proto_events::id::{Digest, Position, StreamId, Version};

#[cfg(any(test, feature = "testing"))]
pub use self::alone::{IndexAlone, index_alone};
use self::chunked::Chunked;
use self::remembered::Remembered;
use self::streams::{Stream, Streams};
use super::StreamInfo;
use super::open_work::Work;
use super::runs::RunBuilder;

/// Of every so many values the first position is kept, so that a position is found with a few reads.
const LANDMARK: u64 = 16;

/// Where a record stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    /// The value's ordinal.
    pub(super) ordinal: u32,
    /// Where in the value the record begins.
    pub(super) offset: u16,
}

/// Where a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StreamEnd {
    /// Version of its last event; 0 if it is unknown.
    pub(super) version: Version,
    /// The beginning of its last record's leaf hash: enough to notice that a writer saw another log.
    pub(super) tag: u64,
}

impl StreamEnd {
    /// The end that a record makes.
    pub(super) fn of(version: Version, hash: Digest) -> Self {
        Self { version, tag: tag(hash) }
    }
}

/// The first eight bytes of a leaf hash.
pub(super) fn tag(hash: Digest) -> u64 {
    hash.0.first_chunk::<8>().map_or(0, |first| u64::from_be_bytes(*first))
}

/// What the index takes in of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entered {
    /// The stream's end with it.
    pub(super) end: StreamEnd,
    /// Where it stands.
    pub(super) slot: Slot,
    /// How many events it holds.
    pub(super) events: u16,
    /// Whether its stream has work to do behind it.
    pub(super) work: Work,
}

/// The same as the runs on disk keep it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// The number of its stream.
    pub(super) stream: u32,
    /// Where it stands.
    pub(super) slot: Slot,
    /// How many events it holds.
    pub(super) events: u16,
    /// The beginning of its leaf hash.
    pub(super) tag: u64,
    /// Whether its stream has work to do behind it.
    pub(super) work: Work,
}

/// The index.
#[derive(Debug, Default)]
pub(super) struct Index {
    streams: Streams,
    /// Of each value the number of its first record.
    values: Chunked<u32>,
    offsets: Chunked<u16>,
    previous: Chunked<u32>,
    landmarks: Vec<u64>,
    remembered: Remembered,
    /// Numbers of the streams with open work.
    open: HashSet<u32>,
    head: Position,
}

/// The chain's end: no slot has this number.
const NO_SLOT: u32 = u32::MAX;

impl Index {
    /// Position of the last event.
    pub(super) fn head(&self) -> Position {
        self.head
    }

    /// The ordinal that the next value gets.
    pub(super) fn next_ordinal(&self) -> u64 {
        self.values.len() as u64
    }

    /// How many streams there are. They are numbered in the order of their first records.
    pub(super) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// How many records there are.
    pub(super) fn records(&self) -> usize {
        self.offsets.len()
    }

    /// The name of the stream with this number.
    pub(super) fn name(&self, number: u32) -> Option<&str> {
        self.streams.name(number)
    }

    /// Whether so many more values and records can be named. Numbers of values and records have 32 bits here,
    /// which is more than memory would hold.
    pub(super) fn has_room(&self, values: usize, records: usize) -> bool {
        let values = u64::try_from(values).unwrap_or(u64::MAX);
        self.next_ordinal().saturating_add(values) < u64::from(NO_SLOT)
            && self.offsets.len().saturating_add(records) < NO_SLOT as usize
            && self.streams.has_room(records)
    }

    /// Takes in the log's next record, and the value that it is the first of. Answers its stream's number.
    fn add_record(&mut self, stream: &str, record: &Entered) -> u32 {
        let number = self.streams.upsert(stream);
        self.add_numbered(number, record);
        number
    }

    /// Takes in the log's next record, here and in what will be written of the index.
    pub(super) fn add_to_runs(&mut self, stream: &str, record: &Entered, runs: &mut RunBuilder) {
        let known = self.streams();
        let number = self.add_record(stream, record);
        let Entered { end, slot, events, work } = *record;
        let row = Row { stream: number, slot, events, tag: end.tag, work };
        runs.push(&row, (number as usize == known).then_some(stream));
    }

    /// Takes in the log's next record as it was written of the index, with its stream's name if this is the first.
    /// False if it cannot be the next.
    pub(super) fn add_row(&mut self, row: &Row, name: Option<&str>) -> bool {
        if let Some(name) = name
            && self.streams.upsert(name) != row.stream
        {
            return false;
        }
        let Some(known) = self.streams.get_mut(row.stream) else { return false };
        let end = StreamEnd { version: Version(known.end.version.0 + u64::from(row.events)), tag: row.tag };
        let ordinal = u64::from(row.slot.ordinal);
        if ordinal != self.next_ordinal() && ordinal + 1 != self.next_ordinal() {
            return false;
        }
        self.add_numbered(row.stream, &Entered { end, slot: row.slot, events: row.events, work: row.work });
        true
    }

    /// Takes in the next record of a stream whose number is known.
    fn add_numbered(&mut self, stream: u32, record: &Entered) {
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
            Work::Same => {}
            Work::Open => {
                self.open.insert(stream);
            }
            Work::None => {
                self.open.remove(&stream);
            }
        }
    }

    /// The streams with open work, in order of their names.
    pub(super) fn open_work(&self) -> Vec<StreamId> {
        let names = self.open.iter().filter_map(|number| self.name(*number));
        let mut open: Vec<_> = names.filter_map(|name| StreamId::parse(name).ok()).collect();
        open.sort();
        open
    }

    /// The ordinal of the log's last value, and where its last record stands.
    pub(super) fn last(&self) -> Option<(u64, Slot)> {
        let number = u32::try_from(self.records().checked_sub(1)?).ok()?;
        Some((self.next_ordinal() - 1, self.slot(number)?))
    }

    /// Remembers in which value an append begins.
    pub(super) fn remember(&mut self, set_id: [u8; 16], ordinal: u32) {
        self.remembered.add(set_id, ordinal);
    }

    /// The value in which an append of lately begins.
    pub(super) fn recall(&self, set_id: [u8; 16]) -> Option<u32> {
        self.remembered.find(set_id)
    }

    /// Where a stream ends.
    pub(super) fn end_of(&self, stream: &str) -> StreamEnd {
        self.streams.find(stream).map_or_else(StreamEnd::default, |known| known.end)
    }

    /// Where a stream's records stand, the oldest first.
    pub(super) fn slots_of(&self, stream: &str) -> Vec<Slot> {
        let mut slots = Vec::new();
        let mut number = self.streams.find(stream).map_or(NO_SLOT, |known: &Stream| known.last);
        while let Some(slot) = self.slot(number) {
            slots.push(slot);
            number = self.previous.get(number as usize).unwrap_or(NO_SLOT);
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

    /// The values between which the one that holds `position` is: from the first to before the second.
    pub(super) fn around(&self, position: Position) -> (u64, u64) {
        let after = self.landmarks.partition_point(|first| *first <= position.0);
        let landmark = u64::try_from(after.saturating_sub(1)).unwrap_or(u64::MAX);
        let from = landmark.saturating_mul(LANDMARK).min(self.next_ordinal());
        (from, from.saturating_add(LANDMARK).min(self.next_ordinal()))
    }

    /// Streams in order of their names.
    pub(super) fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<StreamInfo> {
        self.streams
            .list(prefix, after, limit)
            .into_iter()
            .filter_map(|(name, version)| {
                // Names come from records whose stream ids were checked when they were written or scanned.
                let stream = StreamId::parse(name).ok()?;
                Some(StreamInfo { stream, version })
            })
            .collect()
    }

    /// Bytes of memory that it takes, without the newest appends' ids.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.streams.bytes() + self.values.bytes() + self.offsets.bytes() + self.previous.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u32) -> String {
        format!("task-writer/task_20261121_{n:08x}")
    }

    fn filled(streams: u32, commits: u32) -> Index {
        let mut index = Index::default();
        for commit in 0..commits {
            for n in 0..streams {
                // About as many records to a value as a full one has.
                let ordinal = (commit * streams + n) / 100;
                let slot = Slot { ordinal, offset: u16::try_from(n % 60_000).unwrap() };
                let version = Version(u64::from(commit) + 1);
                let end = StreamEnd::of(version, Digest::of(&n.to_be_bytes()));
                index.add_record(&name(n), &Entered { end, slot, events: 1, work: Work::Same });
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
        let (end, work) = (StreamEnd::default(), Work::Same);
        index.add_record("session-a/b", &Entered { end, slot, events: 1, work });
        assert_eq!(index.list("", None, 1)[0].stream.as_str(), "session-a/b");
        assert_eq!(index.list("task-", None, usize::MAX).len(), 1_000);
        assert!(index.list("task-x", None, 9).is_empty());
    }

    #[test]
    fn a_position_lies_between_two_landmarks() {
        let mut index = Index::default();
        for ordinal in 0..100 {
            let (end, slot) = (StreamEnd::default(), Slot { ordinal, offset: 16 });
            index.add_record("task-a/b", &Entered { end, slot, events: 10, work: Work::Same });
        }
        assert_eq!(index.head(), Position(1_000));
        assert_eq!(index.around(Position(0)), (0, 16));
        assert_eq!(index.around(Position(161)), (16, 32));
        assert_eq!(index.around(Position(160)), (0, 16));
        assert_eq!(index.around(Position(u64::MAX)), (96, 100));
        assert_eq!(Index::default().around(Position(5)), (0, 0));
    }

    #[test]
    fn work_is_open_until_it_is_not() {
        let mut index = Index::default();
        let mut add = |stream: &str, work| {
            let (end, slot) = (StreamEnd::default(), Slot { ordinal: 0, offset: 16 });
            index.add_record(stream, &Entered { end, slot, events: 1, work });
            index.open_work().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(add("task-a/2", Work::Open), ["task-a/2"]);
        assert_eq!(add("task-a/1", Work::Open), ["task-a/1", "task-a/2"]);
        assert_eq!(add("task-a/2", Work::Same), ["task-a/1", "task-a/2"]);
        assert_eq!(add("task-a/2", Work::None), ["task-a/1"]);
        assert_eq!(add("task-a/3", Work::None), ["task-a/1"]);
    }
}
