//! A system in a test's hands: its log in memory, its time the test's own, all of it on one thread.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use proto_events::envelope::Timestamp;
use proto_events::id::Position;

use super::clock::{VirtualClock, plus};
use super::cut::cut_after;
use super::ids::CountedIds;
use super::ledger::{Ledger, Watched};
use crate::actors::stage::Stage;
use crate::agent::tool::Tool;
use crate::error::Error;
use crate::ports::{Clock, Ports};
use crate::store::{EventReader, EventStore, MemoryStore};
use crate::system::{Builder, System, TaskHandle, TaskSnapshot};

/// How often time jumps while a test waits for one thing, before that is held to go on for ever.
const JUMPS_MAX: usize = 100_000;

/// How long something may take that runs on other threads, in real time, when nothing moves on the system's own.
const ELSEWHERE: Duration = Duration::from_secs(30);

/// Describes an agent: as often as a test starts it.
pub(super) type Describe = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

/// Starts an agent over an empty log in memory.
///
/// `describe` gets a builder and adds what makes the agent: tools, model, prompt. It is asked again at every restart.
///
/// # Errors
/// As [`Builder::start`].
pub async fn system(
    describe: impl Fn(Builder) -> Builder + Send + Sync + 'static,
) -> Result<TestSystem, Error> {
    system_over(MemoryStore::new(), describe).await
}

/// Starts an agent over a log in memory that holds something already, such as an imported or a cut one. What was going
/// on is taken up again, as after a crash.
///
/// # Errors
/// As [`Builder::start`].
pub async fn system_over(
    store: MemoryStore,
    describe: impl Fn(Builder) -> Builder + Send + Sync + 'static,
) -> Result<TestSystem, Error> {
    TestSystem::start(Arc::new(describe), store, None, Ledger::default()).await
}

/// An agent under test, and how to crash it. Derefs to the [`Driver`], which derefs to the [`System`].
pub struct TestSystem {
    driver: Driver,
    describe: Describe,
}

/// The system, its clock, and what the world outside saw of it. Cheap to clone; all clones drive the same system.
#[derive(Clone)]
pub struct Driver {
    system: System,
    stage: Arc<Stage>,
    clock: VirtualClock,
    ledger: Ledger,
    store: Arc<MemoryStore>,
    /// Who lets time pass at the moment: the newest of them does.
    driving: Arc<Mutex<BTreeSet<u64>>>,
}

/// One who lets time pass, while that is needed.
struct Driving {
    all: Arc<Mutex<BTreeSet<u64>>>,
    own: u64,
}

impl Driving {
    /// Whether nobody has begun since who lets time pass.
    fn is_newest(&self) -> bool {
        lock(&self.all).last() == Some(&self.own)
    }
}

impl Drop for Driving {
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
    pub(super) async fn start(
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
        let stage = Arc::new(Stage::new(move || own.is_of_this_thread()));
        let ids = Arc::new(CountedIds::new(store.fence().epoch));
        let doors = Ports { clock: Arc::new(clock.clone()), ids };
        let watch = |tool: Arc<dyn Tool>| {
            let (clock, log) = (Arc::clone(&doors.clock), Arc::clone(&store) as Arc<dyn EventReader>);
            let (ledger, stage) = (ledger.clone(), Arc::clone(&stage));
            Arc::new(Watched { tool, ledger, clock, log, stage }) as Arc<dyn Tool>
        };
        let log = Arc::clone(&store) as Arc<dyn EventStore>;
        let builder = describe(System::builder("in memory"));
        let system = builder.staged(Arc::clone(&stage), log, doors.clone(), watch).start().await?;
        let driving = Arc::default();
        Ok(Self { driver: Driver { system, stage, clock, ledger, store, driving }, describe })
    }

    /// What drives the system, to keep or to hand to another task.
    pub fn driver(&self) -> Driver {
        self.driver.clone()
    }

    /// Ends the system as a crash would, at a moment when nothing moves unless time passes: its actors and all that
    /// is in flight are dropped, and what the log holds is kept. Then starts it again on that log, with the same clock
    /// and the same ledger. For a crash at any other moment see [`TestSystem::cut_after`].
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub async fn crash(self) -> Result<Self, Error> {
        let Self { driver, describe } = self;
        driver.settle().await;
        let found = driver.store.reopened()?;
        driver.system.drop_dead().await?;
        Self::start(describe, found, Some(driver.clock), driver.ledger).await
    }

