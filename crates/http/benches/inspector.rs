//! The pages of the inspector on a large log: the list of runs, filters, a long task in each of its tabs, a payload on demand, and
//! the first paint in a browser; each figure beside its budget, and beside a plain actix page of the same bytes.
#![allow(clippy::print_stdout, reason = "rows go to stdout")]

#[path = "inspector/ask.rs"]
mod ask;
#[path = "inspector/log.rs"]
mod log;
#[path = "../../../benches/support/report.rs"]
mod report;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use taskreel::System;
use taskreel_http::{InspectedLog, Inspector, Server};

use crate::ask::{Asker, Plain};
use crate::report::{Asked, Failure, Report, Row, Target, median, number, scratch, setting};

/// The allocator, as `taskreel inspect` has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HELP: &str = "\
cargo bench -p taskreel-http --bench inspector: the pages of the inspector on a log of 1,000,000 events, with a task of 100,000

  server  the time from the request to the last byte of the answer, over TCP
  paint   the first paint in Chromium; needs node and what `sh tests/browser/run` installs, else it is left out
  the baseline is a plain actix page of the same bytes; at four times a budget the bench fails

  TASKREEL_BENCH_EVENTS (1000000)  events of the log
  TASKREEL_BENCH_ROUNDS (7)        requests of each kind; figures are medians
  TASKREEL_BENCH_LOG               directory of the log: made if it is not there, and kept";

/// The budgets: times in milliseconds, sizes in bytes.
const FIRST_PAGE: f64 = 300.0;
const FILTER: f64 = 1_000.0;
const LONG_TASK: f64 = 500.0;
const SCRIPT: f64 = 60_000.0;
const PAGE_BYTES: f64 = 1_000_000.0;

/// The times a budget that a figure may take before the run fails: machines of CI are slow, and others use them. A quick run
/// is of code without optimisation, and only shows that nothing became slower by an order of magnitude.
const SLACK: [f64; 2] = [4.0, 20.0];

/// The tabs of a task.
const TABS: [&str; 11] = [
    "event",
    "call",
    "prompt",
    "state",
    "diff",
    "cause",
    "recovery",
    "artifacts",
    "raw",
    "sequence",
    "graph",
];

fn main() -> Result<(), Failure> {
    let Some(asked) = Asked::read("inspector", HELP) else { return Ok(()) };
    let events: u64 = setting("TASKREEL_BENCH_EVENTS", asked.size(1_000_000, 10_000))?;
    let rounds: usize = setting("TASKREEL_BENCH_ROUNDS", asked.size(7, 2))?;
    let slack = asked.size(SLACK[0], SLACK[1]);
    let report = Report::begin("inspector", asked)?;
    let folder = tempfile::tempdir_in(scratch())?;
    let kept = std::env::var_os("TASKREEL_BENCH_LOG").map(PathBuf::from);
    let dir = kept.unwrap_or_else(|| folder.path().join("log"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        if !dir.exists() {
            log::make(&dir, events).await?;
        }
        let system = log::builder(&dir).start().await?;
        let handler = Arc::new(Inspector::new(InspectedLog::of(&system)));
        let serving = Server::new().workers(2).mount("/inspect", handler).start("127.0.0.1:0").await?;
        let pages = Asker::new(serving.address());
        let plain = Plain::start()?;
        let again = system.clone();
        let bench = Bench { report, pages, plain, rounds, slack, over: Vec::new() };
        let handle = tokio::runtime::Handle::current();
        let measured = tokio::task::spawn_blocking(move || bench.all(&again, &handle)).await?;
        serving.stop().await?;
        system.shutdown().await?;
        measured
    })
}

/// Returns the processor time of each of some requests since a moment, in milliseconds.
fn by_cpu(before: Option<f64>, rounds: usize) -> Option<f64> {
    Some((ask::cpu_millis()? - before?) / number(rounds as u64))
}

fn with_cpu(row: Row, by_cpu: Option<f64>) -> Row {
    match by_cpu {
        Some(by_cpu) => row.by_cpu(by_cpu),
        None => row,
    }
}

struct Bench {
    report: Report,
    pages: Asker,
    plain: Plain,
    rounds: usize,
    slack: f64,
    /// The figures that are further over their budget than the slack allows.
    over: Vec<String>,
}

