//! A panic of a host's log or clock on the thread of the actors: no actor, not the router either, goes silent. What was
//! lost with the panic comes back as lost, each call by the row of its recovery mode, and the next run works.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::store::{Panicking, panicking};
use proto_events::call::CallStatus;
use proto_events::envelope::Timestamp;
use proto_events::json;
use serde::Deserialize;
use taskreel::infer::Scripted;
use taskreel::tool::{ToolContext, ToolPolicy};
use taskreel::{Error, JsonSchema, Part, System, TaskSnapshot, TaskState};
use taskreel_log::ports::{Clock, Ports, RandomIds, Sleep, SystemClock};
use taskreel_log::testing::DelegatingStore;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// Fails the test if the work hangs.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work).await.expect("it hangs")
}

/// A clock that panics once when it is told to.
#[derive(Default)]
struct Panics {
    now: AtomicBool,
    sleep: AtomicBool,
}

impl Clock for Panics {
    fn now(&self) -> Timestamp {
        assert!(!self.now.swap(false, Ordering::SeqCst), "BOOM of the clock");
        SystemClock.now()
    }

    fn sleep(&self, time: Duration) -> Sleep {
        assert!(!self.sleep.swap(false, Ordering::SeqCst), "BOOM of a timer");
        SystemClock.sleep(time)
    }
}

/// The host's ports, and how often its tool was called.
#[derive(Clone)]
struct Host {
    store: Arc<DelegatingStore<Panicking>>,
    clock: Arc<Panics>,
    calls: Arc<AtomicU32>,
}

impl Default for Host {
    fn default() -> Self {
        Self { store: panicking(), clock: Arc::default(), calls: Arc::default() }
    }
}

impl Host {
    /// Starts a system whose tool does this in its first call.
    async fn start(&self, policy: ToolPolicy, first: impl Fn(&Host) + Send + Sync + 'static) -> System {
        let host = self.clone();
        let tool = move |_: ToolContext, _: Nothing| {
            if host.calls.fetch_add(1, Ordering::SeqCst) == 0 {
                first(&host);
            }
            async { Ok::<_, std::convert::Infallible>("done") }
        };
        let ports = Ports { clock: self.clock.clone(), ids: Arc::new(RandomIds) };
        let builder = System::builder("-").store(self.store.clone()).ports(ports);
        builder.tool_with("put", "Puts", tool, policy).start().await.unwrap()
    }