    /// Starts the same agent once more, on a log that ends behind so many of this one's appends; see
    /// [`appends`](super::appends). That system has its own clock, which shows the time of the last append, and
    /// its own ledger. This one goes on.
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

    /// Ends the system without a word, as a crash does.
    pub(super) async fn drop_dead(self) -> Result<(), Error> {
        self.driver.system.drop_dead().await
    }
}

impl Driver {
    /// The system's clock.
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// Every attempt of every tool, as the world outside saw it. It survives a crash.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The log. A system that is [reopened](System::reopen) goes on in another store: see [`System::log`].
    pub fn store(&self) -> &Arc<MemoryStore> {
        &self.store
    }

    /// Ends when nothing moves any more unless time passes or somebody says something. Tools that are not
    /// async, which run on threads of their own, are waited for; what else runs on other threads is not.
    pub async fn settle(&self) {
        self.stage.settled().await;
    }

    /// Lets so much time pass, and everything happen meanwhile that is due, in its order.
    pub async fn advance(&self, time: Duration) {
        let (until, own) = (plus(self.clock.now(), time), self.drive());
        loop {
            self.settle().await;
            if own.is_newest() && !self.clock.wake_next(until) {
                break;
            }
        }
        self.clock.go_to(until);
    }

    /// Enters whoever lets time pass.
    fn drive(&self) -> Driving {
        let mut all = lock(&self.driving);
        let own = all.last().map_or(0, |newest| newest + 1);
        all.insert(own);
        Driving { all: Arc::clone(&self.driving), own }
    }

    /// Waits for something, and lets time pass whenever nothing else moves; while several wait so, the one that began last
    /// decides. None if it never ends: nothing
    /// moves any more, nobody waits for a time, and it is not there.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, own) = (pin!(work), self.drive());
        for _ in 0..JUMPS_MAX {
            match select(work.as_mut(), pin!(self.settle())).await {
                Either::Left((done, _)) => return Some(done),
                Either::Right(_) => {}
            }
            if own.is_newest() && !self.clock.step() {
                // It may hang on another thread, such as one that reads a log.
                return tokio::time::timeout(ELSEWHERE, work).await.ok();
            }
        }
        None
    }

    /// Waits until a task is over or waits for a person; time passes as it must.
    ///
    /// # Errors
    /// As [`TaskHandle::finished`]; [`Error::Stalled`] if nothing moves any more and the task is not at its end.
    pub async fn finish(&self, task: &TaskHandle) -> Result<TaskSnapshot, Error> {
        self.run(task.finished()).await.unwrap_or_else(|| {
            let why = "nothing moves any more, and nobody waits for a time".to_owned();
            Err(Error::Stalled { stream: task.stream().to_string(), why })
        })
    }

    /// Lets time pass until nobody waits for it any more: everything is over, or waits for a person.
    ///
    /// # Errors
    /// [`Error::Internal`] if that never comes.
    pub async fn quiesce(&self) -> Result<(), Error> {
        let own = self.drive();
        for _ in 0..JUMPS_MAX {
            self.settle().await;
            if own.is_newest() && !self.clock.step() {
                return Ok(());
            }
        }
        Err(never("what goes on"))
    }

    /// Runs a part of a test on the system's own thread: what it says and what the system does then follow one another
    /// in the same order every time.
    ///
    /// # Errors
    /// [`Error::Internal`] if it panics, or if the system has ended.
    pub async fn on_stage<T, F>(&self, part: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let handle = self.stage.handle().ok_or(Error::Stopped)?;
        handle.spawn(part).await.map_err(|panic| Error::Internal(panic.to_string()))
    }
}

/// Nothing panics while it holds this lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn never(what: &str) -> Error {
    Error::Internal(format!("{what} does not come to an end"))
}

/// The time of a log's newest record.
pub(super) fn newest(store: &MemoryStore) -> Result<Option<Timestamp>, Error> {
    let records = store.read_all(Position(1), usize::MAX)?;
    Ok(records.iter().map(|stored| stored.record.metadata.at).max())
}
