//! Checks each record against the rules of its writer: the one partition of a log, epochs that only grow, names
//! that were checked, set ids that name one append, and appends whose records have one fence and a stream each.

use std::collections::HashSet;

use proto_events::envelope::{Basis, Timestamp};
use proto_events::id::{Digest, Position, StreamId};

use crate::api::record::StoredRecord;
use crate::audit::verify::finding::FindingKind;
use crate::limits::RECORD_BYTES_MAX;

/// The partition of a log. This release writes no other one.
const PARTITION: u32 = 0;

/// The longest step back in time from one record to the next that is not noted, in microseconds (a minute): the times of
/// several streams are taken before the records come to their order.
const STEP_BACK_MAX: i64 = 60 * 1_000_000;

/// An append whose records have not all been read yet.
pub(crate) struct UnfinishedAppend {
    set_id: [u8; 16],
    pub(crate) next: u16,
    pub(crate) of: u16,
    pub(crate) position: Position,
    epoch: u64,
    streams: HashSet<StreamId>,
}

/// The records read so far, as their writer saw them.
#[derive(Default)]
pub(crate) struct WriterCheck {
    /// The epoch of the record before.
    epoch: u64,
    /// The position and time of the record before.
    last: Option<(Position, Timestamp)>,
    /// The digests of the set ids, shortened.
    sets: HashSet<[u8; 8]>,
    pub(crate) append: Option<UnfinishedAppend>,
}

impl WriterCheck {
    /// Takes the log's next record and returns its faults. Of one stream alone (`alone`), neither appends nor the
    /// records in between are known.
    pub(crate) fn accept_record(
        &mut self,
        stored: &StoredRecord,
        (alone, after_damage): (bool, bool),
    ) -> Vec<(FindingKind, String)> {
        let mut faults = Vec::new();
        let record = &stored.record;
        if record.partition != PARTITION {
            let what = format!(
                "the record is of partition {}, but the log has partition {PARTITION} alone",
                record.partition
            );
            faults.push((FindingKind::Append, what));
        }
        if stored.bytes.len() > RECORD_BYTES_MAX {
            let what =
                format!("the record has {} bytes; no writer exceeds {RECORD_BYTES_MAX}", stored.bytes.len());
            faults.push((FindingKind::Append, what));
        }
        if record.epoch < self.epoch {
            let what = format!(
                "a writer of epoch {} wrote after the writer of epoch {} that had replaced it",
                record.epoch, self.epoch
            );
            faults.push((FindingKind::Append, what));
        }
        self.epoch = record.epoch;
        let principal = &record.metadata.principal;
        if principal.name.is_empty() && principal.basis == Basis::Authenticated {
            let what = "the record names nobody, but says that the name was checked".to_owned();
            faults.push((FindingKind::Command, what));
        }
        if !alone {
            let wrong = self.append(stored, after_damage).into_iter();
            faults.extend(wrong.map(|what| (FindingKind::Append, what)));
        }
        faults
    }

    /// Forgets the open append: its other records may be what could not be read.
    pub(crate) fn forget(&mut self) {
        self.append = None;
    }

    /// Returns the note on a clock that was set back between this record and the one before it.
    pub(crate) fn step_back(&mut self, stored: &StoredRecord) -> Option<String> {
        let at = stored.record.metadata.at;
        let (position, before) = self.last.replace((stored.position, at))?;
        let back = before.0.saturating_sub(at.0) > STEP_BACK_MAX;
        back.then(|| {
            let here = stored.position;
            format!(
                "a clock was set back: the record at position {here} is of {at}, that at position {position} before it of {before}"
            )
        })
    }

    fn append(&mut self, stored: &StoredRecord, after_damage: bool) -> Vec<String> {
        let record = &stored.record;
        let mut faults = Vec::new();
        let mut open = self.append.take();
        let joins = open.as_ref().is_some_and(|open| {
            record.set_id == open.set_id && record.part == open.next && record.parts == open.of
        });
        if !joins {
            if let Some(open) = open.take() {
                faults.push(format!(
                    "the append at position {} has only {} of {} records",
                    open.position, open.next, open.of
                ));
            } else if record.part != 0 && !after_damage {
                faults.push(format!(
                    "record {} of {} of its append comes first",
                    record.part + 1,
                    record.parts
                ));
            }
            let short = Digest::compute(&record.set_id).0.first_chunk().copied().unwrap_or_default();
            if !self.sets.insert(short) && !after_damage {
                faults.push("its append has the set id of an earlier append".to_owned());
            }
        }
        if let Some(open) = open.as_ref().filter(|open| open.epoch != record.epoch) {
            faults.push(format!(
                "the record is of epoch {}, but its append began with one of epoch {}",
                record.epoch, open.epoch
            ));
        }
        if open.as_ref().is_some_and(|open| open.streams.contains(&record.stream)) {
            faults.push("its append has two records of the stream".to_owned());
        }
        let next = record.part.saturating_add(1);
        let (position, epoch, mut streams) = match open {
            Some(open) => (open.position, open.epoch, open.streams),
            None => (stored.position, record.epoch, HashSet::new()),
        };
        self.append = (next < record.parts).then(|| {
            streams.insert(record.stream.clone());
            UnfinishedAppend { set_id: record.set_id, next, of: record.parts, position, epoch, streams }
        });
        faults
    }
}
