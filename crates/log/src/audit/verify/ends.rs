//! The checks that need the whole log: the last append, `HEAD`, the index; and the list of checks that were
//! not made.

use std::collections::BTreeSet;

use proto_events::id::{Position, StreamId, Version};
use proto_events::model::TaskState;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::audit::verify::finding::{Finding, FindingKind};
use crate::audit::verify::report::VerifyReport;
use crate::audit::verify::streams::{CheckedEnd, CheckedStreams};
use crate::audit::verify::summaries::faults;
use crate::audit::verify::verifier::{AFTER_HEAD, UNCHECKED, Verifier};
use crate::read::for_each::for_each_stream;

impl Verifier<'_> {
    pub(crate) fn finish(mut self, reader: &dyn EventReader) -> VerifyReport {
        if self.scope.only.is_none() {
            self.end_of_log(reader);
        }
        let _compared = self.summaries(reader);
        if self.scope.has_index() && self.found.failed.is_none() {
            // An index is made from the log to compare with: what the pass needed makes room for it.
            self.streams.drop_all();
            (self.links, self.writer) = Default::default();
            let streams = std::mem::take(&mut self.streams);
            // Ends early if the reader fails: what it no longer gives is not a fault of the index.
            let _compared = self.compare_all_with_index(reader, &streams);
            self.streams = streams;
        }
        self.found.streams = self.streams.len() as u64;
        self.found.unchecked = self.unchecked();
        self.found
    }

    /// Makes again what models were shown for summaries. In a log with damage it is not known what they were shown.
    fn summaries(&mut self, reader: &dyn EventReader) -> Option<()> {
        if self.unreadable > 0 || self.found.failed.is_some() {
            return None;
        }
        let sums = |(stream, end): (&StreamId, CheckedEnd)| end.has_summaries.then(|| stream.clone());
        let streams: Vec<StreamId> = self.streams.stream_ends().filter_map(sums).collect();
        for stream in streams {
            // What cannot be read is a finding of the pass.
            for fault in self.heard(faults(reader, &stream))?.unwrap_or_default() {
                self.found.add(fault);
            }
        }
        Some(())
    }

    fn compare_all_with_index(
        &mut self,
        reader: &dyn EventReader,
        streams: &CheckedStreams<'_>,
    ) -> Option<()> {
        for (stream, end) in streams.stream_ends() {
            self.compare_with_index(reader, stream, end)?;
        }
        if self.scope.only.is_none() {
            self.streams_of_index(reader, streams)?;
            self.open_work_of_index(reader, streams)?;
            self.slots_of_index(reader);
        }
        Some(())
    }

    /// Returns the result of a read, or notes that the reader failed.
    fn heard<T>(&mut self, read: Result<T, ReadError>) -> Option<Result<T, ReadError>> {
        match read {
            Err(error) if error.is_of_reader() => {
                self.reader_failed(error);
                None
            }
            heard => Some(heard),
        }
    }

    /// Adds a finding about the log as a whole.
    pub(crate) fn of_log(&mut self, kind: FindingKind, what: String) {
        self.found.add(Finding { kind, stream: None, version: None, position: None, what });
    }

    fn end_of_log(&mut self, reader: &dyn EventReader) {
        if self.found.failed.is_some() {
            return self.root_of_log();
        }
        let without_call = if self.is_newer { Vec::new() } else { self.links.finish_append() };
        for finding in without_call {
            self.found.add(finding);
        }
        if let Some(open) = self.writer.append.take() {
            let what = format!("the last append has only {} of {} records", open.next, open.of);
            let position = Some(open.position);
            self.found.add(Finding {
                kind: FindingKind::Append,
                stream: None,
                version: None,
                position,
                what,
            });
        }
        // Unreadable records are missing from the tree, so only an undamaged log can be compared.
        if self.unreadable == 0
            && let Some(what) = self.head.finish(&self.root.frontier)
        {
            self.of_log(FindingKind::Head, what);
        }
        self.root_of_log();
        // What is left of a log that cannot be opened does not record where it ends.
        if self.scope.refused.is_none() {
            let _compared = self.compare_head(reader);
        }
    }

    /// Compares the end of the log with the one that its reader states.
    fn compare_head(&mut self, reader: &dyn EventReader) -> Option<()> {
        let head = self.heard(reader.head())?.unwrap_or_default();
        let may_differ = self.unreadable > 0 && head.0 > self.next;
        if head.0 != self.next && !may_differ {
            let later = head.0 > self.next;
            if later && self.is_later(reader.read_all(Position(self.next + 1), 1))? {
                return Some(());
            }
            let (kind, says) = match self.scope.file {
                Some(_) => (FindingKind::Head, "its first line says that it ends"),
                None => (FindingKind::Index, "the index ends it"),
            };
            self.of_log(kind, format!("the log ends at position {}, but {says} at {head}", self.next));
        }
        Some(())
    }

    /// Reports the root, and compares it with the ones that were named.
    fn root_of_log(&mut self) {
        self.found.covered = self.root.covered;
        if self.unreadable > 0 {
            return;
        }
        self.found.root = Some(self.root.frontier.root());
        self.found.end = Position(self.next);
        if let Some((at, what)) = self.root.finish() {
            let (stream, version, position) = (None, None, Some(at));
            self.found.add(Finding { kind: FindingKind::Root, stream, version, position, what });
        }
        for what in self.scope.file.map(|file| self.root.of_file(file)).unwrap_or_default() {
            self.of_log(FindingKind::Root, what);
        }
    }

    /// Reports streams that the index has and the log does not.
    fn streams_of_index(&mut self, reader: &dyn EventReader, streams: &CheckedStreams<'_>) -> Option<()> {
        let mut unknown = Vec::new();
        let listed = for_each_stream(reader, "", |info| {
            if !streams.contains(&info.stream) {
                unknown.push(info);
            }
        });
        // An index that cannot be listed is reported by the checks of the streams that the log has.
        let _listed = self.heard(listed)?;
        for info in unknown {
            if self.has_later(reader, &info.stream, Version::default())? {
                continue;
            }
            self.found.add(Finding {
                kind: FindingKind::Index,
                stream: Some(info.stream),
                version: Some(info.version),
                position: None,
                what: "the index has the stream, but the log has no record of it".to_owned(),
            });
        }
        Some(())
    }

    /// Checks that the index ends the stream where the log does, and leads to the same last record.
    fn compare_with_index(
        &mut self,
        reader: &dyn EventReader,
        stream: &StreamId,
        end: CheckedEnd,
    ) -> Option<()> {
        let indexed = self.heard(reader.stream_version(stream))?.unwrap_or_default();
        let version = end.version;
        let what = if indexed == version {
            match self.heard(reader.read_stream(stream, version, 1))? {
                Ok(page) if page.last().is_some_and(|stored| stored.hash == end.last_hash) => {
                    return Some(());
                }
                Ok(_) => "the last record in the index is not the last record in the log".to_owned(),
                Err(error) => format!("the last record in the index cannot be read: {error}"),
            }
        } else if indexed > version && self.has_later(reader, stream, version)? {
            return Some(());
        } else {
            format!("the stream ends at version {indexed} in the index, but at version {version} in the log")
        };
        self.found.add(Finding {
            kind: FindingKind::Index,
            stream: Some(stream.clone()),
            version: Some(version),
            position: None,
            what,
        });
        Some(())
    }

    /// Reports the entries of the index that the log contradicts.
    fn slots_of_index(&mut self, reader: &dyn EventReader) {
        reader.survey_index(&mut |error| {
            if error.is_of_reader() {
                return self.reader_failed(error);
            }
            let (stream, version, position, what) = match error {
                ReadError::Index { what, stream, version, position } => (stream, version, position, what),
                other => (None, None, None, other.to_string()),
            };
            self.found.add(Finding { kind: FindingKind::Index, stream, version, position, what });
        });
    }

    /// Checks that the index lists each working task as open work, without which no start would resume it.
    /// The index may list others, where it cannot decide.
    fn open_work_of_index(&mut self, reader: &dyn EventReader, streams: &CheckedStreams<'_>) -> Option<()> {
        let known = self.heard(reader.open_work())?.unwrap_or_default();
        let known: BTreeSet<StreamId> = known.into_iter().collect();
        let is_working = |end: &CheckedEnd| end.state == Some(TaskState::Working);
        for (stream, end) in
            streams.stream_ends().filter(|(stream, end)| is_working(end) && !known.contains(stream))
        {
            if self.has_later(reader, stream, end.version)? {
                continue;
            }
            self.found.add(Finding {
                kind: FindingKind::Index,
                stream: Some(stream.clone()),
                version: Some(end.version),
                position: None,
                what: "the task is working, but the index does not list it as open work".to_owned(),
            });
        }
        Some(())
    }

    /// Whether the stream got records after the pass: the log is being written, and the index is of a later time.
    fn has_later(&mut self, reader: &dyn EventReader, stream: &StreamId, version: Version) -> Option<bool> {
        self.is_later(reader.read_stream(stream, Version(version.0 + 1), 1))
    }

    /// Whether the record, the next one of the log or of a stream, was written after the pass.
    fn is_later(&mut self, read: Result<Vec<StoredRecord>, ReadError>) -> Option<bool> {
        let read = self.heard(read)?;
        Some(self.begins_later(read))
    }

    fn begins_later(&self, read: Result<Vec<StoredRecord>, ReadError>) -> bool {
        read.is_ok_and(|page| page.first().is_some_and(|stored| stored.position.0 > self.next))
    }

    fn unchecked(&self) -> Vec<String> {
        let mut unchecked: Vec<String> = Vec::new();
        if let Some(error) = &self.found.failed {
            unchecked.push(match self.read_to {
                Some(at) => format!(
                    "the log after position {at}, which the reader could not read ({error}): of later records only their own bytes, and nothing of the index and HEAD"
                ),
                None => format!("all of the index: the reader of the log failed ({error})"),
            });
        }
        if self.found.kept_files > 0 && self.scope.files.is_none() {
            unchecked.push(format!(
                "whether the files beside the log, to which artifacts refer {} times, are there and unchanged",
                self.found.kept_files
            ));
        }
        if let Some(stream) = self.scope.only {
            unchecked.push(format!(
                "everything except {stream}: other streams, gaps between positions, whether appends to several streams are complete, HEAD"
            ));
        } else if self.scope.file.is_some() {
            unchecked.push("whether the log continued after the export".to_owned());
            unchecked.push(
                "whether the log had the id and durability of the first line: no record holds them"
                    .to_owned(),
            );
        } else {
            unchecked.push(AFTER_HEAD.to_owned());
            match self.scope.head {
                None => unchecked
                    .push("HEAD: the file is missing, so that the log cannot be compared with it".to_owned()),
                Some(_) if self.unreadable > 0 => unchecked
                    .push("HEAD: its tree cannot be computed since some records cannot be read".to_owned()),
                Some(_) => {}
            }
        }
        if self.is_newer {
            let what = "what follows in a stream from an event of a newer release, and what streams say of one another after the first such event";
            unchecked.push(what.to_owned());
        }
        unchecked.push(self.rewritten());
        if self.unreadable > 0 {
            if self.scope.root.is_some() && self.root.covered.is_none() {
                unchecked.push("the given root: some records cannot be read".to_owned());
            }
            unchecked.push("the contents of the pieces that could not be read".to_owned());
        }
        unchecked.extend(UNCHECKED.map(str::to_owned));
        unchecked
    }

    /// Describes what no hash inside the log can prove.
    fn rewritten(&self) -> String {
        match self.root.covered {
            Some(covered) => format!(
                "whether the log was rewritten, hashes included, after position {covered}: the given root covers no more"
            ),
            None => "whether the whole log was rewritten, hashes included: only a Merkle root that was kept elsewhere proves otherwise".to_owned(),
        }
    }
}
