//! The effect of a cancel and a timeout on a running tool, and the handling of its late result.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::call_support::{Nothing, call, call_events, memory, soon};
use proto_events::call::{CallEvent, CallStatus};
use proto_events::id::Version;
use proto_events::json;
use proto_events::json::JsonText;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, PostedTask, System, TaskState, testing};
use taskreel_log::ports::Ports;
use tokio::sync::Notify;

#[tokio::test]
async fn a_canceled_tool_is_told_and_what_it_still_answers_is_late_evidence() {
    let (store, started) = (memory(), Arc::new(Notify::new()));
    let told = Arc::clone(&started);
    let tool = move |cx: ToolContext, _: Nothing| {
        told.notify_one();
        async move {
            cx.cancellation().canceled().await;
            Ok::<_, Infallible>("half done")
        }
    };
    let system = System::builder("-").store(store.clone()).tool("t", "", tool).start().await.unwrap();
    let task = system.submit(call("t")).await.unwrap();
    soon(started.notified()).await;
    let mut log = system.subscribe_task(task.id(), Version(1)).unwrap();
    task.cancel(None).await.unwrap();
    let is_late = |event: &CallEvent| matches!(event, CallEvent::LateResultIgnored { succeeded: true, .. });
    soon(async {
        while !call_events(&store, &task).iter().any(is_late) {
            log.next().await.unwrap().unwrap();
        }
    })
    .await;
    let end = task.snapshot().await.unwrap();
    assert_eq!(end.state(), TaskState::Canceled);
    let call = end.task().calls().iter().next().unwrap();
    assert!(matches!(call.status, CallStatus::Unknown(_)), "a late result is evidence, no outcome");
}

#[tokio::test]
async fn what_an_attempt_still_answers_after_its_time_is_late_evidence() {
    let store = memory();
    let tool = |cx: ToolContext, _: Nothing| async move {
        cx.cancellation().canceled().await;
        Ok::<_, Infallible>("too late")
    };
    let policy = ToolPolicy::manual().timeout(Duration::from_millis(50));
    let system =
        System::builder("-").store(store.clone()).tool_with("t", "", tool, policy).start().await.unwrap();
    let task = system.submit(call("t")).await.unwrap();
    let end = soon(task.finished()).await.unwrap();
    assert_eq!(end.state(), TaskState::InputRequired);
    let mut log = system.subscribe_task(task.id(), Version(1)).unwrap();
    let late = |event: &CallEvent| matches!(event, CallEvent::LateResultIgnored { .. });
    soon(async {
        while !call_events(&store, &task).iter().any(late) {
            log.next().await.unwrap().unwrap();
        }
    })
    .await;
    let call = task.snapshot().await.unwrap().task().calls().iter().next().unwrap().clone();
    assert!(matches!(call.status, CallStatus::Unknown(_)), "{:?}", call.status);
}

#[tokio::test]
async fn a_tool_that_hears_no_cancel_is_dropped_before_anything_else_is_done_about_it() {
    struct Dropped(Arc<AtomicU32>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (store, gone, noted) = (memory(), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(9)));
    let (count, note) = (Arc::clone(&gone), Arc::clone(&noted));
    let tool = move |cx: ToolContext, _: Nothing| {
        let (count, note) = (Arc::clone(&count), Arc::clone(&note));
        async move {
            if cx.attempt() > 1 {
                note.store(count.load(Ordering::SeqCst), Ordering::SeqCst);
                return Ok::<_, Infallible>("second");
            }
            let _guard = Dropped(count);
            std::future::pending().await
        }
    };
    let policy = ToolPolicy::read_only().timeout(Duration::from_millis(50));
    let system = System::builder("-").store(store).tool_with("t", "", tool, policy).start().await.unwrap();
    let end = soon(system.submit(call("t")).await.unwrap().finished()).await.unwrap();
    assert_eq!(end.state(), TaskState::Completed);
    assert_eq!(noted.load(Ordering::SeqCst), 1, "the first attempt was gone when the second began");
}

/// A tool that fails, then ends when it is canceled, then works; with a circuit that opens at its first failure.
async fn with_circuit(runs: &Arc<AtomicU32>) -> testing::TestSystem {
    let runs = Arc::clone(runs);
    let tool = move |cx: ToolContext, _: Nothing| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        async move {
            match run {
                0 => return Err(ToolError::failed("down")),
                1 => cx.cancellation().canceled().await,
                _ => {}
            }
            Ok("up")
        }
    };
    let policy = ToolPolicy::manual().breaker(1, Duration::from_secs(10));
    let with = move |agent: Builder| agent.tool_with("t", "", tool.clone(), policy.clone());
    testing::system(with).await.unwrap()
}

#[tokio::test]
async fn after_a_trial_that_was_canceled_or_met_its_tasks_limit_of_time_the_next_call_is_sent() {
    for by_time in [false, true] {
        let runs = Arc::new(AtomicU32::new(0));
        let system = with_circuit(&runs).await;
        let first = system.submit(call("t")).await.unwrap();
        assert_eq!(system.finish(&first).await.unwrap().state(), TaskState::Failed);
        system.advance(Duration::from_secs(10)).await;
        let part = json!({"type": "tool_call", "content": json!({"tool_name": "t", "args": json!({})})});
        let posted = json!({
            "messages": [json!({"role": "user", "parts": [part]})],
            "metadata": json!({"budget": json!({"max_runtime_seconds": 5})}),
        });
        let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
        let trial = system.submit(posted).await.unwrap();
        system.until_idle().await;
        assert_eq!(runs.load(Ordering::SeqCst), 2, "the trial is under way");
        if by_time {
            system.advance(Duration::from_secs(5)).await;
        } else {
            trial.cancel(None).await.unwrap();
        }
        system.finish(&trial).await.unwrap();
        system.until_idle().await;
        let next = system.submit(call("t")).await.unwrap();
        let end = system.finish(&next).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "by time: {by_time}: {}", end.to_json());
        assert_eq!(runs.load(Ordering::SeqCst), 3);
        system.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trial_that_was_canceled_and_cannot_be_stopped_leaves_its_circuit_to_the_next_call() {
    let begun = Arc::new(Notify::new());
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let (tells, told, runs) = (Arc::clone(&begun), Mutex::new(told), AtomicU32::new(0));
    let tool = move |_: Nothing| match runs.fetch_add(1, Ordering::SeqCst) {
        0 => Err(ToolError::failed("down")),
        1 => {
            tells.notify_one();
            let _ = told.lock().unwrap().recv();
            Ok("too late")
        }
        _ => Ok("up"),
    };
    let policy = ToolPolicy::manual().breaker(1, Duration::from_millis(1));
    let builder = System::builder("-").store(memory());
    let system = builder.tool_with("t", "", tool, policy).start().await.unwrap();
    let first = system.submit(call("t")).await.unwrap().finished().await.unwrap();
    assert_eq!(first.state(), TaskState::Failed);
    let trial = loop {
        let trial = system.submit(call("t")).await.unwrap();
        tokio::select! {
            // Refused while the circuit cools down.
            refused = trial.finished() => assert_eq!(refused.unwrap().state(), TaskState::Failed),
            () = begun.notified() => break trial,
        }
    };
    trial.cancel(None).await.unwrap();
    let next = async {
        loop {
            let end = system.submit(call("t")).await.unwrap().finished().await.unwrap();
            if end.state() == TaskState::Completed {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), next).await.expect("the circuit stays open");
    tell.send(()).unwrap();
    system.shutdown().await.unwrap();
}
