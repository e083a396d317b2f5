//! The image of the index: all of it as it was when the log was closed, in one file beside the database. Its columns are
//! those of the index in memory, so that an opening copies them instead of entering a million records one by one. It is a
//! cache of a cache: without it the sorted blocks are loaded.
//!
//! The file `index`, integers little-endian, since columns are copied as they are on most machines:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | CRC32C of all that follows |
//! | 20 | `taskreel index img 1` |
//! | 16 | id of the log |
//! | 4 + n | a watermark, as text: the end of the log, and the sorted blocks that were finished |
//! | 8 each | first record of the block that was being built; streams before that record; bytes of that block; streams; streams with open work; bytes of all names; position before the last value |
//! | n | the block that was being built |
//! | 4 each | the number of each value's first record |
//! | 8 each | the first position of every sixteenth value |
//! | 2 each | the offset of each record in its value |
//! | 4 each | the number of the record before it in its stream |
//! | 2 each | of every sixteenth record, the number of events before it in its value |
//! | 4 each | the numbers of the streams with open work, ascending |
//! | 8, 8, 4, 2 each | of each stream its version; the tag of its last record; that record's number; the length of its name |
//! | n | the names, one after another |

use std::hash::RandomState;

use proto_events::id::{LogId, Version};

use crate::engine::blocks::{BlockBuilder, OpenBlock, Watermark};
use crate::engine::head::Head;
use crate::engine::index::chunked::Chunked;
use crate::engine::index::{Index, LANDMARK, MARK};
use crate::engine::slot::StreamEnd;

/// The beginning of an image, after its checksum.
const TITLE: &[u8; 20] = b"taskreel index img 1";

/// The number of counts between watermark and columns.
const COUNTS: usize = 7;

/// The records without an image for which one is worth its file: fewer are loaded from blocks in about a millisecond.
const RECORDS_MIN: u64 = 16 * 1024;

/// The part of the covered records by which an index grows before its image is replaced: so each record is written about
/// four times in all, however long the log gets.
const SHARE: u64 = 4;

/// An index that was read from its image.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) index: Index,
    /// The end of the index: of all records, those in no finished block included.
    pub(crate) mark: Watermark,
    pub(crate) block: OpenBlock,
}

/// Whether an image of this index is worth writing: `covered` records are in the one that exists.
pub(crate) fn is_due(index: &Index, covered: u64) -> bool {
    let records = index.records() as u64;
    records.saturating_sub(covered) >= (covered / SHARE).max(RECORDS_MIN)
}

/// Returns the image of an index whose records end at `head`, all of them handed to this builder of its blocks.
pub(crate) fn encode(log: LogId, index: &Index, blocks: &BlockBuilder, head: Head) -> Vec<u8> {
    let mark = blocks.watermark(index.next_ordinal(), head).to_text();
    let block = blocks.open_block();
    let name_bytes: usize = index.streams.iter().map(|stream| name(index, &stream).len()).sum();
    let counts: [u64; COUNTS] = [
        block.first_record,
        block.first_stream,
        block.bytes.len() as u64,
        index.streams() as u64,
        index.open.len() as u64,
        name_bytes as u64,
        index.before_value,
    ];
    let mut out = Vec::with_capacity(256 + index.records() * 7 + index.streams() * 24 + name_bytes);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(TITLE);
    out.extend_from_slice(&log.0);
    out.extend_from_slice(&u32::try_from(mark.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(mark.as_bytes());
    out.extend(counts.into_iter().flat_map(u64::to_le_bytes));
    out.extend_from_slice(block.bytes);
    out.extend(index.values.iter().flat_map(u32::to_le_bytes));
    out.extend(index.landmarks.iter().copied().flat_map(u64::to_le_bytes));
    out.extend(index.offsets.iter().flat_map(u16::to_le_bytes));
    out.extend(index.previous.iter().flat_map(u32::to_le_bytes));
    out.extend(index.marks.iter().flat_map(u16::to_le_bytes));
    out.extend(index.open.iter().copied().flat_map(u32::to_le_bytes));
    out.extend(index.streams.iter().flat_map(|stream| stream.end.version.0.to_le_bytes()));
    out.extend(index.streams.iter().flat_map(|stream| stream.end.tag.to_le_bytes()));
    out.extend(index.streams.iter().flat_map(|stream| stream.last.to_le_bytes()));
    let length = |text: &str| u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend(index.streams.iter().flat_map(|stream| length(name(index, &stream)).to_le_bytes()));
    index.streams.iter().for_each(|stream| out.extend_from_slice(name(index, &stream).as_bytes()));
    let crc = crc32c::crc32c(out.get(4..).unwrap_or_default());
    if let Some(checksum) = out.first_chunk_mut::<4>() {
        *checksum = crc.to_le_bytes();
    }
    out
}

fn name<'a>(index: &'a Index, stream: &crate::engine::index::streams::Stream) -> &'a str {
    index.streams.name_of(stream).unwrap_or_default()
}

