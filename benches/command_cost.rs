//! The cost of one durable command, in counts that do not depend on the load of the machine: allocations, bytes, SHA-256
//! blocks, and instructions where valgrind is there. A command is one of the five of a lifecycle, with an event of about 600
//! bytes, callers and writer included, on the raw file. Ends with an error if a figure is above its stored bound.
#![allow(clippy::print_stdout, reason = "rows go to stdout")]

mod support;

use std::alloc::System as SystemAllocator;
use std::convert::Infallible;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use proto_events::hash_count;
use proto_events::id::Digest;
use proto_events::task::TaskCommand;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use taskreel::{Part, System, TaskState};

use crate::support::lives::{EVENTS, in_five, message, posted};
use crate::support::raw::RawStore;
use crate::support::{Asked, Failure, Report, Row, Target, number};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<SystemAllocator> = &INSTRUMENTED_SYSTEM;

const HELP: &str = "\
cargo bench --bench command_cost: what one durable command of about 600 bytes costs, in counts

  allocations, bytes, blocks   the difference of a long run and a short one, for each command
  instructions                 the same, under valgrind's callgrind if it is installed, without those of SHA-256
  a run                        a run with one call of a tool, in instructions as above
  a long task                  a command on a task of 50 messages and on one of 5,000, whose caller keeps its last answer
                               and the task that it looked at";

/// The lifecycles of the two runs whose difference is taken.
const SHORT: u64 = 100;
const LONG: u64 = 400;

/// The stored bounds: the targets.
const ALLOCATIONS_MAX: f64 = 36.0;
const BYTES_MAX: f64 = 8_192.0;
const BLOCKS_MAX: f64 = 17.0;
/// The target of the instructions of a command, SHA-256 apart.
const INSTRUCTIONS_TARGET: f64 = 28_000.0;
const INSTRUCTIONS_MAX: f64 = if IS_OPTIMISED { INSTRUCTIONS_TARGET } else { 210_000.0 };
/// The stored bound of the instructions of a run: 4 % above what was measured.
const RUN_INSTRUCTIONS_MAX: f64 = if IS_OPTIMISED { 310_000.0 } else { 2_600_000.0 };
/// Whether this is a release build. Another one takes six times the instructions, within bounds of its own.
const IS_OPTIMISED: bool = !cfg!(debug_assertions);
/// The most by which the allocations of a command may differ between a short task and a long one.
const LONG_TASK_MORE: f64 = 5.0;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--lifecycles") => return on_runtime(lifecycles(argument(&arguments)?)),
        Some("--runs") => return on_runtime(runs(argument(&arguments)?)),
        Some("--blocks") => return blocks(argument(&arguments)?),
        _ => {}
    }
    let Some(asked) = Asked::read("command_cost", HELP) else { return Ok(()) };
    let mut report = Report::begin("command_cost", asked)?;
    let mut above = Vec::new();
    let mut row = |row: Row, bound: f64| {
        if row.value > bound {
            above.push(format!("{}: {} is above its bound of {bound}", row.what, row.value));
        }
        report.row(&row)
    };
    on_runtime(async {
        let [short, long] = [counted(SHORT).await?, counted(LONG).await?];
        let each = |at: fn(&Counts) -> u64| number(at(&long) - at(&short)) / number((LONG - SHORT) * EVENTS);
        let counts: [(&str, f64, f64); 3] = [
            ("allocations", each(|counts| counts.allocations), ALLOCATIONS_MAX),
            ("bytes allocated", each(|counts| counts.bytes), BYTES_MAX),
            ("SHA-256 blocks", each(|counts| counts.blocks), BLOCKS_MAX),
        ];
        for (what, count, bound) in counts {
            row(Row::new(format!("one command: {what}"), count, "").target(Target::AtMost(bound)), bound)?;
        }
        let (few, many) = (long_task(50).await?, long_task(asked.size(5_000, 500)).await?);
        let bound = few + LONG_TASK_MORE;
        let long = Row::new("one command on a task of 5,000 messages: allocations", many, "").beside(few);
        row(long.target(Target::AtMost(bound)), bound)
    })?;
    let hashed = on_runtime(async { Ok(counted(LONG).await?.blocks - counted(SHORT).await?.blocks) })?;
    if let Some(instructions) = instructions("--lifecycles", hashed)? {
        let what = "one command: instructions without SHA-256";
        let each = instructions / number((LONG - SHORT) * EVENTS);
        let counted = Row::new(what, each, "");
        let targeted =
            if IS_OPTIMISED { counted.target(Target::AtMost(INSTRUCTIONS_TARGET)) } else { counted };
        row(targeted, INSTRUCTIONS_MAX)?;
    }
    let hashed = on_runtime(async { Ok(blocks_of_runs(LONG).await? - blocks_of_runs(SHORT).await?) })?;
    if let Some(instructions) = instructions("--runs", hashed)? {
        let what = "one run with a tool call: instructions without SHA-256";
        row(Row::new(what, instructions / number(LONG - SHORT), ""), RUN_INSTRUCTIONS_MAX)?;
    }
    report.end();
    if above.is_empty() { Ok(()) } else { Err(above.join("\n").into()) }
}

fn argument(arguments: &[String]) -> Result<u64, Failure> {
    Ok(arguments.get(2).ok_or("a number is missing")?.parse()?)
}

fn on_runtime<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

async fn system(folder: &Path) -> Result<System, Failure> {
    let path = folder.join("log");
    let store = Arc::new(RawStore::create(&path)?);
    Ok(System::builder(path).store(store).start().await?)
}

