//! Reading records from values: every record returned is compared with its leaf hash and its bodies' digests,
//! and records read in log order also with their value's checksum.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use proto_events::codec::record::{Record, RecordError, RecordView};
use proto_events::envelope::Committed;
use proto_events::id::{Position, StreamId, Version};

use crate::api::check::WrittenPart;
use crate::api::error::ReadError;
use crate::api::reader::Page;
use crate::api::record::StoredRecord;
use crate::engine::chunks;
use crate::engine::slot::Slot;
use crate::engine::value::{Entries, Entry, Value, first_position};
use crate::engine::values::Values;

/// A record in its value, with its header decoded.
pub(crate) struct Located<'a> {
    pub(crate) position: Position,
    pub(crate) entry: Entry<'a>,
    pub(crate) view: RecordView<'a>,
}

impl Located<'_> {
    pub(crate) fn last_position(&self) -> Position {
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

    /// Returns the whole record with all of its bodies, checked.
    pub(crate) fn stored<V: Values>(&self, values: &V) -> Result<StoredRecord, ReadError> {
        if self.view.leaf_hash() != self.entry.hash {
            return Err(self.corrupt("the record does not have the leaf hash that is stored with it"));
        }
        let wrong = |error: RecordError| self.corrupt(error.to_string()).newer_if(error.is_newer());
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

/// An iterator over a value's records with their positions. An error ends it.
pub(crate) struct LocatedRecords<'a> {
    ordinal: u64,
    next: Position,
    entries: Entries<'a>,
    failed: bool,
}

/// Iterates over the records of a value.
pub(crate) fn located_records(bytes: &[u8], ordinal: u64) -> Result<LocatedRecords<'_>, ReadError> {
    let wrong = |what| ReadError::corrupt(format!("value {ordinal}: {what}"), first_position(bytes));
    let value = Value::open(bytes).map_err(wrong)?;
    Ok(LocatedRecords { ordinal, next: value.first, entries: value.entries(), failed: false })
}

impl<'a> LocatedRecords<'a> {
    /// Returns the position of the next event.
    pub(crate) fn next_position(&self) -> Position {
        self.next
    }

    fn locate(&mut self, entry: Result<Entry<'a>, String>) -> Result<Located<'a>, ReadError> {
        let position = self.next;
        let wrong =
            |what: &str| ReadError::corrupt(format!("value {}: {what}", self.ordinal), Some(position));
        let entry = entry.map_err(|what| wrong(&what))?;
        let newer = |error: RecordError| wrong(&error.to_string()).newer_if(error.is_newer());
        let view = RecordView::peek(entry.bytes).map_err(newer)?;
        let next = position.0.checked_add(view.event_count.into());
        self.next = Position(next.ok_or_else(|| wrong("its positions exceed 64 bits"))?);
        Ok(Located { position, entry, view })
    }
}

impl<'a> Iterator for LocatedRecords<'a> {
    type Item = Result<Located<'a>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let entry = self.entries.next()?;
        let located = self.locate(entry);
        self.failed = located.is_err();
        Some(located)
    }
}

/// Names the last record of a value, for errors about what follows it; `None` if the value is not whole.
pub(crate) fn last_record_in(bytes: &[u8]) -> Option<String> {
    let last = located_records(bytes, 0).ok()?.last()?.ok()?;
    let (stream, version, position) = (last.view.stream, last.view.last_version(), last.last_position());
    Some(format!("the last sound record before it is version {version} of {stream} (position {position})"))
}

/// Reads the record in a slot. It is reached by the lengths of the records before it: checking the value's
/// checksum would read all 60 KiB for one record, and what is returned is compared with that record's own
/// hashes.
fn with_record_at<V: Values, R>(
    values: &V,
    slot: Slot,
    read: impl FnOnce(&Located<'_>) -> Result<R, ReadError>,
) -> Result<R, ReadError> {
    let ordinal = u64::from(slot.ordinal);
    let bytes = values.require(ordinal)?;
    let bytes = bytes.as_ref();
    // A value that is what was written has its records: the index led to a place between them.
    let wrong = |what: String| match Value::open(bytes) {
        Ok(_) => index_fault(format!("value {ordinal}: {what}"), None),
        Err(_) => ReadError::corrupt(format!("value {ordinal}: {what}"), first_position(bytes)),
    };
    read(&locate(bytes, slot.offset).map_err(wrong)?)
}

/// The index does not lead to a record of the stream.
fn index_fault(what: String, located: Option<&Located<'_>>) -> ReadError {
    ReadError::Index {
        what,
        stream: located.and_then(|located| StreamId::parse(located.view.stream).ok()),
        version: located.map(|located| located.view.first_version),
        position: located.map(|located| located.position),
    }
}

/// Returns the record that begins at this offset of a value.
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
        position = Position(next.ok_or("its positions exceed 64 bits")?);
    }
    Err(format!("it has no record at byte {offset}"))
}

/// Returns the first version of the record in a slot.
pub(crate) fn first_version_at<V: Values>(values: &V, slot: Slot) -> Result<Version, ReadError> {
    with_record_at(values, slot, |located| Ok(located.view.first_version))
}

