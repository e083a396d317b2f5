//! Conversations with a model server that draws among the answers of real ones, cuts some of them off, and whose client is
//! killed at times: every task ends or waits for a person, no answer that came whole is paid again, and a ledger outside shows
//! that nothing took effect twice.
//!
//! `TASKREEL_WILD_SECONDS` (10) sets how long it takes, `TASKREEL_SEED` repeats the dice of another run, and `TASKREEL_WILD` names
//! another folder of answers.
#![cfg(all(unix, feature = "openai"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, in its helpers too; the figures of a run are printed"
)]

#[path = "crash/dice.rs"]
mod dice;
mod model_server;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::OpenOptions;
use std::hash::BuildHasher as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dice::Dice;
use model_server::{ModelServer, Step, bodies, request_of};
use proto_events::call::{CallEvent, CallKind};
use proto_events::id::{Category, Digest, Position, StreamId};
use proto_events::model::TaskState;
use proto_events::task::TaskEvent;
use serde::Deserialize;
use taskreel::infer::{InferBackend as _, InferErrorKind, InferPolicy, LlmRole, OpenAiCompatible};
use taskreel::tool::{ToolContext, ToolPolicy};
use taskreel::{Builder, JsonSchema, Part, System};
use taskreel_log::api::{EventStore as _, ReadError};
use taskreel_log::audit::verify;
use taskreel_log::read::{decode_record, for_each_record};
use taskreel_log::sled::SledStore;

/// The entry of the process that works.
const ENTRY: &str = "the_process_that_asks_the_model";
/// The variable that marks that process: the server's address, its number, and the folder.
const LIFE: &str = "TASKREEL_WILD_LIFE";
/// The conversations at the same time.
const USERS: u64 = 12;
/// The longest time for a task to come to rest: servers ask to wait for half a minute.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Deserialize, JsonSchema)]
struct Order {
    order: String,
}

#[derive(Deserialize, JsonSchema)]
struct City {
    #[allow(dead_code, reason = "only the call counts")]
    city: String,
}

/// Returns the agent: a refund, which is noted in a ledger outside the log, and the weather.
///
/// Its key is the number of the process, by which the server tells who asks: what a process sent just before it was killed is read
/// later.
fn agent(base: &Path, url: &str, number: &str) -> Builder {
    let ledger = OpenOptions::new().create(true).append(true).open(base.join("ledger")).unwrap();
    let ledger = Arc::new(ledger);
    let refund = move |cx: ToolContext, asked: Order| {
        let line = format!("{} {} {}\n", cx.task_id(), cx.call_id(), asked.order.replace(['\n', ' '], "_"));
        let written = (&*ledger).write_all(line.as_bytes());
        async move {
            // Some processes are killed between the effect and its answer.
            tokio::time::sleep(Duration::from_millis(200)).await;
            written.map(|()| "refunded")
        }
    };
    let weather = |_: City| async { Ok::<_, std::convert::Infallible>("four degrees") };
    System::builder(base.join("log"))
        .tool("refund", "Refunds an order", refund)
        .tool_with("weather", "Tells the weather", weather, ToolPolicy::read_only())
        .infer_policy(InferPolicy::default().retries(2))
        .infer(OpenAiCompatible::new(url, "m").api_key(number).idle_timeout(Duration::from_secs(2)))
}

#[test]
#[ignore = "not a test: the process that the soak starts and kills"]
fn the_process_that_asks_the_model() {
    let Ok(told) = std::env::var(LIFE) else { return };
    let [url, number, base] = told.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        panic!("{LIFE} is `{told}`")
    };
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(
        async {
            let system = agent(Path::new(base), url, number).start().await.unwrap();
            let users = (0..USERS).map(|user| {
                let (system, number) = (system.clone(), number.to_owned());
                tokio::spawn(async move {
                    for turn in 0.. {
                        // No two prompts are the same.
                        let text =
                            format!("Question {turn} of user {user} of life {number}: refund or weather?");
                        let session = system.session(&format!("s-{number}-{user}-{}", turn / 8));
                        session.send(Part::infer(text)).await.unwrap().finished().await.unwrap();
                    }
                })
            });
            futures_util::future::join_all(users).await;
        },
    );
}

/// A model server that draws its answers.
struct Wild {
    bodies: Vec<(String, Vec<u8>)>,
    outcomes: BTreeMap<String, Outcome>,
    dice: Mutex<Dice>,
    /// The whole answers to each request, with the number of the process and the name of the body.
    paid: Mutex<HashMap<Digest, Vec<(usize, String)>>>,
    asked: AtomicUsize,
}

