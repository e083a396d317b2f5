//! A log in a directory that cannot be opened because it is damaged, for `verify` only: whatever of it the database still
//! gives out, in order. It is looked at in a copy, so that nothing is repaired and nothing of it is lost by looking.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use ::sled::Tree;
use proto_events::id::{Position, StreamId, Version};

use crate::store::keys::{Key, parse};
use crate::store::{EventReader, OpenError, ReadError, StoredRecord, StreamInfo, reading};

use super::guard::Copy;
use super::open::{damaged, open_database, sled_error};
use super::sink::Trees;
use super::{SledOptions, dir};

/// What is left of a damaged log. It has no index: every question goes through all of it.
pub struct SledDamaged {
    // Before the copy that they are of, so that they are let go of first.
    trees: Trees,
    _copy: Copy,
    /// Behind the last value.
    end: u64,
    streams: BTreeMap<StreamId, Version>,
    head: Position,
}

impl fmt::Debug for SledDamaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledDamaged").field("end", &self.end).finish_non_exhaustive()
    }
}

impl SledDamaged {
    /// Opens what is left of the log in `dir`.
    ///
    /// # Errors
    /// [`OpenError`] if it is no log of a known format, another process holds it, or the database under it does not
    /// open.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, OpenError> {
        let dir = dir.as_ref();
        let options = SledOptions { create: false, ..SledOptions::default() };
        dir::claim(dir, options)?;
        let copy = Copy::of(dir)?;
        let db = open_database(copy.dir(), options)?;
        let tree = |name: &str| db.open_tree(name).map_err(|error| sled_error(dir, &error));
        let (log, chunks) = (tree("log")?, tree("chunks")?);
        let trees = Trees { log, chunks, runs: tree("runs")?, snapshots: tree("snapshots")? };
        let last = catch_unwind(AssertUnwindSafe(|| last_value(&trees.log)));
        let last = last.unwrap_or_else(|_| Err("the database gave up on its last value".to_owned()));
        let end = last.map_err(|what| damaged(dir, what))?.map_or(0, |ordinal| ordinal.saturating_add(1));
        let mut log = Self { trees, _copy: copy, end, streams: BTreeMap::new(), head: Position(0) };
        let (mut streams, mut head) = (BTreeMap::new(), Position(0));
        log.survey(&mut |read| {
            if let Ok(stored) = read {
                head = head.max(stored.last_position());
                streams.insert(stored.record.stream.clone(), stored.record.last_version());
            }
        });
        (log.streams, log.head) = (streams, head);
        Ok(log)
    }

    fn collect(
        &self,
        limit: usize,
        wanted: impl Fn(&StoredRecord) -> bool,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let (mut found, mut failed) = (Vec::new(), None);
        self.survey(&mut |read| match read {
            _ if found.len() >= limit => {}
            Ok(stored) if wanted(&stored) => found.push(stored),
            Err(error) => failed = failed.take().or(Some(error)),
            Ok(_) => {}
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }
}

/// The ordinal of the last value; spacers stand behind it.
fn last_value(log: &Tree) -> Result<Option<u64>, String> {
    for key in log.iter().keys().rev() {
        if let Some(Key::Value(ordinal)) = parse(&key.map_err(|error| error.to_string())?) {
            return Ok(Some(ordinal));
        }
    }
    Ok(None)
}

impl EventReader for SledDamaged {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.collect(limit, |stored| stored.record.stream == *stream && stored.record.last_version() >= from)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.collect(limit, |stored| stored.last_position() >= from)
    }

    fn head(&self) -> Result<Position, ReadError> {
        Ok(self.head)
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        Ok(self.streams.get(stream).copied().unwrap_or_default())
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        let behind = self.streams.iter().filter(|(stream, _)| after.is_none_or(|after| *stream > after));
        let wanted = behind.filter(|(stream, _)| stream.as_str().starts_with(prefix)).take(limit);
        Ok(wanted.map(|(stream, version)| StreamInfo { stream: stream.clone(), version: *version }).collect())
    }

    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        reading::survey(&self.trees, self.end, show);
    }

    fn survey_stream(&self, stream: &StreamId, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.survey(&mut |read| {
            if read.as_ref().map_or(true, |stored| stored.record.stream == *stream) {
                show(read);
            }
        });
    }
}
