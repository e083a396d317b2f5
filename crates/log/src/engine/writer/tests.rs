//! Tests of the writer's replies when the disk fails.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::join_all;

use super::*;
use crate::api::error::ReadError;
use crate::api::record::Fence;
use crate::engine::blocks::{BlockBuilder, Watermark};
use crate::engine::head::Frontier;
use crate::engine::index::Index;
use crate::engine::located_records;
use crate::engine::values::Values;
use crate::engine::writer::shared::AppendReply;
use crate::sync::{Semaphore, oneshot};
use crate::testing::conformance::sketch::{Author, ok, stream};

/// A sink in memory that fails on demand.
#[derive(Default)]
struct FailingSink {
    values: BTreeMap<u64, Vec<u8>>,
    chunks: BTreeMap<u64, Vec<u8>>,
    fail_put_at: Option<u64>,
    fail_sync: bool,
    panic: bool,
}

impl Values for FailingSink {
    type Bytes = Vec<u8>;

    fn get(&self, ordinal: u64) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(self.values.get(&ordinal).cloned())
    }

    fn get_chunk(&self, ordinal: u64) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(self.chunks.get(&ordinal).cloned())
    }
}

impl Sink for FailingSink {
    fn insert(&mut self, ordinal: u64, value: &[u8]) -> Result<(), String> {
        assert!(!self.panic, "the sink panics as asked");
        if self.fail_put_at == Some(ordinal) {
            return Err("no space".into());
        }
        self.values.insert(ordinal, value.to_vec());
        Ok(())
    }

    fn put_chunk(&mut self, ordinal: u64, value: &[u8]) -> Result<(), String> {
        self.chunks.insert(ordinal, value.to_vec());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        if self.fail_sync { Err("the disk is gone".into()) } else { Ok(()) }
    }

    fn put_block(&mut self, _: u64, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn put_watermark(&mut self, _: &Watermark) -> Result<(), String> {
        Ok(())
    }

    fn write_head(&mut self, _: &Head) -> Result<(), String> {
        Ok(())
    }
}

fn tail() -> WriterTail {
    WriterTail { frontier: Frontier::default(), next_chunk: 0, blocks: BlockBuilder::from_zero(0) }
}

const FENCE: Fence = Fence { partition: 0, epoch: 1 };

type Answers = Vec<Result<Appended, AppendError>>;

/// Puts these appends into one group, closes, and returns the replies to their callers.
fn group(sink: FailingSink, appends: Vec<Append>) -> (Answers, Arc<Shared>) {
    let shared = Arc::new(Shared::new(FENCE, Index::default()));
    let (queue, jobs) = mpsc::channel(100);
    let answers: Vec<_> = appends
        .into_iter()
        .map(|append| {
            let (reply, answer) = oneshot::channel();
            queue.try_send(Job { append, reply: AppendReply::Caller(reply) }).unwrap();
            answer
        })
        .collect();
    drop(queue);
    let writer_shared = Arc::clone(&shared);
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(LogWriter::new(sink, writer_shared, tail()).run(jobs))
    };
    let _ = std::thread::spawn(work).join();
    let lost = || AppendError::Ambiguous { why: "no answer".into() };
    let answers = answers.into_iter().map(|answer| answer.blocking_recv().unwrap_or_else(|_| Err(lost())));
    (answers.collect(), shared)
}

fn appends(count: usize, body: usize) -> Vec<Append> {
    let mut author = Author::new(FENCE);
    (0..count).map(|_| author.append_one(&stream("a"), &vec![1; body])).collect()
}

#[test]
fn after_a_failed_sync_the_group_is_ambiguous_and_nothing_of_it_is_shown() {
    let sink = FailingSink { fail_sync: true, ..FailingSink::default() };
    let mut asked = appends(3, 10);
    asked.push(Author::new(FENCE).with_sets_from(50).append_one(&stream("a"), b"conflicts with the group"));
    let (answers, shared) = group(sink, asked);
    let (last, written) = answers.split_last().unwrap();
    assert!(written.iter().all(|answer| matches!(answer, Err(AppendError::Ambiguous { .. }))));
    assert!(
        matches!(last, Err(AppendError::Poisoned { .. })),
        "its conflict depends on records that may not be in the log"
    );
    assert_eq!(shared.index.read().unwrap().head().0, 0);
    assert_eq!(shared.refusal(), AppendError::Poisoned { why: "the disk is gone".into() });
}

