//! Logs that end early, as a process finds them that starts after a crash.

use proto_events::codec::record::{EncodedRecord, Record, RecordError, StoredEvent};
use proto_events::id::{ExpectedVersion, Position, Version};
use taskreel_log::api::{Append, AppendPart, EventReader, EventStore, StoredRecord};
use taskreel_log::memory::MemoryStore;

use crate::error::Error;

/// Returns the appends of a log, in order: the records of each. An append is in the log completely or not at
/// all, so a process may have died after each of them, and at no other point.
///
/// # Errors
/// Errors of reading the log.
pub fn appends(log: &dyn EventReader) -> Result<Vec<Vec<StoredRecord>>, Error> {
    let mut appends: Vec<Vec<StoredRecord>> = Vec::new();
    for record in log.read_all(Position(1), usize::MAX)? {
        let set_id = record.record.set_id;
        match appends.last_mut() {
            Some(append) if append.first().is_some_and(|first| first.record.set_id == set_id) => {
                append.push(record);
            }
            _ => appends.push(vec![record]),
        }
    }
    Ok(appends)
}

/// A log in memory that grows by the appends of another.
#[derive(Debug)]
pub(crate) struct Regrown(MemoryStore);

impl Regrown {
    pub(crate) fn new() -> Self {
        Self(MemoryStore::new())
    }

    /// Adds one append, unchanged.
    pub(crate) async fn accept_append(&mut self, append: &[StoredRecord]) -> Result<(), Error> {
        let Some(first) = append.first() else { return Ok(()) };
        // An append of a later epoch needs a log of that epoch.
        while self.0.fence().epoch < first.record.epoch {
            self.0 = self.0.reopened()?;
        }
        let mut parts = Vec::with_capacity(append.len());
        for stored in append {
            let expected = ExpectedVersion::exactly(Version(stored.record.first_version.0.saturating_sub(1)));
            let record = encoded(stored)?;
            parts.push(AppendPart { stream: stored.record.stream.clone(), expected, record });
        }
        let (fence, set_id) = (self.0.fence(), first.record.set_id);
        self.0.append(Append { fence, set_id, parts }).await?;
        Ok(())
    }

    /// Returns the log that the next process finds: the records so far, under an epoch that none of them has.
    pub(crate) fn reopened_store(&self) -> Result<MemoryStore, Error> {
        Ok(self.0.reopened()?)
    }
}

/// Returns a record as its writer encoded it, with the bodies that stand outside its bytes.
fn encoded(stored: &StoredRecord) -> Result<EncodedRecord, RecordError> {
    let outside = Record::decode(&stored.bytes)?;
    let body = |(number, _): (usize, u32)| {
        let body = stored.record.events.get(number).and_then(StoredEvent::body);
        Some((number, body?.to_vec()))
    };
    EncodedRecord::with_bodies(&stored.bytes, outside.missing_bodies().filter_map(body).collect())
}

/// Returns a log in memory with the first appends of another: the log that a process finds if its predecessor
/// died after the last of them.
///
/// # Errors
/// Errors of reading the log.
pub async fn cut_after(log: &dyn EventReader, count: usize) -> Result<MemoryStore, Error> {
    let mut cut = Regrown::new();
    for append in appends(log)?.iter().take(count) {
        cut.accept_append(append).await?;
    }
    cut.reopened_store()
}
