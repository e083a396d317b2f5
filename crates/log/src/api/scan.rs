//! Records shown in place, without copying the log.

use std::ops::ControlFlow;

use proto_events::codec::record::RecordView;
use proto_events::id::{Digest, Position, StreamId};

use crate::api::error::ReadError;

/// The checks that a scan makes before it shows a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// The checksum of the record's value: detects damage, not tampering.
    Checksums,
    /// The record's leaf hash and its bodies' digests too, as in every other read.
    Hashes,
}

/// A record as a scan shows it, borrowed from the log.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ScannedRecord<'a> {
    /// The position of the record's first event.
    pub position: Position,
    /// The leaf hash that was stored with the record.
    pub hash: Digest,
    /// The record's header, and its events by [`RecordView::events`]. A body stored in chunks is not
    /// shown; to get it, read the record.
    pub record: RecordView<'a>,
}

/// The result of showing a record in a scan: continue or end, or the error found.
pub type ScanStep = Result<ControlFlow<()>, ReadError>;

impl ScannedRecord<'_> {
    /// Returns the position of the record's last event.
    pub fn last_position(&self) -> Position {
        Position(self.position.0.saturating_add(u64::from(self.record.event_count) - 1))
    }

    /// Returns an error with this record's stream, version and position.
    pub fn corrupt(&self, what: impl Into<String>) -> ReadError {
        ReadError::Corrupt {
            what: what.into(),
            stream: StreamId::parse(self.record.stream).ok(),
            version: Some(self.record.first_version),
            position: Some(self.position),
        }
    }

    /// Compares leaf hash and bodies with what was stored. Returns false if a body is in chunks and could
    /// not be compared.
    pub(crate) fn compare(&self) -> Result<bool, ReadError> {
        if self.record.leaf_hash() != self.hash {
            return Err(self.corrupt("the record does not have the leaf hash that is stored with it"));
        }
        for (number, event) in self.record.events().enumerate() {
            let event = event.map_err(|error| self.corrupt(error.to_string()))?;
            if event.body.is_none() {
                return Ok(false);
            }
            if !event.matches_digest() {
                let what = "does not have the digest that the record holds for it";
                return Err(self.corrupt(format!("the body of event {number} {what}")));
            }
        }
        Ok(true)
    }
}