/// Reads an image of the index of this log. Nothing of it is believed that would let a reader run in circles.
///
/// # Errors
/// A text, if it is not what was written, or is that of another log.
pub(crate) fn decode(log: LogId, bytes: &[u8]) -> Result<Image, String> {
    let (crc, rest) = bytes.split_first_chunk::<4>().ok_or("it is too short")?;
    if u32::from_le_bytes(*crc) != crc32c::crc32c(rest) {
        return Err("its checksum is wrong".to_owned());
    }
    let mut rest = Rest(rest);
    if rest.take(TITLE.len()) != Some(TITLE) || rest.take(log.0.len()) != Some(&log.0[..]) {
        return Err("it has another form, or is that of another log".to_owned());
    }
    decode_body(rest).ok_or_else(|| "it contradicts itself".to_owned())
}

fn decode_body(mut rest: Rest<'_>) -> Option<Image> {
    let length = u32::from_le_bytes(*rest.take(4)?.first_chunk()?);
    let mark = Watermark::parse(std::str::from_utf8(rest.take(length as usize)?).ok()?)?;
    let mut counts = rest.column(COUNTS, u64::from_le_bytes)?;
    let [first_record, first_stream, block_bytes, streams, open, name_bytes, before_value] =
        std::array::from_fn(|_| counts.next().unwrap_or_default());
    let count = |count: u64| usize::try_from(count).ok();
    let (values, records) = (count(mark.values)?, count(mark.head.frontier.size())?);
    let block = OpenBlock { bytes: rest.take(count(block_bytes)?)?.to_vec(), first_record, first_stream };
    let of_records = Columns {
        values: rest.take(values.checked_mul(4)?)?,
        landmarks: rest.take(values.div_ceil(usize::try_from(LANDMARK).ok()?).checked_mul(8)?)?,
        offsets: rest.take(records.checked_mul(2)?)?,
        previous: rest.take(records.checked_mul(4)?)?,
        marks: rest.take(records.div_ceil(MARK).checked_mul(2)?)?,
    };
    let open = rest.column(count(open)?, u32::from_le_bytes)?;
    let streams = count(streams)?;
    let versions = rest.column(streams, u64::from_le_bytes)?;
    let tags = rest.column(streams, u64::from_le_bytes)?;
    let last = rest.column(streams, u32::from_le_bytes)?;
    let lengths = rest.column(streams, u16::from_le_bytes)?;
    let mut names = std::str::from_utf8(rest.take(count(name_bytes)?)?).ok().filter(|_| rest.0.is_empty())?;
    let mut index = Index::hashed_by(RandomState::new());
    let (mut hashes, mut events) = (Vec::with_capacity(streams), 0_u64);
    // One thread takes the columns of the records, the other those of the streams, whose names it hashes.
    let records_index = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("taskreel-fetch".to_owned());
        let helper = thread.spawn_scoped(scope, || of_records.index());
        for (((version, tag), last), length) in versions.zip(tags).zip(last).zip(lengths) {
            let (name, after) = names.split_at_checked(length.into())?;
            names = after;
            events = events.checked_add(version)?;
            hashes.push(index.streams.hash(name));
            index.streams.add(name, StreamEnd { version: Version(version), tag }, last);
            ((last as usize) < records).then_some(())?;
        }
        let is_sound = names.is_empty() && index.find_streams_by(&hashes);
        let found = helper.map_or_else(|_| of_records.index(), |helper| helper.join().ok().flatten());
        found.filter(|_| is_sound)
    })?;
    let Index { values, landmarks, offsets, previous, marks, .. } = records_index;
    index = Index { values, offsets, previous, marks, before_value, landmarks, ..index };
    index.head = mark.head.position;
    index.open = open.collect();
    let known = |number: &u32| (*number as usize) < streams;
    let is_sound = events == index.head.0
        && index.open.iter().all(known)
        && before_value <= events
        && first_record <= records as u64
        && first_stream <= streams as u64;
    is_sound.then_some(Image { index, mark, block })
}

/// The columns of the records, as they are in the file.
struct Columns<'a> {
    values: &'a [u8],
    landmarks: &'a [u8],
    offsets: &'a [u8],
    previous: &'a [u8],
    marks: &'a [u8],
}

