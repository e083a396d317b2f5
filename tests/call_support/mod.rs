//! Shared by the tests of calls: a log in memory, a part that calls a tool, and the call events of a task.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::sync::Arc;
use std::time::Duration;

use proto_events::call::CallEvent;
use proto_events::id::{StreamId, Version};
use proto_events::json;
use proto_events::model::PostedTask;
use proto_events::task::{TaskCommand, TaskEvent};
use serde::Deserialize;
use taskreel::{JsonSchema, Part, System, TaskHandle};
use taskreel_log::api::EventReader;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::read::decode_record;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// Fails the test if the work hangs.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("it hangs")
}

pub(crate) fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new())
}

pub(crate) fn call(tool: &str) -> Part {
    Part::tool_call(tool, json!({})).unwrap()
}

/// Makes a task that rests without having ended: it was submitted, and nothing was begun.
pub(crate) async fn resting(system: &System, id: &str) -> TaskHandle {
    let text = r#"{"messages": [{"role": "user", "parts": [{"type": "text", "content": "a note"}]}]}"#;
    let mut posted = PostedTask::parse(text, &mut Ports::default()).unwrap();
    id.clone_into(&mut posted.id);
    let task = system.task(id).unwrap();
    task.command(TaskCommand::Submit(Box::new(posted))).await.unwrap();
    task
}

/// Returns the events of a task's calls, in order.
pub(crate) fn call_events(store: &MemoryStore, task: &TaskHandle) -> Vec<CallEvent> {
    let stream = StreamId::task("agent", task.id()).unwrap();
    let mut events = Vec::new();
    for record in store.read_stream(&stream, Version(1), usize::MAX).unwrap() {
        for event in decode_record::<TaskEvent>(&record).unwrap() {
            if let TaskEvent::Call(event) = event.event {
                events.push(event);
            }
        }
    }
    events
}
