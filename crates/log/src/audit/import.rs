//! Reads an export back, line by line, into appends for a new log. Each line is checked by itself, against
//! the line before it, and its words against its bytes; appends are passed on whole.

use std::io::BufRead;

use proto_events::codec::record::EncodedRecord;

use crate::audit::claims::{contradiction, header_contradiction};
use crate::audit::verify::verifier::Auditor;
use crate::jsonl::error::{DamagedLine, ExportError};
use crate::jsonl::lines::ExportLines;
use crate::jsonl::sequence::RecordSequence;

/// The amount imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ImportSummary {
    /// The number of records.
    pub records: u64,
    /// The number of events in them.
    pub events: u64,
    /// The number of faults in the records' contents (lifecycles, calls, turns), which `verify` lists: the
    /// bytes are intact.
    pub faults: u64,
}

/// The reason why an import ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError<E> {
    /// The file is not an export, is incomplete, or is damaged.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The new log refused the append that ends with this line.
    #[error("line {line}: {error}")]
    Refused {
        /// The line's number.
        line: u64,
        /// The reason for the refusal.
        error: E,
    },
}

/// Reads an export to its end and passes its appends to `take`, in order, each whole.
///
/// # Errors
/// [`ImportError`] at the first line that is invalid or whose append is refused. The caller must then discard
/// the appends already passed on.
pub fn import<R: BufRead, E>(
    mut lines: ExportLines<R>,
    mut take: impl FnMut(Vec<EncodedRecord>) -> Result<(), E>,
) -> Result<ImportSummary, ImportError<E>> {
    if let Some(what) = header_contradiction(lines.header()) {
        let (stream, version, position) = (None, None, None);
        return Err(ExportError::Damaged(DamagedLine { line: 1, stream, version, position, what }).into());
    }
    let mut sequence = RecordSequence::default();
    let mut auditor = Auditor::default();
    let mut append = Vec::new();
    while let Some(line) = lines.next()? {
        let number = line.number;
        let read = line.read().map_err(ExportError::Damaged)?;
        let damaged = |what| ExportError::Damaged(DamagedLine::new(number, &read.stored, what));
        sequence.take(&read.stored).map_err(damaged)?;
        if let Some(what) = contradiction(&String::from_utf8_lossy(line.text), &read.stored) {
            return Err(damaged(what).into());
        }
        auditor.accept_record(&read.stored);
        append.push(read.encoded);
        if sequence.is_whole() {
            let whole = std::mem::take(&mut append);
            take(whole).map_err(|error| ImportError::Refused { line: number, error })?;
        }
    }
    sequence.finish(lines.header(), lines.end())?;
    let found = auditor.current_report();
    Ok(ImportSummary { records: found.records, events: found.events, faults: found.faults() })
}
