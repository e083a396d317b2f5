//! Secret values that arrive where no declared argument is: in the calls of a tool that the agent no longer has.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "secrets/bench.rs"]
mod bench;

use bench::{Bench, PASSWORD, ended, files, login, spills};
use proto_events::json;
use proto_events::json::JsonText;
use taskreel::infer::Scripted;
use taskreel::tool::ToolPolicy;
use taskreel::{System, TaskState};

#[tokio::test]
async fn the_values_of_a_tool_that_the_agent_no_longer_has_are_replaced_as_before() {
    let dir = tempfile::tempdir().unwrap();
    Bench::default().start(dir.path(), ToolPolicy::idempotent()).await.shutdown().await.unwrap();
    let args = json!({"user": "ada", "password": PASSWORD});
    let text = json!({"type": "tool_call", "tool": "login", "args": args.clone()});
    let native = json!({"calls": [json!({"tool": "login", "args": args})]});
    let answer = json!({"type": "final", "content": "done"});
    let script = JsonText::from(json!([text, native, answer]));
    // Two more starts: the declaration is remembered beyond the next one.
    System::builder(dir.path()).system_prompt("Be brief.").start().await.unwrap().shutdown().await.unwrap();
    let builder = System::builder(dir.path()).infer(Scripted::from_json(script.as_str()).unwrap());
    let system = builder.start().await.unwrap();
    let part = json!({"type": "infer", "content": json!({"prompt": "log in"})});
    let end = ended(&system.submit(bench::task("asked", &part)).await.unwrap()).await;
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    let posted = ended(&system.submit(login(PASSWORD)).await.unwrap()).await;
    assert!(posted.to_json().as_str().contains("Tool 'login' not found"), "{}", posted.to_json());
    system.shutdown().await.unwrap();
    assert!(spills(dir.path()).is_empty(), "the log holds the value: {:?}", spills(dir.path()));
    assert!(files(dir.path()).is_empty(), "no call needs the value");
}
