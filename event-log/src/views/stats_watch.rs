//! The sums over the calls of a log, made by one pass over it, or kept between looks: then the first look reads the log, a later
//! one what is new in it.

use std::collections::HashSet;
use std::ops::ControlFlow;

use proto_events::id::{Position, StreamId};

use crate::api::error::ReadError;
use crate::api::in_pieces::for_each_mapped;
use crate::api::reader::{EventReader, for_each_page};
use crate::api::record::StoredRecord;
use crate::read::fold::decode_event;
use crate::views::event_row::{EventRow, event_rows};
use crate::views::filter::Filter;
use crate::views::readable::Readable;
use crate::views::stats::{Stats, StatsRow};

/// Returns the sums over a whole log, as [`stats_of`] does over a part of it.
///
/// # Errors
/// [`ReadError`] if a record or an event cannot be read.
pub fn stats(reader: &dyn EventReader) -> Result<Readable<StatsRow>, ReadError> {
    stats_of(reader, Filter::default(), None)
}

/// Returns the sums over the calls of a log that a filter takes, each by the time of its intent, with a limit over the newest
/// ones only: all calls first, then tools, models, agents, sessions, by name. What follows in a stream from an event of a newer
/// release is left out, and the event is named.
///
/// # Errors
/// [`ReadError`] if a record or an event cannot be read.
pub fn stats_of(
    reader: &dyn EventReader,
    filter: Filter,
    limit: Option<usize>,
) -> Result<Readable<StatsRow>, ReadError> {
    let skipped = match limit {
        None => 0,
        // The number of all is known after a pass of its own.
        Some(limit) => {
            let all = take_all(reader, Stats::of(filter.clone(), u64::MAX))?;
            all.stats.taken.saturating_sub(limit as u64)
        }
    };
    let StatsWatch { stats, newer, .. } = take_all(reader, Stats::of(filter, skipped))?;
    Ok(Readable { rows: stats.rows(), newer })
}

/// Takes all events of a log.
fn take_all(reader: &dyn EventReader, stats: Stats) -> Result<StatsWatch, ReadError> {
    let mut all = StatsWatch::of(stats);
    all.read_on(reader)?;
    Ok(all)
}

/// The sums over the calls of a log, as far as it was read.
#[derive(Debug, Default)]
pub struct StatsWatch {
    stats: Stats,
    /// The errors that name an event of a newer release, one for each stream that is left out from it on.
    newer: Vec<ReadError>,
    left_out: HashSet<StreamId>,
    /// The position up to which the log was read.
    read: Position,
}

impl StatsWatch {
    /// Returns the sums of a log of which nothing was read.
    fn of(stats: Stats) -> Self {
        Self { stats, ..Self::default() }
    }

    /// Reads what is new in the log, and returns the sums, as [`stats`] does. `reader` is always one of the same
    /// log.
    ///
    /// # Errors
    /// [`ReadError`] if a record or an event cannot be read.
    pub fn now(&mut self, reader: &dyn EventReader) -> Result<Readable<StatsRow>, ReadError> {
        if let Err(error) = self.read_on(reader) {
            // Half of a damaged record may have been counted. Where nobody waits any more, what was read stays.
            if !matches!(error, ReadError::Closed) {
                *self = Self::default();
            }
            return Err(error);
        }
        let mut rows: Vec<StatsRow> = self.stats.rows.values().cloned().collect();
        for row in &mut rows {
            row.durations.0.sort_unstable();
        }
        Ok(Readable { rows, newer: self.newer.clone() })
    }

    /// Reads what is new in the log.
    fn read_on(&mut self, reader: &dyn EventReader) -> Result<(), ReadError> {
        let goes_on = |taken: Result<(), ReadError>| taken.map(ControlFlow::Continue);
        if self.read == Position(0) {
            let decoded = |stored: StoredRecord| (event_rows(&stored), stored);
            return for_each_mapped(reader, decoded, |(rows, stored)| goes_on(self.take(rows, &stored)));
        }
        if reader.head()? <= self.read {
            return Ok(());
        }
        for_each_page(reader, Position(self.read.0.saturating_add(1)), |page| {
            goes_on(page.iter().try_for_each(|stored| self.take(event_rows(stored), stored)))
        })
    }

    fn take(&mut self, rows: Vec<EventRow>, stored: &StoredRecord) -> Result<(), ReadError> {
        self.read = stored.last_position();
        if self.left_out.contains(&stored.record.stream) {
            return Ok(());
        }
        for row in rows {
            if row.event.is_ok() {
                self.stats.take(&row);
                continue;
            }
            match decode_event(stored, row.version) {
                Err(error @ ReadError::Newer { .. }) => self.newer.push(error),
                other => drop(other?),
            }
            self.left_out.insert(row.stream);
            break;
        }
        Ok(())
    }
}
