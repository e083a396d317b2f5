//! A group: the appends that are admitted, the values of their records, and the replies to their callers.

use std::collections::HashMap;
use std::sync::PoisonError;

use proto_events::codec::record::{EncodedRecord, RecordView};
use proto_events::id::{Position, StreamId, Version};

use crate::api::append::{Append, AppendPart, Appended};
use crate::api::check;
use crate::api::check::WrittenPart;
use crate::api::error::{AppendError, ReadError};
use crate::api::open_work::{WorkChange, work_change_in};
use crate::api::published_record::PublishedRecord;
use crate::engine::blocks::BlockBuilder;
use crate::engine::chunks::chunk_value;
use crate::engine::index::Index;
use crate::engine::located_records;
use crate::engine::slot::{IndexedRecord, RecordPlace, RecordSlot, StreamEnd, tag};
use crate::engine::value::{CAPACITY, ValueBuilder, entry_bytes};
use crate::engine::values::Values;
use crate::engine::writer::shared::Shared;
use crate::engine::writer::sink::Sink;
use crate::sync::RwLockReadGuard;

/// The decision about an append.
#[derive(Debug)]
pub(crate) enum Admission {
    /// The append is in the group, under this number.
    Admitted(usize),
    /// The append is already durable.
    Known(Appended),
    /// The append cannot be admitted.
    Refused(AppendError),
}

/// An append that will be written.
struct AdmittedAppend {
    append: Append,
    parts: Vec<WrittenPart>,
    first: Position,
    slots: Vec<RecordSlot>,
}

/// A group of appends that one flush makes durable.
pub(crate) struct AppendGroup<'a> {
    shared: &'a Shared,
    /// Whether the appends keep the fences under which another log took them.
    foreign: bool,
    admitted: Vec<AdmittedAppend>,
    sets: HashMap<[u8; 16], usize>,
    /// The ends of the streams that this group extends.
    ends: HashMap<StreamId, StreamEnd>,
    records: usize,
    /// The first positions of the values handed over.
    values: Vec<Position>,
    next: Position,
    next_ordinal: u64,
}

impl<'a> AppendGroup<'a> {
    /// Creates an empty group that continues where the index ends.
    pub(crate) fn after(shared: &'a Shared) -> Self {
        let index = read(shared);
        Self {
            shared,
            foreign: false,
            admitted: Vec::new(),
            sets: HashMap::new(),
            ends: HashMap::new(),
            records: 0,
            values: Vec::new(),
            next: Position(index.head().0 + 1),
            next_ordinal: index.next_ordinal(),
        }
    }

    /// Creates an empty group for appends of another log.
    pub(crate) fn of_another_log(shared: &'a Shared) -> Self {
        Self { foreign: true, ..Self::after(shared) }
    }

    /// Returns the number of admitted appends.
    pub(crate) fn len(&self) -> usize {
        self.admitted.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.admitted.is_empty()
    }

    /// Admits an append, if it is valid.
    pub(crate) fn admit<V: Values>(&mut self, append: Append, values: &V) -> Admission {
        match self.check_new(&append, values) {
            Ok(Some(known)) => known,
            Ok(None) => self.accept_append(append),
            Err(error) => Admission::Refused(error),
        }
    }

    fn check_new<V: Values>(&self, append: &Append, values: &V) -> Result<Option<Admission>, AppendError> {
        if let Some(number) = self.sets.get(&append.set_id) {
            let parts = self.admitted.get(*number).map_or(&[][..], |admitted| &admitted.parts);
            return check::repeated_append(append, parts).map(|_| Some(Admission::Admitted(*number)));
        }
        let index = read(self.shared);
        if let Some(ordinal) = index.recall(append.set_id)
            && let Some(known) = result_in_log(append, ordinal, values)?
        {
            return Ok(Some(known));
        }
        if append.fence != self.shared.fence && !self.foreign {
            // The index on disk has no set ids: after a reopening, what it covers is found in its stream.
            if let Some(part) = append.parts.first()
                && let Some(known) = result_of_old_append(append, part, &index, values)?
            {
                return Ok(Some(known));
            }
            return Err(AppendError::Fenced { presented: append.fence, current: self.shared.fence });
        }
        for part in &append.parts {
            if let Some(known) = self.check_part(append, part, &index, values)? {
                return Ok(Some(known));
            }
        }
        let records = self.records + append.parts.len();
        if index.has_room(records, records) {
            return Ok(None);
        }
        Err(AppendError::NotWritten { why: "the log has as many records as its index can number".to_owned() })
    }

