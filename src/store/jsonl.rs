//! An exported log (`taskreel export`) as an [`EventReader`]: what is read from the file is what the log would have
//! answered. Bodies stay in the file; in memory is where each line begins, and what stands in it.
//!
//! Every record is checked as a store checks it, on opening and again whenever it is read: leaf hash, digests of
//! bodies, position, version, chain, whole appends. A file in which anything is wrong is refused, by the line; only
//! [`JsonLines::open_damaged`] takes it, for `verify`.

mod error;
mod line;
mod lines;
mod sequence;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use proto_events::id::{Position, StreamId, Version};

use super::{EventReader, ReadError, StoredRecord, StreamInfo};

pub use error::{DamagedLine, ExportError};
pub use line::{DETACHED, ExportHeader, LineRecord, SCHEMA, hex};
pub use lines::{ExportLine, ExportLines};
pub use sequence::Sequence;

/// Where a record's line stands, and what is in it.
#[derive(Debug, Clone, Copy)]
struct Slot {
    line: u64,
    offset: u64,
    bytes: usize,
    position: Position,
    last: Position,
    last_version: Version,
}

/// An exported log, open for reading.
#[derive(Debug)]
pub struct JsonLines {
    file: Mutex<File>,
    header: ExportHeader,
    /// In order of their positions.
    slots: Vec<Slot>,
    /// Numbers of each stream's slots.
    streams: BTreeMap<StreamId, Vec<usize>>,
}

impl JsonLines {
    /// Opens an export and checks all of it.
    ///
    /// # Errors
    /// [`ExportError`]: it is no export, or not whole, or a line of it is damaged; the first such line is named.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ExportError> {
        let mut sequence = Sequence::default();
        let opened = Self::scan(path.as_ref(), |line, read| {
            let read = read.and_then(|read| match sequence.take(&read.stored) {
                Ok(()) => Ok(read),
                Err(what) => Err(DamagedLine::of(line, &read.stored, what)),
            });
            read.map(Some).map_err(ExportError::Damaged)
        })?;
        sequence.finish(opened.header.head)?;
        Ok(opened)
    }

    /// Opens an export of which lines may be damaged, or missing. What can be read is; only
    /// [`EventReader::survey`] tells what cannot, so this is for verifying and for nothing else.
    ///
    /// # Errors
    /// [`ExportError`] if the file cannot be read or its first line is not that of an export.
    pub fn open_damaged(path: impl AsRef<Path>) -> Result<Self, ExportError> {
        let mut last = Position(0);
        Self::scan(path.as_ref(), |_, read| {
            // Lines out of their order are for `survey` to tell of.
            let read = read.ok().filter(|read| read.stored.position > last);
            if let Some(read) = &read {
                last = read.stored.last_position();
            }
            Ok(read)
        })
    }

    fn scan(
        path: &Path,
        mut check: impl FnMut(u64, Result<LineRecord, DamagedLine>) -> Result<Option<LineRecord>, ExportError>,
    ) -> Result<Self, ExportError> {
        let mut file = File::open(path).map_err(ExportError::from)?;
        if file.stream_position().is_err() {
            let why = "it is a pipe, and an export is read in any order: put it into a file".to_owned();
            return Err(ExportError::Io { why, missing: false });
        }
        let mut lines = ExportLines::begin(BufReader::new(file.try_clone().map_err(ExportError::from)?))?;
        let mut opened = Self {
            file: Mutex::new(file),
            header: lines.header().clone(),
            slots: Vec::new(),
            streams: BTreeMap::new(),
        };
        while let Some(line) = lines.next()? {
            let (number, offset, bytes) = (line.number, line.offset, line.text.len());
            if let Some(read) = check(number, line.read())? {
                opened.enter(number, offset, bytes, &read.stored);
            }
        }
        Ok(opened)
    }

    fn enter(&mut self, line: u64, offset: u64, bytes: usize, stored: &StoredRecord) {
        let slot = Slot {
            line,
            offset,
            bytes,
            position: stored.position,
            last: stored.last_position(),
            last_version: stored.record.last_version(),
        };
        self.streams.entry(stored.record.stream.clone()).or_default().push(self.slots.len());
        self.slots.push(slot);
    }

    /// What the file's first line says.
    pub fn header(&self) -> &ExportHeader {
        &self.header
    }

    /// The text of the line that holds the record at this position, for whoever compares it with the record.
    ///
    /// # Errors
    /// [`ReadError::Io`] if the file cannot be read.
    pub fn line_at(&self, position: Position) -> Result<Option<String>, ReadError> {
        let found = self.slots.binary_search_by_key(&position, |slot| slot.position).ok();
        found.and_then(|at| self.slots.get(at)).map(|slot| self.text(slot)).transpose()
    }

    fn text(&self, slot: &Slot) -> Result<String, ReadError> {
        let mut bytes = vec![0; slot.bytes];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(slot.offset)).and_then(|_| file.read_exact(&mut bytes));
        drop(file);
        read.map_err(|error| ReadError::Io(error.to_string()))?;
        String::from_utf8(bytes).map_err(|_| changed(slot))
    }

    fn read(&self, slot: &Slot) -> Result<StoredRecord, ReadError> {
        let text = self.text(slot)?;
        let read = line::read(slot.line, &text).map_err(ReadError::from)?;
        if read.stored.position == slot.position { Ok(read.stored) } else { Err(changed(slot)) }
    }

    fn read_slots<'a>(
        &self,
        slots: impl Iterator<Item = &'a Slot>,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        slots.take(limit).map(|slot| self.read(slot)).collect()
    }
}

