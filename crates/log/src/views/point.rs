//! A point of a stream as people name it: by version, by position in the log, by time, or counted from the end.

use std::ops::ControlFlow;

use proto_events::envelope::Timestamp;
use proto_events::id::{Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::api::scan::Compare;

/// A point of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Point {
    /// After this event of the stream.
    Version(Version),
    /// After the newest event of the stream up to this position of the log.
    Position(Position),
    /// After the newest event of the stream that was accepted up to this time.
    Time(Timestamp),
    /// So many events before the newest one.
    BeforeEnd(u64),
}

/// The reason why a stream has no such point.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointError {
    /// The stream, or the log, begins later.
    #[error("it begins after that")]
    BeforeBegin,
    /// The stream ends before.
    #[error("it has {0} events; its versions are 1 to {0}")]
    NoVersion(Version),
    /// A version is a place in one stream, and the whole log was asked.
    #[error("a version is a place in one task, session or tool, not in the whole log")]
    OfOneStream,
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Returns the position of the whole log at a point: that of its newest event then.
///
/// # Errors
/// [`PointError`] if the log has no such point, or cannot be read.
pub fn position_at(reader: &dyn EventReader, point: Point) -> Result<Position, PointError> {
    let end = reader.head()?;
    let found = match point {
        Point::Version(_) => return Err(PointError::OfOneStream),
        Point::Position(position) => Some(position.min(end)),
        Point::BeforeEnd(events) => end.0.checked_sub(events).map(Position),
        Point::Time(time) => {
            // To the end: the clock of a machine may have been set back.
            let mut found = None;
            reader.scan(Position(1), Compare::Checksums, &mut |scanned| {
                if scanned.record.at <= time {
                    found = Some(scanned.last_position());
                }
                Ok(ControlFlow::Continue(()))
            })?;
            found
        }
    };
    found.filter(|found| found.0 > 0).ok_or(PointError::BeforeBegin)
}

/// Returns the version of a stream at a point.
///
/// # Errors
/// [`PointError`] if the stream has no such point, or cannot be read.
pub fn version_at(reader: &dyn EventReader, stream: &StreamId, point: Point) -> Result<Version, PointError> {
    let end = reader.stream_version(stream)?;
    match point {
        Point::Version(version) if version.0 == 0 || version > end => Err(PointError::NoVersion(end)),
        Point::Version(version) => Ok(version),
        Point::BeforeEnd(events) => {
            let version = end.0.checked_sub(events).filter(|version| *version > 0);
            version.map(Version).ok_or(PointError::NoVersion(end))
        }
        Point::Position(position) => at_position(reader, stream, end, position),
        Point::Time(time) => at_time(reader, stream, time),
    }
}

fn at_position(
    reader: &dyn EventReader,
    stream: &StreamId,
    end: Version,
    position: Position,
) -> Result<Version, PointError> {
    let known = version_up_to(reader, stream, end, position)?;
    if known == Version(0) { Err(PointError::BeforeBegin) } else { Ok(known) }
}

/// Looks for the last version of a stream up to a position by halving: positions grow with versions. It is 0 where the stream
/// begins later. `end` is the stream's last version, at which the search begins: of most streams nothing is later.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read.
pub(crate) fn version_up_to(
    reader: &dyn EventReader,
    stream: &StreamId,
    end: Version,
    position: Position,
) -> Result<Version, ReadError> {
    let (mut known, mut beyond) = (0, end.0.saturating_add(1));
    let mut is_first = true;
    while beyond - known > 1 {
        let middle = if is_first { end.0 } else { known + (beyond - known) / 2 };
        is_first = false;
        let read = reader.read_stream(stream, Version(middle), 1)?;
        let Some(stored) = read.first() else { break };
        let place = stored.position.0 + middle.saturating_sub(stored.record.first_version.0);
        if place <= position.0 {
            known = middle;
        } else {
            beyond = middle;
        }
    }
    Ok(Version(known))
}

/// Looks for the last version up to a time record by record: the clock of a machine may have been set back.
fn at_time(reader: &dyn EventReader, stream: &StreamId, time: Timestamp) -> Result<Version, PointError> {
    let mut found = None;
    for_each_page_of(reader, stream, Version(1), |page| {
        let until = page.iter().rev().find(|stored| stored.record.metadata.at <= time);
        found = until.map(|stored| stored.record.last_version()).or(found);
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    found.ok_or(PointError::BeforeBegin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonl::JsonLines;
    use crate::views::event_row::event_rows;

    #[test]
    fn each_way_to_name_a_point_leads_to_the_version_that_a_walk_finds() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v2/varied.ndjson");
        let log = JsonLines::open(golden).unwrap();
        let mut streams = Vec::new();
        crate::read::for_each::for_each_stream(&log, "", |info| streams.push(info)).unwrap();
        assert!(streams.len() > 3);
        for info in streams {
            let mut rows = Vec::new();
            for_each_page_of(&log, &info.stream, Version(1), |page| {
                rows.extend(page.iter().flat_map(event_rows));
                Ok::<_, ReadError>(ControlFlow::Continue(()))
            })
            .unwrap();
            let at = |point| version_at(&log, &info.stream, point).ok();
            for position in 0..=log.head().unwrap().0 + 1 {
                let by_hand = rows.iter().rev().find(|row| row.position.0 <= position).map(|row| row.version);
                assert_eq!(at(Point::Position(Position(position))), by_hand, "{} at {position}", info.stream);
            }
            for row in &rows {
                for time in [row.at, Timestamp(row.at.0 - 1)] {
                    let by_hand = rows.iter().rev().find(|row| row.at <= time).map(|row| row.version);
                    assert_eq!(at(Point::Time(time)), by_hand, "{} at {time}", info.stream);
                }
                assert_eq!(at(Point::Version(row.version)), Some(row.version));
                assert_eq!(at(Point::BeforeEnd(info.version.0 - row.version.0)), Some(row.version));
            }
            assert_eq!(at(Point::BeforeEnd(info.version.0)), None);
            assert_eq!(at(Point::Version(Version(info.version.0 + 1))), None);
        }
    }

    #[test]
    fn a_point_of_the_whole_log_is_the_position_that_a_walk_finds() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v2/varied.ndjson");
        let log = JsonLines::open(golden).unwrap();
        let (end, mut rows) = (log.head().unwrap(), Vec::new());
        crate::api::reader::for_each_page(&log, Position(1), |page| {
            rows.extend(page.iter().flat_map(event_rows));
            Ok::<_, ReadError>(ControlFlow::Continue(()))
        })
        .unwrap();
        let at = |point| position_at(&log, point).ok();
        for row in &rows {
            assert_eq!(at(Point::Position(row.position)), Some(row.position));
            assert_eq!(at(Point::BeforeEnd(end.0 - row.position.0)), Some(row.position));
            for time in [row.at, Timestamp(row.at.0 - 1)] {
                let by_hand = rows.iter().rev().find(|row| row.at <= time).map(|row| row.position);
                assert_eq!(at(Point::Time(time)), by_hand, "at {time}");
            }
        }
        assert_eq!(at(Point::Position(Position(u64::MAX))), Some(end));
        assert_eq!((at(Point::BeforeEnd(end.0)), at(Point::Position(Position(0)))), (None, None));
        assert!(matches!(position_at(&log, Point::Version(Version(1))), Err(PointError::OfOneStream)));
    }
}
