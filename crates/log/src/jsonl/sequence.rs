//! The conditions between consecutive lines: positions and versions have no gap, each record names the one
//! before it in its stream, appends are whole. A store checks the same when it is opened. The Merkle root over all
//! of them must be the one that the first and the last line name.

use std::collections::HashMap;

use proto_events::id::{Digest, Position, StreamId, Version};

use crate::api::record::StoredRecord;
use crate::engine::head::Frontier;
use crate::jsonl::end::ExportEnd;
use crate::jsonl::error::ExportError;
use crate::jsonl::line::ExportHeader;

/// A check over the records of a log, in order.
#[derive(Debug, Default)]
pub struct RecordSequence {
    ends: HashMap<StreamId, (Version, Digest)>,
    last: Position,
    epoch: u64,
    frontier: Frontier,
    /// Set id, next part and number of parts of an append that is not whole yet.
    open: Option<([u8; 16], u16, u16)>,
}

impl RecordSequence {
    /// Checks the next record.
    ///
    /// # Errors
    /// The condition that the record violates.
    pub fn take(&mut self, stored: &StoredRecord) -> Result<(), String> {
        let record = &stored.record;
        if stored.position.0 != self.last.0 + 1 {
            return Err(format!("position {} follows position {}", stored.position, self.last));
        }
        let (version, hash) = self.ends.get(&record.stream).copied().unwrap_or_default();
        if record.first_version.0 != version.0 + 1 {
            return Err(format!("version {} follows version {version}", record.first_version));
        }
        if record.previous != hash {
            return Err("it does not name the hash of the previous record of its stream".to_owned());
        }
        if record.epoch < self.epoch {
            return Err(format!("its epoch {} follows epoch {}", record.epoch, self.epoch));
        }
        let (set_id, part, parts) = self.open.take().unwrap_or((record.set_id, 0, record.parts));
        if (record.set_id, record.part, record.parts) != (set_id, part, parts) {
            return Err("the previous append is incomplete, and this record is not its next part".to_owned());
        }
        self.open = (part + 1 < parts).then_some((set_id, part + 1, parts));
        self.ends.insert(record.stream.clone(), (record.last_version(), stored.hash));
        self.last = stored.last_position();
        self.epoch = record.epoch;
        self.frontier.push(stored.hash);
        Ok(())
    }

    /// Whether the append of the last record is whole.
    pub fn is_whole(&self) -> bool {
        self.open.is_none()
    }

    /// Returns the highest epoch so far.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Ends the check: all lines were taken, and the log must be the one that the first and the last line describe.
    ///
    /// # Errors
    /// [`ExportError::Cut`] if lines are missing at the end, [`ExportError::OtherRoot`] if the records are others.
    pub fn finish(&self, header: &ExportHeader, end: Option<ExportEnd>) -> Result<(), ExportError> {
        let records = self.frontier.size();
        let cut = || ExportError::Cut { line: records + 1, ends: self.last, head: header.head };
        let end = end.filter(|_| self.last == header.head && self.is_whole()).ok_or_else(cut)?;
        let computed = ExportEnd { head: self.last, records, root: self.frontier.root() };
        for (place, said) in [("first", header.export_end()), ("last", end)] {
            if said != computed {
                return Err(ExportError::OtherRoot { place, said, computed });
            }
        }
        Ok(())
    }
}
