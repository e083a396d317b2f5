//! Opening a log: cold, and with the time of its parts. For comparison, the same file is read once from start
//! to end, cold, with a checksum: nothing that reads every byte can be faster.

mod support;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use taskreel_log::api::EventStore as _;
use taskreel_log::sled::SledStore;

use crate::support::log::{Shape, fill};
use crate::support::{Asked, Failure, Report, Row, Target, machine, median, setting};

const HELP: &str = "\
cargo bench --bench open: opening a log of 1,000,000 events of 300 bytes in 100,000 streams

  first   the first opening after the log was written: the database replays its own log
  next    the openings after it
  rebuilt the index that is kept on disk was deleted before
  cold    the kernel has forgotten the files; needs root, else it is left out
  warm    they are in its cache
  the baseline reads the database's file once, with a checksum over it

  TASKREEL_BENCH_STREAMS (100000)  streams of ten events each
  TASKREEL_BENCH_ROUNDS (3)        openings of each kind; figures are medians";

/// The targets in seconds, of 1,000,000 events.
const FIRST_COLD: f64 = 0.5;
const REBUILT_COLD: f64 = 0.8;
const WARM: f64 = 0.06;
const REBUILT_WARM: f64 = 0.5;

/// The number of events in each stream.
const EVENTS_EACH: usize = 10;

fn main() -> Result<(), Failure> {
    let Some(asked) = Asked::read("open", HELP) else { return Ok(()) };
    let mut report = Report::begin("open", asked)?;
    let streams = setting("TASKREEL_BENCH_STREAMS", asked.size(100_000_usize, 300))?;
    let rounds = setting("TASKREEL_BENCH_ROUNDS", asked.size(3_usize, 1))?.max(1);
    let folder = tempfile::tempdir_in(support::scratch())?;
    let dir = folder.path().join("log");
    make(&dir, Shape { streams, events_each: EVENTS_EACH, body_bytes: 300 })?;
    rows(&mut report, &dir, rounds)?;
    report.end();
    Ok(())
}

fn make(dir: &Path, shape: Shape) -> Result<(), Failure> {
    let store = SledStore::open(dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(fill(&store, shape))?;
    Ok(store.close()?)
}

fn rows(report: &mut Report, dir: &Path, rounds: usize) -> Result<(), Failure> {
    let may_forget = machine::forget_files();
    if may_forget {
        let (first, read) = (open(dir)?, cold(dir, read_file)?);
        report.row(&row("first opening, cold", &[first], &[read]).target(Target::AtMost(FIRST_COLD)))?;
        let (mut opened, mut read) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            opened.push(cold(dir, open)?);
            read.push(cold(dir, read_file)?);
        }
        report.row(&row("next openings, cold", &opened, &read).target(Target::AtMost(FIRST_COLD)))?;
        let mut rebuilt = Vec::new();
        for _ in 0..rounds {
            without_index(dir)?;
            rebuilt.push(cold(dir, open)?);
        }
        report.row(
            &row("openings with the index rebuilt, cold", &rebuilt, &read)
                .target(Target::AtMost(REBUILT_COLD)),
        )?;
    }
    let (mut opened, mut read) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        opened.push(open(dir)?);
        read.push(read_file(dir)?);
    }
    report.row(&row("next openings, warm", &opened, &read).target(Target::AtMost(WARM)))?;
    let mut rebuilt = Vec::new();
    for _ in 0..rounds {
        without_index(dir)?;
        rebuilt.push(open(dir)?);
    }
    let row_of_rebuilt = row("openings with the index rebuilt, warm", &rebuilt, &read);
    report.row(&row_of_rebuilt.target(Target::AtMost(REBUILT_WARM)))?;
    let parts = (0..rounds).map(|_| parts(dir)).collect::<Result<Vec<_>, _>>()?;
    for (at, name) in PARTS.into_iter().enumerate() {
        let times: Vec<Duration> = parts.iter().filter_map(|times| times.get(at)).copied().collect();
        report.row(&row(name, &times, &[]))?;
    }
    Ok(())
}

fn row(what: &str, times: &[Duration], baseline: &[Duration]) -> Row {
    let of = |times: &[Duration]| median(times.iter().map(Duration::as_secs_f64).collect());
    let row = Row::new(what, of(times), "s").more("openings", times.len());
    if baseline.is_empty() { row } else { row.beside(of(baseline)) }
}

/// Measures `what` after the kernel has dropped its cached files.
fn cold(dir: &Path, what: fn(&Path) -> Result<Duration, Failure>) -> Result<Duration, Failure> {
    machine::forget_files();
    what(dir)
}

fn open(dir: &Path) -> Result<Duration, Failure> {
    let begin = Instant::now();
    let store = SledStore::open(dir)?;
    let spent = begin.elapsed();
    store.close()?;
    Ok(spent)
}

fn read_file(dir: &Path) -> Result<Duration, Failure> {
    let begin = Instant::now();
    let mut file = File::open(dir.join("db"))?;
    let (mut buffer, mut checksum) = (vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => checksum = crc32c::crc32c_append(checksum, buffer.get(..count).unwrap_or_default()),
        }
    }
    std::hint::black_box(checksum);
    Ok(begin.elapsed())
}

const PARTS: [&str; 2] =
    ["of it, warm: the database's own opening", "of a rebuilding, warm: the database's keys and values"];

/// Returns the times of the parts of an opening.
fn parts(dir: &Path) -> Result<[Duration; 2], Failure> {
    let begin = Instant::now();
    let database = database(dir)?;
    let opened = begin.elapsed();
    let begin = Instant::now();
    let mut bytes = 0;
    for item in &database.open_tree("log")? {
        bytes += item?.1.len();
    }
    std::hint::black_box(bytes);
    let read = begin.elapsed();
    released(database, dir)?;
    Ok([opened, read])
}

/// Opens the database alone, with the store's settings.
fn database(dir: &Path) -> Result<sled::Db, Failure> {
    Ok(sled::Config::new().path(dir).segment_size(4 * 1024 * 1024).flush_every_ms(None).open()?)
}

/// Closes the database. Its own threads release the directory some time after it was dropped.
fn released(database: sled::Db, dir: &Path) -> Result<(), Failure> {
    drop(database);
    Ok(File::open(dir.join("db"))?.lock()?)
}

/// Deletes the stored index, which is a cache.
fn without_index(dir: &Path) -> Result<(), Failure> {
    let database = database(dir)?;
    database.open_tree("meta")?.remove("index")?;
    database.open_tree("runs")?.clear()?;
    database.flush()?;
    released(database, dir)
}
