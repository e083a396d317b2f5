//! Reading a log back: scanning all of it, decoding each event, and waking one task. For comparison, the same
//! records are read from a raw file, in order, with the same decoding and hashing.

mod support;

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use proto_events::codec::AnyEvent;
use proto_events::codec::record::RecordView;
use proto_events::id::{Category, Position};
use proto_events::task::{Task, TaskEvent};
use taskreel_log::api::{Compare, EventReader, EventStore as _, ScannedRecord};
use taskreel_log::audit::{Scope, verify_within};
use taskreel_log::read::{decode_record, fold_stream, scan_mapped};
use taskreel_log::sled::{SledOptions, SledStore};

use crate::support::log::{Dice, Shape, fill, stream};
use crate::support::raw::RawStore;
use crate::support::{Asked, Failure, Report, Row, Target, machine, median, percentile, rate, setting};

const HELP: &str = "\
cargo bench --bench replay: reading 1,000,000 events of 300 bytes in 100,000 streams, and waking one of them

  scan   by two threads, every event decoded, records borrowed from the log; `hashes`: every leaf hash and every body's digest compared
  pages  the same by read_all: records of their own, every hash compared
  wake   a task's ten records read, compared, decoded and folded: read lately; first read after opening; from the disk
         (needs root, else it is left out)
  the baseline reads the same records in order from one raw file, with the same checksums, hashes and decoding

  TASKREEL_BENCH_STREAMS (100000)  streams of ten events each
  TASKREEL_BENCH_ROUNDS (3)        rounds; figures are medians
  TASKREEL_BENCH_WAKES (2000)      tasks woken from memory";

/// The number of events in each stream.
const EVENTS_EACH: usize = 10;

/// The default number of tasks woken from memory.
const WAKES: usize = 2_000;

/// The number of streams woken from disk: few, so that pages read for one stream are not those another needs.
const COLD_WAKES: usize = 40;

