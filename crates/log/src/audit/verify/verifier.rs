//! The verifier: every record of a log against every rule, in one pass.

use proto_events::codec::record::RecordView;
use proto_events::id::{Position, StreamId};

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::audit::claims::{contradiction, header_contradiction};
use crate::audit::kept_files::kept_files_in;
use crate::audit::verify::finding::{Finding, FindingKind};
use crate::audit::verify::head::HeadCheck;
use crate::audit::verify::links::LinksCheck;
use crate::audit::verify::report::{Scope, VerifyProgress, VerifyReport};
use crate::audit::verify::root::RootCheck;
use crate::audit::verify::stream::{ReadEvent, read_events};
use crate::audit::verify::streams::{CheckedStreams, linked};
use crate::audit::verify::writer::WriterCheck;
use crate::limits::VERIFY_BYTES_KEPT;

/// The checks that no log can make about itself, or that are not made.
pub(crate) const UNCHECKED: [&str; 16] = [
    "whether tools and models really did what the log records of them",
    "whether the policy and the model of each call are those of its agent's definition: its recovery mode, limits, capabilities, secrets, price and idempotency key",
    "whether the system prompt of a turn that an earlier program began is one of that program's",
    "whether messages and outputs say what the results of their calls say: only the outputs of parts that ask for tools are compared, and answers to calls that were not made; nor the part of a message",
    "whether the text of a reply asks for its call where it is not the JSON of an action as it stands",
    "what the code of a tool or a handler asked other agents for",
    "whether a task that a caller's command ended had done its work, and whether what a person allowed was done",
    "whether the figures of a budget that a task names are those of its calls, and those of a conversation or of a call its tokens and the version that was read",
    "whether the answer of another agent says what its task says: only a final state is compared, of agents of one program, as long as that program runs",
    "what posted texts and commands were whose digests the log holds: the texts themselves are not kept",
    "whether callers and their messages, artifacts and metadata are what they say: names, ids, texts and times of theirs",
    "who caused a command, and whether ids of commands, of causes and of correlation are true, also those of the system's own commands",
    "whether ids of calls, approvals, turns and messages are new in the whole log: each is unique in its task or conversation alone",
    "whether the times of records are those at which things happened: clocks are set, and an attempt that timed out, a retry or a delivery is not compared with them",
    "whether the reasons and texts of failures, questions, answers and decisions are those that were given",
    "what a program says of itself: the texts of its definitions, the renderer of its prompts, its release and build, the servers of tools that it saw, its secrets and its store of files, what tools, flows, registries and webhooks keep, beyond its order",
];

/// The check that `HEAD` cannot make: it has no trace of events cut off within a second of being written.
pub(crate) const AFTER_HEAD: &str = "whether events written after the last rewrite of HEAD were cut off at the end (HEAD lags by up to one second during writes)";

/// Verifies the whole log.
pub fn verify(reader: &dyn EventReader) -> VerifyReport {
    verify_within(reader, &Scope::default(), &mut |_| {})
}

/// Verifies what the scope names and reports progress.
pub fn verify_within(
    reader: &dyn EventReader,
    scope: &Scope<'_>,
    progress: &mut dyn FnMut(VerifyProgress),
) -> VerifyReport {
    let (head, root) = (HeadCheck::new(scope.head), RootCheck::new(scope.root));
    // A log that cannot be opened has no index by which a stream could be read again.
    let streams = match scope.refused {
        Some(_) => CheckedStreams::default(),
        None => CheckedStreams::new(reader, scope.keep_bytes.unwrap_or(VERIFY_BYTES_KEPT)),
    };
    let mut verifier = Verifier { scope: *scope, head, root, streams, ..Verifier::default() };
    if let Some(why) = scope.refused {
        verifier.of_log(FindingKind::Open, why.to_owned());
    }
    if let Some(what) = scope.file.and_then(|file| header_contradiction(file.header())) {
        verifier.of_log(FindingKind::Words, what);
    }
    let of = match scope.only {
        Some(stream) => reader.stream_version(stream).map(|version| version.0),
        None => reader.head().map(|head| head.0),
    };
    let of = of.unwrap_or_default();
    let mut show = |read: Result<StoredRecord, ReadError>| {
        match read {
            Ok(stored) => verifier.accept_record(&stored),
            Err(error) => verifier.unreadable(error),
        }
        let at = if scope.only.is_some() { verifier.version() } else { verifier.next };
        progress(VerifyProgress { at, of, bytes: verifier.found.bytes });
    };
    match scope.only {
        Some(stream) => reader.survey_stream(stream, &mut show),
        None => reader.survey(&mut show),
    }
    verifier.finish(reader)
}

