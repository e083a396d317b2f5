//! The image of the index: all of it as it was when the log was closed, in one file beside the database. Its columns are
//! the columns of the index in memory, so that an opening copies them instead of entering a million records one by one. It is a
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

#[cfg(test)]
mod tests;

use std::hash::RandomState;

use proto_events::id::{LogId, Version};

use crate::engine::blocks::{BlockBuilder, OpenBlock, Watermark};
use crate::engine::head::Head;
use crate::engine::index::chunked_vec::ChunkedVec;
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

/// Returns the first block that the index of an image does not need, from the beginning of its file; its checksum is not
/// compared.
pub(crate) fn blocks_covered(beginning: &[u8]) -> Option<u64> {
    let mut rest = Rest(beginning.get(4..)?);
    rest.take(TITLE.len()).filter(|title| title == TITLE)?;
    rest.take(size_of::<LogId>())?;
    mark(&mut rest).map(|mark| mark.blocks)
}

fn mark(rest: &mut Rest<'_>) -> Option<Watermark> {
    let length = u32::from_le_bytes(*rest.take(4)?.first_chunk()?);
    Watermark::parse(std::str::from_utf8(rest.take(length as usize)?).ok()?)
}

fn decode_body(mut rest: Rest<'_>) -> Option<Image> {
    let mark = mark(&mut rest)?;
    let mut counts = rest.column(COUNTS, u64::from_le_bytes)?;
    let [first_record, first_stream, block_bytes, streams, open, name_bytes, before_value] =
        std::array::from_fn(|_| counts.next().unwrap_or_default());
    let count = |count: u64| usize::try_from(count).ok();
    let (values, records) = (count(mark.values)?, count(mark.head.frontier.size())?);
    let block = OpenBlock { bytes: rest.take(count(block_bytes)?)?.to_vec(), first_record, first_stream };
    let of_records = IndexColumns {
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
    // One thread takes the columns of the records, the other the columns of the streams, whose names it hashes.
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
struct IndexColumns<'a> {
    values: &'a [u8],
    landmarks: &'a [u8],
    offsets: &'a [u8],
    previous: &'a [u8],
    marks: &'a [u8],
}

impl IndexColumns<'_> {
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
            values: ChunkedVec::of_bytes(self.values, u32::from_le_bytes),
            landmarks,
            offsets: ChunkedVec::of_bytes(self.offsets, u16::from_le_bytes),
            previous: ChunkedVec::of_bytes(self.previous, u32::from_le_bytes),
            marks: ChunkedVec::of_bytes(self.marks, u16::from_le_bytes),
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
