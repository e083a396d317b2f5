//! An export line by line, each with its number and its offset in the file.

use std::io;
use std::io::{BufRead, Read as _};

use crate::jsonl::end::{ExportEnd, is_end};
use crate::jsonl::error::{DamagedLine, ExportError};
use crate::jsonl::line;
use crate::jsonl::line::{ExportHeader, LineRecord};
use crate::limits::EXPORT_LINE_BYTES_MAX;

/// A reader of an export, line by line from its beginning.
#[derive(Debug)]
pub struct ExportLines<R> {
    from: R,
    header: ExportHeader,
    end: Option<ExportEnd>,
    buffer: Vec<u8>,
    number: u64,
    offset: u64,
}

/// A line after the first.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ExportLine<'a> {
    /// The number of the line in the file; the header has 1.
    pub number: u64,
    /// The offset of the line in the file, in bytes.
    pub offset: u64,
    /// The line without its end. A line of an export is always UTF-8.
    pub text: &'a [u8],
    /// Whether the last line of an export stands before it.
    is_after_end: bool,
}

impl ExportLine<'_> {
    /// Decodes the record of the line, checked by itself.
    ///
    /// # Errors
    /// [`DamagedLine`], with the damage and as much of the place as the line shows.
    pub fn read(&self) -> Result<LineRecord, DamagedLine> {
        let damaged =
            |what: &str| line::damaged(self.number, &String::from_utf8_lossy(self.text), what.to_owned());
        if self.is_after_end {
            return Err(damaged("it stands after the last line of the export"));
        }
        if is_end(self.text) {
            return Err(damaged("it begins as the last line of an export, but is not written as one"));
        }
        match std::str::from_utf8(self.text) {
            Ok(text) => line::read(self.number, text),
            Err(_) => Err(damaged("it is not UTF-8")),
        }
    }
}

impl<R: BufRead> ExportLines<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// [`ExportError`] if it is not the first line of an export that this program can read.
    pub fn open(from: R) -> Result<Self, ExportError> {
        let (header, end, buffer) = (ExportHeader::default(), None, Vec::new());
        let mut lines = Self { from, header, end, buffer, number: 0, offset: 0 };
        if !lines.fill()? {
            return Err(ExportError::NotAnExport { why: "it is empty".to_owned() });
        }
        lines.header = ExportHeader::parse(&lines.buffer)?;
        Ok(lines)
    }

    /// Returns the contents of the first line.
    pub fn header(&self) -> &ExportHeader {
        &self.header
    }

    /// Returns the last line of the export, once all lines were read; `None` if it is missing.
    pub fn end(&self) -> Option<ExportEnd> {
        self.end
    }

    /// Returns the number of the last line read.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the next line of a record; `None` at the end.
    ///
    /// # Errors
    /// [`ExportError`] if the file cannot be read, or the line is longer than the limit.
    #[allow(clippy::should_implement_trait, reason = "an iterator could not lend its buffer")]
    pub fn next(&mut self) -> Result<Option<ExportLine<'_>>, ExportError> {
        let (is_after_end, mut offset) = (self.end.is_some(), self.offset);
        let mut is_line = self.fill()?;
        if is_line && !is_after_end {
            self.end = ExportEnd::parse(&self.buffer);
            if self.end.is_some() {
                offset = self.offset;
                is_line = self.fill()?;
            }
        }
        let is_after_end = self.end.is_some();
        Ok(is_line.then_some(ExportLine { number: self.number, offset, text: &self.buffer, is_after_end }))
    }

    /// Reads a line into the buffer, without its end; returns whether there was one.
    fn fill(&mut self) -> Result<bool, ExportError> {
        self.buffer.clear();
        let mut limited = self.from.by_ref().take(EXPORT_LINE_BYTES_MAX);
        let read = limited.read_until(b'\n', &mut self.buffer).map_err(ExportError::from)?;
        if read == 0 {
            return Ok(false);
        }
        self.number += 1;
        self.offset += u64::try_from(read).unwrap_or(u64::MAX);
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if u64::try_from(read).is_ok_and(|read| read >= EXPORT_LINE_BYTES_MAX) {
            let why = format!("line {} is longer than {EXPORT_LINE_BYTES_MAX} bytes", self.number);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why).into());
        }
        Ok(true)
    }
}