impl Bench {
    fn all(mut self, system: &System, handle: &tokio::runtime::Handle) -> Result<(), Failure> {
        self.lists(system, handle)?;
        self.filters()?;
        self.long_task()?;
        self.sizes()?;
        self.painted()?;
        self.report.end();
        if self.over.is_empty() {
            return Ok(());
        }
        Err(format!("over {} times the budget: {}", self.slack, self.over.join(", ")).into())
    }

    /// Prints a figure, and keeps it if it is far over its budget.
    fn row(&mut self, row: Row, budget: f64) -> Result<(), Failure> {
        if row.value > budget * self.slack {
            self.over.push(row.what.clone());
        }
        self.report.row(&row.target(Target::AtMost(budget)))
    }

    /// Measures a page, which must hold a text.
    fn page(&mut self, what: &str, path: &str, holds: &str, budget: f64) -> Result<usize, Failure> {
        let (mut times, mut size) = (Vec::new(), 0);
        let before = ask::cpu_millis();
        for _ in 0..self.rounds {
            let got = self.pages.get(path)?;
            if !got.body.contains(holds) {
                return Err(format!("{path} does not hold `{holds}`").into());
            }
            size = got.body.len();
            times.push(got.millis);
        }
        let by_cpu = by_cpu(before, self.rounds);
        let baseline = median((0..self.rounds).map(|_| self.plain.millis(size)).collect::<Result<_, _>>()?);
        let slowest = times.iter().copied().fold(0.0, f64::max);
        let row = with_cpu(Row::new(what, median(times), "ms").beside(baseline), by_cpu);
        self.row(row.more("slowest_ms", slowest).more("bytes", size), budget)?;
        Ok(size)
    }

    fn lists(&mut self, system: &System, handle: &tokio::runtime::Handle) -> Result<(), Failure> {
        let first = self.pages.get("/")?;
        self.row(Row::new("the first page, right after opening", first.millis, "ms"), FIRST_PAGE)?;
        self.page("the first page", "/", "<h2 id=\"list\">", FIRST_PAGE)?;
        let mut times = Vec::new();
        for round in 0..self.rounds {
            handle.block_on(log::post(system, &log::small(&format!("new-{round}"), 1)))?;
            times.push(self.pages.get("/")?.millis);
        }
        self.row(Row::new("the first page, each time behind a new run", median(times), "ms"), FIRST_PAGE)?;
        let page = self.pages.get("/")?;
        let next = page.body.split("\" rel=\"next\"").next().and_then(|rest| rest.rsplit("href=\"").next());
        let next = next.ok_or("the first page has no next one")?.replace("&amp;", "&");
        let next = next.trim_start_matches("/inspect").to_owned();
        self.page("the next page", &next, "<h2 id=\"list\">", FIRST_PAGE)?;
        for (what, path) in [
            ("sessions", "/sessions"),
            ("inbox", "/inbox"),
            ("the live page", "/live"),
            ("the live page, with a filter", "/live?tool=pay"),
            ("audit", "/audit"),
        ] {
            self.page(what, path, "<main", FIRST_PAGE)?;
        }
        // No budget: it adds up every call of the log.
        let before = ask::cpu_millis();
        let tools = self.pages.get("/tools")?;
        let row = Row::new("tools and models, over the whole log", tools.millis, "ms");
        self.report.row(&with_cpu(row, by_cpu(before, 1)))?;
        self.page("tools and models, again", "/tools", "<main", FILTER)?;
        self.page("tools and models, of an agent", "/tools?agent=agent", "<main", FILTER)?;
        Ok(())
    }

    fn filters(&mut self) -> Result<(), Failure> {
        for (what, query) in [
            ("most runs fit", "tool=echo"),
            ("a state that few are in", "state=input-required"),
            ("a state that some are in", "state=failed"),
            ("all but a tool", "not=tool%3Decho"),
            ("a tool that few called", "tool=pay"),
            ("a model", "model=scripted"),
            ("a session", "session=talk-7"),
            ("a text that some have", "text=no+table"),
            ("a text that none has", "text=nobody+said+this"),
            ("a kind of event that few have", "kind=ApprovalRequested"),
            ("a time without runs", "until=2020-01-01"),
            ("several at once", "state=completed&tool=echo&not=text%3Dnumber+12"),
        ] {
            self.page(&format!("filter: {what}"), &format!("/?{query}"), "<h2 id=\"list\">", FILTER)?;
        }
        Ok(())
    }

