//! Salvage: what is sound in a physically damaged log, written into an export.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use proto_events::id::Position;

use crate::api::error::OpenError;
use crate::api::record::StoredRecord;
use crate::audit::export::{outer_lines, record_line};
use crate::engine::head::Head;
use crate::sled::dir::log_header;
use crate::sled::remains::SledRemains;

/// A part of a log of which nothing sound was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The first position that is missing.
    pub first: Position,
    /// The last position that is missing.
    pub last: Position,
}

/// The result of a salvage: the parts that were saved, and the gaps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SalvageReport {
    /// The number of records written.
    pub records: u64,
    /// The number of events in them.
    pub events: u64,
    /// The positions that are missing, in order. What followed the last sound record, and no `HEAD` names,
    /// cannot be noticed.
    pub gaps: Vec<Gap>,
    /// The number of bytes that the disk could not read.
    pub unreadable_bytes: u64,
}

impl SalvageReport {
    /// Whether every position up to the end was found.
    pub fn is_whole(&self) -> bool {
        self.gaps.is_empty()
    }

    fn miss(&mut self, first: u64, next: u64) {
        if first < next {
            self.gaps.push(Gap { first: Position(first), last: Position(next - 1) });
        }
    }
}

/// The reasons why nothing could be salvaged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageError {
    /// The log could not be read at all.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The export could not be written. It must be a new file.
    #[error("{} could not be written: {source}; name a new file on a disk with free space", .path.display())]
    Write {
        /// The path of the export.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Writes every sound record of the log in `dir` into a new export `out`, and returns what is missing. The log's
/// directory is only read. `taskreel verify --file` reads an export with gaps; `import` refuses one.
///
/// A record is sound if the checksum of its value, its leaf hash and the digests of its bodies are right. The chain
/// of its stream is not proven across a gap.
///
/// # Errors
/// [`SalvageError`] if `dir` is not a log, or `out` exists or cannot be written; nothing of it is left then.
pub fn salvage(dir: impl AsRef<Path>, out: impl AsRef<Path>) -> Result<SalvageReport, SalvageError> {
    let (dir, out) = (dir.as_ref(), out.as_ref());
    let header = log_header(dir)?;
    let remains = SledRemains::search(dir)?;
    let failed = |source| SalvageError::Write { path: out.to_owned(), source };
    let mut head = Head::default();
    remains.survey(&mut |read| {
        let Ok(stored) = read else { return };
        head.position = stored.last_position();
        head.frontier.push(stored.hash);
    });
    // A HEAD that cannot be read names no end.
    let proven = Head::read(dir).ok().flatten().map_or(Position(0), |head| head.position);
    head.position = head.position.max(proven);
    let [first, last] = outer_lines(header.id, header.durability.name(), &head);
    let file = File::create_new(out).map_err(failed)?;
    let written = write(BufWriter::new(file), &remains, (&first, &last), head.position);
    if written.is_err() {
        // A part of an export is of no use, and would stand in the way of another try.
        let _ = std::fs::remove_file(out);
    }
    written.map_err(failed)
}

/// Writes the sound records between the outer lines; the log goes up to `end`.
fn write(
    mut file: BufWriter<File>,
    remains: &SledRemains,
    (first, last): (&str, &str),
    end: Position,
) -> io::Result<SalvageReport> {
    let mut report = SalvageReport { unreadable_bytes: remains.unreadable(), ..SalvageReport::default() };
    let (mut next, mut written) = (1, writeln!(file, "{first}"));
    remains.survey(&mut |read| {
        // An error is a gap: the next sound record shows how far it goes.
        let Ok(stored) = read else { return };
        report.miss(next, stored.position.0);
        next = stored.last_position().0 + 1;
        count(&mut report, &stored);
        if written.is_ok() {
            written = writeln!(file, "{}", record_line(&stored));
        }
    });
    report.miss(next, end.0 + 1);
    written
        .and_then(|()| writeln!(file, "{last}"))
        .and_then(|()| file.flush())
        .and_then(|()| file.get_ref().sync_all())?;
    Ok(report)
}

fn count(report: &mut SalvageReport, stored: &StoredRecord) {
    report.records += 1;
    report.events += stored.record.events.len() as u64;
}
