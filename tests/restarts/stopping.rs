//! Stopping and starting again: a shutdown that somebody else has begun, a reopening while a blocking tool runs,
//! and commands of the system itself beside those of callers.

#![allow(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    clippy::similar_names,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::call::CallStatus;
use proto_events::json;
use serde::Deserialize;
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind};
use taskreel::tool::{AgentWork, BoxFuture, ToolContext, ToolError, ToolPolicy};
use taskreel::{
    Builder, ChangedAgent, Error, JsonSchema, Message, Part, PostedTask, System, TaskHandle, TaskState,
};
use taskreel_log::api::EventStore;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::sled::SledStore;
use tokio::sync::Semaphore;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// Returns a blocking tool that tells that it began, and ends when it is told to.
fn held(
    began: Sender<()>,
    told: Receiver<()>,
) -> impl Fn(Nothing) -> Result<&'static str, Infallible> + Send + Sync + 'static {
    let (began, told) = (Mutex::new(began), Mutex::new(told));
    move |_| {
        began.lock().unwrap().send(()).unwrap();
        // The test ends by dropping the other side.
        let _ = told.lock().unwrap().recv();
        Ok("done")
    }
}

async fn received(told: Receiver<()>) {
    tokio::task::spawn_blocking(move || told.recv().unwrap()).await.unwrap();
}

fn posted(tool: &str) -> PostedTask {
    let mut mint = Ports::default();
    let message = Message::new("user", vec![Part::tool_call(tool, json!({})).unwrap()], &mut mint);
    PostedTask::new(message, &mut mint)
}

fn over(dir: &Path) -> Builder {
    System::builder(dir)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_shutdown_waits_until_the_log_is_released_even_if_the_first_caller_has_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let ((begin, began), (tell, told)) = (channel(), channel());
    let system = over(dir.path()).tool("held", "Waits", held(begin, told)).start().await.unwrap();
    let task = system.submit(posted("held")).await.unwrap();
    received(began).await;
    // The caller gives up after its first step; the call is in flight.
    let first = system.clone().shutdown();
    assert!(tokio::time::timeout(Duration::from_millis(1), first).await.is_err());
    let second = tokio::spawn(system.clone().shutdown());
    assert!(matches!(task.snapshot().await, Err(Error::Stopped)), "no new work is taken");
    assert!(!second.is_finished(), "the log is still open");
    tell.send(()).unwrap();
    second.await.unwrap().unwrap();
    drop(SledStore::open(dir.path()).expect("the log is released"));
    system.shutdown().await.unwrap();
}

/// Returns an agent whose tool `add` answers 5.
async fn desk() -> System {
    let desk = System::builder("-").store(Arc::new(MemoryStore::new())).name("desk");
    desk.tool("add", "Adds", |_: Nothing| Ok::<_, Infallible>(5)).start().await.unwrap()
}

/// Returns an agent with the tool `lead`, which tells that it began, waits for a permit of `go` and then asks the desk.
fn leading(dir: &Path, desk: impl Peer, began: &Sender<()>, go: &Arc<Semaphore>) -> Builder {
    let (began, go) = (Mutex::new(began.clone()), Arc::clone(go));
    let lead = move |cx: ToolContext, _: Nothing| {
        began.lock().unwrap().send(()).unwrap();
        let go = Arc::clone(&go);
        async move {
            let _go = go.acquire().await;
            let answer = cx.delegate("desk", AgentWork::tool_call("add", json!({}))).await?;
            Ok::<_, ToolError>(answer.result.to_string())
        }
    };
    over(dir).tool_with("lead", "Leads", lead, ToolPolicy::idempotent()).peer(desk)
}

/// Shuts the system down, lets `lead` go on once no new work is taken, and expects the answer of the desk in the log.
async fn asks_while_stopping(dir: &Path, system: System, task: TaskHandle, go: &Semaphore) {
    let stopped = tokio::spawn(system.shutdown());
    while !matches!(task.snapshot().await, Err(Error::Stopped)) {
        tokio::task::yield_now().await;
    }
    go.add_permits(1);
    let stopped = tokio::time::timeout(Duration::from_secs(20), stopped).await;
    stopped.expect("the shutdown ends").unwrap().unwrap();
    let again = over(dir).start().await.unwrap();
    let end = again.task(task.id()).unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
    assert!(end.task().artifacts()[0].parts[0].content().as_str().contains('5'), "{}", end.to_json());
    again.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_in_flight_asks_another_agent_during_the_shutdown_and_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let (desk, (begin, began), go) = (desk().await, channel(), Arc::new(Semaphore::new(0)));
    let system = leading(dir.path(), desk.peer(), &begin, &go).start().await.unwrap();
    let task = system.submit(posted("lead")).await.unwrap();
    received(began).await;
    asks_while_stopping(dir.path(), system, task, &go).await;
    desk.shutdown().await.unwrap();
}

