//! One group: which appends are admitted, in which values their records stand, and what their callers hear.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use proto_events::codec::record::{EncodedRecord, Record, RecordError, RecordView};
use proto_events::envelope::Committed;
use proto_events::id::{Position, StreamId};

use crate::store::check;
use crate::store::chunks::chunk_value;
use crate::store::index::{Entered, Index, Slot, StreamEnd, tag};
use crate::store::open_work::{Work, work_of};
use crate::store::reading::{self, Values};
use crate::store::runs::RunBuilder;
use crate::store::sync::RwLockReadGuard;
use crate::store::value::{CAPACITY, ValueBuilder, entry_bytes};
use crate::store::{Append, AppendError, AppendPart, Appended, ReadError, SetPart, StoredRecord};

use super::{Shared, Sink};

/// What becomes of an append.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is this number in the group.
    Admitted(usize),
    /// It is durable already.
    Known(Appended),
    /// It cannot be.
    Refused(AppendError),
}

/// An append that will be written.
struct Admitted {
    append: Append,
    parts: Vec<SetPart>,
    first: Position,
    slots: Vec<Slot>,
}

/// The group.
pub(super) struct Group<'a> {
    shared: &'a Shared,
    /// Whether its appends keep the fences under which another log took them.
    foreign: bool,
    admitted: Vec<Admitted>,
    sets: HashMap<[u8; 16], usize>,
    /// Ends of the streams that this group extends.
    ends: HashMap<StreamId, StreamEnd>,
    records: usize,
    /// First positions of the values.
    values: Vec<Position>,
    next: Position,
    next_ordinal: u64,
}

