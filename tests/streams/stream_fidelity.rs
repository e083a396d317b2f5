//! A task's stream in the cases in which a run breaks: the events are those of Protolink 0.6.4.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;

use proto_events::json;
use proto_events::json::JsonValue as Value;
use proto_events::model::PostedTask;
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{Builder, JsonSchema, System};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;

#[derive(Deserialize, JsonSchema)]
struct Cents {
    cents: i64,
}

/// Returns an agent with the tools `pay`, which needs `money.spend`, and `fail`.
fn agent(replies: &[Value]) -> Builder {
    let pay = |args: Cents| async move { Ok::<_, Infallible>(args.cents) };
    let fail = |_: Cents| async { Err::<(), _>(ToolError::failed("broke")) };
    System::builder("in memory")
        .store(Arc::new(MemoryStore::new()))
        .stateless()
        .infer(Scripted::new(replies.iter().map(Entry::json)))
        .tool_with("pay", "Pays", pay, ToolPolicy::manual().capabilities(["money.spend"]))
        .tool("fail", "Fails", fail)
}

fn call(tool: &str, cents: i64) -> Value {
    json!({"type": "tool_call", "tool": tool, "args": {"cents": cents}})
}

fn part(tool: &str) -> Value {
    json!({"type": "tool_call", "content": {"tool_name": tool, "args": {"cents": 1}, "call_id": "c"}})
}

fn infer() -> Value {
    json!({"type": "infer", "content": {"prompt": "go"}})
}

fn posted(parts: &[Value], metadata: &Value) -> PostedTask {
    let message = json!({"role": "user", "parts": parts.to_vec()});
    let task = json!({"id": "t", "messages": [message], "metadata": metadata});
    PostedTask::from_json(&task.into(), &mut Ports::default()).unwrap()
}

/// Returns the events of the task's run, by the names of their payloads.
async fn events(system: &System) -> Vec<(String, Value)> {
    let (mut events, mut told) = (system.task("t").unwrap().events().await.unwrap(), Vec::new());
    while let Some(event) = events.next().await {
        let event = event.unwrap().to_json().tree();
        let name = event.get("llm_event_type").unwrap_or(&event["type"]);
        told.push((name.as_str().unwrap().to_owned(), event));
    }
    told
}

async fn run(builder: Builder, parts: &[Value], metadata: &Value) -> Vec<(String, Value)> {
    let system = builder.start().await.unwrap();
    let task = system.submit(posted(parts, metadata)).await.unwrap();
    task.finished().await.unwrap();
    let events = events(&system).await;
    system.shutdown().await.unwrap();
    events
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

fn of<'a>(events: &'a [(String, Value)], name: &str) -> &'a Value {
    &events.iter().find(|(told, _)| told == name).expect("the event is told").1
}

/// Returns the names between the model's action and the end.
fn after_action(events: &[(String, Value)]) -> Vec<&str> {
    names(events).into_iter().skip_while(|name| *name != "llm_action").skip(1).collect()
}

#[tokio::test]
async fn an_error_output_of_an_earlier_part_hides_neither_the_error_nor_the_progress_of_a_later_one() {
    let denies = CapabilityPolicy::new().deny("money.*");
    let builder = agent(&[]).capability_policy(denies);
    let told = run(builder, &[part("fail"), part("pay")], &json!({})).await;
    let progress = told.iter().filter(|(name, _)| name == "task_progress");
    let progress: Vec<&str> = progress.map(|(_, event)| event["message"].as_str().unwrap()).collect();
    assert_eq!(progress, ["Executing tool: fail", "Executing tool: pay"]);
    let error = of(&told, "task_error");
    assert_eq!(error["error_code"], "task_failed");
    assert_eq!(error["error_message"], "Action 'pay' denied: Denied capabilities: money.spend");
    let end: Vec<&str> = names(&told).into_iter().rev().take(2).collect();
    assert_eq!(end, ["task_status_update", "task_error"]);
    assert_eq!(told.last().unwrap().1["new_state"], "failed");
}

#[tokio::test]
async fn an_error_output_of_the_last_part_is_no_error_of_the_run() {
    let told = run(agent(&[]), &[part("pay"), part("fail")], &json!({})).await;
    assert!(!names(&told).contains(&"task_error"), "{:?}", names(&told));
    assert_eq!(told.last().unwrap().1["new_state"], "failed");
}

