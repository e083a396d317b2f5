//! What is known of the log without reading it: each stream's end and where its records stand. A cache: it is
//! rebuilt from the log on opening and holds only what is durable.
//!
//! A stream costs 24 bytes, its name and 4 to 10 bytes of hash table; a record costs 10. So a stream of ten
//! commits costs about 135 bytes and its name. Memory grows in chunks, so that nothing is ever doubled.

#[cfg(any(test, feature = "testing"))]
mod alone;
mod chunked;
mod remembered;
mod streams;

use proto_events::id::{Digest, Position, StreamId, Version};

#[cfg(any(test, feature = "testing"))]
pub use self::alone::{IndexAlone, index_alone};
use self::chunked::Chunked;
use self::remembered::Remembered;
use self::streams::{Stream, Streams};
use super::StreamInfo;

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

/// The index.
#[derive(Debug, Default)]
pub(super) struct Index {
    streams: Streams,
    ordinals: Chunked<u32>,
    offsets: Chunked<u16>,
    previous: Chunked<u32>,
    landmarks: Vec<u64>,
    remembered: Remembered,
    head: Position,
    next_ordinal: u64,
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
        self.next_ordinal
    }

    /// Whether so many more values and records can be named. Numbers of values and records have 32 bits here,
    /// which is more than memory would hold.
    pub(super) fn has_room(&self, values: usize, records: usize) -> bool {
        let values = u64::try_from(values).unwrap_or(u64::MAX);
        self.next_ordinal.saturating_add(values) < u64::from(NO_SLOT)
            && self.ordinals.len().saturating_add(records) < NO_SLOT as usize
            && self.streams.has_room(records)
    }

    /// Takes in the next value: its first position.
    pub(super) fn add_value(&mut self, first: Position) {
        if self.next_ordinal.is_multiple_of(LANDMARK) {
            self.landmarks.push(first.0);
        }
        self.next_ordinal += 1;
    }

    /// Takes in the next record of a stream.
    pub(super) fn add_record(&mut self, stream: &str, end: StreamEnd, slot: Slot, last: Position) {
        let number = u32::try_from(self.ordinals.len()).unwrap_or(NO_SLOT);
        let known = self.streams.upsert(stream);
        self.previous.push(known.last);
        known.last = number;
        known.end = end;
        self.ordinals.push(slot.ordinal);
        self.offsets.push(slot.offset);
        self.head = last;
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
        let at = number as usize;
        Some(Slot { ordinal: self.ordinals.get(at)?, offset: self.offsets.get(at)? })
    }

    /// The values between which the one that holds `position` is: from the first to before the second.
    pub(super) fn around(&self, position: Position) -> (u64, u64) {
        let after = self.landmarks.partition_point(|first| *first <= position.0);
        let landmark = u64::try_from(after.saturating_sub(1)).unwrap_or(u64::MAX);
        let from = landmark.saturating_mul(LANDMARK).min(self.next_ordinal);
        (from, from.saturating_add(LANDMARK).min(self.next_ordinal))
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
        self.streams.bytes() + self.ordinals.bytes() + self.offsets.bytes() + self.previous.bytes()
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
                let slot = Slot { ordinal: commit, offset: u16::try_from(n % 60_000).unwrap() };
                let version = Version(u64::from(commit) + 1);
                let end = StreamEnd::of(version, Digest::of(&n.to_be_bytes()));
                index.add_record(&name(n), end, slot, Position(1));
            }
        }
        index
    }

    #[test]
    fn a_streams_slots_come_oldest_first() {
        let index = filled(300, 3);
        let ordinals: Vec<u32> = index.slots_of(&name(7)).iter().map(|slot| slot.ordinal).collect();
        assert_eq!(ordinals, [0, 1, 2]);
        assert_eq!(index.end_of(&name(7)).version, Version(3));
        assert_eq!(index.end_of("task-a/unknown"), StreamEnd::default());
        assert!(index.slots_of("task-a/unknown").is_empty());
    }

    #[test]
    fn a_stream_of_ten_commits_costs_at_most_145_bytes_and_its_name() {
        let streams = 100_000;
        let index = filled(streams, 10);
        let each = index.bytes() / streams as usize;
        assert!(each <= 145 + name(0).len(), "{each} bytes");
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
        let slot = Slot { ordinal: 0, offset: 0 };
        index.add_record("session-a/b", StreamEnd::default(), slot, Position(1));
        assert_eq!(index.list("", None, 1)[0].stream.as_str(), "session-a/b");
        assert_eq!(index.list("task-", None, usize::MAX).len(), 1_000);
        assert!(index.list("task-x", None, 9).is_empty());
    }

    #[test]
    fn a_position_lies_between_two_landmarks() {
        let mut index = Index::default();
        for value in 0..100 {
            index.add_value(Position(value * 10 + 1));
        }
        assert_eq!(index.around(Position(0)), (0, 16));
        assert_eq!(index.around(Position(161)), (16, 32));
        assert_eq!(index.around(Position(160)), (0, 16));
        assert_eq!(index.around(Position(u64::MAX)), (96, 100));
        assert_eq!(Index::default().around(Position(5)), (0, 0));
    }
}
