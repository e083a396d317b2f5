//! The rows of all tasks of a large log. The log is read once, in its order, and of each task only its outline is folded: most
//! bodies are not decoded, and nothing of them is held, however the tasks are mixed in the log. A task that runs or waits for a
//! person is folded whole afterwards, since its row says what it waits for.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState};
use std::ops::ControlFlow;

use proto_events::codec::{OutlineChange, TaskOutline, changes_outline, outline_change, reads_task_event};
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, Digest, Position, Version};
use proto_events::model::TaskState;

use crate::api::in_pieces::scan_mapped;
use crate::api::reader::EventReader;
use crate::api::record::StreamInfo;
use crate::api::scan::{Compare, ScannedRecord};

/// A task's outline, and the end of what was folded of its stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutlinedTask {
    pub(crate) outline: TaskOutline,
    pub(crate) version: Version,
    pub(crate) position: Position,
    pub(crate) last_at: Timestamp,
    last_hash: Digest,
    /// Whether a record of the stream could not be taken: then nothing is said of the task here.
    is_given_up: bool,
}

impl OutlinedTask {
    /// Whether the outline is all that a row needs.
    fn is_enough(&self) -> bool {
        !matches!(self.outline.state(), TaskState::Working | TaskState::InputRequired)
    }

    /// Folds in the next record of the stream. Returns false if it does not follow, or could not be read.
    fn accept_record(&mut self, record: OutlinedRecord) -> bool {
        let is_next = record.first_version.0 == self.version.0 + 1 && record.previous == self.last_hash;
        let Some(changes) = record.changes.filter(|_| is_next) else { return false };
        for change in changes {
            self.outline.evolve(change);
        }
        self.version = Version(self.version.0.saturating_add(record.events));
        self.position = Position(record.position.0.saturating_add(record.events - 1));
        (self.last_at, self.last_hash) = (record.at, record.hash);
        true
    }
}

/// The part of a record that an outline needs.
struct OutlinedRecord {
    first_version: Version,
    events: u64,
    previous: Digest,
    hash: Digest,
    position: Position,
    at: Timestamp,
    /// `None` if an event cannot be read, or one that counts is not with the record.
    changes: Option<Vec<OutlineChange>>,
}

impl OutlinedRecord {
    fn from_scanned(scanned: &ScannedRecord<'_>) -> Self {
        let view = &scanned.record;
        Self {
            first_version: view.first_version,
            events: view.event_count.into(),
            previous: view.previous,
            hash: scanned.hash,
            position: scanned.position,
            at: view.at,
            changes: changes(scanned),
        }
    }
}

fn changes(scanned: &ScannedRecord<'_>) -> Option<Vec<OutlineChange>> {
    let mut changes = Vec::new();
    for event in scanned.record.events() {
        let event = event.ok()?;
        if changes_outline(event.kind) {
            changes.extend(outline_change(event.kind, event.schema, event.body?).ok()?);
        } else if !reads_task_event(event.kind, event.schema) {
            return None;
        }
    }
    Some(changes)
}

/// The numbers of streams by the hashes of their names. Among many streams each search for a name misses the processor's cache
/// for the name too. A record of another stream with the hash of a task does not follow in the task's chain of hashes, and
/// two tasks with one hash are found by neither: such tasks are read stream by stream.
#[derive(Default)]
struct NumbersByHash {
    hasher: RandomState,
    numbers: HashMap<u64, Option<usize>, BuildHasherDefault<NumberHasher>>,
}

impl NumbersByHash {
    fn from_names<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut found = Self::default();
        for (number, name) in names.enumerate() {
            let entry = found.numbers.entry(found.hasher.hash_one(name));
            entry.and_modify(|number| *number = None).or_insert(Some(number));
        }
        found
    }

    fn get(&self, name: &str) -> Option<usize> {
        self.numbers.get(&self.hasher.hash_one(name)).copied().flatten()
    }
}

/// The hash of a number that is a hash.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Shows the tasks whose outlines say all that their rows need, each as it is at the end of the log. Returns those that must be
/// read otherwise: they run or wait for a person, or a record of them could not be read here.
pub(crate) fn outlined(
    reader: &dyn EventReader,
    infos: Vec<StreamInfo>,
    show: &mut dyn FnMut(&StreamInfo, &OutlinedTask),
) -> Vec<StreamInfo> {
    let numbers = NumbersByHash::from_names(infos.iter().map(|info| info.stream.as_str()));
    let mut tasks = vec![OutlinedTask::default(); infos.len()];
    let outline = |scanned: &ScannedRecord<'_>| {
        let name = scanned.record.stream;
        let number =
            (Category::from_stream(name) == Some(Category::Task)).then(|| numbers.get(name)).flatten();
        Ok(number.map(|number| (number, OutlinedRecord::from_scanned(scanned))))
    };
    let scanned = scan_mapped(reader, Compare::Checksums, outline, |read| {
        if let Some((number, record)) = read
            && let Some(task) = tasks.get_mut(number).filter(|task| !task.is_given_up)
        {
            task.is_given_up = !task.accept_record(record);
        }
        Ok(ControlFlow::Continue(()))
    });
    if let Err(error) = scanned {
        // What cannot be read here is read stream by stream, so that the error names its stream.
        tracing::debug!(%error, "the list is read stream by stream");
    }
    let mut left = Vec::new();
    for (info, task) in infos.into_iter().zip(&tasks) {
        if !task.is_given_up && task.version >= info.version && task.is_enough() {
            show(&info, task);
        } else {
            left.push(info);
        }
    }
    left
}
