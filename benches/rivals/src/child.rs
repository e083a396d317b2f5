//! A process of its own for each measurement, so that its processor time and its memory are those of one system.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde::{Deserialize, Serialize};

use crate::agentplane_runs::Agentplane;
use crate::ours::Ours;
use crate::report::{Failure, number, percentile, rate, scratch};
use crate::salvor_runs::Salvor;
use crate::work::paid;

/// The variable by which a child is told what to measure.
const ASKED: &str = "TASKREEL_RIVALS_CHILD";

/// The runs before the measurement: threads, tables and caches exist then.
const WARM_UP: u64 = 32;

/// A system that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Taskreel,
    Salvor,
    Agentplane,
}

/// The measurement that a child makes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    /// The number of runs at once.
    pub(crate) at_once: u64,
    pub(crate) seconds: f64,
}

/// The figures that a child found.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) runs: u64,
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    /// Processor time of the whole process for each run, in milliseconds.
    pub(crate) cpu_ms: f64,
    /// The largest resident memory of the process, in megabytes.
    pub(crate) peak_mb: f64,
}

/// A system that makes runs.
pub(crate) trait Runs: Clone + Send + Sync + 'static {
    /// Makes one run and waits for its durable end.
    fn run(&self, number: u64) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Ends the system.
    fn end(self) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl Cell {
    /// Returns what this process is to measure, if it is a child.
    pub(crate) fn asked() -> Result<Option<Self>, Failure> {
        Ok(std::env::var(ASKED).ok().map(|text| serde_json::from_str(&text)).transpose()?)
    }

    /// Measures in a process of its own.
    pub(crate) fn in_a_child(self) -> Result<Measured, Failure> {
        let mut child = Command::new(std::env::current_exe()?);
        let child = child.env(ASKED, serde_json::to_string(&self)?).stdin(Stdio::null());
        let output = child.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("the child for {self:?} ended with {}", output.status).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Measures in this process.
    pub(crate) fn measure(self) -> Result<Measured, Failure> {
        let folder = tempfile::tempdir_in(scratch())?;
        // The same runtime for all.
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            match self.kind {
                Kind::Taskreel => self.of(Ours::start(folder.path()).await?).await,
                Kind::Salvor => self.of(Salvor::start(folder.path())?).await,
                Kind::Agentplane => self.of(Agentplane::start(folder.path())?).await,
            }
        })
    }

    async fn of<R: Runs>(self, runs: R) -> Result<Measured, Failure> {
        for run in 0..WARM_UP {
            runs.run(run).await?;
        }
        let (before, begin) = (getrusage(UsageWho::RUSAGE_SELF)?, Instant::now());
        let time = Duration::from_secs_f64(self.seconds);
        let next = std::sync::Arc::new(AtomicU64::new(WARM_UP));
        let callers: Vec<_> = (0..self.at_once)
            .map(|_| {
                let (runs, next) = (runs.clone(), std::sync::Arc::clone(&next));
                tokio::spawn(async move {
                    let mut laps = Vec::new();
                    while begin.elapsed() < time || laps.is_empty() {
                        let lap = Instant::now();
                        runs.run(next.fetch_add(1, Ordering::Relaxed)).await?;
                        laps.push(lap.elapsed().as_secs_f64() * 1_000.0);
                    }
                    Ok::<_, Failure>(laps)
                })
            })
            .collect();
        let mut laps = Vec::new();
        for caller in callers {
            laps.extend(caller.await??);
        }
        let (spent, after) = (begin.elapsed(), getrusage(UsageWho::RUSAGE_SELF)?);
        runs.end().await?;
        laps.sort_by(f64::total_cmp);
        let made = u64::try_from(laps.len())?;
        if paid() != made + WARM_UP {
            return Err(format!("{made} runs and {WARM_UP} before them made {} payments", paid()).into());
        }
        Ok(Measured {
            runs: made,
            per_second: rate(made, spent),
            p50_ms: percentile(&laps, 50),
            cpu_ms: (cpu(&after) - cpu(&before)) / number(made),
            peak_mb: number(u64::try_from(after.max_rss())?) / 1_024.0,
        })
    }
}

/// Returns the processor time of a process, in milliseconds.
fn cpu(usage: &Usage) -> f64 {
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    number(u64::try_from(micros).unwrap_or_default()) / 1_000.0
}
