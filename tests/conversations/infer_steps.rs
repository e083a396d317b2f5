//! The steps of a model: the most model calls for one part, and calls that it may make again.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Deserialize;
use taskreel::infer::Scripted;
use taskreel::tool::ToolPolicy;
use taskreel::{JsonSchema, Part, System, TaskSnapshot, TaskState};
use taskreel_log::memory::MemoryStore;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// Runs a model that looks `looks` times, with the same arguments, and then answers.
async fn looking(looks: usize, steps: Option<u32>, policy: ToolPolicy) -> (TaskSnapshot, u32) {
    let look = r#"{"type": "tool_call", "tool": "look", "args": {}}"#;
    let script =
        format!("[{}{}]", format!("{look},").repeat(looks), r#"{"type": "final", "content": "seen"}"#);
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let tool = move |_: Nothing| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, Infallible>("not yet") }
    };
    let builder = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .tool_with("look", "Looks", tool, policy)
        .infer(Scripted::from_json(&script).unwrap());
    let builder = match steps {
        Some(steps) => builder.infer_steps(steps),
        None => builder,
    };
    let system = builder.start().await.unwrap();
    let end = system.submit(Part::infer("wait for it")).await.unwrap().finished().await.unwrap();
    system.shutdown().await.unwrap();
    (end, calls.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_tool_that_may_be_repeated_is_called_each_time_and_any_other_once() {
    let policy = ToolPolicy::read_only;
    let (end, calls) = looking(6, None, policy().repeatable()).await;
    assert_eq!((end.state(), calls), (TaskState::Completed, 6), "{}", end.to_json());
    let (end, calls) = looking(6, None, policy()).await;
    assert_eq!((end.state(), calls), (TaskState::Completed, 1), "{}", end.to_json());
}

#[tokio::test]
async fn the_most_model_calls_are_ten_unless_the_agent_sets_another_number() {
    let policy = || ToolPolicy::read_only().repeatable();
    for (steps, most) in [(None, 10), (Some(3), 3), (Some(60), 60), (Some(0), 1)] {
        let (end, calls) = looking(most - 1, steps, policy()).await;
        let made = u32::try_from(most - 1).unwrap();
        assert_eq!((end.state(), calls), (TaskState::Completed, made), "{steps:?}: {}", end.to_json());
        let (end, _) = looking(most, steps, policy()).await;
        assert_eq!(end.state(), TaskState::Failed, "{steps:?}");
        let error = end.task().error().unwrap();
        assert!(error.contains(&format!("Maximum inference steps ({most}) exceeded")), "{error}");
    }
}
