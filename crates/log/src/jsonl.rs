//! An exported log (`taskreel export`) as an [`EventReader`]: reads of the file return what the log would
//! have returned. Bodies stay in the file; memory holds the offset of each line, and the position and
//! versions in it.
//!
//! Every record is checked as a store checks it, on opening and on each read: leaf hash, digests of bodies,
//! position, version, chain, whole appends. A file with any damage is refused, and the error names the line;
//! only [`JsonLines::open_damaged`] accepts it, for `verify`.

pub(crate) mod end;
pub(crate) mod error;
pub(crate) mod line;
pub(crate) mod lines;
pub(crate) mod schema;
pub(crate) mod sequence;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::{BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use proto_events::id::{Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::api::record::{StoredRecord, StreamInfo};
pub use crate::jsonl::end::ExportEnd;
pub use crate::jsonl::error::{DamagedLine, ExportError};
pub use crate::jsonl::line::{ExportHeader, LineRecord, hex, read as read_record_line};
pub use crate::jsonl::lines::{ExportLine, ExportLines};
pub use crate::jsonl::schema::{DETACHED, SCHEMA};
pub use crate::jsonl::sequence::RecordSequence;

/// The place of a record's line, and what it holds.
#[derive(Debug, Clone, Copy)]
struct IndexedLine {
    number: u64,
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
    end: Option<ExportEnd>,
    /// The position of the last event, which the first line names.
    head: Position,
    /// The lines in order of their positions.
    lines_by_position: Vec<IndexedLine>,
    /// Numbers of each stream's `lines_by_position`.
    streams: BTreeMap<StreamId, Vec<usize>>,
}

impl JsonLines {
    /// Opens an export and checks all of it.
    ///
    /// # Errors
    /// [`ExportError`] if the file is not an export, is incomplete, or has a damaged line; the first such
    /// line is named.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ExportError> {
        let mut sequence = RecordSequence::default();
        let opened = Self::scan(path.as_ref(), |line, read| {
            let read = read.and_then(|read| match sequence.take(&read.stored) {
                Ok(()) => Ok(read),
                Err(what) => Err(DamagedLine::new(line, &read.stored, what)),
            });
            read.map(Some).map_err(ExportError::Damaged)
        })?;
        sequence.finish(&opened.header, opened.end)?;
        Ok(opened)
    }

    /// Opens what an export holds up to its first fault: the beginning of a log, each record of it checked. The fault is returned
    /// beside it; it is missing if the export is whole.
    ///
    /// # Errors
    /// [`ExportError`] if the file cannot be read or its first line is not that of an export.
    pub fn open_beginning(path: impl AsRef<Path>) -> Result<(Self, Option<ExportError>), ExportError> {
        let (mut sequence, mut fault) = (RecordSequence::default(), None);
        // The records of an append of which the others are missing do not belong to the beginning.
        let (mut whole, mut taken) = (0, 0);
        let mut opened = Self::scan(path.as_ref(), |line, read| {
            let read = read.and_then(|read| match sequence.take(&read.stored) {
                Ok(()) => Ok(read),
                Err(what) => Err(DamagedLine::new(line, &read.stored, what)),
            });
            match read {
                _ if fault.is_some() => Ok(None),
                Err(damaged) => {
                    fault = Some(ExportError::Damaged(damaged));
                    Ok(None)
                }
                Ok(read) => {
                    taken += 1;
                    if sequence.is_whole() {
                        whole = taken;
                    }
                    Ok(Some(read))
                }
            }
        })?;
        if fault.is_none() {
            fault = sequence.finish(&opened.header, opened.end).err();
        }
        if fault.is_some() {
            opened.keep_first(whole);
        }
        Ok((opened, fault))
    }

    fn keep_first(&mut self, lines: usize) {
        self.lines_by_position.truncate(lines);
        self.head = self.lines_by_position.last().map_or(Position(0), |line| line.last);
        self.streams.retain(|_, of| {
            of.retain(|at| *at < lines);
            !of.is_empty()
        });
    }