fn main() -> Result<(), Failure> {
    let Some(asked) = Asked::read("replay", HELP) else { return Ok(()) };
    let mut report = Report::begin("replay", asked)?;
    let streams = setting("TASKREEL_BENCH_STREAMS", asked.size(100_000_usize, 300))?;
    let rounds = setting("TASKREEL_BENCH_ROUNDS", asked.size(3_usize, 1))?.max(1);
    let shape = Shape { streams, events_each: EVENTS_EACH, body_bytes: 300 };
    let folder = tempfile::tempdir_in(support::scratch())?;
    let (dir, raw) = (folder.path().join("log"), folder.path().join("raw"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    {
        let (store, file) = (SledStore::open(&dir)?, RawStore::create(&raw)?);
        runtime.block_on(fill(&store, shape))?;
        runtime.block_on(fill(&file, shape))?;
        store.close()?;
        file.close()?;
    }
    scans(&mut report, &dir, &raw, shape, rounds)?;
    wakes(&mut report, &dir, streams)?;
    let records = asked.size(120_000_usize, 1_200);
    long_stream(&mut report, &folder.path().join("long"), records, &runtime)?;
    report.end();
    Ok(())
}

fn scans(report: &mut Report, dir: &Path, raw: &Path, shape: Shape, rounds: usize) -> Result<(), Failure> {
    let store = SledStore::open_with(dir, SledOptions { scan_threads: 2, ..SledOptions::default() })?;
    let timed = |work: &dyn Fn() -> Result<u64, Failure>| timed(shape, rounds, work);
    for (compare, name, target) in [
        (Compare::Checksums, "scan, every event decoded, checksums compared", 2.5e6),
        (Compare::Hashes, "scan, every event decoded, every hash compared", 1.5e6),
    ] {
        let (baseline, baseline_by_cpu) = timed(&|| read_raw(raw, compare))?;
        let (scan, by_cpu) = timed(&|| scan(&store, compare))?;
        let row =
            Row::new(name, scan, "events/s").beside(baseline).by_cpu(by_cpu).target(Target::AtLeast(target));
        report.row(&row.more("events", shape.events()).more("baseline_by_cpu", baseline_by_cpu))?;
        let (alone, by_cpu) = timed(&|| scan_alone(&store, compare))?;
        report.row(&Row::new(format!("{name}, one thread"), alone, "events/s").by_cpu(by_cpu))?;
    }
    let (scan, by_cpu) = timed(&|| headers(&store))?;
    report.row(&Row::new("scan, nothing decoded, checksums compared", scan, "events/s").by_cpu(by_cpu))?;
    let (read, by_cpu) = timed(&|| pages(&store))?;
    report
        .row(&Row::new("pages, every event decoded, every hash compared", read, "events/s").by_cpu(by_cpu))?;
    Ok(store.close()?)
}

/// Returns events per second, by the clock and by processor time: medians of rounds after one warm-up round.
fn timed(
    shape: Shape,
    rounds: usize,
    work: &dyn Fn() -> Result<u64, Failure>,
) -> Result<(f64, f64), Failure> {
    let (mut speeds, mut by_cpu) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let (begin, cpu) = (Instant::now(), machine::cpu()?);
        let events = work()?;
        if events != shape.events() {
            return Err(format!("{events} events were read").into());
        }
        if round > 0 {
            speeds.push(rate(events, begin.elapsed()));
            by_cpu.push(rate(events, machine::cpu()?.saturating_sub(cpu)));
        }
    }
    Ok((median(speeds), median(by_cpu)))
}

/// Decodes the events of a record and returns their number.
fn decode(record: &RecordView<'_>) -> Result<u64, String> {
    let category = Category::from_stream(record.stream);
    for event in record.events() {
        let event = event.map_err(|error| error.to_string())?;
        let body = event.body.ok_or("a body stands in chunks")?;
        let event = AnyEvent::decode(category, event.kind, event.schema, body);
        std::hint::black_box(event.map_err(|error| error.to_string())?);
    }
    Ok(record.event_count.into())
}

/// Scans by two threads, as commands that read a log do where nobody writes it.
fn scan(store: &SledStore, compare: Compare) -> Result<u64, Failure> {
    let mut events = 0;
    let decoded = |scanned: &ScannedRecord<'_>| decode(&scanned.record).map_err(|what| scanned.corrupt(what));
    scan_mapped(store, compare, decoded, |count| {
        events += count;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(events)
}

fn scan_alone(store: &SledStore, compare: Compare) -> Result<u64, Failure> {
    let mut events = 0;
    store.scan(Position(1), compare, &mut |scanned| {
        events += decode(&scanned.record).map_err(|what| scanned.corrupt(what))?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(events)
}

fn headers(store: &SledStore) -> Result<u64, Failure> {
    let mut events = 0;
    store.scan(Position(1), Compare::Checksums, &mut |scanned| {
        events += u64::from(scanned.record.event_count);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(events)
}

fn pages(store: &SledStore) -> Result<u64, Failure> {
    let (mut next, mut events) = (Position(1), 0);
    loop {
        let page = store.read_all(next, 256)?;
        let Some(last) = page.last() else { return Ok(events) };
        next = Position(last.last_position().0 + 1);
        for stored in &page {
            events += u64::try_from(std::hint::black_box(decode_record::<TaskEvent>(stored)?).len())?;
        }
    }
}

/// Reads the raw file: groups of checksum, first position and number of records, then length, leaf hash and
/// bytes of each record.
fn read_raw(path: &Path, compare: Compare) -> Result<u64, Failure> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    let (mut events, mut group, mut header) = (0, Vec::new(), [0; 16]);
    while file.read_exact(&mut header).is_ok() {
        let (stored, rest) = header.split_first_chunk::<4>().ok_or("no header")?;
        let mut checksum = crc32c::crc32c(rest);
        let records = u32::from_be_bytes(*rest.last_chunk::<4>().ok_or("no count")?);
        for _ in 0..records {
            let mut frame = [0; 36];
            file.read_exact(&mut frame)?;
            let (length, hash) = frame.split_first_chunk::<4>().ok_or("no frame")?;
            group.resize(usize::try_from(u32::from_be_bytes(*length))?, 0);
            file.read_exact(&mut group)?;
            checksum = crc32c::crc32c_append(crc32c::crc32c_append(checksum, &frame), &group);
            let record = RecordView::peek(&group)?;
            if compare == Compare::Hashes {
                check(&record, hash)?;
            }
            events += decode(&record)?;
        }
        if checksum != u32::from_be_bytes(*stored) {
            return Err("the raw file's checksum is wrong".into());
        }
    }
    Ok(events)
}

fn check(record: &RecordView<'_>, hash: &[u8]) -> Result<(), Failure> {
    let mut same = record.leaf_hash().0 == hash;
    for event in record.events() {
        same &= event?.matches_digest();
    }
    if same { Ok(()) } else { Err("a hash in the raw file is wrong".into()) }
}

fn wakes(report: &mut Report, dir: &Path, streams: usize) -> Result<(), Failure> {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut some = |count: usize| (0..count.min(streams)).map(|_| dice.below(streams)).collect::<Vec<_>>();
    let store = SledStore::open(dir)?;
    let lately = some(setting("TASKREEL_BENCH_WAKES", WAKES)?);
    let first = wake(&store, &lately)?;
    let again = wake(&store, &lately)?;
    report.row(&wake_row("wake of a ten-event task, read lately", &again, 120.0))?;
    report.row(&wake_row("wake of a ten-event task, first after opening", &first, 150.0))?;
    store.close()?;
    let store = SledStore::open(dir)?;
    if machine::forget_files() {
        let disk = wake(&store, &some(COLD_WAKES))?;
        report.row(&wake_row("wake of a ten-event task, from the disk", &disk, 5_000.0))?;
    }
    Ok(store.close()?)
}

fn wake_row(what: &str, wakes: &Wakes, target: f64) -> Row {
    Row::new(what, percentile(&wakes.micros, 50), "us p50")
        .by_cpu(wakes.mean_cpu_micros)
        .target(Target::AtMost(target))
        .more("p99_us", percentile(&wakes.micros, 99))
        .more("wakes", wakes.micros.len())
}

/// Folds and verifies one stream of many records.
fn long_stream(
    report: &mut Report,
    dir: &Path,
    records: usize,
    runtime: &tokio::runtime::Runtime,
) -> Result<(), Failure> {
    let store = SledStore::open(dir)?;
    runtime.block_on(fill(&store, Shape { streams: 1, events_each: records, body_bytes: 300 }))?;
    let stream = stream(0)?;
    let begin = Instant::now();
    let folded = fold_stream::<Task>(&store, &stream, None)?;
    let fold = begin.elapsed().as_secs_f64();
    if folded.state.messages().len() != records {
        return Err(format!("{stream} has {} messages", folded.state.messages().len()).into());
    }
    let begin = Instant::now();
    let scope = Scope { only: Some(&stream), ..Scope::default() };
    let verified = verify_within(&store, &scope, &mut |_| {});
    let verify = begin.elapsed().as_secs_f64();
    if verified.records != u64::try_from(records)? {
        return Err(format!("{} records of {stream} were verified", verified.records).into());
    }
    for (what, spent) in [("fold", fold), ("verify", verify)] {
        let row = Row::new(format!("{what} of one stream of 120,000 records"), spent, "s");
        report.row(&row.target(Target::AtMost(1.0)).more("records", records))?;
    }
    Ok(store.close()?)
}

/// The figures of waking some tasks.
struct Wakes {
    /// The time of each wake in microseconds, shortest first.
    micros: Vec<f64>,
    mean_cpu_micros: f64,
}

/// Reads and folds the stream of each of these tasks.
fn wake(store: &dyn EventReader, numbers: &[usize]) -> Result<Wakes, Failure> {
    let cpu = machine::cpu()?;
    let wake = |number: &usize| {
        let stream = stream(*number)?;
        let begin = Instant::now();
        let folded = fold_stream::<Task>(store, &stream, None)?;
        let spent = begin.elapsed().as_secs_f64() * 1e6;
        if folded.state.messages().len() == EVENTS_EACH {
            Ok(spent)
        } else {
            Err(format!("{stream} has {} messages", folded.state.messages().len()).into())
        }
    };
    let mut micros = numbers.iter().map(wake).collect::<Result<Vec<f64>, Failure>>()?;
    let spent = machine::cpu()?.saturating_sub(cpu).as_secs_f64() * 1e6;
    micros.sort_by(f64::total_cmp);
    let mean_cpu_micros = spent / f64::from(u32::try_from(micros.len().max(1))?);
    Ok(Wakes { micros, mean_cpu_micros })
}
