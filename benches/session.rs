//! The cost of one turn of a conversation, from sending it to its end on disk, in a session of 5,000 messages
//! and in a session of 10, alone in the log and among 1,000 other sessions. The backend answers at once and
//! ignores what it is shown, so its own rendering is not measured. For comparison, Protolink 0.6.4 with
//! `SQLite` storage is measured in the same run (`session_peer.py`); its mock model is shown the whole
//! history, and for this row our backend reads it too.
#![allow(clippy::print_stdout, reason = "rows go to stdout")]

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest};
use taskreel::tool::BoxFuture;
use taskreel::{Part, System, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::memory::MemoryStore;
use taskreel_log::sled::SledStore;

use crate::support::{Asked, Failure, Report, Row, Target, median, setting, wanted};

const HELP: &str = "\
cargo bench --bench session: one turn in a session of 5,000 messages, beside one in a session of 10

  sled     the log                     memory   the actors alone
  peer     Protolink 0.6.4 with SQLite, installed from the package index on its first run; left out of a quick one

  TASKREEL_BENCH_MESSAGES (5000)   messages of the long session
  TASKREEL_BENCH_OTHERS (1000)     other sessions in the log
  TASKREEL_BENCH_TURNS (200)       turns that are measured of each kind; figures are medians
  TASKREEL_BENCH_ENGINES           name some only: sled,memory,peer";

const SHORT: usize = 10;
/// The target of a durable turn at 5,000 messages, in milliseconds.
const TURN_MS: f64 = 1.0;
/// The target of the first turn after a start, which folds 5,000 messages, in milliseconds.
const FIRST_TURN_MS: f64 = 25.0;
const ENGINES: [&str; 2] = ["sled", "memory"];
/// The number of sessions filled concurrently, so that they share flushes.
const AT_ONCE: usize = 64;
const QUESTION: &str = "What shall I wear in Oslo today, and will it rain before the evening? \
    What shall I wear in Oslo today, and will it rain before the evening? ";
const ANSWER: &str = r#"{"type":"final","content":"Four degrees and no rain before eight: a coat, no umbrella, and warm shoes."}"#;

/// A backend that answers at once and reads what it is shown only on request.
#[derive(Clone, Default)]
struct Answers {
    looks: Arc<AtomicBool>,
}

impl InferBackend for Answers {
    fn backend(&self) -> &'static str {
        "bench"
    }

    fn model(&self) -> &'static str {
        "answers"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        if self.looks.load(Ordering::Relaxed) {
            let shown: usize = request.messages.iter().map(|message| message.content.len()).sum();
            std::hint::black_box(shown);
        }
        let reply =
            InferReply { content: ANSWER.to_owned(), model: "answers".to_owned(), ..InferReply::default() };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

/// The amounts to measure.
#[derive(Debug, Clone, Copy)]
struct Size {
    messages: usize,
    others: usize,
    turns: usize,
}

/// The milliseconds of each turn.
#[derive(Debug, Default)]
struct Measured {
    short: Vec<f64>,
    long: Vec<f64>,
    /// The turns in the long session with a backend that reads all it is shown.
    looked: Vec<f64>,
}

fn main() -> Result<(), Failure> {
    let Some(asked) = Asked::read("session", HELP) else { return Ok(()) };
    let size = Size {
        messages: setting("TASKREEL_BENCH_MESSAGES", asked.size(5_000, 200))?,
        others: setting("TASKREEL_BENCH_OTHERS", asked.size(1_000, 20))?,
        turns: setting("TASKREEL_BENCH_TURNS", asked.size(200, 5))?.max(1),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::begin("session", asked)?;
    let mut on_sled = None;
    for engine in ENGINES.into_iter().filter(|engine| wanted("TASKREEL_BENCH_ENGINES", engine)) {
        let looked = runtime.block_on(ours(engine, size, &mut report))?;
        if engine == "sled" {
            on_sled = Some(looked);
        }
    }
    if asked.quick {
        println!("Protolink is left out of a quick run");
    } else if wanted("TASKREEL_BENCH_ENGINES", "peer") {
        peer(size, on_sled, &mut report)?;
    }
    report.end();
    Ok(())
}

/// Measures all rows of one engine; returns the turn in the long session with rendering, alone and among
/// others.
async fn ours(engine: &str, size: Size, report: &mut Report) -> Result<[f64; 2], Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let path = folder.path().join("log");
    let memory = Arc::new(MemoryStore::new());
    let open = || -> Result<Arc<dyn EventStore>, Failure> {
        Ok(if engine == "sled" { Arc::new(SledStore::open(&path)?) } else { Arc::new(memory.reopened()?) })
    };
    let model = Answers::default();
    let system = System::builder(&path).store(open()?).infer(model.clone()).start().await?;
    fill(&system, vec!["long".to_owned()], size.messages).await?;
    let mut looked = [f64::NAN; 2];
    for (others, looked) in [0, size.others].into_iter().zip(&mut looked) {
        let others_ids = (0..others).map(|at| format!("other-{at}")).collect();
        fill(&system, others_ids, SHORT).await?;
        let short: Vec<String> = (0..size.turns).map(|at| format!("short-{others}-{at}")).collect();
        fill(&system, short.clone(), SHORT).await?;
        let measured = measure(&system, &model, &short).await?;
        *looked = median(measured.looked.clone());
        write_rows(report, engine, size, others, &measured)?;
    }
    system.shutdown().await?;
    if engine == "sled" {
        let system = System::builder(&path).store(open()?).infer(model).start().await?;
        let woken = turn(&system, "long").await?;
        let row =
            Row::new(format!("sled: the first turn after a start, {} messages", size.messages), woken, "ms");
        report.row(&row.beside(turn(&system, "long").await?).target(Target::AtMost(FIRST_TURN_MS)))?;
        system.shutdown().await?;
    }
    Ok(looked)
}

fn write_rows(
    report: &mut Report,
    engine: &str,
    size: Size,
    others: usize,
    measured: &Measured,
) -> Result<(), Failure> {
    let among = if others == 0 { "alone".to_owned() } else { format!("among {others} other sessions") };
    let short = median(measured.short.clone());
    let pairs =
        |of: &[f64]| median(of.iter().zip(&measured.short).map(|(long, short)| long / short).collect());
    let name = format!("{engine}: a turn at {} messages, {among}", size.messages);
    let row = Row::new(name, median(measured.long.clone()), "ms").beside(short).ratio(pairs(&measured.long));
    report.row(&row.more("others", others).target(Target::RatioAtMost(2.0)))?;
    if engine == "sled" && others == 0 {
        let name = format!("{engine}: the same turn, in milliseconds");
        report.row(&Row::new(name, median(measured.long.clone()), "ms").target(Target::AtMost(TURN_MS)))?;
    }
    let name = format!("{engine}: the same, its messages looked at, {among}");
    let row =
        Row::new(name, median(measured.looked.clone()), "ms").beside(short).ratio(pairs(&measured.looked));
    report.row(&row.more("others", others))
}

/// Measures turns one at a time, alternating between the kinds, so that a slow minute affects all of them.
async fn measure(system: &System, model: &Answers, short: &[String]) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    turn(system, "long").await?;
    for short in short {
        measured.short.push(turn(system, short).await?);
        measured.long.push(turn(system, "long").await?);
        model.looks.store(true, Ordering::Relaxed);
        let looked = turn(system, "long").await;
        model.looks.store(false, Ordering::Relaxed);
        measured.looked.push(looked?);
    }
    Ok(measured)
}

