//! Logs that end early: what a process finds that starts after a crash.

use proto_events::codec::record::EncodedRecord;
use proto_events::id::{ExpectedVersion, Position, Version};

use crate::error::Error;
use crate::store::{Append, AppendPart, EventReader, EventStore, MemoryStore, StoredRecord};

/// The appends of a log, in order: the records of each. An append is there whole or not at all, so behind each of them
/// a process may have died, and nowhere else.
///
/// # Errors
/// What reading the log answers.
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
pub(super) struct Regrown(MemoryStore);

impl Regrown {
    pub(super) fn new() -> Self {
        Self(MemoryStore::new())
    }

    /// Takes over one append, as it is.
    pub(super) async fn take(&mut self, append: &[StoredRecord]) -> Result<(), Error> {
        let Some(first) = append.first() else { return Ok(()) };
        // What was written under a later epoch is appended under it.
        while self.0.fence().epoch < first.record.epoch {
            self.0 = self.0.reopened()?;
        }
        let mut parts = Vec::with_capacity(append.len());
        for stored in append {
            let expected = ExpectedVersion::at(Version(stored.record.first_version.0.saturating_sub(1)));
            let record = EncodedRecord::from_bytes(&stored.bytes)?;
            parts.push(AppendPart { stream: stored.record.stream.clone(), expected, record });
        }
        let (fence, set_id) = (self.0.fence(), first.record.set_id);
        self.0.append(Append { fence, set_id, parts }).await?;
        Ok(())
    }

    /// What the next process finds: the records so far, under an epoch that none of them has.
    pub(super) fn found(&self) -> Result<MemoryStore, Error> {
        Ok(self.0.reopened()?)
    }
}

/// A log in memory that holds the first appends of another: what the next process finds if one died behind the last of
/// them.
///
/// # Errors
/// What reading the log answers.
pub async fn cut_after(log: &dyn EventReader, count: usize) -> Result<MemoryStore, Error> {
    let mut cut = Regrown::new();
    for append in appends(log)?.iter().take(count) {
        cut.take(append).await?;
    }
    cut.found()
}
