//! The events of a log or of a stream that can be read: newest first, in pieces from the end, so that a caller stops when it has enough
//! there; or oldest first, for what can only be judged in order.

use std::ops::ControlFlow;

use proto_events::id::{Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::views::event_row::{EventRow, event_rows};

/// The events of a piece. A piece is read forward, page by page, and only what `pick` makes of it is kept.
const PIECE_EVENTS: u64 = 1_000;

/// The events of a piece of a pass from the beginning: nothing of it is kept, so it may be longer, and fewer pages are read
/// beyond its end. Behind damage it is read record by record.
const FORWARD_EVENTS: u64 = 16_000;

/// Shows `visit` what `pick` makes of the events of the log, or of one stream, newest first, until it answers `Break`. Records
/// that are damaged are left out; the errors are returned, newest first, at most one for each piece that is read.
///
/// # Errors
/// The error of `visit`, or a converted [`ReadError`] that is not the damage of one record.
pub(crate) fn newest_first<T, E: From<ReadError>>(
    reader: &dyn EventReader,
    of: Option<&StreamId>,
    mut pick: impl FnMut(&EventRow) -> Option<T>,
    mut visit: impl FnMut(T) -> Result<ControlFlow<()>, E>,
) -> Result<Vec<ReadError>, E> {
    let mut end = end_of(reader, of)?;
    let mut damage = Vec::new();
    while end > 0 {
        let begin = end.saturating_sub(PIECE_EVENTS - 1).max(1);
        let mut piece = StreamPiece { reader, of, begin, end, picked: Vec::new(), damage: None };
        piece.read(&mut pick)?;
        damage.extend(piece.damage);
        for picked in piece.picked.into_iter().rev() {
            if visit(picked)?.is_break() {
                return Ok(damage);
            }
        }
        end = begin - 1;
    }
    Ok(damage)
}

/// Shows `visit` the events of the log, or of one stream, oldest first, up to its end at the time of the call. Records that are
/// damaged are left out.
///
/// # Errors
/// [`ReadError`] that is not the damage of one record.
pub(crate) fn oldest_first(
    reader: &dyn EventReader,
    of: Option<&StreamId>,
    mut visit: impl FnMut(&EventRow),
) -> Result<(), ReadError> {
    let (mut begin, last) = (1, end_of(reader, of)?);
    while begin <= last {
        let end = last.min(begin.saturating_add(FORWARD_EVENTS - 1));
        let mut piece = StreamPiece { reader, of, begin, end, picked: Vec::new(), damage: None };
        piece.read(&mut |row: &EventRow| {
            visit(row);
            None::<()>
        })?;
        begin = end.saturating_add(1);
    }
    Ok(())
}

/// Returns the last position of the log, or the last version of a stream.
fn end_of(reader: &dyn EventReader, of: Option<&StreamId>) -> Result<u64, ReadError> {
    match of {
        None => reader.head().map(|head| head.0),
        Some(stream) => reader.stream_version(stream).map(|version| version.0),
    }
}

/// The events between two places of the log or of a stream.
struct StreamPiece<'a, T> {
    reader: &'a dyn EventReader,
    of: Option<&'a StreamId>,
    begin: u64,
    end: u64,
    picked: Vec<T>,
    damage: Option<ReadError>,
}

impl<T> StreamPiece<'_, T> {
    fn read(&mut self, pick: &mut impl FnMut(&EventRow) -> Option<T>) -> Result<(), ReadError> {
        let (mut next, mut page) = (self.begin, Page::default());
        while next <= self.end {
            let read = match self.of {
                None => self.reader.page_all(Position(next), page),
                Some(stream) => self.reader.page_stream(stream, Version(next), page),
            };
            match read {
                Ok(records) => {
                    let Some(last) = records.last().map(|last| self.last_position(last)) else {
                        return Ok(());
                    };
                    self.pick(&records, pick);
                    next = last + 1;
                }
                // One record after another from here on, so that only what is damaged is left out.
                Err(ReadError::Corrupt { .. } | ReadError::Newer { .. }) if page.records > 1 => {
                    page = Page::with_limit(1);
                }
                Err(error @ (ReadError::Corrupt { .. } | ReadError::Newer { .. })) => {
                    self.damage = Some(error);
                    next += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the place of the last event of a record.
    fn last_position(&self, stored: &StoredRecord) -> u64 {
        if self.of.is_none() { stored.last_position().0 } else { stored.record.last_version().0 }
    }

    fn pick(&mut self, records: &[StoredRecord], pick: &mut impl FnMut(&EventRow) -> Option<T>) {
        for row in records.iter().flat_map(event_rows) {
            let at = if self.of.is_none() { row.position.0 } else { row.version.0 };
            // The first record may begin before the piece, the last one may end behind it.
            if (self.begin..=self.end).contains(&at) {
                self.picked.extend(pick(&row));
            }
        }
    }
}
