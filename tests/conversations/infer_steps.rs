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
async fn a_tool_that_may_be_repeated_or_only_reads_is_called_each_time_and_any_other_once() {
    for (policy, made) in [
        (ToolPolicy::manual().repeatable(), 6),
        (ToolPolicy::read_only(), 6),
        (ToolPolicy::idempotent(), 1),
        (ToolPolicy::manual(), 1),
    ] {
        let (end, calls) = looking(6, None, policy).await;
        assert_eq!((end.state(), calls), (TaskState::Completed, made), "{}", end.to_json());
    }
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    #[serde(default)]
    text: String,
}

#[tokio::test]
async fn a_call_is_made_again_once_another_has_succeeded_since_and_not_before() {
    let step = |tool: &str, text: &str| {
        format!(r#"{{"type": "tool_call", "tool": "{tool}", "args": {{"text": "{text}"}}}}"#)
    };
    let (read, write, refused) = (step("read", ""), step("write", "b"), step("refuse", ""));
    for (script, notes) in [
        // What changed in between is read anew, as often as that happens.
        (vec![&read, &write, &read, &step("write", "c"), &read], "read, write b, read, write c, read"),
        // Nothing but the call itself, or a call that failed.
        (vec![&read, &read, &refused, &read], "read"),
        (vec![&write, &write], "write b"),
    ] {
        let script: Vec<&str> = script.into_iter().map(String::as_str).collect();
        let script = format!(r#"[{}, {{"type": "final", "content": "done"}}]"#, script.join(","));
        let made = Arc::new(std::sync::Mutex::new(Vec::new()));
        let [reads, writes] = [Arc::clone(&made), Arc::clone(&made)];
        let read = move |_: Note| {
            reads.lock().unwrap().push("read".to_owned());
            async { Ok::<_, Infallible>("a") }
        };
        let write = move |note: Note| {
            writes.lock().unwrap().push(format!("write {}", note.text));
            async { Ok::<_, Infallible>(()) }
        };
        let refuse = |_: Note| async { Err::<(), _>(taskreel::tool::ToolError::arguments("no")) };
        let system = System::builder("-")
            .store(Arc::new(MemoryStore::new()))
            .tool("read", "Reads", read)
            .tool("write", "Writes", write)
            .tool("refuse", "Refuses", refuse)
            .infer(Scripted::from_json(&script).unwrap())
            .start()
            .await
            .unwrap();
        let end = system.submit(Part::infer("go")).await.unwrap().finished().await.unwrap();
        assert_eq!((end.state(), made.lock().unwrap().join(", ").as_str()), (TaskState::Completed, notes));
        system.shutdown().await.unwrap();
    }
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
