//! The crash matrix over runs generated from seeds: all recovery modes, cancels, retries, timeouts, errors,
//! panics, turns in shared sessions, people who reply. Each run is cut after every append, recovered, and
//! checked against R7; together (200 or more of them) they must meet every cell of its table.
//! `TASKREEL_MATRIX_RUNS` sets the number of runs, `TASKREEL_SEED` names the one to repeat, `TASKREEL_ARBITERS` the number of
//! threads of each system's actors: with several, the same seed takes another course each time.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

#[path = "crash_matrix/agent.rs"]
mod agent;
#[path = "crash_matrix/delegation.rs"]
mod delegation;
#[path = "crash/dice.rs"]
mod dice;
#[path = "crash_matrix/features.rs"]
mod features;
#[path = "crash_matrix/fuse.rs"]
mod fuse;
#[path = "crash_matrix/large.rs"]
mod large;
#[path = "crash_matrix/peer.rs"]
mod peer;
#[path = "crash_matrix/people.rs"]
mod people;
#[path = "crash_matrix/run.rs"]
mod run;
#[path = "crash_matrix/seen.rs"]
mod seen;
#[path = "crash_matrix/setting.rs"]
mod setting;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proto_events::call::Recovery;
use run::{Run, SECRET};
use taskreel::Builder;
use taskreel::testing::{Broken, Cells, CrashMatrix, CrashReport, Row};

/// The number of runs without `TASKREEL_MATRIX_RUNS`.
const RUNS: u64 = 200;

fn matrix(run: &Run) -> CrashMatrix {
    let (described, worked, cared) = (run.clone(), run.clone(), run.clone());
    let work = move |driver: taskreel::testing::Driver| {
        let run = worked.clone();
        async move {
            let done = people::people(run, driver.clone()).await;
            seen::note(driver.store().as_ref());
            done
        }
    };
    let mut matrix = CrashMatrix::new(move |builder| agent::describe(&described, spread(builder)), work)
        .afterwards(move |driver| {
            let run = cared.clone();
            async move { people::look_after_all(&run, &driver).await }
        })
        .down_for(Duration::from_millis(run.setting.down_for))
        .clock_steps_by(run.setting.step_at_cut)
        .never_stored(SECRET);
    if let Some((fuse::CLOCK, uses)) = run.setting.panics {
        matrix = matrix.clock_panics_at(uses);
    }
    if !run.setting.changes.is_empty() {
        let changed = run.clone();
        matrix = matrix.changed_to(move |builder| agent::describe_changed(&changed, spread(builder)));
    }
    if !run.setting.hands.is_empty() {
        let (acts, afters) = (run.clone(), run.setting.acts_after.clone());
        matrix = matrix.meanwhile(
            move |cut| afters[cut % afters.len()],
            move |driver| {
                let run = acts.clone();
                async move { people::intervene(&run, &driver).await }
            },
        );
    }
    matrix
}

/// Spreads the actors over the wanted number of arbiters.
fn spread(builder: Builder) -> Builder {
    builder.arbiters(usize::try_from(number("TASKREEL_ARBITERS").unwrap_or(1)).unwrap())
}

/// Runs `run` on a thread of its own.
fn try_run(run: &Run) -> Result<CrashReport, Broken> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(matrix(run).run())
}

/// Removes from a broken run all that it does not need to fail.
fn shrink(mut run: Run, mut broken: Broken) -> (Run, Broken) {
    while let Some((smaller, why)) =
        run.smaller().into_iter().find_map(|smaller| try_run(&smaller).err().map(|why| (smaller, why)))
    {
        (run, broken) = (smaller, why);
    }
    (run, broken)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Runs all seeds on as many threads as there are processors.
fn run_all(seeds: u64) -> (CrashReport, Option<(Run, Broken)>) {
    let (next, all, first) = (AtomicU64::new(0), Mutex::new(CrashReport::default()), Mutex::new(None));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds || first.lock().unwrap().is_some() {
                return;
            }
            let run = Run::of(seed);
            match try_run(&run) {
                Ok(report) => all.lock().unwrap().merge(&report),
                Err(broken) => *first.lock().unwrap() = Some((run, broken)),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, std::num::NonZero::get) {
            scope.spawn(work);
        }
    });
    (all.into_inner().unwrap(), first.into_inner().unwrap())
}

fn missing(cells: &Cells) -> Vec<(Row, &'static str)> {
    let modes =
        [Recovery::ReadOnly, Recovery::Idempotent, Recovery::Reconcile, Recovery::Manual, Recovery::Reissue];
    let rows = [Row::RequestedOnly, Row::InFlight, Row::OutcomePresent, Row::CanceledInFlight];
    let table = rows.into_iter().flat_map(|row| modes.map(|mode| (row, mode.as_str())));
    table.filter(|cell| !cells.contains_key(cell)).collect()
}

#[test]
fn what_follows_a_crash_behind_any_append_is_what_each_calls_mode_allows() {
    if let Some(seed) = number("TASKREEL_SEED") {
        let report = try_run(&Run::of(seed)).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        println!("seed {seed}: {report:?}");
        return;
    }
    let runs = number("TASKREEL_MATRIX_RUNS").unwrap_or(RUNS);
    let (report, broken) = run_all(runs);
    if let Some((run, broken)) = broken {
        let seed = run.seed;
        let (run, broken) = shrink(run, broken);
        panic!("TASKREEL_SEED={seed}; what is left of it still goes wrong: {run:#?}\n{broken}");
    }
    println!(
        "{runs} runs, {} appends, {} cuts, {} calls of tools\ncells: {:#?}\ncases, by runs: {:#?}\nfeatures, by runs: \
         {:#?}",
        report.appends,
        report.cuts,
        report.executions,
        report.cells,
        seen::counts(),
        features::drawn(0..runs)
    );
    // With fewer runs, the whole table is not expected.
    if runs >= RUNS {
        assert_eq!(missing(&report.cells), [], "cells of R7's table that no run came to");
        assert_eq!(seen::never(), [""; 0], "cases that no run came to");
    }
}

#[test]
fn each_feature_that_a_run_can_have_is_drawn_in_the_default_number_of_runs() {
    let never: Vec<_> = features::drawn(0..RUNS).into_iter().filter(|(_, runs)| *runs == 0).collect();
    assert_eq!(never, [], "features that no run of {RUNS} has");
}