/// Runs this many lifecycles, 16 at a time.
async fn lifecycles(count: u64) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let system = system(folder.path()).await?;
    run(&system, count).await?;
    Ok(system.shutdown().await?)
}

async fn run(system: &System, count: u64) -> Result<(), Failure> {
    let lanes = (0..16_u64).map(|lane| async move {
        let mut at = lane;
        while at < count {
            in_five(system, &format!("run_{at:012}")).await?;
            at += 16;
        }
        Ok::<_, Failure>(())
    });
    futures_util::future::try_join_all(lanes).await?;
    Ok(())
}

/// The arguments of the tool of [`runs`], as large as those of the bench `rivals`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Payment {
    to: String,
    cents: u64,
    reference: String,
}

/// Makes this many runs with one tool call each, 16 at a time.
async fn runs(count: u64) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let path = folder.path().join("log");
    let store = Arc::new(RawStore::create(&path)?);
    let pay = |payment: Payment| async move { Ok::<_, Infallible>(format!("paid {}", payment.cents)) };
    let system = System::builder(path).store(store).tool("pay", "Pays", pay).start().await?;
    let lanes = (0..16_u64).map(|lane| {
        let system = &system;
        async move {
            let mut at = lane;
            while at < count {
                let reference = format!("invoice {at} of the year 2026, paid by the agent of accounting");
                let payment = Payment { to: "DE02 1203 0000 0000 2020 51".to_owned(), cents: at, reference };
                let end = system.submit(Part::tool_call("pay", payment)?).await?.finished().await?;
                if end.state() != TaskState::Completed {
                    return Err(Failure::from(format!("a run ended as {}", end.state())));
                }
                at += 16;
            }
            Ok(())
        }
    });
    futures_util::future::try_join_all(lanes).await?;
    Ok(system.shutdown().await?)
}

#[derive(Debug, Clone, Copy)]
struct Counts {
    allocations: u64,
    bytes: u64,
    blocks: u64,
}

fn counts() -> Result<Counts, Failure> {
    let stats = ALLOCATOR.stats();
    let (fresh, grown) = (stats.allocations, stats.reallocations);
    Ok(Counts {
        allocations: u64::try_from(fresh + grown)?,
        bytes: u64::try_from(stats.bytes_allocated)?,
        blocks: hash_count::blocks(),
    })
}

/// Counts what this many lifecycles cost, on a system that is warm.
async fn counted(lives: u64) -> Result<Counts, Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let system = system(folder.path()).await?;
    let before = counts()?;
    run(&system, lives).await?;
    let after = counts()?;
    system.shutdown().await?;
    Ok(Counts {
        allocations: after.allocations - before.allocations,
        bytes: after.bytes - before.bytes,
        blocks: after.blocks - before.blocks,
    })
}

/// Returns the allocations of a command on a task with this many messages, whose caller keeps its last answer and the task.
async fn long_task(messages: u64) -> Result<f64, Failure> {
    let folder = tempfile::tempdir_in(support::scratch())?;
    let system = system(folder.path()).await?;
    let task = system.task("long")?;
    let mut posted = posted("long");
    posted.messages.extend((1..messages).map(|n| message("long", n)));
    task.command(TaskCommand::Submit(Box::new(posted))).await?;
    let mut kept =
        (task.command(TaskCommand::AppendMessage(message("long", messages))).await?, task.snapshot().await?);
    let more: Vec<_> = (1..=20).map(|n| message("long", messages + n)).collect();
    let before = counts()?;
    for message in more {
        kept = (task.command(TaskCommand::AppendMessage(message)).await?, kept.1);
    }
    let after = counts()?;
    drop(kept);
    system.shutdown().await?;
    Ok(number(after.allocations - before.allocations) / 20.0)
}

/// Hashes this many blocks.
fn blocks(count: u64) -> Result<(), Failure> {
    let text = vec![0; usize::try_from(count * 64)?];
    println!("{}", Digest::compute(&text));
    Ok(())
}

/// Returns the instructions of a long run of the program without those of its hashes, less those of a short one; `None`
/// without valgrind. `hashed` is the difference of their SHA-256 blocks.
fn instructions(what: &str, hashed: u64) -> Result<Option<f64>, Failure> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: valgrind is not installed, so they were not counted");
        return Ok(None);
    }
    let per_block = (callgrind("--blocks", 20_000)? - callgrind("--blocks", 10_000)?) / 10_000.0;
    let all = callgrind(what, LONG)? - callgrind(what, SHORT)?;
    Ok(Some(all - number(hashed) * per_block))
}

/// Returns the SHA-256 blocks of this many runs.
async fn blocks_of_runs(count: u64) -> Result<u64, Failure> {
    let before = hash_count::blocks();
    runs(count).await?;
    Ok(hash_count::blocks() - before)
}

/// Returns the instructions of this program with an argument.
fn callgrind(what: &str, count: u64) -> Result<f64, Failure> {
    let out = tempfile::NamedTempFile::new()?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--quiet"]);
    command.arg(format!("--callgrind-out-file={}", out.path().display()));
    let status = command.arg(std::env::current_exe()?).arg(what).arg(count.to_string()).output()?;
    if !status.status.success() {
        return Err(format!("callgrind: {}", String::from_utf8_lossy(&status.stderr)).into());
    }
    let text = std::fs::read_to_string(out.path())?;
    let total =
        text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    Ok(total.ok_or("callgrind wrote no totals")?.trim().parse()?)
}
