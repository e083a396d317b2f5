//! Regressions: outcomes that cannot be written, runtimes that end midway, shutdowns concurrent with submits,
//! callers that send commands reserved for the system.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use proto_events::call::{CallStatus, TokenUsage};
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::limits::PAYLOAD_BYTES_MAX;
use proto_events::model::{Artifact, PostedTask};
use proto_events::task::{Task, TaskCommand};
use serde::Deserialize;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest, Scripted};
use taskreel::tool::{BoxFuture, ToolContext, ToolError, ToolPolicy};
use taskreel::{Error, JsonSchema, Message, Part, System, TaskState};
use taskreel_log::api::{Append, AppendError, AppendFuture, EventReader as _, EventStore};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::read::fold_stream;
use taskreel_log::sled::SledStore;
use taskreel_log::testing::{DelegatingStore, Overrides};
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn yes() -> Scripted {
    Scripted::from_json(r#"{"":[{"type":"final","content":"yes"}]}"#).unwrap()
}

fn posted(json: &proto_events::json::JsonValue) -> PostedTask {
    PostedTask::parse(&json.to_string(), &mut Ports::default()).unwrap()
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new())
}

/// Fails the test if the work hangs.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("it hangs")
}

/// A tool that signals when it runs, counts its calls, and ends on a signal.
#[derive(Clone, Default)]
struct Gate {
    started: Arc<Notify>,
    go: Arc<Notify>,
    runs: Arc<AtomicU32>,
}

impl Gate {
    fn tool(&self) -> impl Fn(Nothing) -> BoxFuture<'static, Result<(), Infallible>> + Send + Sync + 'static {
        let gate = self.clone();
        move |_| {
            let gate = gate.clone();
            Box::pin(async move {
                gate.runs.fetch_add(1, Ordering::SeqCst);
                gate.started.notify_one();
                gate.go.notified().await;
                Ok(())
            })
        }
    }
}

fn call(tool: &str) -> Part {
    Part::tool_call(tool, json!({})).unwrap()
}

#[tokio::test]
async fn after_a_submit_that_was_too_large_the_same_id_can_be_used() {
    let system = System::builder("-").store(memory()).infer(yes()).start().await.unwrap();
    let task = |text: String| {
        let part = json!({"type": "infer", "content": {"prompt": text}});
        posted(&json!({"id": "t1", "messages": [{"id": "m", "parts": [part]}]}))
    };
    assert!(system.submit(task("x".repeat(PAYLOAD_BYTES_MAX))).await.is_err());
    let small = system.submit(task("small".into())).await.unwrap();
    assert_eq!(soon(small.finished()).await.unwrap().state(), TaskState::Completed);
}

#[tokio::test]
async fn a_task_that_waits_for_a_resumed_turn_gets_it_after_a_cancel() {
    let (store, started) = (memory(), Arc::new(Notify::new()));
    let start = |store: Arc<MemoryStore>| {
        let started = Arc::clone(&started);
        let model = Scripted::from_json(
            r#"{"use":[{"type":"tool_call","tool":"hang","args":{}}],"":[{"type":"final","content":"yes"}]}"#,
        );
        let hang = move |cx: ToolContext, _: Nothing| {
            let started = Arc::clone(&started);
            async move {
                started.notify_one();
                cx.cancellation().canceled().await;
                Ok::<(), Infallible>(())
            }
        };
        let builder = System::builder("-").store(store).infer(model.unwrap());
        builder.tool_with("hang", "Hangs", hang, ToolPolicy::read_only()).start()
    };
    let first = start(store.clone()).await.unwrap();
    let holder = first.session("s").send(Part::infer("use it")).await.unwrap();
    soon(started.notified()).await;
    let second = start(Arc::new(store.reopened().unwrap())).await.unwrap();
    soon(started.notified()).await; // The call was sent again; its task has not asked for the turn.
    let waiter = second.session("s").send(Part::infer("b")).await.unwrap();
    // Each round passes through the mailboxes of session and holder, which also hold the session's question:
    // after these rounds the session has asked whether the holder runs, and has received the answer that it
    // does.
    for _ in 0..50 {
        second.session("s").history().await.unwrap();
        second.task(holder.id()).unwrap().snapshot().await.unwrap();
    }
    second.cancel(holder.id(), None).await.unwrap();
    assert_eq!(soon(waiter.finished()).await.unwrap().state(), TaskState::Completed);
}