    fn check_part<V: Values>(
        &self,
        append: &Append,
        part: &AppendPart,
        index: &Index,
        values: &V,
    ) -> Result<Option<Admission>, AppendError> {
        let mut end = index.end_of(part.stream.as_str());
        if let Some(newer) = self.ends.get(&part.stream) {
            end = *newer;
        }
        if end.version == part.expected.version() {
            let same = end.tag == tag(part.record.previous());
            return if same { Ok(None) } else { Err(check::other_history(&part.stream)) };
        }
        if let Some(known) = result_of_old_append(append, part, index, values)? {
            return Ok(Some(known));
        }
        Err(AppendError::Conflict {
            stream: part.stream.clone(),
            expected: part.expected,
            actual: end.version,
        })
    }

    fn accept_append(&mut self, append: Append) -> Admission {
        let number = self.admitted.len();
        let first = self.next;
        let mut parts = Vec::with_capacity(append.parts.len());
        for part in &append.parts {
            let record = &part.record;
            self.next.0 += u64::from(record.event_count());
            let end = StreamEnd::new(record.last_version(), record.hash());
            self.ends.insert(part.stream.clone(), end);
            parts.push(WrittenPart::new(record, Position(self.next.0 - 1)));
        }
        self.records += append.parts.len();
        self.sets.insert(append.set_id, number);
        self.admitted.push(AdmittedAppend { slots: Vec::with_capacity(parts.len()), append, parts, first });
        Admission::Admitted(number)
    }

    /// Writes the group durably. After an error, [`AppendGroup::failed`] returns what is known of each append.
    pub(crate) fn write<S: Sink>(
        &mut self,
        builder: &mut ValueBuilder,
        next_chunk: &mut u64,
        sink: &mut S,
    ) -> Result<(), String> {
        if self.is_empty() {
            return Ok(());
        }
        let mut pack = ValuePacker {
            builder,
            sink,
            next_chunk,
            values: &mut self.values,
            ordinal: self.next_ordinal,
            first: Position::default(),
        };
        let packed = self.admitted.iter_mut().try_for_each(|admitted| pack.add(admitted));
        let put = packed.and_then(|()| pack.emit());
        builder.clear();
        put.and_then(|()| sink.sync())
    }

    /// Enters a written group into the index, and into the sorted blocks to be written to disk.
    pub(crate) fn enter(&self, index: &mut Index, blocks: &mut BlockBuilder) {
        for admitted in &self.admitted {
            let placed = admitted.append.parts.iter().zip(&admitted.parts).zip(&admitted.slots);
            for ((part, written), slot) in placed {
                let record = &part.record;
                let end = StreamEnd::new(written.last.version, record.hash());
                let work =
                    RecordView::peek(record.bytes()).map_or(WorkChange::Opened, |view| work_change_in(&view));
                let entered = IndexedRecord { end, slot: *slot, events: record.event_count(), work };
                index.add_to_blocks(&written.stream, &entered, blocks);
            }
            if let Some(slot) = admitted.slots.first() {
                index.remember(admitted.append.set_id, slot.ordinal);
            }
        }
    }

    /// Returns the group's records in order.
    pub(crate) fn records(&self) -> impl Iterator<Item = &EncodedRecord> {
        let parts = self.admitted.iter().flat_map(|admitted| &admitted.append.parts);
        parts.map(|part| &part.record)
    }

    /// Returns the group's records for the feeds.
    pub(crate) fn published(&self) -> impl Iterator<Item = PublishedRecord> {
        let mut next = self.admitted.first().map_or(Position::default(), |admitted| admitted.first);
        self.records().map(move |encoded| {
            let position = next;
            next.0 += u64::from(encoded.event_count());
            PublishedRecord::new(encoded, position)
        })
    }

    /// Returns the result for the caller of a written append.
    pub(crate) fn appended(&self, number: usize) -> Appended {
        check::appended(self.admitted.get(number).map_or(&[], |admitted| &admitted.parts))
    }

    /// Returns the error for the caller of an append when writing failed.
    pub(crate) fn failed(&self, number: usize, why: &str) -> AppendError {
        let why = why.to_owned();
        match self.admitted.get(number) {
            // Its records never left this process: no value with one of them was handed over.
            Some(admitted) if !self.handed_over(admitted) => AppendError::NotWritten { why },
            _ => AppendError::Ambiguous { why },
        }
    }

    fn handed_over(&self, admitted: &AdmittedAppend) -> bool {
        let handed = self.next_ordinal + u64::try_from(self.values.len()).unwrap_or(u64::MAX);
        let first = admitted.slots.first();
        first.is_some_and(|slot| u64::from(slot.ordinal) < handed)
    }
}

