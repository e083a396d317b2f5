//! The crash matrix: a workload's log is cut after each append, the agent is started on the rest, and what
//! follows is checked against rule R7.

pub(crate) mod life;
pub(crate) mod ran;
pub(crate) mod report;

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use proto_events::envelope::Timestamp;
use proto_events::id::Position;
use taskreel_log::api::StoredRecord;
use taskreel_log::memory::MemoryStore;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::system::builder::Builder;
use crate::testing::clock::{VirtualClock, plus};
use crate::testing::cut::{Regrown, appends};
use crate::testing::judge::Judge;
use crate::testing::judge::setting::Setting;
use crate::testing::matrix::life::{finish, start, unknown_behind};
use crate::testing::matrix::ran::Ran;
use crate::testing::matrix::report::{Broken, CrashReport};
use crate::testing::system::{Describe, Driver, TestSystem, newest};

/// The interval of second crashes: after every third cut, the recovered process is crashed as well.
const RECRASH_EVERY: usize = 3;

type Work = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

type Workload = Box<dyn Fn(Driver) -> Work + Send + Sync>;

/// The acts of people while a recovery goes on, and after how many of its records, by the number of the cut.
type Meanwhile = (Box<dyn Fn(usize) -> usize + Send + Sync>, Workload);

/// A crash test of an agent and a workload, with a crash after each append.
///
/// The workload runs once, to its end. Then, for each append of its log, a new system is started on the log
/// up to that append, as a process would be after a crash, and is left alone until nothing happens any more.
/// An append is in the log completely or not at all, so these are all the logs that a crash can leave. After
/// every third of them the recovered system is crashed as well, in the middle of its recovery.
///
/// Each time it is checked that
/// * for each call, what followed matches R7 for its row and its recovery mode;
/// * no tool was called more often than its mode allows, by the tools' own count (a [`Ledger`](crate::testing::Ledger) apart from the
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
/// let matrix = CrashMatrix::new(
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
    changed_to: Option<Describe>,
    workload: Workload,
    meanwhile: Option<Meanwhile>,
    afterwards: Option<Workload>,
    down_for: Duration,
    clock_step_ms: i64,
    clock_panics_at: Option<u64>,
    cuts_max: usize,
    secrets: Vec<String>,
}

impl fmt::Debug for CrashMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashMatrix").finish_non_exhaustive()
    }
}

impl CrashMatrix {
    /// Returns the matrix of this agent and this workload. Both are built again for each execution; for a
    /// workload to take the same course each time, the results of its tools and its model must depend only on
    /// their input.
    pub fn new<W, F>(describe: impl Fn(Builder) -> Builder + Send + Sync + 'static, workload: W) -> Self
    where
        W: Fn(Driver) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        Self {
            describe: Arc::new(describe),
            changed_to: None,
            workload: boxed(workload),
            meanwhile: None,
            afterwards: None,
            down_for: Duration::ZERO,
            clock_step_ms: 0,
            clock_panics_at: None,
            cuts_max: usize::MAX,
            secrets: Vec::new(),
        }
    }

    /// Sets the agent of the processes after a crash, if it is another one than before: other tools, another model,
    /// another prompt. An inference that was intended before the crash may not be sent any more then, and another one
    /// takes its place.
    #[must_use]
    pub fn changed_to(mut self, describe: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Self {
        self.changed_to = Some(Arc::new(describe));
        self
    }

    /// Sets what people do while the system recovers: after the recovery has written as many records as `after` says for
    /// the cut (zero is at once, before anything else of the recovery), at the latest when it is at rest.
    #[must_use]
    pub fn meanwhile<W, F>(
        mut self,
        after: impl Fn(usize) -> usize + Send + Sync + 'static,
        people: W,
    ) -> Self
    where
        W: Fn(Driver) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.meanwhile = Some((Box::new(after), boxed(people)));
        self
    }

