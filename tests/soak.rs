//! A mixed load for a long time: 200 conversations, calls of every mode, persons who decide, a log that is reopened
//! every few seconds, processes that end and are killed. Its memory stays flat, the log stays sound, and a ledger
//! outside the process shows that no Manual call took effect twice.
//!
//! `TASKREEL_SOAK_SECONDS` (12) sets how long it takes, `TASKREEL_SEED` repeats the dice of another run. The figures
//! are printed without `-- --nocapture`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "soak/agent.rs"]
mod agent;
#[path = "crash/dice.rs"]
mod dice;
#[path = "soak/load.rs"]
mod load;

use std::alloc::System as Machine;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use proto_events::call::CallEvent;
use proto_events::id::{Category, Position, StreamId};
use proto_events::task::TaskEvent;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use taskreel_log::api::{EventReader as _, EventStore as _, ReadError};
use taskreel_log::audit::{replay_all, verify};
use taskreel_log::read::{decode_record, for_each_record};
use taskreel_log::sled::SledStore;

use crate::dice::Dice;
use crate::load::Life;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<Machine> = &INSTRUMENTED_SYSTEM;

/// The entry of the process that works.
const ENTRY: &str = "the_process_of_the_soak";
/// The variable that marks that process, and holds what [`Life`] says.
const LIFE: &str = "TASKREEL_SOAK_LIFE";
/// The longest silence of a process that works.
const SILENCE_MAX: Duration = Duration::from_secs(150);
/// The number of measurements of a life from which on memory is compared.
const ENOUGH_RESTS: usize = 6;
/// The bytes that the later half of a life may add: sled keeps one buffer of 4 MiB more at times, and less at others.
const NOISE: usize = 6 * 1024 * 1024;
/// The bytes that the kernel may count more in the later half: pages that are free in part only.
const SCATTERED: usize = 48 * 1024 * 1024;
/// The bytes that each stream may add: its line in the index, see docs/performance.md.
const STREAM_BYTES: usize = 200;

fn live_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

