//! A value of the tree `log`: the records of one group, or of a piece of a large group.
//!
//! | bytes | field, integers big-endian |
//! |---|---|
//! | 4 | CRC32C of all that follows |
//! | 8 | position of the first event |
//! | 4 | number of records: at least 1; the highest bit is set if the value continues the group before it |
//! | 4 + 32 + n each | for each record: length n, leaf hash, bytes |
//!
//! An append's records are in one value. If they do not fit, they are in several that hold nothing else,
//! identified by set id, part and number of parts; if the last of them are missing at the end of the log, the
//! append was never durable.

use proto_events::codec::record::EncodedRecord;
use proto_events::id::{Digest, Position};

use crate::limits::GROUP_VALUE_BYTES;

const CRC_BYTES: usize = 4;
/// The size of the header of a value, after which its first record begins.
pub(crate) const HEADER_BYTES: usize = CRC_BYTES + 8 + 4;
const ENTRY_HEADER_BYTES: usize = 4 + 32;

/// Set in the count of a value that belongs to the same group as the value before it. A value without it
/// proves that all before it was durable when it was written: this distinguishes a torn last group from
/// damage.
const CONTINUES_GROUP: u32 = 1 << 31;

/// Bytes that records and their headers may take in one value.
pub(crate) const CAPACITY: usize = GROUP_VALUE_BYTES - HEADER_BYTES;

/// Bytes that a record takes in a value.
pub(crate) fn entry_bytes(record: &EncodedRecord) -> usize {
    ENTRY_HEADER_BYTES + record.bytes().len()
}

/// Builds values one after another in one buffer, so that each record is copied once.
#[derive(Debug)]
pub(crate) struct ValueBuilder {
    bytes: Vec<u8>,
    count: u32,
}

impl ValueBuilder {
    pub(crate) fn new() -> Self {
        let mut bytes = Vec::with_capacity(GROUP_VALUE_BYTES);
        bytes.resize(HEADER_BYTES, 0);
        Self { bytes, count: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes that still fit.
    pub(crate) fn room(&self) -> usize {
        GROUP_VALUE_BYTES.saturating_sub(self.bytes.len())
    }

    /// Adds a record; the caller has checked that there is room. Returns its offset in the value.
    pub(crate) fn push(&mut self, record: &EncodedRecord) -> u16 {
        // 60 KiB at most, so that both numbers fit; `room` ensures this.
        let offset = u16::try_from(self.bytes.len()).unwrap_or(u16::MAX);
        let length = u32::try_from(record.bytes().len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(&record.hash().0);
        self.bytes.extend_from_slice(record.bytes());
        self.count += 1;
        offset
    }

    /// Fills in the header, which completes the value. `continues_group`: it continues the group of the value
    /// before it.
    pub(crate) fn finish(&mut self, first: Position, continues_group: bool) -> &[u8] {
        let mut header = [0; HEADER_BYTES - CRC_BYTES];
        let (position, count) = header.split_at_mut(8);
        position.copy_from_slice(&first.0.to_be_bytes());
        let flag = if continues_group { CONTINUES_GROUP } else { 0 };
        count.copy_from_slice(&(self.count | flag).to_be_bytes());
        if let Some(fields) = self.bytes.get_mut(CRC_BYTES..HEADER_BYTES) {
            fields.copy_from_slice(&header);
        }
        let crc = crc32c::crc32c(self.bytes.get(CRC_BYTES..).unwrap_or_default());
        if let Some(checksum) = self.bytes.get_mut(..CRC_BYTES) {
            checksum.copy_from_slice(&crc.to_be_bytes());
        }
        &self.bytes
    }

    /// Removes all records, for the next value.
    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(HEADER_BYTES);
        self.count = 0;
    }
}

/// A value with its header decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value<'a> {
    /// The position of the value's first event.
    pub(crate) first: Position,
    /// Whether it belongs to the same group as the value before it.
    pub(crate) continues_group: bool,
    count: u32,
    records: &'a [u8],
}

/// A record in a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueEntry<'a> {
    /// The record's offset in the value.
    pub(crate) offset: u16,
    /// The leaf hash that was stored for it.
    pub(crate) hash: Digest,
    /// The record.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Value<'a> {
    /// Checks the checksum and reads the header; returns what is wrong otherwise.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, String> {
        Self::check(bytes)?;
        Self::unchecked(bytes)
    }

    /// Checks the checksum; returns what is wrong otherwise.
    pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
        let (crc, rest) = bytes.split_first_chunk::<CRC_BYTES>().ok_or_else(short)?;
        let (stored, found) = (u32::from_be_bytes(*crc), crc32c::crc32c(rest));
        if stored != found {
            return Err(format!("its checksum is {found:08x}, but {stored:08x} was stored with it"));
        }
        Ok(())
    }

    /// Reads the header without checking the checksum, which would read the whole value for one of its
    /// records.
    pub(crate) fn unchecked(bytes: &'a [u8]) -> Result<Self, String> {
        let (_, rest) = bytes.split_first_chunk::<CRC_BYTES>().ok_or_else(short)?;
        let (first, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
        let (count, records) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let count = u32::from_be_bytes(*count);
        Ok(Self {
            first: Position(u64::from_be_bytes(*first)),
            continues_group: count & CONTINUES_GROUP != 0,
            count: count & !CONTINUES_GROUP,
            records,
        })
    }

    /// Iterates over the value's records in order. An error ends the iteration.
    pub(crate) fn entries(&self) -> ValueEntries<'a> {
        ValueEntries { left: self.count, at: HEADER_BYTES, rest: self.records }
    }

    /// Iterates over the value's records from the one at this offset on. Ends with an error instead of at the value's
    /// end.
    pub(crate) fn entries_from(&self, offset: u16) -> Option<ValueEntries<'a>> {
        let rest = self.records.get(usize::from(offset).checked_sub(HEADER_BYTES)?..)?;
        Some(ValueEntries { left: self.count, at: offset.into(), rest })
    }
}

