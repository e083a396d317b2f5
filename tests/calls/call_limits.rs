//! Limits of calls: how many run at once, the time limit of a run, and targets that get no calls for a while.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::call_support::{Nothing, call, call_events, memory, soon};
use proto_events::call::{CallEvent, CallStatus};
use proto_events::json;
use proto_events::model::PostedTask;
use taskreel::approval::CapabilityPolicy;
use taskreel::tool::{BoxFuture, ToolContext, ToolError, ToolPolicy};
use taskreel::{Message, Part, System, TaskState};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use tokio::sync::{Barrier, Notify, Semaphore};

fn message(tools: &[&str]) -> Message {
    Message {
        id: Some("m".to_owned()),
        role: Some("user".to_owned()),
        parts: tools.iter().map(|tool| call(tool)).collect(),
        timestamp: None,
    }
}

/// A tool that records how many of its calls run at once, and ends when it is permitted to.
#[derive(Clone)]
struct Crowd {
    now: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
    started: Arc<Semaphore>,
    go: Arc<Semaphore>,
}

impl Crowd {
    fn new() -> Self {
        let (started, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        Self { now: Arc::default(), most: Arc::default(), started, go }
    }

    fn tool(
        &self,
    ) -> impl Fn(Nothing) -> BoxFuture<'static, Result<u32, Infallible>> + Send + Sync + 'static {
        let crowd = self.clone();
        move |_| {
            let crowd = crowd.clone();
            Box::pin(async move {
                let now = crowd.now.fetch_add(1, Ordering::SeqCst) + 1;
                crowd.most.fetch_max(now, Ordering::SeqCst);
                crowd.started.add_permits(1);
                crowd.go.acquire().await.unwrap().forget();
                crowd.now.fetch_sub(1, Ordering::SeqCst);
                Ok(now)
            })
        }
    }

    async fn started(&self, calls: u32) {
        soon(self.started.acquire_many(calls)).await.unwrap().forget();
    }
}

#[tokio::test]
async fn a_tools_calls_beyond_its_places_wait_with_their_intent_on_disk() {
    let (crowd, store) = (Crowd::new(), memory());
    let policy = ToolPolicy::read_only().concurrency(2);
    let builder = System::builder("-").store(store.clone()).tool_with("t", "", crowd.tool(), policy);
    let system =
        builder.tool("other", "", |_: Nothing| async { Ok::<_, Infallible>(1) }).start().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..6 {
        tasks.push(system.submit(call("t")).await.unwrap());
    }
    crowd.started(2).await;
    let other = system.submit(call("other")).await.unwrap();
    assert_eq!(
        soon(other.finished()).await.unwrap().state(),
        TaskState::Completed,
        "other tools do not wait"
    );
    let waiting = tasks.iter().filter(|task| call_events(&store, task).len() == 1).count();
    assert_eq!(waiting, 4, "requested, and not sent");
    let canceled = tasks.iter().find(|task| call_events(&store, task).len() == 1).unwrap();
    canceled.cancel(None).await.unwrap();
    crowd.go.add_permits(6);
    for task in &tasks {
        soon(task.finished()).await.unwrap();
    }
    assert_eq!(crowd.most.load(Ordering::SeqCst), 2);
    assert_eq!(
        call_events(&store, canceled).len(),
        2,
        "a call that was canceled while it waited is never sent"
    );
}

#[tokio::test]
async fn an_agents_places_bound_all_its_calls_together() {
    let (crowd, store) = (Crowd::new(), memory());
    let builder = System::builder("-").store(store).max_concurrency(3);
    let builder = builder.tool_with("a", "", crowd.tool(), ToolPolicy::read_only());
    let system = builder.tool_with("b", "", crowd.tool(), ToolPolicy::read_only()).start().await.unwrap();
    let mut tasks = Vec::new();
    for at in 0..8 {
        tasks.push(system.submit(call(if at % 2 == 0 { "a" } else { "b" })).await.unwrap());
    }
    crowd.started(3).await;
    crowd.go.add_permits(8);
    for task in &tasks {
        assert_eq!(soon(task.finished()).await.unwrap().state(), TaskState::Completed);
    }
    assert_eq!(crowd.most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn what_waited_for_a_place_when_its_process_died_is_sent_by_the_next() {
    let (crowd, store) = (Crowd::new(), memory());
    let start = |store: Arc<MemoryStore>| {
        let policy = ToolPolicy::manual().concurrency(1);
        System::builder("-").store(store).tool_with("t", "", crowd.tool(), policy).start()
    };
    let first = start(store.clone()).await.unwrap();
    let one = first.submit(call("t")).await.unwrap();
    crowd.started(1).await;
    let two = first.submit(call("t")).await.unwrap();
    assert_eq!(call_events(&store, &two).len(), 1);
    let store = Arc::new(store.reopened().unwrap());
    let second = start(store.clone()).await.unwrap();
    crowd.started(1).await;
    crowd.go.add_permits(2);
    assert_eq!(
        soon(second.task(one.id()).unwrap().finished()).await.unwrap().state(),
        TaskState::InputRequired
    );
    assert_eq!(soon(second.task(two.id()).unwrap().finished()).await.unwrap().state(), TaskState::Completed);
}

/// Returns a task with this id that calls `t`.
fn named(id: &str) -> PostedTask {
    let part = json!({"type": "tool_call", "content": {"tool_name": "t", "args": {}}});
    let task = json!({"id": id, "messages": [{"id": "m", "role": "user", "parts": [part]}]});
    PostedTask::parse(&task.to_string(), &mut Ports::default()).unwrap()
}

#[tokio::test]
async fn a_call_that_waited_for_its_place_waits_again_after_a_crash() {
    // Its first attempt was written under the command that granted the permit; the next grant must be
    // distinct from it.
    let (crowd, store) = (Crowd::new(), memory());
    let start = |store: Arc<MemoryStore>| {
        let policy = ToolPolicy::read_only().concurrency(1);
        System::builder("-").store(store).tool_with("t", "", crowd.tool(), policy).start()
    };
    let first = start(store.clone()).await.unwrap();
    // Tasks resume in the order of their names: `b` then has the permit, and `c` must wait for it once more.
    let one = first.submit(named("a")).await.unwrap();
    crowd.started(1).await;
    let two = first.submit(named("c")).await.unwrap();
    let three = first.submit(named("b")).await.unwrap();
    crowd.go.add_permits(1);
    crowd.started(1).await;
    let store = Arc::new(store.reopened().unwrap());
    let second = start(store.clone()).await.unwrap();
    crowd.go.add_permits(9);
    for task in [one, two, three] {
        let end = soon(second.task(task.id()).unwrap().finished()).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed);
    }
}

#[tokio::test]
async fn neighbouring_parts_run_side_by_side_only_where_they_are_declared_so() {
    // Three calls meet at a barrier: they can do so only if they run concurrently.
    let (store, barrier, before) = (memory(), Arc::new(Barrier::new(3)), Arc::new(AtomicU32::new(0)));
    let meet = {
        let barrier = Arc::clone(&barrier);
        move |_: Nothing| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                Ok::<_, Infallible>("met")
            }
        }
    };
    let alone = {
        let before = Arc::clone(&before);
        move |_: Nothing| {
            let before = Arc::clone(&before);
            async move { Ok::<_, Infallible>(before.fetch_add(1, Ordering::SeqCst)) }
        }
    };
    let builder = System::builder("-").store(store.clone());
    let builder = builder.tool_with("meet", "", meet, ToolPolicy::read_only().parallel());
    let system = builder.tool_with("alone", "", alone, ToolPolicy::read_only()).start().await.unwrap();
    let task = system.submit(message(&["alone", "meet", "meet", "meet", "alone"])).await.unwrap();
    let end = soon(task.finished()).await.unwrap();
    assert_eq!(end.state(), TaskState::Completed);
    let answers: Vec<_> =
        end.task().artifacts().iter().map(|artifact| artifact.parts[0].content().to_string()).collect();
    let results: Vec<_> = answers
        .iter()
        .map(|answer| {
            serde_json::from_str::<proto_events::json::JsonValue>(answer).unwrap()["result"].clone()
        })
        .collect();
    assert_eq!(
        results,
        [json!(0), json!("met"), json!("met"), json!("met"), json!(1)],
        "in the order of the parts"
    );
    let mut kinds = String::new();
    for event in call_events(&store, &task) {
        kinds.push(match event {
            CallEvent::Requested(_) => 'r',
            CallEvent::Dispatched { .. } => 'd',
            _ => 'o',
        });
    }
    assert_eq!(kinds, "rdordrdrdooordo");
}

