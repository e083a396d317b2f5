//! The crash matrix: a workload's log is cut after each append, the agent is started on the rest, and what
//! follows is checked against rule R7.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use proto_events::codec::AnyEvent;
use proto_events::id::Position;
use taskreel_log::api::{EventReader, StoredRecord};
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::for_each_record;

use crate::error::Error;
use crate::system::builder::Builder;
use crate::testing::assert::ill_formed;
use crate::testing::clock::{VirtualClock, plus};
use crate::testing::cut::{Regrown, appends};
use crate::testing::judge::Judge;
use crate::testing::judge::row::Cells;
use crate::testing::ledger::{Execution, Ledger};
use crate::testing::system::{Describe, Driver, TestSystem, newest};

/// The interval of second crashes: after every third cut, the recovered process is crashed as well.
const RECRASH_EVERY: usize = 3;

/// The maximum number of characters of an event in a line.
const LINE_CHARS: usize = 240;

type Work = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

type Workload = Box<dyn Fn(Driver) -> Work + Send + Sync>;

/// A crash test of an agent and a workload, with a crash after each append.
///
/// The workload runs once, to its end. Then, for each append of its log, a new system is started on the log
/// up to that append, as a process would be after a crash, and is left alone until nothing happens any more.
/// An append is in the log completely or not at all, so these are all the logs that a crash can leave. After
/// every third of them the recovered system is crashed as well, in the middle of its recovery.
///
/// Each time it is checked that
/// * for each call, what followed matches R7 for its row and its recovery mode;
/// * no tool was called more often than its mode allows, by the tools' own count (a [`Ledger`] apart from the
///   log);
/// * each execution's dispatch was on disk before it, with the same arguments and under the same key;
/// * no inference was requested while a tool call had no answer, and the log passes
///   [`verify`](taskreel_log::audit::verify());
/// * nothing hangs.
///
/// ```
/// use std::convert::Infallible;
/// use taskreel::testing::{CrashMatrix, Row};
/// use taskreel::tool::ToolPolicy;
/// use taskreel::{JsonSchema, Message, Part};
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Nothing {}
/// async fn tool(_: Nothing) -> Result<&'static str, Infallible> { Ok("done") }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let matrix = CrashMatrix::of(
///     |builder| builder.tool("pay", "Pays", tool).tool_with("look", "Looks", tool, ToolPolicy::read_only()),
///     |driver| async move {
///         let parts = ["pay", "look"].map(|tool| Part::tool_call(tool, proto_events::json!({})).unwrap());
///         let message = Message { id: None, role: Some("user".into()), parts: parts.into(), timestamp: None };
///         let task = driver.submit(message).await?;
///         driver.finish(&task).await?;
///         Ok(())
///     },
/// );
/// let report = matrix.run().await.unwrap_or_else(|broken| panic!("{broken}"));
/// assert!(report.cells.contains_key(&(Row::InFlight, "manual")));
/// # }
/// ```
pub struct CrashMatrix {
    describe: Describe,
    workload: Workload,
    afterwards: Option<Workload>,
    down_for: Duration,
}

impl fmt::Debug for CrashMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashMatrix").finish_non_exhaustive()
    }
}

/// The counts of a crash matrix that found no fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashReport {
    /// The number of appends of the workload; the log was cut after each but the last.
    pub appends: usize,
    /// The number of executions of tools, including those after restarts.
    pub executions: usize,
    /// The cells of R7's table that were reached, with counts.
    pub cells: Cells,
}

/// The faults found, and the cut that led to them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Broken {
    /// The number of appends before the cut; `None` for a fault without a crash.
    pub cut: Option<usize>,
    /// Descriptions of the faults.
    pub faults: Vec<String>,
    /// The log at the end, one event per line.
    pub log: Vec<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cut {
            None => writeln!(f, "without a crash:")?,
            Some(cut) => writeln!(f, "cut after append {cut}:")?,
        }
        for fault in &self.faults {
            writeln!(f, "  {fault}")?;
        }
        writeln!(f, "the log:")?;
        self.log.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

impl std::error::Error for Broken {}

