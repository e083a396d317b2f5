//! A log with runs of several ends: completed, failed, canceled; waiting for an approval, an answer, an outcome; a conversation in
//! which the model asks for a tool that is not there.

use std::time::Duration;

use serde_json::json;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{JsonSchema, Part, System};

use crate::support::{builder, tool_task};

#[derive(serde::Deserialize, JsonSchema)]
struct Nothing {}

/// Returns a system in memory that has done all of it.
pub(crate) async fn seeded() -> System {
    let pays = |_: Nothing| async { Ok::<_, ToolError>(7) };
    let asks = |context: ToolContext, _: Nothing| async move { context.ask("Which one?").await };
    let fails = |_: Nothing| async { Err::<u8, _>(ToolError::failed("no table tonight")) };
    let hangs = |_: Nothing| async {
        std::future::pending::<()>().await;
        Ok::<_, ToolError>(0)
    };
    let policy = ToolPolicy::manual().capabilities(["money.spend"]);
    let impatient = ToolPolicy::manual().timeout(Duration::from_millis(20));
    let says = |content: &str| json!({"type": "final", "content": content});
    let absent = json!({"type": "tool_call", "tool": "absent", "args": {}});
    let answers = [&says("hello"), &says("again"), &absent, &says("sorry")];
    let system = builder()
        .infer(Scripted::new(answers.map(Entry::json)))
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .approvals_by_person()
        .tool_with("pay", "Pays", pays, policy)
        .tool_with("hang", "Hangs", hangs, impatient)
        .tool("choose", "Chooses", asks)
        .tool("fail", "Fails", fails)
        .start()
        .await
        .unwrap();
    for (id, tool, args) in [
        ("echo-0001", "echo", r#"{"text": "a\nb"}"#),
        ("fail-0001", "fail", "{}"),
        ("pay-0001", "pay", "{}"),
        ("ask-0001", "choose", "{}"),
        ("hang-0001", "hang", "{}"),
        ("../odd", "echo", r#"{"text": "dots"}"#),
    ] {
        post(&system, id, tool, args).await;
    }
    for prompt in ["Hi", "And now?", "With a tool?"] {
        system.session("talk").send(Part::infer(prompt)).await.unwrap().finished().await.unwrap();
    }
    system
}

/// Runs a task that calls a tool, as far as it goes without a person.
pub(crate) async fn post(system: &System, id: &str, tool: &str, args: &str) {
    let task = tool_task(id, tool, args);
    let posted = proto_events::model::PostedTask::parse(&task, &mut taskreel::Ports::default()).unwrap();
    system.submit(posted).await.unwrap().finished().await.unwrap();
}
