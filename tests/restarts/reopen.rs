//! A system whose store has failed: reads continue, reopening reports the result of each unresolved append,
//! and work continues from what is on disk, through the handles that users hold.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use proto_events::id::Position;
use proto_events::json;
use proto_events::model::LlmRole;
use serde::Deserialize;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest};
use taskreel::state::StateModules;
use taskreel::tool::{BoxFuture, ToolContext, ToolPolicy};
use taskreel::{Error, JsonSchema, Message, Part, PostedTask, System, TaskHandle, TaskState};
use taskreel_log::api::{Append, AppendError, AppendFuture, EventReader, EventStore};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::read::Delivery;
use taskreel_log::sled::SledStore;
use taskreel_log::testing::{AppendFault, DelegatingStore, Faults, FaultyStore, Overrides};
use tokio::sync::Notify;

/// The fault of an append that is in the log, with an unknown result.
const LANDS: AppendFault = AppendFault::AfterWrite;

/// The fault of an append that is not in the log, with an unknown result.
const IS_LOST: AppendFault = AppendFault::TearGroup { landing: 0 };

/// Returns a store of each kind, each able to fail; the directory is kept as long as the store is used.
fn stores() -> Vec<(Faults, Arc<dyn EventStore>, Option<tempfile::TempDir>)> {
    let dir = tempfile::tempdir().unwrap();
    let memory: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let sled = Arc::new(SledStore::open(dir.path()).unwrap());
    let faulty = |store, dir| {
        let faults = Faults::none();
        (faults.clone(), Arc::new(FaultyStore::new(store, faults)) as Arc<dyn EventStore>, dir)
    };
    vec![faulty(memory, None), faulty(sled, Some(dir))]
}

fn note(text: &str) -> PostedTask {
    let mut mint = Ports::default();
    PostedTask::new(Message::user(text, &mut mint), &mut mint)
}

/// Whether the answer says that this command is in doubt, after this failure of the log.
fn is_in_doubt<T>(answer: &Result<T, Error>, command: &str, after: impl Fn(&AppendError) -> bool) -> bool {
    let Err(Error::InDoubt { command_id, source }) = answer else { return false };
    command_id == command && matches!(&**source, Error::Append(error) if after(error))
}

/// Returns the number of the log's records that come from this command.
fn records_of(reader: &dyn EventReader, command_id: &str) -> usize {
    let all = reader.read_all(Position(1), usize::MAX).unwrap();
    all.iter().filter(|stored| stored.record.metadata.command_id == command_id).count()
}

#[tokio::test]
async fn after_a_failed_write_reads_go_on_and_reopening_resolves_what_was_in_doubt() {
    for (faults, store, _dir) in stores() {
        let system = System::builder("-").store(store).start().await.unwrap();
        let kept = system.submit(note("kept")).await.unwrap().finished().await.unwrap();
        for (fault, landed) in [(LANDS, true), (IS_LOST, false)] {
            let epoch = system.log().fence().epoch;
            let (doubted, refused) = (note("in doubt"), note("refused"));
            let (one, two) = (format!("doubted in {epoch}"), format!("refused in {epoch}"));
            faults.at_next_append(fault);
            let answer = system.submit_once(&one, doubted.clone()).await;
            assert!(
                is_in_doubt(&answer, &one, |error| matches!(error, AppendError::Ambiguous { .. })),
                "{answer:?}"
            );
            let answer = system.submit_once(&two, refused.clone()).await;
            assert!(
                is_in_doubt(&answer, &two, |error| matches!(error, AppendError::Poisoned { .. })),
                "{answer:?}"
            );
            let read = system.task(kept.task().id()).unwrap().snapshot().await.unwrap();
            assert_eq!(read.to_json(), kept.to_json(), "what was durable can be read");
            assert_eq!(records_of(system.log().as_ref(), &two), 0);

            let report = system.reopen().await.unwrap();
            assert_eq!(report.epoch, epoch + 1);
            let in_doubt = vec![one.clone()];
            let expected = if landed { (in_doubt, Vec::new()) } else { (Vec::new(), in_doubt) };
            assert_eq!((report.landed, report.not_written), expected);
            for (command, task) in [(&one, doubted), (&two, refused)] {
                let handle = system.submit_once(command, task.clone()).await.unwrap();
                assert_eq!(handle.finished().await.unwrap().state(), TaskState::Completed);
                let again = system.submit_once(command, task).await.unwrap();
                assert_eq!(again.snapshot().await.unwrap().state(), TaskState::Completed);
                assert_eq!(records_of(system.log().as_ref(), command), 1, "{command} appended once");
            }
        }
        let read = system.task(kept.task().id()).unwrap().snapshot().await.unwrap();
        assert_eq!(read.to_json(), kept.to_json(), "what was acknowledged is there");
        system.shutdown().await.unwrap();
    }
}

