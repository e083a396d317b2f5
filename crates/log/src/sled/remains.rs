//! The remains of a physically damaged log, found in its file `db` without the database: every value and chunk
//! whose checksum is right, wherever it stands. The file is only read; a place that the disk cannot read is
//! skipped.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use proto_events::id::Position;

use crate::api::error::{OpenError, ReadError};
use crate::api::record::StoredRecord;
use crate::engine::chunks::Chunk;
use crate::engine::files;
use crate::engine::survey;
use crate::engine::values::Values;
use crate::sled::dir::{DATA_FILE, io_error};
use crate::sled::guard::disk::{read_readable, read_up_to};
use crate::sled::guard::node::TreeNode;
use crate::sled::guard::segment::{HEADER_BYTES, Message, SEGMENT_BYTES, SearchBudget, message, search};
use crate::sled::guard::tear::decode_value;

/// The place of a value or of a chunk in the file.
#[derive(Debug, Clone, Copy)]
struct FilePlace {
    /// The later of two copies of one value has the higher one.
    lsn: u64,
    offset: u64,
    bytes: usize,
}

/// The readable values of a damaged log, in order of their positions.
pub struct SledRemains {
    path: PathBuf,
    db: File,
    values: Vec<FilePlace>,
    chunks: Vec<FilePlace>,
    unreadable: u64,
}

impl fmt::Debug for SledRemains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledRemains").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The values found so far.
#[derive(Default)]
struct FoundValues {
    values: Vec<(Position, Position, FilePlace)>,
    chunks: BTreeMap<(Position, u16), Vec<FilePlace>>,
    /// The last removal of each key of a page.
    removed: HashMap<(u64, Vec<u8>), u64>,
    set: Vec<(u64, Vec<u8>)>,
}

impl SledRemains {
    /// Searches the log in `dir` for sound values. Nothing in the directory is changed.
    ///
    /// # Errors
    /// [`OpenError`] if no database file exists, or it cannot be examined.
    pub fn search(dir: impl AsRef<Path>) -> Result<Self, OpenError> {
        let dir = dir.as_ref();
        let path = dir.join(DATA_FILE);
        // Opening a pipe would wait for a writer.
        if std::fs::metadata(&path).is_ok_and(|found| files::is_pipe_or_device(&found)) {
            return Err(io_error(&path, "it could not be read")(io::Error::other(files::NO_PLAIN_FILE)));
        }
        let db = File::open(&path).map_err(io_error(&path, "the database file could not be opened"))?;
        let bytes = db.metadata().map_err(io_error(&path, "it could not be examined"))?.len();
        let (mut found, mut unreadable) = (FoundValues::default(), 0);
        for offset in (0..bytes).step_by(SEGMENT_BYTES) {
            let (segment, missing) = read_readable(&db, offset);
            unreadable += missing;
            found.take_segment(&segment, offset);
        }
        let (values, chunks) = found.chosen();
        Ok(Self { path, db, values, chunks, unreadable })
    }

    /// Returns the number of bytes that the disk could not read.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Shows all records in order of their positions, and an error for each that is not whole.
    pub fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        survey::survey_all(self, self.values.len() as u64, show);
    }

    fn read(&self, places: &[FilePlace], number: u64) -> Result<Option<Vec<u8>>, ReadError> {
        let Some(place) = usize::try_from(number).ok().and_then(|number| places.get(number)) else {
            return Ok(None);
        };
        let mut bytes = vec![0; place.bytes];
        let read = read_up_to(&self.db, &mut bytes, place.offset);
        read.map_err(|error| ReadError::Io(format!("{}: {error}", self.path.display())))?;
        Ok(Some(bytes))
    }
}

impl Values for SledRemains {
    type Bytes = Vec<u8>;

    fn get(&self, ordinal: u64) -> Result<Option<Vec<u8>>, ReadError> {
        self.read(&self.values, ordinal)
    }

    fn get_chunk(&self, ordinal: u64) -> Result<Option<Vec<u8>>, ReadError> {
        self.read(&self.chunks, ordinal)
    }
}

impl FoundValues {
    /// Takes all whole messages of a segment, whatever stands between them.
    fn take_segment(&mut self, segment: &[u8], offset: u64) {
        let (mut at, mut budget) = (HEADER_BYTES, SearchBudget::default());
        loop {
            let next = message(segment, at, None).or_else(|| {
                let (found, number) = search(segment, at + 1, None, &mut budget)?;
                message(segment, found, Some(number))
            });
            let Some(next) = next else { break };
            self.take_message(&next, segment, offset);
            at = next.next;
        }
    }

    fn take_message(&mut self, message: &Message<'_>, segment: &[u8], offset: u64) {
        let lsn = message.number * SEGMENT_BYTES as u64 + message.at as u64;
        if let Some(key) = message.removed() {
            let removed = self.removed.entry((message.page, key.to_vec())).or_default();
            *removed = lsn.max(*removed);
        }
        let leaf = || message.node().and_then(TreeNode::from_page)?.entries();
        let pairs = message.set().map(|pair| vec![pair]).or_else(leaf).unwrap_or_default();
        for (key, value) in pairs {
            // Both are pieces of one buffer.
            let from = value.as_ptr().addr() - segment.as_ptr().addr();
            let place = FilePlace { lsn, offset: offset + from as u64, bytes: value.len() };
            if let Some(found) = decode_value((key, value)) {
                self.values.push((found.first, found.next, place));
                self.set.push((message.page, key.to_vec()));
            } else if let Ok(chunk) = Chunk::open(value) {
                self.chunks.entry(chunk.position()).or_default().push(place);
            }
        }
    }

    /// Returns the newest values of all positions, without those that were removed, and the newest chunks.
    fn chosen(self) -> (Vec<FilePlace>, Vec<FilePlace>) {
        let Self { values, chunks, removed, set } = self;
        let is_removed = |key: &(u64, Vec<u8>), lsn: u64| removed.get(key).is_some_and(|later| *later > lsn);
        let mut values: Vec<_> = values.into_iter().zip(&set).collect();
        values.retain(|((.., place), key)| !is_removed(key, place.lsn));
        values.sort_by_key(|((first, _, place), _)| (*first, std::cmp::Reverse(place.lsn)));
        let (mut next, mut chosen) = (Position(0), Vec::new());
        for ((first, after, place), _) in values {
            if first >= next {
                next = after;
                chosen.push(place);
            }
        }
        let newest = |places: Vec<FilePlace>| places.into_iter().max_by_key(|place| place.lsn);
        (chosen, chunks.into_values().filter_map(newest).collect())
    }
}
