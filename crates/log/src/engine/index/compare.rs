//! The comparison of the index with the log: every slot, link and landmark, the ends of streams, and the open work.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use proto_events::codec::record::RecordView;
use proto_events::id::{Position, StreamId};

use crate::api::error::ReadError;
use crate::api::open_work::work_change_in;
use crate::engine::index::Index;
use crate::engine::index::stream_listing::STREAMS_AT_A_TIME;
use crate::engine::index::walk::Ask;
use crate::engine::located_records::located_records;
use crate::engine::slot::{IndexedRecord, NO_SLOT, RecordSlot, StreamEnd};
use crate::engine::values::Values;

/// The number of landmarks that are compared before others may use the index.
const LANDMARKS_AT_A_TIME: usize = 4_096;

/// Shows an error for each entry of the index that the log contradicts. A log that is damaged itself is not compared: its
/// own survey shows the damage. One that cannot be read, or whose reader no longer goes on, shows that error.
pub(crate) fn compare<V: Values>(
    values: &V,
    ask: Ask<'_>,
    goes_on: &dyn Fn() -> bool,
    show: &mut dyn FnMut(ReadError),
) {
    let mut end = 0;
    ask(&mut |index| end = index.next_ordinal());
    let rebuilt = match of_log(values, end) {
        Ok(rebuilt) => rebuilt,
        Err(error @ (ReadError::Closed | ReadError::Io(_))) => return show(error),
        Err(_) => return,
    };
    let is_whole = compare_with(&rebuilt, ask, goes_on, &mut |fault| {
        show(match fault {
            Fault::Place(number) => place_fault(values, &rebuilt, number),
            Fault::End(what) => ReadError::Index { what, stream: None, version: None, position: None },
        });
    });
    if !is_whole {
        show(ReadError::Closed);
    }
}

/// An entry of the index that is not the one of the log.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The place of a record.
    Place(usize),
    /// A difference at the ends, in words.
    End(String),
}

/// Compares the index with one that was built from the log, in pieces. What was appended meanwhile is not compared. Returns
/// false if `goes_on` ended it.
pub(crate) fn compare_with(
    rebuilt: &Index,
    ask: Ask<'_>,
    goes_on: &dyn Fn() -> bool,
    show: &mut dyn FnMut(Fault),
) -> bool {
    let mut from = 0;
    while from < rebuilt.records() {
        if !goes_on() {
            return false;
        }
        let to = rebuilt.records().min(from + STREAMS_AT_A_TIME);
        let mut wrong = Vec::new();
        ask(&mut |index| {
            wrong = (from..to).filter(|number| !index.has_place_of(rebuilt, *number)).collect();
        });
        wrong.into_iter().map(Fault::Place).for_each(&mut *show);
        from = to;
    }
    match other_end(rebuilt, ask, goes_on) {
        ControlFlow::Break(Some(what)) => show(Fault::End(what)),
        ControlFlow::Break(None) => return false,
        ControlFlow::Continue(()) => {}
    }
    true
}

/// Breaks with what differs at the ends of the index and of one that was built from the log, or without it if `goes_on`
/// ended it.
fn other_end(rebuilt: &Index, ask: Ask<'_>, goes_on: &dyn Fn() -> bool) -> ControlFlow<Option<String>> {
    let look = |question: &dyn Fn(&Index) -> Option<String>| {
        let mut found = None;
        ask(&mut |index| found = question(index));
        match found {
            _ if !goes_on() => ControlFlow::Break(None),
            Some(what) => ControlFlow::Break(Some(what)),
            None => ControlFlow::Continue(()),
        }
    };
    look(&|index| index.other_head(rebuilt))?;
    for (piece, landmarks) in rebuilt.landmarks.chunks(LANDMARKS_AT_A_TIME).enumerate() {
        let from = piece * LANDMARKS_AT_A_TIME;
        look(&|index| {
            let same = index.landmarks.get(from..from + landmarks.len()) == Some(landmarks);
            (!same).then(|| "it has other positions of values than the log".to_owned())
        })?;
    }
    let streams = u32::try_from(rebuilt.streams()).unwrap_or(NO_SLOT);
    for from in (0..streams).step_by(STREAMS_AT_A_TIME) {
        look(&|index| {
            let mut numbers = (from..streams).take(STREAMS_AT_A_TIME);
            numbers.find_map(|number| index.other_end_of(rebuilt, number))
        })?;
    }
    let mut next = Some(0);
    while let Some(from) = next {
        let open: Vec<u32> = rebuilt.open.range(from..).take(STREAMS_AT_A_TIME).copied().collect();
        look(&|index| open.iter().find_map(|number| index.other_work_of(rebuilt, *number)))?;
        next = open.last().and_then(|number| number.checked_add(1));
    }
    ControlFlow::Continue(())
}

