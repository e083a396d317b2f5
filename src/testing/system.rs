//! The system under test: a log in memory and time controlled by the test, all on one thread, so that two executions take the
//! same course. An agent that asks for several arbiters has as many threads, and takes a course of its own each time.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use proto_events::envelope::Timestamp;
use proto_events::id::Position;
use taskreel_log::api::{EventReader, EventStore, FeedError};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;

use crate::actors::shared::observed_runtime::ObservedRuntime;
use crate::agent::handler::HandlerCode;
use crate::error::Error;
use crate::system::builder::Builder;
use crate::system::handle::System;
use crate::system::handles::{TaskHandle, TaskSnapshot};
use crate::testing::clock::{VirtualClock, plus};
use crate::testing::cut::cut_after;
use crate::testing::ids::CountedIds;
use crate::testing::ledger::{Ledger, LedgerTool, WatchedHandler};
use crate::tools::tool::Tool;

/// The number of time steps in one wait of a test before the wait is considered endless.
const JUMPS_MAX: usize = 100_000;

/// The limit in real time for work on other threads, when nothing moves on the system's own.
const ELSEWHERE: Duration = Duration::from_secs(30);

/// A function that describes an agent; it is called at each start.
pub(crate) type Describe = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

/// Starts an agent over an empty log in memory.
///
/// `describe` gets a builder and adds what makes the agent: tools, model, prompt. It is called again at each
/// restart.
///
/// # Errors
/// As [`Builder::start`].
pub async fn system(
    describe: impl Fn(Builder) -> Builder + Send + Sync + 'static,
) -> Result<TestSystem, Error> {
    system_over(MemoryStore::new(), describe).await
}

/// Starts an agent over a log in memory that is not empty, such as an imported or a cut one. Open work is
/// resumed, as after a crash.
///
/// # Errors
/// As [`Builder::start`].
pub async fn system_over(
    store: MemoryStore,
    describe: impl Fn(Builder) -> Builder + Send + Sync + 'static,
) -> Result<TestSystem, Error> {
    TestSystem::start(Arc::new(describe), store, None, Ledger::default()).await
}

/// An agent under test, which can be crashed. Derefs to the [`Driver`], which derefs to the [`System`].
pub struct TestSystem {
    driver: Driver,
    describe: Describe,
}

/// The system, its clock, and the ledger of its tools' executions. Cheap to clone; all clones drive the same
/// system.
#[derive(Clone)]
pub struct Driver {
    system: System,
    observed: Arc<ObservedRuntime>,
    clock: VirtualClock,
    ledger: Ledger,
    store: Arc<MemoryStore>,
    /// The corrections of the clock.
    steps: Arc<Mutex<Vec<ClockStep>>>,
    /// The waits that currently advance time; the newest of them does so.
    driving: Arc<Mutex<BTreeSet<u64>>>,
}

/// A correction of the clock of a system under test: the head of the log at the time, and the milliseconds.
pub(crate) type ClockStep = (Position, i64);

/// A wait that advances time, for as long as it exists.
struct DriverGuard {
    all: Arc<Mutex<BTreeSet<u64>>>,
    own: u64,
}

impl DriverGuard {
    /// Returns the question whether this is the newest wait.
    fn newest_check(&self) -> impl FnOnce() -> bool + Send + 'static {
        let (all, own) = (Arc::clone(&self.all), self.own);
        move || lock(&all).last() == Some(&own)
    }
}

impl Drop for DriverGuard {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.own);
    }
}

impl fmt::Debug for TestSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestSystem").field("driver", &self.driver).finish_non_exhaustive()
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("system", &self.system)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl Deref for TestSystem {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.driver
    }
}

