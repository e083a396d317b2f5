//! An agent with a tool whose result can be viewed, and calls of its tools in sessions of several principals.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]
#![allow(dead_code, reason = "each test binary uses a part")]

use std::convert::Infallible;
use std::sync::Arc;

use proto_events::json;
use proto_events::json::JsonValue;
use taskreel::artifact::ArtifactTools;
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{Builder, JsonSchema, Part, System, TaskSnapshot, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::memory::MemoryStore;

#[derive(serde::Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

pub(crate) async fn report(_: Nothing) -> Result<String, Infallible> {
    Ok("line\n".repeat(400))
}

pub(crate) async fn breaks(_: Nothing) -> Result<String, ToolError> {
    Err(ToolError::failed("out of paper"))
}

/// A table, an object of keys with dots, and lists inside one another.
pub(crate) async fn table(_: Nothing) -> Result<JsonValue, Infallible> {
    let rows: Vec<JsonValue> = (0..6).map(|n| json!({"name": format!("n{n}"), "age": n})).collect();
    Ok(json!({"rows": rows, "a": {"b.c": {"": [1, [2, "é"], null]}}, "é": "text"}))
}

pub(crate) fn desk<S: EventStore + 'static>(store: &Arc<S>, tools: ArtifactTools) -> Builder {
    System::builder("-")
        .store(Arc::<S>::clone(store))
        .name("desk")
        .tool_with("report", "A report", report, ToolPolicy::read_only())
        .tool_with("table", "A table", table, ToolPolicy::read_only())
        .tool_with("breaks", "Breaks", breaks, ToolPolicy::read_only())
        .artifact_tools(tools)
}

pub(crate) async fn started() -> System {
    desk(&Arc::new(MemoryStore::new()), ArtifactTools::new()).start().await.unwrap()
}

/// Runs one call of a tool in a session, as a principal.
pub(crate) async fn call(system: &System, of: (&str, &str), tool: &str, args: JsonValue) -> TaskSnapshot {
    let (session, principal) = of;
    let system = system.acting_as(principal);
    let part = Part::tool_call(tool, args).unwrap();
    system.session(session).send(part).await.unwrap().finished().await.unwrap()
}

/// Returns the id of the first call of a task.
pub(crate) fn first_call(end: &TaskSnapshot) -> String {
    end.task().calls().iter().next().unwrap().request.call_id.clone()
}

/// Returns the answer of the last call of a task.
pub(crate) fn result(end: &TaskSnapshot) -> JsonValue {
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    end.answer().unwrap().tree().get("result").cloned().unwrap()
}

/// Views a text as a session's task.
pub(crate) async fn view(system: &System, of: (&str, &str), task: &str, artifact: &str) -> JsonValue {
    let args = json!({"task_id": task, "artifact_id": artifact, "line_end": 1});
    result(&call(system, of, "view_text_artifact", args).await)
}

pub(crate) fn text(shown: &JsonValue) -> Option<&str> {
    shown.pointer("/parts/0/text")?.as_str()
}
