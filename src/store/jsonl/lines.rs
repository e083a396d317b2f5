//! An export line by line, each with its number and its place in the file.

use std::io::{self, BufRead, Read as _};

use super::line::{self, ExportHeader, LineRecord};
use super::{DamagedLine, ExportError};
use crate::limits::EXPORT_LINE_BYTES_MAX;

/// Reads an export from its beginning, one line after another.
#[derive(Debug)]
pub struct ExportLines<R> {
    from: R,
    header: ExportHeader,
    buffer: Vec<u8>,
    number: u64,
    offset: u64,
}

/// One line behind the first.
#[derive(Debug, Clone, Copy)]
pub struct ExportLine<'a> {
    /// Its number in the file; the header has 1.
    pub number: u64,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// The line without its end. What is not UTF-8 is no line of an export.
    pub text: &'a [u8],
}

impl ExportLine<'_> {
    /// The record in it, checked by itself.
    ///
    /// # Errors
    /// [`DamagedLine`], saying what is wrong and as much of its place as it tells.
    pub fn read(&self) -> Result<LineRecord, DamagedLine> {
        match std::str::from_utf8(self.text) {
            Ok(text) => line::read(self.number, text),
            Err(_) => Err(line::damaged(
                self.number,
                &String::from_utf8_lossy(self.text),
                "it is no UTF-8".to_owned(),
            )),
        }
    }
}

impl<R: BufRead> ExportLines<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// [`ExportError`] if it is not that of an export that this program can read.
    pub fn begin(from: R) -> Result<Self, ExportError> {
        let mut lines =
            Self { from, header: ExportHeader::default(), buffer: Vec::new(), number: 0, offset: 0 };
        if !lines.fill()? {
            return Err(ExportError::NotAnExport { why: "it is empty".to_owned() });
        }
        lines.header = ExportHeader::parse(&lines.buffer)?;
        Ok(lines)
    }

    /// What the first line says.
    pub fn header(&self) -> &ExportHeader {
        &self.header
    }

    /// The number of the line that was read last.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line; none at the end.
    ///
    /// # Errors
    /// [`ExportError`] if the file cannot be read, or the line is longer than any that is written.
    #[allow(clippy::should_implement_trait, reason = "an iterator could not lend its buffer")]
    pub fn next(&mut self) -> Result<Option<ExportLine<'_>>, ExportError> {
        let offset = self.offset;
        Ok(self.fill()?.then_some(ExportLine { number: self.number, offset, text: &self.buffer }))
    }

    /// Reads a line into the buffer, its end apart; answers whether there was one.
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
