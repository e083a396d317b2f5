//! The Merkle tree over all records: its root, and its comparison with a root from another source and with the first
//! and the last line of an export.

use proto_events::id::{Digest, Position};

use crate::api::record::StoredRecord;
use crate::engine::head::Frontier;
use crate::jsonl::JsonLines;

/// The tree over the records taken so far, and the root that is looked for.
#[derive(Default)]
pub(crate) struct RootCheck {
    pub(crate) frontier: Frontier,
    /// Position of the last event.
    end: Position,
    /// The root from another source.
    wanted: Option<Digest>,
    /// Position of the last event that this root covers, once it was found.
    pub(crate) covered: Option<Position>,
}

impl RootCheck {
    pub(crate) fn new(wanted: Option<Digest>) -> Self {
        let mut check = Self { wanted, ..Self::default() };
        // The root of a log without events.
        check.compare();
        check
    }

    pub(crate) fn accept_record(&mut self, stored: &StoredRecord) {
        self.frontier.push(stored.hash);
        self.end = stored.last_position();
        self.compare();
    }

    /// Compares the root of the records so far: the one from another source may be of a time when the log was shorter.
    fn compare(&mut self) {
        if self.covered.is_none() && self.wanted.is_some_and(|wanted| wanted == self.frontier.root()) {
            self.covered = Some(self.end);
        }
    }

    /// Returns the fault and its position if no beginning of the log has the root that was asked for.
    pub(crate) fn finish(&self) -> Option<(Position, String)> {
        let wanted = self.wanted.filter(|_| self.covered.is_none())?;
        let (records, root) = (self.frontier.size(), self.frontier.root());
        let what = format!(
            "no beginning of the log has the given Merkle root {wanted}; its {records} records up to position {} have {root}",
            self.end
        );
        Some((self.end, what))
    }

    /// Returns the faults of an export's first and last line.
    pub(crate) fn of_file(&self, file: &JsonLines) -> Vec<String> {
        let (records, root) = (self.frontier.size(), self.frontier.root());
        let header = file.header();
        let mut faults = Vec::new();
        let mut compare = |place: &str, said_records: u64, said_root: Digest| {
            if (said_records, said_root) != (records, root) {
                faults.push(format!(
                    "its {place} line says {said_records} records with the Merkle root {said_root}, but it has {records} with {root}"
                ));
            }
        };
        compare("first", header.records, header.root);
        match file.end() {
            Some(end) => {
                compare("last", end.records, end.root);
                if end.head != header.head {
                    faults.push(format!(
                        "its last line ends the log at position {}, its first line at {}",
                        end.head, header.head
                    ));
                }
            }
            None => faults.push("its last line, which has the Merkle root, is missing".to_owned()),
        }
        faults
    }
}