    /// Opens an export of which lines may be damaged or missing. Readable lines can be read; only
    /// [`EventReader::survey`] reports the others, so use this for verification only.
    ///
    /// # Errors
    /// [`ExportError`] if the file cannot be read or its first line is not that of an export.
    pub fn open_damaged(path: impl AsRef<Path>) -> Result<Self, ExportError> {
        let mut last = Position(0);
        Self::scan(path.as_ref(), |_, read| {
            // Lines out of order are reported by `survey`.
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
            let why =
                "it is a pipe, but an export is read at random offsets; write it to a file first".to_owned();
            return Err(ExportError::Io { why, missing: false });
        }
        let mut lines = ExportLines::open(BufReader::new(file.try_clone().map_err(ExportError::from)?))?;
        let mut opened = Self {
            file: Mutex::new(file),
            header: lines.header().clone(),
            end: None,
            head: lines.header().head,
            lines_by_position: Vec::new(),
            streams: BTreeMap::new(),
        };
        while let Some(line) = lines.next()? {
            let (number, offset, bytes) = (line.number, line.offset, line.text.len());
            if let Some(read) = check(number, line.read())? {
                opened.add_line(number, offset, bytes, &read.stored);
            }
        }
        opened.end = lines.end();
        Ok(opened)
    }

    fn add_line(&mut self, number: u64, offset: u64, bytes: usize, stored: &StoredRecord) {
        let line = IndexedLine {
            number,
            offset,
            bytes,
            position: stored.position,
            last: stored.last_position(),
            last_version: stored.record.last_version(),
        };
        let of_stream = self.streams.entry(stored.record.stream.clone()).or_default();
        let before = of_stream.last().and_then(|number| self.lines_by_position.get(*number));
        // The versions in a forged file may go back. A reader of the stream would return to a page that it has had, for ever:
        // it is shown such a line by its position only.
        if before.is_none_or(|before| before.last_version < stored.record.first_version) {
            of_stream.push(self.lines_by_position.len());
        }
        self.lines_by_position.push(line);
    }

    /// Returns the contents of the file's first line.
    pub fn header(&self) -> &ExportHeader {
        &self.header
    }

    /// Returns the contents of the file's last line; `None` if it is missing.
    pub fn end(&self) -> Option<ExportEnd> {
        self.end
    }

    /// Returns the text of the line that holds the record at this position, for comparing it with the record.
    ///
    /// # Errors
    /// [`ReadError::Io`] if the file cannot be read.
    pub fn line_at(&self, position: Position) -> Result<Option<String>, ReadError> {
        let found = self.lines_by_position.binary_search_by_key(&position, |line| line.position).ok();
        found.and_then(|at| self.lines_by_position.get(at)).map(|line| self.text(line)).transpose()
    }

    fn text(&self, line: &IndexedLine) -> Result<String, ReadError> {
        let mut bytes = vec![0; line.bytes];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(line.offset)).and_then(|_| file.read_exact(&mut bytes));
        drop(file);
        read.map_err(|error| ReadError::Io(error.to_string()))?;
        String::from_utf8(bytes).map_err(|_| changed(line))
    }

    fn read(&self, line: &IndexedLine) -> Result<StoredRecord, ReadError> {
        let text = self.text(line)?;
        let read = line::read(line.number, &text).map_err(ReadError::from)?;
        if read.stored.position == line.position { Ok(read.stored) } else { Err(changed(line)) }
    }
}

/// A reader of the file from its start. The file is locked for each piece only, so that other records can be
/// read in between.
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

fn changed(line: &IndexedLine) -> ReadError {
    ReadError::Corrupt {
        what: format!("line {} changed after the file was opened", line.number),
        stream: None,
        version: None,
        position: Some(line.position),
    }
}

impl EventReader for JsonLines {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.page_stream(stream, from, Page::with_limit(limit))
    }

    fn page_stream(
        &self,
        stream: &StreamId,
        from: Version,
        page: Page,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let numbers = self.streams.get(stream).map_or(&[][..], Vec::as_slice);
        let line = |number: &usize| self.lines_by_position.get(*number);
        let first = numbers.partition_point(|number| line(number).is_some_and(|it| it.last_version < from));
        let wanted = numbers.get(first..).unwrap_or_default().iter().filter_map(line);
        page.fill(wanted.map(|line| self.read(line)))
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.page_all(from, Page::with_limit(limit))
    }

    fn page_all(&self, from: Position, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        let first = self.lines_by_position.partition_point(|line| line.last < from);
        page.fill(self.lines_by_position.iter().skip(first).map(|line| self.read(line)))
    }

    fn head(&self) -> Result<Position, ReadError> {
        Ok(self.head)
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        let last = self.streams.get(stream).and_then(|numbers| self.lines_by_position.get(*numbers.last()?));
        Ok(last.map_or(Version(0), |line| line.last_version))
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

    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.survey_while(&|| true, show);
    }

    /// Shows the records in the order of the file, so that swapped lines are detected.
    fn survey_while(
        &self,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        let failed = |error: ExportError| match error {
            ExportError::Io { .. } => ReadError::Io(error.to_string()),
            damage => ReadError::corrupt(damage.to_string(), None),
        };
        let from = FromStart { file: &self.file, offset: 0 };
        let mut lines = match ExportLines::open(BufReader::new(from)) {
            Ok(lines) => lines,
            Err(error) => return show(Err(failed(error))),
        };
        while goes_on() {
            match lines.next() {
                Ok(Some(line)) => show(line.read().map(|read| read.stored).map_err(ReadError::from)),
                Ok(None) => return,
                Err(error) => return show(Err(failed(error))),
            }
        }
    }

    /// Surveys the whole file: a line that cannot be read may belong to the stream.
    fn survey_stream(&self, stream: &StreamId, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.survey(&mut |read| {
            let belongs = match &read {
                Ok(stored) => stored.record.stream == *stream,
                Err(ReadError::Corrupt { stream: Some(of), .. }) => of == stream,
                Err(_) => true,
            };
            if belongs {
                show(read);
            }
        });
    }
}
