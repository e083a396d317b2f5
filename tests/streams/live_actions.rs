//! A task's live events about the actions that a model requests: approvals, other agents.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;

use proto_events::json;
use proto_events::json::JsonValue as Value;
use serde::Deserialize;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, JsonSchema, Part, System};
use taskreel_log::memory::MemoryStore;

#[derive(Deserialize, JsonSchema)]
struct Cents {
    cents: i64,
}

/// Returns an agent whose model requests this action, then ends.
fn asks(action: &Value) -> Builder {
    let script =
        Scripted::new([Entry::json(action), Entry::json(&json!({"type": "final", "content": "ok"}))]);
    let pay = |args: Cents| async move { Ok::<_, Infallible>(args.cents) };
    System::builder("in memory").store(Arc::new(MemoryStore::new())).stateless().infer(script).tool_with(
        "pay",
        "Pays",
        pay,
        ToolPolicy::manual().capabilities(["money.spend"]),
    )
}

/// Returns the events of a run by the names of their payloads, with their metadata.
async fn told(system: &System) -> Vec<(String, Value)> {
    let task = system.submit(Part::infer("go")).await.unwrap();
    task.finished().await.unwrap();
    let (mut events, mut told) = (task.events().await.unwrap(), Vec::new());
    while let Some(event) = events.next().await {
        let event = event.unwrap().to_json().tree();
        let name = event.get("llm_event_type").unwrap_or(&event["type"]);
        told.push((name.as_str().unwrap().to_owned(), event["metadata"].clone()));
    }
    told
}

/// Returns the names between the model's action and what follows it.
fn after_action(told: &[(String, Value)]) -> Vec<&str> {
    let names = told.iter().map(|(name, _)| name.as_str());
    names.skip_while(|name| *name != "llm_action").skip(1).take_while(|name| *name != "llm_step").collect()
}

#[tokio::test]
async fn an_approval_is_told_once_with_who_gave_it_and_the_call_follows() {
    let allows = |_: ApprovalRequest| async { ApprovalVerdict::Approved };
    let system = asks(&json!({"type": "tool_call", "tool": "pay", "args": {"cents": 5}}))
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .approval_handler(allows)
        .start()
        .await
        .unwrap();
    let told = told(&system).await;
    assert_eq!(
        after_action(&told),
        [
            "action_requested",
            "policy_decision",
            "approval_required",
            "approval_decision",
            "tool_start",
            "tool_result"
        ]
    );
    let of = |name: &str| told.iter().find(|(told, _)| told == name).unwrap().1.clone();
    assert_eq!(of("policy_decision")["decision"]["effect"], "require_approval");
    assert_eq!(of("action_requested")["action"]["payload"]["arguments"], json!({"cents": 5}));
    assert_eq!(of("approval_decision")["decision"]["approved"], true);
    assert_eq!(
        of("tool_start")["action_id"],
        of("action_requested")["action"]["action_id"],
        "one action, one id"
    );
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_question_to_another_agent_is_told_with_what_it_answered() {
    let other = System::builder("in memory")
        .store(Arc::new(MemoryStore::new()))
        .name("weather")
        .infer(Scripted::new([Entry::json(&json!({"type": "final", "content": "4 degrees"}))]))
        .start()
        .await
        .unwrap();
    let asked = json!({"type": "agent_call", "agent": "weather", "action": "infer", "prompt": "cold?"});
    let system = asks(&asked).peer(other.peer()).start().await.unwrap();
    let told = told(&system).await;
    assert_eq!(
        after_action(&told),
        ["action_requested", "policy_decision", "agent_call_start", "agent_call_result"]
    );
    let of = |name: &str| told.iter().find(|(told, _)| told == name).unwrap().1.clone();
    assert_eq!(of("action_requested")["action"]["kind"], "agent.call");
    assert_eq!(of("agent_call_start")["payload"], asked);
    let result = of("agent_call_result");
    assert_eq!([&result["agent"], &result["action"], &result["result"]], ["weather", "infer", "4 degrees"]);
    system.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
}