    fn long_task(&mut self) -> Result<(), Failure> {
        let path = format!("/t/{}/{}", log::AGENT, log::LONG);
        let before = ask::cpu_millis();
        let first = self.pages.get(&path)?;
        let row = Row::new("the long task, for the first time", first.millis, "ms");
        self.row(with_cpu(row, by_cpu(before, 1)), LONG_TASK)?;
        let end = first.body.split("max=\"").nth(1).and_then(|rest| rest.split('"').next());
        let end: u64 = end.ok_or("the page of a task has no slider")?.parse()?;
        let row = Row::new("its events", number(end), "events");
        self.report.row(&row)?;
        for (name, at) in [("the beginning", 1), ("the middle", end / 2), ("the end", end)] {
            self.page(&format!("its event at {name}"), &format!("{path}?at={at}"), "<main", LONG_TASK)?;
        }
        for (name, at) in [("the middle", end / 2 + 1), ("the end", end)] {
            for tab in TABS {
                let marked = if tab == "diff" { format!("&cmp={}", end / 4) } else { String::new() };
                let asked = format!("{path}?at={at}&tab={tab}{marked}");
                self.page(&format!("its tab {tab} at {name}"), &asked, "<main", LONG_TASK)?;
            }
        }
        let size = self.pages.get(&format!("{path}?at={end}&tab=state"))?.body.len();
        self.row(Row::new("bytes of its page", number(size as u64), "bytes"), PAGE_BYTES)?;
        let id = log::LONG;
        let versions = format!("/compare?l={id}&lat={}&rat={end}", end / 4);
        self.page("two of its versions compared", &versions, "<main", LONG_TASK)?;
        // No budget: these read all of it, and nobody waits for them in the middle of a look.
        for (what, path) in [
            ("two long runs compared", format!("/compare?l={id}&r={}", log::LONG_TOO)),
            ("its report, whole", format!("/report/t/{}/{id}", log::AGENT)),
        ] {
            let before = ask::cpu_millis();
            let got = self.pages.get(&path)?;
            let row = Row::new(what, got.millis, "ms").more("bytes", got.body.len());
            self.report.row(&with_cpu(row, by_cpu(before, 1)))?;
        }
        Ok(())
    }

    fn sizes(&mut self) -> Result<(), Failure> {
        let path = format!("/t/{}/{}?at=1", log::AGENT, log::WIDE);
        let size = self.page("a task with a payload of 2 MB", &path, "Only the beginning of", LONG_TASK)?;
        self.row(Row::new("bytes of its page", number(size as u64), "bytes"), PAGE_BYTES)?;
        let body = format!("/e/task-{}%2F{}/1/body", log::AGENT, log::WIDE);
        self.page("its payload, on demand", &body, "wide", LONG_TASK)?;
        let script = self.pages.get("/assets/inspect.js")?.body.len();
        self.row(Row::new("bytes of the script", number(script as u64), "bytes"), SCRIPT)
    }

    /// Measures the first paint, where a browser can be had.
    fn painted(&mut self) -> Result<(), Failure> {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser");
        if !tests.join("node_modules").exists() {
            println!("left out: the first paint, since `sh tests/browser/run` was never run here");
            return Ok(());
        }
        let base = self.pages.url();
        let long = format!("{base}/t/{}/{}", log::AGENT, log::LONG);
        for (what, url, budget) in [
            ("first paint of the first page", format!("{base}/"), FIRST_PAGE),
            ("first paint of the long task", long, LONG_TASK),
        ] {
            let painted = Command::new("node").arg(tests.join("paint.mjs")).arg(&url).output();
            let painted = painted.ok().filter(|painted| painted.status.success());
            let Some(painted) = painted else {
                println!("left out: {what}, since no browser could be started");
                continue;
            };
            let millis: f64 = String::from_utf8(painted.stdout)?.trim().parse()?;
            self.row(Row::new(what, millis, "ms"), budget)?;
        }
        Ok(())
    }
}
