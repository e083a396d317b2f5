//! Reading records from values: every record returned is compared with its leaf hash and its bodies' digests,
//! and records read in log order also with their value's checksum.

mod ahead;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use proto_events::codec::record::{Record, RecordError, RecordView};
use proto_events::envelope::Committed;
use proto_events::id::{Position, StreamId, Version};

use crate::api::check::WrittenPart;
use crate::api::error::ReadError;
use crate::api::page::Page;
use crate::api::record::StoredRecord;
use crate::engine::chunks;
use crate::engine::located_records::ahead::ReadAhead;
use crate::engine::slot::RecordPlace;
use crate::engine::value::{Value, ValueEntries, ValueEntry, first_position};
use crate::engine::values::Values;

/// A record in its value, with its header decoded.
pub(crate) struct LocatedRecord<'a> {
    pub(crate) position: Position,
    pub(crate) entry: ValueEntry<'a>,
    pub(crate) view: RecordView<'a>,
}

impl LocatedRecord<'_> {
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
    entries: ValueEntries<'a>,
    failed: bool,
}

/// Iterates over the records of a value.
pub(crate) fn located_records(bytes: &[u8], ordinal: u64) -> Result<LocatedRecords<'_>, ReadError> {
    located_records_of(bytes, ordinal, Value::check(bytes))
}

/// Iterates over the records of a value whose checksum was checked.
pub(crate) fn located_records_of(
    bytes: &[u8],
    ordinal: u64,
    checked: Result<(), String>,
) -> Result<LocatedRecords<'_>, ReadError> {
    let wrong = |what| ReadError::corrupt(format!("value {ordinal}: {what}"), first_position(bytes));
    let value = checked.and_then(|()| Value::unchecked(bytes)).map_err(wrong)?;
    Ok(LocatedRecords { ordinal, next: value.first, entries: value.entries(), failed: false })
}

impl<'a> LocatedRecords<'a> {
    /// Returns the position of the next event.
    pub(crate) fn next_position(&self) -> Position {
        self.next
    }

    fn locate(&mut self, entry: Result<ValueEntry<'a>, String>) -> Result<LocatedRecord<'a>, ReadError> {
        let position = self.next;
        let wrong =
            |what: &str| ReadError::corrupt(format!("value {}: {what}", self.ordinal), Some(position));
        let entry = entry.map_err(|what| wrong(&what))?;
        let newer = |error: RecordError| wrong(&error.to_string()).newer_if(error.is_newer());
        let view = RecordView::peek(entry.bytes).map_err(newer)?;
        let next = position.0.checked_add(view.event_count.into());
        self.next = Position(next.ok_or_else(|| wrong("its positions exceed 64 bits"))?);
        Ok(LocatedRecord { position, entry, view })
    }
}

impl<'a> Iterator for LocatedRecords<'a> {
    type Item = Result<LocatedRecord<'a>, ReadError>;

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

/// Reads the record at a place. It is reached by the lengths of the records before it: checking the value's
/// checksum would read all 60 KiB for one record, and what is returned is compared with that record's own
/// hashes.
fn with_record_at<V: Values, R>(
    values: &V,
    place: RecordPlace,
    read: impl FnOnce(&LocatedRecord<'_>) -> Result<R, ReadError>,
) -> Result<R, ReadError> {
    let bytes = values.require(u64::from(place.slot.ordinal))?;
    with_record_in(bytes.as_ref(), place, read)
}

/// Reads the record at a place of this value.
fn with_record_in<R>(
    bytes: &[u8],
    place: RecordPlace,
    read: impl FnOnce(&LocatedRecord<'_>) -> Result<R, ReadError>,
) -> Result<R, ReadError> {
    let ordinal = place.slot.ordinal;
    // A value that is what was written has its records: the index led to a place between them.
    let wrong = |what: String| match Value::open(bytes) {
        Ok(_) => index_fault(format!("value {ordinal}: {what}"), None),
        Err(_) => ReadError::corrupt(format!("value {ordinal}: {what}"), first_position(bytes)),
    };
    read(&locate(bytes, place).map_err(wrong)?)
}

/// The index does not lead to a record of the stream.
fn index_fault(what: String, located: Option<&LocatedRecord<'_>>) -> ReadError {
    ReadError::Index {
        what,
        stream: located.and_then(|located| StreamId::parse(located.view.stream).ok()),
        version: located.map(|located| located.view.first_version),
        position: located.map(|located| located.position),
    }
}

/// Returns the record at a place of a value.
fn locate(bytes: &[u8], place: RecordPlace) -> Result<LocatedRecord<'_>, String> {
    let offset = place.slot.offset;
    let value = Value::unchecked(bytes)?;
    let nothing = || format!("it has no record at byte {offset}");
    let mut position = value.first;
    let mut step = |events: u16| {
        let next = position.0.checked_add(events.into());
        position = Position(next.ok_or("its positions exceed 64 bits")?);
        Ok::<_, String>(position)
    };
    let mut at = step(place.events)?;
    for entry in value.entries_from(place.begin).ok_or_else(nothing)? {
        let entry = entry?;
        if entry.offset == offset {
            let view = RecordView::peek(entry.bytes).map_err(|error| error.to_string())?;
            return Ok(LocatedRecord { position: at, entry, view });
        }
        if entry.offset > offset {
            break;
        }
        at = step(RecordView::count_events(entry.bytes).map_err(|error| error.to_string())?)?;
    }
    Err(nothing())
}

/// Returns the first version of the record at a place.
pub(crate) fn first_version_at<V: Values>(values: &V, place: RecordPlace) -> Result<Version, ReadError> {
    with_record_at(values, place, |located| Ok(located.view.first_version))
}

/// Returns the number of the place whose record holds the version, or would hold it if the stream went so far.
pub(crate) fn place_for_version<V: Values>(
    values: &V,
    places: &[RecordPlace],
    version: Version,
) -> Result<usize, ReadError> {
    let (mut low, mut high) = (0, if version.0 <= 1 { 0 } else { places.len() });
    while low < high {
        let middle = usize::midpoint(low, high);
        let Some(place) = places.get(middle) else { break };
        let first = first_version_at(values, *place)?;
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

/// Returns the records at these places, which must belong to `stream`.
pub(crate) fn read_places<V: Values + Sync>(
    values: &V,
    stream: &StreamId,
    places: &[RecordPlace],
    page: Page,
) -> Result<Vec<StoredRecord>, ReadError>
where
    V::Bytes: Send,
{
    let mut last = None;
    let mut read = |located: &LocatedRecord<'_>| {
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
    };
    let places = places.get(..page.records).unwrap_or(places);
    let mut ahead = ReadAhead::new(values, places);
    let records = places.iter().enumerate().map(|(at, place)| {
        let bytes = ahead.value_of(at, place.slot.ordinal)?;
        with_record_in(bytes.as_ref(), *place, &mut read)
    });
    page.fill(records)
}

/// Returns the set id of the append that the record at a place belongs to.
pub(crate) fn set_id_at<V: Values>(values: &V, place: RecordPlace) -> Result<[u8; 16], ReadError> {
    with_record_at(values, place, |located| Ok(located.view.set_id))
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
        let bytes = values.require_in_pass(ordinal)?;
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

/// Returns the last value that begins at or before a position.
pub(crate) fn value_for_position<V: Values>(
    values: &V,
    from: Position,
    range: (u64, u64),
) -> Result<u64, ReadError> {
    let (mut low, mut high) = range;
    if from <= Position(1) {
        // No search, and no damage of values after the first is met before its place.
        return Ok(low);
    }
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
