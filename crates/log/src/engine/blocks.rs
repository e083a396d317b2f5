//! The index on disk: its data of each record, in the order of the log, cut into sorted blocks of at most 56
//! KiB. So it is loaded in one pass, and a block is written once in a few thousand records. A watermark says
//! how much of the log the blocks cover; the rest is read from the log. All of it may be deleted.
//!
//! A sorted block, integers big-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | CRC32C of all that follows |
//! | 8 | number of the block's first record in the log, from 0 |
//!
//! and for each record:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | number of its stream, in the order of the streams' first records, from 0 |
//! | 2 + n | the stream's name, if this is its first record |
//! | 4 | ordinal of its value |
//! | 2 | offset of the record in the value |
//! | 2 | number of its events |
//! | 1 | work: 0 as before, 1 open, 2 none |
//! | 8 | the beginning of its leaf hash |

use crate::api::open_work::WorkChange;
use crate::engine::head::{Head, checksum_line};
use crate::engine::slot::BlockRecord;

/// Largest sorted block, in bytes: like a value of the log it must stay inline in its leaf.
const BLOCK_BYTES_MAX: usize = 56 * 1024;

/// Size from which a sorted block is ended with its group, in bytes. A full group of appends of one record each adds
/// less than the difference to the largest block (1,024 × 21 bytes), so that each of its blocks ends with a group and
/// the watermark follows; a group of more or of longer names may cut a block, and the watermark waits for the next.
const BLOCK_BYTES_FULL: usize = 32 * 1024;

pub(crate) const CRC_BYTES: usize = 4;

/// First line of a watermark.
const TITLE: &str = "taskreel index 1";

/// The part of the log that the sorted blocks cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watermark {
    /// The ordinal of the first block: earlier ones belong to a discarded index.
    pub(crate) first: u64,
    /// The ordinal after the last block. Its name in the text of a watermark is `runs`.
    pub(crate) blocks: u64,
    /// The number of values covered.
    pub(crate) values: u64,
    /// The end of the log after these values.
    pub(crate) head: Head,
}

impl Watermark {
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!(
            "{TITLE}\nfirst {}\nruns {}\nvalues {}\n{}",
            self.first,
            self.blocks,
            self.values,
            self.head.to_text()
        );
        let crc = crc32c::crc32c(text.as_bytes());
        text.push_str(&checksum_line(crc));
        text
    }

    /// Parses a watermark; `None` if the text is not what was written.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (body, checksum) = text.split_at_checked(text.rfind("checksum ")?)?;
        if checksum != checksum_line(crc32c::crc32c(body.as_bytes())) {
            return None;
        }
        let (first, rest) = body.strip_prefix(TITLE)?.strip_prefix("\nfirst ")?.split_once("\nruns ")?;
        let (blocks, rest) = rest.split_once("\nvalues ")?;
        let (values, head) = rest.split_once('\n')?;
        let (first, blocks, values) = (first.parse().ok()?, blocks.parse().ok()?, values.parse().ok()?);
        Some(Self { first, blocks, values, head: Head::parse(head)? })
    }
}

/// A sorted block that is being built.
#[derive(Debug, Default)]
pub(crate) struct OpenBlock<B = Vec<u8>> {
    pub(crate) bytes: B,
    /// The number of its first record.
    pub(crate) first_record: u64,
    /// The number of streams that began before that record.
    pub(crate) first_stream: u64,
}

/// Cuts the data of the index into sorted blocks.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    first_block: u64,
    /// The ordinal of the block that is being built.
    next_block: u64,
    records: u64,
    streams: u64,
    /// The numbers of records and streams before the block that is being built.
    before: (u64, u64),
    /// The number of records that the image of the index covers.
    imaged: u64,
    finished: Vec<(u64, Vec<u8>)>,
    mark: Option<Watermark>,
}

impl BlockBuilder {
    /// Begins with this ordinal.
    pub(crate) fn from_zero(first_block: u64) -> Self {
        Self {
            bytes: Vec::new(),
            first_block,
            next_block: first_block,
            records: 0,
            streams: 0,
            before: (0, 0),
            imaged: 0,
            finished: Vec::new(),
            mark: None,
        }
    }

    /// Continues after the kept blocks, in whose records so many streams began.
    pub(crate) fn after(mark: &Watermark, streams: usize) -> Self {
        let (records, streams) = (mark.head.frontier.size(), streams as u64);
        let before = (records, streams);
        Self { next_block: mark.blocks, records, streams, before, ..Self::from_zero(mark.first) }
    }

