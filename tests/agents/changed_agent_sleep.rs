//! A task that waits as it is under a changed agent costs no actor, and goes on from where it waited.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::host::{Host, Nothing, assert_sound, call, held_by, restarted, under_way, until_asleep};
use proto_events::json;
use proto_events::json::JsonText;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{PostedTask, TaskState};
use taskreel_log::ports::Ports;

#[tokio::test]
async fn the_actor_of_a_held_task_is_put_to_sleep_and_wakes_for_those_who_ask_and_for_the_approval() {
    let host = Host::new();
    let (system, task) = under_way(&host, call("idempotent")).await;
    host.change();
    host.sleeps.store(true, Ordering::SeqCst);
    let (system, task) = restarted(&host, system, task.id()).await;
    let mut approvals = Vec::new();
    // The second round wakes the actor only to look.
    for _ in 0..2 {
        let held = tokio::time::timeout(Duration::from_secs(20), held_by(&system, &task));
        approvals.push(held.await.expect("a held task answers those who wait for it"));
        until_asleep(&system).await;
    }
    assert_eq!(approvals[0], approvals[1]);
    task.approve(&approvals[0], "ada").await.unwrap();
    let done = system.finish(&task).await.unwrap();
    assert_eq!((done.state(), done.task().approvals().iter().count()), (TaskState::Completed, 1));
    assert_sound(&system);
}

/// The wait for the approval handler has no other end than the deadline of the run.
#[tokio::test]
async fn the_deadline_of_a_run_that_waited_under_a_changed_agent_still_ends_it() {
    let host = Host::new();
    let own = Arc::clone(&host);
    let system = taskreel::testing::system(move |builder| {
        let pay = |_: Nothing| async { Ok::<_, ToolError>("paid") };
        own.describe(builder)
            .tool_with("pay", "Pays", pay, ToolPolicy::manual().capabilities(["money"]))
            .capability_policy(CapabilityPolicy::new().require_approval("money"))
            .approval_handler(|_: ApprovalRequest| std::future::pending::<ApprovalVerdict>())
            .approval_timeout(Duration::from_secs(1_000_000))
    });
    let system = system.await.unwrap();
    let part = json!({"type": "tool_call", "content": {"tool_name": "pay", "args": {}}});
    let posted = json!({
        "id": "t",
        "messages": [{"id": "m", "role": "user", "parts": [part]}],
        "metadata": {"budget": {"max_runtime_seconds": 100}},
    });
    let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
    let task = system.submit(posted).await.unwrap();
    system.until_idle().await;
    host.change();
    let (system, task) = restarted(&host, system, task.id()).await;
    let rested = system.finish(&task).await.unwrap();
    let (approval, _) = rested.task().changed_agent().unwrap();
    assert!(task.snapshot().await.unwrap().task().is_held());
    task.approve(&approval.request.approval_id, "ada").await.unwrap();
    system.advance(Duration::from_secs(101)).await;
    let end = task.snapshot().await.unwrap();
    assert_eq!(end.state(), TaskState::Failed);
    assert!(end.task().error().unwrap().contains("max_runtime_seconds"), "{:?}", end.task().error());
    assert_sound(&system);
}

/// The turn of a task that is canceled while it waits for a person has no owner, and the session's actor ends it.
#[tokio::test]
async fn the_next_task_of_a_conversation_gets_its_turn_whichever_use_of_the_clock_panics() {
    for uses in 1..=20 {
        let host = Host::new();
        let (system, task) = under_way(&host, taskreel::Part::infer("first")).await;
        let session =
            task.snapshot().await.unwrap().task().metadata().get("session_id").unwrap().to_str().unwrap();
        host.change();
        let (system, task) = restarted(&host, system, task.id()).await;
        held_by(&system, &task).await;
        task.cancel(None).await.unwrap();
        // Ids and times are given, so that no use of the clock is the caller's.
        let part = json!({"type": "infer", "content": {"prompt": "second"}});
        let posted = json!({
            "id": "next",
            "created_at": "x",
            "messages": [{"id": "m", "role": "user", "timestamp": "x", "parts": [part]}],
            "metadata": {"session_id": session.as_str()},
        });
        let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
        system.clock().panic_at(uses);
        let Ok(next) = system.submit(posted).await else { continue };
        system.advance(Duration::from_secs(5)).await;
        let end = next.snapshot().await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "use {uses}: {}", end.to_json());
    }
}
