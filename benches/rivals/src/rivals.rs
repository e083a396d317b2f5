//! Runs with one durable effect, beside the nearest rivals: taskreel on sled, salvor on `SQLite`, agentplane on redb. In each
//! round all of them are measured in turn, each in a process of its own. All use the system's allocator, or all use
//! mimalloc (`--features mimalloc`), as taskreel's command line does.
#![allow(clippy::print_stdout, reason = "a child's figures go to stdout")]

mod agentplane_runs;
mod child;
mod ours;
#[path = "../../support/report.rs"]
mod report;
mod salvor_runs;
mod work;

use crate::child::{Cell, Kind, Measured};
use crate::report::{Asked, Failure, Report, Row, Target, median, setting};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HELP: &str = "\
cargo bench --manifest-path benches/rivals/Cargo.toml: runs with one tool call, its intent durable before and its outcome
durable after, at 1, 16 and 256 at once

  taskreel     sled, strict: 2 appends a run
  salvor       0.10.0, SQLite (WAL, synchronous=FULL): 4 transactions a run; the baseline
  agentplane   0.57.0, redb: 9 commits a run

  All use the system's allocator; with --features mimalloc, all use mimalloc, as taskreel's command line does.

  TASKREEL_BENCH_SECONDS (2)   time for each system of each round
  TASKREEL_BENCH_ROUNDS (3)    rounds; figures are medians, ratios are taken round by round";

/// The systems by name, the baseline first.
const KINDS: [(Kind, &str); 3] =
    [(Kind::Salvor, "salvor"), (Kind::Taskreel, "taskreel"), (Kind::Agentplane, "agentplane")];

/// The numbers of runs at once, with the goals as ratios to salvor.
const AT_ONCE: [(u64, f64); 3] = [(1, 1.2), (16, 12.0), (256, 15.0)];

/// The goals for one run at a time: processor time in milliseconds, and memory in megabytes.
const CPU_MS_AT_ONE: f64 = 0.4;
const PEAK_MB_AT_ONE: f64 = 25.0;

fn main() -> Result<(), Failure> {
    if let Some(cell) = Cell::asked()? {
        println!("{}", serde_json::to_string(&cell.measure()?)?);
        return Ok(());
    }
    let Some(asked) = Asked::read("rivals", HELP) else { return Ok(()) };
    let mut report = Report::begin("rivals", asked)?;
    let seconds = setting("TASKREEL_BENCH_SECONDS", asked.size(2.0, 0.05))?;
    let rounds = setting("TASKREEL_BENCH_ROUNDS", asked.size(3_usize, 1))?.max(1);
    for (at_once, goal) in AT_ONCE {
        let mut measured = vec![Vec::new(); KINDS.len()];
        for _ in 0..rounds {
            for ((kind, _), measured) in KINDS.iter().zip(&mut measured) {
                measured.push(Cell { kind: *kind, at_once, seconds }.in_a_child()?);
            }
        }
        let baseline = measured.first().cloned().unwrap_or_default();
        for ((kind, name), measured) in KINDS.iter().zip(&measured) {
            let goal = (*kind == Kind::Taskreel).then_some(goal);
            write_rows(&mut report, &format!("{name}, {at_once} at once"), measured, &baseline, goal)?;
            if goal.is_some() && at_once == 1 {
                write_costs(&mut report, measured)?;
            }
        }
    }
    report.end();
    Ok(())
}

fn of(measured: &[Measured], what: fn(&Measured) -> f64) -> f64 {
    median(measured.iter().map(what).collect())
}

fn write_rows(
    report: &mut Report,
    name: &str,
    measured: &[Measured],
    baseline: &[Measured],
    goal: Option<f64>,
) -> Result<(), Failure> {
    let rounds = measured.iter().zip(baseline);
    let ratio = median(rounds.map(|(own, salvor)| own.per_second / salvor.per_second).collect());
    let row = Row::new(format!("{name}: runs"), of(measured, |one| one.per_second), "/s")
        .beside(of(baseline, |one| one.per_second))
        .ratio(ratio)
        .more("p50_ms", of(measured, |one| one.p50_ms))
        .more("cpu_ms", of(measured, |one| one.cpu_ms))
        .more("peak_mb", of(measured, |one| one.peak_mb))
        .more("runs", measured.iter().map(|one| one.runs).sum::<u64>());
    report.row(&match goal {
        Some(goal) => row.target(Target::RatioAtLeast(goal)),
        None => row,
    })?;
    report.row(&Row::new(format!("{name}: p50"), of(measured, |one| one.p50_ms), "ms"))?;
    report.row(&Row::new(format!("{name}: processor time a run"), of(measured, |one| one.cpu_ms), "ms"))?;
    report.row(&Row::new(format!("{name}: peak memory"), of(measured, |one| one.peak_mb), "MB"))
}

/// Writes what one run at a time costs beside its goals.
fn write_costs(report: &mut Report, measured: &[Measured]) -> Result<(), Failure> {
    let cpu = Row::new("taskreel, one at a time: processor time a run", of(measured, |one| one.cpu_ms), "ms");
    report.row(&cpu.target(Target::AtMost(CPU_MS_AT_ONE)))?;
    let peak = Row::new("taskreel, one at a time: peak memory", of(measured, |one| one.peak_mb), "MB");
    report.row(&peak.target(Target::AtMost(PEAK_MB_AT_ONE)))
}
