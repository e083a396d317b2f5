//! A host's clock that panics once, whenever that is: no wait of a task is lost with it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;
use std::time::Duration;

use proto_events::json;
use proto_events::json::{JsonText, JsonValue};
use serde::Deserialize;
use taskreel::testing::system;
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, Error, JsonSchema, PostedTask, TaskState};
use taskreel_log::ports::Ports;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn hangs(_: Nothing) -> Result<(), Infallible> {
    std::future::pending().await
}

fn described(builder: Builder) -> Builder {
    let late = ToolPolicy::idempotent().concurrency(1).deadline(Duration::from_secs(3));
    builder.tool("hangs", "Hangs", hangs).tool_with("late", "Hangs, one at a time", hangs, late)
}

/// Returns a task that calls a tool, with a time limit of this many seconds.
fn limited(id: &str, tool: &str, seconds: &JsonValue) -> PostedTask {
    let content = json!({"tool_name": tool, "args": json!({})});
    let part = json!({"type": "tool_call", "content": content});
    let message = json!({"id": "m", "role": "user", "timestamp": "x", "parts": [part]});
    let budget = json!({"max_runtime_seconds": seconds.clone()});
    let metadata = json!({"run_context": json!({"budget": budget})});
    let posted = json!({"id": id, "created_at": "x", "messages": [message], "metadata": metadata});
    PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap()
}

fn is_of_the_clock(error: &Error) -> bool {
    error.to_string().contains("the clock broke")
}

#[tokio::test]
async fn a_time_limit_ends_its_run_whichever_use_of_the_clock_panics() {
    let mut kept = 0;
    for uses in 1..=12 {
        let system = system(described).await.unwrap();
        system.clock().panic_at(uses);
        match system.submit(limited("t", "hangs", &json!(2.0))).await {
            Ok(_) => kept += 1,
            Err(error) => assert!(is_of_the_clock(&error), "{uses}: {error}"),
        }
        system.advance(Duration::from_millis(2_100)).await;
        if let Ok(now) = system.task("t").unwrap().snapshot().await {
            let has_ended = now.state() != TaskState::Working;
            assert!(has_ended, "use {uses}: the run goes on after its time: {}", now.to_json());
        }
    }
    assert!(kept > 6, "most uses do not stand in the way of the submission");
}

#[tokio::test]
async fn the_deadline_of_a_call_that_waits_for_its_turn_ends_the_wait_whichever_use_of_the_clock_panics() {
    for uses in 1..=12 {
        let system = system(described).await.unwrap();
        system.submit(limited("first", "late", &json!(null))).await.unwrap();
        system.advance(Duration::from_millis(1)).await;
        system.clock().panic_at(uses);
        if let Err(error) = system.submit(limited("second", "late", &json!(null))).await {
            assert!(is_of_the_clock(&error), "{uses}: {error}");
        }
        system.advance(Duration::from_millis(3_100)).await;
        if let Ok(now) = system.task("second").unwrap().snapshot().await {
            let has_ended = now.state() != TaskState::Working;
            assert!(has_ended, "use {uses}: the call waits after its deadline: {}", now.to_json());
        }
    }
}