#[test]
fn of_two_appends_at_one_version_in_one_group_the_second_is_a_conflict() {
    let first = Author::new(FENCE).append_one(&stream("a"), b"first");
    let second = Author::new(FENCE).with_sets_from(50).append_one(&stream("a"), b"second");
    let (answers, shared) = group(FailingSink::default(), vec![first, second]);
    match &answers[..] {
        [Ok(_), Err(AppendError::Conflict { actual, .. })] => assert_eq!(actual.0, 1),
        other => panic!("{other:?}"),
    }
    assert_eq!(shared.index.read().unwrap().head().0, 1);
}

#[test]
fn after_a_failed_value_later_appends_are_known_not_to_be_written() {
    let sink = FailingSink { fail_put_at: Some(1), ..FailingSink::default() };
    // Two of them fit a value: the third and fourth are in the value that fails.
    let (answers, shared) = group(sink, appends(6, 25_000));
    let kinds: Vec<&str> = answers
        .iter()
        .map(|answer| match answer {
            Err(AppendError::Ambiguous { .. }) => "ambiguous",
            Err(AppendError::NotWritten { .. }) => "not written",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["ambiguous", "ambiguous", "ambiguous", "ambiguous", "not written", "not written"]);
    assert!(shared.poisoned.get().is_some());
}

#[test]
fn what_waits_behind_a_failed_group_is_refused_as_poisoned() {
    let sink = FailingSink { fail_sync: true, ..FailingSink::default() };
    let shared = Arc::new(Shared::new(FENCE, Index::default()));
    let (queue, jobs) = mpsc::channel(4_096);
    let mut author = Author::new(FENCE);
    let answers: Vec<_> = (0..GROUP_APPENDS + 5)
        .map(|_| {
            let (reply, answer) = oneshot::channel();
            let append = author.append_one(&stream("a"), b"x");
            queue.try_send(Job { append, reply: AppendReply::Caller(reply) }).unwrap();
            answer
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    ok(runtime.block_on(LogWriter::new(sink, shared, tail()).run(jobs)));
    let answers: Answers = answers.into_iter().map(|answer| answer.blocking_recv().unwrap()).collect();
    let (group, rest) = answers.split_at(GROUP_APPENDS);
    assert!(group.iter().all(|answer| matches!(answer, Err(AppendError::Ambiguous { .. }))));
    assert!(rest.len() == 5 && rest.iter().all(|answer| matches!(answer, Err(AppendError::Poisoned { .. }))));
    let (reply, _answer) = oneshot::channel();
    let late = Job { append: author.append_one(&stream("a"), b"late"), reply: AppendReply::Caller(reply) };
    assert!(queue.try_send(late).is_err(), "the queue is closed");
}

/// Returns what writer and callers share where the queue has room for one append.
fn with_room_for_one() -> Arc<Shared> {
    Arc::new(Shared { room: Semaphore::new(1), ..Shared::new(FENCE, Index::default()) })
}

fn block_on<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

/// Runs the writer on a thread. What it returns is received from the channel; nothing is if it panics.
fn run_apart(
    sink: FailingSink,
    shared: &Arc<Shared>,
    jobs: mpsc::Receiver<Job>,
) -> std::sync::mpsc::Receiver<Result<(), String>> {
    let shared = Arc::clone(shared);
    let (end, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || end.send(block_on(LogWriter::new(sink, shared, tail()).run(jobs))));
    ended
}

#[test]
fn appends_that_wait_for_room_are_written_in_their_order() {
    let (queue, jobs) = mpsc::channel(1);
    let shared = with_room_for_one();
    let asked: Vec<_> = appends(9, 10).into_iter().map(|append| ask(&shared, &queue, append)).collect();
    drop(queue);
    let ended = run_apart(FailingSink::default(), &shared, jobs);
    let answers = block_on(join_all(asked));
    assert!(answers.iter().all(Result::is_ok), "each follows the one before: {answers:?}");
    assert_eq!(ended.recv_timeout(Duration::from_secs(5)), Ok(Ok(())));
}

#[test]
fn an_append_that_nobody_polls_does_not_keep_the_writer_from_its_end() {
    for fail_sync in [false, true] {
        let (queue, jobs) = mpsc::channel(1);
        let shared = with_room_for_one();
        let mut asked = appends(4, 10).into_iter().map(|append| ask(&shared, &queue, append));
        let (first, mut second, mut third) =
            (asked.next().unwrap(), asked.next().unwrap(), asked.next().unwrap());
        let mut nobody = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut nobody).is_pending(), "there is room for one");
        assert!(third.as_mut().poll(&mut nobody).is_pending());
        let ended = run_apart(FailingSink { fail_sync, ..FailingSink::default() }, &shared, jobs);
        assert_eq!(block_on(first).is_err(), fail_sync);
        shared.closing.notify_one();
        assert_eq!(ended.recv_timeout(Duration::from_secs(5)), Ok(Ok(())), "a failed sync: {fail_sync}");
        // The room that the second was given is of no use to it any more.
        for waiting in [&mut second, &mut third] {
            assert_eq!(waiting.as_mut().poll(&mut nobody), Poll::Ready(Err(shared.refusal())));
        }
        assert_eq!(block_on(asked.next().unwrap()), Err(shared.refusal()));
    }
}

#[test]
fn whoever_waits_for_room_is_refused_when_the_writer_panics() {
    let (queue, jobs) = mpsc::channel(1);
    let shared = with_room_for_one();
    let mut asked: Vec<_> = appends(3, 10).into_iter().map(|append| ask(&shared, &queue, append)).collect();
    let mut nobody = Context::from_waker(Waker::noop());
    assert!(asked.iter_mut().all(|append| append.as_mut().poll(&mut nobody).is_pending()));
    let ended = run_apart(FailingSink { panic: true, ..FailingSink::default() }, &shared, jobs);
    ended.recv_timeout(Duration::from_secs(5)).unwrap_err();
    // The first of those who wait was given the room of the append that was taken, and the last has none.
    let last = asked.last_mut().unwrap().as_mut().poll(&mut nobody);
    assert!(matches!(last, Poll::Ready(Err(AppendError::Poisoned { .. }))));
}

#[test]
fn a_panic_in_the_writer_poisons_the_store() {
    let sink = FailingSink { panic: true, ..FailingSink::default() };
    let (answers, shared) = group(sink, appends(1, 10));
    assert!(matches!(answers.first(), Some(Err(AppendError::Ambiguous { .. }))));
    assert!(matches!(shared.refusal(), AppendError::Poisoned { .. }));
}

#[test]
fn a_group_fills_values_and_never_splits_a_record() {
    let mut builder = ValueBuilder::new();
    let mut sink = FailingSink::default();
    let shared = Shared::new(FENCE, Index::default());
    let mut group = AppendGroup::after(&shared);
    for append in appends(40, 9_000) {
        assert!(matches!(group.admit(append, &sink), Admission::Admitted(_)));
    }
    group.write(&mut builder, &mut 0, &mut sink).unwrap();
    assert_eq!(sink.values.len(), 7, "six of them fit a value");
    assert!(sink.values.values().all(|value| value.len() <= crate::limits::GROUP_VALUE_BYTES));
    let read = located_records::read_from(
        &sink,
        proto_events::id::Position(1),
        (0, 7),
        7,
        crate::api::page::Page::with_limit(100),
    )
    .unwrap();
    assert_eq!(read, group.published().map(|record| (**record.stored()).clone()).collect::<Vec<_>>());
}