/// A peer whose first answer is lost.
struct LosesOnce<P>(P, AtomicBool);

impl<P: Peer> Peer for LosesOnce<P> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn description(&self) -> &str {
        self.0.description()
    }

    fn skills(&self) -> Vec<String> {
        self.0.skills()
    }

    fn policy(&self) -> ToolPolicy {
        ToolPolicy::idempotent()
    }

    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        if self.1.swap(true, Ordering::SeqCst) {
            return self.0.send(delegation);
        }
        let lost = PeerError::new(PeerErrorKind::Lost, "the line broke");
        Box::pin(std::future::ready(Err(lost)))
    }

    fn cancel(&self, task_id: &str, reason: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        self.0.cancel(task_id, reason)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_call_in_flight_asks_for_during_the_shutdown_is_sent_again_if_its_answer_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (desk, (begin, began), go) = (desk().await, channel(), Arc::new(Semaphore::new(0)));
    let peer = LosesOnce(desk.peer(), AtomicBool::new(false));
    let system = leading(dir.path(), peer, &begin, &go).start().await.unwrap();
    let task = system.submit(posted("lead")).await.unwrap();
    received(began).await;
    asks_while_stopping(dir.path(), system, task, &go).await;
    desk.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_under_a_changed_agent_that_a_person_accepted_asks_another_one_during_the_shutdown_too() {
    let dir = tempfile::tempdir().unwrap();
    let (desk, (begin, began), go) = (desk().await, channel(), Arc::new(Semaphore::new(0)));
    let first = leading(dir.path(), desk.peer(), &begin, &go).start().await.unwrap();
    let task = first.submit(posted("lead")).await.unwrap();
    let began = tokio::task::spawn_blocking(move || (began.recv().unwrap(), began).1).await.unwrap();
    let left = first.shutdown_within(Duration::ZERO).await.unwrap().interrupted;
    assert_eq!(left.len(), 1, "the call is interrupted: {left:?}");
    let changed = leading(dir.path(), desk.peer(), &begin, &go)
        .tool("more", "Is new", |_: Nothing| Ok::<_, Infallible>(()));
    let second = changed.on_changed_agent(ChangedAgent::WaitForPerson).start().await.unwrap();
    let task = second.task(task.id()).unwrap();
    let held = task.finished().await.unwrap();
    let (approval, _) = held.task().changed_agent().expect("the task waits for a person");
    task.approve(&approval.request.approval_id, "ada").await.unwrap();
    received(began).await;
    asks_while_stopping(dir.path(), second, task, &go).await;
    desk.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_reopening_does_not_wait_for_a_blocking_tool_and_its_call_is_lost() {
    let ((begin, began), (tell, told)) = (channel(), channel());
    let builder = System::builder("-").store(Arc::new(MemoryStore::new()));
    let system =
        builder.tool_with("held", "Waits", held(begin, told), ToolPolicy::manual()).start().await.unwrap();
    let task = system.submit(posted("held")).await.unwrap();
    received(began).await;
    // Calls that do not end hold a reopening up for five seconds.
    let reopened = tokio::time::timeout(Duration::from_secs(4), system.reopen()).await;
    assert_eq!(reopened.expect("nothing is waited for").unwrap().resumed, 1);
    let end = task.finished().await.unwrap();
    assert_eq!(end.state(), TaskState::InputRequired);
    let call = end.task().calls().iter().next().unwrap();
    assert!(matches!(call.status, CallStatus::Unknown(_)), "{:?}", call.status);
    drop(tell);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_callers_command_id_never_stands_for_a_command_of_the_system() {
    let store = MemoryStore::new();
    let again = Arc::new(store.reopened().unwrap());
    let (begin, began) = channel();
    let (tell, told) = channel();
    let builder = System::builder("-").store(again.clone());
    let policy = ToolPolicy::read_only;
    let system = builder.tool_with("held", "Waits", held(begin, told), policy()).start().await.unwrap();
    // The names that the system gave to its own commands: the next start resumes under epoch 3.
    let epoch = system.log().fence().epoch + 1;
    let task = system.submit_once(&format!("resume:{epoch}"), posted("held")).await.unwrap();
    received(began).await;
    let reserved = system.submit_once(&format!("~resume:{epoch}"), posted("held")).await;
    assert!(matches!(reserved, Err(Error::ReservedCommandId { .. })), "{reserved:?}");
    let next = Arc::new(again.reopened().unwrap());
    drop(tell);
    let quick = |_: Nothing| Ok::<_, Infallible>("done at once");
    let builder = System::builder("-").store(next);
    let second = builder.tool_with("held", "Answers", quick, policy()).start().await.unwrap();
    let resumed = second.task(task.id()).unwrap();
    let end = tokio::time::timeout(Duration::from_secs(60), resumed.finished())
        .await
        .expect("the task is resumed")
        .unwrap();
    assert_eq!(end.state(), TaskState::Completed);
    second.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_async_tool_that_blocks_its_thread_times_out_and_does_not_hold_up_the_shutdown() {
    let ((begin, began), (tell, told)) = (channel(), channel::<()>());
    let (begin, told) = (Mutex::new(begin), Arc::new(Mutex::new(told)));
    let blocks = move |_: Nothing| {
        begin.lock().unwrap().send(()).unwrap();
        let told = Arc::clone(&told);
        async move {
            // An async function that waits like a plain one: it never gives its thread back.
            let _ = told.lock().unwrap().recv();
            Ok::<_, Infallible>("done")
        }
    };
    let policy = ToolPolicy::manual().timeout(Duration::from_millis(50));
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .tool_with("blocks", "Blocks", blocks, policy)
        .start()
        .await
        .unwrap();
    let task = system.submit(posted("blocks")).await.unwrap();
    received(began).await;
    let end = tokio::time::timeout(Duration::from_secs(30), task.finished()).await;
    let end = end.expect("the time limit holds").unwrap();
    assert_eq!(end.state(), TaskState::InputRequired, "{}", end.to_json());
    let call = end.task().calls().iter().next().unwrap();
    assert!(matches!(call.status, CallStatus::Unknown(_)), "{:?}", call.status);
    let counted = async {
        while system.stuck_calls() != 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), counted).await.expect("it is counted as stuck");
    let stopped = tokio::time::timeout(Duration::from_secs(30), system.shutdown()).await;
    stopped.expect("the shutdown does not wait for it").unwrap();
    drop(tell);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_within_a_time_interrupts_what_is_left_and_names_it() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let ((begin, began), (tell, told)) = (channel(), channel());
    let builder = System::builder("-").store(Arc::clone(&store));
    let policy = ToolPolicy::manual;
    let system = builder.tool_with("held", "Waits", held(begin, told), policy()).start().await.unwrap();
    let task = system.submit(posted("held")).await.unwrap();
    received(began).await;
    let shutdown = system.shutdown_within(Duration::from_millis(50));
    let left = tokio::time::timeout(Duration::from_secs(30), shutdown).await;
    let left = left.expect("the shutdown does not wait for the call").unwrap().interrupted;
    let [call] = left.as_slice() else { panic!("{left:?}") };
    assert_eq!(call.task, *task.stream());
    drop(tell);
    // The next start finds the call as after a crash.
    let builder = System::builder("-").store(store.reopen().unwrap());
    let quick = |_: Nothing| Ok::<_, Infallible>("done at once");
    let system = builder.tool_with("held", "Answers", quick, policy()).start().await.unwrap();
    let end = system.task(task.id()).unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::InputRequired);
    let status = &end.task().calls().get(&call.call_id).unwrap().status;
    assert!(matches!(status, CallStatus::Unknown(_)), "{status:?}");
    assert_eq!(system.shutdown_within(Duration::from_secs(30)).await.unwrap().interrupted, []);
}

/// Tells when it is dropped.
struct Guard(Arc<tokio::sync::Notify>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_last_system_cancels_its_tools_and_the_next_start_finds_their_calls_lost() {
    let store = MemoryStore::new();
    let again = Arc::new(store.reopened().unwrap());
    let (began, dropped) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (tell, ended) = (Arc::clone(&began), Arc::clone(&dropped));
    let waits = move |_: Nothing| {
        let (tell, guard) = (Arc::clone(&tell), Guard(Arc::clone(&ended)));
        async move {
            let _guard = guard;
            tell.notify_one();
            std::future::pending::<Result<(), Infallible>>().await
        }
    };
    let agent = |store: &Arc<MemoryStore>| {
        System::builder("-").store(Arc::clone(store) as _).tool("waits", "Waits", waits.clone())
    };
    let system = agent(&again).start().await.unwrap();
    let task = system.submit(posted("waits")).await.unwrap();
    let id = task.id().to_owned();
    began.notified().await;
    // The log as a crash would leave it: the dropped system closes its own.
    let log = Arc::new(again.reopened().unwrap());
    drop((system, task));
    let canceled = tokio::time::timeout(Duration::from_secs(30), dropped.notified()).await;
    canceled.expect("the tool is canceled");
    let second = agent(&log).start().await.unwrap();
    let end = second.task(&id).unwrap().finished().await.unwrap();
    assert_eq!(
        end.state(),
        TaskState::InputRequired,
        "a manual call in flight is unknown: {}",
        end.to_json()
    );
    second.shutdown().await.unwrap();
}
