//! Durable task lifecycles: five events of about 600 bytes for each task. Once as five commands, each
//! awaited, and once as two (a task, then the same task posted again with four more messages: one append).
//! For comparison with the log on sled, the same actors write the same bytes, hashing included, to a raw file
//! with group-committed `fdatasync`, in the same run. The memory rows show what the actors alone can do.
#![allow(clippy::print_stdout, reason = "rows go to stdout")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use taskreel::System;
use taskreel_log::api::EventStore;
use taskreel_log::memory::MemoryStore;
use taskreel_log::sled::SledStore;

use crate::support::lives::{check_sizes, in_five, in_two};
use crate::support::raw::RawStore;
use crate::support::{Asked, Failure, Report, Row, Target, median, setting, wanted};

const HELP: &str = "\
cargo bench --bench lifecycle: durable task lifecycles a second, five events of about 600 bytes each

  five   five commands, each awaited: five appends      two   a task and its longer self: two appends
  raw    the same actors on a raw file, one fdatasync for each group: the yardstick
  sled   the log                                        memory   the actors alone

  TASKREEL_BENCH_SECONDS (1)     time for each cell of each round
  TASKREEL_BENCH_ROUNDS (3)      rounds; figures are medians, ratios are taken round by round
  TASKREEL_BENCH_ENGINES, _CONCURRENCY, _COMMANDS   name some of them only, for profiling: sled, 256, five";

const ENGINES: [&str; 3] = ["raw", "sled", "memory"];
const CONCURRENCY: [usize; 3] = [1, 16, 256];

/// The commands of a lifecycle, and the target ratios to the yardstick by concurrency.
const COMMANDS: [(Commands, &str, [f64; 3]); 2] =
    [(Commands::Five, "five", [0.62, 0.52, 0.70]), (Commands::Two, "two", [0.60, 0.55, 0.70])];

#[derive(Debug, Clone, Copy)]
enum Commands {
    Five,
    Two,
}

/// A kind of work.
#[derive(Debug, Clone, Copy)]
struct Work {
    commands: Commands,
    name: &'static str,
    concurrency: usize,
    target: f64,
}

/// The figures of one cell of one round.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
}

fn main() -> Result<(), Failure> {
    let Some(asked) = Asked::read("lifecycle", HELP) else { return Ok(()) };
    check_sizes()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::begin("lifecycle", asked)?;
    runtime.block_on(all_rows(asked, &mut report))?;
    report.end();
    Ok(())
}

/// Measures all engines in turn in each round, so that a slow minute of the disk affects all of them.
async fn all_rows(asked: Asked, report: &mut Report) -> Result<(), Failure> {
    let time = Duration::from_secs_f64(setting("TASKREEL_BENCH_SECONDS", asked.size(1.0, 0.02))?);
    let rounds = setting("TASKREEL_BENCH_ROUNDS", asked.size(3_usize, 1))?;
    let engines: Vec<&'static str> =
        ENGINES.into_iter().filter(|engine| wanted("TASKREEL_BENCH_ENGINES", engine)).collect();
    for work in all_work() {
        let mut measured = vec![Vec::new(); engines.len()];
        for _ in 0..rounds.max(1) {
            for (engine, measured) in engines.iter().zip(&mut measured) {
                measured.push(cell(support::scratch(), engine, work, time).await?);
            }
        }
        let raw = engines.iter().position(|engine| *engine == "raw");
        let raw = raw.and_then(|at| measured.get(at)).cloned();
        for (engine, measured) in engines.iter().zip(&measured) {
            write_rows(report, engine, work, measured, raw.as_deref())?;
        }
    }
    Ok(())
}

fn all_work() -> Vec<Work> {
    let commands = COMMANDS.into_iter().filter(|(_, name, _)| wanted("TASKREEL_BENCH_COMMANDS", name));
    let work = commands.flat_map(|(commands, name, targets)| {
        let work = move |(concurrency, target)| Work { commands, name, concurrency, target };
        CONCURRENCY.into_iter().zip(targets).map(work)
    });
    work.filter(|work| wanted("TASKREEL_BENCH_CONCURRENCY", &work.concurrency.to_string())).collect()
}

fn write_rows(
    report: &mut Report,
    engine: &str,
    work: Work,
    measured: &[Measured],
    raw: Option<&[Measured]>,
) -> Result<(), Failure> {
    let of = |what: fn(&Measured) -> f64| median(measured.iter().map(what).collect());
    let (p50, p99) = (of(|measured| measured.p50_ms), of(|measured| measured.p99_ms));
    let name = format!("{engine}: lifecycles in {} appends, {} at a time", work.name, work.concurrency);
    let mut row = Row::new(name, of(|measured| measured.per_second), "/s")
        .more("engine", engine)
        .more("appends", work.name)
        .more("concurrency", work.concurrency)
        .more("p50_ms", p50)
        .more("p99_ms", p99);
    if let Some(raw) = raw.filter(|_| engine != "raw") {
        let ratios = measured.iter().zip(raw).map(|(own, raw)| own.per_second / raw.per_second);
        row = row
            .beside(median(raw.iter().map(|raw| raw.per_second).collect()))
            .ratio(median(ratios.collect()));
    }
    if engine == "sled" {
        row = row.target(Target::RatioAtLeast(work.target));
    }
    report.row(&row)?;
    if engine == "sled" && work.concurrency == 256 {
        let tails = measured.iter().map(|measured| measured.p99_ms / measured.p50_ms);
        let name = format!("sled: p99 over p50 in {} appends, 256 at a time", work.name);
        let row = Row::new(name, median(tails.collect()), "times").target(Target::AtMost(3.0));
        report.row(&row.more("p50_ms", p50).more("p99_ms", p99))?;
    }
    Ok(())
}

/// Measures one engine under one load, on a log of its own; a fifth of the time is for warming up.
async fn cell(target: &Path, engine: &str, work: Work, time: Duration) -> Result<Measured, Failure> {
    let folder = tempfile::tempdir_in(target)?;
    let path: PathBuf = folder.path().join("log");
    let store: Arc<dyn EventStore> = match engine {
        "raw" => Arc::new(RawStore::create(&path)?),
        "sled" => Arc::new(SledStore::open(&path)?),
        _ => Arc::new(MemoryStore::new()),
    };
    let system = System::builder(path).store(store).start().await?;
    load(&system, work, time / 5, "warm").await?;
    let (spent, mut laps) = load(&system, work, time, "run").await?;
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

/// Runs the given number of tasks at a time until the time is over. Returns the time taken, and the time of
/// each lifecycle.
async fn load(
    system: &System,
    work: Work,
    time: Duration,
    name: &str,
) -> Result<(Duration, Vec<Duration>), Failure> {
    let number = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    let workers = (0..work.concurrency).map(|_| {
        let (system, number, name) = (system.clone(), Arc::clone(&number), name.to_owned());
        tokio::spawn(async move {
            let mut laps = Vec::new();
            while begin.elapsed() < time || laps.is_empty() {
                let id = format!("{name}_{:012}", number.fetch_add(1, Ordering::Relaxed));
                let lap = Instant::now();
                match work.commands {
                    Commands::Five => in_five(&system, &id).await?,
                    Commands::Two => in_two(&system, &id).await?,
                }
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
