//! A person's decisions through the local socket of a running system, and the cancel of a task in a log that no system has
//! open.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::envelope::{Basis, Principal};
use proto_events::id::{Position, StreamId, Version};
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::session::{Session, SessionEvent};
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest, Scripted};
use taskreel::tool::{BoxFuture, ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, Error, JsonSchema, Operator, Part, PostedTask, System, TaskState};
use taskreel_log::api::{EventReader, EventStore, OpenError};
use taskreel_log::audit::verify;
use taskreel_log::ports::{IdSource, Ports, RandomIds};
use taskreel_log::read::{decode_record, fold_stream};
use taskreel_log::sled::SledStore;
use taskreel_log::socket::{
    FollowEnd, FollowerItem, OperatorError, OperatorReply, OperatorRequest, RefusalKind, SOCKET_FILE,
    SocketReader,
};
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Cents {
    cents: i64,
}

/// A model that never answers, and signals when it is asked.
#[derive(Clone, Default)]
struct Silent(Arc<Notify>);

impl InferBackend for Silent {
    fn backend(&self) -> &'static str {
        "scripted"
    }

    fn model(&self) -> &'static str {
        "scripted"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

/// The host of a log: `pay` needs a person's approval, `give` never returns, `ask` asks a person.
#[derive(Clone, Default)]
struct Host {
    paid: Arc<Mutex<Vec<i64>>>,
    began: Arc<Notify>,
}

impl Host {
    fn builder(&self, dir: &Path) -> Builder {
        let (paid, began) = (Arc::clone(&self.paid), Arc::clone(&self.began));
        let pay = move |args: Cents| {
            paid.lock().unwrap().push(args.cents);
            async move { Ok::<_, Infallible>(args.cents) }
        };
        let give = move |_: ToolContext, _: Cents| {
            let began = Arc::clone(&began);
            async move {
                began.notify_one();
                std::future::pending::<Result<(), Infallible>>().await
            }
        };
        System::builder(dir)
            .tool_with("pay", "Pays", pay, ToolPolicy::manual().capabilities(["money.spend"]))
            .tool("give", "Gives", give)
            .tool("ask", "Asks for an account", ask_account)
            .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
            .approvals_by_person()
    }

    async fn start(&self, dir: &Path) -> System {
        // The process that had the log before may hold the directory for a moment longer.
        loop {
            match self.builder(dir).start().await {
                Err(Error::Open(OpenError::Held { .. })) => tokio::task::yield_now().await,
                started => return started.unwrap(),
            }
        }
    }
}

async fn ask_account(cx: ToolContext, _: Cents) -> Result<String, ToolError> {
    cx.ask("Which account?").await
}

fn task(id: &str, parts: &[Part]) -> PostedTask {
    let parts: Vec<Value> = parts.iter().map(|part| part.to_json().tree()).collect();
    let posted = json!({
        "id": id,
        "messages": [{"id": format!("m-{id}"), "role": "user", "parts": parts}],
        "metadata": {"session_id": "s"},
    });
    PostedTask::from_json(&JsonText::from(posted), &mut taskreel_log::ports::Ports::default()).unwrap()
}

fn call(tool: &str) -> Part {
    Part::tool_call(tool, json!({"cents": 5})).unwrap()
}

fn name_of(id: &str) -> String {
    StreamId::task("agent", id).unwrap().to_string()
}

/// Sends a decision through the socket, from a thread that may block.
async fn decide(dir: &Path, request: OperatorRequest) -> Result<OperatorReply, OperatorError> {
    let dir = dir.to_owned();
    tokio::task::spawn_blocking(move || SocketReader::connect(dir).unwrap().decide(request)).await.unwrap()
}

/// Returns the user of this process, as the socket must find it.
fn this_user() -> String {
    use std::os::unix::fs::MetadataExt as _;
    let uid = std::fs::metadata("/proc/self").unwrap().uid();
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(&uid.to_string()));
    line.map_or_else(|| format!("uid:{uid}"), |line| line.split(':').next().unwrap().to_owned())
}

