//! Tools of MCP servers, through a system: the server is a separate program that shares nothing with our
//! client, and records all that it is sent.

#![cfg(all(feature = "mcp", feature = "testing"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use proto_events::call::{Call, CallFailure, CallStatus, FailureClass, Recovery};
use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{McpServer, ToolPolicy};
use taskreel::{Builder, Part, System, TaskSnapshot, TaskState};
use taskreel_log::memory::MemoryStore;

/// The file in which a server records its messages.
struct Journal(tempfile::TempDir);

impl Journal {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("journal")
    }

    /// Returns all messages that the server was sent so far.
    fn all(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        // The last line may be incomplete.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn of(&self, method: &str) -> Vec<Value> {
        self.all().into_iter().filter(|told| told["method"] == method).collect()
    }

    /// Waits until the server was sent this method `times` times.
    async fn until(&self, method: &str, times: usize) -> Vec<Value> {
        let waited = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                let told = self.of(method);
                if told.len() >= times {
                    return told;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("never told {method} {times} times: {:?}", self.all()))
    }
}

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

fn over_stdio(journal: &Journal) -> McpServer {
    McpServer::stdio("small", "python3").arg("-B").arg(script()).env("JOURNAL", journal.path())
}

fn system() -> Builder {
    System::builder("-").store(Arc::new(MemoryStore::new()))
}

async fn call(system: &System, tool: &str, args: Value) -> TaskSnapshot {
    let part = Part::tool_call(tool, args).unwrap();
    system.submit(part).await.unwrap().finished().await.unwrap()
}

fn only_call(task: &TaskSnapshot) -> Call {
    let mut calls = task.task().calls().iter();
    let call = calls.next().unwrap().clone();
    assert!(calls.next().is_none());
    call
}

fn result(task: &TaskSnapshot) -> String {
    match only_call(task).status {
        CallStatus::Succeeded(result) => result.to_string(),
        other => panic!("{other:?}"),
    }
}