impl Columns<'_> {
    /// Returns an index of the records alone.
    fn index(&self) -> Option<Index> {
        let records = self.offsets.len() / 2;
        // The number that no record has, which ends a chain, wraps to 0.
        let is_before = |(number, previous): (u32, u32)| previous.wrapping_add(1) <= number;
        // Without an early end, so that many are compared at once.
        let links = (0..).zip(column(self.previous, u32::from_le_bytes));
        let links_back = links.fold(true, |all, link| all & is_before(link));
        let values = || column(self.values, u32::from_le_bytes);
        let landmarks: Vec<u64> = column(self.landmarks, u64::from_le_bytes).collect();
        let ascends = values().is_sorted() && landmarks.is_sorted();
        let is_within = values().last().is_none_or(|last| (last as usize) < records);
        (links_back && ascends && is_within).then(|| Index {
            values: Chunked::of_bytes(self.values, u32::from_le_bytes),
            landmarks,
            offsets: Chunked::of_bytes(self.offsets, u16::from_le_bytes),
            previous: Chunked::of_bytes(self.previous, u32::from_le_bytes),
            marks: Chunked::of_bytes(self.marks, u16::from_le_bytes),
            ..Index::default()
        })
    }
}

/// The part of a file that was not taken yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn column<const N: usize, T: 'a>(
        &mut self,
        count: usize,
        item: fn([u8; N]) -> T,
    ) -> Option<impl Iterator<Item = T> + use<'a, N, T>> {
        Some(column(self.take(count.checked_mul(N)?)?, item))
    }
}

fn column<'a, const N: usize, T: 'a>(
    bytes: &'a [u8],
    item: fn([u8; N]) -> T,
) -> impl Iterator<Item = T> + use<'a, N, T> {
    bytes.as_chunks::<N>().0.iter().map(move |bytes| item(*bytes))
}

#[cfg(test)]
mod tests {
    use proto_events::id::{Digest, Position};

    use super::*;
    use crate::api::open_work::WorkChange;
    use crate::engine::index::listing::open_work;
    use crate::engine::index::load::{Parser, enter_after_image};
    use crate::engine::slot::{BlockRecord, IndexedRecord, Slot};

    const LOG: LogId = LogId([7; 16]);

    /// An index, the builder of its blocks, and the end of its log.
    #[derive(Default)]
    struct Log {
        index: Index,
        blocks: Option<BlockBuilder>,
        head: Head,
        finished: Vec<(u64, Vec<u8>)>,
    }

    impl Log {
        /// Adds records in groups of fifty to a value.
        fn grow(&mut self, to: u32) {
            let blocks = self.blocks.get_or_insert_with(|| BlockBuilder::from_zero(3));
            for n in u32::try_from(self.index.records()).unwrap()..to {
                let name = format!("task-a/{}", u64::from(n) * u64::from(n) % 4_999);
                let version = Version(self.index.end_of(&name).version.0 + u64::from(n % 5) + 1);
                let slot = Slot { ordinal: n / 50, offset: u16::try_from(n % 50 * 1_000 + 16).unwrap() };
                let work = [WorkChange::Unchanged, WorkChange::Opened, WorkChange::Ended][n as usize % 3];
                let (hash, events) = (Digest::of(&n.to_be_bytes()), u16::try_from(n % 5 + 1).unwrap());
                let end = StreamEnd::of(version, hash);
                self.index.add_to_blocks(&name, &IndexedRecord { end, slot, events, work }, blocks);
                self.head.frontier.push(hash);
                self.head.position = self.index.head();
                if n % 50 == 49 {
                    blocks.end_group(self.index.next_ordinal(), || self.head.clone());
                }
            }
            self.finished.append(&mut blocks.take_finished());
        }

        fn image(&self) -> Vec<u8> {
            encode(LOG, &self.index, self.blocks.as_ref().unwrap(), self.head.clone())
        }
    }

    fn grown(records: u32) -> Log {
        let mut log = Log::default();
        log.grow(records);
        log
    }

    fn assert_same(one: &Index, other: &Index) {
        assert_eq!(
            (one.records(), one.streams(), one.head()),
            (other.records(), other.streams(), other.head())
        );
        assert_eq!((one.next_ordinal(), one.last()), (other.next_ordinal(), other.last()));
        assert_eq!(open_work(&|question| question(one)), open_work(&|question| question(other)));
        for n in 0..4_999 {
            let name = format!("task-a/{n}");
            assert_eq!(one.number_of(&name), other.number_of(&name));
            assert_eq!(
                (one.end_of(&name), one.places_of(&name)),
                (other.end_of(&name), other.places_of(&name))
            );
        }
        for position in (1..=one.head().0).step_by(977) {
            assert_eq!(one.value_range_for(Position(position)), other.value_range_for(Position(position)));
        }
    }

