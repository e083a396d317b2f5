//! The check of a log against its `HEAD` file.

use crate::api::record::StoredRecord;
use crate::engine::head::{Frontier, Head};

/// Compares the records with `HEAD`, at the record up to which it was written.
#[derive(Default)]
pub(crate) struct HeadCheck<'a> {
    head: Option<&'a Head>,
    /// The fault, once it is known.
    fault: Option<String>,
}

impl<'a> HeadCheck<'a> {
    pub(crate) fn new(head: Option<&'a Head>) -> Self {
        Self { head, ..Self::default() }
    }

    /// Takes the next record, which is the last one of the tree.
    pub(crate) fn accept_record(&mut self, stored: &StoredRecord, frontier: &Frontier) {
        let Some(head) = self.head else { return };
        if frontier.size() != head.frontier.size() {
            return;
        }
        if stored.last_position() != head.position {
            self.fault = Some(format!(
                "its {} records end at position {}, but HEAD was written for position {}",
                frontier.size(),
                stored.last_position(),
                head.position
            ));
        } else if *frontier != head.frontier {
            self.fault = Some(format!(
                "its first {} records are not those that HEAD was written for (Merkle root {}, not {})",
                frontier.size(),
                frontier.root(),
                head.frontier.root()
            ));
        }
    }

    /// Returns the fault once all records were taken.
    pub(crate) fn finish(&self, frontier: &Frontier) -> Option<String> {
        let head = self.head?;
        if frontier.size() >= head.frontier.size() {
            return self.fault.clone();
        }
        Some(format!(
            "the log has {} records, but HEAD proves that {} records, up to position {}, were durable",
            frontier.size(),
            head.frontier.size(),
            head.position
        ))
    }
}