impl Deref for Driver {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

impl TestSystem {
    pub(crate) async fn start(
        describe: Describe,
        store: MemoryStore,
        clock: Option<VirtualClock>,
        ledger: Ledger,
    ) -> Result<Self, Error> {
        let clock = match clock {
            Some(clock) => clock,
            None => newest(&store)?.map_or_else(VirtualClock::new, VirtualClock::starting_at),
        };
        let (own, store) = (clock.clone(), Arc::new(store));
        let observed = Arc::new(ObservedRuntime::new(move || own.is_of_this_thread()));
        let ids = Arc::new(CountedIds::new(store.fence().epoch));
        let sockets = Ports { clock: Arc::new(clock.clone()), ids };
        let watch = |tool: Arc<dyn Tool>| {
            let (clock, log) = (Arc::clone(&sockets.clock), Arc::clone(&store) as Arc<dyn EventReader>);
            let (ledger, observed) = (ledger.clone(), Arc::clone(&observed));
            Arc::new(LedgerTool { tool, ledger, clock, log, observed }) as Arc<dyn Tool>
        };
        let watch_handler = |handler: Arc<dyn HandlerCode>| {
            let (clock, log) = (Arc::clone(&sockets.clock), Arc::clone(&store) as Arc<dyn EventReader>);
            Arc::new(WatchedHandler { handler, ledger: ledger.clone(), clock, log }) as Arc<dyn HandlerCode>
        };
        let log = Arc::clone(&store) as Arc<dyn EventStore>;
        let builder = describe(System::builder("in memory"));
        let system = builder
            .under_test(Arc::clone(&observed), log, sockets.clone(), watch, watch_handler)
            .start()
            .await?;
        let (steps, driving) = Default::default();
        Ok(Self { driver: Driver { system, observed, clock, ledger, store, steps, driving }, describe })
    }

    /// Returns the driver of the system, to keep or to hand to another task.
    pub fn driver(&self) -> Driver {
        self.driver.clone()
    }

    /// Ends the system as a crash would, at a moment when nothing moves unless time passes: its actors and
    /// all work in flight are dropped, and the log is kept. Then it starts the system again on that log, with
    /// the same clock and the same ledger. For a crash at any other moment see [`TestSystem::cut_after`].
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub async fn crash(self) -> Result<Self, Error> {
        let Self { driver, describe } = self;
        driver.until_idle().await;
        let found = driver.store.reopened()?;
        driver.system.kill().await?;
        Self::start(describe, found, Some(driver.clock), driver.ledger).await
    }

    /// Starts the same agent a second time, on a log that ends after this number of this one's appends; see
    /// [`appends`](crate::testing::cut::appends). The new system has its own clock, which shows the time of
    /// the last append, and its own ledger. This one continues.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub async fn cut_after(&self, appends: usize) -> Result<Self, Error> {
        let cut = cut_after(self.driver.store.as_ref(), appends).await?;
        Self::start(Arc::clone(&self.describe), cut, None, Ledger::default()).await
    }

    /// Shuts the system down; time passes while calls in flight end.
    ///
    /// # Errors
    /// As [`System::shutdown`]; [`Error::Internal`] if it does not come to an end.
    pub async fn shutdown(self) -> Result<(), Error> {
        let driver = self.driver;
        let down = driver.system.clone().shutdown();
        driver.run(down).await.unwrap_or_else(|| Err(never("the shutdown")))
    }

    /// Ends the system abruptly, as a crash does.
    pub(crate) async fn kill(self) -> Result<(), Error> {
        self.driver.system.kill().await
    }
}

impl Driver {
    /// The system's clock.
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// Returns the ledger of all attempts of all tools. It survives a crash.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the log. A system that is [reopened](System::reopen) continues in another store: see
    /// [`System::log`].
    pub fn store(&self) -> &Arc<MemoryStore> {
        &self.store
    }

    /// Waits until nothing moves unless time passes or a command arrives. It also waits for tools that are
    /// not async, which run on threads of their own, but not for other work on other threads.
    pub async fn until_idle(&self) {
        self.observed.when_idle(|| true).await;
    }

    /// Waits until nothing moves unless time passes. Returns whether this wait was the newest one at that moment: only
    /// that one may let time pass, for what a newer one waited for has gone on since.
    async fn idle_for(&self, own: &DriverGuard) -> bool {
        self.observed.when_idle(own.newest_check()).await
    }

