//! Loading the index from its sorted blocks. Two threads may share the work: one takes a block apart ([`BlockParser`]), the other
//! enters what it holds ([`Loader`]).

use std::hash::{BuildHasher as _, RandomState};

use crate::api::open_work::WorkChange;
use crate::engine::blocks::CRC_BYTES;
use crate::engine::index::Index;
use crate::engine::slot::{BlockRecord, RecordSlot};

/// A sorted block that was taken apart.
#[derive(Debug)]
pub(crate) struct ParsedBlock {
    /// The number of the block's first record in the log.
    first: u64,
    /// The number of the first stream that begins in the block or later.
    first_stream: usize,
    records: Vec<BlockRecord>,
    /// The streams that begin in the block: the hash of each name, and its end in `names`.
    begun: Vec<(u64, usize)>,
    names: String,
}

/// Takes sorted blocks apart, one after another.
#[derive(Debug, Default)]
pub(crate) struct BlockParser {
    hasher: RandomState,
    /// The number of streams that the blocks so far have begun.
    streams: usize,
}

impl BlockParser {
    /// Creates a parser of blocks before which so many streams began.
    pub(crate) fn after(streams: usize) -> Self {
        Self { streams, ..Self::default() }
    }

    /// Checks a block and takes it apart.
    pub(crate) fn parse(&mut self, block: &[u8]) -> Result<ParsedBlock, String> {
        let (crc, body) = block.split_first_chunk::<CRC_BYTES>().ok_or("it is too short")?;
        if u32::from_be_bytes(*crc) != crc32c::crc32c(body) {
            return Err("its checksum is wrong".to_owned());
        }
        let (first, mut rest) = body.split_first_chunk::<8>().ok_or("it is too short")?;
        let first = u64::from_be_bytes(*first);
        // A record takes 21 bytes, and a name more.
        let records = Vec::with_capacity(rest.len() / 21);
        let (first_stream, begun) = (self.streams, Vec::new());
        let mut parsed = ParsedBlock { first, first_stream, records, begun, names: String::new() };
        while !rest.is_empty() {
            rest = self.parse_record(rest, &mut parsed).ok_or("it ends inside a record")?;
        }
        Ok(parsed)
    }

    fn parse_record<'a>(&mut self, rest: &'a [u8], parsed: &mut ParsedBlock) -> Option<&'a [u8]> {
        let (stream, mut rest) = rest.split_first_chunk::<4>()?;
        let stream = u32::from_be_bytes(*stream);
        if stream as usize == self.streams {
            let (length, after) = rest.split_first_chunk::<2>()?;
            let (text, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
            let name = std::str::from_utf8(text).ok()?;
            parsed.names.push_str(name);
            parsed.begun.push((self.hasher.hash_one(name), parsed.names.len()));
            self.streams += 1;
            rest = after;
        }
        if stream as usize >= self.streams {
            return None;
        }
        let (fixed, rest) = rest.split_first_chunk::<17>()?;
        let (ordinal, fixed) = fixed.split_first_chunk::<4>()?;
        let (offset, fixed) = fixed.split_first_chunk::<2>()?;
        let (events, fixed) = fixed.split_first_chunk::<2>()?;
        let ([work], tag) = fixed.split_first_chunk::<1>()?;
        parsed.records.push(BlockRecord {
            stream,
            slot: RecordSlot { ordinal: u32::from_be_bytes(*ordinal), offset: u16::from_be_bytes(*offset) },
            events: u16::from_be_bytes(*events),
            tag: u64::from_be_bytes(*tag.first_chunk::<8>()?),
            work: match work {
                0 => WorkChange::Unchanged,
                1 => WorkChange::Opened,
                2 => WorkChange::Ended,
                _ => return None,
            },
        });
        Some(rest)
    }
}

/// Enters a block after the image of an index, in which the beginning of the block may be already. On an error the index must be
/// discarded.
pub(crate) fn enter_after_image(index: &mut Index, block: &ParsedBlock) -> Result<(), String> {
    let known =
        (index.records() as u64).checked_sub(block.first).and_then(|known| usize::try_from(known).ok());
    let new = known.and_then(|known| block.records.get(known..)).ok_or("it does not continue the image")?;
    let (mut begin, mut number) = (0, block.first_stream);
    for (_, end) in &block.begun {
        let name = block.names.get(begin..*end).unwrap_or_default();
        let before = index.streams();
        let is_sound = if number < before {
            index.name(u32::try_from(number).unwrap_or(u32::MAX)) == Some(name)
        } else {
            number == before && usize::try_from(index.add_stream(name)) == Ok(before)
        };
        if !is_sound {
            return Err("it begins other streams than the image".to_owned());
        }
        (begin, number) = (*end, number + 1);
    }
    let entered = new.iter().all(|record| index.add_block_record(record));
    entered.then_some(()).ok_or_else(|| "it has a record that cannot be the next".to_owned())
}

/// An index that is being loaded. Nothing can be found in it by name until [`Loader::finish`].
#[derive(Debug)]
pub(crate) struct Loader {
    index: Index,
    hashes: Vec<u64>,
}

impl Loader {
    /// Creates a loader of the blocks that this parser takes apart.
    pub(crate) fn from_parser(parser: &BlockParser) -> Self {
        Self { index: Index::hashed_by(parser.hasher.clone()), hashes: Vec::new() }
    }

    /// Enters the next block. On an error the index must be discarded.
    pub(crate) fn enter(&mut self, block: &ParsedBlock) -> Result<(), String> {
        let index = &mut self.index;
        if block.first != index.records() as u64 {
            return Err(format!("it does not continue at record {}", index.records()));
        }
        let mut begin = 0;
        for (hash, end) in &block.begun {
            index.begin_stream(block.names.get(begin..*end).unwrap_or_default());
            self.hashes.push(*hash);
            begin = *end;
        }
        let entered = block.records.iter().all(|record| index.add_block_record(record));
        entered.then_some(()).ok_or_else(|| "it has a record that cannot be the next".to_owned())
    }

    /// Returns the index.
    ///
    /// # Errors
    /// A text, if two of its streams have the same name.
    pub(crate) fn finish(mut self) -> Result<Index, String> {
        let is_sound = self.index.find_streams_by(&self.hashes);
        is_sound.then_some(self.index).ok_or_else(|| "two of its streams have the same name".to_owned())
    }
}
