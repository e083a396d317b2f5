//! A log as drafts that can be changed, and sealed with the project's own encoder: every hash, digest and link is
//! then valid, whatever the drafts say.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use proto_events::call::{CallEvent, PromptRef, VerdictBy};
use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::codec::{AnyEvent, Payload, Storable};
use proto_events::envelope::{CommandDigest, Metadata, Principal, Timestamp};
use proto_events::id::{Digest, Position, StreamId, Version};
use proto_events::model::TaskState;
use proto_events::task::TaskEvent;
use taskreel_log::api::{EventReader, ReadError, StoredRecord, StreamInfo};
use taskreel_log::limits::RECORD_BYTES_MAX;

use super::sealing::Sealing;

/// The time of the first record.
const BEGAN: i64 = 1_795_000_000_000_000;

/// A microsecond count of one second.
pub(crate) const SECOND: i64 = 1_000_000;

/// A record before it is encoded.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) label: &'static str,
    pub(crate) stream: StreamId,
    pub(crate) set: u8,
    pub(crate) part: u16,
    pub(crate) parts: u16,
    pub(crate) partition: u32,
    pub(crate) epoch: u64,
    pub(crate) at: i64,
    pub(crate) command: String,
    /// The person whose command it is.
    pub(crate) by: &'static str,
    /// Whether that person's name was checked.
    pub(crate) is_authenticated: bool,
    /// Whether a caller chose the command's id.
    pub(crate) is_named: bool,
    pub(crate) events: Vec<AnyEvent>,
    /// The most bytes of the record; longer bodies stand outside it.
    pub(crate) limit: usize,
}

/// A log as drafts, in order of position.
#[derive(Clone, Default)]
pub(crate) struct Log {
    pub(crate) drafts: Vec<Draft>,
    epoch: u64,
}

/// Whether the event names a person who decided.
fn is_decision(event: &AnyEvent) -> bool {
    match event {
        AnyEvent::Task(TaskEvent::ApprovalDecided(_)) => true,
        AnyEvent::Task(TaskEvent::Call(event)) => match event {
            CallEvent::Reconciled { by, .. } => *by != VerdictBy::Probe,
            event => matches!(event, CallEvent::Abandoned { .. }),
        },
        _ => false,
    }
}

/// Whether the event ends a run of the system's own accord.
fn ends_run(event: &AnyEvent) -> bool {
    matches!(event, AnyEvent::Task(TaskEvent::StateChanged { from: TaskState::Working, to, .. }) if *to != TaskState::Canceled)
}

impl Log {
    /// Begins an epoch.
    pub(crate) fn epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Adds an append of one record to each of these streams.
    pub(crate) fn append(&mut self, parts: Vec<(&'static str, &StreamId, Vec<AnyEvent>)>) {
        let set = self.drafts.last().map_or(1, |last| last.set + 1);
        let (count, at) = (u16::try_from(parts.len()).unwrap(), BEGAN + i64::from(set) * SECOND);
        for (part, (label, stream, events)) in (0..).zip(parts) {
            let by = if events.iter().any(is_decision) { "ada" } else { "" };
            let own = if events.iter().any(ends_run) { "~" } else { "" };
            self.drafts.push(Draft {
                by,
                is_authenticated: false,
                label,
                stream: stream.clone(),
                set,
                part,
                parts: count,
                partition: 0,
                epoch: self.epoch,
                at,
                command: format!("{own}command-{set}"),
                is_named: false,
                events,
                limit: RECORD_BYTES_MAX,
            });
        }
    }

    /// Returns the version of a stream's last event.
    #[allow(dead_code, reason = "each test program uses a part")]
    pub(crate) fn version(&self, stream: &StreamId) -> Version {
        let of_stream = self.drafts.iter().filter(|draft| draft.stream == *stream);
        Version(of_stream.map(|draft| draft.events.len() as u64).sum())
    }

    /// Returns the record with this label.
    pub(crate) fn draft(&mut self, label: &str) -> &mut Draft {
        let found = self.drafts.iter_mut().find(|draft| draft.label == label);
        found.unwrap_or_else(|| panic!("no record has the label {label}"))
    }

    /// Returns an event of the record with this label.
    pub(crate) fn event(&mut self, label: &str, at: usize) -> &mut AnyEvent {
        &mut self.draft(label).events[at]
    }

    /// Inserts an event into the record with this label.
    pub(crate) fn insert(&mut self, label: &str, at: usize, event: AnyEvent) {
        self.draft(label).events.insert(at, event);
    }

    /// Removes an event from the record with this label.
    pub(crate) fn remove(&mut self, label: &str, at: usize) {
        self.draft(label).events.remove(at);
    }

    /// Removes the record with this label, alone in its append.
    pub(crate) fn drop_record(&mut self, label: &str) {
        self.drafts.retain(|draft| draft.label != label);
    }

    /// Adds a record of the same stream, in an append of its own, after the record with this label.
    pub(crate) fn add_after(&mut self, label: &str, new: &'static str, events: Vec<AnyEvent>) {
        let at = self.drafts.iter().position(|draft| draft.label == label).unwrap();
        let before = self.drafts[at].clone();
        let set = self.drafts.iter().map(|draft| draft.set).max().unwrap() + 1;
        let end = self.drafts[at..].iter().position(|draft| draft.set != before.set);
        let at = end.map_or(self.drafts.len(), |end| at + end);
        let command = format!("command-{set}");
        let is_named = false;
        let draft = Draft { label: new, set, part: 0, parts: 1, command, is_named, events, ..before };
        self.drafts.insert(at, draft);
    }

    /// Encodes the log.
    pub(crate) fn seal(&self) -> Sealed {
        let mut sealed = Sealed::default();
        let mut ends: HashMap<StreamId, (u64, Digest)> = HashMap::new();
        let (mut sealing, mut position) = (Sealing::default(), 1);
        for draft in &self.drafts {
            let (version, previous) = ends.get(&draft.stream).copied().unwrap_or_default();
            let events = sealing.fill(draft, (version + 1, previous));
            let draft = &Draft { events, ..draft.clone() };
            let encoded = draft.record(version + 1, previous).encode_within(draft.limit).unwrap();
            let stored = StoredRecord::new(&encoded, Position(position));
            position += draft.events.len() as u64;
            ends.insert(draft.stream.clone(), (stored.record.last_version().0, stored.hash));
            sealed.labels.push((draft.label, draft.stream.clone(), Version(version + 1)));
            sealing.note(&stored);
            sealed.records.push(stored);
        }
        sealed
    }
}

impl Draft {
    fn record(&self, first_version: u64, previous: Digest) -> RecordDraft {
        let events: Vec<EventBody> = self.events.iter().map(body).collect();
        let digest = CommandDigest::new(events.iter().map(|event| &event.salt), self.command.as_bytes());
        RecordDraft {
            stream: self.stream.clone(),
            first_version: Version(first_version),
            set_id: [self.set; 16],
            part: self.part,
            parts: self.parts,
            partition: self.partition,
            epoch: self.epoch,
            metadata: Metadata {
                at: Timestamp(self.at),
                command_id: self.command.clone(),
                command_digest: self.is_named.then_some(digest),
                principal: if self.is_authenticated {
                    Principal::authenticated(self.by)
                } else {
                    self.by.into()
                },
                ..Metadata::default()
            },
            fields: Vec::new(),
            previous,
            events,
        }
    }
}

pub(crate) fn body(event: &AnyEvent) -> EventBody {
    let encoded = match event {
        AnyEvent::Task(event) => event.encode(),
        AnyEvent::Session(event) => event.encode(),
        AnyEvent::Tool(event) => event.encode(),
        AnyEvent::System(event) => event.encode(),
        AnyEvent::Agent(event) => event.encode(),
        AnyEvent::Flow(event) => event.encode(),
        AnyEvent::Registry(event) => event.encode(),
    };
    let Payload { kind, schema, body } = encoded.unwrap();
    EventBody { kind, schema, salt: [7; 16], body }
}

/// An encoded log, as a reader.
#[derive(Default)]
pub(crate) struct Sealed {
    records: Vec<StoredRecord>,
    labels: Vec<(&'static str, StreamId, Version)>,
    /// Whether reading a stream leads to the records of all streams.
    is_misled: bool,
    /// The number of pages of streams that were read.
    pages: AtomicU64,
}

impl Sealed {
    /// Returns the log with an index that leads to wrong records.
    pub(crate) fn misled(self) -> Self {
        Self { is_misled: true, ..self }
    }

