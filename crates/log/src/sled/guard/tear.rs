//! Finding a tear of the log, telling a crash from damage, and mending.

use std::fs::File;
use std::io;
use std::path::Path;

use proto_events::id::Position;

use crate::api::durability::Durability;
use crate::api::error::OpenError;
use crate::api::note::OpenNote;
use crate::engine::head::Head;
use crate::engine::located_records::{last_record_in, located_records};
use crate::engine::value::Value;
use crate::sled::dir::{DATA_FILE, io_error};
use crate::sled::guard::aside;
use crate::sled::guard::disk::{read_segment, write_at};
use crate::sled::guard::segment::{
    HEADER_BYTES, SEGMENT_BYTES, SEGMENT_LSN, SearchBudget, SegmentMessages, search,
};
use crate::sled::guard::walk::{Segment, SegmentWalk};

/// A tear: the place from which on the log is not whole.
#[derive(Debug)]
pub(crate) struct Tear {
    /// The segments from the torn one on.
    rest: Vec<Segment>,
    /// The offset of the tear in the first of these segments.
    at: usize,
    /// The last record before the tear, in words.
    sound: Option<String>,
    /// The proof that the data after the tear had been durable, if there is one.
    proof: Option<String>,
}

/// A value of the tree `log` in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundValue {
    pub(crate) first: Position,
    pub(crate) next: Position,
    begins_group: bool,
}

/// Searches for a tear in what sled will read, which is the log from the segment of `from` on.
pub(crate) fn find(
    db: &File,
    (walk, from): (&SegmentWalk, u64),
    head: Option<&Head>,
    durability: Durability,
) -> io::Result<Option<Tear>> {
    let (segments, tail) = (&walk.segments, walk.tail());
    for (number, (segment, end)) in segments.iter().zip(&walk.ends).enumerate() {
        let rest = segments.get(number..).unwrap_or_default();
        let is_cut = |next: &Segment| next.lsn > tail && next.lsn != segment.lsn + SEGMENT_LSN;
        let follows = rest.get(1).is_some_and(|next| !end.full || lost(segment, next, rest) || is_cut(next));
        if !segment.headless && (end.full || !end.leftover) && !follows {
            continue;
        }
        let whole_before = segments.get(..number).unwrap_or_default();
        let before = before(db, whole_before, *segment, end.at)?;
        let after = after(db, rest, end.at)?;
        let proof = if let Some(bad) = rest.iter().find(|segment| segment.bad) {
            Some(format!("the header of its segment at byte {} is damaged", bad.offset))
        } else if segment.lsn.saturating_add(end.at as u64) < from {
            Some("the database was opened after that part was written".to_owned())
        } else {
            proof(before.as_ref().map(|(next, _)| *next), &after, head, durability)
        };
        let sound = before.and_then(|(_, sound)| sound);
        return Ok(Some(Tear { rest: rest.to_vec(), at: end.at, sound, proof }));
    }
    Ok(None)
}

/// Whether segments are missing between two whose places in the file are cleared or hold an earlier part of
/// the log. sled gives a freed segment to a later part of the log, which `rest` has; it clears one only where
/// it opens.
fn lost(segment: &Segment, next: &Segment, rest: &[Segment]) -> bool {
    let apart = (next.lsn.checked_sub(segment.lsn), next.offset.checked_sub(segment.offset));
    let reused = |place: u64| rest.iter().any(|other| other.offset == place && !other.headless);
    apart.0 != Some(SEGMENT_LSN)
        && apart.0 == apart.1
        && (segment.offset..next.offset).step_by(SEGMENT_BYTES).skip(1).any(|place| !reused(place))
}

/// Returns the position after the last value before the tear, and its last record in words, if there is one in the
/// segments read.
fn before(
    db: &File,
    whole: &[Segment],
    torn: Segment,
    at: usize,
) -> io::Result<Option<(Position, Option<String>)>> {
    for (segment, end) in
        std::iter::once((&torn, at)).chain(whole.iter().rev().map(|segment| (segment, SEGMENT_BYTES)))
    {
        let bytes = read_segment(db, segment.offset)?;
        let bytes = bytes.get(..end).unwrap_or(&bytes);
        let messages = SegmentMessages::new(bytes, segment.lsn / SEGMENT_LSN, HEADER_BYTES);
        let values = messages.filter_map(|message| {
            let set = message.set()?;
            Some((decode_value(set)?.next, set.1))
        });
        if let Some((next, value)) = values.last() {
            return Ok(Some((next, last_record_in(value))));
        }
    }
    Ok(None)
}

/// Returns the values after the tear, in the log's order.
fn after(db: &File, rest: &[Segment], at: usize) -> io::Result<Vec<FoundValue>> {
    let mut found = Vec::new();
    for (number_in_rest, segment) in rest.iter().enumerate() {
        let bytes = read_segment(db, segment.offset)?;
        let number = segment.lsn / SEGMENT_LSN;
        let mut next = if number_in_rest == 0 { at + 1 } else { HEADER_BYTES };
        let mut budget = SearchBudget::default();
        while let Some((whole, _)) = search(&bytes, next, Some(number), &mut budget) {
            let mut messages = SegmentMessages::new(&bytes, number, whole);
            found.extend(messages.by_ref().filter_map(|message| decode_value(message.set()?)));
            next = messages.at.max(whole) + 1;
            if messages.full {
                break;
            }
        }
    }
    Ok(found)
}

