//! An effect whose answer was lost without a crash: what follows is the row of the tool's recovery mode.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proto_events::call::CallStatus;
use proto_events::json;
use proto_events::json::JsonText;
use serde::Deserialize;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy, Verdict};
use taskreel::{JsonSchema, Part, System, TaskSnapshot, TaskState};
use taskreel_log::memory::MemoryStore;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// Runs one call of a tool that fails once with this error and then returns; returns the end and the number of calls.
async fn called(policy: ToolPolicy, error: ToolError) -> (TaskSnapshot, u32) {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let put = move |_: Nothing| {
        let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        let answer = if first { Err(error.clone()) } else { Ok("done") };
        async move { answer }
    };
    let store = Arc::new(MemoryStore::new());
    let system =
        System::builder("-").store(store).tool_with("put", "Puts", put, policy).start().await.unwrap();
    let task = system.submit(Part::tool_call("put", json!({})).unwrap()).await.unwrap();
    let end = tokio::time::timeout(Duration::from_secs(30), task.finished()).await.unwrap().unwrap();
    system.shutdown().await.unwrap();
    (end, calls.load(Ordering::SeqCst))
}

fn status(end: &TaskSnapshot) -> CallStatus {
    end.task().calls().iter().next().unwrap().status.clone()
}

fn lost() -> ToolError {
    ToolError::lost("the connection broke after the request was sent")
}

#[tokio::test]
async fn a_manual_call_is_not_made_again_and_a_person_is_asked() {
    let (end, calls) = called(ToolPolicy::manual(), lost()).await;
    assert_eq!((end.state(), calls), (TaskState::InputRequired, 1), "{}", end.to_json());
    assert!(matches!(status(&end), CallStatus::Unknown(why) if why.contains("connection broke")));
}

#[tokio::test]
async fn a_call_that_may_be_repeated_is_sent_again() {
    for policy in [ToolPolicy::read_only(), ToolPolicy::idempotent()] {
        let (end, calls) = called(policy, lost()).await;
        assert_eq!((end.state(), calls), (TaskState::Completed, 2), "{}", end.to_json());
    }
}

#[tokio::test]
async fn a_tool_with_a_probe_is_asked_whether_it_took_effect() {
    for (verdict, state, made) in [
        (Verdict::Landed(JsonText::string("found")), TaskState::Completed, 1),
        (Verdict::DidNotHappen, TaskState::Completed, 2),
        (Verdict::Inconclusive("no record".to_owned()), TaskState::InputRequired, 1),
    ] {
        let answer = verdict.clone();
        let probe = move |_: ToolContext, _: Nothing| {
            let answer = answer.clone();
            async move { Ok::<_, ToolError>(answer) }
        };
        let (end, calls) = called(ToolPolicy::reconcile(probe), lost()).await;
        assert_eq!((end.state(), calls), (state, made), "{verdict:?}: {}", end.to_json());
    }
}

#[tokio::test]
async fn a_request_that_was_never_sent_failed_before_any_effect() {
    let (end, calls) = called(ToolPolicy::manual(), ToolError::not_sent("no connection")).await;
    assert_eq!((end.state(), calls), (TaskState::Failed, 1));
    assert!(matches!(status(&end), CallStatus::Failed(failure) if failure.class.as_str() == "before-effect"));
}

#[tokio::test]
async fn a_tools_word_on_retries_counts_within_its_policy() {
    let policy = || ToolPolicy::idempotent().retries(2);
    let (end, calls) = called(policy(), ToolError::failed("gone for ever").final_()).await;
    assert_eq!((end.state(), calls), (TaskState::Failed, 1), "a final error is not retried");
    let soon = || ToolError::failed("busy").retry_after(Duration::from_millis(1));
    let (end, calls) = called(policy(), soon()).await;
    assert_eq!((end.state(), calls), (TaskState::Completed, 2));
    let call = end.task().calls().iter().next().unwrap();
    let waited = call.sent_at.unwrap().since(call.failed_at.unwrap());
    assert!(waited < Duration::from_millis(900), "in place of a back-off of at least 1 s: {waited:?}");
    let (end, calls) = called(ToolPolicy::idempotent(), soon()).await;
    assert_eq!((end.state(), calls), (TaskState::Failed, 1), "only where the policy allows retries");
}
