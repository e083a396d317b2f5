//! MCP servers as they are in the wild, by `tests/wild/bin/mcp_fake.py`: odd schemas, lists, answers, lines and launchers.

#![cfg(all(feature = "mcp", feature = "testing"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto_events::call::{Call, CallStatus};
use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel::tool::{McpServer, McpServerState, McpServerStatus};
use taskreel::{Part, System, TaskSnapshot};
use taskreel_log::artifacts::A2aFileContent;
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::views::file_in;

fn wild(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/wild").join(file)
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

fn fake(case: &str) -> McpServer {
    McpServer::stdio("s", "python3").arg("-B").arg(wild("bin/mcp_fake.py")).arg(case)
}

async fn start(server: McpServer) -> System {
    System::builder("-").store(Arc::new(MemoryStore::new())).mcp(server).start().await.unwrap()
}

async fn call(system: &System, tool: &str, args: Value) -> TaskSnapshot {
    let part = Part::tool_call(&format!("s_{tool}"), args).unwrap();
    system.submit(part).await.unwrap().finished().await.unwrap()
}

fn only_call(task: &TaskSnapshot) -> Call {
    let calls: Vec<_> = task.task().calls().iter().cloned().collect();
    assert_eq!(calls.len(), 1, "{}", task.to_json());
    calls[0].clone()
}

fn result(task: &TaskSnapshot) -> String {
    match only_call(task).status {
        CallStatus::Succeeded(result) => result.to_string(),
        other => panic!("{other:?}"),
    }
}

fn status(system: &System) -> McpServerStatus {
    system.mcp_servers().remove(0)
}

fn listed(system: &System) -> Vec<String> {
    match status(system).state {
        McpServerState::Listed { tools } => tools,
        other => panic!("{other:?}"),
    }
}

fn journal_of(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[tokio::test]
async fn a_server_gets_the_arguments_that_the_model_wrote() {
    if !python() {
        return;
    }
    for (case, tool, args) in [
        ("P01", "list_projects", json!({})),
        ("P02", "order_get", json!({"id": "007"})),
        ("P02", "order_get", json!({"id": 7})),
        ("P02", "order_get_list", json!({"id": "0123"})),
        ("P02", "set_language", json!({"code": "no"})),
        ("P03", "issue_get", json!({"id": "5"})),
        ("P03", "switch", json!({"to": "on"})),
        ("P04", "run_query", json!({"sql": "select 1"})),
        ("P04", "run_query_title", json!({"b": 1, "a": "2"})),
        ("P04", "set_env", json!({"PATH": "/x"})),
        ("P04", "catalog", json!({"query": {"kind": "C"}})),
        ("P04", "open_root", json!({"q": "a", "z": 1})),
        ("P05", "search", json!({"q": null, "limit": null})),
    ] {
        let system = start(fake(case)).await;
        let done = call(&system, tool, args.clone()).await;
        let echoed: String = serde_json::from_str(&result(&done)).unwrap();
        assert_eq!(Value::parse(&echoed).unwrap()["got"], args, "{case} {tool}");
        assert_eq!(only_call(&done).request.args.as_str(), args.to_string(), "{case} {tool}: in the log");
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn an_odd_tool_costs_itself_at_most() {
    if !python() {
        return;
    }
    for (variant, is_left_out) in [
        ("null", true),
        ("missing", true),
        ("list", true),
        ("hint", false),
        ("icons", false),
        ("output", false),
    ] {
        let system = start(fake(&format!("P06:{variant}"))).await;
        let tools = listed(&system);
        assert!(["s_echo", "s_second"].iter().all(|tool| tools.contains(&(*tool).to_owned())), "{tools:?}");
        let left_out = status(&system).left_out;
        assert_eq!(left_out.iter().any(|left| left.tool == "s_bad" && !left.why.is_empty()), is_left_out);
        assert_eq!(tools.contains(&"s_bad".to_owned()), !is_left_out, "{variant}");
        result(&call(&system, "echo", json!({"text": "x"})).await);
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_page_that_is_named_twice_ends_the_list() {
    if !python() {
        return;
    }
    for (variant, tool) in [("empty", "s_echo"), ("same", "s_echo"), ("empty-is-second", "s_second")] {
        let system = start(fake(&format!("P07:{variant}"))).await;
        assert!(listed(&system).contains(&tool.to_owned()), "{variant}: {:?}", listed(&system));
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_came_back_is_a_result_whatever_its_shape() {
    if !python() {
        return;
    }
    for (variant, part) in [
        ("video", "saved as 7"),
        ("json", r#"{"id":7}"#),
        ("toolresult", "saved as 7"),
        ("plain", "success"),
        ("null", "content"),
        ("structured", r#"{"id":7}"#),
        ("resource", "no uri"),
        ("text", "saved as 7"),
    ] {
        let system = start(fake(&format!("P09:{variant}"))).await;
        let done = result(&call(&system, "echo", json!({"text": "x"})).await);
        assert!(done.contains(part), "{variant}: {done}");
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn log_lines_on_standard_output_are_ignored_without_a_reply() {
    if !python() {
        return;
    }
    for case in ["P10", "P10:text"] {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal");
        let system = start(fake(case).arg(&journal)).await;
        for _ in 0..3 {
            result(&call(&system, "echo", json!({"text": "x"})).await);
        }
        system.shutdown().await.unwrap();
        let told = journal_of(&journal);
        assert!(told.iter().all(|told| told.get("error").is_none()), "{told:?}");
        assert!(told.len() < 10, "{told:?}");
    }
}

#[tokio::test]
async fn the_bytes_of_a_picture_are_words_and_a_line_that_is_too_long_ends_its_call_at_once() {
    if !python() {
        return;
    }
    let system = start(fake("P12")).await;
    let done = call(&system, "screenshot", json!({})).await;
    let told = result(&done);
    assert!(told.contains("Took it.") && told.contains("image/png, ") && told.len() < 300, "{told}");
    // The task has the picture itself, under the id that the words name.
    let file = &done.task().artifacts()[0];
    assert!(told.contains(&format!("artifact {}", file.id.as_deref().unwrap())), "{told}");
    let content = file_in(&file.parts[0]).unwrap();
    assert_eq!(content.mime_type.as_deref(), Some("image/png"));
    assert!(matches!(content.content, A2aFileContent::Bytes(base64) if base64.len() > 600_000));
    assert!(done.answer().unwrap().as_str().contains("Took it."), "the file is not the output of the part");
    assert!(verify(system.log().as_ref()).findings.is_empty());
    system.shutdown().await.unwrap();

    let (system, began) = (start(fake("P12:huge")).await, Instant::now());
    let lost = call(&system, "screenshot", json!({})).await;
    let CallStatus::Unknown(why) = only_call(&lost).status else { panic!("{}", lost.to_json()) };
    assert!(why.contains("more than 16777216 bytes"), "{why}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn half_a_surrogate_pair_in_an_answer_is_a_replacement_character() {
    if !python() {
        return;
    }
    let system = start(fake("D04")).await;
    let done = result(&call(&system, "echo", json!({"text": "x"})).await);
    assert!(done.contains("half:\u{fffd} bidi:"), "{done:?}");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_line_that_cannot_be_read_ends_its_call_at_once() {
    if !python() {
        return;
    }
    // Answers a call with the line that the call asks for, as it is; ID stands for the call's own id.
    let server = "import json, sys\nfor line in sys.stdin:\n m = json.loads(line); i = m.get('id'); p = m.get('params') or {}\n \
        out = lambda r: print(json.dumps({'jsonrpc': '2.0', 'id': i, 'result': r}), flush=True)\n \
        if m.get('method') == 'initialize': out({'protocolVersion': p['protocolVersion'], 'capabilities': {'tools': {}}, 'serverInfo': {'name': 'f', 'version': '0'}})\n \
        elif m.get('method') == 'tools/list': out({'tools': [{'name': 't', 'inputSchema': {'type': 'object'}}]})\n \
        elif m.get('method') == 'tools/call': print(p['arguments']['line'].replace('ID', str(i)), flush=True)\n";
    let system = start(McpServer::stdio("s", "python3").arg("-c").arg(server)).await;
    let whole = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"saved as 7"}]}}"#;
    let mut lines: Vec<String> = (2..whole.len()).map(|end| whole[..end].to_owned()).step_by(7).collect();
    lines.push(r#"{"result": NaN}"#.to_owned());
    lines.push(r#"{"result":{"content":[}}, "jsonrpc":"2.0","id":ID}"#.to_owned());
    lines.push(r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"a	b}"#.to_owned());
    for line in lines {
        let began = Instant::now();
        let lost = call(&system, "t", json!({"line": line})).await;
        let CallStatus::Unknown(why) = only_call(&lost).status else { panic!("{line}: {}", lost.to_json()) };
        assert!(why.contains("cannot be read"), "{line}: {why}");
        assert!(began.elapsed() < Duration::from_secs(30), "{line}");
    }
    let nan = r#"{"jsonrpc":"2.0","id":"ID","result":{"n":NaN}}"#;
    assert_eq!(result(&call(&system, "t", json!({"line": nan})).await), r#"{"n":null}"#);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn schemas_are_brought_into_the_form_of_providers_or_left_out() {
    if !python() {
        return;
    }
    let system = start(fake("P14")).await;
    let (tools, left_out) = (listed(&system), status(&system).left_out);
    for tool in [
        "no_type",
        "any_root",
        "required_inside",
        "list_properties",
        "recursive",
        "draft7",
        "far_ref",
        "echo",
    ] {
        assert!(tools.contains(&format!("s_{tool}")), "{tool}: {tools:?} {left_out:?}");
    }
    assert!(left_out.iter().any(|left| left.tool == "s_not_object"), "{left_out:?}");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn tools_of_a_changed_list_join() {
    if !python() {
        return;
    }
    let system = start(fake("P08")).await;
    result(&call(&system, "load_toolset", json!({"name": "late"})).await);
    let joined = tokio::time::timeout(Duration::from_secs(60), async {
        while !listed(&system).contains(&"s_late_tool".to_owned()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    joined.await.unwrap_or_else(|_| panic!("never joined: {:?}", listed(&system)));
    result(&call(&system, "late_tool", json!({})).await);
    assert_eq!(listed(&system), ["s_load_toolset", "s_late_tool"]);
    system.shutdown().await.unwrap();
}

/// Returns the command lines of the running programs that name a file.
#[cfg(target_os = "linux")]
fn running(marker: &str) -> Vec<String> {
    let programs = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = programs.filter_map(|program| std::fs::read(program.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(marker)).collect()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_that_a_launcher_started_outlives_its_connection() {
    if !python() {
        return;
    }
    for is_shut_down in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let marker = folder.path().join("journal");
        let server = McpServer::stdio("s", wild("mcp/P11-launcher.sh")).arg(&marker);
        let system = start(server).await;
        let marker = marker.to_str().unwrap();
        assert!(running(marker).len() >= 2, "the launcher and the server: {:?}", running(marker));
        if is_shut_down {
            system.shutdown().await.unwrap();
        } else {
            drop(system);
        }
        let ended = tokio::time::timeout(Duration::from_secs(60), async {
            while !running(marker).is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        ended.await.unwrap_or_else(|_| panic!("still there: {:?}", running(marker)));
    }
}
