//! Thousands of connections that say nothing, and thousands of open streams of A2A of which many are not read: a server that has
//! them answers others, and every stream gets the end. The server and the generator of the
//! load are processes of their own, this program with other arguments, each with as many descriptors as it is given.
//!
//! A process has one descriptor for each connection. Where the limit is lower than the number wanted, the test takes what
//! the limit gives, at least 1,000, and prints the number.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it did"
)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use taskreel_http::{A2a, Protolink, Server};
use taskreel_log::audit::verify;

/// The variable with the number of connections wanted: 10,000 is what a server is to bear, and takes a minute in a debug build.
const WANTED: &str = "TASKREEL_TEST_CONNECTIONS";

/// The number of connections where the variable names none.
const USUAL: usize = 2_000;

/// The least number of connections.
const LEAST: usize = 1_000;

/// The descriptors that a process needs besides those of its connections.
const BESIDES: usize = 150;

/// The longest time for a request while the connections are open.
const ANSWER_IN: Duration = Duration::from_secs(5);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("serve-idle") => serve(),
        Some("load-idle") => load(arguments.get(2).unwrap().parse().unwrap()),
        Some("load-streams") => {
            streams(arguments.get(2).unwrap().parse().unwrap(), arguments.get(3).unwrap());
        }
        // The list of tests that some runners ask for.
        Some("--list") => println!("idle_connections: test"),
        _ => test(),
    }
}

/// Returns the soft limit of descriptors of this process.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(1_024)
}

/// Returns the number of connections that are opened: as many as are wanted, or as descriptors allow.
fn wanted() -> usize {
    let named = std::env::var(WANTED).ok().and_then(|named| named.parse().ok());
    named.unwrap_or(USUAL).min(descriptors().saturating_sub(BESIDES))
}

/// Serves an agent until the input ends, and says whether its log verifies.
fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let system = support::builder().start().await.unwrap();
        let server = Server::new().grace(Duration::ZERO).head_time(Duration::from_secs(600));
        let server = server.mount("/", Arc::new(A2a::new(system.clone())));
        let server = server.mount("/", Arc::new(Protolink::new(system.clone())));
        let serving = server.start("127.0.0.1:0").await.unwrap();
        say(&format!("{} {}", serving.address(), descriptors()));
        tokio::task::spawn_blocking(wait_for_the_end).await.unwrap();
        serving.stop().await.unwrap();
        say(if verify(system.log().as_ref()).is_sound() { "sound" } else { "unsound" });
        system.shutdown().await.unwrap();
    });
}

/// Opens connections until there are enough, or none is given, and keeps them until the input ends.
fn load(address: SocketAddr) {
    let most = wanted();
    let mut connections = Vec::new();
    while connections.len() < most {
        connections.push(TcpStream::connect(address).unwrap());
    }
    say(&connections.len().to_string());
    wait_for_the_end();
}