#[tokio::test]
async fn an_error_text_that_no_record_holds_is_cut_and_the_task_fails() {
    let bad = |_: Nothing| async { Err::<(), _>(ToolError::failed("é".repeat(60_000))) };
    let model =
        Scripted::from_json(&json!([{"raise": "RuntimeError", "message": "y".repeat(90_000)}]).to_string());
    let builder = System::builder("-").store(memory()).tool("bad", "Bad", bad).infer(model.unwrap());
    let system = builder.start().await.unwrap();
    for part in [call("bad"), Part::infer("a")] {
        let task = system.submit(part).await.unwrap();
        let end = soon(task.finished()).await.unwrap();
        assert_eq!(end.state(), TaskState::Failed);
        assert!(end.task().error().unwrap().contains("bytes in all)"));
    }
}

#[test]
fn a_call_whose_runtime_ends_in_the_middle_is_unknown_and_not_a_failure_before_the_effect() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (calls, main, gate) = (runtime(), runtime(), Gate::default());
    let handle = calls.handle().clone();
    main.block_on(async move {
        let builder = System::builder("-").store(memory()).tool("pay", "Pays", gate.tool());
        let system = builder.calls_on(handle).start().await.unwrap();
        let task = system.submit(call("pay")).await.unwrap();
        soon(gate.started.notified()).await;
        calls.shutdown_background();
        let end = soon(task.finished()).await.unwrap();
        let call = end.task().calls().iter().next().unwrap().clone();
        assert!(matches!(call.status, CallStatus::Unknown(_)), "{:?}", call.status);
        assert_eq!(end.state(), TaskState::InputRequired);
    });
}

#[tokio::test]
async fn a_caller_adds_no_output_and_no_task_under_another_ones_id() {
    let gate = Gate::default();
    let system = System::builder("-").store(memory()).tool("t", "T", gate.tool()).start().await.unwrap();
    let task = system.submit(call("t")).await.unwrap();
    let artifact = Artifact::new(vec![Part::error("x", "not an output", false)], &mut Ports::default());
    let output = TaskCommand::AppendArtifact { artifact: artifact.clone(), part: Some(u32::MAX) };
    assert!(matches!(task.command(output).await, Err(Error::NotForCallers)));
    let other = posted(&json!({"id": "B", "messages": []}));
    assert!(matches!(task.command(TaskCommand::Submit(Box::new(other))).await, Err(Error::NotForCallers)));
    // A caller may add an artifact of its own; it decides nothing.
    task.command(TaskCommand::AppendArtifact { artifact, part: None }).await.unwrap();
    gate.go.notify_one();
    assert_eq!(soon(task.finished()).await.unwrap().state(), TaskState::Completed);
}

#[tokio::test]
async fn an_edge_that_the_lifecycle_lacks_is_refused_with_both_states_and_no_event() {
    let system = System::builder("-").store(memory()).start().await.unwrap();
    let task = system.submit(call("nobody")).await.unwrap();
    let failed = soon(task.finished()).await.unwrap();
    let refused = task.command(TaskCommand::Complete(None)).await.unwrap_err().to_string();
    assert_eq!(refused, "Invalid task state transition: failed -> completed");
    assert_eq!(task.snapshot().await.unwrap().version(), failed.version());
}

/// Appends fail from a given moment on, as on a full disk.
#[derive(Default)]
struct Failing(AtomicBool);

impl Overrides for Failing {
    fn append(&self, log: &dyn EventStore, append: Append) -> AppendFuture {
        if self.0.load(Ordering::SeqCst) {
            let why = "no space left on device".into();
            return Box::pin(std::future::ready(Err(AppendError::Poisoned { why })));
        }
        log.append(append)
    }
}

#[tokio::test]
async fn nobody_waits_for_ever_for_an_outcome_that_could_not_be_written() {
    let gate = Gate::default();
    let store = Arc::new(DelegatingStore::new(memory(), Failing::default()));
    let system = System::builder("-").store(store.clone()).tool("t", "T", gate.tool()).start().await.unwrap();
    let task = system.submit(call("t")).await.unwrap();
    soon(gate.started.notified()).await;
    let early = tokio::spawn({
        let task = task.clone();
        async move { task.finished().await }
    });
    store.overrides().0.store(true, Ordering::SeqCst);
    gate.go.notify_one();
    let told = soon(early).await.unwrap().unwrap_err();
    assert!(told.to_string().contains("no space left"), "{told}");
    let late = soon(task.finished()).await.unwrap_err();
    assert!(matches!(late, Error::Stalled { .. }), "{late}");
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Working, "what is on disk is still shown");
}

