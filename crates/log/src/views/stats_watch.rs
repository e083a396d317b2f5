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
/// ones only: all calls first, then tools, models, agents, sessions, by name. What is written meanwhile is not counted. What
/// follows in a stream from an event of a newer release is left out, and the event is named.
///
/// # Errors
/// [`ReadError`] if a record or an event cannot be read.
pub fn stats_of(
    reader: &dyn EventReader,
    filter: Filter,
    limit: Option<usize>,
) -> Result<Readable<StatsRow>, ReadError> {
    // The same for both passes: a program may write all the time.
    let end = reader.head()?;
    let skipped = match limit {
        None => 0,
        // The number of all is known after a pass of its own.
        Some(limit) => {
            let all = take_all(reader, Stats::new(filter.clone(), u64::MAX), end)?;
            all.stats.taken.saturating_sub(limit as u64)
        }
    };
    let StatsWatch { stats, newer, .. } = take_all(reader, Stats::new(filter, skipped), end)?;
    Ok(Readable { rows: stats.rows(), newer })
}

/// Takes the events of a log up to a position.
fn take_all(reader: &dyn EventReader, stats: Stats, end: Position) -> Result<StatsWatch, ReadError> {
    let mut all = StatsWatch::from_stats(stats);
    all.read_on(reader, end)?;
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
    fn from_stats(stats: Stats) -> Self {
        Self { stats, ..Self::default() }
    }

    /// Reads what is new in the log, and returns the sums, as [`stats`] does. `reader` is always one of the same
    /// log.
    ///
    /// # Errors
    /// [`ReadError`] if a record or an event cannot be read.
    pub fn now(&mut self, reader: &dyn EventReader) -> Result<Readable<StatsRow>, ReadError> {
        if let Err(error) = self.read_on(reader, Position(u64::MAX)) {
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

    /// Reads what is new in the log, up to a position at which a record ends.
    fn read_on(&mut self, reader: &dyn EventReader, end: Position) -> Result<(), ReadError> {
        if self.read == Position(0) {
            let decoded = |stored: StoredRecord| (event_rows(&stored), stored);
            return for_each_mapped(reader, decoded, |(rows, stored)| self.take_to(end, rows, &stored));
        }
        if reader.head()? <= self.read {
            return Ok(());
        }
        for_each_page(reader, Position(self.read.0.saturating_add(1)), |page| {
            for stored in &page {
                if self.take_to(end, event_rows(stored), stored)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Takes a record that is not behind `end`, and breaks there.
    fn take_to(
        &mut self,
        end: Position,
        rows: Vec<EventRow>,
        stored: &StoredRecord,
    ) -> Result<ControlFlow<()>, ReadError> {
        if stored.position <= end {
            self.accept_record(rows, stored)?;
        }
        let is_end = stored.last_position() >= end;
        Ok(if is_end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn accept_record(&mut self, rows: Vec<EventRow>, stored: &StoredRecord) -> Result<(), ReadError> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use proto_events::call::{CallEvent, CallKind, CallOrigin};
    use proto_events::task::TaskEvent;

    use super::*;
    use crate::api::page::Page;
    use crate::api::store::EventStore;
    use crate::memory::MemoryStore;
    use crate::testing::{DelegatingStore, Overrides};
    use crate::views::sample;
    use crate::views::stats::StatsGroup;

    /// A program that writes a task with this number, and the next one, before each page of its log is read; none from 1,100 on.
    struct Writing(AtomicU64);

    impl Overrides for Writing {
        fn page_all(
            &self,
            log: &dyn EventStore,
            from: Position,
            page: Page,
        ) -> Result<Vec<StoredRecord>, ReadError> {
            let number = self.0.fetch_add(1, Ordering::SeqCst);
            if number < 1_100 {
                sample::append(log, number, &called("later"));
            }
            log.page_all(from, page)
        }
    }

    fn called(tool: &str) -> [TaskEvent; 1] {
        let request = sample::requested("c1", CallKind::Tool, tool, CallOrigin::default());
        [TaskEvent::Call(CallEvent::Requested(Box::new(request)))]
    }

    #[test]
    fn the_newest_calls_of_a_log_that_is_being_written_are_those_before_its_end_at_the_beginning() {
        for (limit, calls) in [(None, 300), (Some(2), 2), (Some(400), 300)] {
            let store = Arc::new(MemoryStore::new());
            // More than a page.
            for number in 1..=300 {
                sample::append(&*store, number, &called("before"));
            }
            let log = DelegatingStore::new(store, Writing(AtomicU64::new(1_000)));
            let rows = stats_of(&log, Filter::default(), limit).unwrap().rows;
            let all = rows.iter().find(|row| row.group == StatsGroup::All).unwrap();
            assert_eq!(all.calls, calls, "{limit:?}");
            assert!(rows.iter().all(|row| row.name.as_deref() != Some("later")), "{limit:?}: {rows:?}");
        }
    }
}
