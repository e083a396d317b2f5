//! A real store, driven like the model.

use std::sync::Arc;

use futures_util::future::join_all;
use proto_events::id::{Position, StreamId, Version};
use taskreel_log::api::{Append, AppendError, Appended, EventStore, Fence, ReadError, StoredRecord};
use taskreel_log::testing::conformance::{Author, id, stream};
use taskreel_log::testing::{AppendFault, Faults, FaultyStore, ReadFault};

use crate::model::{Answer, Belief, Body, Model, Part, Row, STREAMS, Set, Step};

/// The store under test, wrapped to inject faults.
pub(crate) struct Subject {
    faults: Faults,
    store: Arc<dyn EventStore>,
    runtime: tokio::runtime::Runtime,
    /// The directory of its log, if it has one.
    _dir: Option<tempfile::TempDir>,
}

pub(crate) fn name(number: u8) -> StreamId {
    stream(&format!("s{number}"))
}

fn number(stream: &StreamId) -> u8 {
    (0..STREAMS).find(|number| name(*number) == *stream).unwrap()
}

fn bytes(body: Body) -> Vec<u8> {
    vec![body.byte; body.bytes]
}

fn row(stored: &StoredRecord) -> Row {
    let body = |body: &[u8]| {
        let byte = body.first().copied();
        assert!(body.iter().all(|each| Some(*each) == byte), "no body is a mixture");
        (byte, body.len())
    };
    let bodies = stored.record.events.iter().map(|event| body(event.body().unwrap()));
    Row {
        position: stored.position.0,
        stream: number(&stored.record.stream),
        first_version: stored.record.first_version.0,
        bodies: bodies.map(|(byte, bytes)| Body { byte: byte.unwrap_or(0), bytes }).collect(),
    }
}

/// Returns a model's row as it can be read back: an empty body does not show the value of its bytes.
fn readable(mut row: Row) -> Row {
    for body in &mut row.bodies {
        body.byte = if body.bytes == 0 { 0 } else { body.byte };
    }
    row
}