/// Returns the number of the slot whose record holds the version, or would hold it if the stream went so far.
pub(crate) fn slot_for_version<V: Values>(
    values: &V,
    slots: &[Slot],
    version: Version,
) -> Result<usize, ReadError> {
    let (mut low, mut high) = (0, if version.0 <= 1 { 0 } else { slots.len() });
    while low < high {
        let middle = usize::midpoint(low, high);
        let Some(slot) = slots.get(middle) else { break };
        let first = first_version_at(values, *slot)?;
        if first <= version {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low.saturating_sub(1))
}

fn next_version(version: Version) -> Version {
    Version(version.0.saturating_add(1))
}

/// Returns the records in these slots, which must belong to `stream`.
pub(crate) fn read_slots<V: Values>(
    values: &V,
    stream: &StreamId,
    slots: &[Slot],
    page: Page,
) -> Result<Vec<StoredRecord>, ReadError> {
    let mut last = None;
    let mut read = |slot: &Slot| {
        with_record_at(values, *slot, |located| {
            // A record with its own leaf hash is what was written: the index led to the wrong one.
            let misled = |what: String| match located.stored(values) {
                Ok(_) => Err(index_fault(what, Some(located))),
                Err(error) => Err(error),
            };
            if located.view.stream != stream.as_str() {
                return misled(format!("the record belongs to another stream than {stream}"));
            }
            let first = located.view.first_version;
            if let Some(last) = last.replace(located.view.last_version())
                && first != next_version(last)
            {
                return misled(format!("version {first} of {stream} follows version {last}"));
            }
            located.stored(values)
        })
    };
    page.fill(slots.iter().map(&mut read))
}

/// Returns the set id of the append that the record in a slot belongs to.
pub(crate) fn set_id_at<V: Values>(values: &V, slot: Slot) -> Result<[u8; 16], ReadError> {
    with_record_at(values, slot, |located| Ok(located.view.set_id))
}

/// Returns records from a position on, out of the values from `range.0` to before `end`; the position is
/// before `range.1`.
pub(crate) fn read_from<V: Values>(
    values: &V,
    from: Position,
    range: (u64, u64),
    end: u64,
    page: Page,
) -> Result<Vec<StoredRecord>, ReadError> {
    // Even a page of no bytes has a record.
    let (mut records, mut left) = (Vec::new(), Page { bytes: page.bytes.max(1), ..page });
    for ordinal in value_for_position(values, from, range)?..end {
        if left.records == 0 || left.bytes == 0 {
            break;
        }
        let bytes = values.require(ordinal)?;
        let located = located_records(bytes.as_ref(), ordinal)?;
        let wanted = located.filter(|located| located.as_ref().map_or(true, |it| it.last_position() >= from));
        let more = left.fill(wanted.map(|located| located.and_then(|located| located.stored(values))))?;
        left.records = left.records.saturating_sub(more.len());
        let taken = more.iter().map(StoredRecord::bytes_in_memory).fold(0, usize::saturating_add);
        left.bytes = left.bytes.saturating_sub(taken);
        records.extend(more);
    }
    Ok(records)
}

/// Shows all records before `end`, and an error for each piece that cannot be read. Proceeds by ordinal, so
/// that it ends whatever the values hold. A log that is closed meanwhile ends it.
pub(crate) fn survey<V: Values>(values: &V, end: u64, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
    for ordinal in 0..end {
        let read = values.require(ordinal);
        match read.as_ref().map_err(Clone::clone).and_then(|bytes| located_records(bytes.as_ref(), ordinal)) {
            Err(ReadError::Closed) => return show(Err(ReadError::Closed)),
            Err(error) => show(Err(error)),
            Ok(records) => {
                records.for_each(|located| show(located.and_then(|located| located.stored(values))));
            }
        }
    }
}

/// Returns the last value that begins at or before a position.
pub(crate) fn value_for_position<V: Values>(
    values: &V,
    from: Position,
    range: (u64, u64),
) -> Result<u64, ReadError> {
    let (mut low, mut high) = range;
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

/// Returns the parts of an append, of which some are in the value `ordinal`; `None` if none is.
pub(crate) fn whole_append<V: Values>(
    values: &V,
    ordinal: u64,
    set_id: [u8; 16],
) -> Result<Option<Vec<WrittenPart>>, ReadError> {
    let mut start = ordinal;
    let mut parts = append_parts_in(values, start, set_id)?;
    while start > 0 && parts.first().is_some_and(|part| part.number > 0) {
        start -= 1;
        parts = append_parts_in(values, start, set_id)?;
    }
    let mut next = start + 1;
    while let Some(last) = parts.last() {
        if last.number + 1 >= last.of {
            return Ok(Some(parts));
        }
        let more = append_parts_in(values, next, set_id)?;
        if more.is_empty() {
            return Err(ReadError::corrupt(format!("an append is incomplete in value {next}"), None));
        }
        parts.extend(more);
        next += 1;
    }
    Ok(None)
}

/// Returns the parts of an append that stand in one value.
fn append_parts_in<V: Values>(
    values: &V,
    ordinal: u64,
    set_id: [u8; 16],
) -> Result<Vec<WrittenPart>, ReadError> {
    let bytes = values.require(ordinal)?;
    let mut parts = Vec::new();
    for located in located_records(bytes.as_ref(), ordinal)? {
        let located = located?;
        if located.view.set_id == set_id {
            parts.push(WrittenPart {
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

/// Searches for an append in all values before `end`, the newest first.
pub(crate) fn find_append<V: Values>(
    values: &V,
    end: u64,
    set_id: [u8; 16],
) -> Result<Option<Vec<WrittenPart>>, ReadError> {
    for ordinal in (0..end).rev() {
        if !append_parts_in(values, ordinal, set_id)?.is_empty() {
            return whole_append(values, ordinal, set_id);
        }
    }
    Ok(None)
}
