//! Durable lifecycles a second at 256 at a time, as a ratio to the bare minimum: one actix actor for each task, a record of
//! the same length, one writer, one `fdatasync` for each group, and nothing else. In the same binary, with the same allocator,
//! round by round. And one task of 5,000 messages with 16 callers, beside a fresh task with one.
#![allow(clippy::print_stdout, reason = "rows go to stdout")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proto_events::task::TaskCommand;
use taskreel::System;
use taskreel_log::api::EventStore;
use taskreel_log::sled::SledStore;

use crate::support::bare::{Bare, BareCommand};
use crate::support::lives::{BODY_BYTES, EVENTS, check_sizes, in_five, message, posted};
use crate::support::raw::{GROUP_HEAD_BYTES, RawStore};
use crate::support::{Asked, Failure, Report, Row, Target, median, number, setting, wanted};

/// The allocator of all three: memory is freed on other threads than it was allocated on, for which glibc's takes a lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HELP: &str = "\
cargo bench --bench command_path: durable lifecycles a second, beside the bare minimum

  bare   an actor for each task, a record, a writer, one fdatasync for each group: nothing else
  raw    taskreel's actors on a raw file      sled   taskreel as it is

  TASKREEL_BENCH_SECONDS (1)    time for each cell of each round
  TASKREEL_BENCH_ROUNDS (9)     rounds; ratios are taken round by round, figures are medians
  TASKREEL_BENCH_ENGINES        name some only, for a profiler: bare,raw,sled";

const AT_ONCE: u64 = 256;

/// The target ratios to the bare minimum, and the stored bounds below which the bench ends with an error: a loaded machine
/// takes more from three threads than from two.
const RAW: (f64, f64) = (0.65, 0.40);
const SLED: (f64, f64) = (0.42, 0.25);

/// The target of commands on a long task, as a ratio to those on a fresh one.
const LONG_TASK: f64 = 0.9;

fn main() -> Result<(), Failure> {
    let Some(asked) = Asked::read("command_path", HELP) else { return Ok(()) };
    check_sizes()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::begin("command_path", asked)?;
    let below = runtime.block_on(all_rows(asked, &mut report))?;
    report.end();
    if below.is_empty() || asked.quick { Ok(()) } else { Err(below.join("\n").into()) }
}

async fn all_rows(asked: Asked, report: &mut Report) -> Result<Vec<String>, Failure> {
    let time = Duration::from_secs_f64(setting("TASKREEL_BENCH_SECONDS", asked.size(1.0, 0.05))?);
    let rounds = setting("TASKREEL_BENCH_ROUNDS", asked.size(9_usize, 1))?;
    let bytes = record_bytes().await?;
    let written = one_bare_record(bytes).await?;
    let row =
        Row::new("bytes of one record in the file: raw beside bare", number(u64::try_from(bytes)?), "B");
    report.row(&row.beside(number(written)).target(Target::RatioAtMost(1.0)))?;
    let mut measured: [Vec<f64>; 3] = Default::default();
    for _ in 0..rounds.max(1) {
        for (engine, rates) in ["bare", "raw", "sled"].into_iter().zip(&mut measured) {
            if wanted("TASKREEL_BENCH_ENGINES", engine) {
                rates.push(cell(engine, time, bytes).await?);
            }
        }
    }
    let [bare, raw, sled] = measured;
    if [&bare, &raw, &sled].iter().any(|rates| rates.is_empty()) {
        for (engine, rates) in [("bare", bare), ("raw", raw), ("sled", sled)] {
            if !rates.is_empty() {
                report.row(&Row::new(format!("{engine}: lifecycles, 256 at a time"), median(rates), "/s"))?;
            }
        }
        return Ok(Vec::new());
    }
    let mut below = Vec::new();
    report.row(&Row::new("bare: lifecycles, 256 at a time", median(bare.clone()), "/s"))?;
    for (engine, rates, (target, bound)) in [("raw", raw, RAW), ("sled", sled, SLED)] {
        let ratio = median(rates.iter().zip(&bare).map(|(own, bare)| own / bare).collect());
        let row = Row::new(format!("{engine}: lifecycles, 256 at a time"), median(rates), "/s");
        let row = row.beside(median(bare.clone())).ratio(ratio);
        report.row(&row.target(Target::RatioAtLeast(target)))?;
        if ratio < bound {
            below.push(format!("{engine}: {ratio:.2} of bare is below its bound of {bound}"));
        }
    }
    several_arbiters(time, rounds, report).await?;
    let mut pairs = Vec::new();
    for _ in 0..rounds.max(1) {
        let fresh = one_task(0, 1, time).await?;
        pairs.push((one_task(asked.size(5_000, 500), 16, time).await?, fresh));
    }
    let of = |at: fn(&(f64, f64)) -> f64| median(pairs.iter().map(at).collect());
    let row = Row::new("one task of 5,000 messages, 16 callers: commands", of(|pair| pair.0), "/s");
    let row = row.beside(of(|pair| pair.1)).ratio(of(|pair| pair.0 / pair.1));
    report.row(&row.target(Target::RatioAtLeast(LONG_TASK)))?;
    Ok(below)
}