fn failure(task: &TaskSnapshot) -> CallFailure {
    match only_call(task).status {
        CallStatus::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tools_of_a_server_are_listed_called_and_recorded_like_ours() {
    if !python() {
        return;
    }
    let journal = Journal::new();
    let system = system().mcp(over_stdio(&journal)).start().await.unwrap();
    assert_eq!(journal.of("tools/list").len(), 2, "all pages of the list are read");

    let done = call(&system, "small_echo", json!({"text": "héllo"})).await;
    // The order of keys and the precision of numbers are those of `rmcp`.
    let expected = Value::parse(r#"{"text":"héllo","big":1.1805916207174113e+21}"#);
    assert_eq!(Value::parse(&result(&done)), expected, "the structured result");
    let recorded = only_call(&done).request;
    assert_eq!((recorded.target.as_str(), recorded.args.as_str()), ("small_echo", r#"{"text":"héllo"}"#));
    assert_eq!((recorded.recovery, recorded.recovery_source.as_str()), (Recovery::Manual, "default"));
    let told = &journal.of("tools/call")[0]["params"];
    assert_eq!((&told["name"], &told["arguments"]), (&json!("echo"), &json!({"text": "héllo"})));
    assert_eq!(told["_meta"]["taskreel/idempotencyKey"], recorded.idempotency_key);

    let done = call(&system, "small_add", json!({"a": 2, "b": 3})).await;
    assert_eq!(result(&done), "\"5\"", "a single text is a string");
    // Arguments that the schema forbids never reach the server.
    let refused = call(&system, "small_add", json!({"a": 2})).await;
    assert_eq!(refused.state(), TaskState::Failed);
    assert!(refused.task().error().unwrap().contains("args.b is required"), "{:?}", refused.task().error());
    assert_eq!(journal.of("tools/call").len(), 2);
    assert_eq!(journal.of("initialize").len(), 1, "one connection for all of them");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn arguments_that_cannot_be_carried_as_they_are_are_not_sent() {
    if !python() {
        return;
    }
    let journal = Journal::new();
    let system = system().mcp(over_stdio(&journal)).start().await.unwrap();
    for wrong in ["1180591620717411303424", "-9223372036854775809"] {
        let args = Value::parse(&format!(r#"{{"a":1,"b":{wrong}}}"#)).unwrap();
        let end = call(&system, "small_add", args).await;
        assert_eq!(end.task().calls().iter().count(), 1, "{}", end.to_json());
        let failed = failure(&end);
        assert_eq!(failed.class, FailureClass::BeforeEffect, "{failed:?}");
        assert!(failed.message.contains("cannot carry the arguments"), "{failed:?}");
    }
    assert_eq!(journal.of("tools/call").len(), 0);
    let exact = json!({"a": u64::MAX, "b": i64::MIN});
    assert_eq!(call(&system, "small_add", exact).await.state(), TaskState::Completed);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn hints_become_modes_only_where_the_server_is_trusted_and_the_intent_says_whose_word_it_was() {
    if !python() {
        return;
    }
    let journal = Journal::new();
    let own = ToolPolicy::read_only();
    let server = over_stdio(&journal).prefix("").trust_hints().policy("fail", own);
    let system = system().mcp(server).start().await.unwrap();
    for (tool, args, mode, source) in [
        ("echo", json!({"text": "x"}), Recovery::ReadOnly, "mcp hints"),
        ("add", json!({"a": 1, "b": 1}), Recovery::Idempotent, "mcp hints"),
        ("environment", json!({}), Recovery::Manual, "default"),
        ("fail", json!({"why": "x"}), Recovery::ReadOnly, "operator"),
    ] {
        let request = only_call(&call(&system, tool, args).await).request;
        assert_eq!((request.recovery, request.recovery_source.as_str()), (mode, source), "{tool}");
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_error_of_a_tool_is_told_to_the_model_which_goes_on() {
    if !python() {
        return;
    }
    let journal = Journal::new();
    let replies = [
        r#"{"type":"tool_call","tool":"small_fail","args":{"why":"no oven"}}"#,
        r#"{"type":"final","content":"no cake"}"#,
    ];
    let model = Scripted::new(replies.map(|reply| Entry::Text(reply.to_owned())).to_vec());
    let system = system().mcp(over_stdio(&journal)).infer(model).start().await.unwrap();
    let done = system.session("s").send(Part::infer("a cake")).await.unwrap().finished().await.unwrap();
    assert_eq!(done.state(), TaskState::Completed, "{}", done.to_json());
    assert_eq!(done.answer().unwrap().as_str(), "\"no cake\"");
    let history = system.session("s").history().await.unwrap();
    assert!(history.as_slice().iter().any(|message| message.content.contains("it cannot be done: no oven")));

    let refused = call(&system, "small_refuse", json!({})).await;
    let failure = failure(&refused);
    assert_eq!((failure.class, failure.error_type.as_str()), (FailureClass::Rejected, "InvalidParams"));
    assert_eq!(failure.message, "no such arguments");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_call_that_takes_too_long_or_is_canceled_is_told_to_the_server() {
    if !python() {
        return;
    }
    let journal = Journal::new();
    let server =
        over_stdio(&journal).policy("wait", ToolPolicy::manual().timeout(Duration::from_millis(300)));
    let system = system().mcp(server).start().await.unwrap();
    let late = call(&system, "small_wait", json!({})).await;
    assert_eq!(late.state(), TaskState::InputRequired, "nobody knows what became of it");
    let told = journal.until("notifications/cancelled", 1).await;
    assert_eq!(told[0]["params"]["requestId"], journal.of("tools/call")[0]["id"]);
    system.shutdown().await.unwrap();

    let journal = Journal::new();
    let system = self::system().mcp(over_stdio(&journal)).start().await.unwrap();
    let task = system.submit(Part::tool_call("small_wait", json!({})).unwrap()).await.unwrap();
    let sent = journal.until("tools/call", 1).await;
    task.cancel(Some("enough")).await.unwrap();
    let told = journal.until("notifications/cancelled", 1).await;
    assert_eq!(told[0]["params"]["requestId"], sent[0]["id"]);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_server_that_dies_loses_its_call_and_is_started_again_for_the_next() {
    if !python() {
        return;
    }
    let journal = Journal::new();
    let system = system().mcp(over_stdio(&journal)).start().await.unwrap();
    let died = call(&system, "small_die", json!({})).await;
    assert_eq!(
        died.state(),
        TaskState::InputRequired,
        "the call may have had its effect: {}",
        died.to_json()
    );
    let CallStatus::Unknown(why) = only_call(&died).status else { panic!("{}", died.to_json()) };
    assert!(why.starts_with("MCP server `small` closed the connection"), "{why}");
    assert_eq!(result(&call(&system, "small_add", json!({"a": 1, "b": 1})).await), "\"2\"");
    assert_eq!(journal.of("initialize").len(), 2);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_server_gets_the_environment_that_it_is_given_and_none_of_our_own_secrets() {
    if !python() {
        return;
    }
    let journal = Journal::new();
    let server = over_stdio(&journal).env("TOKEN", "t0ken-t0ken");
    assert!(!format!("{server:?}").contains("t0ken"));
    let system = system().mcp(server).start().await.unwrap();
    let names: Vec<String> =
        serde_json::from_str(&result(&call(&system, "small_environment", json!({})).await)).unwrap();
    assert!(names.contains(&"TOKEN".to_owned()) && names.contains(&"PATH".to_owned()), "{names:?}");
    // Cargo starts every test with this variable.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!names.contains(&"CARGO_MANIFEST_DIR".to_owned()), "{names:?}");
    system.shutdown().await.unwrap();
}

/// A server that listens at a port until it is dropped.
struct Listening(Child, u16);

impl Listening {
    fn at(journal: &Journal, port: u16) -> Self {
        let mut child = Command::new("python3")
            .arg("-B")
            .arg(script())
            .args(["--http", &port.to_string()])
            .env("JOURNAL", journal.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child, line.trim().parse().unwrap())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn a_server_over_http_is_called_with_its_headers_and_connected_again_when_it_is_back() {
    if !python() {
        return;
    }
    let journal = Journal::new();
    let listening = Listening::at(&journal, 0);
    let port = listening.1;
    let server = McpServer::http("web", format!("http://127.0.0.1:{port}/mcp?key=k3y-of-mine"))
        .header("Authorization", "Bearer t0ken-t0ken")
        .timeout(Duration::from_secs(20));
    let system = system().mcp(server).start().await.unwrap();
    let done = call(&system, "web_echo", json!({"text": "x"})).await;
    let expected = Value::parse(r#"{"text":"x","big":1.1805916207174113e+21}"#);
    assert_eq!(Value::parse(&result(&done)), expected);
    assert_eq!(
        failure(&call(&system, "web_fail", json!({"why": "x"})).await).message,
        "it cannot be done: x"
    );
    let sent = journal.all().into_iter().filter(|told| told["authorization"] == "Bearer t0ken-t0ken").count();
    assert!(sent >= 5, "every request has the header: {:?}", journal.all());

    drop(listening);
    let lost = failure(&call(&system, "web_echo", json!({"text": "x"})).await);
    assert!(lost.message.contains("MCP server `web`"), "{}", lost.message);
    for secret in ["t0ken", "k3y-of-mine"] {
        assert!(!lost.message.contains(secret), "{}", lost.message);
    }
    let _again = Listening::at(&journal, port);
    let done = call(&system, "web_add", json!({"a": 2, "b": 2})).await;
    assert_eq!(result(&done), "\"4\"");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_lost_leaves_a_manual_call_unknown_and_one_of_a_wrong_shape_is_a_result() {
    if !python() {
        return;
    }
    let journal = Journal::new();
    let listening = Listening::at(&journal, 0);
    let web = McpServer::http("web", format!("http://127.0.0.1:{}/mcp", listening.1));
    let system = system().mcp(web).mcp(over_stdio(&journal)).start().await.unwrap();
    for tool in ["web_fail", "small_fail"] {
        // The call came back, whatever the shape of its answer.
        assert_eq!(result(&call(&system, tool, json!({"why": "nonsense"})).await), r#"{"content":5}"#);
    }
    for (tool, why) in [("web_fail", "hang up"), ("small_fail", "hang up")] {
        let lost = call(&system, tool, json!({"why": why})).await;
        assert_eq!(lost.state(), TaskState::InputRequired, "{tool}, {why}: {}", lost.to_json());
        let CallStatus::Unknown(told) = only_call(&lost).status else { panic!("{tool}: {}", lost.to_json()) };
        let server = tool.trim_end_matches("_fail");
        assert!(told.contains(&format!("MCP server `{server}`")), "{tool}, {why}: {told}");
        assert_eq!(only_call(&lost).attempts, 1, "{tool}, {why}");
    }
    let failed = failure(&call(&system, "small_fail", json!({"why": "long"})).await);
    assert!(failed.message.starts_with('☃') && failed.message.ends_with("bytes in all)"));
    assert!(failed.message.len() <= taskreel::limits::ERROR_TEXT_BYTES);
    // Of an answer over HTTP no more is read than 16 MiB: what the call came to is not known then.
    let lost = call(&system, "web_fail", json!({"why": "over the limit"})).await;
    assert!(matches!(only_call(&lost).status, CallStatus::Unknown(_)), "{}", lost.to_json());
    system.shutdown().await.unwrap();
}
