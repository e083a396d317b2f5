//! The run context in a task's metadata: whatever a host or a client puts there, it costs little and blocks nothing.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use proto_events::json;
use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use proto_events::model::{PostedTask, TaskState};
use serde::Deserialize;
use taskreel::{Error, JsonSchema, System, TaskCommand};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn system() -> System {
    System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .tool("echo", "Answers", |_: Nothing| Ok::<_, Infallible>("done"))
        .tool("hang", "Waits", |_: Nothing| std::future::pending::<Result<(), Infallible>>())
        .start()
        .await
        .unwrap()
}

fn posted(id: &str, metadata: &Value, calls: &[&str]) -> PostedTask {
    let part = |tool: &&str| json!({"type": "tool_call", "content": {"tool_name": *tool, "args": {}}});
    let parts: Vec<_> = calls.iter().map(part).collect();
    let message = json!({"id": format!("m-{id}"), "role": "user", "parts": parts});
    let posted = json!({"id": id, "messages": [message], "metadata": metadata.clone()});
    PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap()
}

fn entries(context: Value) -> JsonObject {
    [("run_context".to_owned(), JsonText::from(context))].into_iter().collect()
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work).await.expect("it hangs")
}

/// Each check of a budget read all of the context once for each piece of it that begins like a limit.
#[tokio::test]
async fn a_long_context_full_of_the_names_of_limits_keeps_no_task_waiting() {
    let system = system().await;
    let metadata = json!({"trace_id": "max_".repeat(1_000_000), "budget": {"max_tool_calls": 90}});
    let long = system.submit(posted("long", &metadata, &["echo"; 20])).await.unwrap();
    let short = system.submit(posted("short", &json!({}), &["echo"])).await.unwrap();
    assert_eq!(soon(short.finished()).await.unwrap().state(), TaskState::Completed);
    assert_eq!(soon(long.finished()).await.unwrap().state(), TaskState::Completed);
    system.shutdown().await.unwrap();
}

/// A key may be written with escapes.
#[tokio::test]
async fn a_limit_whose_name_is_written_with_escapes_holds() {
    let system = system().await;
    let context = r#"{"budget": {"max\u005ftool\u005fcalls": 1}}"#;
    let metadata: JsonObject = JsonText::parse(context).unwrap().read().unwrap();
    let task = PostedTask { metadata, ..posted("t", &json!({}), &["echo", "echo"]) };
    let end = soon(system.submit(task).await.unwrap().finished()).await.unwrap();
    assert_eq!(end.state(), TaskState::Failed);
    assert!(end.task().error().unwrap().contains("max_tool_calls"), "{:?}", end.task().error());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_context_that_cannot_be_read_is_refused_and_keeps_no_task_from_being_canceled() {
    let system = system().await;
    let task = system.submit(posted("t", &json!({}), &["hang"])).await.unwrap();
    for wrong in [json!("x"), json!({"budget": {"max_steps": "x"}})] {
        let refused = task.command(TaskCommand::MergeMetadata(entries(wrong))).await.unwrap_err();
        assert!(matches!(refused, Error::Model(_)), "{refused:?}");
    }
    soon(task.cancel(Some("enough"))).await.unwrap();
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Canceled);
    // A command of the host's own may post a task without a run.
    let mut unread = posted("u", &json!({}), &["hang"]);
    unread.metadata = entries(json!("x"));
    let unread_task = system.task("u").unwrap();
    unread_task.command(TaskCommand::Submit(Box::new(unread))).await.unwrap();
    soon(unread_task.cancel(Some("enough"))).await.unwrap();
    let end = unread_task.snapshot().await.unwrap();
    assert_eq!(end.state(), TaskState::Canceled);
    assert_eq!(end.task().metadata().get("cancel_reason").unwrap().as_str(), "\"enough\"");
    system.shutdown().await.unwrap();
}