/// Measures what actors that are spread over two threads cost, beside those of one: a figure, and no claim of speed.
async fn several_arbiters(time: Duration, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let mut pairs = Vec::new();
    for _ in 0..rounds.max(1) {
        let one = on_arbiters(1, time).await?;
        pairs.push((on_arbiters(2, time).await?, one));
    }
    let of = |at: fn(&(f64, f64)) -> f64| median(pairs.iter().map(at).collect());
    let row = Row::new("sled, two arbiters beside one: lifecycles, 256 at a time", of(|pair| pair.0), "/s");
    report.row(&row.beside(of(|pair| pair.1)).ratio(of(|pair| pair.0 / pair.1)))
}

async fn on_arbiters(count: usize, time: Duration) -> Result<f64, Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let path = folder.path().join("log");
    let system = System::builder(&path).arbiters(count).store(open("sled", path.clone())?).start().await?;
    lives(&system, time / 5, "warm").await?;
    let rate = lives(&system, time, "run").await?;
    system.shutdown().await?;
    Ok(rate)
}

/// Returns the bytes that a command of a lifecycle adds to the raw file on average, without the head of its group.
async fn record_bytes() -> Result<usize, Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let path = folder.path().join("log");
    let system = System::builder(&path).store(open("raw", path.clone())?).start().await?;
    let before = std::fs::metadata(&path)?.len();
    in_five(&system, "run_000000000000").await?;
    // One command at a time, so that each is a group of its own.
    let written = std::fs::metadata(&path)?.len() - before;
    system.shutdown().await?;
    Ok(usize::try_from(written / EVENTS)? - GROUP_HEAD_BYTES)
}

/// Returns the bytes that one command of the bare actors writes.
async fn one_bare_record(record_bytes: usize) -> Result<u64, Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let path = folder.path().join("log");
    let bare = Bare::start(&path, record_bytes)?;
    bare.task()?.send(BareCommand(vec![b'x'; BODY_BYTES])).await?;
    let written = std::fs::metadata(&path)?.len();
    bare.stop();
    Ok(written)
}

async fn cell(engine: &str, time: Duration, record_bytes: usize) -> Result<f64, Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let path = folder.path().join("log");
    if engine == "bare" {
        return bare(&path, time, record_bytes).await;
    }
    let system = System::builder(&path).store(open(engine, path)?).start().await?;
    lives(&system, time / 5, "warm").await?;
    let rate = lives(&system, time, "run").await?;
    system.shutdown().await?;
    Ok(rate)
}

fn open(engine: &str, path: PathBuf) -> Result<Arc<dyn EventStore>, Failure> {
    Ok(if engine == "raw" { Arc::new(RawStore::create(&path)?) } else { Arc::new(SledStore::open(path)?) })
}

async fn lives(system: &System, time: Duration, name: &str) -> Result<f64, Failure> {
    let (number, begin) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let workers = (0..AT_ONCE).map(|_| {
        let (system, number, name) = (system.clone(), Arc::clone(&number), name.to_owned());
        tokio::spawn(async move {
            let mut done = 0_u32;
            while begin.elapsed() < time {
                let id = format!("{name}_{:012}", number.fetch_add(1, Ordering::Relaxed));
                in_five(&system, &id).await?;
                done += 1;
            }
            Ok::<_, Failure>(done)
        })
    });
    total(workers.collect(), begin).await
}

async fn total(
    workers: Vec<tokio::task::JoinHandle<Result<u32, Failure>>>,
    begin: Instant,
) -> Result<f64, Failure> {
    let mut done = 0;
    for worker in workers {
        done += worker.await??;
    }
    Ok(f64::from(done) / begin.elapsed().as_secs_f64())
}

async fn bare(path: &Path, time: Duration, record_bytes: usize) -> Result<f64, Failure> {
    let bare = Arc::new(Bare::start(path, record_bytes)?);
    let begin = Instant::now();
    let workers = (0..AT_ONCE).map(|_| {
        let bare = Arc::clone(&bare);
        tokio::spawn(async move {
            let mut done = 0_u32;
            while begin.elapsed() < time {
                let task = bare.task()?;
                for _ in 0..EVENTS {
                    task.send(BareCommand(vec![b'x'; BODY_BYTES])).await?;
                }
                done += 1;
            }
            Ok::<_, Failure>(done)
        })
    });
    let rate = total(workers.collect(), begin).await?;
    Arc::into_inner(bare).ok_or("a worker is left")?.stop();
    Ok(rate)
}

/// Returns the commands a second of some callers on one task that has this many messages; each caller keeps its answers.
async fn one_task(messages: u64, callers: u64, time: Duration) -> Result<f64, Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let path = folder.path().join("log");
    let system = System::builder(&path).store(open("raw", path)?).start().await?;
    let mut post = posted("one");
    post.messages.extend((1..messages).map(|n| message("one", n)));
    system.task("one")?.command(TaskCommand::Submit(Box::new(post))).await?;
    let (number, begin) = (Arc::new(AtomicU64::new(messages)), Instant::now());
    let workers = (0..callers).map(|_| {
        let (system, number) = (system.clone(), Arc::clone(&number));
        tokio::spawn(async move {
            let (task, mut done, mut kept) = (system.task("one")?, 0_u32, Vec::new());
            while begin.elapsed() < time {
                let next = message("one", 1 + number.fetch_add(1, Ordering::Relaxed));
                kept.push(task.command(TaskCommand::AppendMessage(next)).await?);
                done += 1;
            }
            drop(kept);
            Ok::<_, Failure>(done)
        })
    });
    let rate = total(workers.collect(), begin).await?;
    system.shutdown().await?;
    Ok(rate)
}
