//! Tasks each second over keep-alive connections: our server on a durable log, the real Protolink server in the same run, and
//! our own system without HTTP; and the time in which each side reads a session of 5,000 messages from its disk.
//!
//! One load generator, with raw requests over TCP, loads both servers; each server is a process of its own.
#![allow(clippy::print_stdout, reason = "rows go to stdout")]

#[path = "protolink_http/load.rs"]
mod load;
#[path = "../../../benches/support/report.rs"]
mod report;
#[path = "protolink_http/restore.rs"]
mod restore;
#[path = "protolink_http/servers.rs"]
mod servers;

use std::time::Duration;

use crate::load::{Load, Rate};
use crate::report::{Asked, Failure, Report, Row, Target, setting, wanted};
use crate::servers::{Ours, Theirs};

const HELP: &str = "\
cargo bench -p taskreel-http --bench protolink_http: tasks each second over HTTP, beside the real Protolink

  own      our system without HTTP, on the same kind of log
  http     our server
  peer     Protolink's server and its SQLite storage; needs TASKREEL_PROTOLINK_064 (`tests/interop/venv`)
  restore  a session of 5,000 messages, read from the disk

  TASKREEL_BENCH_SECONDS (5)              the length of each load
  TASKREEL_BENCH_CONNECTIONS (1,16,256)   the numbers of connections
  TASKREEL_BENCH_MESSAGES (5000)          the messages of the session
  TASKREEL_BENCH_ENGINES                  name some only: own,http,peer,restore";

/// The goals: how many times the tasks of the real Protolink at so many connections.
const GOALS: [(usize, f64); 2] = [(16, 12.0), (256, 30.0)];
/// The goal beside our own system without HTTP.
const OF_OWN: f64 = 0.6;

fn main() -> Result<(), Failure> {
    // The server, in the process that the bench starts for it.
    if let Some(dir) = std::env::var_os(servers::SERVE) {
        return servers::serve(dir.as_ref());
    }
    let Some(asked) = Asked::read("protolink_http", HELP) else { return Ok(()) };
    let seconds: f64 = setting("TASKREEL_BENCH_SECONDS", asked.size(5.0, 0.3))?;
    let connections: String = setting("TASKREEL_BENCH_CONNECTIONS", "1,16,256".to_owned())?;
    let messages: usize = setting("TASKREEL_BENCH_MESSAGES", asked.size(5_000, 200))?;
    let mut report = Report::begin("protolink_http", asked)?;
    let is_wanted = |engine: &str| wanted("TASKREEL_BENCH_ENGINES", engine);
    for connections in connections.split(',') {
        let connections: usize = connections.trim().parse()?;
        let load = Load { connections, time: Duration::from_secs_f64(seconds) };
        compare(&mut report, load, &is_wanted)?;
    }
    if is_wanted("restore") {
        restore::compare(&mut report, messages, asked.size(20, 3))?;
    }
    report.end();
    Ok(())
}

/// Measures one number of connections on each side.
fn compare(report: &mut Report, load: Load, is_wanted: &dyn Fn(&str) -> bool) -> Result<(), Failure> {
    let of = |what: &str| format!("{what}, {} at once", load.connections);
    let own = is_wanted("own").then(|| servers::own(load)).transpose()?;
    if let Some(rate) = own {
        report.row(&Row::new(of("our system without HTTP"), rate.each_second, "tasks/s"))?;
    }
    let theirs = if is_wanted("peer") { Theirs::start()? } else { None };
    let theirs = match theirs {
        None => None,
        Some(server) => Some(load::run(server.address(), load)?),
    };
    if let Some(rate) = theirs {
        report.row(&Row::new(of("Protolink 0.6.4"), rate.each_second, "tasks/s"))?;
    }
    if !is_wanted("http") {
        return Ok(());
    }
    let server = Ours::start()?;
    let ours: Rate = load::run(server.address(), load)?;
    drop(server);
    let row = |name: String| Row::new(name, ours.each_second, "tasks/s");
    report.row(&row(of("our server")))?;
    report.row(&Row::new(of("our server, percentile 99"), ours.p99_ms, "ms"))?;
    if let Some(theirs) = theirs {
        let goal = GOALS.into_iter().find(|(at, _)| *at == load.connections);
        let row = row(of("our server beside Protolink")).beside(theirs.each_second);
        report.row(&match goal {
            Some((_, times)) => row.target(Target::RatioAtLeast(times)),
            None => row,
        })?;
    }
    if let Some(own) = own {
        let row = row(of("our server beside no HTTP")).beside(own.each_second);
        report.row(&row.target(Target::RatioAtLeast(OF_OWN)))?;
    }
    Ok(())
}