    fn called(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

fn put() -> Part {
    Part::tool_call("put", json!({})).unwrap()
}

fn unknown(end: &TaskSnapshot) -> String {
    match &end.task().calls().iter().next().unwrap().status {
        CallStatus::Unknown(why) => why.clone(),
        other => panic!("{other:?}"),
    }
}

/// Runs a task whose first call does this, then a second task, with both modes; returns why the careful one's
/// outcome is unknown.
async fn lost_in_both_modes(first: impl Fn(&Host) + Clone + Send + Sync + 'static) -> String {
    let host = Host::default();
    let system = host.start(ToolPolicy::read_only(), first.clone()).await;
    let end = soon(system.submit(put()).await.unwrap().finished()).await.unwrap();
    assert_eq!((end.state(), host.called()), (TaskState::Completed, 2), "{}", end.to_json());
    soon(system.shutdown()).await.unwrap();

    let host = Host::default();
    let system = host.start(ToolPolicy::manual(), first).await;
    let end = soon(system.submit(put()).await.unwrap().finished()).await.unwrap();
    assert_eq!((end.state(), host.called()), (TaskState::InputRequired, 1), "{}", end.to_json());
    let next = soon(system.submit(put()).await.unwrap().finished()).await.unwrap();
    assert_eq!((next.state(), host.called()), (TaskState::Completed, 2), "the next run works");
    soon(system.shutdown()).await.unwrap();
    unknown(&end)
}

#[tokio::test]
async fn an_outcome_that_the_router_loses_to_a_panic_comes_back_as_lost() {
    let why = lost_in_both_modes(|host| host.clock.now.store(true, Ordering::SeqCst)).await;
    assert_eq!(why, "the router panicked: BOOM of the clock");
}

#[tokio::test]
async fn an_outcome_that_an_actor_loses_to_a_panic_comes_back_as_lost() {
    let why = lost_in_both_modes(|host| host.store.overrides().unwritten.store(1, Ordering::SeqCst)).await;
    assert!(why.contains("lost with the actor of its task"), "{why}");
}

#[tokio::test]
async fn an_outcome_that_was_written_before_the_panic_counts() {
    let host = Host::default();
    let system = host
        .start(ToolPolicy::manual(), |host| host.store.overrides().written.store(1, Ordering::SeqCst))
        .await;
    let end = soon(system.submit(put()).await.unwrap().finished()).await.unwrap();
    assert_eq!((end.state(), host.called()), (TaskState::Completed, 1), "{}", end.to_json());
    soon(system.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_call_whose_sending_was_lost_after_its_intent_was_written_comes_back_as_lost() {
    for (policy, state, calls) in [
        (ToolPolicy::read_only(), TaskState::Completed, 1),
        (ToolPolicy::manual(), TaskState::InputRequired, 0),
    ] {
        let host = Host::default();
        let system = host.start(policy, |_| {}).await;
        host.store.overrides().written.store(1, Ordering::SeqCst);
        let posted = proto_events::model::PostedTask::parse(
            r#"{"id":"t","messages":[{"parts":[{"type":"tool_call","content":{"tool_name":"put","args":{}}}]}]}"#,
            &mut Ports::default(),
        );
        let error = soon(system.submit(posted.unwrap())).await.unwrap_err();
        assert!(error.command_id().is_some() && error.to_string().contains("BOOM"), "{error}");
        let end = soon(system.task("t").unwrap().finished()).await.unwrap();
        assert_eq!((end.state(), host.called()), (state, calls), "{}", end.to_json());
        soon(system.shutdown()).await.unwrap();
    }
}

#[tokio::test]
async fn a_session_whose_actor_panics_fails_the_task_that_asked_and_serves_the_next() {
    let host = Host::default();
    host.store.overrides().sessions.store(1, Ordering::SeqCst);
    let model = Scripted::from_json(r#"{"": [{"type": "final", "content": "yes"}]}"#).unwrap();
    let system = System::builder("-").store(host.store.clone()).infer(model).start().await.unwrap();
    let send = async || {
        let task = system.session("s").send(Part::infer("ask")).await.unwrap();
        soon(task.finished()).await.unwrap()
    };
    let end = send().await;
    let error = end.task().error().unwrap_or_default();
    assert!(end.state() == TaskState::Failed && error.contains("BOOM of a session"), "{}", end.to_json());
    assert_eq!(send().await.state(), TaskState::Completed);
    soon(system.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_task_that_cannot_go_on_tells_those_who_wait_and_goes_on_when_the_cause_is_gone() {
    let host = Host::default();
    let system = host
        .start(ToolPolicy::read_only(), |host| host.store.overrides().unwritten.store(100, Ordering::SeqCst))
        .await;
    let task = system.submit(put()).await.unwrap();
    let error = soon(task.finished()).await.unwrap_err();
    assert!(matches!(error, Error::Stalled { .. }) && error.to_string().contains("BOOM"), "{error}");
    host.store.overrides().unwritten.store(0, Ordering::SeqCst);
    soon(task.cancel(None)).await.unwrap();
    assert_eq!(soon(task.snapshot()).await.unwrap().state(), TaskState::Canceled);
    let next = soon(system.submit(put()).await.unwrap().finished()).await.unwrap();
    assert_eq!(next.state(), TaskState::Completed);
    soon(system.shutdown()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_that_panics_costs_no_call() {
    let host = Host::default();
    // The tool returns once the timer of its attempt has panicked, on the thread of the actors.
    let first = |host: &Host| {
        while host.clock.sleep.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    };
    let system = host.start(ToolPolicy::manual(), first).await;
    host.clock.sleep.store(true, Ordering::SeqCst);
    let end = soon(system.submit(put()).await.unwrap().finished()).await.unwrap();
    assert_eq!((end.state(), host.called()), (TaskState::Completed, 1), "{}", end.to_json());
    soon(system.shutdown()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_that_panics_costs_no_turn_at_a_rate_limit() {
    let host = Host::default();
    let policy = ToolPolicy::manual().rate(1, Duration::from_millis(20));
    let system = host.start(policy, |_| ()).await;
    for round in 1..=4 {
        // The one takes a free turn, the other waits for its own.
        host.clock.sleep.store(true, Ordering::SeqCst);
        let tasks = [system.submit(put()).await.unwrap(), system.submit(put()).await.unwrap()];
        host.clock.sleep.store(round % 2 == 0, Ordering::SeqCst);
        for task in tasks {
            let end = soon(task.finished()).await.unwrap();
            assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
        }
        assert_eq!(host.called(), 2 * round);
    }
    soon(system.shutdown()).await.unwrap();
}
