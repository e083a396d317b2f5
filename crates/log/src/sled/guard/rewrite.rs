//! Writing the end of the log once more. After a failed write the operating system may keep data in memory that
//! it never wrote to the disk and will not try to write again, so that reading the data back proves nothing.
//! What no `HEAD` vouches for is therefore written again, past the cache, before anything is said of it.

use std::fs::File;
use std::io;
use std::path::Path;

use proto_events::id::Position;

use crate::engine::head::Head;
use crate::sled::guard::direct::write_again;
use crate::sled::guard::disk::read_segment;
use crate::sled::guard::segment::{HEADER_BYTES, SEGMENT_LSN, SegmentMessages};
use crate::sled::guard::tear::decode_value;
use crate::sled::guard::walk::SegmentWalk;

/// Writes the log again from the value that `HEAD` names on, and syncs it. Without that value everything after
/// `from` is written, the lsn of a snapshot: those are made of synced data only.
pub(crate) fn rewrite(
    (path, db): (&Path, &File),
    walk: &SegmentWalk,
    head: Option<&Head>,
    from: u64,
) -> io::Result<()> {
    let proven = head.map_or(Position(0), |head| head.position);
    let mut first = (0, 0);
    for (number, segment) in walk.segments.iter().enumerate().rev() {
        let vouched = vouched(db, walk, number, proven)?;
        let begin = vouched.or_else(|| usize::try_from(from.checked_sub(segment.lsn)?).ok());
        if let Some(begin) = begin {
            first = (number, begin);
            break;
        }
    }
    let written = walk.segments.iter().zip(&walk.ends).enumerate().skip(first.0);
    let places = written.map(|(number, (segment, end))| {
        let begin = if number == first.0 { first.1.min(end.at) } else { 0 };
        segment.offset + begin as u64..segment.offset + end.at as u64
    });
    // In the log's order, so that a crash leaves no hole.
    write_again(path, db, &places.collect::<Vec<_>>())
}

/// Returns the offset of the last value of a segment that begins at or before this position, if it has one.
fn vouched(db: &File, walk: &SegmentWalk, number: usize, proven: Position) -> io::Result<Option<usize>> {
    let Some((segment, end)) = walk.segments.get(number).zip(walk.ends.get(number)) else { return Ok(None) };
    let mut bytes = read_segment(db, segment.offset)?;
    bytes.truncate(end.at);
    let messages = SegmentMessages::new(&bytes, segment.lsn / SEGMENT_LSN, HEADER_BYTES);
    let of_head = messages.filter(|message| {
        let value = message.set().and_then(decode_value);
        value.is_some_and(|value| value.first <= proven)
    });
    Ok(of_head.last().map(|message| message.at))
}