/// Returns a request of JSON-RPC in A2A 1.0.
fn rpc(method: &str, params: &str) -> String {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Opens streams of one task until there are enough, and requests of which only a half is sent. Every second stream is read no
/// further than to its beginning before the task is over. Then says how many have got the end.
fn streams(address: SocketAddr, task: &str) {
    let most = wanted();
    let request = rpc("SubscribeToTask", &format!(r#"{{"id":"{task}"}}"#));
    let (mut open, mut halves) = (Vec::new(), Vec::new());
    for n in 0..most {
        let mut connection = TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        if n % 20 == 19 {
            let half = request.get(..request.len() - 1 - n % 120).unwrap();
            connection.write_all(half.as_bytes()).unwrap();
            halves.push(connection);
        } else {
            connection.write_all(request.as_bytes()).unwrap();
            open.push((connection, String::new()));
        }
    }
    for (connection, told) in open.iter_mut().step_by(2) {
        while !told.contains("TASK_STATE_WORKING") {
            told.push_str(&piece(connection).unwrap());
        }
    }
    say(&open.len().to_string());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let mut ended = 0;
    for (connection, told) in &mut open {
        while let Some(piece) = piece(connection) {
            told.push_str(&piece);
        }
        let is_whole = told.contains("TASK_STATE_WORKING") && told.contains("TASK_STATE_CANCELED");
        if !is_whole {
            eprintln!("a stream was told: {told}");
        }
        ended += usize::from(is_whole);
    }
    say(&ended.to_string());
    wait_for_the_end();
}

/// Reads what has arrived; `None` at the end.
fn piece(connection: &mut TcpStream) -> Option<String> {
    use std::io::Read;
    let mut bytes = [0; 4096];
    let count = connection.read(&mut bytes).unwrap();
    (count > 0).then(|| String::from_utf8_lossy(bytes.get(..count).unwrap()).into_owned())
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

fn wait_for_the_end() {
    for line in std::io::stdin().lines() {
        if line.is_err() {
            return;
        }
    }
}

/// A process with this program's code, with the soft limit of descriptors raised as far as it goes.
struct Role {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Role {
    fn start(arguments: &[&str]) -> Self {
        let script =
            "ulimit -Sn 16384 2>/dev/null || ulimit -Sn $(ulimit -Hn) 2>/dev/null; exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(std::env::current_exe().unwrap()).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Ends the input, and returns what the process says last.
    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let last = self.line();
        assert!(self.child.wait().unwrap().success());
        last
    }
}

fn test() {
    let mut server = Role::start(&["serve-idle"]);
    let line = server.line();
    let (address, descriptors) = line.split_once(' ').unwrap();
    // The server's limit counts too: each connection is one of its descriptors.
    println!("the server has {descriptors} descriptors");
    let mut load = Role::start(&["load-idle", address]);
    let open: usize = load.line().parse().unwrap();
    println!("{open} idle connections");
    assert!(open >= LEAST, "{open} connections are fewer than {LEAST}; raise the limit of descriptors");
    let address: SocketAddr = address.parse().unwrap();
    for n in 0..20 {
        asked(address, n);
    }
    assert_eq!(load.end(), "");
    asked(address, 20);
    open_streams(address);
    assert_eq!(server.end(), "sound");
}

/// Opens streams of a task that waits, and ends it: all of them get its end.
fn open_streams(address: SocketAddr) {
    let work = r#"{"tool_name":"slow","args":{"ms":3600000},"call_id":"c"}"#;
    let part =
        format!(r#"{{"data":{work},"metadata":{{"urn:taskreel:a2a:protolink:v1":{{"type":"tool_call"}}}}}}"#);
    let message = format!(
        r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{part}]}},"configuration":{{"returnImmediately":true}}}}"#
    );
    let answer = answered(address, &rpc("SendMessage", &message));
    let (_, rest) = answer.split_once(r#""id":"task_"#).unwrap_or_else(|| panic!("{answer}"));
    let task = format!("task_{}", rest.split('"').next().unwrap());
    let mut load = Role::start(&["load-streams", &address.to_string(), &task]);
    let open: usize = load.line().parse().unwrap();
    println!("{open} open streams of A2A");
    assert!(open >= LEAST * 9 / 10, "{open} streams are too few");
    for n in 30..40 {
        asked(address, n);
    }
    let begun = Instant::now();
    answered(address, &rpc("CancelTask", &format!(r#"{{"id":"{task}"}}"#)));
    writeln!(load.child.stdin.as_mut().unwrap(), "read").unwrap();
    assert_eq!(load.line(), open.to_string(), "every stream gets the end");
    println!("all have got the end after {:?}", begun.elapsed());
    load.end();
    asked(address, 40);
}

/// Returns the whole answer to a request.
fn answered(address: SocketAddr, request: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    while let Some(piece) = piece(&mut connection) {
        answer.push_str(&piece);
    }
    answer
}

/// Posts a task on a connection of its own, and asserts that it is answered soon.
fn asked(address: SocketAddr, n: usize) {
    use std::io::Read;
    let begun = Instant::now();
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(ANSWER_IN)).unwrap();
    let body = support::tool_task(&format!("t-{n}"), "echo", r#"{"text": "x"}"#);
    let bytes = support::request("POST", "/tasks/", &[("connection", "close")], &body);
    connection.write_all(&bytes).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"state\":\"completed\""), "{answer}");
    assert!(begun.elapsed() < ANSWER_IN, "{:?}", begun.elapsed());
}
