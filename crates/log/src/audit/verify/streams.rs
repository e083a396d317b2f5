//! The streams that a verification has read so far. The checks of the streams read last are in memory; of the others only
//! their ends are kept, and a stream that comes back is read again. Memory thus grows with the number of streams, by some 150
//! bytes each, and not with their events.

use std::collections::BTreeMap;

use proto_events::call::{CallEvent, CallRequested};
use proto_events::codec::AnyEvent;
use proto_events::id::{Category, Digest, StreamId, Version};
use proto_events::model::TaskState;
use proto_events::task::TaskEvent;

use crate::api::error::ReadError;
use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::audit::verify::finding::Finding;
use crate::audit::verify::stream::{ReadEvent, StreamCheck, read_events};
use crate::limits::VERIFY_BYTES_KEPT;

/// The end of a stream, as the records read so far have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckedEnd {
    pub(crate) version: Version,
    pub(crate) last_hash: Digest,
    /// The state of a task.
    pub(crate) state: Option<TaskState>,
    /// Whether the stream is a session of which a summary was ever requested.
    pub(crate) has_summaries: bool,
}

impl CheckedEnd {
    fn new(check: &StreamCheck) -> Self {
        Self {
            version: check.version(),
            last_hash: check.last_hash(),
            state: check.state(),
            has_summaries: check.has_summaries(),
        }
    }
}

enum KeptCheck {
    Whole(Box<CheckInMemory>),
    End(CheckedEnd),
}

/// A check in memory.
#[derive(Default)]
struct CheckInMemory {
    check: StreamCheck,
    /// The weight of its events.
    weight: u64,
    /// The number of the record that used it last.
    used: u64,
}

/// The bytes that an event counts for beside the bytes of its body.
const EVENT_BYTES: u64 = 700;

/// Returns the weight of a record's events in memory.
fn weight(stored: &StoredRecord) -> u64 {
    stored.record.events.iter().map(|event| EVENT_BYTES + u64::from(event.body_len)).sum()
}

/// The streams read so far.
pub(crate) struct CheckedStreams<'a> {
    /// The log, to read a stream again. Without it every check stays in memory.
    reader: Option<&'a dyn EventReader>,
    known: BTreeMap<StreamId, KeptCheck>,
    /// The weight of the checks in memory.
    kept: u64,
    /// The weight that is kept in memory.
    limit: u64,
    /// The weight from which on checks are dropped next.
    drop_at: u64,
    records: u64,
    /// The number of records when checks were dropped last.
    dropped_at: u64,
}

impl Default for CheckedStreams<'_> {
    fn default() -> Self {
        let (limit, drop_at) = (VERIFY_BYTES_KEPT, VERIFY_BYTES_KEPT);
        Self { reader: None, known: BTreeMap::new(), kept: 0, limit, drop_at, records: 0, dropped_at: 0 }
    }
}

