//! The modules of an agent's state: each holds and reports its own, is changed from outside by events, and keeps to the versions
//! that its callers have read.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;

use proto_events::codec::kind;
use proto_events::id::{Position, Version};
use proto_events::json;
use proto_events::json::JsonText;
use serde::Deserialize;
use taskreel::infer::Scripted;
use taskreel::state::{StateModule, StateModules, StateOperationRequest};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Error, JsonSchema, Message, Part, Ports, System, TaskState};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::audit::{replay_all, verify};
use taskreel_log::memory::MemoryStore;
use tokio::sync::Notify;

fn value(text: &str) -> JsonText {
    JsonText::parse(text).unwrap()
}

fn builder(store: &Arc<MemoryStore>) -> taskreel::Builder {
    let log: Arc<dyn EventStore> = Arc::clone(store) as _;
    let model = Scripted::from_json(r#"{"":[{"type":"final","content":"yes"}]}"#).unwrap();
    System::builder("-").store(log).infer(model).state(StateModules::all())
}

fn assert_sound(store: &MemoryStore) {
    let verified = verify(store);
    assert!(verified.is_sound(), "{:#?}", verified.findings);
    assert_eq!(replay_all(store).unwrap().mismatch, None);
}

#[tokio::test]
async fn checkpoints_are_put_listed_got_and_deleted_under_their_versions_and_survive_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let system = builder(&store).start().await.unwrap();
    let flow = system.acting_as("ada").state().flow().unwrap();
    assert_eq!(flow.get("run/1").await.unwrap(), None);
    let first = flow.put("run/1", value(r#"{"step": 1.50}"#), Some(Version(0))).await.unwrap();
    assert_eq!(first, Version(1));
    let late = flow.put("run/1", value("2"), Some(Version(0))).await.unwrap_err();
    assert!(matches!(late, Error::Flow(_)), "{late}");
    flow.put("run/1", value("2"), Some(first)).await.unwrap();
    flow.put("run 2", value("null"), None).await.unwrap();
    let reopened = Arc::new(store.reopened().unwrap());
    system.shutdown().await.unwrap();

    let store = reopened;
    let system = builder(&store).start().await.unwrap();
    let flow = system.state().flow().unwrap();
    let listed = flow.list().await.unwrap();
    let runs: Vec<&str> = listed.iter().map(|row| row.run_id.as_str()).collect();
    assert_eq!(runs, ["run 2", "run/1"]);
    assert_eq!(flow.get("run/1").await.unwrap().unwrap().value.as_str(), "2");
    assert_eq!(flow.to_json().await.unwrap().tree()["run/1"], json!(2));
    assert!(flow.delete("run/1", None).await.unwrap());
    assert!(!flow.delete("run/1", None).await.unwrap());
    assert_eq!(flow.list().await.unwrap().len(), 1);
    let by_ada = store.read_all(Position(1), 1_000).unwrap().into_iter();
    let by_ada = by_ada.filter(|stored| stored.record.metadata.principal.name == "ada");
    assert_eq!(by_ada.count(), 3, "each change names who made it");
    assert_sound(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn of_fifty_writers_of_one_checkpoint_each_version_has_one() {
    let store = Arc::new(MemoryStore::new());
    let system = builder(&store).start().await.unwrap();
    let flow = system.state().flow().unwrap();
    let writers: Vec<_> = (0..50)
        .map(|at| {
            let flow = flow.clone();
            tokio::spawn(async move {
                loop {
                    let read = flow.get("r").await.unwrap();
                    let (count, version) = read
                        .map_or((0, Version(0)), |kept| (kept.value.tree().as_i64().unwrap(), kept.version));
                    match flow.put("r", value(&(count + 1).to_string()), Some(version)).await {
                        Ok(_) => return at,
                        Err(Error::Flow(_)) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(flow.get("r").await.unwrap().unwrap().value.as_str(), "50", "no update is lost");
    assert_sound(&store);
    system.shutdown().await.unwrap();
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A tool that counts its calls: it reads, signals, waits, and writes what it read plus one.
async fn counts(cx: ToolContext, reads: Arc<Notify>, goes_on: Arc<Notify>) -> Result<i64, ToolError> {
    let read = cx.state().get("count");
    let (before, version) =
        read.map_or((0, Version(0)), |entry| (entry.value.tree().as_i64().unwrap(), entry.version));
    reads.notify_one();
    goes_on.notified().await;
    cx.state().put("count", &(before + 1), version)?;
    Ok(before + 1)
}

fn calls(call_id: &str) -> Part {
    let content = json!({"tool_name": "counter", "args": {}, "call_id": call_id});
    Part::from_json(&json!({"type": "tool_call", "content": content}).into(), &mut Ports::default()).unwrap()
}

#[tokio::test]
async fn a_tool_does_not_overwrite_what_was_written_from_outside_while_it_ran() {
    let (store, reads, goes_on) =
        (Arc::new(MemoryStore::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tool_reads, tool_goes_on) = (Arc::clone(&reads), Arc::clone(&goes_on));
    let tool =
        move |cx: ToolContext, _: Nothing| counts(cx, Arc::clone(&tool_reads), Arc::clone(&tool_goes_on));
    let system =
        builder(&store).tool_with("counter", "counts", tool, ToolPolicy::manual()).start().await.unwrap();
    let tools = system.state().tools().unwrap();
    let racing = system.submit(calls("c1")).await.unwrap();
    reads.notified().await;
    let version = tools.put("counter", "count", value("7"), Version(0)).await.unwrap();
    goes_on.notify_one();
    let end = racing.finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Failed, "the call had read before: it is refused, not lost");
    assert_eq!(tools.get("counter", "count").await.unwrap().unwrap().value.as_str(), "7");

    goes_on.notify_one();
    let next = system.submit(calls("c2")).await.unwrap();
    reads.notified().await;
    assert_eq!(next.finished().await.unwrap().state(), TaskState::Completed);
    let late = tools.put("counter", "count", value("0"), version).await.unwrap_err();
    assert!(matches!(late, Error::ToolState(_)), "{late}");
    assert_eq!(tools.get("counter", "count").await.unwrap().unwrap().value.as_str(), "8");
    assert_eq!(tools.list().await.unwrap()[0].keys, 1);
    tools.put("counter", "other", value("[]"), Version(0)).await.unwrap();
    assert_eq!(tools.to_json().await.unwrap().as_str(), r#"{"counter":{"count":8,"other":[]}}"#);
    tools.clear("counter").await.unwrap();
    assert!(tools.read("counter").await.unwrap().is_empty());
    assert!(tools.list().await.unwrap().is_empty());
    assert_sound(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn each_module_counts_and_shows_its_own_and_a_reset_clears_all_of_them_by_events() {
    let store = Arc::new(MemoryStore::new());
    let system = builder(&store).start().await.unwrap();
    let state = system.state();
    for session in ["a", "b"] {
        let task = system.session(session).send(Part::infer("hello")).await.unwrap();
        task.finished().await.unwrap();
    }
    system.submit(Message::user("a note", &mut Ports::default())).await.unwrap().finished().await.unwrap();
    state.flow().unwrap().put("r", value("1"), None).await.unwrap();
    state.tools().unwrap().put("notes", "k", value("1"), Version(0)).await.unwrap();
    let all = StateOperationRequest { include_data: true, ..StateOperationRequest::default() };
    let described = state.describe(&all).await.unwrap();
    let counts: Vec<Option<i64>> = described.stores.iter().map(|report| report.item_count).collect();
    assert_eq!(counts, [Some(2), Some(1), Some(3), Some(1)]);
    assert_eq!(described.stores[3].data.as_str(), r#"{"r":1}"#);
    assert!(described.stores[0].data.tree()["a"].as_array().is_some_and(|messages| messages.len() == 3));
    assert_eq!(state.to_json().await.unwrap().tree()["tools"], json!({"notes": {"k": 1}}));
    let found = state.conversation().unwrap().search("HELLO", 10).await.unwrap();
    assert_eq!(found.iter().map(|hit| hit.session_id.as_str()).collect::<Vec<_>>(), ["a", "b"]);

    let head = store.head().unwrap();
    let partial =
        StateOperationRequest { stores: vec!["flow".to_owned()], ..StateOperationRequest::default() };
    let refused = state.reset(&partial).await.unwrap();
    assert_eq!((refused.cleared.len(), refused.errors.len(), store.head().unwrap()), (0, 1, head));
    let reset = state.reset(&StateOperationRequest::default()).await.unwrap();
    assert_eq!(reset.cleared, ["conversation", "tools", "task", "flow"]);
    let before: Vec<_> = reset
        .stores
        .iter()
        .map(|report| report.metadata.get("before").unwrap().tree()["item_count"].clone())
        .collect();
    assert_eq!(before, [json!(2), json!(1), json!(3), json!(1)]);
    let after = state.describe(&StateOperationRequest::default()).await.unwrap();
    let counts: Vec<Option<i64>> = after.stores.iter().map(|report| report.item_count).collect();
    assert_eq!(counts, [Some(0), None, None, Some(0)]);
    let kinds: Vec<u16> = store
        .read_all(head, 1_000)
        .unwrap()
        .iter()
        .flat_map(|stored| stored.record.events.iter().map(|event| event.kind).collect::<Vec<_>>())
        .collect();
    for (wanted, times) in [(kind::CLEARED, 2), (kind::TOOL_CLEARED, 1), (kind::CHECKPOINT_DELETED, 1)] {
        assert_eq!(kinds.iter().filter(|kind| **kind == wanted).count(), times, "{wanted}");
    }
    assert_sound(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn modules_are_enabled_one_by_one_and_a_reset_without_any_clears_nothing() {
    let store = Arc::new(MemoryStore::new());
    let system = builder(&store).start().await.unwrap();
    system.session("a").send(Part::infer("hello")).await.unwrap().finished().await.unwrap();
    let reopened = Arc::new(store.reopened().unwrap());
    system.shutdown().await.unwrap();
    let store = reopened;
    let system = builder(&store).state(StateModules::none().with(StateModule::Flow)).start().await.unwrap();
    let state = system.state();
    assert!(state.flow().is_ok());
    assert!(matches!(state.conversation(), Err(Error::NoStateModule("conversation"))));
    assert!(matches!(state.tools(), Err(Error::NoStateModule("tools"))));
    let reopened = Arc::new(store.reopened().unwrap());
    system.shutdown().await.unwrap();
    let store = reopened;
    let system = builder(&store).state(StateModules::none()).start().await.unwrap();
    let head = store.head().unwrap();
    let reset = system.state().reset(&StateOperationRequest::default()).await.unwrap();
    assert!(reset.cleared.is_empty() && reset.stores.is_empty());
    assert_eq!(store.head().unwrap(), head);
    let reopened = Arc::new(store.reopened().unwrap());
    system.shutdown().await.unwrap();
    let store = reopened;
    let system = builder(&store).start().await.unwrap();
    assert_eq!(system.session("a").history().await.unwrap().len(), 3, "the conversation is still there");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn tasks_are_found_by_state_session_run_and_time_and_replayed_from_the_log() {
    let store = Arc::new(MemoryStore::new());
    let system = builder(&store).start().await.unwrap();
    let one = system.session("a").send(Part::infer("hello")).await.unwrap();
    let end = one.finished().await.unwrap();
    let two = system.session("b").send(Part::infer("hello")).await.unwrap();
    two.finished().await.unwrap();
    let tasks = system.state().tasks().unwrap();
    let run = end.task().metadata().get("run_id").and_then(JsonText::to_str).unwrap();
    let ids = |page: taskreel::TaskPage| page.tasks.into_iter().map(|info| info.id).collect::<Vec<_>>();
    assert_eq!(ids(tasks.query().run(&run).page(10).await.unwrap()), [one.id()]);
    assert_eq!(ids(tasks.query().session("b").page(10).await.unwrap()), [two.id()]);
    assert_eq!(ids(tasks.query().in_state(TaskState::Completed).page(10).await.unwrap()).len(), 2);
    let first = tasks.query().page(1).await.unwrap().tasks[0].since;
    assert!(ids(tasks.query().until(first).page(10).await.unwrap()).contains(&one.id().to_owned()));
    let past = tasks.replay(one.id()).await.unwrap();
    assert_eq!(past.len() as u64, end.version().0);
    assert_eq!((past[0].state(), past.last().unwrap().state()), (TaskState::Submitted, TaskState::Completed));
    let head = store.head().unwrap();
    assert_eq!(tasks.resume(one.id()).await.unwrap().state(), TaskState::Completed);
    assert_eq!(store.head().unwrap(), head, "a task without open work stays as it is");
    assert!(matches!(tasks.resume("none").await, Err(Error::TaskNotFound(_))));
    system.shutdown().await.unwrap();
}