impl<'a> Group<'a> {
    /// An empty group that goes on where the index ends.
    pub(super) fn after(shared: &'a Shared) -> Self {
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

    /// The same for appends of another log.
    pub(super) fn of_another_log(shared: &'a Shared) -> Self {
        Self { foreign: true, ..Self::after(shared) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.admitted.is_empty()
    }

    /// Takes an append in, if it may be.
    pub(super) fn admit<V: Values>(&mut self, append: Append, values: &V) -> Verdict {
        match self.examine(&append, values) {
            Ok(Some(known)) => known,
            Ok(None) => self.take(append),
            Err(error) => Verdict::Refused(error),
        }
    }

    fn examine<V: Values>(&self, append: &Append, values: &V) -> Result<Option<Verdict>, AppendError> {
        if let Some(number) = self.sets.get(&append.set_id) {
            let parts = self.admitted.get(*number).map_or(&[][..], |admitted| &admitted.parts);
            return check::repeated(append, parts).map(|_| Some(Verdict::Admitted(*number)));
        }
        let index = read(self.shared);
        if let Some(ordinal) = index.recall(append.set_id)
            && let Some(known) = known_in(append, ordinal, values)?
        {
            return Ok(Some(known));
        }
        if append.fence != self.shared.fence && !self.foreign {
            return Err(AppendError::Fenced { presented: append.fence, current: self.shared.fence });
        }
        for part in &append.parts {
            if let Some(known) = self.examine_part(append, part, &index, values)? {
                return Ok(Some(known));
            }
        }
        let records = self.records + append.parts.len();
        if index.has_room(records, records) {
            return Ok(None);
        }
        Err(AppendError::NotWritten {
            why: "the log has as many records as this program can index".to_owned(),
        })
    }

    fn examine_part<V: Values>(
        &self,
        append: &Append,
        part: &AppendPart,
        index: &Index,
        values: &V,
    ) -> Result<Option<Verdict>, AppendError> {
        let mut end = index.end_of(part.stream.as_str());
        if let Some(newer) = self.ends.get(&part.stream) {
            end = *newer;
        }
        if end.version == part.expected.version() {
            let same = end.tag == tag(part.record.previous());
            return if same { Ok(None) } else { Err(check::other_history(&part.stream)) };
        }
        if let Some(known) = known_long_ago(append, part, index, values)? {
            return Ok(Some(known));
        }
        Err(AppendError::Conflict {
            stream: part.stream.clone(),
            expected: part.expected,
            actual: end.version,
        })
    }

    fn take(&mut self, append: Append) -> Verdict {
        let number = self.admitted.len();
        let first = self.next;
        let mut parts = Vec::with_capacity(append.parts.len());
        for part in &append.parts {
            let record = &part.record;
            self.next.0 += u64::from(record.event_count());
            let end = StreamEnd::of(record.last_version(), record.hash());
            self.ends.insert(part.stream.clone(), end);
            parts.push(SetPart::written(record, Position(self.next.0 - 1)));
        }
        self.records += append.parts.len();
        self.sets.insert(append.set_id, number);
        self.admitted.push(Admitted { slots: Vec::with_capacity(parts.len()), append, parts, first });
        Verdict::Admitted(number)
    }

    /// Writes the group durably. After an error, [`Group::failed`] tells what is known of each append.
    pub(super) fn write<S: Sink>(
        &mut self,
        builder: &mut ValueBuilder,
        next_chunk: &mut u64,
        sink: &mut S,
    ) -> Result<(), String> {
        if self.is_empty() {
            return Ok(());
        }
        let mut pack = Pack {
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

    /// Enters a written group into the index, and into what will be written of it.
    pub(super) fn enter(&self, index: &mut Index, runs: &mut RunBuilder) {
        for admitted in &self.admitted {
            let placed = admitted.append.parts.iter().zip(&admitted.parts).zip(&admitted.slots);
            for ((part, written), slot) in placed {
                let record = &part.record;
                let end = StreamEnd::of(written.last.version, record.hash());
                let work = RecordView::peek(record.bytes()).map_or(Work::Open, |view| work_of(&view));
                let entered = Entered { end, slot: *slot, events: record.event_count(), work };
                index.add_to_runs(&written.stream, &entered, runs);
            }
            if let Some(slot) = admitted.slots.first() {
                index.remember(admitted.append.set_id, slot.ordinal);
            }
        }
    }

    /// The group's records in order.
    pub(super) fn records(&self) -> impl Iterator<Item = &EncodedRecord> {
        let parts = self.admitted.iter().flat_map(|admitted| &admitted.append.parts);
        parts.map(|part| &part.record)
    }

    /// The group's records as a reader gets them.
    pub(super) fn stored(&self) -> impl Iterator<Item = StoredRecord> {
        let mut next = self.admitted.first().map_or(Position::default(), |admitted| admitted.first);
        self.records().map(move |encoded| {
            let position = next;
            next.0 += u64::from(encoded.event_count());
            stored(encoded, position)
        })
    }

    /// What the caller of an append that was written hears.
    pub(super) fn appended(&self, number: usize) -> Appended {
        check::appended(self.admitted.get(number).map_or(&[], |admitted| &admitted.parts))
    }

    /// What the caller of an append hears when writing failed.
    pub(super) fn failed(&self, number: usize, why: &str) -> AppendError {
        let why = why.to_owned();
        match self.admitted.get(number) {
            // Its records never left this process: no value with one of them was handed over.
            Some(admitted) if !self.handed_over(admitted) => AppendError::NotWritten { why },
            _ => AppendError::Ambiguous { why },
        }
    }

    fn handed_over(&self, admitted: &Admitted) -> bool {
        let handed = self.next_ordinal + u64::try_from(self.values.len()).unwrap_or(u64::MAX);
        let first = admitted.slots.first();
        first.is_some_and(|slot| u64::from(slot.ordinal) < handed)
    }
}

/// A record that is durable, as a reader gets it.
pub(in crate::store) fn stored(encoded: &EncodedRecord, position: Position) -> StoredRecord {
    let whole = || -> Result<Record, RecordError> {
        let mut record = Record::decode(encoded.bytes())?;
        for detached in encoded.detached() {
            record.put_body(detached.event.into(), detached.body.to_vec())?;
        }
        Ok(record)
    };
    StoredRecord {
        position,
        hash: encoded.hash(),
        record: whole().expect("an encoded record can always be read back: its type has no other maker"),
        bytes: Arc::clone(encoded.bytes()),
    }
}

/// Puts records into values and hands the values over.
struct Pack<'a, S> {
    builder: &'a mut ValueBuilder,
    sink: &'a mut S,
    next_chunk: &'a mut u64,
    values: &'a mut Vec<Position>,
    ordinal: u64,
    first: Position,
}

impl<S: Sink> Pack<'_, S> {
    fn add(&mut self, admitted: &mut Admitted) -> Result<(), String> {
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
            admitted.slots.push(Slot {
                // `has_room` has seen that it fits.
                ordinal: u32::try_from(self.ordinal).unwrap_or(u32::MAX),
                offset: self.builder.push(&part.record),
            });
            position.0 += u64::from(part.record.event_count());
        }
        // The values of an append that needs several hold nothing else, so that they can be dropped whole.
        if total > CAPACITY { self.emit() } else { Ok(()) }
    }

    /// Bodies that stand outside are handed over before the value that holds their record: what the disk has of
    /// them after a crash is then never less than what it has of the record.
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
        // Counted before it is handed over: a failed write may have written all the same.
        self.values.push(self.first);
        let ordinal = self.ordinal;
        self.ordinal += 1;
        let goes_on = self.values.len() > 1;
        let put = self.sink.put(ordinal, self.builder.finish(self.first, goes_on));
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

/// Answers an append whose id is in the log, near this value.
fn known_in<V: Values>(append: &Append, ordinal: u32, values: &V) -> Result<Option<Verdict>, AppendError> {
    let parts = reading::set_around(values, ordinal.into(), append.set_id);
    match parts.map_err(|error| unreadable(&error))? {
        Some(parts) => check::repeated(append, &parts).map(|first| Some(Verdict::Known(first))),
        None => Ok(None),
    }
}

/// A stream that has gone on may have done so by this very append, too long ago to be remembered.
fn known_long_ago<V: Values>(
    append: &Append,
    part: &AppendPart,
    index: &Index,
    values: &V,
) -> Result<Option<Verdict>, AppendError> {
    let first = part.record.first_version();
    if first > index.end_of(part.stream.as_str()).version {
        return Ok(None);
    }
    let slots = index.slots_of(part.stream.as_str());
    let number = reading::holding(values, &slots, first).map_err(|error| unreadable(&error))?;
    let Some(slot) = slots.get(number) else {
        return Ok(None);
    };
    let there = reading::set_of(values, *slot).map_err(|error| unreadable(&error))?;
    if there != append.set_id {
        return Ok(None);
    }
    known_in(append, slot.ordinal, values)
}

impl SetPart {
    /// A record whose last event has this position.
    pub(in crate::store) fn written(record: &EncodedRecord, last: Position) -> Self {
        let (number, of) = record.part();
        Self {
            number,
            of,
            stream: record.stream().as_str().to_owned(),
            first: record.first_version(),
            last: Committed { version: record.last_version(), position: last },
        }
    }
}