#[tokio::test]
async fn the_same_ids_with_another_content_are_a_conflict() {
    let system = System::builder("-").store(memory()).start().await.unwrap();
    for id in [json!("m"), json!(null)] {
        let task = |text: &str| {
            let part = json!({"type": "text", "content": text});
            posted(&json!({"id": format!("t-{id}"), "messages": [{"id": id, "parts": [part]}]}))
        };
        system.submit(task("one")).await.unwrap();
        assert!(system.submit(task("one")).await.is_ok());
        let refused = system.submit(task("two")).await.unwrap_err().to_string();
        assert!(refused.contains("messages[0].parts[0]"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_beside_a_submit_cuts_no_call_that_it_let_start() {
    for round in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        let tool = |_: Nothing| async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok::<(), Infallible>(())
        };
        let system = System::builder(dir.path()).tool("pay", "Pays", tool).start().await.unwrap();
        let other = system.clone();
        let submit = tokio::spawn(async move { other.submit(call("pay")).await.is_ok() });
        for _ in 0..round * 20 {
            tokio::task::yield_now().await;
        }
        system.shutdown().await.unwrap();
        submit.await.unwrap();
        let log = SledStore::open(dir.path()).unwrap();
        for info in log.list_streams("task-", None, 10).unwrap() {
            let task = fold_stream::<Task>(&log, &info.stream, None).unwrap().state;
            let cut = task.calls().open().filter(|call| call.attempts > 0).count();
            assert_eq!(cut, 0, "round {round}: a dispatched call has no outcome");
        }
    }
}

#[tokio::test]
async fn metadata_that_names_no_possible_session_ends_the_run_and_loses_no_outcome() {
    let gate = Gate::default();
    let builder = System::builder("-").store(memory()).infer(yes()).tool("t", "T", gate.tool());
    let system = builder.start().await.unwrap();
    let message = Message::new("user", vec![call("t"), Part::infer("hi")], &mut Ports::default());
    let task = system.submit(message).await.unwrap();
    soon(gate.started.notified()).await;
    let bad = [("session_id".to_owned(), JsonText::string(&"x".repeat(201)))].into_iter().collect();
    task.command(TaskCommand::MergeMetadata(bad)).await.unwrap();
    gate.go.notify_one();
    let end = soon(task.finished()).await.unwrap();
    assert_eq!(end.state(), TaskState::Failed);
    let outcome = &end.task().calls().iter().next().unwrap().status;
    assert!(matches!(outcome, CallStatus::Succeeded(_)), "{outcome:?}");
}

/// A model that reports wrong token counts.
#[derive(Clone, Default)]
struct Greedy(Arc<AtomicU32>);

impl InferBackend for Greedy {
    fn backend(&self) -> &'static str {
        "greedy"
    }

    fn model(&self) -> &'static str {
        "greedy"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let content = format!("not json {}", self.0.fetch_add(1, Ordering::SeqCst));
        let usage = Some(TokenUsage { input_tokens: u64::MAX, output_tokens: u64::MAX });
        Box::pin(
            async move { Ok(InferReply { content, usage, model: "greedy".into(), ..InferReply::default() }) },
        )
    }
}

#[tokio::test]
async fn token_counts_beyond_all_bounds_overflow_nothing() {
    let system = System::builder("-").store(memory()).infer(Greedy::default()).start().await.unwrap();
    let part = json!({"type": "infer", "content": {"prompt": "x"}});
    let task = json!({"metadata": {"budget": {"max_steps": 9}}, "messages": [{"parts": [part]}]});
    let task = system.submit(posted(&task)).await.unwrap();
    assert_eq!(soon(task.finished()).await.unwrap().state(), TaskState::Failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn putting_tasks_to_sleep_drops_nobody_who_waits() {
    let tool = |_: Nothing| async {
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok::<(), Infallible>(())
    };
    let builder = System::builder("-").store(memory()).passivate_after(Duration::from_millis(1));
    let policy = ToolPolicy::read_only();
    let system = builder.tool_with("t", "T", tool, policy).start().await.unwrap();
    let clients = (0..32_u64).map(|client| {
        let system = system.clone();
        tokio::spawn(async move {
            for n in 0..20_u64 {
                let part =
                    json!({"type": "tool_call", "content": {"tool_name": "t", "args": {}, "call_id": "c"}});
                let message = |id: &str| json!({"id": id, "parts": [part]});
                let id = format!("t{client}-{n}");
                let first = posted(&json!({"id": id, "messages": [message("m0")]}));
                let handle = system.submit(first).await.unwrap();
                if handle.command(TaskCommand::RequireInput(None)).await.is_err() {
                    continue; // It was quicker.
                }
                for _ in 0..(client * 7 + n) % 60 * 10 {
                    tokio::task::yield_now().await;
                }
                let longer = posted(&json!({"id": id, "messages": [message("m0"), message("m1")]}));
                let (again, end) = tokio::join!(system.submit(longer), handle.finished());
                again.unwrap();
                end.unwrap();
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        soon(client).await.unwrap();
    }
}
