//! Snapshots are caches: what is folded from one is what is folded from all events, one that does not fit is
//! ignored, and no command waits for one.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

#[path = "snapshots/holding.rs"]
mod holding;

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holding::Holding;
use proto_events::codec::Storable;
use proto_events::codec::state::Kept;
use proto_events::id::{Digest, StreamId, Version};
use proto_events::model::LlmRole;
use proto_events::session::Session;
use proto_events::task::{Task, TaskCommand};
use serde::Deserialize;
use serde_json::json;
use taskreel::infer::Scripted;
use taskreel::limits::SNAPSHOT_BYTES_MAX;
use taskreel::ports::Ports;
use taskreel::store::fold::{Folded, fold_stream};
use taskreel::store::snapshot::fold_from_snapshot;
use taskreel::store::{EventStore, MemoryStore, SledStore, Snapshot, blob_files};
use taskreel::system::Builder;
use taskreel::tool::ToolError;
use taskreel::{JsonSchema, Message, Part, System, TaskHandle, TaskState};

#[derive(Deserialize, JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

async fn add(sum: Sum) -> Result<i64, Infallible> {
    Ok(sum.a + sum.b)
}

async fn refuse(_: Sum) -> Result<i64, ToolError> {
    Err(ToolError::failed("not today"))
}

fn model() -> Scripted {
    let add = r#"{"type":"tool_call","tool":"add","args":{"a":2,"b":3}}"#;
    let text = format!(
        r#"{{"sum":[{add},{{"type":"final","content":"five"}}],"":["no json",{{"type":"final","content":"yes"}}]}}"#
    );
    Scripted::from_json(&text).unwrap()
}

fn builder(store: Arc<dyn EventStore>) -> Builder {
    System::builder("-")
        .store(store)
        .infer(model())
        .tool("add", "Adds", add)
        .tool("refuse", "Says no", refuse)
}

/// Runs of every kind: tools, turns with and without tools, failures, a cancel, commands of the caller's own.
async fn scripted_runs(system: &System) {
    let call = |tool: &str| Part::tool_call(tool, json!({"a": 2, "b": 3})).unwrap();
    for round in 0..3 {
        let session = system.session("talk");
        for input in
            [Part::infer(format!("the sum, {round}")), Part::infer("hm?"), call("add"), call("refuse")]
        {
            session.send(input).await.unwrap().finished().await.unwrap();
        }
        let mut mint = Ports::default();
        let parts = vec![call("add"), Part::infer("the sum"), Part::text("so"), call("nobody")];
        let task = session.send(Message::new("user", parts, &mut mint)).await.unwrap();
        task.finished().await.unwrap();
        for _ in 0..4 {
            let note = Message::user("a note", &mut mint);
            task.command(TaskCommand::AppendMessage(note)).await.unwrap();
        }
        let _over_already_is_fine =
            session.send(Part::infer("sum")).await.unwrap().cancel(Some("enough")).await;
    }
}

fn streams(store: &dyn EventStore, prefix: &str) -> Vec<StreamId> {
    let all = store.list_streams(prefix, None, usize::MAX).unwrap();
    all.into_iter().map(|info| info.stream).collect()
}

fn shared<D>(folded: Folded<D>) -> Folded<Arc<D>> {
    let Folded { state, version, position, last_hash, answered, correlation_id, forgotten } = folded;
    let state = Arc::new(state);
    Folded { state, version, position, last_hash, answered, correlation_id, forgotten }
}

/// A snapshot of the stream after each of its records.
fn snapshots<D>(store: &dyn EventStore, stream: &StreamId) -> Vec<Snapshot>
where
    D: Kept + Default,
    D::Event: Storable,
{
    let records = store.read_stream(stream, Version(1), usize::MAX).unwrap();
    let versions = records.iter().map(|stored| stored.record.last_version());
    let fold = |version| shared(fold_stream::<D>(store, stream, Some(version)).unwrap());
    versions.map(|version| Snapshot::of(stream, &fold(version)).unwrap()).collect()
}

/// Compares folding from each snapshot with folding all; answers how many there were.
fn check_streams<D>(store: &dyn EventStore, prefix: &str) -> usize
where
    D: Kept + Default + PartialEq + Debug,
    D::Event: Storable,
{
    let mut checked = 0;
    for stream in streams(store, prefix) {
        let whole = fold_stream::<D>(store, &stream, None).unwrap();
        for snapshot in snapshots::<D>(store, &stream) {
            assert_eq!(Snapshot::from_bytes(&snapshot.to_bytes().unwrap()).unwrap(), snapshot);
            store.put_snapshot(&snapshot).unwrap();
            assert_eq!(store.get_snapshot(&stream).unwrap().as_ref(), Some(&snapshot), "it is kept");
            let folded = fold_from_snapshot::<D>(store, &stream).unwrap();
            assert_eq!(folded, whole, "{stream} from version {}", snapshot.version);
            checked += 1;
        }
    }
    checked
}

#[tokio::test]
async fn folding_from_a_snapshot_at_any_version_is_folding_all() {
    let dir = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn EventStore>; 2] =
        [Arc::new(MemoryStore::new()), Arc::new(SledStore::open(dir.path()).unwrap())];
    for store in stores {
        let system = builder(Arc::clone(&store)).start().await.unwrap();
        scripted_runs(&system).await;
        assert!(check_streams::<Task>(store.as_ref(), "task-") > 60);
        assert!(check_streams::<Session>(store.as_ref(), "session-") > 20);
        system.shutdown().await.unwrap();
    }
    assert!(blob_files(dir.path()).unwrap().is_empty());
}