/// Builds the index of the values before `end` from the log alone.
fn of_log<V: Values>(values: &V, end: u64) -> Result<Index, ReadError> {
    let mut index = Index::default();
    for ordinal in 0..end {
        let bytes = values.require(ordinal)?;
        for located in located_records(bytes.as_ref(), ordinal)? {
            let located = located?;
            let view: &RecordView<'_> = &located.view;
            let record = IndexedRecord {
                end: StreamEnd::new(view.last_version(), located.entry.hash),
                slot: RecordSlot {
                    ordinal: u32::try_from(ordinal).unwrap_or(NO_SLOT),
                    offset: located.entry.offset,
                },
                events: view.event_count,
                work: work_change_in(view),
            };
            index.add_record(view.stream, &record);
        }
    }
    Ok(index)
}

/// Describes a slot that is not the one of the log.
fn place_fault<V: Values>(values: &V, rebuilt: &Index, number: usize) -> ReadError {
    let what = format!("the entry of record {} leads to another place than its record's", number + 1);
    let slot = u32::try_from(number).ok().and_then(|number| rebuilt.slot(number));
    let place = slot.and_then(|slot| {
        let ordinal = u64::from(slot.ordinal);
        let bytes = values.require(ordinal).ok()?;
        let mut records = located_records(bytes.as_ref(), ordinal).ok()?;
        let found = records.find_map(|located| located.ok().filter(|it| it.entry.offset == slot.offset))?;
        let stream = StreamId::parse(found.view.stream).ok();
        Some((stream, found.view.first_version, found.position))
    });
    let (stream, version, position) = match place {
        Some((stream, version, position)) => (stream, Some(version), Some(position)),
        None => (None, None, None::<Position>),
    };
    ReadError::Index { what, stream, version, position }
}

impl Index {
    /// Whether a record has the place and the link that it has in an index of the same log.
    fn has_place_of(&self, other: &Self, number: usize) -> bool {
        let place = |index: &Self| u32::try_from(number).ok().and_then(|number| index.place(number));
        place(self) == place(other) && self.previous.get(number) == other.previous.get(number)
    }

    /// Returns the difference if the index does not end where another of the same log ends, or after it.
    fn other_head(&self, other: &Self) -> Option<String> {
        let (own, theirs) = ((self.head, self.streams()), (other.head, other.streams()));
        let fits = match self.records().cmp(&other.records()) {
            Ordering::Less => false,
            Ordering::Equal => own == theirs,
            Ordering::Greater => own.0 > theirs.0 && own.1 >= theirs.1,
        };
        (!fits).then(|| {
            format!(
                "it ends at position {} with {} streams, but the log at position {} with {}",
                own.0, own.1, theirs.0, theirs.1
            )
        })
    }

    /// Whether the stream with this number has got records that another index of the same log does not have.
    fn has_grown_beyond(&self, other: &Self, number: u32) -> bool {
        self.newest_of_number(number).is_some_and(|newest| newest as usize >= other.records())
    }

    /// Returns the difference if the stream with this number has another name or end than in an index of the same log.
    fn other_end_of(&self, other: &Self, number: u32) -> Option<String> {
        let name = other.name(number).unwrap_or_default();
        let end = |index: &Self| (index.end_of_number(number), index.newest_of_number(number));
        let is_named = self.name(number) == Some(name) && self.number_of(name) == Some(number);
        let fits = is_named && (self.has_grown_beyond(other, number) || end(self) == end(other));
        (!fits).then(|| format!("it has another end of {name} than the log"))
    }

    /// Returns the difference if the index does not list the work of the stream with this number, which is open in an index
    /// of the same log.
    fn other_work_of(&self, other: &Self, number: u32) -> Option<String> {
        let fits = self.open.contains(&number) || self.has_grown_beyond(other, number);
        let name = other.name(number).unwrap_or_default();
        (!fits).then(|| format!("it does not list {name} as open work, although the log leaves it working"))
    }
}
