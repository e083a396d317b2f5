//! What only shows when all was read: the last append, `HEAD`, the index; and what could not be checked.

use std::collections::{BTreeMap, BTreeSet};

use proto_events::id::StreamId;

use super::stream::StreamCheck;
use super::{BEHIND_HEAD, Finding, FindingKind, UNCHECKED, Verified, Verifier};
use crate::store::{EventReader, Frontier, Head, StoredRecord};

/// Streams asked for at a time.
const PAGE_STREAMS: usize = 1_024;

/// Holds the records against `HEAD`, at the record up to which it was written.
#[derive(Default)]
pub(super) struct HeadCheck<'a> {
    head: Option<&'a Head>,
    frontier: Frontier,
    /// What is wrong, once it is known.
    fault: Option<String>,
}

impl<'a> HeadCheck<'a> {
    pub(super) fn new(head: Option<&'a Head>) -> Self {
        Self { head, ..Self::default() }
    }

    pub(super) fn take(&mut self, stored: &StoredRecord) {
        let Some(head) = self.head else { return };
        self.frontier.push(stored.hash);
        if self.frontier.size() != head.frontier.size() {
            return;
        }
        if stored.last_position() != head.position {
            self.fault = Some(format!(
                "its {} records end at position {}, but HEAD was written for position {}",
                self.frontier.size(),
                stored.last_position(),
                head.position
            ));
        } else if self.frontier != head.frontier {
            self.fault = Some(format!(
                "its first {} records are not those that HEAD was written for (Merkle root {}, not {})",
                self.frontier.size(),
                self.frontier.root(),
                head.frontier.root()
            ));
        }
    }

    /// The fault, when all records were taken.
    fn ended(&self) -> Option<String> {
        let head = self.head?;
        if self.frontier.size() >= head.frontier.size() {
            return self.fault.clone();
        }
        Some(format!(
            "the log has {} records, but HEAD says that {} records, up to position {}, were durable",
            self.frontier.size(),
            head.frontier.size(),
            head.position
        ))
    }
}

impl Verifier<'_> {
    pub(super) fn end(mut self, reader: &dyn EventReader) -> Verified {
        if self.scope.only.is_none() {
            self.end_of_log(reader);
        }
        if self.scope.has_index() {
            let streams = std::mem::take(&mut self.streams);
            for (stream, check) in &streams {
                self.held_against_index(reader, stream, check);
            }
            if self.scope.only.is_none() {
                self.open_work_of_index(reader, &streams);
            }
            self.streams = streams;
        }
        self.found.streams = self.streams.len() as u64;
        self.found.unchecked = self.unchecked();
        self.found
    }

    /// Notes a fault of the log as a whole.
    pub(super) fn of_log(&mut self, kind: FindingKind, what: String) {
        self.found.add(Finding { kind, stream: None, version: None, position: None, what });
    }

    fn end_of_log(&mut self, reader: &dyn EventReader) {
        let by_nobody = self.writes.end();
        for finding in by_nobody {
            self.found.add(finding);
        }
        if let Some(open) = self.append.take() {
            let what = format!("the last append has {} of {} records only", open.next, open.of);
            let position = Some(open.position);
            self.found.add(Finding {
                kind: FindingKind::Append,
                stream: None,
                version: None,
                position,
                what,
            });
        }
        // What could not be read is missing from the tree, so that only an undamaged log can be compared.
        if self.unreadable == 0
            && let Some(what) = self.head.ended()
        {
            self.of_log(FindingKind::Head, what);
        }
        let said = reader.head().unwrap_or_default();
        // What is left of a log that cannot be opened says nothing of its own about its end.
        let told = self.scope.refused.is_none();
        if told && said.0 != self.next && (self.unreadable == 0 || said.0 < self.next) {
            let (kind, says) = match self.scope.file {
                Some(_) => (FindingKind::Head, "its first line says that it ends"),
                None => (FindingKind::Index, "the index ends it"),
            };
            self.of_log(kind, format!("the log ends at position {}, but {says} at {said}", self.next));
        }
        if self.scope.has_index() {
            self.streams_of_index(reader);
        }
    }

    /// Streams that the index knows and the log does not.
    fn streams_of_index(&mut self, reader: &dyn EventReader) {
        let mut after: Option<StreamId> = None;
        while let Ok(page) = reader.list_streams("", after.as_ref(), PAGE_STREAMS) {
            let Some(last) = page.last() else { return };
            after = Some(last.stream.clone());
            for info in page.into_iter().filter(|info| !self.streams.contains_key(&info.stream)) {
                self.found.add(Finding {
                    kind: FindingKind::Index,
                    stream: Some(info.stream),
                    version: Some(info.version),
                    position: None,
                    what: "the index has the stream, the log has no record of it".to_owned(),
                });
            }
        }
    }

    /// The index must end the stream where the log does, and lead to the same last record.
    fn held_against_index(&mut self, reader: &dyn EventReader, stream: &StreamId, check: &StreamCheck) {
        let (indexed, version) = (reader.stream_version(stream).unwrap_or_default(), check.version());
        let what = if indexed == version {
            match reader.read_stream(stream, version, 1) {
                Ok(page) if page.last().is_some_and(|stored| stored.hash == check.last_hash()) => return,
                Ok(_) => "the index leads to another last record than the log has".to_owned(),
                Err(error) => format!("the index leads to what cannot be read: {error}"),
            }
        } else {
            format!("the index ends the stream at version {indexed}, the log at {version}")
        };
        self.found.add(Finding {
            kind: FindingKind::Index,
            stream: Some(stream.clone()),
            version: Some(version),
            position: None,
            what,
        });
    }

    /// Tasks that are working must be known as open work, or no start would take them up again. The index may name
    /// others: it does so where it cannot tell.
    fn open_work_of_index(&mut self, reader: &dyn EventReader, streams: &BTreeMap<StreamId, StreamCheck>) {
        let known: BTreeSet<StreamId> = reader.open_work().unwrap_or_default().into_iter().collect();
        for (stream, check) in
            streams.iter().filter(|(stream, check)| check.is_working() && !known.contains(stream))
        {
            self.found.add(Finding {
                kind: FindingKind::Index,
                stream: Some(stream.clone()),
                version: Some(check.version()),
                position: None,
                what: "the task is working, but the index does not name it as open work".to_owned(),
            });
        }
    }

    fn unchecked(&self) -> Vec<String> {
        let mut unchecked: Vec<String> = Vec::new();
        if let Some(stream) = self.scope.only {
            unchecked.push(format!(
                "anything but {stream}: other streams, gaps of positions, whether appends to several streams are whole, HEAD"
            ));
        } else if self.scope.file.is_some() {
            unchecked.push("whether the log went on after it was exported".to_owned());
        } else {
            unchecked.push(BEHIND_HEAD.to_owned());
            match self.scope.head {
                None => unchecked.push("HEAD: there is none to hold the log against".to_owned()),
                Some(_) if self.unreadable > 0 => unchecked
                    .push("HEAD: its tree cannot be computed where records cannot be read".to_owned()),
                Some(_) => {}
            }
        }
        if self.unreadable > 0 {
            unchecked.push("what stands in the pieces that could not be read".to_owned());
        }
        unchecked.extend(UNCHECKED.map(str::to_owned));
        unchecked
    }
}
