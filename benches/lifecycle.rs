//! Durable task lifecycles: five commands of one event of about 600 bytes for each task, each awaited. Beside the
//! log on sled the same actors write the same bytes, hashing included, to a raw file with group-committed
//! `fdatasync`, in the same run: read the ratio, since disks differ from minute to minute. The memory row shows
//! what the actors alone can do.
//!
//! `cargo bench --bench lifecycle` prints a table and writes `target/bench/lifecycle.json`.
//! `TASKREEL_BENCH_SECONDS` (1) is the time for each cell of each round, `TASKREEL_BENCH_ROUNDS` (3) how many
//! rounds; `TASKREEL_BENCH_ENGINES` and `TASKREEL_BENCH_CONCURRENCY` name some of them only, for profiling.
#![allow(clippy::print_stdout, reason = "rows go to stdout")]

#[path = "lifecycle/raw.rs"]
mod raw;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use proto_events::codec::Storable as _;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, Part, PostedTask, TaskState};
use proto_events::task::{TaskCommand, TaskEvent};
use serde::Serialize;
use taskreel::System;
use taskreel::store::{EventStore, MemoryStore, SledStore};

use crate::raw::RawStore;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Length of an event's body, in bytes, within a tenth.
const BODY_BYTES: usize = 600;
/// Commands of one lifecycle.
const COMMANDS: u64 = 5;
const ENGINES: [&str; 3] = ["raw", "sled", "memory"];
const CONCURRENCY: [usize; 3] = [1, 16, 256];

/// One row of the result.
#[derive(Debug, Serialize)]
struct Row {
    engine: &'static str,
    durability: &'static str,
    concurrency: usize,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    ratio_to_raw: Option<f64>,
}

/// What one cell of one round measured.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
}

fn main() -> Result<(), Failure> {
    // `cargo test --all-targets` starts benches too, without this word.
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("measures only under `cargo bench --bench lifecycle`");
        return Ok(());
    }
    check_sizes()?;
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let rows = runtime.block_on(all_rows(target))?;
    print(&rows);
    let folder = target.parent().unwrap_or(target).join("bench");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("lifecycle.json");
    std::fs::write(&file, serde_json::to_string_pretty(&rows)? + "\n")?;
    println!("written to {}", file.display());
    Ok(())
}

/// A number from the environment.
fn setting<N>(name: &str, otherwise: N) -> Result<N, Failure>
where
    N: FromStr<Err: std::fmt::Display>,
{
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|error| format!("{name}={text}: {error}").into()),
        Err(_) => Ok(otherwise),
    }
}

/// Whether the environment asks for it: it asks for all if it says nothing.
fn wanted(name: &str, what: &str) -> bool {
    std::env::var(name).map_or(true, |list| list.split(',').any(|item| item == what))
}

/// Rounds of all cells one after the other, so that a slow minute of the disk hits all engines; then medians.
async fn all_rows(target: &Path) -> Result<Vec<Row>, Failure> {
    let time = Duration::from_secs_f64(setting("TASKREEL_BENCH_SECONDS", 1.0)?);
    let rounds = setting("TASKREEL_BENCH_ROUNDS", 3_usize)?;
    let mut rows = Vec::new();
    let engines: Vec<&'static str> =
        ENGINES.into_iter().filter(|engine| wanted("TASKREEL_BENCH_ENGINES", engine)).collect();
    for concurrency in CONCURRENCY {
        if !wanted("TASKREEL_BENCH_CONCURRENCY", &concurrency.to_string()) {
            continue;
        }
        let mut measured = vec![Vec::new(); engines.len()];
        for _ in 0..rounds.max(1) {
            for (engine, measured) in engines.iter().zip(&mut measured) {
                measured.push(cell(target, engine, concurrency, time).await?);
            }
        }
        let raw = engines.iter().position(|engine| *engine == "raw");
        let raw = raw.and_then(|at| measured.get(at)).cloned();
        for (engine, measured) in engines.iter().zip(&measured) {
            rows.push(row(engine, concurrency, measured, raw.as_deref()));
        }
    }
    Ok(rows)
}