    /// Continues the block that was being built when an image was written.
    pub(crate) fn with_open_block(mut self, block: OpenBlock) -> Self {
        self.before = (block.first_record, block.first_stream);
        self.bytes = block.bytes;
        self
    }

    /// Returns the block that is being built.
    pub(crate) fn open_block(&self) -> OpenBlock<&[u8]> {
        let (first_record, first_stream) = self.before;
        OpenBlock { bytes: &self.bytes, first_record, first_stream }
    }

    /// Returns a watermark of the blocks so far for this end of the log, which may be beyond them.
    pub(crate) fn watermark(&self, values: u64, head: Head) -> Watermark {
        Watermark { first: self.first_block, blocks: self.next_block, values, head }
    }

    /// Notes that an image of the index covers so many records.
    pub(crate) fn note_image(&mut self, records: u64) {
        self.imaged = records;
    }

    /// Returns the number of records that the image of the index covers.
    pub(crate) fn imaged(&self) -> u64 {
        self.imaged
    }

    /// Adds the log's next record, with the name of its stream if this is the stream's first record.
    pub(crate) fn push(&mut self, record: &BlockRecord, name: Option<&str>) {
        let needed = 21 + name.map_or(0, |name| 2 + name.len());
        if self.bytes.len() + needed > BLOCK_BYTES_MAX {
            self.cut();
        }
        if self.bytes.is_empty() {
            self.bytes.resize(CRC_BYTES, 0);
            self.bytes.extend_from_slice(&self.records.to_be_bytes());
        }
        let out = &mut self.bytes;
        out.extend_from_slice(&record.stream.to_be_bytes());
        if let Some(name) = name {
            // Names come from records, whose texts have at most 65,535 bytes.
            out.extend_from_slice(&u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
            out.extend_from_slice(name.as_bytes());
            self.streams += 1;
        }
        out.extend_from_slice(&record.slot.ordinal.to_be_bytes());
        out.extend_from_slice(&record.slot.offset.to_be_bytes());
        out.extend_from_slice(&record.events.to_be_bytes());
        out.push(match record.work {
            WorkChange::Unchanged => 0,
            WorkChange::Opened => 1,
            WorkChange::Ended => 2,
        });
        out.extend_from_slice(&record.tag.to_be_bytes());
        self.records += 1;
    }

    /// Ends a group: all records of the values so far were added, and every append among them is whole. The
    /// blocks may end only here.
    pub(crate) fn end_group(&mut self, values: u64, head: impl FnOnce() -> Head) {
        if self.bytes.len() >= BLOCK_BYTES_FULL {
            self.cut();
            self.mark = Some(self.watermark(values, head()));
        }
    }

    /// Takes the blocks that are ready to be written, with their ordinals.
    pub(crate) fn take_finished(&mut self) -> Vec<(u64, Vec<u8>)> {
        std::mem::take(&mut self.finished)
    }

    /// Takes the newest watermark. It holds once the blocks before it are written.
    pub(crate) fn take_mark(&mut self) -> Option<Watermark> {
        self.mark.take()
    }

    fn cut(&mut self) {
        let mut block = std::mem::take(&mut self.bytes);
        let crc = crc32c::crc32c(block.get(CRC_BYTES..).unwrap_or_default());
        if let Some(checksum) = block.first_chunk_mut::<CRC_BYTES>() {
            *checksum = crc.to_be_bytes();
        }
        self.finished.push((self.next_block, block));
        self.next_block += 1;
        self.before = (self.records, self.streams);
    }
}

#[cfg(test)]
mod tests {
    use proto_events::id::{Digest, Position, Version};

    use super::*;
    use crate::engine::index::Index;
    use crate::engine::index::load::{BlockParser, Loader};
    use crate::engine::index::stream_listing::open_work;
    use crate::engine::slot::{IndexedRecord, RecordSlot};

    /// Builds an index of many records over many values and groups, and its sorted blocks.
    fn built(records: u32) -> (Index, Vec<Vec<u8>>, Option<Watermark>) {
        let (mut index, mut builder) = (Index::default(), BlockBuilder::from_zero(0));
        for n in 0..records {
            let name = format!("task-a/{}", n * n % 997);
            let version = Version(index.end_of(&name).version.0 + u64::from(n % 5) + 1);
            let tag = u64::from(n) << 20;
            let work = [WorkChange::Unchanged, WorkChange::Opened, WorkChange::Ended][n as usize % 3];
            let slot = RecordSlot { ordinal: n / 50, offset: u16::try_from(n % 50 * 1_000 + 16).unwrap() };
            let events = u16::try_from(n % 5 + 1).unwrap();
            let mut hash = Digest::compute(b"");
            hash.0[..8].copy_from_slice(&tag.to_be_bytes());
            let entered =
                IndexedRecord { end: crate::engine::slot::StreamEnd::new(version, hash), slot, events, work };
            index.add_to_blocks(&name, &entered, &mut builder);
            if n % 50 == 49 {
                let position = index.head();
                builder.end_group(index.next_ordinal(), || Head { position, ..Head::default() });
            }
        }
        let mark = builder.take_mark();
        (index, builder.take_finished().into_iter().map(|(_, block)| block).collect(), mark)
    }

