//! After a crash with many open tasks they are resumed a few at a time, and a new command does not wait for them.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use proto_events::envelope::Timestamp;
use proto_events::json;
use serde::Deserialize;
use taskreel::limits::RESUMED_FOR;
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, JsonSchema, Part, System, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{Clock, Ports, RandomIds, Sleep, SystemClock};
use taskreel_log::sled::SledStore;
use tokio::sync::{Notify, Semaphore};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

const TASKS: usize = 300;
const AT_ONCE: usize = 4;

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it hangs")
}

/// A clock whose waits never end, or on which a resumed task's time is over at once.
struct Held {
    is_over: AtomicBool,
}

impl Clock for Held {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn sleep(&self, time: Duration) -> Sleep {
        if self.is_over.load(Ordering::SeqCst) && time == RESUMED_FOR {
            return Box::pin(std::future::ready(()));
        }
        Box::pin(std::future::pending())
    }
}

/// The calls of the tool: how many began, how many are at work, the most at once; they end one permit at a time.
struct Calls {
    begun: AtomicUsize,
    working: AtomicUsize,
    most: AtomicUsize,
    told: Notify,
    go: Semaphore,
}

impl Calls {
    fn new() -> Arc<Self> {
        let zero = || AtomicUsize::new(0);
        Arc::new(Self {
            begun: zero(),
            working: zero(),
            most: zero(),
            told: Notify::new(),
            go: Semaphore::new(0),
        })
    }

    async fn call(self: Arc<Self>) -> Result<(), std::convert::Infallible> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let working = self.working.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(working, Ordering::SeqCst);
        self.told.notify_one();
        self.go.acquire().await.unwrap().forget();
        self.working.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    async fn begun(&self, count: usize) {
        while self.begun.load(Ordering::SeqCst) < count {
            self.told.notified().await;
        }
    }
}

fn builder(store: Arc<dyn EventStore>, calls: &Arc<Calls>) -> Builder {
    let calls = Arc::clone(calls);
    let slow = move |_: Nothing| Arc::clone(&calls).call();
    System::builder("-").store(store).tool_with("slow", "Slow", slow, ToolPolicy::read_only())
}

/// Returns a log whose program died with this many open tasks.
async fn crashed() -> (Arc<dyn EventStore>, Vec<String>) {
    let (store, calls) = (Arc::new(MemoryStore::new()), Calls::new());
    let system = builder(store.clone(), &calls).start().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        let task = system.submit(Part::tool_call("slow", json!({})).unwrap()).await.unwrap();
        tasks.push(task.id().to_owned());
    }
    soon(calls.begun(TASKS)).await;
    // They are resumed in the order of their names.
    tasks.sort();
    // No shutdown: the log keeps no word of an end.
    (store.reopen().unwrap(), tasks)
}

fn on_clock(is_over: bool) -> Ports {
    Ports { clock: Arc::new(Held { is_over: AtomicBool::new(is_over) }), ids: Arc::new(RandomIds) }
}

#[tokio::test]
async fn open_tasks_are_resumed_a_few_at_once_and_a_new_command_is_answered_before_them() {
    let ((store, tasks), calls) = (crashed().await, Calls::new());
    let builder = builder(store, &calls).ports(on_clock(false)).resumed_at_once(AT_ONCE);
    let system = builder.start().await.unwrap();
    soon(calls.begun(AT_ONCE)).await;
    let new = system.submit(Part::text("hello")).await.unwrap();
    assert_eq!(soon(new.finished()).await.unwrap().state(), TaskState::Completed);
    assert_eq!(calls.begun.load(Ordering::SeqCst), AT_ONCE, "the new command came before the open tasks");
    // A command about a task that waits resumes it at once.
    let last = system.task(tasks.last().unwrap()).unwrap();
    soon(last.cancel(None)).await.unwrap();
    assert_eq!(soon(last.snapshot()).await.unwrap().state(), TaskState::Canceled);

    calls.go.add_permits(TASKS);
    for task in tasks.iter().take(TASKS - 1) {
        let end = soon(system.task(task).unwrap().finished()).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed);
    }
    assert!(calls.most.load(Ordering::SeqCst) <= AT_ONCE, "{:?}", calls.most);
    soon(system.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_task_whose_call_takes_long_keeps_the_others_waiting_for_a_while_only() {
    let ((store, _), calls) = (crashed().await, Calls::new());
    let builder = builder(store, &calls).ports(on_clock(true)).resumed_at_once(AT_ONCE);
    let system = builder.start().await.unwrap();
    soon(calls.begun(TASKS)).await;
    calls.go.add_permits(TASKS);
    soon(system.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_shutdown_resumes_no_more_tasks() {
    let ((store, _), calls) = (crashed().await, Calls::new());
    let builder = builder(store, &calls).ports(on_clock(false)).resumed_at_once(AT_ONCE);
    let system = builder.start().await.unwrap();
    soon(calls.begun(AT_ONCE)).await;
    let stopping = tokio::spawn(system.clone().shutdown());
    while system.submit(Part::text("hello")).await.is_ok() {}
    calls.go.add_permits(TASKS);
    soon(stopping).await.unwrap().unwrap();
    assert!(calls.begun.load(Ordering::SeqCst) <= 2 * AT_ONCE, "{:?}", calls.begun);
}

/// Measures how long the first new commands take after a crash with 10,000 open tasks, on a disk, and bounds it:
/// `cargo test --release --features testing --test ramp -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn the_first_new_command_beside_ten_thousand_open_tasks() {
    let (dir, calls) = (tempfile::tempdir().unwrap(), Calls::new());
    let system = builder(Arc::new(SledStore::open(dir.path()).unwrap()), &calls).start().await.unwrap();
    let submits = (0..10_000).map(|_| {
        let system = system.clone();
        async move { system.submit(Part::tool_call("slow", json!({})).unwrap()).await.unwrap() }
    });
    futures_util::stream::iter(submits).for_each_concurrent(500, |submit| async { drop(submit.await) }).await;
    let log = system.log();
    let again = log.reopen().unwrap();
    for at_once in [64, usize::MAX] {
        let store = if at_once == 64 { again.clone() } else { again.reopen().unwrap() };
        let calls = Calls::new();
        let system = builder(store, &calls).resumed_at_once(at_once).start().await.unwrap();
        let mut longest = Duration::ZERO;
        for _ in 0..50 {
            let began = std::time::Instant::now();
            system.submit(Part::text("hello")).await.unwrap();
            longest = longest.max(began.elapsed());
        }
        let most = if cfg!(debug_assertions) { 1_000 } else { 200 };
        assert!(at_once != 64 || longest < Duration::from_millis(most), "a new command took {longest:?}");
        println!("{at_once} at once: the slowest of the first 50 new commands took {longest:?}");
        let begun = calls.begun.load(Ordering::SeqCst);
        println!("{begun} calls had begun by then");
    }
}