fn row(engine: &'static str, concurrency: usize, measured: &[Measured], raw: Option<&[Measured]>) -> Row {
    let of = |what: fn(&Measured) -> f64| median(measured.iter().map(what).collect());
    let ratios = raw.map(|raw| measured.iter().zip(raw).map(|(own, raw)| own.per_second / raw.per_second));
    Row {
        engine,
        durability: "strict",
        concurrency,
        per_second: of(|measured| measured.per_second),
        p50_ms: of(|measured| measured.p50_ms),
        p99_ms: of(|measured| measured.p99_ms),
        ratio_to_raw: ratios.map(|ratios| median(ratios.collect())),
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// One engine under one load, on a log of its own; a fifth of the time warms it up.
async fn cell(target: &Path, engine: &str, concurrency: usize, time: Duration) -> Result<Measured, Failure> {
    let folder = tempfile::tempdir_in(target)?;
    let path: PathBuf = folder.path().join("log");
    let store: Arc<dyn EventStore> = match engine {
        "raw" => Arc::new(RawStore::create(&path)?),
        "sled" => Arc::new(SledStore::open(&path)?),
        _ => Arc::new(MemoryStore::new()),
    };
    let system = System::builder(path).store(store).start().await?;
    load(&system, concurrency, time / 5, "warm").await?;
    let (spent, mut laps) = load(&system, concurrency, time, "run").await?;
    system.shutdown().await?;
    laps.sort_unstable();
    let at = |share: usize| laps.get((laps.len() * share / 100).min(laps.len().saturating_sub(1)));
    let millis = |share| at(share).map_or(f64::NAN, |lap| lap.as_secs_f64() * 1_000.0);
    Ok(Measured {
        per_second: f64::from(u32::try_from(laps.len())?) / spent.as_secs_f64(),
        p50_ms: millis(50),
        p99_ms: millis(99),
    })
}

/// So many tasks at a time, one after the other, until the time is over. Answers how long that took and how long
/// each lifecycle did.
async fn load(
    system: &System,
    concurrency: usize,
    time: Duration,
    name: &str,
) -> Result<(Duration, Vec<Duration>), Failure> {
    let number = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    let workers = (0..concurrency).map(|_| {
        let (system, number, name) = (system.clone(), Arc::clone(&number), name.to_owned());
        tokio::spawn(async move {
            let mut laps = Vec::new();
            while begin.elapsed() < time {
                let id = format!("{name}_{:012}", number.fetch_add(1, Ordering::Relaxed));
                let lap = Instant::now();
                lifecycle(&system, &id).await?;
                laps.push(lap.elapsed());
            }
            Ok::<_, Failure>(laps)
        })
    });
    let mut laps = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        laps.extend(worker.await??);
    }
    Ok((begin.elapsed(), laps))
}

async fn lifecycle(system: &System, id: &str) -> Result<(), Failure> {
    let task = system.task(id)?;
    task.command(TaskCommand::Submit(Box::new(posted(id)))).await?;
    for n in 1..COMMANDS {
        let end = task.command(TaskCommand::AppendMessage(message(id, n))).await?;
        if end.version().0 != n + 1 {
            return Err(format!("{id} has {} events after command {}", end.version(), n + 1).into());
        }
    }
    Ok(())
}

/// A text that fills an event up to its length. Made once: what is measured is the system, not its caller.
static TEXT: LazyLock<Part> = LazyLock::new(|| Part::text("durable ".repeat(61).trim_end()));

/// The same for the first event, which says more beside the text.
static FIRST: LazyLock<Part> = LazyLock::new(|| Part::text("durable ".repeat(52).trim_end()));

fn message(id: &str, n: u64) -> Message {
    said(id, n, &TEXT)
}

fn said(id: &str, n: u64, text: &Part) -> Message {
    Message {
        id: Some(format!("msg_{id}_{n}")),
        role: Some("user".to_owned()),
        parts: vec![text.clone()],
        timestamp: Some("2026-11-21T10:00:00.000000+00:00".to_owned()),
    }
}

fn posted(id: &str) -> PostedTask {
    PostedTask {
        id: id.to_owned(),
        state: TaskState::Submitted,
        messages: vec![said(id, 0, &FIRST)],
        artifacts: Vec::new(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: Some("2026-11-21T10:00:00.000000+00:00".to_owned()),
    }
}

/// The figures mean nothing if the events have not the length that is said.
fn check_sizes() -> Result<(), Failure> {
    let id = "run_000000000001";
    let events = [TaskEvent::Submitted(Box::new(posted(id))), TaskEvent::MessageAppended(message(id, 1))];
    for event in events {
        let bytes = event.encode()?.body.len();
        if bytes.abs_diff(BODY_BYTES) > BODY_BYTES / 10 {
            return Err(format!("an event's body has {bytes} bytes, not about {BODY_BYTES}").into());
        }
    }
    Ok(())
}

fn print(rows: &[Row]) {
    println!(
        "{:<8} {:>11} {:>12} {:>9} {:>9} {:>7}",
        "engine", "concurrency", "lifecycles/s", "p50 ms", "p99 ms", "to raw"
    );
    for row in rows {
        let ratio = row.ratio_to_raw.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        println!(
            "{:<8} {:>11} {:>12.0} {:>9.2} {:>9.2} {:>7}",
            row.engine, row.concurrency, row.per_second, row.p50_ms, row.p99_ms, ratio
        );
    }
}