impl CrashMatrix {
    /// Returns the matrix of this agent and this workload. Both are built again for each execution; for a
    /// workload to take the same course each time, the results of its tools and its model must depend only on
    /// their input.
    pub fn of<W, F>(describe: impl Fn(Builder) -> Builder + Send + Sync + 'static, workload: W) -> Self
    where
        W: Fn(Driver) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let workload = Box::new(move |driver| Box::pin(workload(driver)) as Work);
        Self { describe: Arc::new(describe), workload, afterwards: None, down_for: Duration::ZERO }
    }

    /// Sets what people do after each crash, once the recovered system is at rest: they approve, settle, answer. What
    /// follows from that must come to rest too.
    #[must_use]
    pub fn afterwards<W, F>(mut self, people: W) -> Self
    where
        W: Fn(Driver) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.afterwards = Some(Box::new(move |driver| Box::pin(people(driver)) as Work));
        self
    }

    /// Sets the virtual time between a crash and the restart, by default zero.
    #[must_use]
    pub fn down_for(mut self, time: Duration) -> Self {
        self.down_for = time;
        self
    }

    /// Runs the workload, and then the recovery from each possible crash in it.
    ///
    /// # Errors
    /// [`Broken`], at the first log with a fault.
    pub async fn run(&self) -> Result<CrashReport, Broken> {
        let whole = self.workload().await?;
        let sets = appends(whole.log.as_ref()).map_err(|error| whole.broken(None, &error))?;
        let mut report = CrashReport { appends: sets.len(), ..CrashReport::default() };
        report.add(&whole.sound(None, Judge::evidence)?, whole.seen.len());
        let mut prefix = Regrown::new();
        for (set, cut) in sets.iter().zip(1..sets.len()) {
            prefix.take(set).await.map_err(|error| whole.broken(Some(cut), &error))?;
            let after = self.crash(&whole, &prefix, set, cut, &mut report).await?;
            if cut % RECRASH_EVERY == 0 {
                self.crash_again(&after, cut, &mut report).await?;
            }
        }
        Ok(report)
    }

    /// Recovers from a log that was cut, and checks what follows. `last` is the last append before the cut.
    async fn crash(
        &self,
        before: &Ran,
        prefix: &Regrown,
        last: &[StoredRecord],
        cut: usize,
        report: &mut CrashReport,
    ) -> Result<Ran, Broken> {
        let found = prefix.found().map_err(|error| before.broken(Some(cut), &error))?;
        let behind = last.last().map_or(Position::default(), StoredRecord::last_position);
        let mut after = self.recover(found, cut).await?;
        let own = after.seen.clone();
        // Executions before the crash stay in the ledger.
        let seen = before.seen.iter().filter(|execution| execution.head <= behind);
        after.seen = seen.chain(&own).cloned().collect();
        report.add(&after.sound(Some(cut), |judge| judge.recovered(behind, &own))?, own.len());
        Ok(after)
    }

    /// Crashes a recovered process as well, in the middle of its recovery.
    async fn crash_again(&self, first: &Ran, cut: usize, report: &mut CrashReport) -> Result<(), Broken> {
        let broken = |error: Error| first.broken(Some(cut), &error);
        let sets = appends(first.log.as_ref()).map_err(broken)?;
        let again = cut + (sets.len() - cut) / 2;
        let Some(last) = sets.get(again.wrapping_sub(1)).filter(|_| again > cut && again < sets.len()) else {
            return Ok(());
        };
        let mut prefix = Regrown::new();
        for set in sets.iter().take(again) {
            prefix.take(set).await.map_err(broken)?;
        }
        self.crash(first, &prefix, last, again, report).await.map(drop)
    }

    /// Runs the workload from its beginning to its end.
    async fn workload(&self) -> Result<Ran, Broken> {
        let system = self.start(MemoryStore::new(), None).await?;
        let ran = Ran { log: Arc::clone(system.store()) as _, seen: Vec::new() };
        let worked = perform(&system, &self.workload).await;
        self.end(system, ran, worked, None).await
    }

    /// Starts a system on a log that was cut, and lets it recover.
    async fn recover(&self, found: MemoryStore, cut: usize) -> Result<Ran, Broken> {
        let at = newest(&found).ok().flatten().map(|at| VirtualClock::starting_at(plus(at, self.down_for)));
        let system = self.start(found, at).await?;
        let ran = Ran { log: Arc::clone(system.store()) as _, seen: Vec::new() };
        let worked = match &self.afterwards {
            None => Ok(()),
            Some(people) => match system.run_out_timers().await {
                Ok(()) => perform(&system, people).await,
                Err(error) => Err(error),
            },
        };
        self.end(system, ran, worked, Some(cut)).await
    }

    /// Waits for the system's work to end, and then ends the system.
    async fn end(
        &self,
        system: TestSystem,
        mut ran: Ran,
        worked: Result<(), Error>,
        cut: Option<usize>,
    ) -> Result<Ran, Broken> {
        let ended = match worked {
            Ok(()) => system.run_out_timers().await,
            Err(error) => Err(error),
        };
        ran.seen = system.ledger().executions();
        // Taken first: a closed log cannot be read.
        let kept = system.store().reopened();
        let gone = system.kill().await;
        match kept {
            Ok(kept) => ran.log = Arc::new(kept),
            Err(error) => return Err(ran.broken(cut, &error)),
        }
        match ended.and(gone) {
            Ok(()) => Ok(ran),
            Err(error) => Err(ran.broken(cut, &error)),
        }
    }

    async fn start(&self, store: MemoryStore, clock: Option<VirtualClock>) -> Result<TestSystem, Broken> {
        let log = store.reopened();
        let started = TestSystem::start(Arc::clone(&self.describe), store, clock, Ledger::default()).await;
        started.map_err(|error| match log {
            Ok(log) => Ran { log: Arc::new(log), seen: Vec::new() }.broken(None, &error),
            Err(_) => Broken { cut: None, faults: vec![error.to_string()], log: Vec::new() },
        })
    }
}

