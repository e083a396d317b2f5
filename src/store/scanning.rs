//! Going through the log without copying it: records shown where they stand, in order of position.

use std::ops::ControlFlow;

use proto_events::codec::record::RecordView;
use proto_events::id::{Digest, Position, StreamId};

use super::reading::{Located, walk};
use super::{EventReader, ReadError, StoredRecord};

/// What a scan compares before it shows a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// The checksum of the value that the record stands in: notices damage, not tampering.
    Checksums,
    /// Its leaf hash and its bodies' digests too, as every other reading does.
    Hashes,
}

/// A record as a scan shows it, borrowed from the log.
#[derive(Debug, Clone, Copy)]
pub struct Scanned<'a> {
    /// Position of its first event.
    pub position: Position,
    /// The leaf hash that was stored with it.
    pub hash: Digest,
    /// Its header, and its events by [`RecordView::events`]. A body that stands in chunks is not shown: whoever needs
    /// it reads the record.
    pub record: RecordView<'a>,
}

/// What a scan is told by whom it shows a record to: to go on or to end, or what was wrong.
pub type Look = Result<ControlFlow<()>, ReadError>;

impl Scanned<'_> {
    /// Position of its last event.
    pub fn last_position(&self) -> Position {
        Position(self.position.0.saturating_add(u64::from(self.record.event_count) - 1))
    }

    /// An error that names this record's place.
    pub fn corrupt(&self, what: impl Into<String>) -> ReadError {
        ReadError::Corrupt {
            what: what.into(),
            stream: StreamId::parse(self.record.stream).ok(),
            version: Some(self.record.first_version),
            position: Some(self.position),
        }
    }

    /// Compares leaf hash and bodies with what was stored. Answers whether it could: not, if a body stands in chunks.
    fn compare(&self) -> Result<bool, ReadError> {
        if self.record.leaf_hash() != self.hash {
            return Err(self.corrupt("the record's leaf hash is not the one stored with it"));
        }
        for (number, event) in self.record.events().enumerate() {
            let event = event.map_err(|error| self.corrupt(error.to_string()))?;
            if event.body.is_none() {
                return Ok(false);
            }
            if !event.matches_digest() {
                let what = "does not have the digest that the record holds for it";
                return Err(self.corrupt(format!("the body of event {number} {what}")));
            }
        }
        Ok(true)
    }
}

/// Shows the records of one value that hold events from a position on. `whole` compares a record with chunks.
pub(super) fn scan_value(
    (ordinal, bytes): (u64, &[u8]),
    from: Position,
    compare: Compare,
    whole: &dyn Fn(&Located<'_>) -> Result<(), ReadError>,
    look: &mut dyn FnMut(&Scanned<'_>) -> Look,
) -> Look {
    for located in walk(bytes, ordinal)? {
        let located = located?;
        if located.last_position() < from {
            continue;
        }
        let scanned = Scanned { position: located.position, hash: located.entry.hash, record: located.view };
        if compare == Compare::Hashes && !scanned.compare()? {
            whole(&located)?;
        }
        if look(&scanned)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// A scan for readers that have nothing better: page by page.
pub(super) fn scan_pages<R: EventReader + ?Sized>(
    reader: &R,
    from: Position,
    look: &mut dyn FnMut(&Scanned<'_>) -> Look,
) -> Result<(), ReadError> {
    /// Records read at a time.
    const PAGE_RECORDS: usize = 256;
    let mut next = from;
    loop {
        let page = reader.read_all(next, PAGE_RECORDS)?;
        let Some(last) = page.last() else { return Ok(()) };
        next = Position(last.last_position().0.saturating_add(1));
        for stored in &page {
            if look(&scanned(stored)?)?.is_break() {
                return Ok(());
            }
        }
    }
}

fn scanned(stored: &StoredRecord) -> Result<Scanned<'_>, ReadError> {
    let wrong = |error: proto_events::codec::record::RecordError| {
        ReadError::corrupt(error.to_string(), Some(stored.position))
    };
    let record = RecordView::peek(&stored.bytes).map_err(wrong)?;
    Ok(Scanned { position: stored.position, hash: stored.hash, record })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RECORD_BYTES_MAX;
    use crate::store::conformance::draft;
    use crate::store::value::ValueBuilder;

    /// A value of three records; the last has a body in chunks.
    fn value() -> Vec<u8> {
        let mut builder = ValueBuilder::new();
        for body in [vec![1; 10], vec![2; 20], vec![3; 2 * RECORD_BYTES_MAX]] {
            builder.push(&draft("task-a/b", 1, &body).encode_within(RECORD_BYTES_MAX).unwrap());
        }
        builder.finish(Position(1), false).to_vec()
    }

    /// The lengths of the bodies that a scan shows, and how often it asked for a comparison with chunks.
    fn scan(value: &[u8], compare: Compare) -> (Vec<Option<usize>>, u32, Look) {
        let (mut shown, asked) = (Vec::new(), std::cell::Cell::new(0));
        let whole = |_: &Located<'_>| {
            asked.set(asked.get() + 1);
            Ok(())
        };
        let ended = scan_value((0, value), Position(1), compare, &whole, &mut |scanned| {
            shown.extend(scanned.record.events().map(|event| event.unwrap().body.map(<[u8]>::len)));
            Ok(ControlFlow::Continue(()))
        });
        (shown, asked.get(), ended)
    }

    #[test]
    fn a_body_in_chunks_is_not_shown_and_is_compared_where_hashes_are() {
        let shown = vec![Some(10), Some(20), None];
        assert_eq!(scan(&value(), Compare::Hashes), (shown.clone(), 1, Ok(ControlFlow::Continue(()))));
        assert_eq!(scan(&value(), Compare::Checksums), (shown, 0, Ok(ControlFlow::Continue(()))));
    }

    #[test]
    fn what_was_changed_under_a_right_checksum_is_noticed_by_the_hashes_only() {
        let good = value();
        // From the second record's leaf hash to its end: all that its hashes cover, its own length apart.
        let first = u32::from_be_bytes(*good[16..].first_chunk().unwrap()) as usize;
        let begin = 16 + 36 + first;
        let second = u32::from_be_bytes(*good[begin..].first_chunk().unwrap()) as usize;
        for at in begin + 4..begin + 36 + second {
            let mut bad = good.clone();
            bad[at] ^= 1;
            let checksum = crc32c::crc32c(&bad[4..]);
            bad[..4].copy_from_slice(&checksum.to_be_bytes());
            let (shown, _, ended) = scan(&bad, Compare::Hashes);
            assert!(ended.is_err() && shown.len() == 1, "byte {at}");
        }
        let mut torn = good.clone();
        torn[begin + 40] ^= 1;
        assert!(scan(&torn, Compare::Checksums).2.is_err());
    }
}
