//! Reading records out of values: every one that is given out is compared with its leaf hash and its bodies' digests,
//! and what is read in log order with its value's checksum too.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use proto_events::codec::record::{Record, RecordView};
use proto_events::envelope::Committed;
use proto_events::id::{Position, StreamId, Version};

use super::index::Slot;
use super::value::{Entries, Entry, Value, first_position};
use super::{ReadError, SetPart, StoredRecord, chunks};

/// Where values come from.
pub(super) trait Values {
    /// The bytes of a value.
    type Bytes: AsRef<[u8]>;

    /// The value with this ordinal, if it is there.
    fn get(&self, ordinal: u64) -> Result<Option<Self::Bytes>, ReadError>;

    /// The chunk with this ordinal, if it is there.
    fn get_chunk(&self, ordinal: u64) -> Result<Option<Self::Bytes>, ReadError>;

    /// The value with this ordinal, which must be there.
    fn require(&self, ordinal: u64) -> Result<Self::Bytes, ReadError> {
        let missing = || ReadError::corrupt(format!("value {ordinal} is missing"), None);
        self.get(ordinal)?.ok_or_else(missing)
    }
}

/// A record in its value, its header read.
pub(super) struct Located<'a> {
    pub(super) position: Position,
    pub(super) entry: Entry<'a>,
    pub(super) view: RecordView<'a>,
}

impl Located<'_> {
    pub(super) fn last_position(&self) -> Position {
        Position(self.position.0.saturating_add(u64::from(self.view.event_count) - 1))
    }

    fn committed(&self) -> Committed {
        Committed { version: self.view.last_version(), position: self.last_position() }
    }

    fn corrupt(&self, what: impl Into<String>) -> ReadError {
        ReadError::Corrupt {
            what: what.into(),
            stream: StreamId::parse(self.view.stream).ok(),
            version: Some(self.view.first_version),
            position: Some(self.position),
        }
    }

    /// The whole record with all of its bodies, checked.
    pub(super) fn stored<V: Values>(&self, values: &V) -> Result<StoredRecord, ReadError> {
        if self.view.leaf_hash() != self.entry.hash {
            return Err(self.corrupt("the record's leaf hash is not the one stored with it"));
        }
        let wrong = |error: proto_events::codec::record::RecordError| self.corrupt(error.to_string());
        let mut record = Record::of_view(&self.view).map_err(wrong)?;
        chunks::fill(values, &mut record, self.position).map_err(|error| match error {
            ReadError::Corrupt { what, .. } => self.corrupt(what),
            other => other,
        })?;
        record.check_bodies().map_err(wrong)?;
        Ok(StoredRecord {
            position: self.position,
            hash: self.entry.hash,
            record,
            bytes: Arc::from(self.entry.bytes),
        })
    }
}

/// A value's records with their positions. After an error nothing follows.
pub(super) struct Walk<'a> {
    ordinal: u64,
    next: Position,
    entries: Entries<'a>,
    failed: bool,
}

/// Walks over a value.
pub(super) fn walk(bytes: &[u8], ordinal: u64) -> Result<Walk<'_>, ReadError> {
    let wrong = |what| ReadError::corrupt(format!("value {ordinal}: {what}"), first_position(bytes));
    let value = Value::open(bytes).map_err(wrong)?;
    Ok(Walk { ordinal, next: value.first, entries: value.entries(), failed: false })
}

impl<'a> Walk<'a> {
    /// Position of the next event.
    pub(super) fn next_position(&self) -> Position {
        self.next
    }

