//! MCP servers that are down, slow or hostile: each costs its own tools only, is told, and is tried again.

#![cfg(all(feature = "mcp", feature = "testing"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto_events::definition::{AgentHistory, Aspect};
use proto_events::id::{StreamId, Version};
use proto_events::json;
use proto_events::json::JsonValue as Value;
use proto_events::system::SystemEvent;
use serde::Deserialize;
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{McpServer, McpServerState, McpServerStatus, ToolPolicy};
use taskreel::{Builder, Error, JsonSchema, Part, System, TaskSnapshot, TaskState};
use taskreel_log::api::{EventReader, EventStore as _};
use taskreel_log::audit::verify;
use taskreel_log::doctor::examine;
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::{decode_record, fold_stream};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_support/server.py")
}

/// Whether the server can be run at all.
fn python() -> bool {
    if Command::new("python3").arg("--version").output().is_ok_and(|ran| ran.status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "CI=true, but there is no python3");
    eprintln!("not checked: there is no python3, so that no server could be run");
    false
}

fn server(folder: &Path, lists: &str) -> McpServer {
    let server = McpServer::stdio("small", "python3").arg("-B").arg(script());
    server.env("JOURNAL", folder.join("journal")).env("LISTS", lists)
}

/// Returns a system that has a tool of its own.
fn system() -> Builder {
    let own = |_: Nothing| async { Ok::<_, Infallible>("mine") };
    System::builder("-").store(Arc::new(MemoryStore::new())).tool("own", "Ours", own)
}

async fn call(system: &System, tool: &str, args: Value) -> TaskSnapshot {
    let part = Part::tool_call(tool, args).unwrap();
    system.submit(part).await.unwrap().finished().await.unwrap()
}

fn only(system: &System) -> McpServerStatus {
    let mut servers = system.mcp_servers();
    assert_eq!(servers.len(), 1);
    servers.remove(0)
}

fn why(status: &McpServerStatus) -> String {
    match &status.state {
        McpServerState::Unavailable { why, .. } => why.clone(),
        other => panic!("{other:?}"),
    }
}

fn listed(status: &McpServerStatus) -> Vec<String> {
    match &status.state {
        McpServerState::Listed { tools } => tools.clone(),
        other => panic!("{other:?}"),
    }
}

/// Waits until the server has listed its tools.
async fn until_listed(system: &System) -> Vec<String> {
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            if let McpServerState::Listed { tools } = only(system).state {
                return tools;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("never listed: {:?}", only(system)))
}