    fn load<'a>(blocks: impl IntoIterator<Item = &'a [u8]>) -> Result<Index, String> {
        let mut parser = BlockParser::default();
        let mut loader = Loader::from_parser(&parser);
        for block in blocks {
            loader.enter(&parser.parse(block)?)?;
        }
        loader.finish()
    }

    #[test]
    fn a_loaded_index_answers_as_the_one_that_was_written() {
        let (index, blocks, mark) = built(20_000);
        let mark = mark.unwrap();
        assert_eq!(mark.blocks, blocks.len() as u64);
        assert!(blocks.len() > 3 && blocks.iter().all(|block| block.len() <= BLOCK_BYTES_MAX));
        let mut loaded = load(blocks.iter().map(Vec::as_slice)).unwrap();
        assert_eq!((loaded.next_ordinal(), loaded.head()), (mark.values, mark.head.position));
        // The rest, as an opening takes it from the log.
        let (again, _, _) = built(u32::try_from(loaded.records()).unwrap());
        let open = |index: &Index| open_work(&|question| question(index));
        assert_eq!(open(&loaded), open(&again));
        // What comes after the blocks is added as to any other index.
        let slot = RecordSlot { ordinal: u32::try_from(loaded.next_ordinal()).unwrap(), offset: 16 };
        for name in ["task-a/4", "task-a/new"] {
            assert_eq!(loaded.number_of(name), again.number_of(name));
        }
        let (end, work) = (loaded.end_of("task-a/4"), WorkChange::Unchanged);
        let entered = IndexedRecord { end, slot, events: 1, work };
        let mut more = BlockBuilder::after(&mark, loaded.streams());
        let before = loaded.streams();
        loaded.add_to_blocks("task-a/new", &entered, &mut more);
        assert_eq!(loaded.number_of("task-a/new"), u32::try_from(before).ok());
        for n in 0..997 {
            let name = format!("task-a/{n}");
            assert_eq!(
                (loaded.end_of(&name), loaded.places_of(&name)),
                (again.end_of(&name), again.places_of(&name))
            );
        }
        assert_eq!(loaded.value_range_for(Position(30_000)), again.value_range_for(Position(30_000)));
        assert!(index.records() > loaded.records());
    }

    #[test]
    fn a_damaged_block_or_one_out_of_order_is_refused() {
        let (_, blocks, _) = built(5_000);
        load([blocks[1].as_slice()]).unwrap_err();
        for bit in (0..blocks[0].len() * 8).step_by(1_013) {
            let mut bad = blocks[0].clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            load([bad.as_slice()]).unwrap_err();
        }
        for length in (0..blocks[0].len()).step_by(997) {
            load([&blocks[0][..length]]).unwrap_err();
        }
    }

    #[test]
    fn blocks_in_which_a_name_stands_twice_are_refused() {
        let mut builder = BlockBuilder::from_zero(0);
        for n in 0..3_000_u32 {
            let (slot, work) = (RecordSlot { ordinal: n, offset: 16 }, WorkChange::Unchanged);
            let name = format!("task-a/{}", if n == 2_999 { 7 } else { n });
            builder.push(&BlockRecord { stream: n, slot, events: 1, tag: 0, work }, Some(&name));
        }
        builder.end_group(3_000, Head::default);
        let blocks = builder.take_finished();
        let error = load(blocks.iter().map(|(_, block)| block.as_slice())).unwrap_err();
        assert_eq!(error, "two of its streams have the same name");
    }

    #[test]
    fn a_watermark_comes_back_and_a_changed_one_does_not() {
        let mark = built(5_000).2.unwrap();
        let text = mark.to_text();
        assert_eq!(Watermark::parse(&text), Some(mark));
        for at in 0..text.len() {
            let mut bad = text.clone().into_bytes();
            bad[at] ^= 1;
            assert_eq!(String::from_utf8(bad).ok().and_then(|bad| Watermark::parse(&bad)), None, "byte {at}");
        }
    }
}