#[tokio::test]
async fn an_action_that_the_policy_denies_is_told_with_the_decision() {
    let builder = agent(&[call("pay", 5)]).capability_policy(CapabilityPolicy::new().deny("money.*"));
    let told = run(builder, &[infer()], &json!({})).await;
    assert_eq!(
        after_action(&told),
        ["action_requested", "policy_decision", "action_denied", "task_error", "task_status_update"]
    );
    let action = &of(&told, "action_requested")["metadata"]["action"];
    assert_eq!([&action["kind"], &action["name"]], ["tool.call", "pay"]);
    assert_eq!(action["payload"], json!({"arguments": {"cents": 5}}));
    let decision = &of(&told, "policy_decision")["metadata"]["decision"];
    assert_eq!([&decision["effect"], &decision["reason"]], ["deny", "Denied capabilities: money.spend"]);
    assert_eq!(decision["matched_capabilities"], json!(["money.spend"]));
    let denied = &of(&told, "action_denied")["metadata"];
    assert_eq!(denied["action"], *action);
    assert_eq!(denied["message"], "Action 'pay' denied: Denied capabilities: money.spend");
    assert_eq!(of(&told, "task_error")["error_code"], "llm_stream_failed");
}

#[tokio::test]
async fn an_action_that_nobody_can_approve_is_told_with_the_request() {
    let asks = CapabilityPolicy::new().require_approval("*");
    let question = json!({"type": "agent_call", "agent": "w", "action": "infer", "prompt": "p"});
    for (reply, kind) in [(call("pay", 5), "tool.call"), (question, "agent.call")] {
        let other = agent(&[]).name("w").start().await.unwrap();
        let builder = agent(&[reply]).capability_policy(asks.clone()).peer(other.peer());
        let told = run(builder, &[infer()], &json!({})).await;
        assert_eq!(
            after_action(&told),
            ["action_requested", "policy_decision", "approval_required", "task_error", "task_status_update"]
        );
        let request = &of(&told, "approval_required")["metadata"]["request"];
        assert_eq!(request["action"]["kind"], kind);
        assert_eq!(request["policy_decision"]["effect"], "require_approval");
        other.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn of_two_limits_that_are_near_at_once_only_the_first_is_warned_of() {
    let replies = [call("pay", 1), call("pay", 2), json!({"type": "final", "content": "ok"})];
    let budget = json!({"max_steps": 3, "max_llm_calls": 3, "max_tool_calls": 2});
    let told = run(agent(&replies), &[infer()], &json!({"budget": budget})).await;
    let warnings = told.iter().filter(|(name, _)| name == "budget_warning");
    let limits: Vec<&str> =
        warnings.map(|(_, event)| event["metadata"]["decision"]["limit_name"].as_str().unwrap()).collect();
    assert_eq!(limits, ["max_tool_calls", "max_steps"]);
    assert_eq!(told.last().unwrap().1["new_state"], "completed");
}

#[tokio::test]
async fn an_empty_reply_is_one_empty_chunk() {
    let system =
        System::builder("in memory").store(Arc::new(MemoryStore::new())).stateless().infer(Scripted::new([
            Entry::Text(String::new()),
            Entry::json(&json!({"type": "final", "content": "ok"})),
        ]));
    let told = run(system, &[infer()], &json!({})).await;
    let first: Vec<&str> =
        names(&told).into_iter().skip_while(|name| *name != "llm_call_started").skip(1).take(2).collect();
    assert_eq!(first, ["llm_chunk", "llm_parse_error"]);
    assert_eq!(of(&told, "llm_chunk")["content"], "");
}

#[tokio::test]
async fn arguments_that_do_not_fit_use_nothing_of_the_tool_budget() {
    let wrong = json!({"type": "tool_call", "tool": "pay", "args": {"cents": "many"}});
    let replies = [call("pay", 1), wrong, json!({"type": "final", "content": "ok"})];
    let told = run(agent(&replies), &[infer()], &json!({"budget": {"max_tool_calls": 1}})).await;
    assert_eq!(told.last().unwrap().1["new_state"], "completed", "{:?}", names(&told));
    assert!(!names(&told).contains(&"budget_exceeded"));
}