/// Returns the position of a value's first event without checking the checksum: enough for a search.
pub(crate) fn first_position(bytes: &[u8]) -> Option<Position> {
    let (_, rest) = bytes.split_first_chunk::<CRC_BYTES>()?;
    let (first, _) = rest.split_first_chunk::<8>()?;
    Some(Position(u64::from_be_bytes(*first)))
}

fn short() -> String {
    "it is shorter than the header of a value".to_owned()
}

/// Iterates over a value's records.
#[derive(Debug)]
pub(crate) struct ValueEntries<'a> {
    left: u32,
    at: usize,
    rest: &'a [u8],
}

impl<'a> ValueEntries<'a> {
    fn next_entry(&mut self) -> Option<ValueEntry<'a>> {
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        let (hash, rest) = rest.split_first_chunk::<32>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (bytes, rest) = rest.split_at_checked(length)?;
        let offset = u16::try_from(self.at).ok()?;
        self.rest = rest;
        self.at += ENTRY_HEADER_BYTES + length;
        Some(ValueEntry { offset, hash: Digest(*hash), bytes })
    }
}

impl<'a> Iterator for ValueEntries<'a> {
    type Item = Result<ValueEntry<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let extra = std::mem::take(&mut self.rest).len();
            return (extra > 0).then(|| Err(format!("{extra} bytes follow its last record")));
        }
        self.left -= 1;
        let entry = self.next_entry();
        if entry.is_none() {
            self.left = 0;
            self.rest = &[];
        }
        Some(entry.ok_or_else(|| "it ends inside a record".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::conformance::sketch::draft;

    fn record(body: usize) -> EncodedRecord {
        draft("task-a/b", 1, &vec![7; body]).encode().unwrap()
    }

    #[test]
    fn records_come_back_with_their_hashes_and_offsets() {
        let mut builder = ValueBuilder::new();
        let records = [record(10), record(2_000), record(0)];
        let offsets: Vec<u16> = records.iter().map(|record| builder.push(record)).collect();
        let bytes = builder.finish(Position(9), false).to_vec();
        let value = Value::open(&bytes).unwrap();
        assert_eq!((value.first, first_position(&bytes)), (Position(9), Some(Position(9))));
        let entries: Vec<_> = value.entries().map(Result::unwrap).collect();
        assert_eq!(entries.iter().map(|entry| entry.offset).collect::<Vec<_>>(), offsets);
        for (entry, record) in entries.iter().zip(&records) {
            assert_eq!((entry.hash, entry.bytes), (record.hash(), &**record.bytes()));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut builder = ValueBuilder::new();
        builder.push(&record(3));
        let good = builder.finish(Position(1), true).to_vec();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Value::open(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_length_that_lies_ends_the_reading_with_an_error() {
        for (count, tail) in [(2_u32, vec![0; 36]), (1, vec![255; 40]), (0, vec![1]), (u32::MAX, vec![])] {
            let mut bytes = vec![0; 4];
            bytes.extend_from_slice(&1_u64.to_be_bytes());
            bytes.extend_from_slice(&count.to_be_bytes());
            bytes.extend_from_slice(&tail);
            let crc = crc32c::crc32c(&bytes[4..]);
            bytes[..4].copy_from_slice(&crc.to_be_bytes());
            let read: Vec<_> = Value::open(&bytes).unwrap().entries().collect();
            assert!(read.len() <= 2 && read.last().unwrap().is_err(), "{count}");
        }
    }
}