#[tokio::test]
async fn a_server_that_is_down_costs_its_own_tools_only_and_is_told_without_secrets() {
    let missing = McpServer::stdio("none", "no-such-program-here").env("TOKEN", "t0ken-t0ken");
    let started = system().mcp(missing).start().await.unwrap();
    let status = only(&started);
    assert!(why(&status).starts_with("no-such-program-here cannot be started"), "{status:?}");
    assert_eq!(call(&started, "own", json!({})).await.state(), TaskState::Completed);
    assert_eq!(call(&started, "none_x", json!({})).await.state(), TaskState::Failed);
    started.shutdown().await.unwrap();
    // A port that was free a moment ago: no server listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = McpServer::http("web", format!("http://u:pa55word@127.0.0.1:{port}/mcp?key=k3y-of-mine"));
    let started = system().own_runtime(1).mcp(nobody).start().await.unwrap();
    let words = why(&only(&started));
    assert!(words.contains(&format!("http://127.0.0.1:{port}/mcp")), "{words}");
    assert!(!words.contains("pa55word") && !words.contains("k3y-of-mine"), "{words}");
    started.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_name_that_is_listed_twice_is_in_use_or_is_none_is_left_out_with_the_reason() {
    if !python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let taken = |_: Nothing| async { Ok::<_, Infallible>("ours") };
    for (lists, left_out) in [
        ("twice", vec![("small_echo", "already in use"), ("small_add", "twice")]),
        (
            "bad",
            vec![
                ("small_echo", "already in use"),
                ("small_new\nline", "control"),
                ("small_xxx", "the limit is 200"),
            ],
        ),
    ] {
        let builder = system().tool("small_echo", "Ours", taken).mcp(server(folder.path(), lists));
        let system = builder.start().await.unwrap();
        let status = only(&system);
        for (tool, why) in left_out {
            let found = status.left_out.iter().find(|out| out.tool.starts_with(tool));
            assert!(found.is_some_and(|out| out.why.contains(why)), "{tool} {why}: {:?}", status.left_out);
            assert!(found.is_some_and(|out| out.tool.len() <= 200));
        }
        let added = call(&system, "small_add", json!({"a": 2, "b": 3})).await;
        assert_eq!(added.state(), TaskState::Completed, "{lists}: the first of the name is used");
        let ours = call(&system, "small_echo", json!({})).await;
        assert!(ours.to_json().as_str().contains("ours"), "our own tool is not replaced");
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn tools_that_are_too_large_alone_or_together_are_left_out_and_the_system_starts() {
    if !python() {
        return;
    }
    for (lists, tool, why, admitted) in
        [("large", "small_large", "at most 65536", 0), ("many", "small_many99", "1048576", 17)]
    {
        let folder = tempfile::tempdir().unwrap();
        let system = system().mcp(server(folder.path(), lists)).start().await.unwrap();
        let status = only(&system);
        let found = status.left_out.iter().find(|out| out.tool == tool);
        assert!(found.is_some_and(|out| out.why.contains(why)), "{lists}: {found:?}");
        let names = until_listed(&system).await;
        assert_eq!(names.iter().filter(|name| name.contains("many")).count(), admitted, "{names:?}");
        assert_eq!(call(&system, "small_add", json!({"a": 2, "b": 3})).await.state(), TaskState::Completed);
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_list_without_an_end_is_bounded_and_the_system_starts_at_once() {
    if !python() {
        return;
    }
    let (folder, began) = (tempfile::tempdir().unwrap(), Instant::now());
    let system = system().mcp(server(folder.path(), "endless")).start().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(why(&only(&system)).contains("more than 100 pages"), "{:?}", only(&system));
    assert_eq!(call(&system, "own", json!({})).await.state(), TaskState::Completed);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_waited_for_no_longer_than_it_says() {
    if !python() {
        return;
    }
    let (folder, began) = (tempfile::tempdir().unwrap(), Instant::now());
    let silent = server(folder.path(), "never").start_wait(Duration::from_millis(50));
    let system = system().mcp(silent).start().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(only(&system).state, McpServerState::Connecting);
    assert_eq!(call(&system, "own", json!({})).await.state(), TaskState::Completed);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_server_that_comes_up_later_is_used_and_the_log_has_the_new_definition_first() {
    if !python() {
        return;
    }
    let (folder, store) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new()));
    // The program does not exist yet.
    let program = folder.path().join("server");
    let server = McpServer::stdio("small", &program).env("JOURNAL", folder.path().join("journal"));
    let model = Scripted::new([
        Entry::json(&json!({"type": "tool_call", "tool": "small_add", "args": {"a": 2, "b": 3}})),
        Entry::json(&json!({"type": "final", "content": "5"})),
    ]);
    let builder = System::builder("-").store(store.clone()).infer(model.clone());
    let system = builder.mcp(server.policy("eco", ToolPolicy::read_only())).start().await.unwrap();
    assert!(why(&only(&system)).contains("cannot be started"), "{:?}", only(&system));

    let run = format!("#!/bin/sh\nexec python3 -B '{}'\n", script().display());
    std::fs::write(folder.path().join("new"), run).unwrap();
    let made = Command::new("chmod").arg("+x").arg(folder.path().join("new")).status().unwrap();
    assert!(made.success());
    std::fs::rename(folder.path().join("new"), &program).unwrap();
    let tools = until_listed(&system).await;
    assert!(tools.contains(&"small_add".to_owned()), "{tools:?}");
    let left_out = only(&system).left_out;
    assert!(left_out[0].tool == "small_eco" && left_out[0].why.contains("no such tool"), "{left_out:?}");

    let task = system.submit(Part::infer("go")).await.unwrap().finished().await.unwrap();
    assert_eq!(task.state(), TaskState::Completed, "{}", task.to_json());
    assert!(model.requests()[0].tools.iter().any(|tool| tool.name == "small_add"), "the model is shown it");
    let stream = StreamId::of_agent("agent").unwrap();
    let history = fold_stream::<AgentHistory>(store.as_ref(), &stream, None).unwrap().state;
    assert_eq!(history.number(), 2, "the change is recorded once");
    let tools = |number| history.revision(number).unwrap().text(Aspect::Tools).to_owned();
    assert!(!tools(1).contains("small_add") && tools(2).contains("small_add"));
    system.shutdown().await.unwrap();
    let log = store.reopen().unwrap();
    let found = verify(log.as_ref());
    assert!(found.findings.is_empty(), "{:?}", found.findings);
    let seen = events(log.as_ref());
    let [SystemEvent::Started(_), SystemEvent::ToolServerSeen(down), SystemEvent::ToolServerSeen(up), end] =
        &seen[..]
    else {
        panic!("{seen:?}");
    };
    assert!(down.failure.as_ref().is_some_and(|why| why.contains("cannot be started")), "{down:?}");
    assert!(up.failure.is_none() && up.tools.contains(&"small_add".to_owned()), "{up:?}");
    assert_eq!(up.left_out[0].tool, "small_eco");
    assert!(matches!(end, SystemEvent::Stopped { reason: None, .. }), "{end:?}");
}

/// Returns the events of the system's stream, in order.
fn events(log: &dyn EventReader) -> Vec<SystemEvent> {
    let records = log.read_stream(&StreamId::of_system(0), Version(1), usize::MAX).unwrap();
    let read = records.iter().flat_map(|record| decode_record::<SystemEvent>(record).unwrap());
    read.map(|recorded| recorded.event).collect()
}

#[tokio::test]
async fn doctor_tells_of_a_server_that_was_down_until_a_program_begins_that_does_not_miss_it() {
    let dir = tempfile::tempdir().unwrap();
    let own = |_: Nothing| async { Ok::<_, Infallible>("mine") };
    let builder = || System::builder(dir.path()).tool("own", "Ours", own);
    let missing = McpServer::stdio("none", "no-such-program-here").env("TOKEN", "t0ken-t0ken");
    let system = builder().mcp(missing).start().await.unwrap();
    system.reopen().await.unwrap();
    system.shutdown().await.unwrap();
    let told = |notes: &[String]| notes.iter().any(|note| note.contains("the tools of none are missing"));
    let found = examine(dir.path()).unwrap();
    assert!(found.findings.is_empty() && told(&found.notes), "{found:?}");
    assert!(!format!("{found:?}").contains("t0ken"), "{found:?}");
    builder().start().await.unwrap().shutdown().await.unwrap();
    let found = examine(dir.path()).unwrap();
    assert!(!told(&found.notes), "{found:?}");
}

#[tokio::test]
async fn a_policy_of_the_host_that_contradicts_itself_is_refused_before_a_server_is_asked() {
    let policy = ToolPolicy::manual().parallel();
    let server = McpServer::stdio("none", "no-such-program-here").policy("x", policy);
    let refused = system().mcp(server).start().await;
    assert!(matches!(refused, Err(Error::Builder(_))), "{refused:?}");
}

#[tokio::test]
async fn of_two_servers_the_first_keeps_its_names() {
    if !python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let builder = system().mcp(server(folder.path(), "")).mcp(server(folder.path(), ""));
    let system = builder.start().await.unwrap();
    let servers = system.mcp_servers();
    assert!(listed(&servers[0]).contains(&"small_add".to_owned()));
    assert!(listed(&servers[1]).is_empty());
    assert!(servers[1].left_out.iter().all(|out| out.why.contains("set a prefix")), "{servers:?}");
    system.shutdown().await.unwrap();
}
