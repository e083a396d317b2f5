//! Four MCP servers that many people run, from the npm registry: `npm ci` in `tests/wild/npm` gets them.

#![cfg(all(feature = "mcp", feature = "testing"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::path::PathBuf;
use std::sync::Arc;

use proto_events::call::{CallKind, CallStatus};
use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{McpServer, McpServerState, ToolPolicy};
use taskreel::{Part, System, TaskState};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;

/// Returns a server, which node runs; none where it is not installed.
fn server(name: &str, words: &[&str]) -> Option<McpServer> {
    let file = format!("tests/wild/npm/node_modules/@modelcontextprotocol/server-{name}/dist/index.js");
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    if !file.exists() {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "CI=true, but {} is not there",
            file.display()
        );
        eprintln!("not checked: run npm ci in tests/wild/npm");
        return None;
    }
    let server = McpServer::stdio("s", "node").arg(file).prefix("");
    Some(words.iter().fold(server, McpServer::arg))
}

/// Starts a system whose model asks for these calls, one after another, and then ends.
async fn asking(server: McpServer, calls: &[(&str, Value)]) -> System {
    let ask =
        |(tool, args): &(&str, Value)| Entry::json(&json!({"type": "tool_call", "tool": tool, "args": args}));
    let end = Entry::json(&json!({"type": "final", "content": "done"}));
    let model = Scripted::new(calls.iter().map(ask).chain([end]));
    System::builder("-").store(Arc::new(MemoryStore::new())).mcp(server).infer(model).start().await.unwrap()
}

/// Has the model make the calls in one conversation, and returns their results in order.
async fn results(server: McpServer, calls: &[(&str, Value)]) -> Vec<String> {
    let system = asking(server, calls).await;
    let done = system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
    assert_eq!(done.state(), TaskState::Completed, "{}", done.to_json());
    let made = done.task().calls().iter().filter(|call| call.request.kind == CallKind::Tool);
    let results = made.map(|call| match &call.status {
        CallStatus::Succeeded(result) => result.to_string(),
        other => panic!("{}: {other:?}", call.request.target),
    });
    let results: Vec<String> = results.collect();
    assert_eq!(results.len(), calls.len(), "each call is made once: {results:?}");
    assert!(verify(system.log().as_ref()).is_sound());
    system.shutdown().await.unwrap();
    results
}

#[tokio::test]
async fn the_server_with_everything_is_listed_called_and_left_out_where_it_wants_what_is_not_there() {
    let Some(everything) = server("everything", &["stdio"]) else { return };
    let system = asking(everything.clone(), &[]).await;
    let McpServerState::Listed { tools } = system.mcp_servers().remove(0).state else {
        panic!("it is not listed")
    };
    assert!(tools.len() >= 12, "{tools:?}");
    assert!(
        !tools.iter().any(|tool| tool == "simulate-research-query"),
        "it is only called as a task of MCP"
    );
    system.shutdown().await.unwrap();
    let told = results(
        everything,
        &[
            ("echo", json!({"message": "内部 \"quoted\""})),
            ("get-sum", json!({"a": 2, "b": 40})),
            ("get-structured-content", json!({"location": "Chicago"})),
            ("get-tiny-image", json!({})),
            ("get-resource-links", json!({"count": 2})),
            ("get-annotated-message", json!({"messageType": "error", "includeImage": true})),
            ("trigger-long-running-operation", json!({"duration": 1, "steps": 2})),
        ],
    )
    .await;
    assert!(told[0].contains("内部") && told[1].contains("42"), "{told:?}");
    assert!(told[2].contains("temperature") && !told[2].contains("structuredContent"), "{}", told[2]);
    // A picture is words to a model that reads text, and no base64.
    assert!(told[3].contains("image/png") && told[3].len() < 2_000, "{}", told[3]);
    assert!(told[4].matches("demo://").count() >= 2, "{}", told[4]);
}

#[tokio::test]
async fn a_file_is_written_read_changed_and_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let Some(files) = server("filesystem", &[root.to_str().unwrap()]) else { return };
    let file = root.join("note.txt").display().to_string();
    let read = ("read_text_file", json!({"path": file}));
    let told = results(
        files.policy("read_text_file", ToolPolicy::read_only()),
        &[
            ("write_file", json!({"path": file, "content": "one\n"})),
            read.clone(),
            ("edit_file", json!({"path": file, "edits": [{"oldText": "one", "newText": "two"}]})),
            read,
            ("list_directory", json!({"path": root.display().to_string()})),
        ],
    )
    .await;
    assert!(told[1].contains("one") && told[3].contains("two") && !told[3].contains("one"), "{told:?}");
    assert!(told[4].contains("note.txt"), "{told:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two\n");
}

#[tokio::test]
async fn what_the_memory_server_was_told_it_tells_again() {
    let dir = tempfile::tempdir().unwrap();
    let Some(memory) = server("memory", &[]) else { return };
    let memory = memory.env("MEMORY_FILE_PATH", dir.path().join("memory.jsonl").display().to_string());
    let ada = json!({"name": "Ada", "entityType": "person", "observations": ["likes trains"]});
    let told = results(
        memory,
        &[
            ("create_entities", json!({"entities": [ada]})),
            ("search_nodes", json!({"query": "trains"})),
            ("read_graph", json!({})),
        ],
    )
    .await;
    assert!(told.iter().all(|result| result.contains("Ada")), "{told:?}");
}

#[tokio::test]
async fn the_server_of_thoughts_takes_them_as_the_model_writes_them() {
    let Some(thinking) = server("sequential-thinking", &[]) else { return };
    let thought = |number: u64| {
        let args =
            json!({"thought": "so", "nextThoughtNeeded": true, "thoughtNumber": number, "totalThoughts": 2});
        ("sequentialthinking", args)
    };
    let told = results(thinking, &[thought(1), thought(2)]).await;
    assert!(told[1].contains("\"thoughtNumber\":2") || told[1].contains("\"thoughtNumber\": 2"), "{told:?}");
}
