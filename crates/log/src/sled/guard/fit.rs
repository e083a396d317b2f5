//! The comparison of a snapshot with the database beside it. A backup that is copied over a newer log leaves the newer snapshots, whose
//! pages the older database does not have.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use crate::sled::guard::disk::{read_segment, read_up_to};
use crate::sled::guard::pages::PageTable;
use crate::sled::guard::segment::{
    HEADER_BYTES, Header, SEGMENT_BYTES, SEGMENT_LSN, SegmentMessages, header,
};

/// Returns whether the database has all that the snapshot was made of, as far as its segments tell. One that was used again since
/// then has a higher lsn, and one that was cleared has none.
pub(crate) fn fits(table: &PageTable, db: &File) -> io::Result<bool> {
    let Some(stable) = table.stable.filter(|stable| *stable > 0) else { return Ok(true) };
    let begun = segment_starts(db)?;
    let is_older = |(offset, lsn): (u64, u64)| {
        begun.get(&start_of(offset)).is_some_and(|known| *known < lsn / SEGMENT_LSN * SEGMENT_LSN)
    };
    if table.places().any(is_older) {
        return Ok(false);
    }
    // The segment with the last byte that the snapshot goes up to, or a later one.
    let last = (stable - 1) / SEGMENT_LSN * SEGMENT_LSN;
    match begun.iter().max_by_key(|(_, lsn)| **lsn) {
        Some((_, lsn)) if *lsn > last => Ok(true),
        // A private copy of a part of a log ends its last segment, of which it has not all messages.
        Some((_, lsn)) if *lsn == last && stable.is_multiple_of(SEGMENT_LSN) => Ok(true),
        Some((offset, lsn)) if *lsn == last => reaches(db, (*offset, last), stable),
        _ => Ok(false),
    }
}

/// Returns the lsn of each segment with a whole header, by its offset.
fn segment_starts(db: &File) -> io::Result<HashMap<u64, u64>> {
    let mut begun = HashMap::new();
    for offset in (0..db.metadata()?.len()).step_by(SEGMENT_BYTES) {
        let mut head = [0; HEADER_BYTES];
        if read_up_to(db, &mut head, offset)? == HEADER_BYTES
            && let Header::Good(lsn) = header(&head)
        {
            begun.insert(offset, lsn);
        }
    }
    Ok(begun)
}

/// Whether the whole messages of the last segment go up to this lsn. One that is full goes up to its end.
fn reaches(db: &File, (offset, lsn): (u64, u64), stable: u64) -> io::Result<bool> {
    let bytes = read_segment(db, offset)?;
    let mut messages = SegmentMessages::new(&bytes, lsn / SEGMENT_LSN, HEADER_BYTES);
    let end = messages.by_ref().map(|message| message.next).last().unwrap_or(HEADER_BYTES);
    Ok(messages.full || lsn + end as u64 >= stable)
}

fn start_of(offset: u64) -> u64 {
    offset / SEGMENT_BYTES as u64 * SEGMENT_BYTES as u64
}
