//! Permits for concurrent calls: deadlines during the wait for one, and work that cannot be stopped.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::call_support::{Nothing, call, call_events, memory, soon};
use proto_events::call::{CallEvent, CallStatus, FailureClass};
use taskreel::tool::ToolPolicy;
use taskreel::{System, TaskSnapshot, TaskState};
use tokio::sync::Notify;

fn status(task: &TaskSnapshot) -> CallStatus {
    task.task().calls().iter().next().unwrap().status.clone()
}

#[tokio::test]
async fn a_call_that_waits_for_a_permit_fails_at_its_deadline() {
    let (started, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (starts, ends) = (Arc::clone(&started), Arc::clone(&end));
    let tool = move |_: Nothing| {
        let (started, end) = (Arc::clone(&starts), Arc::clone(&ends));
        async move {
            started.notify_one();
            end.notified().await;
            Ok::<_, Infallible>("done")
        }
    };
    let policy = ToolPolicy::manual().concurrency(1).deadline(Duration::from_millis(100));
    let store = memory();
    let builder = System::builder("-").store(store.clone());
    let system = builder.tool_with("one", "", tool, policy).start().await.unwrap();
    let first = system.submit(call("one")).await.unwrap();
    soon(started.notified()).await;
    let task = system.submit(call("one")).await.unwrap();
    let second = soon(task.finished()).await.unwrap();
    let sent = |event: &CallEvent| matches!(event, CallEvent::Dispatched { .. });
    assert!(!call_events(&store, &task).iter().any(sent), "it was not sent");
    assert_eq!(second.state(), TaskState::Failed);
    let CallStatus::Failed(failure) = status(&second) else { panic!("{:?}", status(&second)) };
    assert_eq!(failure.class, FailureClass::BeforeEffect);
    assert!(failure.message.contains("deadline has passed"), "{}", failure.message);
    assert_eq!(status(&first.snapshot().await.unwrap()), CallStatus::Dispatched, "the permit is still held");
    end.notify_one();
    assert_eq!(soon(first.finished()).await.unwrap().state(), TaskState::Completed);
    system.shutdown().await.unwrap();
}

/// A gate on which blocking code waits, with the number of those at work and the most that there were at once.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    working: AtomicU32,
    most: AtomicU32,
}

impl Gate {
    fn pass(&self) {
        let working = self.working.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(working, Ordering::SeqCst);
        let mut is_open = self.is_open.lock().unwrap();
        while !*is_open {
            is_open = self.opened.wait(is_open).unwrap();
        }
        drop(is_open);
        self.working.fetch_sub(1, Ordering::SeqCst);
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// Opens the gate when the test ends, however it ends: a thread that is still blocked would keep it from ending.
struct OpensAtEnd(Arc<Gate>);

impl Drop for OpensAtEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Waits until the system counts this many calls that cannot be stopped.
async fn until_stuck(system: &System, calls: usize) {
    soon(async {
        while system.stuck_calls() != calls {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn functions_that_never_end_are_counted_and_cost_spares_and_not_the_limit() {
    let gate = Arc::new(Gate::default());
    let (passes, _opens) = (Arc::clone(&gate), OpensAtEnd(Arc::clone(&gate)));
    let tool = move |_: Nothing| {
        passes.pass();
        Ok::<_, Infallible>("done")
    };
    let policy = ToolPolicy::manual().concurrency(1).timeout(Duration::from_millis(300));
    let policy = policy.deadline(Duration::from_secs(2));
    let system =
        System::builder("-").store(memory()).tool_with("one", "", tool, policy).start().await.unwrap();
    for stuck in 1..=2 {
        let task = system.submit(call("one")).await.unwrap();
        let end = soon(task.finished()).await.unwrap();
        assert!(matches!(status(&end), CallStatus::Unknown(_)), "{stuck} was sent: {:?}", status(&end));
        until_stuck(&system, stuck).await;
    }
    let third = soon(system.submit(call("one")).await.unwrap().finished()).await.unwrap();
    assert!(
        matches!(status(&third), CallStatus::Failed(_)),
        "one spare for one permit: {:?}",
        status(&third)
    );
    assert_eq!(gate.most.load(Ordering::SeqCst), 2);

    gate.open();
    until_stuck(&system, 0).await;
    gate.most.store(0, Ordering::SeqCst);
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(system.submit(call("one")).await.unwrap());
    }
    for task in tasks {
        assert_eq!(soon(task.finished()).await.unwrap().state(), TaskState::Completed);
    }
    assert_eq!(gate.most.load(Ordering::SeqCst), 1, "the limit is what it was");
    system.shutdown().await.unwrap();
}
