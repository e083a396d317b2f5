//! The report of a verification, the scope it is asked for, and its progress.

use proto_events::id::{Digest, Position, StreamId};

use crate::api::error::ReadError;
use crate::artifacts::KeptFiles;
use crate::audit::verify::finding::{Finding, FindingKind};
use crate::engine::head::Head;
use crate::jsonl::JsonLines;
#[cfg(doc)]
use crate::limits::VERIFY_BYTES_KEPT;

/// The number of findings kept: the first ones suffice for a log that is wrong everywhere.
pub(crate) const FINDINGS_MAX: usize = 1_000;

/// The number of findings of the index that are kept beyond that.
const INDEX_FINDINGS_MAX: u64 = 100;

/// The number of notes kept.
const NOTES_MAX: usize = 100;

/// The amount verified, and the findings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The number of streams.
    pub streams: u64,
    /// The number of records.
    pub records: u64,
    /// The number of events.
    pub events: u64,
    /// The number of bytes of records and bodies that were hashed.
    pub bytes: u64,
    /// The root of the Merkle tree over all records; `None` if not all were read.
    pub root: Option<Digest>,
    /// Position of the log's last event, to which `root` belongs.
    pub end: Position,
    /// Position of the last event that the root in [`Scope::root`] covers.
    pub covered: Option<Position>,
    /// The first 1,000 faults, in the order of the log.
    pub findings: Vec<Finding>,
    /// The number of faults found but not kept.
    pub findings_dropped: u64,
    /// The first 100 notes, which are no faults: a clock that was set back, with both times.
    pub notes: Vec<String>,
    /// The number of notes that were not kept.
    pub notes_dropped: u64,
    /// The number of files beside the log to which artifacts refer.
    pub kept_files: u64,
    /// The checks that could not be made, in words.
    pub unchecked: Vec<String>,
    /// The error with which the reader of the log failed, if it did. It is not a finding, since it says nothing of the log:
    /// what was not checked because of it is in `unchecked`.
    pub failed: Option<ReadError>,
    /// The number of findings of the index beyond the first 1,000 findings.
    index_findings: u64,
}

impl VerifyReport {
    /// Whether nothing was found, and the reader of the log did not fail.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.failed.is_none()
    }

    /// Whether all that was found is the work of a newer release: nothing is damaged, but this program cannot check
    /// all of it.
    pub fn is_newer(&self) -> bool {
        let newer = |finding: &Finding| finding.kind == FindingKind::Newer;
        self.findings_dropped == 0 && !self.findings.is_empty() && self.findings.iter().all(newer)
    }

    /// Returns the number of faults found.
    pub fn faults(&self) -> u64 {
        self.findings.len() as u64 + self.findings_dropped
    }

    pub(crate) fn add_finding(&mut self, what: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(what);
        } else {
            self.notes_dropped += 1;
        }
    }

    pub(crate) fn add(&mut self, finding: Finding) {
        // Findings about `HEAD`, the root (a few at most) and the index are made last: many others must not hide them.
        let is_kept = match finding.kind {
            _ if self.findings.len() < FINDINGS_MAX => true,
            FindingKind::Head | FindingKind::Root => true,
            FindingKind::Index => {
                self.index_findings += 1;
                self.index_findings <= INDEX_FINDINGS_MAX
            }
            _ => false,
        };
        if is_kept {
            self.findings.push(finding);
        } else {
            self.findings_dropped += 1;
        }
    }
}

/// The part of the log to verify, and what to compare it with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope<'a> {
    /// The only stream to verify; the whole log without one.
    pub only: Option<&'a StreamId>,
    /// The contents of `HEAD` before the log was opened.
    pub head: Option<&'a Head>,
    /// A Merkle root from another source. It must be the root of the log, or of its beginning up to some record.
    pub root: Option<Digest>,
    /// The file, if it is an exported log: its words are compared with its bytes. It has no index to check.
    pub file: Option<&'a JsonLines>,
    /// The place where files stand beside the log, if there is one: those to which artifacts refer are looked at.
    pub files: Option<&'a dyn KeptFiles>,
    /// The reason why the log cannot be opened, if it cannot: a fault in itself. No index is left to check
    /// then.
    pub refused: Option<&'a str>,
    /// The bytes of events of tasks and sessions whose checks are kept in memory, [`VERIFY_BYTES_KEPT`] by default; each event
    /// counts for some 700 more. A stream that comes back after so many others is read again.
    pub keep_bytes: Option<u64>,
}

impl Scope<'_> {
    pub(crate) fn has_index(&self) -> bool {
        self.file.is_none() && self.refused.is_none()
    }
}

/// The progress of verifying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Position of the last event seen; of one stream, its version.
    pub at: u64,
    /// The final value of `at`.
    pub of: u64,
    /// Bytes hashed so far.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_findings_of_head_and_index_are_not_lost_behind_the_limit() {
        let mut verified = VerifyReport::default();
        let finding =
            |kind| Finding { kind, stream: None, version: None, position: None, what: String::new() };
        for _ in 0..FINDINGS_MAX + 5 {
            verified.add(finding(FindingKind::Chain));
        }
        for _ in 0..=INDEX_FINDINGS_MAX {
            verified.add(finding(FindingKind::Index));
        }
        verified.add(finding(FindingKind::Head));
        assert_eq!((verified.findings.len(), verified.findings_dropped), (FINDINGS_MAX + 101, 6));
        assert_eq!(verified.findings.last().unwrap().kind, FindingKind::Head);
    }
}
