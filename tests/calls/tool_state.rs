//! The state that tools keep between calls: written with the call's success in one append or not at all,
//! visible to the next call, to the embedding program and to an auditor of its log.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto_events::call::{CallEvent, CallStatus, FailureClass};
use proto_events::codec::record::EventBody;
use proto_events::codec::{AnyEvent, Storable as _};
use proto_events::id::{ExpectedVersion, Position, StreamId};
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::task::TaskEvent;
use proto_events::tool_store::ToolStoreEvent;
use serde::Deserialize;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy, Version};
use taskreel::{JsonSchema, Part, System, TaskSnapshot, TaskState};
use taskreel_log::api::{Append, AppendPart, EventReader, EventStore};
use taskreel_log::audit::{FindingKind, Scope, replay_all, verify, verify_within};
use taskreel_log::memory::MemoryStore;
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::draft;
use taskreel_log::testing::{AppendFault, Faults, FaultyStore};
use taskreel_log::views::{EventRow, event_rows};
use tokio::sync::{Barrier, Notify};

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// Name of the counter.
    key: String,
    /// Behaviour of the call after it has counted.
    #[serde(default)]
    then: String,
}

/// A tool that counts in its own state.
async fn count(cx: ToolContext, ask: Count) -> Result<u64, ToolError> {
    let before = cx.state().get(&ask.key);
    let version = before.as_ref().map(|entry| entry.version).unwrap_or_default();
    let n = before.map_or(0, |entry| entry.value.read().unwrap_or(0)) + 1;
    cx.state().put(&ask.key, &n, version)?;
    match ask.then.as_str() {
        "fail" => Err(ToolError::failed("no")),
        "panic" => panic!("oh no"),
        "forget" => cx.state().delete(&ask.key, version).map(|()| n),
        _ => Ok(n),
    }
}

fn counting(then: &str) -> Part {
    Part::tool_call("count", json!({"key": "k", "then": then})).unwrap()
}

async fn call(system: &System, part: Part) -> TaskSnapshot {
    system.submit(part).await.unwrap().finished().await.unwrap()
}

/// Returns all events of the log.
fn rows(reader: &dyn EventReader) -> Vec<EventRow> {
    reader.read_all(Position(1), usize::MAX).unwrap().iter().flat_map(event_rows).collect()
}

/// Returns the events of tools' states.
fn written(reader: &dyn EventReader) -> Vec<EventRow> {
    let of_tools = |row: &EventRow| matches!(row.event, Ok(AnyEvent::Tool(_)));
    rows(reader).into_iter().filter(of_tools).collect()
}

fn assert_sound(reader: &dyn EventReader) {
    let verified = verify(reader);
    assert!(verified.is_sound(), "{:?}", verified.findings);
    let replayed = replay_all(reader).unwrap();
    assert_eq!((replayed.mismatch, replayed.tools), (None, 1));
}

#[tokio::test]
async fn what_a_call_writes_is_in_one_append_with_its_success_and_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = || System::builder(dir.path()).tool("count", "Counts", count).start();
    let system = start().await.unwrap();
    for n in ["1", "2"] {
        assert_eq!(
            call(&system, counting("")).await.answer().unwrap().read::<Output>().unwrap().result.as_str(),
            n
        );
    }
    system.shutdown().await.unwrap();

    let system = start().await.unwrap();
    let kept = system.tool_state("count").await.unwrap();
    assert_eq!((kept.get("k").unwrap().value.as_str(), kept.version_of("k")), ("2", Version(2)));
    let done = call(&system, counting("")).await;
    assert_eq!(done.answer().unwrap().read::<Output>().unwrap().result.as_str(), "3");

    let log = system.log();
    let all = rows(log.as_ref());
    let writes = written(log.as_ref());
    assert_eq!(writes.len(), 3);
    for write in writes {
        assert_eq!(write.stream.as_str(), "tool-agent/count");
        let Ok(AnyEvent::Tool(ToolStoreEvent::KeyPut { task, call_id, .. })) = &write.event else { panic!() };
        let success = all.iter().find(|row| {
            row.stream.as_str() == task
                && matches!(&row.event, Ok(AnyEvent::Task(TaskEvent::Call(CallEvent::Succeeded { call_id: id, .. })))
                    if id == call_id)
        });
        assert_eq!(success.unwrap().set_id, write.set_id, "one append");
    }
    assert_sound(log.as_ref());
    system.shutdown().await.unwrap();
}

