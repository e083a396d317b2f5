//! The runner of projections.

use std::ops::Range;

use proto_events::codec::AnyEvent;
use proto_events::envelope::Metadata;
use proto_events::id::{Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::limits::READ_PAGE_RECORDS;
use crate::projection::model::{
    ApplyError, Cursor, ParkedEvent, ProjectedEvent, Projection, ProjectionError, ProjectionStore, Slot,
};
use crate::read::fold::decode_event;

/// A runner of projections over one log.
#[derive(Debug, Clone)]
pub struct Runner {
    log: String,
    page: usize,
}

/// The progress of a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The position of the last event in the live output.
    pub position: Position,
    /// The last position of the log.
    pub head: Position,
    /// The position that a rebuilding has reached, if one is under way.
    pub rebuilt: Option<Position>,
    /// The number of events that were parked in this run.
    pub parked: u64,
}

impl Progress {
    /// Returns the number of events that the live output lags behind the log.
    pub fn lag(&self) -> u64 {
        self.head.0.saturating_sub(self.position.0)
    }
}

/// An event of a page, decoded.
struct DecodedEvent {
    stream: StreamId,
    metadata: Metadata,
    at: (Version, Position),
    event: AnyEvent,
}

/// The output that is worked on.
struct Work {
    slot: Slot,
    cursor: Cursor,
    /// The log's end, as it was read after the cursor.
    head: Position,
}

type Outcome<T, S> = Result<T, ProjectionError<<S as ProjectionStore>::Error>>;

impl Runner {
    /// Creates a runner over a log. `log` names it, as its id does: a projection of another log is refused.
    pub fn new(log: impl Into<String>) -> Self {
        Self { log: log.into(), page: READ_PAGE_RECORDS }
    }

    /// Sets the number of records that are applied in one transaction, by default 256; zero counts as one.
    #[must_use]
    pub fn records_at_once(self, records: usize) -> Self {
        Self { page: records.max(1), ..self }
    }

    /// Applies what the log has and the projection has not. Blocks: call it on the blocking pool, again after each delivery
    /// of a [`Subscription`](crate::read::Subscription).
    ///
    /// # Errors
    /// [`ProjectionError`]; what was committed before stays.
    pub fn catch_up<S: ProjectionStore, P: Projection<S>>(
        &self,
        log: &dyn EventReader,
        store: &mut S,
        projection: &mut P,
    ) -> Outcome<Progress, S> {
        let mut parked = 0;
        loop {
            let Work { slot, cursor, head } = self.work(log, store, projection)?;
            let events = self.events_after(log, cursor.position)?;
            if !events.is_empty() {
                parked += apply_page(store, projection, slot, cursor, &events)?;
            } else if slot == Slot::Shadow {
                in_tx(store, projection.name().to_owned(), |tx, name| {
                    if S::cursor(tx, name, Slot::Shadow)?.as_ref() != Some(&cursor) {
                        // Another runner has promoted it, or goes on with it.
                        return Ok(());
                    }
                    projection.promote(tx)?;
                    S::promote_parked(tx, name)?;
                    S::put_cursor(tx, name, Slot::Live, Some(&cursor))?;
                    S::put_cursor(tx, name, Slot::Shadow, None)
                })?;
            } else {
                return Ok(Progress { position: cursor.position, head, rebuilt: None, parked });
            }
        }
    }

    /// Returns how far a projection is, without work on it.
    ///
    /// # Errors
    /// [`ProjectionError`] if log or database cannot be read.
    pub fn progress<S: ProjectionStore, P: Projection<S>>(
        &self,
        log: &dyn EventReader,
        store: &mut S,
        projection: &P,
    ) -> Outcome<Progress, S> {
        let (live, shadow) = in_tx(store, projection.name().to_owned(), |tx, name| {
            Ok((S::cursor(tx, name, Slot::Live)?, S::cursor(tx, name, Slot::Shadow)?))
        })?;
        let head = log.head()?;
        let position = live.map_or(Position(0), |cursor| cursor.position);
        Ok(Progress { position, head, rebuilt: shadow.map(|cursor| cursor.position), parked: 0 })
    }

    /// Returns the output to work on, which is created if it is missing.
    fn work<S: ProjectionStore, P: Projection<S>>(
        &self,
        log: &dyn EventReader,
        store: &mut S,
        projection: &mut P,
    ) -> Outcome<Work, S> {
        let (name, revision) = (projection.name().to_owned(), projection.revision());
        let begin = Cursor { log: self.log.clone(), revision, position: Position(0) };
        let (slot, cursor) = in_tx(store, name.clone(), |tx, name| {
            let live = S::cursor(tx, name, Slot::Live)?;
            let slot = match live {
                // That of another log is refused below, whatever its revision.
                Some(cursor) if cursor.revision == revision || cursor.log != self.log => {
                    return Ok((Slot::Live, cursor));
                }
                Some(_) => Slot::Shadow,
                None => Slot::Live,
            };
            if let Some(cursor) = S::cursor(tx, name, slot)?.filter(|cursor| cursor.revision == revision) {
                return Ok((slot, cursor));
            }
            projection.create(tx, slot)?;
            S::clear_parked(tx, name, slot)?;
            S::put_cursor(tx, name, slot, Some(&begin))?;
            Ok((slot, begin.clone()))
        })?;
        if cursor.log != self.log {
            return Err(ProjectionError::OtherLog { name, made_from: cursor.log, log: self.log.clone() });
        }
        // Read after the cursor: while this runner waited for the database, another one may have gone on.
        let head = log.head()?;
        if cursor.position > head {
            return Err(ProjectionError::Ahead { name, cursor: cursor.position, head });
        }
        Ok(Work { slot, cursor, head })
    }

