//! A panic at any one use of the host's log or clock stops no conversation: the tasks come to an end or say why they cannot
//! go on, and the next task of the session works.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use proto_events::envelope::Timestamp;
use serde::Deserialize;
use taskreel::infer::{BoxFuture, InferBackend, InferError, InferReply, InferRequest, Scripted};
use taskreel::tool::ToolPolicy;
use taskreel::{Error, JsonSchema, Part, System, TaskHandle, TaskState};
use taskreel_log::api::{Append, AppendFuture, EventStore, ReadError};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{Clock, Ports, RandomIds, Sleep, SystemClock};
use taskreel_log::testing::{DelegatingStore, Overrides, StoreRead};

const SCRIPT: &str = r#"{"result": [{"type": "final", "content": "done"}],
    "": [{"type": "tool_call", "tool": "look", "args": {}}, {"type": "final", "content": "done"}]}"#;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn look(_: Nothing) -> Result<String, Infallible> {
    // The timer of the attempt begins when the tool does not return at once.
    tokio::task::yield_now().await;
    Ok("seen".to_owned())
}

/// The use that panics.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Use {
    Now,
    Sleep,
    Read,
    /// An append that is not written.
    Append,
    /// An append that is written before the panic.
    Written,
}

/// The log and the clock of a host, of which one use panics: the one that is this many uses of its kind away.
struct Host {
    panics: Use,
    left: AtomicU32,
}

impl Host {
    fn is_due(&self, used: Use) -> bool {
        // What a caller's own thread asks of the host is the caller's.
        let is_actors = |name: &str| name.starts_with("taskreel") || name.starts_with("actix-rt");
        if !std::thread::current().name().is_some_and(is_actors) {
            return false;
        }
        let left = |left: u32| left.checked_sub(1);
        self.panics == used
            && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok_and(|left| left == 1)
    }

    fn used(&self, used: Use) {
        assert!(!self.is_due(used), "BOOM");
    }
}

impl Clock for Host {
    fn now(&self) -> Timestamp {
        self.used(Use::Now);
        SystemClock.now()
    }

    fn sleep(&self, time: Duration) -> Sleep {
        self.used(Use::Sleep);
        SystemClock.sleep(time)
    }
}

/// The log of a host.
struct Log(Arc<Host>);

impl Overrides for Log {
    fn before_read(&self, read: StoreRead<'_>) -> Result<(), ReadError> {
        if matches!(read, StoreRead::Stream(_) | StoreRead::StreamVersion(_)) {
            self.0.used(Use::Read);
        }
        Ok(())
    }

    fn append(&self, log: &dyn EventStore, append: Append) -> AppendFuture {
        self.0.used(Use::Append);
        let done = log.append(append);
        if !self.0.is_due(Use::Written) {
            return done;
        }
        Box::pin(async move {
            let done = done.await;
            panic!("BOOM after {done:?}")
        })
    }
}

/// A model that notes whether it was ever sent a system prompt alone.
struct Shown {
    script: Scripted,
    is_bare: Arc<AtomicBool>,
}

impl InferBackend for Shown {
    fn backend(&self) -> &str {
        self.script.backend()
    }

    fn model(&self) -> &str {
        self.script.model()
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let is_bare = request.messages.len() < 2 || request.session_id.is_none();
        self.is_bare.fetch_or(is_bare, Ordering::SeqCst);
        self.script.infer(request)
    }
}

async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work).await.unwrap_or_else(|_| panic!("{what}: it hangs"))
}

async fn started(host: &Arc<Host>, log: &Arc<MemoryStore>, is_bare: &Arc<AtomicBool>) -> System {
    let store = Arc::new(DelegatingStore::new(log.clone(), Log(host.clone())));
    let ports = Ports { clock: host.clone(), ids: Arc::new(RandomIds) };
    let builder = System::builder("-").store(store).ports(ports);
    let builder = builder.tool_with("look", "Looks", look, ToolPolicy::read_only());
    let (script, is_bare) = (Scripted::from_json(SCRIPT).unwrap(), Arc::clone(is_bare));
    builder.infer(Shown { script, is_bare }).start().await.unwrap()
}

/// Waits for the end of a task, or for the word that it cannot go on; then it can be canceled.
async fn ends(what: &str, task: &TaskHandle) {
    match soon(what, task.finished()).await {
        Ok(end) => {
            // A session that cannot be read fails the task that asked for its turn.
            let is_of_the_session = end.task().error().is_some_and(|error| error.contains("BOOM"));
            let is_well = end.state() == TaskState::Completed || is_of_the_session;
            assert!(is_well, "{what}: {}", end.to_json());
        }
        Err(Error::TaskNotFound(_)) => {}
        Err(error) => {
            assert!(error.to_string().contains("BOOM"), "{what}: {error}");
            let _ = soon(what, task.cancel(None)).await;
            let now = soon(what, task.snapshot()).await.unwrap();
            assert_ne!(now.state(), TaskState::Working, "{what}: it can be canceled");
        }
    }
}

/// Runs two tasks of a session beside each other, then a third one. Returns whether a use panicked.
async fn survives(panics: Use, at: u32) -> bool {
    let what = format!("{panics:?} {at}");
    let host = Arc::new(Host { panics, left: AtomicU32::new(0) });
    let log = Arc::new(MemoryStore::new());
    let is_bare = Arc::default();
    let system = started(&host, &log, &is_bare).await;
    host.left.store(at, Ordering::SeqCst);
    let send = async || system.session("s").send(Part::infer("look")).await;
    let (one, other) = tokio::join!(send(), send());
    for task in [one, other].into_iter().flatten() {
        ends(&what, &task).await;
    }
    let has_panicked = host.left.swap(0, Ordering::SeqCst) == 0;
    let next = soon(&what, async { send().await.unwrap().finished().await.unwrap() }).await;
    assert_eq!(next.state(), TaskState::Completed, "{what}: {}", next.to_json());
    assert!(!is_bare.load(Ordering::SeqCst), "{what}: the model was sent none of the conversation");
    let found = verify(log.as_ref()).findings;
    assert!(found.is_empty(), "{what}: {found:?}");
    soon(&what, system.shutdown()).await.unwrap();
    has_panicked
}

async fn survives_each(panics: Use, at_least: u32) {
    let mut at = 1;
    while survives(panics, at).await {
        at += 1;
    }
    assert!(at > at_least, "{panics:?}: only {at} uses");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_at_any_look_at_the_clock_stops_no_session() {
    survives_each(Use::Now, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_any_timer_stops_no_session() {
    // How many timers a run begins depends on what is faster, the call or the one who waits for it.
    for at in 1..=6 {
        survives(Use::Sleep, at).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_at_any_read_of_the_log_stops_no_session() {
    survives_each(Use::Read, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_at_any_append_stops_no_session() {
    survives_each(Use::Append, 5).await;
    survives_each(Use::Written, 5).await;
}