/// Performs the acts of people on a system.
async fn perform(system: &TestSystem, work: &Workload) -> Result<(), Error> {
    match system.run(system.on_system_thread(work(system.driver()))).await {
        Some(worked) => worked.and_then(|worked| worked),
        None => Err(Error::Internal("the workload does not end".to_owned())),
    }
}

impl CrashReport {
    /// Adds the counts of another report.
    pub fn merge(&mut self, other: &Self) {
        self.appends += other.appends;
        self.add(&other.cells, other.executions);
    }

    fn add(&mut self, cells: &Cells, executions: usize) {
        self.executions += executions;
        for (cell, times) in cells {
            *self.cells.entry(*cell).or_default() += times;
        }
    }
}

/// The result of one system's life: its log, and the executions seen outside.
struct Ran {
    log: Arc<dyn EventReader>,
    seen: Vec<Execution>,
}

impl Ran {
    /// Checks the log against all general rules, and against those that `more` adds.
    fn sound(&self, cut: Option<usize>, more: impl FnOnce(&mut Judge)) -> Result<Cells, Broken> {
        let judged = || {
            let mut judge = Judge::of(self.log.as_ref())?;
            judge.is_idle(&self.seen);
            more(&mut judge);
            judge.faults.extend(ill_formed(self.log.as_ref())?);
            Ok::<_, Error>(judge)
        };
        let Judge { faults, cells, .. } = judged().map_err(|error| self.broken(cut, &error))?;
        if faults.is_empty() {
            return Ok(cells);
        }
        Err(Broken { cut, faults, log: lines(self.log.as_ref()) })
    }

    fn broken(&self, cut: Option<usize>, why: &dyn fmt::Display) -> Broken {
        Broken { cut, faults: vec![why.to_string()], log: lines(self.log.as_ref()) }
    }
}

/// Returns the events of a log, one per line, as far as it can be read.
fn lines(log: &dyn EventReader) -> Vec<String> {
    let mut lines = Vec::new();
    let read = for_each_record::<Error>(log, Position(1), |stored| {
        let record = &stored.record;
        for (event, at) in record.events.iter().zip(0_u64..) {
            let body = event.body().unwrap_or_default();
            let decoded = AnyEvent::decode(record.stream.category(), event.kind, event.schema, body);
            let text = decoded.map_or_else(|error| error.to_string(), |event| format!("{event:?}"));
            let (position, version) = (stored.position.0 + at, record.first_version.0 + at);
            let text: String = text.chars().take(LINE_CHARS).collect();
            lines.push(format!("{position} {} v{version} {} {text}", record.stream, record.metadata.at));
        }
        Ok(())
    });
    lines.extend(read.err().map(|error| error.to_string()));
    lines
}