    /// Reads the next page of events.
    fn events_after(&self, log: &dyn EventReader, after: Position) -> Result<Vec<DecodedEvent>, ReadError> {
        let mut events = Vec::new();
        for stored in log.page_all(Position(after.0 + 1), Page { records: self.page, ..Page::default() })? {
            let record = &stored.record;
            for (number, _) in (0..).zip(&record.events) {
                let position = Position(stored.position.0 + number);
                // The first record may begin before the page.
                if position > after {
                    let version = Version(record.first_version.0 + number);
                    let event = decode_event(&stored, version)?;
                    let (stream, metadata) = (record.stream.clone(), record.metadata.clone());
                    events.push(DecodedEvent { stream, metadata, at: (version, position), event });
                }
            }
        }
        Ok(events)
    }
}

/// Applies a page of events: as many as possible in one transaction. Returns the number of parked ones.
fn apply_page<S: ProjectionStore, P: Projection<S>>(
    store: &mut S,
    projection: &mut P,
    slot: Slot,
    mut cursor: Cursor,
    events: &[DecodedEvent],
) -> Outcome<u64, S> {
    let (mut begin, mut end, mut parked) = (0, events.len(), 0);
    while begin < events.len() {
        match apply(store, projection, slot, &cursor, events, begin..end)? {
            ApplyEnd::To(reached) => {
                cursor.position = reached;
                (begin, end) = (end, events.len());
            }
            ApplyEnd::Poison(poison, reason) if poison == begin => {
                let Some(event) = events.get(poison) else { return Ok(parked) };
                if !park(store, projection, slot, &cursor, event, reason)? {
                    return Ok(parked);
                }
                cursor.position = event.at.1;
                parked += 1;
                (begin, end) = (begin + 1, events.len());
            }
            // The transaction was undone: those before the poison are applied alone.
            ApplyEnd::Poison(poison, _) => end = poison,
            // What that runner has not applied is read again.
            ApplyEnd::ByAnother => return Ok(parked),
        }
    }
    Ok(parked)
}

/// The end of a transaction.
enum ApplyEnd {
    /// All was written, up to this position.
    To(Position),
    /// A poison: the event with this number cannot be applied, for this reason. Nothing was written.
    Poison(usize, String),
    /// A stop before anything was written: another runner of the projection has gone on since the events were read.
    ByAnother,
}

/// Applies these events in one transaction, if the cursor still stands where they begin.
fn apply<S: ProjectionStore, P: Projection<S>>(
    store: &mut S,
    projection: &mut P,
    slot: Slot,
    cursor: &Cursor,
    events: &[DecodedEvent],
    range: Range<usize>,
) -> Outcome<ApplyEnd, S> {
    let name = projection.name().to_owned();
    let failed = |source| ProjectionError::Store { name: name.clone(), source };
    let mut tx = store.begin().map_err(failed)?;
    if S::cursor(&mut tx, &name, slot).map_err(failed)?.as_ref() != Some(cursor) {
        return Ok(ApplyEnd::ByAnother);
    }
    let mut last = cursor.position;
    for (number, decoded) in events.iter().enumerate().take(range.end).skip(range.start) {
        let DecodedEvent { stream, metadata, at, event } = decoded;
        let event = ProjectedEvent::new(stream, metadata, *at, event, slot);
        match projection.apply(&mut tx, &event) {
            Ok(()) => last = at.1,
            Err(ApplyError::Poison(reason)) => return Ok(ApplyEnd::Poison(number, reason)),
            Err(ApplyError::Store(source)) => return Err(failed(source)),
        }
    }
    let reached = Cursor { position: last, ..cursor.clone() };
    S::put_cursor(&mut tx, &name, slot, Some(&reached)).map_err(failed)?;
    S::commit(tx).map_err(failed)?;
    Ok(ApplyEnd::To(last))
}

/// Keeps an event that cannot be applied, and goes on after it. Returns whether the cursor still stood before it.
fn park<S: ProjectionStore, P: Projection<S>>(
    store: &mut S,
    projection: &P,
    slot: Slot,
    cursor: &Cursor,
    event: &DecodedEvent,
    reason: String,
) -> Outcome<bool, S> {
    let DecodedEvent { stream, at: (version, position), .. } = event;
    tracing::warn!(projection = projection.name(), %position, reason, "an event was parked");
    let parked = ParkedEvent { position: *position, stream: stream.clone(), version: *version, reason };
    let reached = Cursor { position: *position, ..cursor.clone() };
    in_tx(store, projection.name().to_owned(), |tx, name| {
        if S::cursor(tx, name, slot)?.as_ref() != Some(cursor) {
            return Ok(false);
        }
        S::park(tx, name, slot, &parked)?;
        S::put_cursor(tx, name, slot, Some(&reached))?;
        Ok(true)
    })
}

/// Works in a transaction, and commits it.
fn in_tx<S: ProjectionStore, T>(
    store: &mut S,
    name: String,
    work: impl FnOnce(&mut S::Tx<'_>, &str) -> Result<T, S::Error>,
) -> Outcome<T, S> {
    let done = (|| {
        let mut tx = store.begin()?;
        let done = work(&mut tx, &name)?;
        S::commit(tx)?;
        Ok(done)
    })();
    done.map_err(|source| ProjectionError::Store { name, source })
}
