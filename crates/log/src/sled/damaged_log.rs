//! A log in a directory that cannot be opened because it is damaged, for `verify` only: the records that the
//! database can still return, in order. It is read from a copy, so that reading changes nothing in the
//! original.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use ::sled::Tree;
use proto_events::id::{Position, StreamId, Version};

use crate::api::error::{OpenError, ReadError};
use crate::api::reader::EventReader;
use crate::api::record::{StoredRecord, StreamInfo};
use crate::engine::keys::{Key, parse};
use crate::engine::survey;
use crate::engine::values::Values;
use crate::sled::database::{damaged, open_database, sled_error};
use crate::sled::dir;
use crate::sled::dir::{DATA_FILE, io_error};
use crate::sled::fence::{FencedHandle, fenced};
use crate::sled::guard::cache;
use crate::sled::guard::disk::write_at;
use crate::sled::guard::segment::SEGMENT_BYTES;
use crate::sled::guard::walk::SegmentWalk;
use crate::sled::index::BLOCKS_TREE;
use crate::sled::newest::Newest;
use crate::sled::options::{ReadOnlyOptions, SledOptions};
use crate::sled::private_copy::PrivateCopy;
use crate::sled::sink::Trees;

/// Bytes of the data file that the smallest value takes up: its record alone has two hashes and the ids of an event.
const VALUE_BYTES_MIN: u64 = 64;

/// The most values beyond the end of the log that are looked at.
const STRAYS_MAX: usize = 64;

/// The readable part of a damaged log. It has no index: every read goes through all of it.
pub struct SledDamaged {
    // Declared before the copy that they are in, so that they are dropped first.
    trees: FencedHandle<Trees>,
    _copy: PrivateCopy,
    /// The ordinal after the last value for which the data file has room: each one before it is asked for.
    end: u64,
    /// Ordinals of values beyond, newest first. They are damage, and what is between is not counted through.
    strays: Vec<u64>,
    streams: BTreeMap<StreamId, Version>,
    head: Position,
}

impl fmt::Debug for SledDamaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledDamaged").field("end", &self.end).finish_non_exhaustive()
    }
}

impl SledDamaged {
    /// Opens the readable part of the log in `dir`, with the default options.
    ///
    /// # Errors
    /// As [`SledDamaged::open_with`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(dir, &ReadOnlyOptions::default())
    }

    /// Opens the readable part of the log in `dir`.
    ///
    /// # Errors
    /// [`OpenError`] if `dir` is not a log of a known format, the disk has no room for the copy, or its database does
    /// not open.
    pub fn open_with(dir: impl AsRef<Path>, reading: &ReadOnlyOptions) -> Result<Self, OpenError> {
        let dir = dir.as_ref();
        let options = SledOptions { create: false, ..SledOptions::default() };
        dir::claim(dir, options)?;
        let copy = PrivateCopy::copy(dir, reading)?;
        let path = copy.dir().join(DATA_FILE);
        let data = std::fs::File::options().read(true).write(true).open(&path);
        let data = data.map_err(io_error(&path, "it could not be read"))?;
        cache::check(&copy.dir(), &data, &mut Vec::new())?;
        take_copies_out(&data).map_err(io_error(&path, "it could not be read"))?;
        let db = open_database(&copy.dir(), options).map_err(|error| error.of_copy(&copy.dir(), dir))?;
        let tree = |name: &str| db.open_tree(name).map_err(|error| sled_error(dir, &error));
        let (newest, newest_chunks) = (Newest::default(), Newest::default());
        let (log, chunks, blocks) = (tree("log")?, tree("chunks")?, tree(BLOCKS_TREE)?);
        let (straight, disk_was_asked) = (None, AtomicBool::new(false));
        let trees =
            Trees { log, chunks, blocks, newest, newest_chunks, disk_was_asked, straight, whole: None };
        drop(db);
        let trees = FencedHandle::new(trees);
        let bytes = std::fs::metadata(&path).map_err(io_error(&path, "it could not be examined"))?.len();
        let ends = fenced(|| last_ordinals(&trees.log, bytes / VALUE_BYTES_MIN)).and_then(|ends| ends);
        let (end, strays) = ends.map_err(|what| damaged(dir, what))?;
        let mut log = Self { trees, _copy: copy, end, strays, streams: BTreeMap::new(), head: Position(0) };
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

    fn survey_in<V: Values>(&self, values: &V, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        let mut show = |read| {
            show(read);
            ControlFlow::Continue(())
        };
        let mut parts = std::iter::once(0..self.end).chain(self.strays.iter().rev().map(|at| *at..*at + 1));
        let _ = parts.try_for_each(|ordinals| survey::survey(values, ordinals, &mut show));
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

/// Takes segments out of a private copy that stand in it twice: the database opens none with such.
fn take_copies_out(db: &std::fs::File) -> std::io::Result<()> {
    while let Some((_, copy)) = SegmentWalk::from(db, 0)?.doubled {
        write_at(db, &vec![0; SEGMENT_BYTES], copy)?;
    }
    Ok(())
}

/// Values of which nobody who no longer goes on is given one: for them the log is closed.
struct WhileWanted<'a>(&'a Trees, &'a dyn Fn() -> bool);

impl Values for WhileWanted<'_> {
    type Bytes = ::sled::IVec;

    fn get(&self, ordinal: u64) -> Result<Option<Self::Bytes>, ReadError> {
        if self.1() { self.0.get(ordinal) } else { Err(ReadError::Closed) }
    }

    fn get_chunk(&self, ordinal: u64) -> Result<Option<Self::Bytes>, ReadError> {
        if self.1() { self.0.get_chunk(ordinal) } else { Err(ReadError::Closed) }
    }
}

/// Returns the ordinal after the last value of those for which there is room, and the ordinals of values beyond. Spacers may
/// follow the last value.
fn last_ordinals(log: &Tree, room: u64) -> Result<(u64, Vec<u64>), String> {
    let mut strays = Vec::new();
    for key in log.iter().keys().rev() {
        match parse(&key.map_err(|error| error.to_string())?) {
            Some(Key::Value(ordinal)) if ordinal < room => return Ok((ordinal.saturating_add(1), strays)),
            Some(Key::Value(ordinal)) if strays.len() < STRAYS_MAX => strays.push(ordinal),
            _ => {}
        }
    }
    Ok((0, strays))
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
        let later = self.streams.iter().filter(|(stream, _)| after.is_none_or(|after| *stream > after));
        let wanted = later.filter(|(stream, _)| stream.as_str().starts_with(prefix)).take(limit);
        Ok(wanted.map(|(stream, version)| StreamInfo { stream: stream.clone(), version: *version }).collect())
    }

    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.survey_in(&*self.trees, show);
    }

    fn survey_while(
        &self,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        self.survey_in(&WhileWanted(&self.trees, goes_on), show);
    }

    fn survey_stream(&self, stream: &StreamId, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.survey(&mut |read| {
            if read.as_ref().map_or(true, |stored| stored.record.stream == *stream) {
                show(read);
            }
        });
    }
}