    #[test]
    fn an_index_read_from_its_image_answers_as_the_one_that_was_written_and_goes_on_with_the_same_blocks() {
        for records in [0, 50, 1_450, 20_000] {
            let mut log = grown(records);
            let Image { index, mark, block } = decode(LOG, &log.image()).unwrap();
            assert_same(&index, &log.index);
            let blocks = BlockBuilder::after(&mark, index.streams()).with_open_block(block);
            let mut again = Log { index, blocks: Some(blocks), head: log.head.clone(), finished: Vec::new() };
            log.finished.clear();
            log.grow(records + 9_000);
            again.grow(records + 9_000);
            assert_same(&again.index, &log.index);
            assert_eq!(again.finished, log.finished);
            assert_eq!(again.image(), log.image());
        }
    }

    #[test]
    fn blocks_that_were_finished_after_an_image_complete_it() {
        for records in [100, 1_450, 9_950] {
            let mut log = grown(records);
            let Image { mut index, mark, block } = decode(LOG, &log.image()).unwrap();
            log.grow(records + 12_000);
            let newest = log.blocks.as_mut().unwrap().take_mark().unwrap();
            let later =
                log.finished.iter().filter(|(ordinal, _)| (mark.blocks..newest.blocks).contains(ordinal));
            let mut parser = Parser::after(usize::try_from(block.first_stream).unwrap());
            for (_, block) in later {
                enter_after_image(&mut index, &parser.parse(block).unwrap()).unwrap();
            }
            let covered = u32::try_from(newest.head.frontier.size()).unwrap();
            assert!(covered > records + 8_000);
            assert_same(&index, &grown(covered).index);
        }
    }

    #[test]
    fn a_block_that_does_not_follow_or_has_other_streams_does_not_complete_an_image() {
        let (log, whole) = (grown(500), grown(12_000));
        let mut parser = Parser::default();
        let parsed: Vec<_> = whole.finished.iter().map(|(_, block)| parser.parse(block).unwrap()).collect();
        let enter = |block| enter_after_image(&mut decode(LOG, &log.image()).unwrap().index, block);
        let next = decode(LOG, &log.image()).unwrap().mark.blocks - 3;
        assert!(
            parsed.len() > 5 && (0..).zip(&parsed).all(|(at, block)| enter(block).is_ok() == (at == next))
        );
        // Of one log the first block has these streams, of another it has others.
        let mut other = BlockBuilder::from_zero(3);
        for n in 0..2_000_u32 {
            let slot = Slot { ordinal: n / 50, offset: u16::try_from(n % 50 * 1_000 + 16).unwrap() };
            let (tag, work) = (u64::from(n), WorkChange::Unchanged);
            let record = BlockRecord { stream: n, slot, events: 1, tag, work };
            other.push(&record, Some(&format!("task-b/{n}")));
        }
        other.end_group(40, Head::default);
        let block = other.take_finished().remove(0).1;
        assert!(enter(&Parser::default().parse(&block).unwrap()).unwrap_err().contains("other streams"));
    }

    #[test]
    fn an_image_that_was_changed_or_cut_or_is_of_another_log_is_refused() {
        let image = grown(3_000).image();
        decode(LogId([8; 16]), &image).unwrap_err();
        for length in (0..image.len()).step_by(331) {
            decode(LOG, &image[..length]).unwrap_err();
        }
        for bit in (0..image.len() * 8).step_by(1_013) {
            let mut bad = image.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            decode(LOG, &bad).unwrap_err();
        }
    }

    #[test]
    fn an_image_with_a_right_checksum_and_any_wrong_byte_is_refused_or_answers_without_a_hang() {
        let image = grown(150).image();
        for at in 4..image.len() {
            let mut bad = image.clone();
            bad[at] ^= 0xff;
            let crc = crc32c::crc32c(&bad[4..]);
            bad[..4].copy_from_slice(&crc.to_le_bytes());
            let Ok(Image { index, .. }) = decode(LOG, &bad) else { continue };
            for n in 0..151_u64 {
                let _ = index.places_of(&format!("task-a/{}", n * n % 4_999));
            }
        }
    }

    #[test]
    fn an_image_is_due_after_a_quarter_of_what_the_last_one_covers() {
        let index = grown(40_000).index;
        assert!(is_due(&index, 0) && is_due(&index, 20_000) && !is_due(&index, 32_001));
        assert!(!is_due(&grown(16_000).index, 0));
    }
}
