//! Requests of tools to other agents share the room for open calls, the rest of a budget, and the parts of the run
//! in which they are made.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::time::Duration;

use crate::desk::{Desk, assert_sound, children, message, outputs};
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use serde::Deserialize;
use taskreel::limits::PARALLEL_CALLS_MAX;
use taskreel::testing::{TestSystem, system};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, JsonSchema, Part, PostedTask, TaskSnapshot, TaskState};
use taskreel_log::ports::Ports;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The prompts that a tool asks with, all at once.
#[derive(Deserialize, JsonSchema)]
struct Prompts {
    prompts: Vec<String>,
}

async fn all_at_once(cx: ToolContext, asks: Prompts) -> Result<String, ToolError> {
    let mut all = tokio::task::JoinSet::new();
    for prompt in asks.prompts {
        let cx = cx.clone();
        all.spawn(async move { cx.delegate("desk", prompt).await.is_ok() });
    }
    Ok(format!("{} answered", all.join_all().await.into_iter().filter(|is_ok| *is_ok).count()))
}

fn calls(prompts: &[&str]) -> Value {
    json!({"type": "tool_call", "content": json!({"tool_name": "all_at_once", "args": {"prompts": prompts}})})
}

/// Returns a system whose tool asks the desk with all its prompts at once.
async fn start(desk: &Desk) -> TestSystem {
    let desk = desk.clone();
    let policy = ToolPolicy::read_only();
    let describe = move |builder: Builder| {
        builder.tool_with("all_at_once", "Asks", all_at_once, policy.clone()).peer(desk.clone())
    };
    system(describe).await.unwrap()
}

fn posted(budget: &Value, parts: &[Value]) -> PostedTask {
    let posted = json!({
        "id": "t",
        "messages": [json!({"id": "m", "role": "user", "parts": parts})],
        "metadata": json!({"budget": budget.clone()}),
    });
    PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap()
}

/// Returns the limits of this name that the children of a task were given, oldest first.
fn given(end: &TaskSnapshot, limit: &str) -> Vec<Value> {
    let budget = |call: &proto_events::call::Call| {
        call.request.args.tree()["task"]["metadata"]["run_context"]["budget"][limit].clone()
    };
    children(end.task()).into_iter().map(budget).collect()
}

#[tokio::test]
async fn as_many_calls_as_may_be_open_each_get_the_answer_that_they_wait_for() {
    let desk = Desk::idempotent();
    let one = |cx: ToolContext, _: Nothing| async move {
        Ok::<_, ToolError>(cx.delegate("desk", "ok 50").await?.result.as_str().to_owned())
    };
    let policy = ToolPolicy::read_only().parallel();
    let peer = desk.clone();
    let describe =
        move |builder: Builder| builder.tool_with("one", "Asks", one, policy.clone()).peer(peer.clone());
    let system = system(describe).await.unwrap();
    let parts = (0..PARALLEL_CALLS_MAX).map(|_| Part::tool_call("one", json!({})).unwrap()).collect();
    let task = system.submit(message(parts)).await.unwrap();
    system.advance(Duration::from_millis(10)).await;
    let now = task.snapshot().await.unwrap();
    assert_eq!(now.task().calls().open().count(), 2 * PARALLEL_CALLS_MAX, "each call has its request");
    let end = system.finish(&task).await.unwrap();
    assert_eq!((end.state(), desk.times()), (TaskState::Completed, PARALLEL_CALLS_MAX));
    assert_sound(&system);
}

#[tokio::test]
async fn children_that_are_asked_at_once_are_together_given_no_more_than_the_task_has_left() {
    let desk = Desk::idempotent();
    let system = start(&desk).await;
    let budget = json!({"max_llm_calls": 10, "max_runtime_seconds": 100});
    // The desk uses three inferences for each answer.
    let parts = [calls(&["ok 50", "ok 50", "ok 50"]), calls(&["ok 50", "ok 50"])];
    let task = system.submit(posted(&budget, &parts)).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!(given(&end, "max_llm_calls"), [10, 0, 0, 1, 0].map(Value::from));
    let times = given(&end, "max_runtime_seconds");
    assert!(times.iter().all(|time| *time != json!(0)), "time passes for all alike: {times:?}");
    assert!(outputs(end.task()).contains("3 answered"), "{}", outputs(end.task()));
    assert_sound(&system);
}

#[tokio::test]
async fn a_request_in_a_continued_run_stands_at_the_part_that_continues_its_call() {
    let desk = Desk::idempotent();
    let asks = |cx: ToolContext, _: Nothing| async move {
        let city = cx.ask("Which city?").await?;
        Ok::<_, ToolError>(cx.delegate("desk", format!("ok 5 {city}")).await?.result.as_str().to_owned())
    };
    let peer = desk.clone();
    let describe = move |builder: Builder| {
        let builder = builder.tool("first", "Is first", |_: Nothing| async { Ok::<_, ToolError>("done") });
        builder.tool("asks", "Asks", asks).peer(peer.clone())
    };
    let system = system(describe).await.unwrap();
    let parts = ["first", "first", "asks"].map(|tool| Part::tool_call(tool, json!({})).unwrap());
    let task = system.submit(message(parts.into())).await.unwrap();
    assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::InputRequired);
    let now = task.snapshot().await.unwrap();
    let asked = now.task().open_questions().next().unwrap().request.clone();
    assert_eq!((asked.origin.run, asked.origin.part), (1, 2));
    task.answer(&asked.call_id, "Rome", "ada").await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
    let origin = &children(end.task())[0].request.origin;
    assert_eq!((origin.run, origin.part), (2, 1), "behind the answer");
    assert_sound(&system);
}

/// Time passes for all children alike: what they took together is not the time of the task.
#[tokio::test]
async fn children_that_work_side_by_side_do_not_use_up_the_time_of_their_task() {
    let desk = Desk::idempotent();
    let system = start(&desk).await;
    let budget = json!({"max_runtime_seconds": 10, "max_tool_calls": 9});
    let parts = [calls(&["ok 4000", "ok 4001", "ok 4002"]), calls(&["ok 1"])];
    let task = system.submit(posted(&budget, &parts)).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
    assert_eq!(desk.times(), 4);
    assert_sound(&system);
}