    /// Returns the number of pages of streams that were read since the last time.
    pub(crate) fn pages(&self) -> u64 {
        self.pages.swap(0, Ordering::Relaxed)
    }

    /// Returns what the intent that begins the record with this label was shown.
    pub(crate) fn prompt(&self, label: &str) -> PromptRef {
        let (stream, version) = self.place((label, 0));
        let found = self
            .records
            .iter()
            .find(|stored| stored.record.stream == stream && stored.record.first_version == version);
        let event = &found.expect("the record of the label").record.events[0];
        match TaskEvent::decode(event.kind, event.schema, event.body().unwrap()).unwrap() {
            TaskEvent::Call(CallEvent::Requested(request)) => request.prompt.expect("an inference"),
            other => panic!("no intent: {other:?}"),
        }
    }

    fn at(&self, label: &str) -> usize {
        self.labels.iter().position(|(known, ..)| *known == label).unwrap()
    }

    /// Returns the log without the record with this label.
    pub(crate) fn without(mut self, label: &str) -> Self {
        self.records.remove(self.at(label));
        self
    }

    /// Returns the log with another hash for the record with this label.
    pub(crate) fn with_hash(mut self, label: &str, hash: Digest) -> Self {
        let at = self.at(label);
        self.records[at].hash = hash;
        self
    }

    /// Returns the log with the record of this label as another log has it.
    pub(crate) fn with(mut self, other: &Self, label: &str) -> Self {
        let at = self.at(label);
        self.records[at] = other.records[other.at(label)].clone();
        self
    }

    /// Returns the stream and version of an event of the record with this label.
    pub(crate) fn place(&self, (label, at): (&str, u64)) -> (StreamId, Version) {
        let found = self.labels.iter().find(|(known, _, _)| *known == label);
        let (_, stream, first) = found.unwrap_or_else(|| panic!("no record has the label {label}"));
        (stream.clone(), Version(first.0 + at))
    }
}

impl EventReader for Sealed {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.pages.fetch_add(1, Ordering::Relaxed);
        let of = |stored: &&StoredRecord| {
            (self.is_misled || stored.record.stream == *stream) && stored.record.last_version() >= from
        };
        Ok(self.records.iter().filter(of).take(limit).cloned().collect())
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        let after = self.records.iter().filter(|stored| stored.last_position() >= from);
        Ok(after.take(limit).cloned().collect())
    }

    fn head(&self) -> Result<Position, ReadError> {
        Ok(self.records.last().map(StoredRecord::last_position).unwrap_or_default())
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        let last = self.records.iter().rev().find(|stored| stored.record.stream == *stream);
        Ok(last.map(|stored| stored.record.last_version()).unwrap_or_default())
    }

    fn list_streams(&self, _: &str, _: Option<&StreamId>, _: usize) -> Result<Vec<StreamInfo>, ReadError> {
        Ok(Vec::new())
    }
}