    /// Advances the clock by `time`, and lets everything that falls due happen, in its order.
    pub async fn advance(&self, time: Duration) {
        let (until, own) = (plus(self.clock.steady(), time), self.drive());
        loop {
            if self.idle_for(&own).await && !self.clock.wake_next(until) {
                break;
            }
        }
        self.clock.go_to(until);
    }

    /// Corrects the system's clock by this number of milliseconds, back if negative, as a machine's clock is corrected
    /// while a process runs. No timer is due earlier or later for it.
    ///
    /// # Errors
    /// Errors of reading the log.
    pub fn step_clock(&self, millis: i64) -> Result<(), Error> {
        lock(&self.steps).push((self.store.head()?, millis));
        self.clock.step_by(millis);
        Ok(())
    }

    /// Returns the corrections of the clock.
    pub(crate) fn clock_steps(&self) -> Vec<ClockStep> {
        lock(&self.steps).clone()
    }

    /// Waits until this number of records have been added to the log, or the log is closed.
    pub async fn grown_by(&self, records: usize) {
        let mut feed = self.store.subscribe();
        for _ in 0..records {
            if matches!(feed.next().await, Err(FeedError::Closed)) {
                return;
            }
        }
    }

    /// Enters a wait that advances time.
    fn drive(&self) -> DriverGuard {
        let mut all = lock(&self.driving);
        let own = all.last().map_or(0, |newest| newest + 1);
        all.insert(own);
        DriverGuard { all: Arc::clone(&self.driving), own }
    }

    /// Waits for `work`, and advances time whenever nothing else moves; among several such waits the newest
    /// one advances it. Returns `None` if the work never ends: nothing moves any more and no timer is
    /// pending.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, own) = (pin!(work), self.drive());
        for _ in 0..JUMPS_MAX {
            let is_newest = match select(work.as_mut(), pin!(self.idle_for(&own))).await {
                Either::Left((done, _)) => return Some(done),
                Either::Right((is_newest, _)) => is_newest,
            };
            if is_newest && !self.clock.step() {
                // The work may wait for another thread, such as one that reads a log.
                return tokio::time::timeout(ELSEWHERE, work).await.ok();
            }
        }
        None
    }

    /// Waits until a task is over or waits for a person; time passes as needed.
    ///
    /// # Errors
    /// As [`TaskHandle::finished`]; [`Error::Stalled`] if no work is in progress and the task has not ended.
    pub async fn finish(&self, task: &TaskHandle) -> Result<TaskSnapshot, Error> {
        self.run(task.finished()).await.unwrap_or_else(|| {
            let why = "no work is in progress and no timer is pending".to_owned();
            Err(Error::Stalled { stream: task.stream().to_string(), why })
        })
    }

    /// Advances time until no timer is pending: all work is over, or waits for a person.
    ///
    /// # Errors
    /// [`Error::Internal`] if that never happens.
    pub async fn run_out_timers(&self) -> Result<(), Error> {
        let own = self.drive();
        for _ in 0..JUMPS_MAX {
            if self.idle_for(&own).await && !self.clock.step() {
                return Ok(());
            }
        }
        Err(never("the work in progress"))
    }

    /// Runs a part of a test on the system's own thread, so that its steps and the system's follow one
    /// another in the same order each time.
    ///
    /// # Errors
    /// [`Error::Internal`] if it panics, or if the system has ended.
    pub async fn on_system_thread<T, F>(&self, part: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let handle = self.observed.handle().ok_or(Error::Stopped)?;
        handle.spawn(part).await.map_err(|panic| Error::Internal(panic.to_string()))
    }
}

/// Locks, ignoring poisoning: no code panics while it holds this lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn never(what: &str) -> Error {
    Error::Internal(format!("{what} does not end"))
}

/// Returns the time of a log's newest record.
pub(crate) fn newest(store: &MemoryStore) -> Result<Option<Timestamp>, Error> {
    let records = store.read_all(Position(1), usize::MAX)?;
    Ok(records.iter().map(|stored| stored.record.metadata.at).max())
}