/// A store that, once it is told so, writes appends and never answers them.
#[derive(Default)]
struct Silent(AtomicBool);

impl Overrides for Silent {
    fn append(&self, log: &dyn EventStore, append: Append) -> AppendFuture {
        let written = log.append(append);
        if !self.0.load(Ordering::SeqCst) {
            return written;
        }
        Box::pin(async move {
            let _nobody_hears = written.await;
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn an_append_whose_actor_ends_before_its_answer_is_in_doubt_once_and_resolved_by_reopening() {
    let store = Arc::new(DelegatingStore::new(Arc::new(MemoryStore::new()), Silent::default()));
    let system =
        System::builder("-").store(Arc::<DelegatingStore<Silent>>::clone(&store)).start().await.unwrap();
    system.submit(note("answered")).await.unwrap().finished().await.unwrap();
    let task = note("never answered");
    store.overrides().0.store(true, Ordering::SeqCst);
    let (asked, posted) = (system.clone(), task.clone());
    let asked = tokio::spawn(async move { asked.submit_once("unheard", posted).await });
    while records_of(system.log().as_ref(), "unheard") == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(system.health().await.unwrap().queue, 1);
    let report = system.reopen().await.unwrap();
    assert_eq!((report.landed, report.not_written), (vec!["unheard".to_owned()], Vec::new()));
    let answer = asked.await.unwrap();
    assert_eq!(answer.unwrap_err().command_id(), Some("unheard"), "its caller is told what to send again");
    assert_eq!(system.health().await.unwrap().queue, 0, "nothing waits any more");
    let again = system.submit_once("unheard", task).await.unwrap();
    assert_eq!(again.finished().await.unwrap().state(), TaskState::Completed);
    assert_eq!(records_of(system.log().as_ref(), "unheard"), 1);
    system.shutdown().await.unwrap();
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The signals and counts of a test's tools.
#[derive(Clone, Default)]
struct Watch {
    begun: Arc<Notify>,
    runs: Arc<AtomicUsize>,
    at_once: Arc<AtomicUsize>,
}

/// A guard that ends the count of a running attempt.
struct Run(Watch);

impl Drop for Run {
    fn drop(&mut self) {
        self.0.at_once.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A tool whose first attempt ends only when it is interrupted, and then returns success; later attempts end
/// at once. It keeps its thread, so that it can only end by itself, and takes its time.
async fn first_hangs(cx: ToolContext, watch: Watch) -> Result<&'static str, Infallible> {
    let others = watch.at_once.fetch_add(1, Ordering::SeqCst);
    let _run = Run(watch.clone());
    assert_eq!(others, 0, "the attempt before had not ended");
    tokio::task::yield_now().await;
    if watch.runs.fetch_add(1, Ordering::SeqCst) == 0 {
        watch.begun.notify_one();
        while !cx.cancellation().is_canceled() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        return Ok("interrupted");
    }
    Ok("done")
}

async fn tool_across_a_reopening(policy: ToolPolicy) -> (taskreel::TaskSnapshot, usize) {
    let watch = Watch::default();
    let seen = watch.clone();
    let tool = move |cx: ToolContext, _: Nothing| first_hangs(cx, seen.clone());
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .tool_with("hang", "Hangs", tool, policy)
        .own_runtime(2)
        .start()
        .await
        .unwrap();
    let task = system.submit(Part::tool_call("hang", json!({})).unwrap()).await.unwrap();
    watch.begun.notified().await;
    let waiting = task.finished();
    let (end, report) = tokio::join!(waiting, system.reopen());
    assert_eq!(report.unwrap().resumed, 1);
    system.shutdown().await.unwrap();
    (end.unwrap(), watch.runs.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_call_that_may_be_repeated_is_interrupted_and_sent_again_and_its_waiter_hears_the_end() {
    let (end, runs) = tool_across_a_reopening(ToolPolicy::read_only()).await;
    assert_eq!((end.state(), runs), (TaskState::Completed, 2));
    let answer = end.answer().unwrap().as_str();
    assert!(
        answer.contains(r#""result":"done""#),
        "what an interrupted attempt says is no outcome: {answer}"
    );
}

#[tokio::test]
async fn a_call_that_may_not_be_repeated_is_unknown_after_reopening() {
    let (end, runs) = tool_across_a_reopening(ToolPolicy::manual()).await;
    assert_eq!((end.state(), runs), (TaskState::InputRequired, 1));
}

#[tokio::test]
async fn work_whose_outcome_could_not_be_written_goes_on_after_reopening() {
    for (fault, landed) in [(LANDS, true), (IS_LOST, false)] {
        for (faults, store, _dir) in stores() {
            let (runs, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
            let (counted, gate) = (Arc::clone(&runs), Arc::clone(&go));
            let tool = move |_: Nothing| {
                let (counted, gate) = (Arc::clone(&counted), Arc::clone(&gate));
                async move {
                    gate.notified().await;
                    Ok::<_, Infallible>(counted.fetch_add(1, Ordering::SeqCst))
                }
            };
            let system = System::builder("-")
                .store(store)
                .tool_with("count", "Counts", tool, ToolPolicy::read_only())
                .start()
                .await
                .unwrap();
            let task = system.submit(Part::tool_call("count", json!({})).unwrap()).await.unwrap();
            faults.at_next_append(fault);
            go.notify_one();
            let stalled = task.finished().await.unwrap_err();
            assert!(matches!(stalled, Error::Stalled { .. }), "{stalled}");
            let report = system.reopen().await.unwrap();
            let in_doubt = if landed { &report.landed } else { &report.not_written };
            assert!(in_doubt.len() == 1 && in_doubt[0].starts_with("~outcome:"), "{report:?}");
            assert_eq!(report.resumed, usize::from(!landed), "what has its outcome is not done again");
            go.notify_one();
            assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
            assert_eq!(runs.load(Ordering::SeqCst), if landed { 1 } else { 2 });
            system.shutdown().await.unwrap();
        }
    }
}

/// A model that never answers its first request.
#[derive(Clone, Default)]
struct SilentOnce(Watch);

impl InferBackend for SilentOnce {
    fn backend(&self) -> &'static str {
        "silent once"
    }

    fn model(&self) -> &'static str {
        "silent once"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        if self.0.runs.fetch_add(1, Ordering::SeqCst) == 0 {
            self.0.begun.notify_one();
            return Box::pin(std::future::pending());
        }
        let content = r#"{"type":"final","content":"yes"}"#.to_owned();
        Box::pin(async { Ok(InferReply { content, model: "m".to_owned(), ..InferReply::default() }) })
    }
}

#[tokio::test]
async fn turns_and_handles_go_on_and_a_subscription_is_taken_anew() {
    let model = SilentOnce::default();
    let system =
        System::builder("-").store(Arc::new(MemoryStore::new())).infer(model.clone()).start().await.unwrap();
    let session = system.session("s");
    let first = session.send(Part::infer("one")).await.unwrap();
    let second = session.send(Part::infer("two")).await.unwrap();
    model.0.begun.notified().await;
    let mut before = system.subscribe(Position(1));
    let report = system.reopen().await.unwrap();
    assert_eq!(report.resumed, 2);
    let mut next = 1;
    while let Some(delivery) = before.next().await {
        let Delivery::Record(record) = delivery.unwrap() else { panic!("nobody was slow") };
        assert_eq!(record.position, Position(next));
        next = record.last_position().0 + 1;
    }
    for task in [&first, &second] {
        assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
    }
    let third = session.send(Part::infer("three")).await.unwrap();
    assert_eq!(third.finished().await.unwrap().state(), TaskState::Completed);
    let history = session.history().await.unwrap();
    let users = history.as_slice().iter().filter(|message| message.role == LlmRole::User).count();
    assert_eq!((users, model.0.runs.load(Ordering::SeqCst)), (3, 4));
    let mut after = system.subscribe(Position(next));
    let Some(Ok(Delivery::Record(record))) = after.next().await else { panic!("the log goes on") };
    assert_eq!(record.position, Position(next), "no gap and no repeat");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_reopening_that_fails_is_told_and_can_be_tried_again() {
    for (faults, store, _dir) in stores() {
        let builder = System::builder("-").store(store).state(StateModules::all());
        let system = builder.start().await.unwrap();
        let kept = system.submit(note("kept")).await.unwrap();
        let before = kept.finished().await.unwrap();
        faults.at_next_append(IS_LOST);
        system.submit_once("lost", note("lost")).await.unwrap_err();
        faults.refuse_next_opening();
        let failed = system.reopen().await.unwrap_err();
        assert!(matches!(failed, Error::Open(_)), "{failed}");
        let refused = kept.snapshot().await.unwrap_err();
        assert!(matches!(refused, Error::Append(AppendError::Closed)), "{refused}");
        let refused = system.state().flow().unwrap().delete("run", None).await.unwrap_err();
        assert!(
            matches!(refused, Error::Append(AppendError::Closed)),
            "not sent, so not in doubt: {refused}"
        );
        // It opens, but its start cannot be recorded.
        faults.fill_disk();
        let failed = system.reopen().await.unwrap_err();
        assert!(matches!(failed, Error::Append(AppendError::NotWritten { .. })), "{failed}");
        faults.free_space();
        let report = system.reopen().await.unwrap();
        assert_eq!(report.not_written, ["lost"], "what was in doubt is not forgotten meanwhile");
        assert_eq!(kept.snapshot().await.unwrap().version(), before.version());
        let report = system.reopen().await.unwrap();
        assert_eq!((report.landed.len(), report.not_written.len()), (0, 0), "and is told once");
        system.clone().shutdown().await.unwrap();
        assert!(matches!(system.reopen().await, Err(Error::Stopped)));
    }
}

/// Submits a task under this command id until it is acknowledged, then counts it.
async fn submit(system: &System, command_id: &str, acknowledged: &AtomicUsize) -> TaskHandle {
    let task = note("work");
    loop {
        match system.submit_once(command_id, task.clone()).await {
            Ok(handle) => {
                acknowledged.fetch_add(1, Ordering::SeqCst);
                return handle;
            }
            Err(Error::InDoubt { .. } | Error::Append(AppendError::Closed)) => tokio::task::yield_now().await,
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_nothing_is_lost_or_done_twice_however_often_the_log_is_opened_anew() {
    const AT_ONCE: usize = 8;
    const REOPENINGS: usize = 20;
    for (faults, store, _dir) in stores() {
        let system = System::builder("-").store(store).start().await.unwrap();
        let (calm, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(0));
        let load = async {
            let mut handles = Vec::new();
            while !calm.load(Ordering::SeqCst) {
                let ids: Vec<_> = (0..AT_ONCE).map(|n| format!("command {}", handles.len() + n)).collect();
                handles.extend(join_all(ids.iter().map(|id| submit(&system, id, &acknowledged))).await);
            }
            handles
        };
        let trouble = async {
            for n in 0..REOPENINGS {
                while acknowledged.load(Ordering::SeqCst) < n * AT_ONCE {
                    tokio::task::yield_now().await;
                }
                faults.at_next_append(if n % 2 == 0 { IS_LOST } else { LANDS });
                while faults.injected().len() <= n {
                    tokio::task::yield_now().await;
                }
                system.reopen().await.unwrap();
            }
            calm.store(true, Ordering::SeqCst);
        };
        let (handles, ()) = tokio::join!(load, trouble);
        assert!(handles.len() >= REOPENINGS);
        for (n, handle) in handles.iter().enumerate() {
            assert_eq!(handle.finished().await.unwrap().state(), TaskState::Completed);
            assert_eq!(records_of(system.log().as_ref(), &format!("command {n}")), 1);
        }
        system.shutdown().await.unwrap();
    }
}
