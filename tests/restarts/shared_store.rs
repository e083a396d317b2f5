//! Several systems over one store: the socket belongs to whoever holds the log, decisions reach the system of the task's agent,
//! and the last system to end records it, however many end at once.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::call_support::{Nothing, call, memory};
use proto_events::id::{Category, Position, StreamId, Version};
use proto_events::system::SystemEvent;
use taskreel::approval::CapabilityPolicy;
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{Builder, System, TaskState};
use taskreel_log::api::{Append, AppendFuture, AppendPart, EventReader, EventStore, ReadError};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::decode_record;
use taskreel_log::sled::SledStore;
use taskreel_log::socket::{
    OperatorError, OperatorReply, OperatorRequest, RefusalKind, SOCKET_FILE, SocketReader,
};
use taskreel_log::testing::{DelegatingStore, Overrides, StoreRead};
use tokio::sync::Notify;

async fn pays(_: Nothing) -> Result<u32, ToolError> {
    Ok(7)
}

/// An agent's system over the store, whose tool needs a person's approval.
fn over(store: &Arc<SledStore>, agent: &str) -> Builder {
    System::builder("-")
        .log(Arc::clone(store))
        .name(agent)
        .tool_with("pay", "Pays", pays, ToolPolicy::manual().capabilities(["money"]))
        .capability_policy(CapabilityPolicy::new().require_approval("money"))
        .approvals_by_person()
}

/// Lets a task wait for approval and returns the decision that approves it.
async fn waits(system: &System, agent: &str) -> OperatorRequest {
    let task = system.submit(call("pay")).await.unwrap();
    assert_eq!(task.finished().await.unwrap().state(), TaskState::InputRequired);
    let approval = system.approvals(task.id()).await.unwrap().first().unwrap().request.approval_id.clone();
    OperatorRequest::Approve { task: StreamId::task(agent, task.id()).unwrap().to_string(), approval }
}

async fn decide(dir: &Path, request: OperatorRequest) -> Result<OperatorReply, OperatorError> {
    let dir = dir.to_owned();
    tokio::task::spawn_blocking(move || SocketReader::connect(dir).unwrap().decide(request)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_answers_as_long_as_any_system_has_the_log_and_leads_to_each_ones_agent() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SledStore::open(dir.path()).unwrap());
    let one = over(&store, "one").start().await.unwrap();
    let other = over(&store, "other").start().await.unwrap();
    let silent = over(&store, "silent").local_socket(false).start().await.unwrap();
    assert_eq!((one.socket_fault(), other.socket_fault(), silent.socket_fault()), (None, None, None));
    for (system, agent) in [(&one, "one"), (&other, "other")] {
        assert!(decide(dir.path(), waits(system, agent).await).await.unwrap().is_new, "{agent}");
    }
    let refused = |answer| match answer {
        Err(OperatorError::Refused(refusal)) => (refusal.kind, refusal.why),
        other => panic!("{other:?}"),
    };
    // A system without a socket takes no decisions through another one's.
    let (kind, why) = refused(decide(dir.path(), waits(&silent, "silent").await).await);
    assert_eq!(kind, RefusalKind::Rejected);
    assert!(why.contains("of the agent `silent`; this program runs the agents `one`, `other`"), "{why}");
    let (left, goes_on) = (waits(&one, "one").await, waits(&other, "other").await);
    // The system whose start opened the socket ends: its tasks can no longer go on, the others' can.
    let report = one.shutdown_within(Duration::from_secs(5)).await.unwrap();
    assert!(!report.closed);
    let (kind, why) = refused(decide(dir.path(), left.clone()).await);
    assert_eq!(kind, RefusalKind::Rejected);
    assert!(why.contains("this program runs the agent `other`"), "{why}");
    // The state is told once the decision is on disk: by then the task may be over.
    let decided = decide(dir.path(), goes_on).await.unwrap();
    assert!(decided.is_new && ["working", "completed"].contains(&decided.state.as_str()), "{decided:?}");
    // The agent comes back, and so do its decisions.
    let one = over(&store, "one").start().await.unwrap();
    assert!(decide(dir.path(), left).await.unwrap().is_new);
    drop(other);
    assert!(
        SocketReader::connect(dir.path()).is_ok(),
        "a system that is dropped leaves the socket to the rest"
    );
    one.shutdown().await.unwrap();
    assert!(!dir.path().join(SOCKET_FILE).exists(), "the last one that wants a socket shuts it");
    assert!(silent.shutdown_within(Duration::from_secs(5)).await.unwrap().closed);
}

/// Keeps those who ask for the head, once it is armed, until two ask at once.
#[derive(Default)]
struct TwoAtOnce(Mutex<Option<u32>>, Condvar);

