//! Loading the index from its sorted blocks.

use crate::api::open_work::WorkChange;
use crate::engine::blocks::CRC_BYTES;
use crate::engine::index::Index;
use crate::engine::slot::{BlockRecord, Slot};

/// Loads a sorted block into the index, which must end where the block begins. On an error the index must be
/// discarded.
pub(crate) fn load_block(index: &mut Index, block: &[u8]) -> Result<(), String> {
    let (crc, body) = block.split_first_chunk::<CRC_BYTES>().ok_or("it is too short")?;
    if u32::from_be_bytes(*crc) != crc32c::crc32c(body) {
        return Err("its checksum is wrong".to_owned());
    }
    let (first, mut rest) = body.split_first_chunk::<8>().ok_or("it is too short")?;
    if u64::from_be_bytes(*first) != index.records() as u64 {
        return Err(format!("it does not continue at record {}", index.records()));
    }
    while !rest.is_empty() {
        rest = load_record(index, rest).ok_or("it ends inside a record")?;
    }
    Ok(())
}

fn load_record<'a>(index: &mut Index, rest: &'a [u8]) -> Option<&'a [u8]> {
    let (stream, mut rest) = rest.split_first_chunk::<4>()?;
    let stream = u32::from_be_bytes(*stream);
    let mut name = None;
    if stream as usize == index.streams() {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let (text, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
        name = Some(std::str::from_utf8(text).ok()?);
        rest = after;
    }
    let (ordinal, rest) = rest.split_first_chunk::<4>()?;
    let (offset, rest) = rest.split_first_chunk::<2>()?;
    let (events, rest) = rest.split_first_chunk::<2>()?;
    let ([work], rest) = rest.split_first_chunk::<1>()?;
    let (tag, rest) = rest.split_first_chunk::<8>()?;
    let record = BlockRecord {
        stream,
        slot: Slot { ordinal: u32::from_be_bytes(*ordinal), offset: u16::from_be_bytes(*offset) },
        events: u16::from_be_bytes(*events),
        tag: u64::from_be_bytes(*tag),
        work: match work {
            0 => WorkChange::Unchanged,
            1 => WorkChange::Opened,
            2 => WorkChange::Ended,
            _ => return None,
        },
    };
    index.add_block_record(&record, name).then_some(rest)
}
