//! The streams of a task's runs: which run is streamed, where its stream ends, and what it says of the run's budget.
#![allow(clippy::indexing_slicing, reason = "a short list in a test is a fault that its panic names")]

use std::convert::Infallible;
use std::sync::Arc;

use crate::live_support::{all, names, posted};
use proto_events::id::Version;
use proto_events::json;
use proto_events::task::TaskCommand;
use serde::Deserialize;
use taskreel::infer::Scripted;
use taskreel::tool::{ToolContext, ToolPolicy};
use taskreel::{JsonSchema, Message, Part, System, TaskState, TaskStreamPayload};
use taskreel_log::memory::MemoryStore;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn brews(_: Nothing) -> Result<&'static str, Infallible> {
    Ok("tea")
}

#[tokio::test]
async fn the_newest_run_is_streamed_and_a_version_chooses_another() {
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .tool_with("brew", "Brews", brews, ToolPolicy::read_only())
        .start()
        .await
        .unwrap();
    let call = || Part::tool_call("brew", json!({})).unwrap();
    let first = posted("t", &call());
    let task = system.submit(first.clone()).await.unwrap();
    let over = task.finished().await.unwrap();
    let told = all(task.events_after(over.version())).await;
    assert_eq!(names(&told), ["task_status_update"], "of a task that is over: its final status");
    assert!(matches!(
        told[0].payload,
        TaskStreamPayload::Status { previous: None, new: TaskState::Completed, last: true }
    ));

    let waiting = posted("w", &call());
    let handle = system.submit(waiting).await.unwrap();
    handle.finished().await.unwrap();
    let whole = all(handle.events_after(Version(0))).await;
    assert_eq!(whole, all(handle.events().await.unwrap()).await, "there is one run only");
    let task_json = whole.last().unwrap().metadata.get("task").unwrap().tree();
    assert_eq!(task_json, handle.snapshot().await.unwrap().to_json().tree());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_task_that_waits_for_a_person_ends_the_stream_and_the_next_run_is_another() {
    let script = Scripted::from_json(r#"{"":[{"type":"final","content":"yes"}]}"#).unwrap();
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .tool("hang", "Hangs", |cx: ToolContext, _: Nothing| async move {
            cx.cancellation().canceled().await;
            Ok::<_, Infallible>(())
        })
        .infer(script)
        .start()
        .await
        .unwrap();
    let task = system.submit(posted("t", &Part::tool_call("hang", json!({})).unwrap())).await.unwrap();
    let events = task.events().await.unwrap();
    task.command(TaskCommand::RequireInput(None)).await.unwrap();
    let asked = task.snapshot().await.unwrap();
    assert_eq!(asked.state(), TaskState::InputRequired);
    let told = all(events).await;
    assert!(matches!(
        told.last().unwrap().payload,
        TaskStreamPayload::Status { new: TaskState::InputRequired, last: true, .. }
    ));

    let next = task.events_after(asked.version());
    let mut again = posted("t", &Part::tool_call("hang", json!({})).unwrap());
    again.messages = asked.task().messages().to_vec();
    let mut ports = taskreel_log::ports::Ports::default();
    again.messages.push(Message::user("go on", &mut ports));
    system.submit(again).await.unwrap();
    let next = all(next).await;
    assert!(matches!(
        next[0].payload,
        TaskStreamPayload::Status {
            previous: Some(TaskState::InputRequired),
            new: TaskState::Working,
            last: false
        }
    ));
    assert!(matches!(
        next.last().unwrap().payload,
        TaskStreamPayload::Status { new: TaskState::Completed, last: true, .. }
    ));
    assert_eq!(next, all(task.events().await.unwrap()).await, "the newest run is the one that is streamed");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_budget_warns_once_for_each_limit_and_names_the_one_that_ends_the_run() {
    let step = r#"{"type":"tool_call","tool":"brew","args":{}}"#;
    let other = r#"{"type":"tool_call","tool":"brew","args":{"n":2}}"#;
    let script = Scripted::from_json(&format!("[{step},{other},{step}]")).unwrap();
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .stateless()
        .tool("brew", "Brews", |_: serde_json::Map<String, serde_json::Value>| async {
            Ok::<_, Infallible>("tea")
        })
        .infer(script)
        .start()
        .await
        .unwrap();
    let mut task = posted("t", &Part::infer("Tea?"));
    task.metadata.set("budget", json!({"max_steps": 2, "max_tool_calls": 9}).into());
    let task = system.submit(task).await.unwrap();
    let events = all(task.events().await.unwrap()).await;
    let names = names(&events);
    let count = |wanted| names.iter().filter(|name| **name == wanted).count();
    assert_eq!(count("budget_warning"), 1, "{names:?}");
    assert_eq!(count("llm_step"), 2, "{names:?}");
    let end: Vec<_> = names.iter().rev().take(3).collect();
    assert_eq!(end, [&"task_status_update", &"task_error", &"budget_exceeded"]);
    let exceeded = events[events.len() - 3].metadata.get("decision").unwrap().tree();
    assert_eq!(exceeded["limit_name"], "max_steps");
    assert_eq!(exceeded["observed"], 3);
    assert_eq!(exceeded["limit"], 2);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_failure_in_the_words_of_a_budget_is_no_budget() {
    let script = Scripted::from_json(r#"[{"type":"tool_call","tool":"hang","args":{}}]"#).unwrap();
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .stateless()
        .tool("hang", "Hangs", |_: serde_json::Map<String, serde_json::Value>| {
            std::future::pending::<Result<(), Infallible>>()
        })
        .infer(script)
        .start()
        .await
        .unwrap();
    let task = system.submit(posted("t", &Part::infer("Tea?"))).await.unwrap();
    let error = "Run budget exceeded: max_steps observed 3 > limit 2";
    task.command(TaskCommand::Fail { error: error.to_owned() }).await.unwrap();
    let events = all(task.events().await.unwrap()).await;
    let names = names(&events);
    assert!(!names.contains(&"budget_exceeded"), "{names:?}");
    let last = events.iter().rev().find_map(|event| match &event.payload {
        TaskStreamPayload::Error { message, .. } => Some(message.as_str()),
        _ => None,
    });
    assert_eq!(last, Some(error));
    system.shutdown().await.unwrap();
}