impl Wild {
    fn serve(self: Arc<Self>, listener: TcpListener) {
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (wild, stream) = (Arc::clone(&self), stream.unwrap());
                std::thread::spawn(move || wild.answer(stream));
            }
        });
    }

    /// Answers a request. One that cannot be read was cut off by the death of the process.
    fn answer(&self, mut stream: TcpStream) -> Option<()> {
        let (life, body) = received(&mut stream)?;
        self.asked.fetch_add(1, Ordering::SeqCst);
        let (name, bytes, end) = {
            let mut dice = self.dice.lock().unwrap();
            let at = usize::try_from(dice.below(self.bodies.len() as u64)).unwrap();
            let (name, bytes) = &self.bodies[at];
            let is_cut = dice.below(8) == 0;
            let end =
                if is_cut { usize::try_from(dice.below(bytes.len() as u64)).unwrap() } else { bytes.len() };
            (name.clone(), bytes.clone(), end)
        };
        stream.write_all(&bytes[..end]).ok()?;
        if end == bytes.len() && self.outcomes.get(&name) == Some(&Outcome::Whole) {
            self.paid.lock().unwrap().entry(Digest::compute(&body)).or_default().push((life, name));
        }
        stream.shutdown(Shutdown::Write).ok()?;
        // The client closes first: what it has not read yet would be lost with a connection that is reset.
        let _ = stream.read(&mut [0; 16]);
        Some(())
    }
}

/// Returns the number of the process that asks, and the body.
fn received(stream: &mut TcpStream) -> Option<(usize, Vec<u8>)> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim();
            let length: usize = length.parse().ok()?;
            let life = text.lines().find_map(|line| line.strip_prefix("authorization: bearer "))?.trim();
            if bytes.len() >= head + length {
                return Some((life.parse().ok()?, bytes[head..head + length].to_vec()));
            }
        }
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&buffer[..read]),
            _ => return None,
        }
    }
}

/// A reply that asks for a refund.
const REFUND: &str = r#"{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"refund","arguments":"{\"order\":\"77\"}"}}]}}],"usage":{"prompt_tokens":9,"completion_tokens":9}}"#;

/// Returns the bodies that are drawn: those of the folders, and as many replies that ask for a refund as a tenth of them. A short
/// run leaves out what asks for a long wait.
fn drawn(
    bodies: BTreeMap<String, Vec<u8>>,
    outcomes: &BTreeMap<String, Outcome>,
    is_short: bool,
) -> Vec<(String, Vec<u8>)> {
    let refunds = bodies.len() / 10;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        REFUND.len()
    );
    let own = (0..refunds).map(|_| ("refund".to_owned(), format!("{head}{REFUND}").into_bytes()));
    let is_drawn = |name: &String| !(is_short && matches!(outcomes.get(name), Some(Outcome::Wait)));
    own.chain(bodies.into_iter().filter(|(name, _)| is_drawn(name))).collect()
}

/// The outcome of reading a body alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Whole,
    /// An error that asks to wait for seconds.
    Wait,
    Error,
}

