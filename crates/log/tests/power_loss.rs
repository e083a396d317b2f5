//! Power loss: the writes and syncs of real processes are recorded through strace, and each moment of the
//! recording is turned into disks that a power failure may leave. Each disk opens, to a log that is a prefix
//! of the real one and holds all that had been acknowledged; and it can be written to.
//!
//! `TASKREEL_POWER_STATES` (30) sets the number of disks tried per workload, `TASKREEL_SEED` repeats the
//! dice.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "in a test a panic is the answer, in helpers too; its figures are to be seen"
)]

#[path = "../../../tests/crash/dice.rs"]
mod dice;
#[path = "power_loss/disk.rs"]
mod disk;
mod store_support;
mod traced;
#[path = "power_loss/work.rs"]
mod work;

use std::hash::BuildHasher as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use dice::Dice;
use disk::{Disk, Fate};
use proto_events::id::Position;
use store_support::{append, quick_dir};
use taskreel_log::api::{EventReader as _, EventStore as _};
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{Author, stream};
use traced::{Call, Deed};
use work::WORKLOADS;

/// Entry of the traced process; not a test of its own.
#[test]
fn the_traced_child() {
    if let Some((dir, words)) = traced::told() {
        work::live(&dir, &words);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Returns the leaf hashes of the real log's records at its end.
fn hashes(dir: &Path) -> Result<Vec<String>, String> {
    let store = SledStore::open(dir).map_err(|error| error.to_string())?;
    let records = store.read_all(Position(1), usize::MAX).map_err(|error| error.to_string())?;
    let mut author = Author::new(store.fence()).with_sets_from(u64::MAX / 2);
    append(&store, author.append_one(&stream(&format!("after-{}", store.fence().epoch)), b"it goes on"));
    assert_eq!(store.head().unwrap().0, records.len() as u64 + 1);
    store.close().map_err(|error| error.to_string())?;
    Ok(records.iter().map(|stored| stored.hash.to_string()).collect())
}

/// Records all lives of a workload, as one sequence of calls.
fn record(dir: &Path, lives: &[&str]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for words in lives {
        let behind = calls.last().map_or(0, |call| call.ended + 1);
        let life = traced::watch(dir, words).into_iter().map(|call| Call {
            began: call.began + behind,
            ended: call.ended + behind,
            deed: call.deed,
        });
        calls.extend(life);
    }
    calls
}

/// A disk to try: the state after this many calls.
struct Moment {
    after: usize,
    fate: Fate,
}

/// Returns `count` moments: after the last acknowledgements without any pending change, the others at random.
fn moments(calls: &[Call], count: usize, dice: &mut Dice) -> Vec<Moment> {
    let mut moments = Vec::new();
    let said = calls.iter().enumerate().filter(|(_, call)| matches!(call.deed, Deed::Said(_)));
    let said: Vec<usize> = said.map(|(at, _)| at + 1).collect();
    for after in said.iter().rev().take(count / 4) {
        moments.push(Moment { after: *after, fate: Fate::Lost });
    }
    while moments.len() < count {
        let after = 1 + usize::try_from(dice.below(calls.len() as u64)).unwrap();
        let fate = match dice.below(8) {
            0 => Fate::Lost,
            1 => Fate::Kept,
            2 => Fate::Empty,
            3 | 4 => Fate::OneLost,
            _ => Fate::Mixed,
        };
        moments.push(Moment { after, fate });
    }
    moments.sort_by_key(|moment| moment.after);
    moments
}

fn acknowledged(calls: &[Call]) -> usize {
    let said = calls.iter().filter_map(|call| match &call.deed {
        Deed::Said(line) => line.strip_prefix("ACK ")?.parse().ok(),
        _ => None,
    });
    said.max().unwrap_or(0)
}

/// A recorded workload.
struct Recorded {
    lives: &'static [&'static str],
    calls: Vec<Call>,
    whole: Vec<String>,
}

/// Runs and records a workload.
fn recorded(lives: &'static [&'static str]) -> Recorded {
    let root = tempfile::tempdir().unwrap();
    let log = root.path().join("log");
    std::fs::create_dir(&log).unwrap();
    let calls = record(&log, lives);
    let whole = hashes(&log).unwrap();
    assert!(whole.len() >= acknowledged(&calls), "{lives:?}: the real log is short");
    Recorded { lives, calls, whole }
}

/// Tries the moments of one workload. Returns the number of disks with pending changes.
fn try_out(Recorded { lives, calls, whole }: &Recorded, count: usize, dice: &mut Dice) -> usize {
    let root = quick_dir();
    let state = root.path().join("state");
    let (mut disk, mut taken, mut pending) = (Disk::default(), 0, 0);
    for Moment { after, fate } in moments(calls, count, dice) {
        calls[taken..after].iter().for_each(|call| disk.take(call));
        taken = after;
        pending += usize::from(!disk.is_idle());
        let before = dice.clone();
        disk.after(fate, dice, &state);
        let acknowledged = acknowledged(&calls[..after]);
        let told = || format!("{lives:?}, {fate:?} after call {after} of {}, {before:?}", calls.len());
        let found = hashes(&state).unwrap_or_else(|why| panic!("{}: it does not open: {why}", told()));
        assert!(whole.starts_with(&found), "{}: it is another log", told());
        assert!(found.len() >= acknowledged, "{}: {} of {acknowledged} left", told(), found.len());
    }
    pending
}

#[test]
fn after_a_power_loss_everything_acknowledged_is_there_and_the_log_goes_on() {
    if !traced::strace_works() {
        return;
    }
    let seed = number("TASKREEL_SEED").unwrap_or_else(|| std::hash::RandomState::new().hash_one("seed"));
    let count = usize::try_from(number("TASKREEL_POWER_STATES").unwrap_or(30)).unwrap();
    eprintln!("power loss: TASKREEL_SEED={seed} TASKREEL_POWER_STATES={count}");
    // Steps with other processes come first: a forked process holds our locks for a moment.
    let recorded: Vec<Recorded> = WORKLOADS.into_iter().map(recorded).collect();
    let (unsynced, next) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(lived) = recorded.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let name = lived.lives.join("|");
                    let name =
                        name.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
                    let pending = try_out(lived, count, &mut Dice::new(seed ^ name));
                    unsynced.fetch_add(pending, Ordering::Relaxed);
                }
            });
        }
    });
    let (tried, unsynced) = (WORKLOADS.len() * count, unsynced.into_inner());
    eprintln!(
        "power loss: {tried} disks of {} workloads, {unsynced} with unsynced writes, lost 0",
        WORKLOADS.len()
    );
    // What is made is synced at once, so about half of the moments of a life have nothing that a power loss could take.
    assert!(unsynced * 4 > tried, "most disks had nothing to lose");
}