/// Decodes a value of the tree `log`, if it is one. sled omits the common prefix of a page's keys from the
/// key.
pub(crate) fn decode_value((key, bytes): (&[u8], &[u8])) -> Option<FoundValue> {
    if *key.last()? != 0 {
        return None;
    }
    let value = Value::open(bytes).ok()?;
    let mut records = located_records(bytes, 0).ok()?;
    let whole = records.by_ref().all(|record| record.is_ok());
    (whole && records.next_position() > value.first).then(|| FoundValue {
        first: value.first,
        next: records.next_position(),
        begins_group: !value.continues_group,
    })
}

/// Returns the proof that the log had been durable after the tear, if there is one.
fn proof(
    before: Option<Position>,
    after: &[FoundValue],
    head: Option<&Head>,
    durability: Durability,
) -> Option<String> {
    let proven = head.map_or(Position::default(), |head| head.position);
    let expected = before.unwrap_or(Position(proven.0 + 1));
    if proven >= expected || after.iter().any(|value| value.first <= proven && value.first >= expected) {
        return Some(format!("HEAD proves that position {proven} was durable"));
    }
    if durability != Durability::Strict {
        // Without syncs, a later group does not prove that an earlier one was durable.
        return None;
    }
    // A value that is also before the tear was moved to a later place by sled, and proves nothing.
    let mut new = after.iter().filter(|value| value.first >= expected).peekable();
    let next = new.peek()?;
    // A tear just before a group may be in the group itself: its bodies are written before its first value.
    let of_the_torn = usize::from(next.begins_group && next.first == expected);
    let later = new.filter(|value| value.begins_group).nth(of_the_torn)?;
    Some(format!("the group at position {} was written after that part was durable", later.first))
}

/// Refuses a log whose tear is damage. Cuts off the end of a log torn by a crash, and keeps what is cut off.
pub(crate) fn mend(dir: &Path, db: &File, tear: &Tear, notes: &mut Vec<OpenNote>) -> Result<(), OpenError> {
    let Some(torn) = tear.rest.first() else { return Ok(()) };
    let torn_at = torn.offset + tear.at as u64;
    if let Some(proof) = &tear.proof {
        let what = format!("the file `{DATA_FILE}` is damaged from byte {torn_at} on: {proof}");
        let what = tear.sound.as_ref().map_or(what.clone(), |sound| format!("{what}; {sound}"));
        return Err(OpenError::Corrupt { path: dir.to_owned(), what });
    }
    let path = dir.join(DATA_FILE);
    let failed = "the data after the end of the log could not be set aside";
    let (mut cut, mut kept) = (0, dir.to_owned());
    for (number, segment) in tear.rest.iter().enumerate() {
        let from = if number == 0 { tear.at } else { 0 };
        let bytes = read_segment(db, segment.offset).map_err(io_error(&path, failed))?;
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if let Some(piece) = bytes.get(from..end).filter(|piece| !piece.is_empty()) {
            let name = format!("{DATA_FILE}-{}", segment.offset + from as u64);
            kept = aside::bytes(dir, &name, piece).map_err(io_error(&path, failed))?;
            cut += piece.len() as u64;
        }
    }
    clear(db, &tear.rest).map_err(io_error(&path, failed))?;
    notes.push(OpenNote::TailSetAside { bytes: cut, kept });
    Ok(())
}

/// Clears the headers of the segments after the torn one, so that sled's log ends at the tear.
fn clear(db: &File, rest: &[Segment]) -> io::Result<()> {
    for segment in rest.iter().skip(1) {
        write_at(db, &[0; HEADER_BYTES], segment.offset)?;
    }
    db.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_missing_only_if_no_later_part_of_the_log_has_its_place() {
        let segment = |lsn: u64, offset: u64| Segment {
            lsn: lsn * SEGMENT_LSN,
            offset: offset * SEGMENT_LSN,
            headless: false,
            bad: false,
            stable: 0,
        };
        let (first, third, later) = (segment(10, 4), segment(12, 6), segment(20, 5));
        assert!(lost(&first, &third, &[first, third]));
        assert!(!lost(&first, &third, &[first, third, later]), "the place was given to a later segment");
        let unknown = Segment { headless: true, ..later };
        assert!(lost(&first, &third, &[first, third, unknown]));
        let far = segment(13, 7);
        assert!(lost(&first, &far, &[first, far, later]), "one of two was given to a later segment");
        assert!(!lost(&first, &segment(11, 5), &[first]), "they are neighbours");
        assert!(!lost(&first, &segment(12, 9), &[first]), "nothing tells where the missing one stood");
    }
}
