//! The comparison of the index with the log: every slot, link and landmark, the ends of streams, and the open work.

use proto_events::codec::record::RecordView;
use proto_events::id::{Position, StreamId};

use crate::api::error::ReadError;
use crate::api::open_work::work_change_in;
use crate::engine::index::Index;
use crate::engine::reading::located_records;
use crate::engine::slot::{IndexedRecord, NO_SLOT, Slot, StreamEnd};
use crate::engine::values::Values;

/// The number of slots that are compared before others may use the index.
const SLOTS_AT_A_TIME: usize = 4_096;

/// A question to the index, which is locked while it is answered.
pub(crate) type Ask<'a> = &'a dyn Fn(&mut dyn FnMut(&Index));

/// Shows an error for each entry of the index that the log contradicts. A log that cannot be read itself is not
/// compared: its own survey shows the damage.
pub(crate) fn compare<V: Values>(values: &V, ask: Ask<'_>, show: &mut dyn FnMut(ReadError)) {
    let mut end = 0;
    ask(&mut |index| end = index.next_ordinal());
    let rebuilt = match of_log(values, end) {
        Ok(rebuilt) => rebuilt,
        Err(ReadError::Closed) => return show(ReadError::Closed),
        Err(_) => return,
    };
    let mut from = 0;
    while from < rebuilt.records() {
        let to = rebuilt.records().min(from + SLOTS_AT_A_TIME);
        let mut wrong = Vec::new();
        ask(&mut |index| {
            wrong = (from..to).filter(|number| !index.has_place_of(&rebuilt, *number)).collect();
        });
        for number in wrong {
            show(fault(values, &rebuilt, number));
        }
        from = to;
    }
    ask(&mut |index| {
        // What was appended meanwhile is not compared.
        if index.records() == rebuilt.records()
            && let Some(what) = index.other_end(&rebuilt)
        {
            show(ReadError::Index { what, stream: None, version: None, position: None });
        }
    });
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
                end: StreamEnd::of(view.last_version(), located.entry.hash),
                slot: Slot {
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
fn fault<V: Values>(values: &V, rebuilt: &Index, number: usize) -> ReadError {
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

    /// Returns what differs at the ends of two indexes of the same log.
    fn other_end(&self, other: &Self) -> Option<String> {
        if (self.head, self.streams()) != (other.head, other.streams()) {
            return Some(format!(
                "it ends at position {} with {} streams, but the log at position {} with {}",
                self.head,
                self.streams(),
                other.head,
                other.streams()
            ));
        }
        if self.landmarks != other.landmarks {
            return Some("it has other positions of values than the log".to_owned());
        }
        let numbers = 0..u32::try_from(other.streams()).unwrap_or(NO_SLOT);
        let wrong = numbers.into_iter().find(|number| {
            let name = other.name(*number).unwrap_or_default();
            self.name(*number) != Some(name)
                || (self.end_of(name), self.newest_of(name)) != (other.end_of(name), other.newest_of(name))
        });
        if let Some(number) = wrong {
            let name = other.name(number).unwrap_or_default();
            return Some(format!("it has another end of {name} than the log"));
        }
        let unknown = other.open.iter().find(|number| !self.open.contains(number));
        unknown
            .and_then(|number| other.name(*number))
            .map(|name| format!("it does not list {name} as open work, although the log leaves it working"))
    }
}
