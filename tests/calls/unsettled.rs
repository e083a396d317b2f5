//! Rows of the unsettled calls, from the log of a running system: why each waits, and what follows.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use proto_events::envelope::Timestamp;
use proto_events::json;
use proto_events::json::JsonText;
use serde::Deserialize;
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{JsonSchema, Part, PostedTask, System};
use taskreel_log::api::EventReader;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::views::{CallRow, run_steps, unsettled};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn hangs(_: Nothing) -> Result<(), Infallible> {
    std::future::pending().await
}

async fn fails(_: Nothing) -> Result<(), ToolError> {
    Err(ToolError::failed("not now"))
}

fn call(tool: &str) -> Part {
    Part::tool_call_of(tool, JsonText::from(json!({})), None)
}

/// Reads the rows until they are as meant.
async fn rows(store: &MemoryStore, now: Timestamp, meant: impl Fn(&[CallRow]) -> bool) -> Vec<CallRow> {
    let looked = async {
        loop {
            let rows = unsettled(store, None, now).unwrap().rows;
            if meant(&rows) {
                return rows;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), looked)
        .await
        .expect("the rows never were as they are meant to be")
}

#[tokio::test]
async fn an_open_call_says_what_it_waits_for_and_what_a_new_process_would_do() {
    let store = Arc::new(MemoryStore::new());
    let system = System::builder("-")
        .store(store.clone())
        .tool_with("one", "One at a time", hangs, ToolPolicy::manual().concurrency(1))
        .tool_with("retried", "Fails", fails, ToolPolicy::idempotent().retries(3))
        .start()
        .await
        .unwrap();
    let far = Timestamp(i64::MAX);
    system.submit(call("one")).await.unwrap();
    let first = rows(&store, far, |rows| rows.iter().any(|row| row.attempts == 1)).await.remove(0);
    assert_eq!((first.status, first.recovery), ("in-flight", Some("manual")));
    assert_eq!(first.waits_for, "the result of attempt 1 of 1");
    assert!(first.next_step.as_ref().unwrap().contains("not sent again"), "{:?}", first.next_step);
    assert!(first.commands().is_empty(), "nobody needs to decide about it");

    system.submit(call("one")).await.unwrap();
    let both = rows(&store, far, |rows| rows.len() == 2).await;
    assert_eq!(both[0], first, "the oldest first");
    assert_eq!((both[1].status, both[1].attempts), ("requested", 0));
    assert!(both[1].waits_for.starts_with("a permit"), "{}", both[1].waits_for);

    let retried = system.submit(call("retried")).await.unwrap();
    let shown =
        rows(&store, Timestamp(0), |rows| rows.iter().any(|row| row.status == "retry-scheduled")).await;
    let row = shown.iter().find(|row| row.target == "retried").unwrap();
    assert!(
        row.waits_for.starts_with("the end of its back-off at ")
            && row.waits_for.contains(": attempt 1 of 4 failed: "),
        "{}",
        row.waits_for
    );
    assert!(row.next_step.as_ref().unwrap().contains("its next attempt is sent at"), "{:?}", row.next_step);
    assert_eq!(row.to_json().tree()["schema"], "taskreel.call/1");
    // For one task only; a finished call is settled.
    assert_eq!(unsettled(store.as_ref(), Some(retried.stream()), far).unwrap().rows.len(), 1);
    retried.cancel(None).await.unwrap();
    assert!(unsettled(store.as_ref(), Some(retried.stream()), far).unwrap().rows.is_empty());
    let canceled = retried.snapshot().await.unwrap();
    assert!(store.stream_version(retried.stream()).unwrap() >= canceled.version());
    drop(system);
}

#[tokio::test]
async fn two_runs_that_wait_for_their_next_attempt_are_the_same_whatever_the_time_of_it() {
    let store = Arc::new(MemoryStore::new());
    let system = System::builder("-")
        .store(store.clone())
        .tool_with("retried", "Fails", fails, ToolPolicy::idempotent().retries(3))
        .start()
        .await
        .unwrap();
    let waits = |rows: &[CallRow], count| {
        rows.iter().filter(|row| row.status == "retry-scheduled" && row.attempts == 1).count() == count
    };
    let mut steps = Vec::new();
    for _ in 0..2 {
        let task = system.submit(call("retried")).await.unwrap();
        let stream = task.stream().clone();
        let of_task = |rows: &[CallRow]| {
            let own: Vec<_> = rows.iter().filter(|row| row.stream == stream).cloned().collect();
            waits(&own, 1)
        };
        rows(&store, Timestamp(0), of_task).await;
        let call =
            run_steps(store.as_ref(), task.stream()).unwrap().into_iter().find(|step| step.kind == "tool");
        steps.push((task, call.unwrap()));
    }
    let outcomes: Vec<&str> = steps.iter().map(|(_, step)| step.outcome.as_str()).collect();
    assert_eq!(outcomes[0], outcomes[1]);
    assert!(outcomes[0].contains("not now"), "{}", outcomes[0]);
    for (task, _) in steps {
        task.cancel(None).await.unwrap();
    }
    system.shutdown().await.unwrap();
}

async fn sees(_: Nothing) -> Result<&'static str, Infallible> {
    Ok("seen")
}

#[tokio::test]
async fn two_runs_whose_ids_stand_within_each_other_are_the_same() {
    let store = Arc::new(MemoryStore::new());
    let system = System::builder("-").store(store.clone()).tool("sees", "Sees", sees).start().await.unwrap();
    // Eight pairs: the order of a set's items differs from set to set, and nothing may depend on it.
    for number in 0..16 {
        let id = format!("order-{number:04}");
        let text = format!("look at task-agent/{id}, at m-{id} and at {id}");
        let said = json!({"type": "text", "content": text});
        let parts = vec![said, call("sees").to_json().tree()];
        let message = json!({"id": format!("m-{id}"), "role": "user", "parts": parts});
        let posted = JsonText::from(json!({"id": id, "messages": [message]}));
        let posted = PostedTask::from_json(&posted, &mut Ports::default()).unwrap();
        let task = system.submit(posted).await.unwrap();
        task.finished().await.unwrap();
        let steps = run_steps(store.as_ref(), task.stream()).unwrap();
        assert_eq!(steps[0].kind, "message");
        assert_eq!(steps[0].args, "look at <id>, at <id> and at <id> · tool sees {}");
    }
    system.shutdown().await.unwrap();
}