/// A packer of records into values, which it hands over.
struct ValuePacker<'a, S> {
    builder: &'a mut ValueBuilder,
    sink: &'a mut S,
    next_chunk: &'a mut u64,
    values: &'a mut Vec<Position>,
    ordinal: u64,
    first: Position,
}

impl<S: Sink> ValuePacker<'_, S> {
    fn add(&mut self, admitted: &mut AdmittedAppend) -> Result<(), String> {
        let total: usize = admitted.append.parts.iter().map(|part| entry_bytes(&part.record)).sum();
        if total > self.builder.room() {
            self.emit()?;
        }
        let mut position = admitted.first;
        for part in &admitted.append.parts {
            if entry_bytes(&part.record) > self.builder.room() {
                self.emit()?;
            }
            if self.builder.is_empty() {
                self.first = position;
            }
            self.put_chunks(&part.record, position)?;
            admitted.slots.push(RecordSlot {
                // `has_room` has checked that it fits.
                ordinal: u32::try_from(self.ordinal).unwrap_or(u32::MAX),
                offset: self.builder.push(&part.record),
            });
            position.0 += u64::from(part.record.event_count());
        }
        // The values of an append that needs several hold nothing else, so that they can be removed as a
        // whole.
        if total > CAPACITY { self.emit() } else { Ok(()) }
    }

    /// Hands over the bodies outside a record before the value that holds the record: after a crash the disk
    /// then never has less of them than of the record.
    fn put_chunks(&mut self, record: &EncodedRecord, first: Position) -> Result<(), String> {
        for detached in record.detached() {
            let position = Position(first.0 + u64::from(detached.event));
            for (number, chunk) in (0..).zip(detached.chunks()) {
                let ordinal = *self.next_chunk;
                *self.next_chunk += 1;
                self.sink.put_chunk(ordinal, &chunk_value(position, number, chunk))?;
            }
        }
        Ok(())
    }

    fn emit(&mut self) -> Result<(), String> {
        if self.builder.is_empty() {
            return Ok(());
        }
        // Counted before it is handed over: a failed write may still have written it.
        self.values.push(self.first);
        let ordinal = self.ordinal;
        self.ordinal += 1;
        let continues_group = self.values.len() > 1;
        let put = self.sink.insert(ordinal, self.builder.finish(self.first, continues_group));
        self.builder.clear();
        put
    }
}

fn read(shared: &Shared) -> RwLockReadGuard<'_, Index> {
    shared.index.read().unwrap_or_else(PoisonError::into_inner)
}

fn unreadable(error: &ReadError) -> AppendError {
    AppendError::NotWritten { why: error.to_string() }
}

/// Returns the result of an append whose id is in the log, near this value.
fn result_in_log<V: Values>(
    append: &Append,
    ordinal: u32,
    values: &V,
) -> Result<Option<Admission>, AppendError> {
    let parts = located_records::whole_append(values, ordinal.into(), append.set_id);
    match parts.map_err(|error| unreadable(&error))? {
        Some(parts) => check::repeated_append(append, &parts).map(|first| Some(Admission::Known(first))),
        None => Ok(None),
    }
}

/// Returns the result of an append that extended its stream too long ago for its set id to be remembered.
fn result_of_old_append<V: Values>(
    append: &Append,
    part: &AppendPart,
    index: &Index,
    values: &V,
) -> Result<Option<Admission>, AppendError> {
    let first = part.record.first_version();
    if first > index.end_of(part.stream.as_str()).version {
        return Ok(None);
    }
    let Some(place) = place_of_version(part.stream.as_str(), first, index, values)? else {
        return Ok(None);
    };
    let there = located_records::set_id_at(values, place).map_err(|error| unreadable(&error))?;
    if there != append.set_id {
        return Ok(None);
    }
    result_in_log(append, place.slot.ordinal, values)
}

/// Returns the place of the record that holds a version of a stream. It is usually one of the newest, so each step
/// back is twice as long as the one before.
fn place_of_version<V: Values>(
    stream: &str,
    version: Version,
    index: &Index,
    values: &V,
) -> Result<Option<RecordPlace>, AppendError> {
    let (mut next, mut most) = (index.newest_of(stream), 1);
    while let Some(number) = next {
        let mut places = Vec::new();
        next = index.walk_back(number, None, most, &mut places);
        places.reverse();
        let Some(oldest) = places.first() else { break };
        let begins =
            located_records::first_version_at(values, *oldest).map_err(|error| unreadable(&error))?;
        if begins <= version || next.is_none() {
            let at = located_records::place_for_version(values, &places, version)
                .map_err(|error| unreadable(&error))?;
            return Ok(places.get(at).copied());
        }
        most *= 2;
    }
    Ok(None)
}
