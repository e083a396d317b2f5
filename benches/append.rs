//! Appends to the store alone, without actors: by the number of concurrent appends and the size of their
//! events; then full groups, with their cost in disk space and writes. A raw file with group-committed
//! `fdatasync` takes the same records for comparison.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use taskreel_log::api::EventStore;
use taskreel_log::sled::{SledStore, blob_files};

use crate::support::log::{Bodies, Filled, Lane, Shape, fill, stream};
use crate::support::raw::RawStore;
use crate::support::{
    Asked, Failure, Report, Row, Target, machine, median, number, percentile, rate, setting,
};

const HELP: &str = "\
cargo bench --bench append: appends of one event each to the store alone, a second

  by how many wait at once (1, 16, 256; 600 bytes), by size (300 bytes to 30 KB; 256 at once), and in full groups
  (4,096 on their way), where bytes written and disk used are compared with the bytes stored
  the baseline is a raw file: same records, hashing included, one write and one fdatasync for each group

  TASKREEL_BENCH_SECONDS (1)      time for each cell of each round
  TASKREEL_BENCH_ROUNDS (3)       rounds; figures are medians, ratios are taken round by round
  TASKREEL_BENCH_EVENTS (300000)  events of the full groups";

/// The number of appenders, and the bytes of their events' bodies.
const CELLS: [(usize, usize); 6] = [(1, 600), (16, 600), (256, 600), (256, 300), (256, 3_000), (256, 30_000)];

#[derive(Debug, Clone, Copy)]
struct Measured {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
}

fn main() -> Result<(), Failure> {
    let Some(asked) = Asked::read("append", HELP) else { return Ok(()) };
    let mut report = Report::begin("append", asked)?;
    // The appenders share one thread, like the actors.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(all_rows(asked, &mut report))?;
    report.end();
    Ok(())
}

async fn all_rows(asked: Asked, report: &mut Report) -> Result<(), Failure> {
    let time = Duration::from_secs_f64(setting("TASKREEL_BENCH_SECONDS", asked.size(1.0, 0.02))?);
    let rounds = setting("TASKREEL_BENCH_ROUNDS", asked.size(3_usize, 1))?.max(1);
    for (appenders, bytes) in CELLS {
        let mut pairs = Vec::new();
        for _ in 0..rounds {
            let raw = cell("raw", appenders, bytes, time).await?;
            pairs.push((raw, cell("sled", appenders, bytes, time).await?));
        }
        report.row(&cell_row(appenders, bytes, &pairs))?;
    }
    let events = setting("TASKREEL_BENCH_EVENTS", asked.size(300_000_usize, 5_000))?;
    full_groups(report, Shape { streams: events.div_ceil(10), events_each: 10, body_bytes: 600 }).await
}

fn cell_row(appenders: usize, bytes: usize, pairs: &[(Measured, Measured)]) -> Row {
    let of = |what: fn(&(Measured, Measured)) -> f64| median(pairs.iter().map(what).collect());
    Row::new(format!("appends of {bytes} bytes, {appenders} at a time"), of(|pair| pair.1.per_second), "/s")
        .beside(of(|pair| pair.0.per_second))
        .ratio(of(|pair| pair.1.per_second / pair.0.per_second))
        .more("appenders", appenders)
        .more("body_bytes", bytes)
        .more("p50_ms", of(|pair| pair.1.p50_ms))
        .more("p99_ms", of(|pair| pair.1.p99_ms))
        .more("baseline_p50_ms", of(|pair| pair.0.p50_ms))
        .more("baseline_p99_ms", of(|pair| pair.0.p99_ms))
}

fn make(engine: &str, path: &Path) -> Result<Arc<dyn EventStore>, Failure> {
    Ok(match engine {
        "raw" => Arc::new(RawStore::create(path)?),
        _ => Arc::new(SledStore::open(path)?),
    })
}

/// Measures appenders with a stream each, which await each append before the next.
async fn cell(engine: &str, appenders: usize, bytes: usize, time: Duration) -> Result<Measured, Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let store = make(engine, &folder.path().join("log"))?;
    let bodies = Bodies::of(bytes)?;
    let sets = AtomicU64::new(1);
    let begin = Instant::now();
    let appender = |n: usize| {
        let (store, bodies, sets) = (&store, &bodies, &sets);
        async move {
            let mut lane = Lane::new(stream(n)?);
            let mut laps = Vec::new();
            while begin.elapsed() < time || laps.is_empty() {
                let lap = Instant::now();
                let set = sets.fetch_add(1, Ordering::Relaxed);
                store.append(lane.next(store.fence(), set.into(), bodies)?).await?;
                laps.push(lap.elapsed().as_secs_f64() * 1_000.0);
            }
            Ok::<_, Failure>(laps)
        }
    };
    let laps = futures_util::future::try_join_all((0..appenders).map(appender)).await?;
    let spent = begin.elapsed();
    store.close()?;
    let mut laps: Vec<f64> = laps.into_iter().flatten().collect();
    laps.sort_by(f64::total_cmp);
    Ok(Measured {
        per_second: rate(u64::try_from(laps.len())?, spent),
        p50_ms: percentile(&laps, 50),
        p99_ms: percentile(&laps, 99),
    })
}

/// The figures of one engine with full groups.
struct Full {
    filled: Filled,
    written: u64,
    disk: u64,
    blobs: usize,
}

async fn full(engine: &str, shape: Shape) -> Result<Full, Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let path = folder.path().join("log");
    let store = make(engine, &path)?;
    let before = machine::bytes_written()?;
    let filled = fill(&*store, shape).await?;
    let written = machine::bytes_written()?.saturating_sub(before);
    store.close()?;
    let blobs = if path.is_dir() { blob_files(&path)?.len() } else { 0 };
    Ok(Full { filled, written, disk: machine::disk_used(folder.path())?, blobs })
}

async fn full_groups(report: &mut Report, shape: Shape) -> Result<(), Failure> {
    let raw = full("raw", shape).await?;
    let sled = full("sled", shape).await?;
    let speed = |full: &Full| rate(shape.events(), full.filled.spent);
    let stored = number(sled.filled.stored_bytes);
    let row = Row::new("appends of 600 bytes in full groups", speed(&sled), "/s").beside(speed(&raw));
    report.row(&row.more("events", shape.events()).more("stored_bytes", sled.filled.stored_bytes))?;
    let over = |bytes: u64| number(bytes) / stored;
    let row = Row::new("bytes written for each byte stored, full groups", over(sled.written), "bytes");
    report.row(&row.beside(over(raw.written)).target(Target::AtMost(1.3)))?;
    let row = Row::new("disk used for each byte stored, full groups", over(sled.disk), "bytes");
    report.row(&row.beside(over(raw.disk)).target(Target::AtMost(1.15)))?;
    let row = Row::new("blob files", number(u64::try_from(sled.blobs)?), "files");
    report.row(&row.target(Target::AtMost(0.0)))
}