/// Reads the file from its start. It is locked for each piece only: whoever is shown a record may read others.
struct FromStart<'a> {
    file: &'a Mutex<File>,
    offset: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(self.offset))?;
        let read = file.read(into)?;
        self.offset += u64::try_from(read).unwrap_or(u64::MAX);
        Ok(read)
    }
}

fn changed(slot: &Slot) -> ReadError {
    ReadError::Corrupt {
        what: format!("line {} is not what it was when the file was opened", slot.line),
        stream: None,
        version: None,
        position: Some(slot.position),
    }
}

impl EventReader for JsonLines {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let numbers = self.streams.get(stream).map_or(&[][..], Vec::as_slice);
        let slots = numbers.iter().filter_map(|number| self.slots.get(*number));
        self.read_slots(slots.skip_while(|slot| slot.last_version < from), limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        let first = self.slots.partition_point(|slot| slot.last < from);
        self.read_slots(self.slots.iter().skip(first), limit)
    }

    fn head(&self) -> Result<Position, ReadError> {
        Ok(self.header.head)
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        let last = self.streams.get(stream).and_then(|numbers| self.slots.get(*numbers.last()?));
        Ok(last.map_or(Version(0), |slot| slot.last_version))
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        use std::ops::Bound;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let streams = self.streams.range((from, Bound::Unbounded)).map(|(stream, _)| stream);
        let wanted = streams.filter(|stream| stream.as_str().starts_with(prefix)).take(limit);
        let info = |stream: &StreamId| {
            Ok(StreamInfo { stream: stream.clone(), version: self.stream_version(stream)? })
        };
        wanted.map(info).collect()
    }

    /// In the order of the file, so that lines that were swapped are seen so.
    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        let failed = |error: ExportError| ReadError::Io(error.to_string());
        let from = FromStart { file: &self.file, offset: 0 };
        let mut lines = match ExportLines::begin(BufReader::new(from)) {
            Ok(lines) => lines,
            Err(error) => return show(Err(failed(error))),
        };
        loop {
            match lines.next() {
                Ok(Some(line)) => show(line.read().map(|read| read.stored).map_err(ReadError::from)),
                Ok(None) => return,
                Err(error) => return show(Err(failed(error))),
            }
        }
    }

    /// The whole file is gone through: a line that cannot be read may be the stream's.
    fn survey_stream(&self, stream: &StreamId, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.survey(&mut |read| {
            let ours = match &read {
                Ok(stored) => stored.record.stream == *stream,
                Err(ReadError::Corrupt { stream: Some(of), .. }) => of == stream,
                Err(_) => true,
            };
            if ours {
                show(read);
            }
        });
    }
}