impl Subject {
    pub(crate) fn new(store: Arc<dyn EventStore>, dir: Option<tempfile::TempDir>) -> Self {
        let faults = Faults::none();
        let store = Arc::new(FaultyStore::new(store, faults.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { faults, store, runtime, _dir: dir }
    }

    pub(crate) fn step(&mut self, after: &Model, step: &Step) {
        let was_poisoned = after.was_poisoned;
        let newest = |answers: usize| &after.sets[after.sets.len() - answers..];
        match step {
            Step::Append { belief, fault, .. } => {
                let set = &newest(1)[0];
                let append = self.encode(set, *belief);
                if *belief == Belief::Right && after.answers[0] != Answer::Poisoned {
                    self.plan(*fault);
                }
                self.send(vec![append], after);
            }
            Step::Group { appends, fault } => {
                if after.answers[0] != Answer::Poisoned {
                    self.plan(*fault);
                }
                let appends = self.encode_group(newest(appends.len()));
                self.send(appends, after);
            }
            Step::Repeat { which } => {
                let done = after.done();
                let append = self.encode(done[which.index(done.len())], Belief::Right);
                self.send(vec![append], after);
            }
            Step::Misuse { which, stream } => {
                let done = after.done();
                let mut author = self.author(done[which.index(done.len())].number);
                self.learn(&mut author, *stream, u64::MAX);
                self.send(vec![author.many(&[(name(*stream), vec![vec![9]; 7])])], after);
            }
            Step::ReadAll { from, limit } => self.read_all(after, *from, *limit),
            Step::ReadStream { stream, from, limit } => self.read_stream(after, *stream, *from, *limit),
            Step::List { prefix, after: behind, limit } => self.list(after, prefix, *behind, *limit),
            Step::SpoilReading { bit } => self.spoil(after, *bit),
            Step::FillDisk => self.faults.fill_disk(),
            Step::FreeSpace => self.faults.free_space(),
            Step::Reopen => self.reopen(was_poisoned),
        }
    }

    /// Checks what must hold after every step.
    pub(crate) fn check(&self, model: &Model) {
        assert_eq!(self.store.head().unwrap(), Position(model.shown as u64));
        for stream in 0..STREAMS {
            let version = self.store.stream_version(&name(stream)).unwrap();
            assert_eq!(version.0, model.version(stream), "stream {stream}");
        }
        for set in &model.sets {
            let shown = set.done.clone().filter(|done| {
                done.iter().all(|(_, position)| usize::try_from(*position).unwrap() <= model.shown)
            });
            let known = self.store.resolve(id(set.number)).unwrap().map(|appended| places(&appended));
            assert_eq!(known, shown, "set {}", set.number);
        }
    }

    /// Checks what must hold at the end: the whole log, reopened.
    pub(crate) fn finish(mut self, model: &Model) {
        self.reopen(model.poisoned);
        let whole = Model { shown: model.events.len(), poisoned: false, ..model.clone() };
        self.check(&whole);
        self.read_all(&whole, 0, usize::MAX);
        assert_eq!(taskreel_log::testing::conformance::check_log(self.store.as_ref()), whole.shown as u64);
    }

    fn plan(&self, fault: Option<AppendFault>) {
        if let Some(fault) = fault {
            self.faults.at_next_append(fault);
        }
    }

    fn author(&self, set: u64) -> Author {
        Author::new(self.store.fence()).with_sets_from(set)
    }

    /// Teaches the author the last record of a stream that ends at or before a version.
    fn learn(&self, author: &mut Author, stream: u8, end: u64) {
        let records = self.store.read_stream(&name(stream), Version(1), usize::MAX).unwrap();
        let last = records.iter().rfind(|stored| stored.record.last_version().0 <= end);
        if let Some(last) = last {
            author.learn(last);
        }
    }

    fn encode(&self, set: &Set, belief: Belief) -> Append {
        let fence = self.store.fence();
        let mut author = self.author(set.number);
        let mut parts = set.parts.iter().zip(&set.before).peekable();
        while let Some((part, before)) = parts.next() {
            let wrong = parts.peek().is_none();
            match belief {
                Belief::Behind if wrong => self.learn(&mut author, part.stream, before - 1),
                _ => self.learn(&mut author, part.stream, *before),
            }
            if wrong && belief == Belief::Ahead {
                author.append_one(&name(part.stream), b"not sent");
                author = author.with_sets_from(set.number);
            }
        }
        if belief == Belief::OldFence {
            author = author.with_fence(Fence { epoch: fence.epoch - 1, ..fence });
        }
        author.many(&content(&set.parts))
    }

    /// Encodes appends that each continue after the one before.
    fn encode_group(&self, sets: &[Set]) -> Vec<Append> {
        let Some(first) = sets.first() else { return Vec::new() };
        let mut author = self.author(first.number);
        (0..STREAMS).for_each(|stream| self.learn(&mut author, stream, u64::MAX));
        sets.iter().map(|set| author.many(&content(&set.parts))).collect()
    }

    fn send(&mut self, appends: Vec<Append>, after: &Model) {
        let sent: Vec<_> = appends.into_iter().map(|append| self.store.append(append)).collect();
        let answers = self.runtime.block_on(join_all(sent));
        let answers: Vec<Answer> = answers.iter().map(answer).collect();
        assert_eq!(answers, after.answers);
    }

    fn read_all(&self, model: &Model, from: u64, limit: usize) {
        let wanted = model.rows().into_iter().filter(|row| row.last_position() >= from).take(limit);
        let read = self.store.read_all(Position(from), limit).unwrap();
        assert_eq!(read.iter().map(row).collect::<Vec<_>>(), wanted.map(readable).collect::<Vec<_>>());
    }

    fn read_stream(&self, model: &Model, stream: u8, from: u64, limit: usize) {
        let rows = model.rows().into_iter().filter(|row| row.stream == stream);
        let wanted = rows.filter(|row| row.last_version() >= from).take(limit);
        let read = self.store.read_stream(&name(stream), Version(from), limit).unwrap();
        assert_eq!(read.iter().map(row).collect::<Vec<_>>(), wanted.map(readable).collect::<Vec<_>>());
    }

    fn list(&self, model: &Model, prefix: &str, after: Option<u8>, limit: usize) {
        let after = after.map(name);
        let wanted = model.streams().into_iter().filter(|stream| name(*stream).as_str().starts_with(prefix));
        let wanted = wanted.filter(|stream| after.as_ref().is_none_or(|after| name(*stream) > *after));
        let wanted: Vec<_> = wanted.take(limit).map(|stream| (name(stream), model.version(stream))).collect();
        let listed = self.store.list_streams(prefix, after.as_ref(), limit).unwrap();
        let listed: Vec<_> = listed.into_iter().map(|info| (info.stream, info.version.0)).collect();
        assert_eq!(listed, wanted);
    }

    /// Checks that a faulty read reports an error, and that the next read is right again.
    fn spoil(&self, model: &Model, bit: Option<usize>) {
        self.faults.at_next_read(bit.map_or(ReadFault::Refuse, |bit| ReadFault::FlipBit { bit }));
        match (self.store.read_all(Position(1), usize::MAX), bit) {
            (Err(ReadError::Io(_)), None) | (Err(ReadError::Corrupt { .. }), Some(_)) => {}
            (Ok(empty), Some(_)) if model.shown == 0 => assert!(empty.is_empty()),
            (other, _) => panic!("a spoilt reading was not noticed: {other:?}"),
        }
        self.read_all(model, 0, usize::MAX);
    }

    fn reopen(&mut self, poisoned: bool) {
        assert_eq!(self.store.close().is_err(), poisoned);
        self.store = self.store.reopen().unwrap();
    }
}

fn content(parts: &[Part]) -> Vec<(StreamId, Vec<Vec<u8>>)> {
    parts.iter().map(|part| (name(part.stream), part.bodies.iter().copied().map(bytes).collect())).collect()
}

fn places(appended: &Appended) -> Vec<(u64, u64)> {
    appended.parts.iter().map(|part| (part.version.0, part.position.0)).collect()
}

fn answer(answer: &Result<Appended, AppendError>) -> Answer {
    match answer {
        Ok(appended) => Answer::Done(places(appended)),
        Err(AppendError::Conflict { stream, actual, .. }) => Answer::Conflict(number(stream), actual.0),
        Err(AppendError::Fenced { .. }) => Answer::Fenced,
        Err(AppendError::Invalid { .. }) => Answer::Invalid,
        Err(AppendError::Ambiguous { .. }) => Answer::Ambiguous,
        Err(AppendError::NotWritten { .. }) => Answer::NotWritten,
        Err(AppendError::Poisoned { .. }) => Answer::Poisoned,
        Err(other) => panic!("unexpected: {other}"),
    }
}