fn refused(result: Result<OperatorReply, OperatorError>) -> (RefusalKind, String) {
    match result {
        Err(OperatorError::Refused(refusal)) => (refusal.kind, refusal.why),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_through_the_socket_is_the_authenticated_users_and_the_task_goes_on_at_once() {
    let (dir, host) = (tempfile::tempdir().unwrap(), Host::default());
    let system = host.start(dir.path()).await;
    let waits = system.submit(task("t", &[call("pay")])).await.unwrap().finished().await.unwrap();
    assert_eq!(waits.state(), TaskState::InputRequired);
    let approval = system.approvals("t").await.unwrap()[0].request.approval_id.clone();
    let approve = || OperatorRequest::Approve { task: name_of("t"), approval: approval.clone() };
    let reply = decide(dir.path(), approve()).await.unwrap();
    assert_eq!((reply.is_new, &reply.by), (true, &this_user()));
    let end = system.task("t").unwrap().finished().await.unwrap();
    assert_eq!((end.state(), &*host.paid.lock().unwrap()), (TaskState::Completed, &vec![5]));
    let again = decide(dir.path(), approve()).await.unwrap();
    assert!(!again.is_new);
    let deny = OperatorRequest::Deny { task: name_of("t"), approval: approval.clone(), reason: None };
    let (kind, why) = refused(decide(dir.path(), deny).await);
    assert_eq!(kind, RefusalKind::Rejected);
    assert!(why.contains(&format!("approved by {}", this_user())), "{why}");
    let stream = StreamId::task("agent", "t").unwrap();
    let records = system.log().read_stream(&stream, Version(1), usize::MAX).unwrap();
    let decided =
        records.iter().filter(|stored| stored.record.metadata.principal.basis == Basis::Authenticated);
    let names: Vec<_> = decided.map(|stored| stored.record.metadata.principal.clone()).collect();
    assert_eq!(names, [Principal::authenticated(this_user())]);
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_decision_of_a_person_comes_through_the_socket() {
    let (dir, host) = (tempfile::tempdir().unwrap(), Host::default());
    let system = host.start(dir.path()).await;
    for id in ["denied", "asks", "canceled"] {
        let part = call(if id == "asks" { "ask" } else { "pay" });
        system.submit(task(id, &[part])).await.unwrap().finished().await.unwrap();
    }
    let approval = system.approvals("denied").await.unwrap()[0].request.approval_id.clone();
    let deny = OperatorRequest::Deny { task: name_of("denied"), approval, reason: Some("no".to_owned()) };
    assert_eq!(decide(dir.path(), deny).await.unwrap().state, "failed");
    let question = system.task("asks").unwrap().questions().await.unwrap()[0].request.call_id.clone();
    let answer =
        OperatorRequest::Answer { task: name_of("asks"), question, answer: Ok("savings".to_owned()) };
    assert!(decide(dir.path(), answer).await.unwrap().is_new);
    let end = system.task("asks").unwrap().finished().await.unwrap();
    assert!(end.answer().unwrap().as_str().contains("savings"), "{}", end.to_json());
    let cancel = || OperatorRequest::Cancel { task: name_of("canceled"), reason: Some("enough".to_owned()) };
    let reply = decide(dir.path(), cancel()).await.unwrap();
    assert_eq!((reply.state.as_str(), reply.is_new), ("canceled", true));
    assert!(!decide(dir.path(), cancel()).await.unwrap().is_new);
    let cancel = OperatorRequest::Cancel { task: name_of("asks"), reason: None };
    assert_eq!(refused(decide(dir.path(), cancel).await).0, RefusalKind::Rejected);
    let cancel = OperatorRequest::Cancel { task: name_of("nobody"), reason: None };
    assert_eq!(refused(decide(dir.path(), cancel).await).0, RefusalKind::Unknown);
    for task in ["", "session-agent/s", "task-other/t"] {
        let cancel = OperatorRequest::Cancel { task: task.to_owned(), reason: None };
        let (kind, why) = refused(decide(dir.path(), cancel).await);
        assert!(matches!(kind, RefusalKind::Input | RefusalKind::Rejected), "{task}: {why}");
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_unknown_outcome_is_settled_through_the_socket() {
    let (dir, host) = (tempfile::tempdir().unwrap(), Host::default());
    let ids = ["landed", "not", "gone"];
    let system = host.start(dir.path()).await;
    for id in ids {
        system.submit(alone(id)).await.unwrap();
        host.began.notified().await;
    }
    let log = system.log();
    // As if the process had died.
    drop(system);
    tokio::task::spawn_blocking(move || log.close()).await.unwrap().unwrap();
    let system = host.start(dir.path()).await;
    let mut calls = Vec::new();
    for id in ids {
        let waits = system.task(id).unwrap().finished().await.unwrap();
        assert_eq!(waits.state(), TaskState::InputRequired, "{}", waits.to_json());
        calls.push(waits.task().calls().iter().next().unwrap().request.call_id.clone());
    }
    let reconcile = |at: usize, landed: Option<&str>| OperatorRequest::Reconcile {
        task: name_of(ids[at]),
        call: calls[at].clone(),
        landed: landed.map(str::to_owned),
    };
    assert_eq!(refused(decide(dir.path(), reconcile(0, Some("{"))).await).0, RefusalKind::Input);
    decide(dir.path(), reconcile(0, Some(r#"{"receipt":12}"#))).await.unwrap();
    let end = system.task("landed").unwrap().finished().await.unwrap();
    assert!(end.to_json().as_str().contains(r#""receipt":12"#), "{}", end.to_json());
    assert_eq!(refused(decide(dir.path(), reconcile(0, None)).await).0, RefusalKind::Rejected);
    decide(dir.path(), reconcile(1, None)).await.unwrap();
    host.began.notified().await;
    let (task, call) = (name_of("gone"), calls[2].clone());
    let abandon = OperatorRequest::Abandon { task, call, reason: "the account is closed".to_owned() };
    assert!(decide(dir.path(), abandon).await.unwrap().is_new);
    assert_eq!(system.task("gone").unwrap().finished().await.unwrap().state(), TaskState::Failed);
    system.cancel("not", None).await.unwrap();
    system.shutdown().await.unwrap();
}

/// Returns a task with the call `give`, in a session of its own.
fn alone(id: &str) -> PostedTask {
    let posted = json!({"id": id, "messages": [{"id": format!("m-{id}"), "role": "user",
        "parts": [call("give").to_json().tree()]}]});
    PostedTask::from_json(&JsonText::from(posted), &mut taskreel_log::ports::Ports::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_is_open_while_the_system_has_its_log_and_a_follower_sees_its_end() {
    let (dir, host) = (tempfile::tempdir().unwrap(), Host::default());
    let socket = dir.path().join(SOCKET_FILE);
    let system = host.start(dir.path()).await;
    assert_eq!(system.socket_fault(), None);
    let reader = SocketReader::connect(dir.path()).unwrap();
    let mut follower = reader.follow(Position(1)).unwrap();
    let (follows, begun) = tokio::sync::oneshot::channel();
    let watching = tokio::task::spawn_blocking(move || {
        let Ok(FollowerItem::Record(first)) = follower.next() else { panic!("the log has a first record") };
        let mut last = first.last_position();
        follows.send(()).unwrap();
        loop {
            match follower.next() {
                Ok(FollowerItem::Record(record)) => last = record.last_position(),
                Ok(_) => {}
                Err(FollowEnd::Ended) => return last,
                Err(other) => panic!("{other}"),
            }
        }
    });
    begun.await.unwrap();
    system.reopen().await.unwrap();
    assert!(socket.exists(), "it is open after a reopening");
    let ended = tokio::time::timeout(Duration::from_secs(20), watching).await.unwrap();
    assert!(ended.is_ok_and(|last| last > Position(0)), "the reopening ends the log that was followed");
    let log = system.log();
    let reader = SocketReader::connect(dir.path()).unwrap();
    assert_eq!(reader.head().unwrap(), log.head().unwrap());
    system.shutdown().await.unwrap();
    assert!(!socket.exists());
    let system = host.start(dir.path()).await;
    assert!(socket.exists());
    drop(system);
    assert!(!socket.exists(), "a system that is dropped shuts its socket");
}

/// Ids that the socket's thread waits for once a test says so.
struct Waiting {
    is_on: AtomicBool,
    asked: Notify,
    go_on: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl IdSource for Waiting {
    fn random(&self) -> [u8; 16] {
        let is_socket = std::thread::current().name() == Some("log-socket-client");
        if is_socket && self.is_on.swap(false, Ordering::SeqCst) {
            self.asked.notify_one();
            self.go_on.lock().unwrap().recv().unwrap();
        }
        RandomIds.random()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_has_its_reply_although_the_system_was_dropped_while_it_was_made() {
    let (dir, host) = (tempfile::tempdir().unwrap(), Host::default());
    let (send, go_on) = std::sync::mpsc::channel();
    let ids = Arc::new(Waiting { is_on: false.into(), asked: Notify::new(), go_on: Mutex::new(go_on) });
    let ports = Ports { ids: Arc::clone(&ids) as Arc<dyn IdSource>, ..Ports::default() };
    let system = host.builder(dir.path()).ports(ports).start().await.unwrap();
    system.submit(task("t", &[call("give")])).await.unwrap();
    host.began.notified().await;
    ids.is_on.store(true, Ordering::SeqCst);
    let path = dir.path().to_owned();
    let cancel = OperatorRequest::Cancel { task: name_of("t"), reason: None };
    let deciding = tokio::spawn(async move { decide(&path, cancel).await });
    ids.asked.notified().await;
    // The socket's own handle is the last one from here on.
    drop(system);
    send.send(()).unwrap();
    let reply = deciding.await.unwrap().unwrap();
    assert_eq!((reply.state.as_str(), reply.is_new), ("canceled", true));
    while dir.path().join(SOCKET_FILE).exists() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_may_have_no_socket() {
    let (dir, host) = (tempfile::tempdir().unwrap(), Host::default());
    let system = host.builder(dir.path()).local_socket(false).start().await.unwrap();
    assert!(!dir.path().join(SOCKET_FILE).exists());
    assert_eq!(system.socket_fault(), None);
    system.shutdown().await.unwrap();
    std::fs::write(dir.path().join(SOCKET_FILE), "taken").unwrap();
    let system = host.start(dir.path()).await;
    assert!(system.socket_fault().unwrap().contains("another file"));
    system.shutdown().await.unwrap();
}

/// Leaves a log whose program died while the model was asked in the session `s`.
async fn died_in_a_turn(dir: &Path) {
    let silent = Silent::default();
    let system = Host::default().builder(dir).infer(silent.clone()).start().await.unwrap();
    system.submit(task("t", &[Part::infer("hello")])).await.unwrap();
    silent.0.notified().await;
    let log = system.log();
    drop(system);
    tokio::task::spawn_blocking(move || log.close()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_in_a_log_that_no_system_has_open_ends_the_turn_too_and_the_log_stays_sound() {
    let dir = tempfile::tempdir().unwrap();
    died_in_a_turn(dir.path()).await;
    let store: Arc<dyn EventStore> = Arc::new(SledStore::open(dir.path()).unwrap());
    let session = StreamId::session("agent", "s").unwrap();
    let stream = StreamId::task("agent", "t").unwrap();
    let turn = |store: &dyn EventReader| {
        let session = fold_stream::<Session>(store, &session, None).unwrap().state;
        session.open_turn().map(|open| open.task.clone())
    };
    assert_eq!(turn(store.as_ref()), Some(stream.to_string()));
    let operator = Operator::new(Arc::clone(&store));
    let nobody = StreamId::task("agent", "nobody").unwrap();
    assert!(matches!(operator.cancel(&nobody, None, "ada").await, Err(Error::TaskNotFound(_))));
    let done = operator.cancel(&stream, Some("enough"), "ada").await.unwrap();
    assert_eq!((done.is_new, done.task.state()), (true, TaskState::Canceled));
    assert!(!operator.cancel(&stream, Some("other"), "eve").await.unwrap().is_new);
    operator.finish().await.unwrap();
    assert_eq!(turn(store.as_ref()), None);
    // The turn and the task end in one append.
    let last = |stream: &StreamId| {
        let records = store.read_stream(stream, Version(1), usize::MAX).unwrap();
        records.last().unwrap().clone()
    };
    let (end, turn) = (last(&stream), last(&session));
    assert_eq!(end.record.set_id, turn.record.set_id);
    let ends = decode_record::<SessionEvent>(&turn).unwrap();
    assert!(matches!(ends.last().unwrap().event, SessionEvent::TurnAborted { .. }));
    assert_eq!(end.record.metadata.principal, Principal::asserted("ada"));
    let verified = verify(store.as_ref());
    assert!(verified.is_sound(), "{:?}", verified.findings);
    store.close().unwrap();
    drop((operator, store));
    // The session is free for the next task.
    let model = Scripted::from_json(r#"{"hello": [{"type":"final","content":"hi"}]}"#).unwrap();
    let system = Host::default().builder(dir.path()).infer(model).start().await.unwrap();
    let next = system.submit(task("next", &[Part::infer("hello")])).await.unwrap().finished().await.unwrap();
    assert_eq!(next.state(), TaskState::Completed, "{}", next.to_json());
    assert_eq!(system.task("t").unwrap().snapshot().await.unwrap().state(), TaskState::Canceled);
    let ended =
        Operator::new(system.log()).cancel(&StreamId::task("agent", "next").unwrap(), None, "ada").await;
    assert!(matches!(ended, Err(Error::TaskNotCancelable { .. })));
    system.shutdown().await.unwrap();
}