#[derive(Deserialize)]
struct Output {
    result: JsonText,
}

#[tokio::test]
async fn a_call_that_fails_or_panics_writes_nothing_and_neither_does_one_that_changes_its_mind() {
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .tool("count", "Counts", count)
        .start()
        .await
        .unwrap();
    for then in ["fail", "panic", "forget"] {
        call(&system, counting(then)).await;
    }
    assert!(written(system.log().as_ref()).is_empty());
    assert!(system.tool_state("count").await.unwrap().is_empty());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn of_two_calls_that_read_the_same_one_fails_with_a_state_conflict() {
    let both_read = Arc::new(Barrier::new(2));
    let tool = move |cx: ToolContext, ask: Count| {
        let both_read = Arc::clone(&both_read);
        async move {
            let version = cx.state().get(&ask.key).map(|entry| entry.version).unwrap_or_default();
            both_read.wait().await;
            // Neither sees the other's write, which goes into the log with its success.
            cx.state().put(&ask.key, "mine", version)?;
            both_read.wait().await;
            Ok::<_, ToolError>(())
        }
    };
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let system = System::builder("-").store(store).tool("count", "Claims", tool).start().await.unwrap();
    let (one, other) = tokio::join!(call(&system, counting("")), call(&system, counting("")));
    let mut states = [one.state(), other.state()];
    states.sort_by_key(|state| state.as_str());
    assert_eq!(states, [TaskState::Completed, TaskState::Failed]);
    let lost = if one.state() == TaskState::Failed { one } else { other };
    let CallStatus::Failed(failure) = &lost.task().calls().iter().next().unwrap().status else { panic!() };
    assert_eq!((failure.class, failure.error_type.as_str()), (FailureClass::AfterEffect, "StateConflict"));
    assert_eq!(failure.message, "the key `k` has version 1, not 0: another call changed it");
    assert_eq!(written(system.log().as_ref()).len(), 1);
    assert_sound(system.log().as_ref());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_version_that_is_stale_already_is_told_while_the_call_still_runs() {
    let (read, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (has_read, may_go_on) = (Arc::clone(&read), Arc::clone(&go_on));
    let tool = move |cx: ToolContext, ask: Count| {
        let (read, go_on) = (Arc::clone(&read), Arc::clone(&go_on));
        async move {
            let version = cx.state().get(&ask.key).map(|entry| entry.version).unwrap_or_default();
            if ask.then == "wait" {
                read.notify_one();
                go_on.notified().await;
            }
            match cx.state().put(&ask.key, "mine", version) {
                Err(error) => Ok::<_, ToolError>(format!("{}, and I go on", error.type_name())),
                Ok(()) => Ok("written".to_owned()),
            }
        }
    };
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .tool("count", "Claims", tool)
        .start()
        .await
        .unwrap();
    let slow = system.submit(counting("wait")).await.unwrap();
    has_read.notified().await;
    assert_eq!(call(&system, counting("")).await.state(), TaskState::Completed);
    may_go_on.notify_one();
    let slow = slow.finished().await.unwrap();
    assert_eq!(slow.state(), TaskState::Completed, "the tool decides what a conflict means for it");
    assert!(slow.answer().unwrap().as_str().contains("StateConflict, and I go on"));
    assert_eq!(written(system.log().as_ref()).len(), 1);
    system.shutdown().await.unwrap();
}

/// Checks a fault in the outcome's append: it is lost, or it lands with an unknown result.
#[tokio::test]
async fn after_a_failed_append_state_and_success_are_both_there_or_both_not() {
    for (fault, landed) in [(AppendFault::AfterWrite, true), (AppendFault::TearGroup { landing: 0 }, false)] {
        let dir = tempfile::tempdir().unwrap();
        let faults = Faults::none();
        let sled = Arc::new(SledStore::open(dir.path()).unwrap());
        let store: Arc<dyn EventStore> = Arc::new(FaultyStore::new(sled, faults.clone()));
        let runs = Arc::new(AtomicUsize::new(0));
        let (times, at_outcome) = (Arc::clone(&runs), faults);
        let tool = move |cx: ToolContext, ask: Count| {
            if times.fetch_add(1, Ordering::SeqCst) == 0 {
                at_outcome.at_next_append(fault);
            }
            count(cx, ask)
        };
        let policy = ToolPolicy::idempotent();
        let system = System::builder("-")
            .store(store)
            .tool_with("count", "Counts", tool, policy)
            .start()
            .await
            .unwrap();
        let task = system.submit(counting("")).await.unwrap();
        task.finished().await.unwrap_err();
        assert!(system.tool_state("count").await.unwrap().is_empty(), "nobody is shown what may be lost");

        system.reopen().await.unwrap();
        let done = task.finished().await.unwrap();
        assert_eq!(done.state(), TaskState::Completed);
        assert_eq!(runs.load(Ordering::SeqCst), if landed { 1 } else { 2 });
        assert_eq!(written(system.log().as_ref()).len(), 1, "only the attempt that closed the call wrote");
        let kept = system.tool_state("count").await.unwrap();
        assert_eq!(kept.get("k").unwrap().value.as_str(), "1");
        let done = call(&system, counting("")).await;
        assert_eq!(done.answer().unwrap().read::<Output>().unwrap().result.as_str(), "2");
        assert_sound(system.log().as_ref());
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn what_a_canceled_call_wrote_is_not_kept() {
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (has_started, may_go_on) = (Arc::clone(&started), Arc::clone(&go_on));
    let tool = move |cx: ToolContext, ask: Count| {
        let (started, go_on) = (Arc::clone(&started), Arc::clone(&go_on));
        async move {
            cx.state().put(&ask.key, "mine", Version(0))?;
            started.notify_one();
            go_on.notified().await;
            Ok::<_, ToolError>(())
        }
    };
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .tool("count", "Claims", tool)
        .start()
        .await
        .unwrap();
    let task = system.submit(counting("")).await.unwrap();
    has_started.notified().await;
    task.cancel(None).await.unwrap();
    may_go_on.notify_one();
    let log = system.log();
    let is_late = |row: &EventRow| {
        matches!(&row.event, Ok(AnyEvent::Task(TaskEvent::Call(CallEvent::LateResultIgnored { .. }))))
    };
    while !rows(log.as_ref()).iter().any(is_late) {
        tokio::task::yield_now().await;
    }
    assert!(written(log.as_ref()).is_empty());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_success_that_comes_after_the_attempts_time_writes_nothing() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&attempts);
    let slow = move |cx: ToolContext, ask: Count| {
        let first = seen.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if first {
                cx.state().put(&ask.key, &1, Version(0))?;
                cx.cancellation().canceled().await;
                return Ok(1);
            }
            Err(ToolError::failed("not the second time"))
        }
    };
    for policy in [ToolPolicy::idempotent(), ToolPolicy::manual()] {
        attempts.store(0, Ordering::SeqCst);
        let store = Arc::new(MemoryStore::new());
        let policy = policy.timeout(std::time::Duration::from_millis(20));
        let builder = System::builder("-").store(Arc::clone(&store) as _);
        let system = builder.tool_with("count", "Counts", slow.clone(), policy).start().await.unwrap();
        let task = system.submit(counting("")).await.unwrap();
        let end = task.finished().await.unwrap();
        assert_ne!(end.state(), TaskState::Completed, "{}", end.to_json());
        let late = |row: &EventRow| {
            matches!(&row.event, Ok(AnyEvent::Task(TaskEvent::Call(CallEvent::LateResultIgnored { .. }))))
        };
        while !rows(&*store).iter().any(late) {
            tokio::task::yield_now().await;
        }
        assert!(written(&*store).is_empty(), "{:?}", written(&*store));
        assert!(verify(&*store).is_sound(), "{:?}", verify(&*store).findings);
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_large_result_and_large_state_of_one_call_are_stored_outside_their_records_and_read_back() {
    const VALUE: usize = 700_000;
    const RESULT: usize = 5_000_000;
    let tool = |cx: ToolContext, _: Count| async move {
        for n in 0..8 {
            cx.state().put(&format!("part/{n}"), &"s".repeat(VALUE), Version(0))?;
        }
        Ok::<_, ToolError>("r".repeat(RESULT))
    };
    let dir = tempfile::tempdir().unwrap();
    let start = || System::builder(dir.path()).tool("count", "Makes much", tool).start();
    let system = start().await.unwrap();
    let done = call(&system, counting("")).await;
    assert_eq!(done.state(), TaskState::Completed, "{:?}", done.task().error());
    system.shutdown().await.unwrap();

    let system = start().await.unwrap();
    let again = system.task(done.task().id()).unwrap().snapshot().await.unwrap();
    let CallStatus::Succeeded(result) = &again.task().calls().iter().next().unwrap().status else { panic!() };
    assert_eq!(result.to_str().unwrap(), "r".repeat(RESULT));
    assert_eq!(again.answer().unwrap().read::<Output>().unwrap().result.as_str().len(), RESULT + 2);
    let kept = system.tool_state("count").await.unwrap();
    assert_eq!(kept.list("part/").count(), 8);
    assert!(kept.list("part/").all(|(_, entry)| entry.value.to_str().unwrap() == "s".repeat(VALUE)));
    let chunked = system.log().read_all(Position(1), usize::MAX).unwrap();
    let outside = chunked.iter().filter(|stored| stored.bytes.len() < 60 * 1024).count();
    assert_eq!(outside, chunked.len(), "no record is larger than a value of the log");
    assert_sound(system.log().as_ref());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn verify_names_a_write_that_no_call_made_and_a_key_that_went_twice() {
    let store = MemoryStore::new();
    let (task, call_id, key) = (|| "task-agent/t".to_owned(), || "c".to_owned(), || "k".to_owned());
    let deleted = || ToolStoreEvent::KeyDeleted { task: task(), call_id: call_id(), key: key() };
    let put =
        ToolStoreEvent::KeyPut { task: task(), call_id: call_id(), key: key(), value: JsonText::null() };
    let mut record = draft("tool-agent/count", 1, b"");
    let body = |event: ToolStoreEvent| {
        let payload = event.encode().unwrap();
        EventBody { kind: payload.kind, schema: payload.schema, salt: [3; 16], body: payload.body }
    };
    record.events = [put, deleted(), deleted()].map(body).into();
    let fence = store.fence();
    (record.epoch, record.partition) = (fence.epoch, fence.partition);
    let (set_id, stream, expected) = (record.set_id, record.stream.clone(), ExpectedVersion::NoStream);
    let parts = vec![AppendPart { stream, expected, record: record.encode().unwrap() }];
    store.append(Append { fence, set_id, parts }).await.unwrap();

    let verified = verify(&store);
    let found: Vec<_> =
        verified.findings.iter().map(|found| (found.kind, found.version.unwrap().0)).collect();
    let state = FindingKind::State;
    let twice = [(state, 2), (state, 3)];
    let by_nobody = [(state, 1), (state, 2), (state, 3)];
    assert_eq!(found, [&twice[..], &by_nobody].concat(), "{:?}", verified.findings);
    let stream = StreamId::tool("agent", "count").unwrap();
    let one = verify_within(&store, &Scope { only: Some(&stream), ..Scope::default() }, &mut |_| {});
    assert_eq!(one.findings.len(), 2, "of one stream nobody can say who wrote it");
}
