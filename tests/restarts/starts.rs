//! The log tells of the programs that wrote to it: each start with what decides from then on, each orderly end,
//! and by their absence each crash.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use proto_events::definition::{AgentHistory, Aspect};
use proto_events::id::{Position, StreamId};
use proto_events::system::{SystemEvent, SystemHistory, WriterStart};
use taskreel::infer::Scripted;
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, JsonSchema, Message, Part, System};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::read::{decode_record, fold_stream};
use taskreel_log::sled::SledStore;
use taskreel_log::views::changed_tools;

#[derive(serde::Deserialize, JsonSchema)]
struct Nothing {}

fn builder(store: Arc<dyn EventStore>) -> Builder {
    System::builder("unused")
        .store(store)
        .name("desk")
        .tool("look", "Looks", |_: Nothing| async { Ok::<_, Infallible>("seen") })
        .infer(Scripted::from_json(r#"{"": [{"type": "final", "content": "yes"}]}"#).unwrap())
        .system_prompt("Be brief.")
}

fn events(reader: &dyn EventReader) -> Vec<SystemEvent> {
    let page = reader.read_stream(&StreamId::of_system(0), proto_events::id::Version(1), usize::MAX).unwrap();
    let decoded = page.iter().flat_map(|stored| decode_record::<SystemEvent>(stored).unwrap());
    decoded.map(|recorded| recorded.event).collect()
}

fn agent(reader: &dyn EventReader) -> AgentHistory {
    fold_stream::<AgentHistory>(reader, &StreamId::of_agent("desk").unwrap(), None).unwrap().state
}

#[tokio::test]
async fn each_start_is_the_first_record_of_its_epoch_and_each_orderly_end_the_last() {
    let dir = tempfile::tempdir().unwrap();
    for round in 1..=3_u64 {
        let store = Arc::new(SledStore::open(dir.path()).unwrap());
        let epoch = store.fence().epoch;
        let before = store.head().unwrap();
        let system = builder(store.clone()).build_id("host 7").start().await.unwrap();
        let first = store.read_all(Position(before.0 + 1), 1).unwrap().remove(0);
        assert_eq!(first.record.epoch, epoch);
        let task = system.submit(Part::infer("ask")).await.unwrap();
        task.finished().await.unwrap();
        system.shutdown().await.unwrap();
        drop(task);
        drop(store);
        let log = SledStore::open(dir.path()).unwrap();
        let told = events(&log);
        assert_eq!(told.len() as u64, 2 * round);
        let [SystemEvent::Started(WriterStart { epoch: started, release, build, agents }), stopped] =
            told.last_chunk::<2>().unwrap()
        else {
            panic!("{told:?}")
        };
        assert_eq!((*started, release.as_str()), (epoch, env!("CARGO_PKG_VERSION")));
        assert_eq!(build.as_deref(), Some("host 7"));
        assert_eq!((agents[0].name.as_str(), agents[0].number), ("desk", 1));
        assert_eq!(*stopped, SystemEvent::Stopped { epoch, reason: None });
        let last = log.read_all(log.head().unwrap(), 1).unwrap().remove(0);
        assert_eq!((last.record.stream.as_str(), last.record.epoch), ("system-0", epoch));
        let found = verify(&log);
        assert!(found.findings.is_empty(), "{:?}", found.findings);
        log.close().unwrap();
    }
}

#[tokio::test]
async fn a_program_that_died_has_a_start_and_no_end() {
    let store = Arc::new(MemoryStore::new());
    let _running = builder(store.clone()).start().await.unwrap();
    // The program ends here.
    let store = Arc::new(store.reopened().unwrap());
    builder(store.clone()).start().await.unwrap().shutdown().await.unwrap();
    let store = store.reopen().unwrap();
    let history = fold_stream::<SystemHistory>(store.as_ref(), &StreamId::of_system(0), None).unwrap().state;
    assert_eq!((history.starts(), history.unclean_ends(), history.is_running()), (2, 1, false));
}

#[tokio::test]
async fn a_definition_is_written_once_and_again_only_where_it_changed() {
    let mut store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let mut revisions = Vec::new();
    for prompt in ["Be brief.", "Be brief.", "Be long.", "Be brief."] {
        let system = builder(store.clone()).system_prompt(prompt).start().await.unwrap();
        system.shutdown().await.unwrap();
        store = store.reopen().unwrap();
        revisions.push(agent(store.as_ref()).number());
    }
    assert_eq!(revisions, [1, 1, 2, 3]);
    let history = agent(store.as_ref());
    let prompts: Vec<_> =
        (1..=3).map(|number| history.revision(number).unwrap().text(Aspect::SystemPrompt)).collect();
    assert_eq!(prompts, ["Be brief.", "Be long.", "Be brief."]);
    for number in 1..=3 {
        let definition = history.revision(number).unwrap();
        assert!(definition.text(Aspect::Tools).contains("\"recovery\":\"manual\""), "{definition:?}");
        assert!(definition.text(Aspect::Tools).contains("\"name\":\"look\""), "{definition:?}");
        assert_eq!(definition.text(Aspect::Model), "scripted/scripted");
    }
    // Each distinct text is in the log once: all else of the last revisions names the one that holds it.
    let stream = StreamId::of_agent("desk").unwrap();
    let records = store.read_stream(&stream, proto_events::id::Version(1), usize::MAX).unwrap();
    let holds = |text: &str| {
        let bytes = text.as_bytes();
        records.iter().filter(|stored| stored.bytes.windows(bytes.len()).any(|seen| seen == bytes)).count()
    };
    assert_eq!((holds("Be brief."), holds("Be long."), holds("Looks")), (1, 1, 1));
    let started: Vec<u32> = events(store.as_ref())
        .into_iter()
        .filter_map(|event| match event {
            SystemEvent::Started(started) => started.agents.first().map(|agent| agent.number),
            SystemEvent::Stopped { .. } | SystemEvent::ToolServerSeen(_) => None,
        })
        .collect();
    assert_eq!(started, [1, 1, 2, 3], "the epoch of a record names the definition that decided it");
}

#[tokio::test]
async fn a_reopened_log_has_a_start_of_its_new_epoch() {
    let store = Arc::new(MemoryStore::new());
    let system = builder(store).start().await.unwrap();
    let report = system.reopen().await.unwrap();
    let log = system.log();
    let epochs: Vec<u64> = events(log.as_ref())
        .into_iter()
        .filter_map(|event| match event {
            SystemEvent::Started(started) => Some(started.epoch),
            SystemEvent::Stopped { .. } | SystemEvent::ToolServerSeen(_) => None,
        })
        .collect();
    assert_eq!(epochs.last(), Some(&report.epoch));
    assert_eq!(epochs.len(), 2);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn two_agents_of_one_program_share_a_log_and_each_has_a_start_of_its_epoch() {
    let store = Arc::new(MemoryStore::new());
    let first = builder(store.clone()).start().await.unwrap();
    let second = builder(store.clone()).name("other").start().await.unwrap();
    for system in [&first, &second] {
        system.submit(Part::infer("ask")).await.unwrap().finished().await.unwrap();
    }
    let history = fold_stream::<SystemHistory>(store.as_ref(), &StreamId::of_system(0), None).unwrap().state;
    assert_eq!((history.starts(), history.unclean_ends(), history.is_running()), (2, 0, true));
    let found = verify(store.as_ref());
    assert!(found.findings.is_empty(), "{:?}", found.findings);
}

#[tokio::test]
async fn a_definition_of_any_size_that_an_event_holds_is_written_and_a_larger_one_is_refused_with_the_limit()
{
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let store = Arc::new(SledStore::open(dir.path()).unwrap());
        let system = builder(store.clone()).system_prompt("x".repeat(1_000_000)).start().await.unwrap();
        assert_eq!(agent(store.as_ref()).number(), 1);
        system.shutdown().await.unwrap();
    }
    let store = Arc::new(SledStore::open(dir.path()).unwrap());
    let refused = builder(store.clone()).system_prompt("x".repeat(17 << 20)).start().await;
    let told = refused.map(drop).unwrap_err().to_string();
    assert!(told.contains("16777216"), "{told}");
    // Nothing was written, and the log starts with a smaller one.
    let system = builder(store).start().await.unwrap();
    system.shutdown().await.unwrap();
}

#[derive(serde::Deserialize, JsonSchema)]
struct Size {
    #[allow(dead_code, reason = "the schema names it")]
    size: u32,
}

#[tokio::test]
async fn tasks_in_flight_that_used_a_tool_which_is_gone_or_takes_less_are_listed() {
    let store = Arc::new(MemoryStore::new());
    let runs = Arc::new(tokio::sync::Notify::new());
    let hang = |runs: &Arc<tokio::sync::Notify>| {
        let runs = Arc::clone(runs);
        move || {
            runs.notify_one();
            std::future::pending::<Result<(), Infallible>>()
        }
    };
    let wait = hang(&runs);
    let first = builder(store.clone())
        .tool_with("wait", "Waits", move |_: Nothing| wait(), ToolPolicy::read_only())
        .tool("stay", "Stays", |_: Nothing| async { Ok::<_, Infallible>(()) });
    let first = first.start().await.unwrap();
    let parts = ["look", "stay", "wait"].map(|tool| Part::tool_call(tool, serde_json::json!({})).unwrap());
    let task = first.submit(Message::new("user", parts.to_vec(), &mut Ports::default())).await.unwrap();
    runs.notified().await;
    assert_eq!(changed_tools(store.as_ref()).unwrap().rows, []);
    // The program ends here; the next one has no `look`, and its `wait` needs an argument.
    let store = Arc::new(store.reopened().unwrap());
    let wait = hang(&runs);
    let second = System::builder("unused")
        .store(store.clone())
        .name("desk")
        .tool_with("wait", "Waits", move |_: Size| wait(), ToolPolicy::read_only())
        .tool("stay", "Stays", |_: Nothing| async { Ok::<_, Infallible>(()) });
    let second = second.start().await.unwrap();
    let changed = changed_tools(store.as_ref()).unwrap().rows;
    let rows: Vec<(&str, &str)> =
        changed.iter().map(|changed| (changed.tool.as_str(), changed.what.as_str())).collect();
    assert_eq!(rows, [("look", "it is gone"), ("wait", "the arguments: `size` is required now")]);
    assert!(changed.iter().all(|changed| changed.task.id() == task.id()));
    second.cancel(task.id(), None).await.unwrap();
    assert_eq!(changed_tools(store.as_ref()).unwrap().rows, [], "the task is over");
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn doctor_names_the_tasks_in_flight_whose_tools_have_changed() {
    let dir = tempfile::tempdir().unwrap();
    let began = Arc::new(tokio::sync::Notify::new());
    let waiting = |builder: Builder| {
        let began = Arc::clone(&began);
        let wait = move |_: Nothing| {
            began.notify_one();
            std::future::pending::<Result<(), Infallible>>()
        };
        builder.tool_with("wait", "Waits", wait, ToolPolicy::read_only())
    };
    let notes = || {
        let notes = taskreel_log::doctor::examine(dir.path()).unwrap().notes;
        notes.into_iter().filter(|note| note.contains("which has changed since")).collect::<Vec<_>>()
    };
    let first = waiting(builder(Arc::new(SledStore::open(dir.path()).unwrap()))).start().await.unwrap();
    let parts = ["look", "wait"].map(|tool| Part::tool_call(tool, serde_json::json!({})).unwrap());
    let task = first.submit(Message::new("user", parts.to_vec(), &mut Ports::default())).await.unwrap();
    began.notified().await;
    let id = task.id().to_owned();
    first.shutdown_within(Duration::ZERO).await.unwrap();
    drop(task);
    assert_eq!(notes(), [""; 0]);
    let second = System::builder("unused").store(Arc::new(SledStore::open(dir.path()).unwrap()));
    let second = waiting(second.name("desk")).start().await.unwrap();
    began.notified().await;
    second.shutdown_within(Duration::ZERO).await.unwrap();
    let said = notes();
    assert_eq!(said.len(), 1, "{said:?}");
    for words in [id.as_str(), "the tool `look`", "it is gone"] {
        assert!(said.iter().all(|note| note.contains(words)), "{said:?}");
    }
}