#[tokio::test]
async fn where_one_of_those_side_by_side_is_denied_none_starts() {
    let (store, runs) = (memory(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&runs);
    let tool = move |_: Nothing| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, Infallible>(1) }
    };
    let rules = CapabilityPolicy::from_json(&json!({"danger": "deny"}).read().unwrap()).unwrap();
    let side_by_side = || ToolPolicy::read_only().parallel();
    let builder = System::builder("-").store(store).capability_policy(rules);
    let builder = builder.tool_with("free", "", tool.clone(), side_by_side());
    let builder = builder.tool_with("guarded", "", tool, side_by_side().capabilities(["danger"]));
    let system = builder.start().await.unwrap();
    let task = system.submit(message(&["free", "guarded"])).await.unwrap();
    let end = soon(task.finished()).await.unwrap();
    assert_eq!((end.state(), runs.load(Ordering::SeqCst)), (TaskState::Failed, 0));
    assert_eq!(end.task().error().unwrap(), "Action 'guarded' denied: Denied capabilities: danger");
}

fn with_budget(part: &Part, budget: &proto_events::json::JsonValue) -> PostedTask {
    let part: proto_events::json::JsonValue = serde_json::from_str(part.to_json().as_str()).unwrap();
    let task = json!({"id": "t", "messages": [{"id": "m", "role": "user", "parts": [part.clone(), part]}],
        "metadata": {"budget": budget}});
    PostedTask::parse(&task.to_string(), &mut Ports::default()).unwrap()
}