/// Reads each body alone.
async fn outcomes(bodies: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Outcome> {
    let mut all = BTreeMap::from([("refund".to_owned(), Outcome::Whole)]);
    for (name, body) in bodies {
        let server = ModelServer::start([vec![Step::Send(body.clone())]]).await;
        let model = OpenAiCompatible::new(server.url(), "m").idle_timeout(Duration::from_secs(2));
        let outcome =
            match model.infer(request_of(&[(LlmRole::User, "Coat?")])).await.map_err(|error| error.kind) {
                Ok(_) => Outcome::Whole,
                Err(InferErrorKind::Transient { retry_after: Some(wait) })
                    if wait > Duration::from_secs(2) =>
                {
                    Outcome::Wait
                }
                Err(_) => Outcome::Error,
            };
        all.insert(name.clone(), outcome);
    }
    all
}

#[test]
fn no_odd_answer_and_no_kill_pays_twice_or_leaves_a_task_without_an_end() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("TASKREEL_SEED").unwrap_or_else(|| std::hash::RandomState::new().hash_one("seed"));
    let seconds = number("TASKREEL_WILD_SECONDS").unwrap_or(10);
    eprintln!("TASKREEL_SEED={seed} TASKREEL_WILD_SECONDS={seconds}");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let bodies = bodies();
    let outcomes = runtime.block_on(outcomes(&bodies));
    for kind in [Outcome::Whole, Outcome::Wait, Outcome::Error] {
        assert!(outcomes.values().any(|outcome| *outcome == kind), "no body is {kind:?}");
    }
    let wild = Arc::new(Wild {
        bodies: drawn(bodies, &outcomes, seconds < 60),
        outcomes,
        dice: Mutex::new(Dice::new(seed)),
        paid: Mutex::default(),
        asked: AtomicUsize::new(0),
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    Arc::clone(&wild).serve(listener);
    // In the target folder: a file system in memory would prove nothing.
    let base = tempfile::tempdir_in(PathBuf::from(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let (mut dice, until) = (Dice::new(seed ^ 1), Instant::now() + Duration::from_secs(seconds));
    let mut life = 0;
    while Instant::now() < until {
        life += 1;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", ENTRY, "--ignored", "--nocapture", "--test-threads=1"])
            .env(LIFE, format!("{url} {life} {}", base.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(1_000 + dice.below(4_000)));
        assert!(child.try_wait().unwrap().is_none(), "the process of life {life} ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    runtime.block_on(comes_to_rest(base.path(), &url));
    check(base.path(), &wild, life);
}

/// Lets the work that was left end.
async fn comes_to_rest(base: &Path, url: &str) {
    let system = agent(base, url, "0").start().await.unwrap();
    for stream in system.log().open_work().unwrap() {
        let task = system.task(&stream.id()).unwrap();
        let end = tokio::time::timeout(PATIENCE, task.finished()).await;
        end.unwrap_or_else(|_| panic!("{stream} does not come to rest")).unwrap();
    }
    system.shutdown().await.unwrap();
}

/// The facts of a task.
#[derive(Debug, Default)]
struct TaskFacts {
    state: Option<TaskState>,
    error: bool,
    unknown: BTreeSet<String>,
    refunds: BTreeSet<String>,
}

impl TaskFacts {
    fn add(&mut self, event: TaskEvent) {
        match event {
            TaskEvent::Submitted(posted) => self.state = Some(posted.state),
            TaskEvent::StateChanged { to, .. } => self.state = Some(to),
            TaskEvent::MetadataMerged(entries) => self.error |= entries.get("error").is_some(),
            TaskEvent::Call(CallEvent::Requested(request))
                if request.kind == CallKind::Tool && request.target == "refund" =>
            {
                assert!(request.origin.infer_call.is_some(), "nobody asked for {}", request.call_id);
                self.refunds.insert(request.call_id);
            }
            TaskEvent::Call(CallEvent::OutcomeUnknown { call_id, .. }) => {
                self.unknown.insert(call_id);
            }
            _ => {}
        }
    }
}

fn check(base: &Path, wild: &Wild, kills: usize) {
    let store = SledStore::open(base.join("log")).unwrap();
    let verified = verify(&store);
    assert!(verified.is_sound(), "{:#?}", verified.findings);
    let mut tasks: BTreeMap<StreamId, TaskFacts> = BTreeMap::new();
    for_each_record::<ReadError>(&store, Position(1), |stored| {
        if stored.record.stream.category() == Some(Category::Task) {
            let known = tasks.entry(stored.record.stream.clone()).or_default();
            decode_record::<TaskEvent>(stored)?.into_iter().for_each(|recorded| known.add(recorded.event));
        }
        Ok(())
    })
    .unwrap();
    store.close().unwrap();
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for (stream, known) in &tasks {
        let state = known.state.unwrap_or_default();
        *ends.entry(state.as_str()).or_default() += 1;
        match state {
            TaskState::Completed => {}
            TaskState::Failed => assert!(known.error, "{stream} failed without words: {known:?}"),
            TaskState::InputRequired => {
                assert!(!known.unknown.is_empty(), "{stream} waits for nothing: {known:?}");
            }
            other => panic!("{stream} is {other} at the end: {known:?}"),
        }
    }
    let ledger = std::fs::read_to_string(base.join("ledger")).unwrap();
    let mut refunded = BTreeSet::new();
    for line in ledger.lines() {
        let [task, call, _] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("`{line}`") };
        assert!(refunded.insert((task, call)), "refunded twice: {line}");
        let of = tasks.iter().find(|(stream, _)| stream.id() == task).unwrap().1;
        assert!(of.refunds.contains(call), "refunded without an intent: {line}");
    }
    let paid = wild.paid.lock().unwrap();
    for answers in paid.values() {
        let lives: BTreeSet<usize> = answers.iter().map(|(life, _)| *life).collect();
        assert_eq!(lives.len(), answers.len(), "a whole answer was paid again in one life: {answers:?}");
    }
    let again = paid.values().filter(|answers| answers.len() > 1).count();
    eprintln!(
        "{kills} kills, {} requests, {} whole answers, {again} asked again after a kill, {} refunds; tasks: {ends:?}",
        wild.asked.load(Ordering::SeqCst),
        paid.len(),
        refunded.len(),
    );
    assert!(again <= kills * usize::try_from(USERS).unwrap());
    assert!(!refunded.is_empty() && ends.len() > 1, "the load is too tame");
}
