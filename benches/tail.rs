//! The cost of a follower at the local socket to 16 writers: throughput and the slowest appends, with and without it, in
//! interleaved rounds. The follower is a process of its own, as `taskreel tail` is.

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proto_events::id::Position;
use taskreel_log::api::EventStore;
use taskreel_log::sled::SledStore;
use taskreel_log::socket::{FollowerItem, LocalSocket, SocketReader};

use crate::support::log::{Bodies, Lane, stream};
use crate::support::{Asked, Failure, Report, Row, Target, median, percentile, rate, setting};

const HELP: &str = "\
cargo bench --bench tail: appends of 16 writers with and without one follower at the local socket

  TASKREEL_BENCH_SECONDS (2)   time for each half of each round
  TASKREEL_BENCH_ROUNDS (9)    rounds; ratios are taken round by round, figures are medians";

/// The writers, and the bytes of their events' bodies.
const WRITERS: usize = 16;
const BODY_BYTES: usize = 600;

/// The variable by which the follower's process is told the directory.
const FOLLOW: &str = "TASKREEL_BENCH_FOLLOW";

#[derive(Debug, Clone, Copy)]
struct Measured {
    per_second: f64,
    p99_ms: f64,
}

fn main() -> Result<(), Failure> {
    if let Some(dir) = std::env::var_os(FOLLOW) {
        follow(Path::new(&dir));
        return Ok(());
    }
    let Some(asked) = Asked::read("tail", HELP) else { return Ok(()) };
    let mut report = Report::begin("tail", asked)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let time = Duration::from_secs_f64(setting("TASKREEL_BENCH_SECONDS", asked.size(2.0, 0.1))?);
    let rounds = setting("TASKREEL_BENCH_ROUNDS", asked.size(9_usize, 1))?.max(1);
    let mut pairs = Vec::new();
    for _ in 0..rounds {
        let alone = runtime.block_on(cell(false, time))?;
        pairs.push((alone, runtime.block_on(cell(true, time))?));
    }
    let of = |what: fn(&(Measured, Measured)) -> f64| median(pairs.iter().map(what).collect());
    let row = Row::new(
        "throughput beside a follower, as a share of that alone",
        of(|(alone, with)| with.per_second / alone.per_second),
        "x",
    );
    let row = row
        .more("alone_per_s", of(|pair| pair.0.per_second))
        .more("beside_per_s", of(|pair| pair.1.per_second));
    report.row(&row.target(Target::AtLeast(0.95)))?;
    let row = Row::new(
        "p99 of an append beside a follower, as a share of that alone",
        of(|(alone, with)| with.p99_ms / alone.p99_ms),
        "x",
    );
    let row = row.more("alone_ms", of(|pair| pair.0.p99_ms)).more("beside_ms", of(|pair| pair.1.p99_ms));
    report.row(&row.target(Target::AtMost(1.25)))?;
    report.end();
    Ok(())
}

/// Follows the log in a directory until its program closes it.
fn follow(dir: &Path) {
    let Ok(mut follower) = SocketReader::connect(dir).and_then(|reader| reader.follow(Position(1))) else {
        return;
    };
    let mut bytes = 0;
    while let Ok(followed) = follower.next() {
        if let FollowerItem::Record(record) = followed {
            bytes += record.bytes.len();
        }
    }
    std::hint::black_box(bytes);
}

/// A follower's process. Dropping it waits for its end, which follows that of the log.
struct Follower(Child);

impl Follower {
    fn start(dir: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        Ok(Self(command.env(FOLLOW, dir).stdin(Stdio::null()).spawn()?))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.wait();
    }
}

/// Measures writers with a stream each, which await each append before the next.
async fn cell(is_followed: bool, time: Duration) -> Result<Measured, Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let path = folder.path().join("log");
    let store = Arc::new(SledStore::open(&path)?);
    let socket = LocalSocket::open(&store.socket_path(), Arc::clone(&store) as Arc<dyn EventStore>, None)?;
    let follower = if is_followed { Some(Follower::start(&path)?) } else { None };
    while is_followed && socket.clients() == 0 {
        std::thread::yield_now();
    }
    let bodies = Bodies::of(BODY_BYTES)?;
    let sets = AtomicU64::new(1);
    let begin = Instant::now();
    let writer = |n: usize| {
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
    let laps = futures_util::future::try_join_all((0..WRITERS).map(writer)).await?;
    let spent = begin.elapsed();
    let socket = socket.shut();
    store.close()?;
    drop(follower);
    drop(socket);
    let mut laps: Vec<f64> = laps.into_iter().flatten().collect();
    laps.sort_by(f64::total_cmp);
    Ok(Measured { per_second: rate(u64::try_from(laps.len())?, spent), p99_ms: percentile(&laps, 99) })
}