impl Overrides for TwoAtOnce {
    fn before_read(&self, read: StoreRead<'_>) -> Result<(), ReadError> {
        let mut asking = self.0.lock().unwrap();
        if read == StoreRead::Head
            && let Some(count) = asking.as_mut()
        {
            *count += 1;
            self.1.notify_all();
            let few = |count: &mut Option<u32>| count.is_some_and(|count| count < 2);
            // Bounded: the test must fail rather than hang.
            drop(self.1.wait_timeout_while(asking, Duration::from_secs(10), few).unwrap());
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_systems_that_shut_down_at_once_the_last_one_records_the_end() {
    let log = memory();
    let store = Arc::new(DelegatingStore::new(log.clone(), TwoAtOnce::default()));
    let start = |agent: &str| {
        let store = Arc::clone(&store) as Arc<dyn EventStore>;
        System::builder("-").name(agent).store(store).start()
    };
    let (one, other) = (start("one").await.unwrap(), start("other").await.unwrap());
    *store.overrides().0.lock().unwrap() = Some(0);
    let (one, other) = tokio::join!(
        tokio::spawn(one.shutdown_within(Duration::from_secs(5))),
        tokio::spawn(other.shutdown_within(Duration::from_secs(5)))
    );
    let closed = [one, other].map(|report| report.unwrap().unwrap().closed);
    assert_eq!(closed.iter().filter(|closed| **closed).count(), 1, "one of them closes the store");
    let log = log.reopen().unwrap();
    let stream = StreamId::of_system(log.fence().partition);
    let records = log.read_stream(&stream, Version(1), usize::MAX).unwrap();
    let last = decode_record::<SystemEvent>(records.last().unwrap()).unwrap();
    assert!(matches!(last.last().unwrap().event, SystemEvent::Stopped { .. }), "{last:?}");
    assert!(log.head().unwrap() > Position(0) && verify(log.as_ref()).findings.is_empty());
}

/// Keeps appends that have a part of the system's stream until there are two.
#[derive(Default)]
struct StartTogether(Mutex<u32>, Condvar);

impl Overrides for StartTogether {
    fn append(&self, log: &dyn EventStore, append: Append) -> AppendFuture {
        let is_start = |part: &AppendPart| part.stream.category() == Some(Category::System);
        if append.parts.iter().any(is_start) {
            let mut asking = self.0.lock().unwrap();
            *asking += 1;
            self.1.notify_all();
            // Bounded: the test must fail rather than hang.
            drop(self.1.wait_timeout_while(asking, Duration::from_secs(10), |count| *count < 2).unwrap());
        }
        log.append(append)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn systems_that_start_at_once_over_one_store_are_both_recorded() {
    let log = memory();
    let store = Arc::new(DelegatingStore::new(log.clone(), StartTogether::default()));
    let start = |agent: &str| {
        let store = Arc::clone(&store) as Arc<dyn EventStore>;
        tokio::spawn(System::builder("-").name(agent).store(store).start())
    };
    let (one, other) = tokio::join!(start("one"), start("other"));
    let (one, other) = (one.unwrap().unwrap(), other.unwrap().unwrap());
    assert_eq!(*store.overrides().0.lock().unwrap(), 3, "one of them decided its start again");
    let stream = StreamId::of_system(store.fence().partition);
    let records = log.read_stream(&stream, Version(1), usize::MAX).unwrap();
    let starts = records.iter().flat_map(|stored| decode_record::<SystemEvent>(stored).unwrap());
    assert_eq!(starts.filter(|event| matches!(event.event, SystemEvent::Started(_))).count(), 2);
    let found = verify(log.as_ref());
    assert!(found.is_sound(), "{:#?}", found.findings);
    one.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
}

/// Keeps the next append of the system's stream until the test lets it go.
struct HoldOne {
    log: Arc<MemoryStore>,
    is_armed: AtomicBool,
    asked: Notify,
    go: Arc<Notify>,
}

impl Overrides for HoldOne {
    fn append(&self, log: &dyn EventStore, append: Append) -> AppendFuture {
        let of_system = |part: &AppendPart| part.stream.category() == Some(Category::System);
        if !append.parts.iter().any(of_system) || !self.is_armed.swap(false, Ordering::SeqCst) {
            return log.append(append);
        }
        self.asked.notify_one();
        let (log, go) = (Arc::clone(&self.log), Arc::clone(&self.go));
        Box::pin(async move {
            go.notified().await;
            log.append(append).await
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_system_is_recorded_although_another_one_starts_between_its_decision_and_its_append() {
    let log = memory();
    let (is_armed, asked, go) = (AtomicBool::new(false), Notify::new(), Arc::new(Notify::new()));
    let hold = HoldOne { log: Arc::clone(&log), is_armed, asked, go };
    let store = Arc::new(DelegatingStore::new(log.clone(), hold));
    let shared = Arc::clone(&store) as Arc<dyn EventStore>;
    let ending = System::builder("-").name("ending").store(shared).start().await.unwrap();
    let hold = store.overrides();
    hold.is_armed.store(true, Ordering::SeqCst);
    let ended = tokio::spawn(ending.shutdown());
    hold.asked.notified().await;
    let _other = System::builder("-").name("other").store(Arc::clone(&log) as _).start().await.unwrap();
    hold.go.notify_one();
    ended.await.unwrap().unwrap();
    let log = log.reopen().unwrap();
    let stream = StreamId::of_system(log.fence().partition);
    let records = log.read_stream(&stream, Version(1), usize::MAX).unwrap();
    let events = records.iter().flat_map(|stored| decode_record::<SystemEvent>(stored).unwrap());
    let ends: Vec<bool> = events.map(|event| matches!(event.event, SystemEvent::Stopped { .. })).collect();
    assert_eq!(ends, [false, false, true], "two starts and an end");
    assert!(verify(log.as_ref()).is_sound());
}