impl<'a> CheckedStreams<'a> {
    /// Returns no streams, of a log in which a stream can be read again. Checks of this weight are kept in memory.
    pub(crate) fn new(reader: &'a dyn EventReader, limit: u64) -> Self {
        Self { reader: Some(reader), limit, drop_at: limit, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn contains(&self, stream: &StreamId) -> bool {
        self.known.contains_key(stream)
    }

    /// Returns the check of a stream: of the record taken last, or one that [`CheckedStreams::recall`] was asked for since.
    pub(crate) fn get(&self, stream: &StreamId) -> Option<&StreamCheck> {
        match self.known.get(stream)? {
            KeptCheck::Whole(kept) => Some(&kept.check),
            KeptCheck::End(_) => None,
        }
    }

    /// Returns the end of a stream.
    pub(crate) fn end_of_stream(&self, stream: &StreamId) -> Option<CheckedEnd> {
        self.known.get(stream).map(KeptCheck::stream_end)
    }

    /// Returns the ends of all streams, in order of their names.
    pub(crate) fn stream_ends(&self) -> impl Iterator<Item = (&StreamId, CheckedEnd)> {
        self.known.iter().map(|(stream, known)| (stream, known.stream_end()))
    }

    /// Takes the next record of a stream and returns its faults, and whether a newer release wrote an event of the stream.
    /// The check of the stream is in memory, see [`CheckedStreams::recall`].
    pub(crate) fn accept_record(
        &mut self,
        stored: &StoredRecord,
        events: &[ReadEvent],
    ) -> (Vec<Finding>, bool) {
        self.records += 1;
        let stream = &stored.record.stream;
        let known = self.known.entry(stream.clone()).or_insert_with(|| KeptCheck::Whole(Box::default()));
        let KeptCheck::Whole(kept) = known else { return (Vec::new(), false) };
        let weight = weight(stored);
        kept.used = self.records;
        kept.weight += weight;
        self.kept += weight;
        (kept.check.accept_record(stored, events), kept.check.is_newer())
    }

    /// Reads streams again whose checks were dropped.
    ///
    /// # Errors
    /// The first stream that cannot be read as it was, and the reason. None of its rules is applied from then on.
    pub(crate) fn recall<'s>(
        &mut self,
        streams: impl IntoIterator<Item = &'s StreamId>,
    ) -> Result<(), (&'s StreamId, ReadError)> {
        let mut failed = Ok(());
        for stream in streams {
            let (Some(KeptCheck::End(end)), Some(reader)) = (self.known.get(stream), self.reader) else {
                continue;
            };
            let read = read_again(reader, stream, end);
            let (check, weight) = read.unwrap_or_else(|error| {
                failed = Err((stream, error));
                (StreamCheck::without_rules(end.version, end.last_hash), 0)
            });
            self.kept += weight;
            let kept = CheckInMemory { check, weight, used: self.records };
            self.known.insert(stream.clone(), KeptCheck::Whole(Box::new(kept)));
        }
        failed
    }

    /// Drops all checks: of each stream its end is left.
    pub(crate) fn drop_all(&mut self) {
        for known in self.known.values_mut() {
            *known = KeptCheck::End(known.stream_end());
        }
        self.kept = 0;
    }

    /// Drops the checks of tasks and sessions that were used longest ago, if there are too many: between two appends, since
    /// the records of one are compared with each other. Those used since the last time stay: a long stream whose records follow
    /// each other would be read again for each of them.
    pub(crate) fn drop_oldest(&mut self) {
        if self.kept <= self.drop_at || self.reader.is_none() {
            return;
        }
        let mut checks: Vec<_> = self.known.iter_mut().filter_map(droppable).collect();
        checks.retain(|(used, _)| *used <= self.dropped_at);
        checks.sort_unstable_by_key(|(used, _)| *used);
        // Half of them, so that this is seldom done.
        for (_, known) in checks {
            if self.kept <= self.limit / 2 {
                break;
            }
            if let KeptCheck::Whole(kept) = &*known {
                self.kept = self.kept.saturating_sub(kept.weight);
            }
            *known = KeptCheck::End(known.stream_end());
        }
        self.drop_at = self.limit.max(self.kept.saturating_add(self.limit / 2));
        self.dropped_at = self.records;
    }
}

impl KeptCheck {
    fn stream_end(&self) -> CheckedEnd {
        match self {
            Self::Whole(kept) => CheckedEnd::new(&kept.check),
            Self::End(end) => *end,
        }
    }
}

/// Returns a check that may be dropped, and when it was used. The definitions of agents are asked for by every call.
fn droppable<'k>((stream, known): (&StreamId, &'k mut KeptCheck)) -> Option<(u64, &'k mut KeptCheck)> {
    let KeptCheck::Whole(kept) = &*known else { return None };
    let (used, is_chained) = (kept.used, kept.check.is_chained());
    let is_work = matches!(stream.category(), Some(Category::Task | Category::Session));
    (is_work && is_chained).then_some((used, known))
}

/// Reads a stream again up to its known end, and returns the weight of its events too. Its faults are known already; the hash of
/// its last record tells whether the records are the same.
fn read_again(
    reader: &dyn EventReader,
    stream: &StreamId,
    end: &CheckedEnd,
) -> Result<(StreamCheck, u64), ReadError> {
    let (mut check, mut all) = (StreamCheck::default(), 0);
    while check.version() < end.version {
        let next = Version(check.version().0 + 1);
        let page = reader.page_stream(stream, next, Page::default())?;
        let before = check.version();
        for stored in page.iter().take_while(|stored| stored.record.last_version() <= end.version) {
            check.accept_record(stored, &read_events(stored));
            all += weight(stored);
        }
        if check.version() <= before || !check.is_chained() {
            break;
        }
    }
    if check.is_chained() && check.last_hash() == end.last_hash {
        return Ok((check, all));
    }
    let what = "the records that the index leads to are not those of the log";
    Err(ReadError::corrupt(what.to_owned(), None))
}

/// Returns the streams that the links of a record of this stream are about, beside the stream itself and its agent's.
pub(crate) fn linked(stream: &StreamId, check: &StreamCheck, events: &[ReadEvent]) -> Vec<StreamId> {
    let newest = check.newest_task().and_then(|task| StreamId::parse(task).ok());
    let mut all: Vec<StreamId> = newest.into_iter().collect();
    let intents = events.iter().filter_map(|read| intent(read.event.as_ref().ok()?));
    for request in intents {
        let own = stream.id();
        all.extend(StreamId::session(&stream.agent(), check.session().unwrap_or(&own)));
        let shown = request.prompt.as_ref().and_then(|prompt| prompt.session.as_ref());
        all.extend(shown.and_then(|session| StreamId::parse(session).ok()));
    }
    all
}

fn intent(event: &AnyEvent) -> Option<&CallRequested> {
    match event {
        AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))) => Some(request),
        _ => None,
    }
}