/// Prints a line past the test harness, which would hide it.
fn say(line: &str) {
    let _nobody_may_listen = writeln!(std::io::stderr(), "{line}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// A measurement of a process at rest.
#[derive(Debug, Clone, Copy)]
struct Rest {
    allocated: usize,
    resident: usize,
    streams: usize,
}

/// The words of the processes, summed up.
#[derive(Default)]
struct Met {
    kills: usize,
    ends: usize,
    reopened: usize,
    acknowledged: BTreeMap<String, u64>,
    rests: Vec<Vec<Rest>>,
}

struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It may be over already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "not a test: the process that the soak starts"]
fn the_process_of_the_soak() {
    let Ok(told) = std::env::var(LIFE) else { return };
    let [seed, lasts, rests_every, base] = told.splitn(4, ' ').collect::<Vec<_>>()[..] else {
        panic!("{LIFE} is `{told}`");
    };
    let life = Life {
        base: PathBuf::from(base),
        seed: seed.parse().unwrap(),
        lasts: Duration::from_millis(lasts.parse().unwrap()),
        rests_every: Duration::from_millis(rests_every.parse().unwrap()),
    };
    load::run(&life, live_bytes);
}

#[test]
fn a_mixed_load_over_restarts_keeps_its_memory_flat_its_log_sound_and_pays_nothing_twice() {
    let seed = number("TASKREEL_SEED").unwrap_or_else(|| std::hash::RandomState::new().hash_one("seed"));
    let seconds = number("TASKREEL_SOAK_SECONDS").unwrap_or(12);
    say(&format!("soak: TASKREEL_SEED={seed} TASKREEL_SOAK_SECONDS={seconds}"));
    // In the target folder: a file system in memory would prove nothing.
    let base = tempfile::tempdir_in(PathBuf::from(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let (mut dice, mut met) = (Dice::new(seed), Met::default());
    let until = Instant::now() + Duration::from_secs(seconds);
    // Six lives; every second one is killed, and the last one ends by itself.
    let life = Duration::from_millis((seconds * 1_000 / 6).max(5_000));
    while Instant::now() < until {
        let is_killed = (met.kills + met.ends).is_multiple_of(2) && Instant::now() + life < until;
        one_life(base.path(), life, is_killed, &mut dice, &mut met);
        check(base.path(), &met);
    }
    stays_flat(&met.rests);
    comes_to_rest(base.path());
    let calls = check(base.path(), &met);
    say(&format!(
        "soak: {} kills, {} ends, {} reopened, {} tasks acknowledged, {calls} calls; twice 0, lost 0",
        met.kills,
        met.ends,
        met.reopened,
        met.acknowledged.len(),
    ));
    assert!(met.reopened > 0 && !met.acknowledged.is_empty(), "the load is too tame");
}

/// Lets a process work for its time, and kills it in the middle of its work or lets it end.
fn one_life(base: &Path, lasts: Duration, is_killed: bool, dice: &mut Dice, met: &mut Met) {
    let rests_every = (lasts / 12).max(Duration::from_secs(1));
    let told = format!(
        "{} {} {} {}",
        dice.roll(),
        lasts.as_millis(),
        rests_every.as_millis(),
        base.to_str().unwrap()
    );
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", ENTRY, "--ignored", "--nocapture", "--test-threads=1"])
        .env(LIFE, told)
        // The allocator gives back what is free, so that the kernel's count says what is in use.
        .env("MALLOC_ARENA_MAX", "1")
        .env("MALLOC_TRIM_THRESHOLD_", "131072")
        .env("MALLOC_MMAP_THRESHOLD_", "65536")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Guard(child);
    let mut said = BufReader::new(child.0.stdout.take().unwrap());
    let (tell, told) = channel();
    let listener = std::thread::spawn(move || {
        let mut line = String::new();
        // A line without an end does not count: the process died while writing it.
        while said.read_line(&mut line).is_ok_and(|_| line.ends_with('\n')) {
            let _nobody_listens_at_the_end = tell.send(line.trim_end().to_owned());
            line.clear();
        }
    });
    met.rests.push(Vec::new());
    let dies_at = is_killed.then(|| Instant::now() + lasts.mul_f64(0.9));
    let is_over = listen(&told, dies_at, met);
    if is_over {
        met.ends += 1;
        assert!(child.0.wait().unwrap().success(), "the process failed");
    } else {
        met.kills += 1;
    }
    drop(child);
    listener.join().unwrap();
    // Lines from before its death count as well.
    for line in told.try_iter() {
        heard(&line, met);
    }
}

/// Listens until the process is over or to be killed. Returns whether it is over.
fn listen(told: &Receiver<String>, dies_at: Option<Instant>, met: &mut Met) -> bool {
    loop {
        let patience = dies_at.map_or(SILENCE_MAX, |at| at.saturating_duration_since(Instant::now()));
        match told.recv_timeout(patience.min(SILENCE_MAX)) {
            Ok(line) if heard(&line, met) => return true,
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if dies_at.is_some_and(|at| at <= Instant::now()) => return false,
            Err(RecvTimeoutError::Timeout) => panic!("the process says nothing: it hangs"),
            Err(RecvTimeoutError::Disconnected) => panic!("the process ended before its time"),
        }
    }
}

/// Takes a line of the process. Returns whether it was its last one.
fn heard(line: &str, met: &mut Met) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["ack", stream, version] => {
            let version: u64 = version.parse().unwrap();
            let known = met.acknowledged.entry(stream.to_owned()).or_default();
            *known = version.max(*known);
        }
        ["reopened", ..] => met.reopened += 1,
        ["rest", allocated, kept, known] => {
            let [allocated, resident, streams] = [allocated, kept, known].map(|n| n.parse().unwrap());
            met.rests.last_mut().unwrap().push(Rest { allocated, resident, streams });
        }
        ["error", ..] => panic!("the process met an error: {line}"),
        ["over", ..] => return true,
        _ => {}
    }
    false
}

/// Compares the measurements of each life: the later half with the earlier one.
fn stays_flat(rests: &[Vec<Rest>]) {
    for rests in rests {
        let size = |rest: &Rest| rest.allocated.saturating_sub(rest.streams * STREAM_BYTES);
        let mebibytes = |bytes: usize| bytes / 1024 / 1024;
        let said = rests.iter().map(|rest| {
            format!("{}/{} ({})", mebibytes(rest.allocated), mebibytes(rest.resident), rest.streams)
        });
        say(&format!(
            "soak: MiB at rest, allocated/resident (streams): {}",
            said.collect::<Vec<_>>().join(" ")
        ));
        if rests.len() < ENOUGH_RESTS {
            continue;
        }
        let (first, later) = rests.split_at(rests.len() / 2);
        let largest = first.iter().map(size).max().unwrap();
        let smallest = later.iter().map(size).min().unwrap();
        assert!(smallest < largest + NOISE, "the process grows: {rests:?}");
        let resident = |rests: &[Rest]| rests.iter().map(|rest| rest.resident).collect::<Vec<_>>();
        let (before, after) = (resident(first), resident(later));
        let bound = before.iter().max().unwrap() + SCATTERED;
        assert!(*after.iter().min().unwrap() < bound, "its pages grow: {rests:?}");
    }
}

/// Starts the agent once more and waits until all work that was left has ended.
fn comes_to_rest(base: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let system = agent::agent(base).start().await.unwrap();
        for stream in system.log().open_work().unwrap() {
            let task = system.task(&stream.id()).unwrap();
            let end = tokio::time::timeout(SILENCE_MAX, task.finished()).await;
            end.unwrap_or_else(|_| panic!("{stream} does not come to rest")).unwrap();
        }
        system.shutdown().await.unwrap();
    });
}

