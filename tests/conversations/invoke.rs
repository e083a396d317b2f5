//! `invoke`: a task and its answer in one call, in Protolink's default conversation.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::sync::Arc;

use proto_events::json;
use proto_events::json::JsonText;
use serde::Deserialize;
use taskreel::infer::Scripted;
use taskreel::tool::ToolError;
use taskreel::{Builder, Error, INVOKE_SESSION, JsonSchema, NO_RESPONSE, Part, System, TaskState};
use taskreel_log::api::EventReader;
use taskreel_log::memory::MemoryStore;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn fails(_: Nothing) -> Result<(), ToolError> {
    Err(ToolError::failed("broke"))
}

async fn counts(_: Nothing) -> Result<u32, ToolError> {
    Ok(7)
}

fn agent() -> Builder {
    let model = Scripted::from_json(r#"{"":[{"type":"final","content":"one"}]}"#);
    System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .infer(model.unwrap())
        .tool("fails", "", fails)
        .tool("counts", "", counts)
}

#[tokio::test]
async fn invocations_return_the_last_content_and_share_one_conversation() {
    let system = agent().start().await.unwrap();
    let say = |text: &str| JsonText::string(text);
    assert_eq!(system.invoke(Part::infer("a")).await.unwrap(), say("one"));
    assert_eq!(system.invoke(Part::infer("b")).await.unwrap(), say("one"));
    assert_eq!(INVOKE_SESSION, "invocation_session_id");
    assert_eq!(system.session(INVOKE_SESSION).history().await.unwrap().len(), 5, "the prompt and two turns");
    let answer = system.session("other").invoke(Part::tool_call("counts", json!({})).unwrap()).await.unwrap();
    assert!(answer.as_str().contains("\"result\":7"), "{answer}");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_empty_is_no_response_generated() {
    let system = agent().start().await.unwrap();
    assert_eq!(NO_RESPONSE, "No response generated");
    for empty in ["\"\"", "null", "{}", "[]", "0", "-0.0", "false"] {
        let part = Part::new("text", JsonText::parse(empty).unwrap());
        assert_eq!(system.invoke(part).await.unwrap(), JsonText::string(NO_RESPONSE), "{empty}");
    }
    let part = Part::new("text", JsonText::parse("[0]").unwrap());
    assert_eq!(system.invoke(part).await.unwrap().as_str(), "[0]");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_task_that_failed_is_no_answer() {
    let system = agent().start().await.unwrap();
    let failed = system.invoke(Part::tool_call("fails", json!({})).unwrap()).await;
    let Err(Error::NotCompleted { id, state, why }) = failed else { panic!("{failed:?}") };
    assert_eq!((state, why.as_str()), (TaskState::Failed, "broke"));
    assert_eq!(system.task(&id).unwrap().snapshot().await.unwrap().state(), TaskState::Failed);
    system.shutdown().await.unwrap();
}

/// A deliberate difference from Protolink, which leaves a session with its system prompt.
#[tokio::test]
async fn a_task_without_inference_opens_no_session() {
    let store = Arc::new(MemoryStore::new());
    let system = agent().store(store.clone()).start().await.unwrap();
    system.invoke(Part::tool_call("counts", json!({})).unwrap()).await.unwrap();
    assert!(system.session(INVOKE_SESSION).history().await.unwrap().is_empty());
    assert!(store.list_streams("session-", None, 10).unwrap().is_empty());
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blocking_twin_works_on_a_plain_thread_and_is_refused_within_a_runtime() {
    let system = agent().start().await.unwrap();
    let (own, other) = (system.clone(), system.session("other"));
    let asked = std::thread::spawn(move || {
        (own.invoke_blocking(Part::infer("a")), own.invoke_blocking(Part::infer("b")))
    });
    let (first, second) = asked.join().unwrap();
    assert_eq!((first.unwrap(), second.unwrap()), (JsonText::string("one"), JsonText::string("one")));
    let failed =
        std::thread::spawn(move || other.invoke_blocking(Part::tool_call("fails", json!({})).unwrap()));
    assert!(matches!(failed.join().unwrap(), Err(Error::NotCompleted { .. })));
    let refused = system.invoke_blocking(Part::infer("c")).unwrap_err();
    assert!(matches!(refused, Error::WithinRuntime), "{refused}");
    assert!(refused.to_string().contains("within an async runtime"), "{refused}");
    system.shutdown().await.unwrap();
}
