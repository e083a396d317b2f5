//! A run that a person's decision resumes ends as it would have ended without the wait: an error of a part before it still
//! fails the task.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use proto_events::call::{Answer, Verdict};
use proto_events::id::StreamId;
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::system::SystemHistory;
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::testing::{TestSystem, assert_well_formed, system};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, JsonSchema, Message, Operator, Part, TaskHandle, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::read::fold_stream;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn fails(_: Nothing) -> Result<String, ToolError> {
    Err(ToolError::failed("no such file"))
}

async fn looks(_: Nothing) -> Result<String, Infallible> {
    Ok("seen".to_owned())
}

async fn asks(cx: ToolContext, _: Nothing) -> Result<String, ToolError> {
    cx.ask("Which one?").await
}

async fn hangs(_: Nothing) -> Result<String, Infallible> {
    std::future::pending().await
}

fn tools(builder: Builder) -> Builder {
    builder
        .tool("fails", "Fails", fails)
        .tool("looks", "Looks", looks)
        .tool("asks", "Asks", asks)
        .tool_with("pays", "Pays", looks, ToolPolicy::manual().capabilities(["money.spend"]))
        .tool_with("hangs", "Hangs", hangs, ToolPolicy::manual().timeout(Duration::from_secs(1)))
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .approvals_by_person()
}

fn calls(tools: &[&str]) -> Message {
    let parts = tools.iter().map(|tool| Part::tool_call(tool, json!({})).unwrap()).collect();
    Message { id: None, role: Some("user".into()), parts, timestamp: None }
}

/// Decides what the task waits for; returns false if it waits for nothing.
async fn decide(task: &TaskHandle) -> bool {
    if let Some(approval) = task.approvals().await.unwrap().first() {
        task.approve(&approval.request.approval_id, "ada").await.unwrap();
        return true;
    }
    if let Some(call) = task.questions().await.unwrap().first() {
        task.answer(&call.question_id(), "this", "ada").await.unwrap();
        return true;
    }
    let now = task.snapshot().await.unwrap();
    let unknown = now.task().calls().iter().find(|call| call.status.as_str() == "unknown");
    let Some(call) = unknown else { return false };
    let landed = Verdict::Landed(JsonText::string("found"));
    task.reconcile(&call.request.call_id, landed, "ada").await.unwrap();
    true
}

async fn end_of(system: &TestSystem, tools: &[&str]) -> TaskState {
    let task = system.submit(calls(tools)).await.unwrap();
    loop {
        let now = system.finish(&task).await.unwrap();
        if now.state() != TaskState::InputRequired {
            assert_well_formed(system.store().as_ref());
            return now.state();
        }
        assert!(decide(&task).await, "{tools:?} waits for nothing that a person decides");
    }
}

#[tokio::test]
async fn an_error_before_the_wait_fails_the_task_after_it() {
    let system = system(tools).await.unwrap();
    for waits in ["pays", "asks", "hangs"] {
        for (parts, end) in [
            (vec!["looks", waits, "looks"], TaskState::Completed),
            (vec![waits], TaskState::Completed),
            (vec!["fails", waits, "looks"], TaskState::Failed),
            (vec!["fails", waits], TaskState::Failed),
            (vec!["fails", waits, "looks", "pays", "asks"], TaskState::Failed),
            (vec!["looks", waits, "fails"], TaskState::Failed),
        ] {
            assert_eq!(end_of(&system, &parts).await, end, "{parts:?}");
        }
    }
}

#[tokio::test]
async fn an_operator_that_decides_after_it_has_finished_has_started_again() {
    let system = system(tools).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let task = system.submit(calls(&["asks"])).await.unwrap();
        system.finish(&task).await.unwrap();
        waiting.push(task);
    }
    let store: Arc<dyn EventStore> = Arc::new(system.store().reopened().unwrap());
    let operator = Operator::new(Arc::clone(&store));
    for task in waiting {
        let call = task.questions().await.unwrap()[0].question_id();
        let answer = Answer::Given("this".to_owned());
        assert!(operator.clone().answer(task.stream(), &call, answer, "ada").await.unwrap().is_new);
        operator.finish().await.unwrap();
        operator.finish().await.unwrap();
    }
    assert_well_formed(store.as_ref());
    let programs = fold_stream::<SystemHistory>(store.as_ref(), &StreamId::of_system(0), None).unwrap().state;
    assert_eq!((programs.starts(), programs.is_running()), (3, false));
}

#[tokio::test]
async fn a_decision_that_resumes_nothing_hands_no_error_to_the_next_work() {
    let system = system(tools).await.unwrap();
    for (verdict, ends) in [(Verdict::Inconclusive("no idea".to_owned()), TaskState::Completed)] {
        let task = system.submit(calls(&["fails", "hangs"])).await.unwrap();
        let waits = system.finish(&task).await.unwrap();
        assert_eq!(waits.state(), TaskState::InputRequired);
        let unknown = waits.task().calls().iter().find(|call| call.status.as_str() == "unknown").unwrap();
        task.reconcile(&unknown.request.call_id, verdict, "ada").await.unwrap();
        task.command(taskreel::TaskCommand::AppendMessage(calls(&["looks"]))).await.unwrap();
        task.command(taskreel::TaskCommand::Begin).await.unwrap();
        assert_eq!(system.finish(&task).await.unwrap().state(), ends);
    }
    assert_well_formed(system.store().as_ref());
}

#[tokio::test]
async fn an_error_of_work_that_a_new_message_replaces_does_not_fail_the_new_work() {
    let system = system(tools).await.unwrap();
    let task = system.submit(calls(&["fails", "asks"])).await.unwrap();
    assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::InputRequired);
    task.command(taskreel::TaskCommand::AppendMessage(calls(&["looks"]))).await.unwrap();
    task.command(taskreel::TaskCommand::Begin).await.unwrap();
    assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::Completed);
}
