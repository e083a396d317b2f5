//! A read error at any read of an opening loses nothing: strace lets one read of a real opening fail, and the
//! next opening finds every record. One opening for each read: of logs of one segment and of many, with and
//! without a snapshot of the database, with a clean and an unclean end.
//!
//! `TASKREEL_READ_ERRORS` (16) sets the number of reads that fail for each log and kind of read: half of them are
//! the first ones, the others are drawn from all; 0 means each one. `TASKREEL_SEED` draws the same ones again.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "in a test a panic is the answer, in helpers too; its figures are to be seen"
)]

#[path = "../../../tests/crash/dice.rs"]
mod dice;
#[path = "read_errors/logs.rs"]
mod logs;
mod store_support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::BuildHasher as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use dice::Dice;
use logs::{Base, copy};
use store_support::{all, quick_dir};
use taskreel_log::api::EventStore as _;
use taskreel_log::sled::SledStore;

const LOG: &str = "TASKREEL_READ_ERRORS_LOG";
const ENTRY: &str = "the_opener_whose_reads_fail";

/// The number of reads that the opener makes before it opens the log. strace counts calls for each thread on
/// its own: with these, no thread but the opener reaches the numbers at which a read fails.
const BURNED: u64 = 64;

/// Entry of the process whose reads fail; not a test of its own.
#[test]
fn the_opener_whose_reads_fail() {
    let Some(dir) = std::env::var_os(LOG) else {
        return;
    };
    println!("\nPID {}", std::process::id());
    burn();
    let outcome = match SledStore::open(dir) {
        Ok(store) => {
            let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                use proto_events::id::Position;
                use taskreel_log::api::EventReader as _;
                store.read_all(Position(1), usize::MAX)
            }));
            let read = match read {
                Ok(Ok(records)) => format!("read {}", records.len()),
                Ok(Err(error)) => format!("unreadable {error}"),
                Err(_) => "panicked".to_owned(),
            };
            let closed = store.close();
            format!("{read} {closed:?}")
        }
        Err(error) => format!("refused {error}"),
    };
    println!("\nOUTCOME {outcome}");
}

#[cfg(unix)]
fn burn() {
    use std::os::unix::fs::FileExt as _;
    let file = fs::File::open("/dev/zero").unwrap();
    for _ in 0..BURNED {
        // Some of them are made to fail.
        let _ = file.read_at(&mut [0], 0);
    }
}

#[cfg(not(unix))]
fn burn() {}

/// A kind of reads, and those of an opening that strace sees of it.
struct Reads {
    call: &'static str,
    burned: u64,
    /// The files whose reads count; none means all.
    files: &'static [&'static str],
}

const KINDS: [Reads; 3] = [
    Reads { call: "pread64", burned: BURNED, files: &[] },
    Reads { call: "read", burned: 0, files: &["conf", "HEAD", "holder", "taskreel.format", "snap."] },
    Reads { call: "getdents64", burned: 0, files: &["."] },
];

impl Reads {
    /// Opens the log in a traced process, whose read with this number fails. Returns the outcome and whether
    /// a read failed, or the number of all reads of the opener if none is to fail. A process that is to be
    /// killed is killed as soon as the database has opened its files.
    fn open(&self, dir: &Path, failing: Option<u64>, killed: bool) -> (String, u64) {
        let base = tempfile::tempdir().unwrap();
        let trace = base.path().join("trace");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-e", "signal=none", "-e", &format!("trace={}", self.call), "-o"]).arg(&trace);
        if let Some(number) = failing {
            strace.args(["-e", &format!("inject={}:error=EIO:when={number}", self.call)]);
        }
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        for name in names.filter(|name| self.files.iter().any(|file| name.starts_with(file))) {
            strace.arg("-P").arg(dir.join(name));
        }
        if self.files == ["."] {
            strace.arg("-P").arg(dir);
        }
        strace.arg(std::env::current_exe().unwrap());
        strace.args(["--exact", ENTRY, "--nocapture", "--test-threads=1"]).env(LOG, dir);
        if killed {
            strace.env("TASKREEL_HALT_AT", "opened by sled 0");
        }
        let outcome = run(&mut strace);
        let trace = fs::read_to_string(trace).unwrap();
        let hits = trace.lines().filter(|line| line.contains("(INJECTED)")).count() as u64;
        if failing.is_some() {
            return (outcome, hits);
        }
        // The thread that burned its reads is the opener.
        let mut counts = BTreeMap::new();
        for line in trace.lines().filter(|line| line.contains(&format!("{}(", self.call))) {
            *counts.entry(line.split(' ').next().unwrap()).or_insert(0_u64) += 1;
        }
        (outcome, counts.into_values().max().unwrap_or(0))
    }
}