#[tokio::test]
async fn a_run_ends_when_its_time_is_up_whatever_hangs() {
    let (store, started) = (memory(), Arc::new(Notify::new()));
    let (first, canceled) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let hang = {
        let (started, first, canceled) = (Arc::clone(&started), Arc::clone(&first), Arc::clone(&canceled));
        move |cx: ToolContext, _: Nothing| {
            let (started, canceled) = (Arc::clone(&started), Arc::clone(&canceled));
            let first = first.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                if first {
                    return Ok::<_, Infallible>("quick");
                }
                started.notify_one();
                cx.cancellation().canceled().await;
                canceled.notify_one();
                std::future::pending().await
            }
        }
    };
    let builder =
        System::builder("-").store(store.clone()).tool_with("hang", "", hang, ToolPolicy::read_only());
    let system = builder.start().await.unwrap();
    let task = system.submit(with_budget(&call("hang"), &json!({"max_runtime_seconds": 2}))).await.unwrap();
    soon(started.notified()).await;
    let end = soon(task.finished()).await.unwrap();
    assert_eq!(end.state(), TaskState::Failed);
    let error = end.task().error().unwrap();
    assert!(
        error.starts_with("Run budget exceeded: max_runtime_seconds observed 2.")
            && error.ends_with("> limit 2.0"),
        "{error}"
    );
    assert_eq!(end.task().artifacts().len(), 1, "the part that had ended keeps its output");
    soon(canceled.notified()).await;
}