/// Returns the milliseconds from sending a question to the end of its turn.
async fn turn(system: &System, session: &str) -> Result<f64, Failure> {
    let begin = Instant::now();
    let end = system.session(session).send(Part::infer(QUESTION)).await?.finished().await?;
    let spent = begin.elapsed();
    if end.state() != TaskState::Completed {
        return Err(format!("the turn ended {}: {:?}", end.state(), end.task().error()).into());
    }
    Ok(millis(spent))
}

fn millis(spent: Duration) -> f64 {
    spent.as_secs_f64() * 1_000.0
}

/// Fills each of these sessions with this many messages, concurrently.
async fn fill(system: &System, sessions: Vec<String>, messages: usize) -> Result<(), Failure> {
    let turns = messages / 2;
    for some in sessions.chunks(AT_ONCE) {
        let filled = some.iter().cloned().map(|session| {
            let system = system.clone();
            tokio::spawn(async move {
                for _ in 0..turns {
                    turn(&system, &session).await?;
                }
                let said = system.session(&session).history().await?.len();
                // The system message is one more.
                if said == 2 * turns + 1 { Ok(()) } else { Err(Failure::from(format!("{said} messages"))) }
            })
        });
        for filled in filled.collect::<Vec<_>>() {
            filled.await??;
        }
    }
    Ok(())
}

/// A line of the script's output: the reason why it measured nothing, or the turns of one kind of session.
/// Not an untagged enum: serde could not match numbers that are kept as their own text.
#[derive(Deserialize)]
struct Said {
    unavailable: Option<String>,
    #[serde(default)]
    messages: usize,
    #[serde(default)]
    others: usize,
    #[serde(default)]
    ms: Vec<f64>,
}

/// Measures the same turns in Protolink and compares ours with them.
fn peer(size: Size, ours: Option<[f64; 2]>, report: &mut Report) -> Result<(), Failure> {
    let kinds = [(SHORT, 0), (size.messages, 0), (SHORT, size.others), (size.messages, size.others)];
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/session_peer.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(support::scratch().join("session-peer")).arg((size.turns / 5).max(3).to_string());
    let output = command.args(kinds.map(|(messages, others)| format!("{messages}:{others}"))).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!("Protolink 0.6.4 was not measured: python3 cannot be started: {error}");
            return Ok(());
        }
    };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Said { unavailable, messages, others, ms } = serde_json::from_str(line)?;
        if let Some(why) = unavailable {
            println!("Protolink 0.6.4 was not measured: {why}");
            return Ok(());
        }
        peer_rows(size, ours, (messages, others, median(ms)), report)?;
    }
    if output.status.success() {
        return Ok(());
    }
    Err(format!("the script of Protolink failed: {}", String::from_utf8_lossy(&output.stderr)).into())
}

fn peer_rows(
    size: Size,
    ours: Option<[f64; 2]>,
    (messages, others, theirs): (usize, usize, f64),
    report: &mut Report,
) -> Result<(), Failure> {
    let among = if others == 0 { "alone".to_owned() } else { format!("among {others} other sessions") };
    report.row(&Row::new(format!("Protolink: a turn at {messages} messages, {among}"), theirs, "ms"))?;
    let Some([alone, among_others]) = ours.filter(|_| messages == size.messages) else { return Ok(()) };
    let own = if others == 0 { alone } else { among_others };
    let row = Row::new(
        format!("sled beside Protolink: turns at {messages} messages, {among}"),
        1_000.0 / own,
        "/s",
    );
    report.row(&row.beside(1_000.0 / theirs).target(Target::RatioAtLeast(50.0)))
}