/// Returns the numbers of the reads that are made to fail: the first ones, and as many drawn from the rest.
fn chosen(first: u64, last: u64, count: u64, dice: &mut Dice) -> BTreeSet<u64> {
    let total = last.saturating_sub(first) + 1;
    if count == 0 || total <= count {
        return (first..=last).collect();
    }
    let mut chosen: BTreeSet<u64> = (first..first + count / 2).collect();
    while (chosen.len() as u64) < count {
        chosen.insert(first + dice.below(total));
    }
    chosen
}

/// Runs the opener to its end, or kills it where it halts. Returns the outcome.
fn run(strace: &mut Command) -> String {
    let mut child = strace
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut pid, mut outcome) = (String::new(), None);
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        if let Some(own) = line.strip_prefix("PID ") {
            own.clone_into(&mut pid);
        } else if line.starts_with("HALT ") {
            outcome = Some("killed".to_owned());
            assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        } else if let Some(of_it) = line.strip_prefix("OUTCOME ") {
            outcome = Some(of_it.to_owned());
        }
    }
    let status = child.wait().unwrap();
    outcome.unwrap_or_else(|| format!("DIED {status}"))
}

fn strace_works() -> bool {
    let tried = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let works = tried.is_ok_and(|status| status.success());
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(works || !ci, "strace is missing or may not watch; with CI=true that is a failure");
    if !works {
        eprintln!("NOT CHECKED: strace is missing or may not watch, so no read was made to fail");
    }
    works
}

/// Lets reads of the opening of one log fail, one at a time. Returns how many, and what was lost.
fn try_out(
    base: &Base,
    reads: &Reads,
    (count, killed): (u64, bool),
    to: (&Path, &mut Dice),
) -> (usize, Vec<String>) {
    let (dir, dice) = to;
    let (mut failed, mut lost) = (0, Vec::new());
    copy(&base.dir, dir);
    let (outcome, total) = reads.open(dir, None, false);
    assert!(outcome.starts_with(&format!("read {} ", base.hashes.len())), "{}: {outcome}", base.name);
    for number in chosen(reads.burned + 1, total, count, dice) {
        copy(&base.dir, dir);
        let (outcome, hits) = reads.open(dir, Some(number), killed);
        failed += usize::from(hits > 0);
        let told = format!("{} {} {number} of {total}: {outcome}", base.name, reads.call);
        if std::env::var_os("TASKREEL_TELL").is_some() {
            eprintln!("{told}");
        }
        let whole = format!("read {} ", base.hashes.len());
        if outcome.starts_with("DIED") || (outcome.starts_with("read ") && !outcome.starts_with(&whole)) {
            lost.push(format!("{told}: it opened to something else"));
        }
        match SledStore::open(dir) {
            Ok(store) => {
                let found: Vec<_> = all(&store).iter().map(|stored| stored.hash.to_string()).collect();
                if found != base.hashes {
                    lost.push(format!("{told}: {} of {} records are left", found.len(), base.hashes.len()));
                }
                store.close().unwrap();
            }
            Err(error) => lost.push(format!("{told}: it does not open any more: {error}")),
        }
    }
    (failed, lost)
}

#[test]
fn a_read_error_at_any_read_of_an_opening_loses_nothing() {
    if !strace_works() {
        return;
    }
    let count = std::env::var("TASKREEL_READ_ERRORS").map_or(16, |text| text.parse().unwrap());
    let seed = std::env::var("TASKREEL_SEED").map(|text| text.parse().unwrap());
    let seed = seed.unwrap_or_else(|_| std::hash::RandomState::new().hash_one("seed"));
    eprintln!("read errors: TASKREEL_SEED={seed} TASKREEL_READ_ERRORS={count}");
    let mut dice = Dice::new(seed);
    let root = quick_dir();
    let tried = root.path().join("tried");
    let (mut failed, mut lost) = (0, Vec::new());
    for base in logs::all(root.path()) {
        for reads in &KINDS {
            let (hits, of_it) = try_out(&base, reads, (count, false), (&tried, &mut dice));
            failed += hits;
            lost.extend(of_it);
        }
        // The first reads are those after which the database clears what it takes for torn.
        let (hits, of_it) = try_out(&base, &KINDS[0], (count.min(12), true), (&tried, &mut dice));
        failed += hits;
        lost.extend(of_it);
    }
    for told in lost.iter().take(20) {
        eprintln!("LOST {told}");
    }
    eprintln!("read errors: {failed} openings with a failed read, {} lost something", lost.len());
    assert!(lost.is_empty(), "{} openings lost something", lost.len());
    assert!(failed > 30, "only {failed} openings had a failed read");
}