    fn locate(&mut self, entry: Result<Entry<'a>, String>) -> Result<Located<'a>, String> {
        let entry = entry?;
        let view = RecordView::peek(entry.bytes).map_err(|error| error.to_string())?;
        let position = self.next;
        let next = position.0.checked_add(view.event_count.into());
        self.next = Position(next.ok_or("its positions run over")?);
        Ok(Located { position, entry, view })
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<Located<'a>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let entry = self.entries.next()?;
        let (ordinal, position) = (self.ordinal, self.next);
        let located = self.locate(entry);
        self.failed = located.is_err();
        Some(located.map_err(|what| ReadError::corrupt(format!("value {ordinal}: {what}"), Some(position))))
    }
}

/// Looks at the record in a slot. It is reached by the lengths of those before it: the value's checksum would have
/// all 60 KiB read for one record, and what is given out is compared with that record's own hashes.
fn at_slot<V: Values, R>(
    values: &V,
    slot: Slot,
    look: impl FnOnce(&Located<'_>) -> Result<R, ReadError>,
) -> Result<R, ReadError> {
    let ordinal = u64::from(slot.ordinal);
    let bytes = values.require(ordinal)?;
    let bytes = bytes.as_ref();
    let wrong = |what| ReadError::corrupt(format!("value {ordinal}: {what}"), first_position(bytes));
    look(&locate(bytes, slot.offset).map_err(wrong)?)
}

/// The record that begins at this byte of a value.
fn locate(bytes: &[u8], offset: u16) -> Result<Located<'_>, String> {
    let value = Value::unchecked(bytes)?;
    let mut position = value.first;
    for entry in value.entries() {
        let entry = entry?;
        if entry.offset == offset {
            let view = RecordView::peek(entry.bytes).map_err(|error| error.to_string())?;
            return Ok(Located { position, entry, view });
        }
        let events = RecordView::count_events(entry.bytes).map_err(|error| error.to_string())?;
        let next = position.0.checked_add(events.into());
        position = Position(next.ok_or("its positions run over")?);
    }
    Err(format!("it has no record at byte {offset}"))
}

/// The number of the slot whose record holds the version, or would if the stream went so far.
pub(super) fn holding<V: Values>(values: &V, slots: &[Slot], version: Version) -> Result<usize, ReadError> {
    let (mut low, mut high) = (0, if version.0 <= 1 { 0 } else { slots.len() });
    while low < high {
        let middle = usize::midpoint(low, high);
        let Some(slot) = slots.get(middle) else { break };
        let first = at_slot(values, *slot, |located| Ok(located.view.first_version))?;
        if first <= version {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low.saturating_sub(1))
}

/// The records in these slots, of which `stream` must be the stream.
pub(super) fn in_slots<V: Values>(
    values: &V,
    stream: &StreamId,
    slots: &[Slot],
) -> Result<Vec<StoredRecord>, ReadError> {
    let read = |slot: &Slot| {
        at_slot(values, *slot, |located| {
            if located.view.stream == stream.as_str() {
                located.stored(values)
            } else {
                Err(located.corrupt(format!("the record is not {stream}'s, whose it should be")))
            }
        })
    };
    slots.iter().map(read).collect()
}

/// The append that the record in a slot belongs to.
pub(super) fn set_of<V: Values>(values: &V, slot: Slot) -> Result<[u8; 16], ReadError> {
    at_slot(values, slot, |located| Ok(located.view.set_id))
}

/// Records from a position on, out of values from `around.0` to before `end`; the position lies before `around.1`.
pub(super) fn from_position<V: Values>(
    values: &V,
    from: Position,
    around: (u64, u64),
    end: u64,
    limit: usize,
) -> Result<Vec<StoredRecord>, ReadError> {
    let mut records = Vec::new();
    for ordinal in nearest(values, from, around)?..end {
        if records.len() >= limit {
            break;
        }
        let bytes = values.require(ordinal)?;
        for located in walk(bytes.as_ref(), ordinal)? {
            let located = located?;
            if located.last_position() >= from && records.len() < limit {
                records.push(located.stored(values)?);
            }
        }
    }
    Ok(records)
}

/// Shows all records before `end`, and each piece that cannot be read. Goes by ordinal, so that it comes to an end
/// whatever the values hold.
pub(super) fn survey<V: Values>(values: &V, end: u64, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
    for ordinal in 0..end {
        let read = values.require(ordinal);
        match read.as_ref().map_err(Clone::clone).and_then(|bytes| walk(bytes.as_ref(), ordinal)) {
            Err(error) => show(Err(error)),
            Ok(walk) => walk.for_each(|located| show(located.and_then(|located| located.stored(values)))),
        }
    }
}

/// The last value that begins at or before a position.
pub(super) fn nearest<V: Values>(values: &V, from: Position, around: (u64, u64)) -> Result<u64, ReadError> {
    let (mut low, mut high) = around;
    while low < high {
        let middle = u64::midpoint(low, high);
        let bytes = values.require(middle)?;
        let short = || ReadError::corrupt(format!("value {middle} has no header"), None);
        if first_position(bytes.as_ref()).ok_or_else(short)? <= from {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low.saturating_sub(1))
}

/// The parts of an append, of which some stand in the value `ordinal`; `None` if none does.
pub(super) fn set_around<V: Values>(
    values: &V,
    ordinal: u64,
    set_id: [u8; 16],
) -> Result<Option<Vec<SetPart>>, ReadError> {
    let mut start = ordinal;
    let mut parts = set_in(values, start, set_id)?;
    while start > 0 && parts.first().is_some_and(|part| part.number > 0) {
        start -= 1;
        parts = set_in(values, start, set_id)?;
    }
    let mut next = start + 1;
    while let Some(last) = parts.last() {
        if last.number + 1 >= last.of {
            return Ok(Some(parts));
        }
        let more = set_in(values, next, set_id)?;
        if more.is_empty() {
            return Err(ReadError::corrupt(format!("an append is not whole in value {next}"), None));
        }
        parts.extend(more);
        next += 1;
    }
    Ok(None)
}

/// The parts of an append that stand in one value.
fn set_in<V: Values>(values: &V, ordinal: u64, set_id: [u8; 16]) -> Result<Vec<SetPart>, ReadError> {
    let bytes = values.require(ordinal)?;
    let mut parts = Vec::new();
    for located in walk(bytes.as_ref(), ordinal)? {
        let located = located?;
        if located.view.set_id == set_id {
            parts.push(SetPart {
                number: located.view.part,
                of: located.view.parts,
                stream: located.view.stream.to_owned(),
                first: located.view.first_version,
                last: located.committed(),
            });
        }
    }
    Ok(parts)
}

/// Looks for an append in all values before `end`, the newest first.
pub(super) fn find_set<V: Values>(
    values: &V,
    end: u64,
    set_id: [u8; 16],
) -> Result<Option<Vec<SetPart>>, ReadError> {
    for ordinal in (0..end).rev() {
        if !set_in(values, ordinal, set_id)?.is_empty() {
            return set_around(values, ordinal, set_id);
        }
    }
    Ok(None)
}
