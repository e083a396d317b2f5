//! An export read back, line by line, into appends for a new log. Every line is checked by itself, against the one
//! before it, and its words against its bytes; appends are handed on whole.

use std::io::BufRead;

use proto_events::codec::record::EncodedRecord;

use super::claims::contradiction;
use super::verify::Auditor;
use crate::store::jsonl::{DamagedLine, ExportError, ExportLines, Sequence};

/// What was imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    /// Records.
    pub records: u64,
    /// Events in them.
    pub events: u64,
    /// Faults in what the records say (lifecycles, calls, turns), for `verify` to list: the bytes are what they were.
    pub faults: u64,
}

/// Why an import ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError<E> {
    /// The file is no export, not whole, or damaged.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The new log did not take an append that ends with this line.
    #[error("line {line}: {error}")]
    Refused {
        /// The line's number.
        line: u64,
        /// Its reason.
        error: E,
    },
}

/// Reads an export to its end and hands its appends to `take`, in order, each whole.
///
/// # Errors
/// [`ImportError`] at the first line that is not what it must be, or whose append is not taken. What was handed on
/// before is to be dropped then.
pub fn import<R: BufRead, E>(
    mut lines: ExportLines<R>,
    mut take: impl FnMut(Vec<EncodedRecord>) -> Result<(), E>,
) -> Result<Imported, ImportError<E>> {
    let head = lines.header().head;
    let mut sequence = Sequence::default();
    let mut auditor = Auditor::default();
    let mut append = Vec::new();
    while let Some(line) = lines.next()? {
        let number = line.number;
        let read = line.read().map_err(ExportError::Damaged)?;
        let damaged = |what| ExportError::Damaged(DamagedLine::of(number, &read.stored, what));
        sequence.take(&read.stored).map_err(damaged)?;
        if let Some(what) = contradiction(&String::from_utf8_lossy(line.text), &read.stored) {
            return Err(damaged(what).into());
        }
        auditor.take(&read.stored);
        append.push(read.encoded);
        if sequence.is_whole() {
            let whole = std::mem::take(&mut append);
            take(whole).map_err(|error| ImportError::Refused { line: number, error })?;
        }
    }
    sequence.finish(head)?;
    let found = auditor.found();
    Ok(Imported { records: found.records, events: found.events, faults: found.faults() })
}