/// Checks the log and the ledger. Returns the number of calls.
fn check(base: &Path, met: &Met) -> usize {
    let store = SledStore::open(base.join(agent::LOG)).unwrap();
    let verified = verify(&store);
    assert!(verified.is_sound(), "{:?}", verified.findings);
    let replayed = replay_all(&store).unwrap();
    assert!(replayed.mismatch.is_none(), "{:?}", replayed.mismatch);
    for (stream, version) in &met.acknowledged {
        let stream = StreamId::parse(stream).unwrap();
        let there = store.stream_version(&stream).unwrap();
        assert!(there.0 >= *version, "{stream}: {version} was acknowledged, the log ends at {there}");
    }
    let mut calls: BTreeMap<String, (bool, u32)> = BTreeMap::new();
    for_each_record::<ReadError>(&store, Position(1), |stored| {
        if stored.record.stream.category() == Some(Category::Task) {
            for recorded in decode_record::<TaskEvent>(stored)? {
                count(&mut calls, &recorded.stream.id(), &recorded.event);
            }
        }
        Ok(())
    })
    .unwrap();
    check_ledger(base, &calls);
    store.close().unwrap();
    calls.len()
}

/// Counts the dispatches of each call, and marks the successes.
fn count(calls: &mut BTreeMap<String, (bool, u32)>, task: &str, event: &TaskEvent) {
    let TaskEvent::Call(event) = event else { return };
    let life = calls.entry(format!("{task} {}", event.call_id())).or_default();
    match event {
        CallEvent::Dispatched { .. } => life.1 += 1,
        CallEvent::Succeeded { .. } => life.0 = true,
        _ => {}
    }
}

/// Checks that no Manual call took effect twice, no effect came before its dispatch was on disk, and none succeeded
/// without an effect.
fn check_ledger(base: &Path, calls: &BTreeMap<String, (bool, u32)>) {
    let ledger = std::fs::read_to_string(base.join(agent::LEDGER)).unwrap();
    let (mut once, mut attempts) = (BTreeSet::new(), BTreeSet::new());
    for line in ledger.lines() {
        let [tool, task, call, attempt] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("the ledger holds `{line}`");
        };
        assert!(attempts.insert(line), "an attempt was made twice: {line}");
        let (_, dispatched) = calls[&format!("{task} {call}")];
        assert!(attempt.parse::<u32>().unwrap() <= dispatched, "sent before its dispatch: {line}");
        if ["pay", "lend"].contains(&tool) {
            assert!(once.insert((task, call)), "{line} took effect twice");
        }
    }
    assert!(!once.is_empty(), "nothing was paid");
}