#[tokio::test]
async fn a_snapshot_that_does_not_fit_in_every_point_is_ignored() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let system = builder(Arc::clone(&store)).start().await.unwrap();
    scripted_runs(&system).await;
    let stream = streams(store.as_ref(), "session-").remove(0);
    let whole = fold_stream::<Session>(store.as_ref(), &stream, None).unwrap();
    let all = snapshots::<Session>(store.as_ref(), &stream);
    let (early, late) = (all[1].clone(), all[all.len() / 2].clone());
    let folded = |snapshot: &Snapshot| {
        store.put_snapshot(snapshot).unwrap();
        fold_from_snapshot::<Session>(store.as_ref(), &stream).unwrap()
    };
    // That this one is believed shows that the others are looked at.
    let believed = Snapshot { state: early.state.clone(), ..late.clone() };
    assert_ne!(folded(&believed), whole, "a snapshot is used at all");
    let version = Version(late.version.0 + 1);
    let wrong = [
        Snapshot { hash: Digest([1; 32]), ..believed.clone() },
        Snapshot { version: early.version, ..believed.clone() },
        Snapshot { version, ..believed.clone() },
        Snapshot { version: Version(1_000_000), ..believed.clone() },
        Snapshot { position: early.position, ..believed.clone() },
        Snapshot { revision: late.revision + 1, ..believed.clone() },
        Snapshot { revision: 0, ..believed.clone() },
        Snapshot { state: vec![1, 2, 3], ..believed.clone() },
        Snapshot { state: Vec::new(), ..believed },
    ];
    for snapshot in &wrong {
        assert_eq!(folded(snapshot), whole, "{snapshot:?}");
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn every_flipped_byte_of_a_snapshot_is_noticed() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let system = builder(Arc::clone(&store)).start().await.unwrap();
    let task = system.submit(Part::text("hello")).await.unwrap();
    let bytes = snapshots::<Task>(store.as_ref(), task.stream()).pop().unwrap().to_bytes().unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(Snapshot::from_bytes(&damaged).is_err(), "byte {at}");
        assert!(Snapshot::from_bytes(&bytes[..at]).is_err(), "cut at {at}");
    }
    system.shutdown().await.unwrap();
}

/// Waits until the stream has a snapshot of at least this version.
async fn await_snapshot(store: &dyn EventStore, stream: &StreamId, version: Version) {
    let since = Instant::now();
    while store.get_snapshot(stream).unwrap().is_none_or(|kept| kept.version < version) {
        assert!(since.elapsed() < Duration::from_secs(20), "{stream} has no snapshot");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn says_more(task: &TaskHandle, text: &str) {
    let note = Message::user(text, &mut Ports::default());
    task.command(TaskCommand::AppendMessage(note)).await.unwrap();
}

#[tokio::test]
async fn snapshots_are_made_beside_the_commands_and_a_system_wakes_from_them() {
    let dir = tempfile::tempdir().unwrap();
    let start =
        || System::builder(dir.path()).infer(model()).tool("add", "Adds", add).snapshots_every(2).start();
    let system = start().await.unwrap();
    let session = StreamId::session("agent", "talk").unwrap();
    let task = system.session("talk").send(Part::infer("the sum")).await.unwrap();
    let done = task.finished().await.unwrap();
    await_snapshot(system.log().as_ref(), task.stream(), Version(2)).await;
    await_snapshot(system.log().as_ref(), &session, Version(2)).await;
    system.shutdown().await.unwrap();

    let system = start().await.unwrap();
    assert!(system.log().get_snapshot(task.stream()).unwrap().is_some(), "it outlives the process");
    let again = system.task(task.id()).unwrap().snapshot().await.unwrap();
    assert_eq!(again.to_json(), done.to_json());
    system.session("talk").send(Part::infer("hm?")).await.unwrap().finished().await.unwrap();
    let history = system.session("talk").history().await.unwrap();
    assert_eq!(history.as_slice().iter().filter(|message| message.role == LlmRole::User).count(), 2);
    // A state that is too large has none of its own, and wakes all the same.
    let large = system.submit(Part::text("x".repeat(SNAPSHOT_BYTES_MAX))).await.unwrap();
    says_more(&large, "more").await;
    says_more(&large, "and more").await;
    let log = system.log();
    assert!(log.get_snapshot(large.stream()).unwrap().is_none());
    system.shutdown().await.unwrap();
    let system = start().await.unwrap();
    assert_eq!(system.task(large.id()).unwrap().snapshot().await.unwrap().task().messages().len(), 3);
    system.shutdown().await.unwrap();
    assert!(blob_files(dir.path()).unwrap().is_empty());
}

#[tokio::test]
async fn no_command_waits_for_a_snapshot_and_none_is_made_unless_asked_for() {
    let store = Arc::new(Holding::around(Arc::new(MemoryStore::new())));
    let system = builder(store.clone()).snapshots_every(1).start().await.unwrap();
    store.hold(true);
    let work = async {
        let task = system.submit(Part::text("hello")).await.unwrap();
        for n in 0..50 {
            says_more(&task, &n.to_string()).await;
        }
        task
    };
    let Ok(task) = tokio::time::timeout(Duration::from_secs(20), work).await else {
        store.hold(false);
        panic!("a command waits for a snapshot");
    };
    let before = task.snapshot().await.unwrap();
    assert_eq!(before.state(), TaskState::Completed);
    assert!(store.get_snapshot(task.stream()).unwrap().is_none());
    store.hold(false);
    await_snapshot(store.as_ref(), task.stream(), Version(1)).await;
    system.shutdown().await.unwrap();

    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let system = builder(Arc::clone(&store)).start().await.unwrap();
    scripted_runs(&system).await;
    assert!(streams(store.as_ref(), "").iter().all(|stream| store.get_snapshot(stream).unwrap().is_none()));
    system.shutdown().await.unwrap();
}
