//! Mixed load on a server that is killed again and again: what was acknowledged is in the log, each client gets an answer or a
//! closed connection, and memory stays flat. `TASKREEL_HTTP_SOAK_SECS` sets its length (5 seconds by default); the server is
//! killed every 30 seconds, and at least four times.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Deserialize;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest};
use taskreel::tool::BoxFuture;
use taskreel::{JsonSchema, System, TaskState};
use taskreel_log::audit;
use taskreel_log::sled::SledStore;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The directory of the log, for the process that serves.
const SERVE: &str = "TASKREEL_SOAK_SERVE";
/// The time in which each request is answered or its connection is closed.
const PATIENCE: Duration = Duration::from_secs(30);
const CLIENTS: usize = 12;
/// The tasks of each client in a session, before it goes on in another one: a prompt holds the whole history of its session,
/// so that in one without an end every inference would cost more than the one before.
const TASKS_OF_SESSION: usize = 100;
/// The memory that the index may take for each stream of the log, in bytes.
const INDEX_BYTES: u64 = 1024;
const KILL_EVERY: Duration = Duration::from_secs(30);

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

/// A model that answers at once.
struct Answers;

impl InferBackend for Answers {
    fn backend(&self) -> &'static str {
        "soak"
    }

    fn model(&self) -> &'static str {
        "soak"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let text = r#"{"type": "final", "content": "yes"}"#;
        Box::pin(async move {
            Ok(InferReply { content: text.to_owned(), model: "soak".to_owned(), ..InferReply::default() })
        })
    }
}

async fn system(dir: &Path) -> System {
    let echo = |args: Text| async move { Ok::<_, Infallible>(args.text) };
    System::builder(dir).tool("echo", "the text", echo).infer(Answers).start().await.unwrap()
}

/// The server's process, when the soak starts this program again; nothing otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn serves() {
    let Some(dir) = std::env::var_os(SERVE) else { return };
    let system = system(dir.as_ref()).await;
    let serving = taskreel_http::serve(system.clone(), "127.0.0.1:0").await.unwrap();
    eprintln!("\nserves {}", serving.address());
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
        .await
        .unwrap()
        .unwrap();
    serving.stop().await.unwrap();
    system.shutdown().await.unwrap();
}

fn start(dir: &Path) -> (Child, SocketAddr) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "serves", "--nocapture"]).env(SERVE, dir);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| Some(line.unwrap().strip_prefix("serves ")?.parse().unwrap()));
    // What the server says later is read, so that it never waits for a reader.
    std::thread::spawn(move || lines.for_each(drop));
    (child, address.expect("the server starts"))
}

/// Returns the resident memory of a process in bytes.
fn resident(child: &Child) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", child.id())).unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// The state that all clients share.
struct Shared {
    address: Mutex<SocketAddr>,
    acknowledged: Mutex<Vec<String>>,
    cut: AtomicU64,
    ends: AtomicBool,
}

/// Sends one task and returns whether its completion was acknowledged; `None` where the connection ended before.
async fn send(address: SocketAddr, id: &str, kind: usize) -> Option<bool> {
    let (path, part) = match kind % 4 {
        0 => (
            "/tasks/",
            r#"{"type":"tool_call","content":{"tool_name":"echo","args":{"text":"x"},"call_id":"c"}}"#,
        ),
        1 => (
            "/tasks/stream",
            r#"{"type":"tool_call","content":{"tool_name":"echo","args":{"text":"x"},"call_id":"c"}}"#,
        ),
        2 => ("/tasks/", r#"{"type":"infer","content":{"prompt":"well?"}}"#),
        _ => ("/tasks/stream", r#"{"type":"infer","content":{"prompt":"well?"}}"#),
    };
    let body = format!(
        r#"{{"id":"{id}","metadata":{{"session_id":"s-{}-{}"}},"messages":[{{"id":"m","role":"user","parts":[{part}],"timestamp":"2026"}}]}}"#,
        kind % 5,
        kind / TASKS_OF_SESSION
    );
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut socket = TcpStream::connect(address).await.ok()?;
    socket.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8_lossy(&answer).replace("\": ", "\":");
    if answer.is_empty() {
        return None;
    }
    let is_answered = answer.starts_with("HTTP/1.1 200");
    assert!(is_answered || answer.starts_with("HTTP/1.1 503"), "{answer}");
    let is_whole =
        if path == "/tasks/" { is_answered } else { answer.contains("\"new_state\":\"completed\"") };
    Some(is_whole && answer.contains("\"state\":\"completed\""))
}

async fn client(shared: Arc<Shared>, number: usize) {
    let mut sent = 0;
    while !shared.ends.load(Ordering::Relaxed) {
        let (id, address) = (format!("soak-{number}-{sent}"), *shared.address.lock().unwrap());
        sent += 1;
        let answered = tokio::time::timeout(PATIENCE, send(address, &id, number + sent)).await;
        match answered.unwrap_or_else(|_| panic!("{id} got neither an answer nor a closed connection")) {
            Some(true) => shared.acknowledged.lock().unwrap().push(id),
            Some(false) => {}
            None => {
                shared.cut.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_under_load_it_loses_nothing_that_was_acknowledged() {
    let seconds = std::env::var("TASKREEL_HTTP_SOAK_SECS").map_or(5, |text| text.parse::<u64>().unwrap());
    let whole = Duration::from_secs(seconds);
    let every = KILL_EVERY.min(whole / 5);
    let dir = tempfile::tempdir().unwrap();
    let (mut child, address) = start(dir.path());
    let shared = Arc::new(Shared {
        address: Mutex::new(address),
        acknowledged: Mutex::default(),
        cut: AtomicU64::new(0),
        ends: AtomicBool::new(false),
    });
    let clients: Vec<_> =
        (0..CLIENTS).map(|number| tokio::spawn(client(Arc::clone(&shared), number))).collect();
    let (began, mut sizes) = (Instant::now(), Vec::new());
    while began.elapsed() < whole {
        tokio::time::sleep(every).await;
        sizes.push(resident(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        let address;
        (child, address) = tokio::task::block_in_place(|| start(dir.path()));
        *shared.address.lock().unwrap() = address;
    }
    shared.ends.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success(), "it ends in order");
    let acknowledged = shared.acknowledged.lock().unwrap().clone();
    let kills = sizes.len();
    println!(
        "{} acknowledged over {kills} kills, {} cut off, {sizes:?} bytes",
        acknowledged.len(),
        shared.cut.load(Ordering::Relaxed)
    );
    assert!(kills >= 4 && acknowledged.len() > 4 * CLIENTS, "{kills} kills, {} tasks", acknowledged.len());
    let (first, last) = (sizes[0], sizes[kills - 1]);
    let streams = acknowledged.len() as u64;
    let allowed = first + first / 2 + (64 << 20) + streams * INDEX_BYTES;
    assert!(last <= allowed, "memory grew above {allowed}: {sizes:?}");
    assert_kept(dir.path(), &acknowledged).await;
}

/// Asserts that the log is sound and that each acknowledged task is completed in it.
async fn assert_kept(dir: &Path, acknowledged: &[String]) {
    let store = SledStore::open(dir).unwrap();
    let verified = audit::verify(&store);
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    drop(store);
    let system = system(dir).await;
    for id in acknowledged {
        let task = system.task(id).unwrap().snapshot().await;
        let state = task.map(|task| task.state());
        assert!(matches!(state, Ok(TaskState::Completed)), "{id} was acknowledged and is {state:?}");
    }
    system.shutdown().await.unwrap();
}