/// Verifies records that the caller reads, in their order.
#[derive(Default)]
pub(crate) struct Auditor(Verifier<'static>);

impl Auditor {
    pub(crate) fn accept_record(&mut self, stored: &StoredRecord) {
        self.0.accept_record(stored);
    }

    pub(crate) fn current_report(&self) -> &VerifyReport {
        &self.0.found
    }
}

#[derive(Default)]
pub(crate) struct Verifier<'a> {
    pub(crate) scope: Scope<'a>,
    pub(crate) found: VerifyReport,
    pub(crate) streams: CheckedStreams<'a>,
    /// The position of the last event seen.
    pub(crate) next: u64,
    pub(crate) writer: WriterCheck,
    pub(crate) head: HeadCheck<'a>,
    pub(crate) root: RootCheck,
    pub(crate) links: LinksCheck,
    /// Whether a newer release wrote an event.
    pub(crate) is_newer: bool,
    /// The number of pieces that could not be read; the links of what follows them are not checked.
    pub(crate) unreadable: u64,
    /// The position before the first one that was not read because the reader failed.
    pub(crate) read_to: Option<u64>,
    after_damage: bool,
}

impl Verifier<'_> {
    fn accept_record(&mut self, stored: &StoredRecord) {
        self.found.records += 1;
        self.found.events += stored.record.events.len() as u64;
        self.found.bytes += bytes(stored);
        if self.found.failed.is_some() {
            // What the reader did not give may be what this record follows from.
            self.next = stored.last_position().0;
            self.check_bytes(stored);
            return self.check_words(stored);
        }
        self.check_position(stored);
        self.check_bytes(stored);
        let alone = self.scope.only.is_some();
        if let Some(what) = self.writer.step_back(stored) {
            self.found.add_finding(what);
        }
        for (kind, what) in self.writer.accept_record(stored, (alone, self.after_damage)) {
            self.report(kind, stored, what);
        }
        if !alone {
            self.root.accept_record(stored);
            self.head.accept_record(stored, &self.root.frontier);
        }
        self.check_words(stored);
        self.after_damage = false;
        let events = read_events(stored);
        self.check_files(stored);
        self.check_rules(stored, &events);
    }

    /// Checks what the record says by the rules of its stream, and by what other streams say.
    fn check_rules(&mut self, stored: &StoredRecord, events: &[ReadEvent]) {
        let stream = &stored.record.stream;
        if stored.record.part == 0 && self.unreadable == 0 {
            self.streams.drop_oldest();
        }
        self.recall(stored, std::slice::from_ref(stream));
        let (mut faults, is_newer) = self.streams.accept_record(stored, events);
        self.is_newer |= is_newer;
        if let Some(check) = self.streams.get(stream) {
            self.recall(stored, &linked(stream, check, events));
        }
        // What a link names may be what cannot be read.
        if self.scope.only.is_none() && self.unreadable == 0 && !self.is_newer {
            faults.extend(self.links.accept_record(stored, events, &self.streams));
        }
        for fault in faults {
            self.found.add(fault);
        }
    }

    /// Reads streams again whose checks were dropped.
    fn recall(&mut self, stored: &StoredRecord, streams: &[StreamId]) {
        match self.streams.recall(streams) {
            Ok(()) => {}
            Err((_, error)) if error.is_of_reader() => self.unreadable(error),
            Err((stream, error)) => {
                let what = format!(
                    "{stream} could not be read again, so that its rules were not applied from here on: {error}"
                );
                self.report(FindingKind::Index, stored, what);
                self.unreadable += 1;
                self.links.forget();
            }
        }
    }

    /// The version up to which the one stream was read.
    fn version(&self) -> u64 {
        self.streams.stream_ends().next().map_or(0, |(_, end)| end.version.0)
    }

    /// Notes that the reader failed: nothing is known of what it did not give.
    pub(crate) fn reader_failed(&mut self, error: ReadError) {
        self.found.failed.get_or_insert(error);
    }

    fn unreadable(&mut self, error: ReadError) {
        if error.is_of_reader() {
            self.read_to.get_or_insert(self.next);
            self.unreadable += 1;
            return self.reader_failed(error);
        }
        let kind = match error {
            ReadError::Newer { .. } => FindingKind::Newer,
            _ => FindingKind::Unreadable,
        };
        let (stream, version, position, what) = match error {
            ReadError::Corrupt { what, stream, version, position }
            | ReadError::Newer { what, stream, version, position } => (stream, version, position, what),
            other => (None, None, None, other.to_string()),
        };
        let position = position.or((self.scope.only.is_none()).then_some(Position(self.next + 1)));
        self.found.add(Finding { kind, stream, version, position, what });
        self.unreadable += 1;
        self.after_damage = true;
        // The append's other records may be what could not be read.
        self.writer.forget();
        self.links.forget();
    }

    fn check_words(&mut self, stored: &StoredRecord) {
        let Some(file) = self.scope.file else { return };
        match file.line_at(stored.position) {
            Ok(Some(line)) => {
                if let Some(what) = contradiction(&line, stored) {
                    self.report(FindingKind::Words, stored, what);
                }
            }
            Ok(None) => {}
            Err(error) => self.report(FindingKind::Unreadable, stored, error.to_string()),
        }
    }

    /// Looks at the files beside the log to which the events refer.
    fn check_files(&mut self, stored: &StoredRecord) {
        for kept in kept_files_in(stored) {
            self.found.kept_files += 1;
            if let Some(what) = self.scope.files.and_then(|files| files.fault(&kept)) {
                self.found.add(Finding::new(stored, kept.version.0, FindingKind::File, what));
            }
        }
    }

    fn report(&mut self, kind: FindingKind, stored: &StoredRecord, what: String) {
        self.found.add(Finding {
            kind,
            stream: Some(stored.record.stream.clone()),
            version: Some(stored.record.first_version),
            position: Some(stored.position),
            what,
        });
    }

    fn check_position(&mut self, stored: &StoredRecord) {
        let expected = self.next + 1;
        // Positions of one stream only grow; after an unreadable piece they may have a gap.
        let may_skip = self.after_damage || self.scope.only.is_some();
        let joins = stored.position.0 == expected || (may_skip && stored.position.0 > expected);
        if !joins {
            let what = format!("the record is at position {}, not at {expected}", stored.position);
            self.report(FindingKind::Position, stored, what);
        }
        self.next = stored.last_position().0;
    }

    /// Recomputes the hash from the stored bytes and checks every body against its digest.
    fn check_bytes(&mut self, stored: &StoredRecord) {
        match RecordView::peek(&stored.bytes) {
            Ok(view) if view.leaf_hash() == stored.hash => {}
            Ok(view) => {
                let what = format!("its bytes have the hash {}, not {}", view.leaf_hash(), stored.hash);
                self.report(FindingKind::Hash, stored, what);
            }
            Err(error) => self.report(FindingKind::Hash, stored, error.to_string()),
        }
        for (event, version) in stored.record.events.iter().zip(stored.record.first_version.0..) {
            if !event.matches_digest() {
                let what =
                    format!("the body of version {version} does not have the digest that the record holds");
                self.report(FindingKind::Hash, stored, what);
            }
        }
    }
}

/// The number of bytes of a record and of the bodies stored outside it.
pub(crate) fn bytes(stored: &StoredRecord) -> u64 {
    use proto_events::codec::record::Body;
    let outside = stored.record.events.iter().filter(|event| matches!(event.place, Body::Chunked { .. }));
    let outside: u64 = outside.map(|event| u64::from(event.body_len)).sum();
    stored.bytes.len() as u64 + outside
}
