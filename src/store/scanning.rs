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
        let scanned =
            Scanned { position: located.position, hash: located.entry.hash, record: located.view };
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
