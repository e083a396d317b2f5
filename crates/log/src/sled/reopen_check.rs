//! The comparison of a reopened log with the log that was open. Another log may stand in its directory meanwhile, or an older copy
//! or another course of it, whose work is not this program's.

use std::path::{Path, PathBuf};

use proto_events::id::{Digest, Position};

use crate::api::durability::Durability;
use crate::api::error::OpenError;
use crate::api::reader::EventReader;
use crate::sled::dir::{LogHeader, log_header};

/// A log as it was known when its reopening began.
#[derive(Debug)]
pub(crate) struct KnownLog {
    dir: PathBuf,
    header: LogHeader,
    /// The position of the last event.
    end: Position,
    /// The hash of the record that holds it, if it could be read.
    last: Option<Digest>,
}

impl KnownLog {
    /// Returns what is known of an open log, which ends at this position.
    pub(crate) fn new((dir, header): (&Path, LogHeader), log: &dyn EventReader, end: Position) -> Self {
        Self { dir: dir.to_owned(), header, end, last: record_at(log, end) }
    }

    /// Checks that the directory has a log of this id, before anything is changed there.
    ///
    /// # Errors
    /// [`OpenError::Replaced`], or that of reading the header.
    pub(crate) fn check_id(&self) -> Result<(), OpenError> {
        let (found, id) = (log_header(&self.dir)?.id, self.header.id);
        if found == id { Ok(()) } else { Err(self.replaced(format!("it is the log {found}, not {id}"))) }
    }

    /// Checks that the reopened log, which ends at this position, goes on from what was known.
    ///
    /// # Errors
    /// [`OpenError::Replaced`].
    pub(crate) fn check(&self, reopened: &dyn EventReader, end: Position) -> Result<(), OpenError> {
        let known = self.end;
        if end < known {
            // Without syncs a device may have lost the newest events: the log is the same one.
            return match self.header.durability {
                Durability::Strict => {
                    Err(self.replaced(format!("it ends at position {end}, and position {known} was durable")))
                }
                Durability::Os => Ok(()),
            };
        }
        match (self.last, record_at(reopened, known)) {
            (Some(last), Some(found)) if last != found => {
                Err(self.replaced(format!("it has another record at position {known}")))
            }
            _ => Ok(()),
        }
    }

    fn replaced(&self, why: String) -> OpenError {
        OpenError::Replaced { path: self.dir.clone(), why }
    }
}

/// Returns the hash of the record that holds this position, if there is one that can be read.
fn record_at(log: &dyn EventReader, position: Position) -> Option<Digest> {
    log.read_all(position, 1).ok()?.first().map(|stored| stored.hash)
}
