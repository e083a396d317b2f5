//! A task's stream as a whole, for tests of it.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use proto_events::json;
use taskreel::{Part, TaskEvents, TaskStreamEvent, TaskStreamPayload};

/// Reads a stream to its end.
pub(crate) async fn all(mut events: TaskEvents) -> Vec<TaskStreamEvent> {
    let mut told = Vec::new();
    while let Some(event) = events.next().await {
        told.push(event.unwrap());
    }
    told
}

/// Returns the names of the events, with the model's events under their own names.
pub(crate) fn names(events: &[TaskStreamEvent]) -> Vec<&str> {
    fn name(event: &TaskStreamEvent) -> &str {
        match &event.payload {
            TaskStreamPayload::Llm { kind, .. } => kind,
            _ => event.type_name(),
        }
    }
    events.iter().map(name).collect()
}

pub(crate) fn posted(id: &str, part: &Part) -> proto_events::model::PostedTask {
    let mut ports = taskreel_log::ports::Ports::default();
    let text = json!({"id": id, "messages": [{"role": "user", "parts": [
        {"type": part.kind(), "content": part.content().tree()},
    ]}]});
    proto_events::model::PostedTask::from_json(&text.into(), &mut ports).unwrap()
}