#[tokio::test]
async fn a_run_whose_time_was_up_while_nobody_ran_it_does_not_go_on() {
    let (store, started) = (memory(), Arc::new(Notify::new()));
    let runs = Arc::new(AtomicU32::new(0));
    let start = |store: Arc<MemoryStore>, ports: Ports| {
        let (started, runs) = (Arc::clone(&started), Arc::clone(&runs));
        let hang = move |_: Nothing| {
            runs.fetch_add(1, Ordering::SeqCst);
            started.notify_one();
            std::future::pending::<Result<(), Infallible>>()
        };
        System::builder("-")
            .store(store)
            .ports(ports)
            .tool_with("hang", "", hang, ToolPolicy::read_only())
            .start()
    };
    let first = start(store.clone(), Ports::default()).await.unwrap();
    let task = first.submit(with_budget(&call("hang"), &json!({"max_runtime_seconds": 3600}))).await.unwrap();
    soon(started.notified()).await;
    let later = Ports { clock: Arc::new(TwoHoursLater), ..Ports::default() };
    let second = start(Arc::new(store.reopened().unwrap()), later).await.unwrap();
    let end = soon(second.task(task.id()).unwrap().finished()).await.unwrap();
    assert_eq!((end.state(), runs.load(Ordering::SeqCst)), (TaskState::Failed, 1));
    assert!(end.task().error().unwrap().contains("max_runtime_seconds"));
}

/// The machine's clock, which a test sets back or forth.
#[derive(Default)]
struct Stepping(std::sync::atomic::AtomicI64);

impl taskreel_log::ports::Clock for Stepping {
    fn now(&self) -> proto_events::envelope::Timestamp {
        let now = taskreel_log::ports::SystemClock.now();
        proto_events::envelope::Timestamp(now.0 + self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn the_time_of_a_run_ends_although_the_clock_of_the_machine_is_set_back() {
    for back in [10_000, 3_600_000_000] {
        let (clock, began) = (Arc::new(Stepping::default()), Arc::new(Notify::new()));
        let tell = Arc::clone(&began);
        let waits = move |_: Nothing| {
            tell.notify_one();
            std::future::pending::<Result<(), Infallible>>()
        };
        let system = System::builder("-")
            .store(memory())
            .ports(Ports { clock: clock.clone(), ..Ports::default() })
            .tool_with("waits", "", waits, ToolPolicy::read_only())
            .start()
            .await
            .unwrap();
        let budget = json!({"max_runtime_seconds": 0.3});
        let task = system.submit(with_budget(&call("waits"), &budget)).await.unwrap();
        soon(began.notified()).await;
        let since = std::time::Instant::now();
        clock.0.store(-back, Ordering::SeqCst);
        let end = soon(task.finished()).await.unwrap();
        assert!(since.elapsed() < Duration::from_secs(2), "{back} µs back: {:?}", since.elapsed());
        assert_eq!(end.state(), TaskState::Failed, "{back} µs back: {}", end.to_json());
        assert!(end.task().error().unwrap().contains("max_runtime_seconds"));
        system.shutdown().await.unwrap();
    }
}

struct TwoHoursLater;

impl taskreel_log::ports::Clock for TwoHoursLater {
    fn now(&self) -> proto_events::envelope::Timestamp {
        taskreel_log::ports::SystemClock.now().plus(Duration::from_secs(7200))
    }
}

#[tokio::test]
async fn a_tool_that_keeps_failing_is_left_alone_and_its_calls_fail_before_any_effect() {
    let (store, runs) = (memory(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&runs);
    let tool = move |_: Nothing| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Err::<(), _>(ToolError::failed("down")) }
    };
    let policy = ToolPolicy::manual().breaker(2, Duration::from_secs(3600));
    let system =
        System::builder("-").store(store.clone()).tool_with("t", "", tool, policy).start().await.unwrap();
    let mut last = None;
    for _ in 0..4 {
        let end = soon(system.submit(call("t")).await.unwrap().finished()).await.unwrap();
        assert_eq!(end.state(), TaskState::Failed);
        last = Some(end);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    let last = last.unwrap();
    let CallStatus::Failed(failure) = last.task().calls().iter().next().unwrap().status.clone() else {
        panic!()
    };
    assert_eq!((failure.class.as_str(), failure.error_type.as_str()), ("before-effect", "CircuitOpen"));
    assert!(failure.message.contains("the circuit of t is open after 2 failures in a row"), "{failure:?}");
}