    /// Sets what people do after each crash, once the recovered system is at rest: they approve, settle, answer. What
    /// follows from that must come to rest too.
    #[must_use]
    pub fn afterwards<W, F>(mut self, people: W) -> Self
    where
        W: Fn(Driver) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.afterwards = Some(boxed(people));
        self
    }

    /// Sets the virtual time between a crash and the restart, by default zero.
    #[must_use]
    pub fn down_for(mut self, time: Duration) -> Self {
        self.down_for = time;
        self
    }

    /// Sets by how many milliseconds the machine's clock is corrected between a crash and the restart: back if negative.
    /// See [`Driver::step_clock`] for a correction in the middle of the workload.
    #[must_use]
    pub fn clock_steps_by(mut self, millis: i64) -> Self {
        self.clock_step_ms = millis;
        self
    }

    /// Makes the clock panic once in each process when it is asked for the time: the first time after the start, the
    /// second, and so on.
    #[must_use]
    pub fn clock_panics_at(mut self, uses: u64) -> Self {
        self.clock_panics_at = Some(uses);
        self
    }

    /// Sets the largest number of cuts: of a longer log, as many appends spread over it.
    #[must_use]
    pub fn cuts_at_most(mut self, cuts: usize) -> Self {
        self.cuts_max = cuts;
        self
    }

    /// Adds a text that may stand in no record, such as the value of a secret argument.
    #[must_use]
    pub fn never_stored(mut self, text: impl Into<String>) -> Self {
        self.secrets.push(text.into());
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
        let seen = |judge: &mut Judge| {
            judge.evidence();
            judge.time_limits(&whole.steps);
            if self.clock_panics_at.is_none() {
                judge.outcomes(&whole.seen);
            }
        };
        report.add(&whole.sound(None, &self.secrets, seen)?, whole.seen.len());
        let mut prefix = Regrown::new();
        for (set, cut) in sets.iter().zip(1..sets.len()) {
            prefix.accept_append(set).await.map_err(|error| whole.broken(Some(cut), &error))?;
            if !self.is_tried(cut, sets.len()) {
                continue;
            }
            let after = self.crash(&whole, &prefix, set, cut, None, &mut report).await?;
            report.cuts += 1;
            if report.cuts.is_multiple_of(RECRASH_EVERY) {
                let first = set.last().map(StoredRecord::last_position);
                self.crash_again(&after, cut, first, &mut report).await?;
            }
        }
        Ok(report)
    }

    /// Whether the log is cut there: after each append, or after so many that are spread evenly, the first and the last
    /// among them.
    fn is_tried(&self, cut: usize, appends: usize) -> bool {
        let (last, cuts) = (appends.saturating_sub(1), self.cuts_max);
        let share = |cut: usize| cut.saturating_mul(cuts) / last.max(1);
        last <= cuts || share(cut) > share(cut - 1) || cut == 1
    }

    /// Recovers from a log that was cut, and checks what follows. `last` is the last append before the cut, and `first` the
    /// end of the log at the crash before, if there was one.
    async fn crash(
        &self,
        before: &Ran,
        prefix: &Regrown,
        last: &[StoredRecord],
        cut: usize,
        first: Option<Position>,
        report: &mut CrashReport,
    ) -> Result<Ran, Broken> {
        let found = prefix.reopened_store().map_err(|error| before.broken(Some(cut), &error))?;
        let behind = last.last().map_or(Position::default(), StoredRecord::last_position);
        let mut after = self.recover(found, cut).await?;
        let own = after.seen.clone();
        // Executions before the crash stay in the ledger.
        let seen = before.seen.iter().filter(|execution| execution.head <= behind);
        after.seen = seen.chain(&own).cloned().collect();
        let setting = Setting {
            changed_at: self.changed_to.as_ref().map(|_| first.unwrap_or(behind)),
            may_break: self.clock_panics_at.is_some(),
            set_back: Duration::from_millis(self.clock_step_ms.min(0).unsigned_abs()),
        };
        let judged = |judge: &mut Judge| {
            judge.recovered(behind, &own, setting);
            if !setting.may_break {
                judge.outcomes(&after.seen);
            }
        };
        report.add(&after.sound(Some(cut), &self.secrets, judged)?, own.len());
        Ok(after)
    }

    /// Crashes a recovered process as well: behind the first append of its recovery that records an unknown outcome, while
    /// the run goes on, or else in the middle.
    async fn crash_again(
        &self,
        ran: &Ran,
        cut: usize,
        first: Option<Position>,
        report: &mut CrashReport,
    ) -> Result<(), Broken> {
        let broken = |error: Error| ran.broken(Some(cut), &error);
        let sets = appends(ran.log.as_ref()).map_err(broken)?;
        let middle = cut + (sets.len() - cut) / 2;
        let again = unknown_behind(&sets, cut).map_err(broken)?.unwrap_or(middle);
        let Some(last) = sets.get(again.wrapping_sub(1)).filter(|_| again > cut && again < sets.len()) else {
            return Ok(());
        };
        let mut prefix = Regrown::new();
        for set in sets.iter().take(again) {
            prefix.accept_append(set).await.map_err(broken)?;
        }
        self.crash(ran, &prefix, last, again, first, report).await.map(drop)
    }

    /// Runs the workload from its beginning to its end.
    async fn workload(&self) -> Result<Ran, Broken> {
        let system = start(&self.describe, MemoryStore::new(), None).await?;
        self.light(&system);
        let worked = perform(&system, &self.workload).await;
        finish(system, worked, None).await
    }

    /// Starts a system on a log that was cut, and lets it recover.
    async fn recover(&self, found: MemoryStore, cut: usize) -> Result<Ran, Broken> {
        let at = newest(&found).ok().flatten().map(|at| {
            let micros = plus(at, self.down_for).0.saturating_add(self.clock_step_ms.saturating_mul(1_000));
            VirtualClock::starting_at(Timestamp(micros))
        });
        let describe = self.changed_to.as_ref().unwrap_or(&self.describe);
        let system = start(describe, found, at).await?;
        self.light(&system);
        let worked = self.attend(&system, cut).await;
        finish(system, worked, Some(cut)).await
    }

    fn light(&self, system: &TestSystem) {
        if let Some(uses) = self.clock_panics_at {
            system.clock().panic_at(uses);
        }
    }

    /// Lets people act on a system that recovers, and again once it is at rest.
    async fn attend(&self, system: &TestSystem, cut: usize) -> Result<(), Error> {
        if let Some((after, people)) = &self.meanwhile {
            let rest = CancellationToken::new();
            let (driver, resting, records) = (system.driver(), rest.clone(), after(cut));
            let acts = people(system.driver());
            let person = async move {
                select(pin!(driver.grown_by(records)), pin!(resting.cancelled())).await;
                acts.await
            };
            let mut person = pin!(system.on_system_thread(person));
            match select(person.as_mut(), pin!(system.run_out_timers())).await {
                Either::Left((acted, _)) => acted??,
                Either::Right((idle, _)) => {
                    idle?;
                    rest.cancel();
                    system.run(person).await.unwrap_or_else(|| Err(never("what people do")))??;
                }
            }
        }
        if let Some(people) = &self.afterwards {
            system.run_out_timers().await?;
            perform(system, people).await?;
        }
        Ok(())
    }
}

/// Performs the acts of people on a system.
async fn perform(system: &TestSystem, work: &Workload) -> Result<(), Error> {
    match system.run(system.on_system_thread(work(system.driver()))).await {
        Some(worked) => worked.and_then(|worked| worked),
        None => Err(never("the workload")),
    }
}

fn never(what: &str) -> Error {
    Error::Internal(format!("{what} does not end"))
}

fn boxed<W, F>(work: W) -> Workload
where
    W: Fn(Driver) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    Box::new(move |driver| Box::pin(work(driver)) as Work)
}
