//! The system as an embedder uses it: over memory and over sled, through tools, models, crashes and cancels.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto_events::call::{CallCommand, CallStatus};
use proto_events::id::{Position, Version};
use proto_events::task::TaskCommand;
use serde::Deserialize;
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{ToolContext, ToolPolicy};
use taskreel::{Error, JsonSchema, Part, System, TaskState};
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::Delivery;

#[derive(Deserialize, JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

async fn add(sum: Sum) -> Result<i64, Infallible> {
    Ok(sum.a + sum.b)
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn forever(cx: ToolContext, _: Nothing) -> Result<(), Infallible> {
    cx.cancellation().canceled().await;
    Ok(())
}

fn script(entries: &[&str]) -> Scripted {
    Scripted::new(entries.iter().map(|text| Entry::Text((*text).to_owned())).collect::<Vec<_>>())
}

const ADD_THEN_FINAL: [&str; 2] =
    [r#"{"type":"tool_call","tool":"add","args":{"a":2,"b":3}}"#, r#"{"type":"final","content":"five"}"#];

#[tokio::test]
async fn a_tool_part_runs_and_its_output_is_an_artifact() {
    let system = System::builder("unused")
        .store(Arc::new(MemoryStore::new()))
        .tool("add", "Adds", add)
        .start()
        .await
        .unwrap();
    let part = Part::tool_call("add", proto_events::json!({"a": 2, "b": 3})).unwrap();
    let task = system.submit(part).await.unwrap();
    let done = task.finished().await.unwrap();
    assert_eq!(done.state(), TaskState::Completed);
    assert_eq!(done.task().artifacts().len(), 1);
    assert_eq!(
        done.version(),
        Version(8),
        "submitted, context, working, intent, dispatch, outcome, output, completed"
    );
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_conversation_remembers_its_turns_on_sled_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = |replies: &'static [&'static str]| {
        System::builder(dir.path()).tool("add", "Adds", add).infer(script(replies)).start()
    };
    let system = start(&ADD_THEN_FINAL).await.unwrap();
    let done = system.session("s").send(Part::infer("2+3?")).await.unwrap().finished().await.unwrap();
    assert_eq!(done.state(), TaskState::Completed, "{}", done.to_json());
    assert_eq!(done.answer().unwrap().as_str(), "\"five\"");
    system.shutdown().await.unwrap();

    let system = start(&[r#"{"type":"final","content":"again"}"#]).await.unwrap();
    let done = system.session("s").send(Part::infer("and now?")).await.unwrap().finished().await.unwrap();
    assert_eq!(done.state(), TaskState::Completed);
    let history = system.session("s").history().await.unwrap();
    let roles: Vec<_> = history.as_slice().iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "system", "assistant", "user", "assistant"]);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn turns_of_one_session_run_one_after_another() {
    let replies: Vec<Entry> =
        (0..8).map(|_| Entry::Text(r#"{"type":"final","content":"ok"}"#.into())).collect();
    let system = System::builder("unused")
        .store(Arc::new(MemoryStore::new()))
        .infer(Scripted::new(replies))
        .start()
        .await
        .unwrap();
    let session = system.session("s");
    let mut tasks = Vec::new();
    for n in 0..8 {
        tasks.push(session.send(Part::infer(format!("q{n}"))).await.unwrap());
    }
    for task in tasks {
        assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
    }
    let history = session.history().await.unwrap();
    assert_eq!(history.len(), 1 + 16);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn cancel_closes_a_running_manual_call_as_unknown_and_reaches_the_tool() {
    let system = System::builder("unused")
        .store(Arc::new(MemoryStore::new()))
        .tool("forever", "Waits", forever)
        .start()
        .await
        .unwrap();
    let task = system.submit(Part::tool_call("forever", proto_events::json!({})).unwrap()).await.unwrap();
    task.cancel(Some("enough")).await.unwrap();
    let canceled = task.snapshot().await.unwrap();
    assert_eq!(canceled.state(), TaskState::Canceled);
    let call = canceled.task().calls().iter().next().unwrap().clone();
    assert!(matches!(call.status, CallStatus::Unknown(_)), "{:?}", call.status);
    assert_eq!(task.finished().await.unwrap().state(), TaskState::Canceled);
    task.cancel(Some("other reason")).await.unwrap();
    let again = task.snapshot().await.unwrap();
    let reason = again.task().metadata().get("cancel_reason").unwrap();
    assert_eq!(reason.as_str(), "\"enough\"", "the first reason stands");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_manual_call_that_takes_too_long_is_unknown_and_asks_for_a_person() {
    let policy = ToolPolicy::manual().timeout(std::time::Duration::from_millis(20));
    let system = System::builder("unused")
        .store(Arc::new(MemoryStore::new()))
        .tool_with("forever", "Waits", forever, policy)
        .start()
        .await
        .unwrap();
    let task = system.submit(Part::tool_call("forever", proto_events::json!({})).unwrap()).await.unwrap();
    let waiting = task.finished().await.unwrap();
    assert_eq!(waiting.state(), TaskState::InputRequired);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_read_only_call_that_takes_too_long_is_tried_again_and_then_fails() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&tries);
    let slow = move |cx: ToolContext, _: Nothing| {
        let counter = Arc::clone(&counter);
        async move {
            counter.fetch_add(1, Ordering::SeqCst);
            cx.cancellation().canceled().await;
            Ok::<_, Infallible>(())
        }
    };
    let policy = ToolPolicy::read_only().timeout(std::time::Duration::from_millis(10));
    let system = System::builder("unused")
        .store(Arc::new(MemoryStore::new()))
        .tool_with("slow", "Waits", slow, policy)
        .start()
        .await
        .unwrap();
    let task = system.submit(Part::tool_call("slow", proto_events::json!({})).unwrap()).await.unwrap();
    let failed = task.finished().await.unwrap();
    assert_eq!(failed.state(), TaskState::Failed);
    assert_eq!(tries.load(Ordering::SeqCst), 4);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_panicking_tool_is_a_failure_and_the_system_goes_on() {
    async fn broken(_: Nothing) -> Result<(), Infallible> {
        panic!("oh no")
    }
    let system = System::builder("unused")
        .store(Arc::new(MemoryStore::new()))
        .tool("broken", "Panics", broken)
        .tool("add", "Adds", add)
        .start()
        .await
        .unwrap();
    let task = system.submit(Part::tool_call("broken", proto_events::json!({})).unwrap()).await.unwrap();
    let failed = task.finished().await.unwrap();
    assert_eq!(failed.state(), TaskState::Failed);
    assert!(failed.task().error().unwrap().contains("oh no"));
    let part = Part::tool_call("add", proto_events::json!({"a": 1, "b": 1})).unwrap();
    assert_eq!(system.submit(part).await.unwrap().finished().await.unwrap().state(), TaskState::Completed);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_same_command_id_gets_the_first_answer_and_another_body_is_a_clash() {
    let system = System::builder("unused")
        .store(Arc::new(MemoryStore::new()))
        .tool("add", "Adds", add)
        .start()
        .await
        .unwrap();
    let post = |text: &str| {
        proto_events::model::PostedTask::parse(text, &mut taskreel_log::ports::Ports::default()).unwrap()
    };
    let first = post(r#"{"id":"t1","created_at":"x","messages":[]}"#);
    let task = system.submit_once("c1", first.clone()).await.unwrap();
    let version = task.finished().await.unwrap().version();
    system.submit_once("c1", first).await.unwrap();
    assert_eq!(task.snapshot().await.unwrap().version(), version);
    let other = post(r#"{"id":"t1","created_at":"y","messages":[]}"#);
    assert!(matches!(system.submit_once("c1", other).await, Err(Error::CommandIdReused { .. })));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_subscriber_sees_every_event_once_and_a_task_can_be_seen_at_every_version() {
    let system = System::builder("unused")
        .store(Arc::new(MemoryStore::new()))
        .tool("add", "Adds", add)
        .start()
        .await
        .unwrap();
    let mut live = system.subscribe(Position(1));
    let part = Part::tool_call("add", proto_events::json!({"a": 1, "b": 1})).unwrap();
    let task = system.submit(part).await.unwrap();
    let end = task.finished().await.unwrap().version();
    let mut seen = 0;
    while seen < end.0 {
        let Some(Ok(Delivery::Record(record))) = live.next().await else { panic!("the feed ended") };
        assert_eq!(record.position, Position(seen + 1));
        seen = record.last_position().0;
    }
    for version in 1..=end.0 {
        let then = system.state_at(task.id(), Version(version)).await.unwrap();
        assert_eq!(then.version(), Version(version));
    }
    assert!(matches!(system.state_at(task.id(), Version(99)).await, Err(Error::NoSuchVersion { .. })));
    assert!(matches!(system.state_at("nobody", Version(1)).await, Err(Error::TaskNotFound(_))));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_idle_task_is_put_to_sleep_and_wakes_at_its_next_command() {
    let system = System::builder("unused")
        .store(Arc::new(MemoryStore::new()))
        .tool("add", "Adds", add)
        .passivate_after(std::time::Duration::from_millis(5))
        .start()
        .await
        .unwrap();
    let part = Part::tool_call("add", proto_events::json!({"a": 1, "b": 1})).unwrap();
    let task = system.submit(part).await.unwrap();
    let version = task.finished().await.unwrap().version();
    while system.live_tasks().await.unwrap() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(task.snapshot().await.unwrap().version(), version);
    system.shutdown().await.unwrap();
}

#[test]
fn a_system_starts_from_a_current_thread_runtime_and_on_a_runtime_of_its_own() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let system = System::builder("unused")
            .store(Arc::new(MemoryStore::new()))
            .own_runtime(1)
            .tool("add", "Adds", add)
            .start()
            .await
            .unwrap();
        let part = Part::tool_call("add", proto_events::json!({"a": 1, "b": 1})).unwrap();
        let done = system.submit(part).await.unwrap().finished().await.unwrap();
        assert_eq!(done.state(), TaskState::Completed);
        system.shutdown().await.unwrap();
    });
}

#[tokio::test]
async fn after_shutdown_everything_is_refused_in_words() {
    let system = System::builder("unused")
        .store(Arc::new(MemoryStore::new()))
        .tool("add", "Adds", add)
        .start()
        .await
        .unwrap();
    let other = system.clone();
    system.shutdown().await.unwrap();
    let part = Part::tool_call("add", proto_events::json!({"a": 1, "b": 1})).unwrap();
    assert!(matches!(other.submit(part).await, Err(Error::Stopped)));
}

#[tokio::test]
async fn a_caller_cannot_say_what_became_of_a_call() {
    let system = System::builder("unused")
        .store(Arc::new(MemoryStore::new()))
        .tool("forever", "Waits", forever)
        .start()
        .await
        .unwrap();
    let task = system.submit(Part::tool_call("forever", proto_events::json!({})).unwrap()).await.unwrap();
    let call_id =
        task.snapshot().await.unwrap().task().calls().iter().next().unwrap().request.call_id.clone();
    let forged = CallCommand::MarkUnknown { call_id, why: "because".to_owned() };
    assert!(matches!(task.command(TaskCommand::Call(forged)).await, Err(Error::NotForCallers)));
    task.cancel(None).await.unwrap();
    system.shutdown().await.unwrap();
}
