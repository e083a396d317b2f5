//! Messages each second over keep-alive connections (`SendMessage` over JSON-RPC, which waits until the task is completed), and the
//! time to the first event of a stream: our server on a durable log, the official server for Rust with its tasks in memory, the
//! SDK for Python with `SQLite`, and our own system without HTTP, all in the same run.
//!
//! One load generator, with raw requests over TCP, loads each server; each server is a process of its own. Each agent does the same:
//! it says what it heard, and completes. Nothing follows from a message but the answer, so that ours is a responder; with
//! `TASKREEL_BENCH_AGENT=handler` it is a handler, whose work is a recorded call.
#![allow(clippy::print_stdout, reason = "rows go to stdout")]

#[path = "a2a/load.rs"]
mod load;
#[path = "../../../benches/support/report.rs"]
mod report;
#[path = "a2a/rust_peer.rs"]
mod rust_peer;
#[path = "a2a/servers.rs"]
mod servers;

use std::time::Duration;

use crate::load::{Load, Rate};
use crate::report::{Asked, Failure, Report, Row, Target, setting, wanted};
use crate::servers::Side;

/// The allocator of both sides in Rust, as `taskreel serve` has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HELP: &str = "\
cargo bench -p taskreel-http --bench a2a: messages each second over A2A, beside the official servers

  own     our system without HTTP, on the same kind of log
  http    our server
  rust    the official server for Rust, in memory
  python  the SDK for Python with SQLite; needs TASKREEL_A2A_SDK (`tests/interop/venv FOLDER a2a/requirements-sdk`)

  TASKREEL_BENCH_SECONDS (5)              the length of each load
  TASKREEL_BENCH_CONNECTIONS (1,16,256)   the numbers of connections
  TASKREEL_BENCH_STREAMS (500)            the streams whose first event is timed
  TASKREEL_BENCH_AGENT (responder)        our agent: responder, or handler, whose work is a recorded call with a write of its own
  TASKREEL_BENCH_ENGINES                  name some only: own,http,rust,python";

/// The goal beside the SDK for Python, at each number of connections.
const OF_PYTHON: f64 = 30.0;

/// The goals beside the official server for Rust, whose tasks no disk has: by the number of connections.
const OF_RUST: [(usize, f64); 2] = [(16, 0.25), (256, 0.5)];

/// The goal beside our own system without HTTP.
const OF_OWN: f64 = 0.6;

fn main() -> Result<(), Failure> {
    // A server, in the process that the bench starts for it.
    if let Some(side) = std::env::var_os(servers::SERVE) {
        return servers::serve(&side.to_string_lossy());
    }
    let Some(asked) = Asked::read("a2a", HELP) else { return Ok(()) };
    let seconds: f64 = setting("TASKREEL_BENCH_SECONDS", asked.size(5.0, 0.3))?;
    let connections: String = setting("TASKREEL_BENCH_CONNECTIONS", "1,16,256".to_owned())?;
    let streams: usize = setting("TASKREEL_BENCH_STREAMS", asked.size(500, 20))?;
    let mut report = Report::begin("a2a", asked)?;
    for connections in connections.split(',') {
        let connections: usize = connections.trim().parse()?;
        compare(&mut report, Load { connections, time: Duration::from_secs_f64(seconds) })?;
    }
    first_events(&mut report, streams)?;
    report.end();
    Ok(())
}

fn is_wanted(engine: &str) -> bool {
    wanted("TASKREEL_BENCH_ENGINES", engine)
}

/// Loads one side, if it is wanted and can be had.
fn measured(side: Side, load: Load) -> Result<Option<Rate>, Failure> {
    if !is_wanted(side.name()) {
        return Ok(None);
    }
    let Some(server) = side.start()? else { return Ok(None) };
    load::run(server.place(), load).map(Some)
}

/// Measures one number of connections on each side.
fn compare(report: &mut Report, load: Load) -> Result<(), Failure> {
    let of = |what: &str| format!("{what}, {} at once", load.connections);
    let own = is_wanted("own").then(|| servers::own(load)).transpose()?;
    let python = measured(Side::Python, load)?;
    let rust = measured(Side::Rust, load)?;
    let ours = measured(Side::Ours, load)?;
    let sides = [
        ("our system without HTTP", own),
        ("SDK for Python, SQLite", python),
        ("official Rust, memory", rust),
    ];
    for (name, rate) in sides {
        if let Some(rate) = rate {
            report.row(&Row::new(of(name), rate.each_second, "messages/s"))?;
        }
    }
    let Some(ours) = ours else { return Ok(()) };
    let row = |name: &str| Row::new(of(name), ours.each_second, "messages/s");
    report.row(&row("our server"))?;
    report.row(&Row::new(of("our server, percentile 99"), ours.p99_ms, "ms"))?;
    if let Some(python) = python {
        let row = row("our server beside Python").beside(python.each_second);
        report.row(&row.target(Target::RatioAtLeast(OF_PYTHON)))?;
    }
    if let Some(rust) = rust {
        let row = row("our server beside official Rust").beside(rust.each_second);
        let goal = OF_RUST.into_iter().find(|(at, _)| *at == load.connections);
        report.row(&match goal {
            Some((_, times)) => row.target(Target::RatioAtLeast(times)),
            None => row,
        })?;
    }
    if let Some(own) = own {
        let row = row("our server beside no HTTP").beside(own.each_second);
        report.row(&row.target(Target::RatioAtLeast(OF_OWN)))?;
    }
    Ok(())
}

/// Measures the time to the first event of a stream, one stream after the other.
fn first_events(report: &mut Report, streams: usize) -> Result<(), Failure> {
    for side in [Side::Python, Side::Rust, Side::Ours] {
        if !is_wanted(side.name()) {
            continue;
        }
        let Some(server) = side.start()? else { continue };
        let times = load::first_events(server.place(), streams)?;
        report.row(&Row::new(format!("first event of {}, median", side.title()), times.p50_ms, "ms"))?;
        report.row(&Row::new(
            format!("first event of {}, percentile 99", side.title()),
            times.p99_ms,
            "ms",
        ))?;
    }
    Ok(())
}
