//! Repeated kill -9 under load: what was acknowledged is there, in order and unbroken, and a ledger outside
//! the process shows that no Manual call ran twice.
//!
//! `TASKREEL_KILL_ROUNDS` (20) sets the number of kills, `TASKREEL_SEED` repeats the dice of another run; the
//! exact moment of a kill still depends on the machine. The figures are printed without `-- --nocapture`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "crash/child.rs"]
mod child;
#[path = "crash/dice.rs"]
mod dice;
#[path = "crash/load.rs"]
mod load;
#[path = "crash/log.rs"]
mod log;

use std::collections::BTreeSet;
use std::hash::BuildHasher as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto_events::call::CallEvent;
use proto_events::model::TaskState;

use crate::child::{Ack, What};
use crate::dice::Dice;
use crate::log::Log;

/// The number of kills per log.
const ROUNDS_PER_LOG: u64 = 20;
/// The number of acknowledged commands sent again after a recovery.
const REPEATED: usize = 20;
/// The maximum time for all open work to end.
const REST_WITHIN: Duration = Duration::from_secs(120);

/// The cases met, so that a run that met none does not count as a proof.
#[derive(Debug, Default)]
struct Met {
    kills: u64,
    recoveries: u64,
    acknowledged: usize,
    events: u64,
    large: usize,
    in_flight: usize,
    unknown: usize,
    unknown_but_paid: usize,
    sent_again: u64,
    answers: u64,
    repeated: usize,
}

#[test]
#[ignore = "not a test: the process that the kill test starts and kills"]
fn the_child_of_the_kill_test() {
    let told = |name| std::env::var(name).ok();
    if let (Some(base), Some(seed)) = (told(child::BASE), told(child::SEED)) {
        load::run(Path::new(&base), seed.parse().unwrap());
    }
}

#[test]
fn after_a_kill_every_acknowledged_event_is_there_and_no_manual_call_runs_twice() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("TASKREEL_SEED");
    let seed = seed.unwrap_or_else(|| std::hash::RandomState::new().hash_one("seed"));
    let rounds = number("TASKREEL_KILL_ROUNDS").unwrap_or(20);
    say(&format!("kill test: TASKREEL_SEED={seed} TASKREEL_KILL_ROUNDS={rounds}"));
    let mut dice = Dice::new(seed);
    let mut met = Met::default();
    while met.kills < rounds {
        one_log(rounds.min(met.kills + ROUNDS_PER_LOG), &mut dice, &mut met);
    }
    say(&format!("kill test: lost 0, twice 0; {met:?}"));
    if rounds >= 20 {
        let all = [met.in_flight, met.unknown, met.unknown_but_paid, met.repeated, met.large];
        let more = [met.sent_again, met.answers];
        assert!(all.iter().all(|n| *n > 0) && more.iter().all(|n| *n > 0), "the load is too tame: {met:?}");
    }
}

/// Prints a line past the test harness, which would hide it.
fn say(line: &str) {
    let _nobody_may_listen = writeln!(std::io::stderr(), "{line}");
}

/// Kills one log's processes `kills` times, with a recovery after most kills.
fn one_log(kills: u64, dice: &mut Dice, met: &mut Met) {
    // In the target folder: a file system in memory would prove nothing.
    let base = tempfile::tempdir_in(PathBuf::from(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let base = base.path();
    let (mut acks, mut lost, mut before) = (Vec::new(), BTreeSet::new(), None::<Log>);
    while met.kills < kills {
        let new = child::work_and_die(base, dice.roll(), dice);
        met.kills += 1;
        met.acknowledged += new.len();
        acks.extend(new);
        let killed = check(base, &acks, before.as_ref());
        let in_flight = killed.calls.values().filter(|life| life.is_in_flight());
        met.in_flight += in_flight.clone().count();
        lost.extend(in_flight.filter(|life| life.is_manual()).map(log::Life::name));
        // In a third of the rounds the next child recovers by itself, under load, and is killed while doing
        // so.
        if met.kills < kills && dice.below(3) == 0 {
            before = Some(killed);
            continue;
        }
        recover(base, &acks, &killed, met);
        let recovered = check(base, &acks, Some(&killed));
        check_rest(&recovered, &lost, met);
        lost.clear();
        before = Some(recovered);
    }
    let end = before.expect("every log ends with a recovery, whose log is kept here");
    met.events += end.events();
    met.large += end.large();
    met.answers += end.check_conversations();
    let again = end.calls.values().map(|life| u64::from(life.dispatched.saturating_sub(1)));
    met.sent_again += again.sum::<u64>();
}

/// Checks what must be true at every moment.
fn check(base: &Path, acks: &[Ack], before: Option<&Log>) -> Log {
    let log = Log::read(base);
    log.check_acks(acks);
    log.check_ledgers();
    log.check_conversations();
    if let Some(before) = before {
        log.check_continues(before);
    }
    log
}

/// Starts the system on the killed process's log and waits until all work has ended. Commands that were
/// acknowledged before the kill are then sent again, and must change nothing.
fn recover(base: &Path, acks: &[Ack], killed: &Log, met: &mut Met) {
    let working = |(_, folded): &(_, &taskreel_log::read::FoldedStream<proto_events::task::Task>)| {
        folded.state.state() == TaskState::Working
    };
    let open: Vec<String> = killed.tasks.iter().filter(working).map(|(stream, _)| stream.id()).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let repeated = runtime.block_on(async {
        let system = load::system(base).start().await.unwrap();
        for id in &open {
            let task = system.task(id).unwrap();
            tokio::time::timeout(REST_WITHIN, task.finished())
                .await
                .unwrap_or_else(|_| panic!("{id} does not come to rest"))
                .unwrap();
        }
        let answered = acks.iter().rev().filter(|ack| matches!(ack.what, What::Answered));
        let ids: BTreeSet<String> = answered.take(REPEATED).map(|ack| ack.stream.id()).collect();
        let head = system.log().head().unwrap();
        for id in &ids {
            system.submit_once(&load::command_of(id), load::posted(id)).await.unwrap();
        }
        assert_eq!(system.log().head().unwrap(), head, "an answered command was carried out again");
        system.shutdown().await.unwrap();
        ids.len()
    });
    met.recoveries += 1;
    met.repeated += repeated;
}

/// Checks what must be true when all work has ended after a recovery.
fn check_rest(log: &Log, lost: &BTreeSet<String>, met: &mut Met) {
    for (stream, folded) in &log.tasks {
        assert_ne!(folded.state.state(), TaskState::Working, "{stream} still works");
        assert_eq!(folded.state.calls().open().count(), 0, "{stream} owes an outcome");
    }
    for name in lost {
        let life = log.call(name);
        assert!(matches!(life.outcome, Some(CallEvent::OutcomeUnknown { .. })), "{life:?}");
        let state = log.tasks[&life.stream].state.state();
        let waits = matches!(state, TaskState::InputRequired | TaskState::Canceled);
        assert!(waits, "{} is {state}, and nobody is asked about {name}", life.stream);
    }
    met.unknown += lost.len();
    met.unknown_but_paid += log.paid.iter().filter(|name| lost.contains(*name)).count();
    for life in log.calls.values().filter(|life| life.request.target == "pay") {
        let paid = log.paid.iter().filter(|name| **name == life.name()).count();
        if matches!(life.outcome, Some(CallEvent::Succeeded { .. })) {
            assert_eq!(paid, 1, "{life:?}");
        }
    }
}
