//! A person's decision about a call whose outcome is unknown, made before the call's run has ended: it is the call's
//! answer, and the run goes on with it. So a program acts that follows the log, and so a person between two starts.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::artifact_tool_support::model::{Reads, Says, told};
use proto_events::call::{CallEvent, CallKind, Verdict, VerdictBy};
use proto_events::codec::Storable as _;
use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::envelope::{Metadata, Timestamp};
use proto_events::id::{ExpectedVersion, StreamId, Version};
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::task::TaskEvent;
use serde::Deserialize;
use taskreel::artifact::{ArtifactTools, CharacterLimit};
use taskreel::infer::Scripted;
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError};
use taskreel::tool::{BoxFuture, ToolError};
use taskreel::{JsonSchema, Part, System, TaskSnapshot, TaskState};
use taskreel_log::api::{Append, AppendPart, EventReader, EventStore};
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::{Delivery, decode_record};
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The party that asks for the call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Asked {
    Part,
    Model,
    ModelInSession,
    /// A model that asks another agent.
    ModelOfAgent,
}

const ALL: [Asked; 4] = [Asked::Part, Asked::Model, Asked::ModelInSession, Asked::ModelOfAgent];

/// A tool that hangs the first time it is called, and counts its calls.
#[derive(Clone, Default)]
struct Tool {
    calls: Arc<AtomicU32>,
    began: Arc<Notify>,
}

/// Another agent, which hangs as the tool does.
struct Desk(Tool);

impl Peer for Desk {
    fn name(&self) -> &'static str {
        "desk"
    }

    fn description(&self) -> &'static str {
        "pays"
    }

    fn skills(&self) -> Vec<String> {
        Vec::new()
    }

    fn send(&self, _: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        self.0.began.notify_one();
        Box::pin(std::future::pending())
    }

    fn cancel(&self, _: &str, _: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

async fn started(store: Arc<MemoryStore>, tool: &Tool, asked: Asked) -> System {
    let desk = Desk(tool.clone());
    let tool = tool.clone();
    let pay = move |_: Nothing| {
        let (first, began) = (tool.calls.fetch_add(1, Ordering::SeqCst) == 0, Arc::clone(&tool.began));
        async move {
            if first {
                began.notify_one();
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>("paid again")
        }
    };
    let script = r#"{"took effect": [{"type": "final", "content": "told that it landed"}],
        "did not happen": [{"type": "final", "content": "told that it did not"}],
        "stays unknown": [{"type": "final", "content": "told that nobody knows"}],
        "ask the desk": [
            {"type": "agent_call", "agent": "desk", "action": "infer", "prompt": "pay"},
            {"type": "final", "content": "went on"}],
        "": [{"type": "tool_call", "tool": "pay", "args": {}}, {"type": "final", "content": "went on"}]}"#;
    let builder = System::builder("-")
        .store(store)
        .tool("pay", "Pays", pay)
        .peer(desk)
        .infer(Scripted::from_json(script).unwrap());
    let builder = if asked == Asked::ModelInSession { builder } else { builder.stateless() };
    builder.start().await.unwrap()
}

/// Appends events to a task's stream, as another program would.
async fn append(store: &MemoryStore, stream: &StreamId, events: &[TaskEvent]) {
    let version = store.stream_version(stream).unwrap();
    let last = store.read_stream(stream, version, 1).unwrap().remove(0);
    let bodies = events.iter().map(|event| {
        let payload = event.encode().unwrap();
        EventBody { kind: payload.kind, schema: payload.schema, salt: [1; 16], body: payload.body }
    });
    let fence = store.fence();
    let draft = RecordDraft {
        stream: stream.clone(),
        first_version: Version(version.0 + 1),
        set_id: *b"a person's words",
        part: 0,
        parts: 1,
        partition: fence.partition,
        epoch: fence.epoch,
        metadata: Metadata { at: Timestamp(last.record.metadata.at.0 + 1), ..Metadata::default() },
        fields: Vec::new(),
        previous: last.hash,
        events: bodies.collect(),
    };
    let part = AppendPart {
        stream: stream.clone(),
        expected: ExpectedVersion::exactly(version),
        record: draft.encode().unwrap(),
    };
    store.append(Append { fence, set_id: draft.set_id, parts: vec![part] }).await.unwrap();
}

/// Runs a task into a crash during its call, lets a person decide while the run is open, and starts again.
async fn after(asked: Asked, decide: impl Fn(String) -> CallEvent) -> (TaskSnapshot, u32) {
    let (store, tool) = (Arc::new(MemoryStore::new()), Tool::default());
    let system = started(Arc::clone(&store), &tool, asked).await;
    let part = match asked {
        Asked::Part => Part::tool_call("pay", json!({})).unwrap(),
        Asked::Model | Asked::ModelInSession => Part::infer("please"),
        Asked::ModelOfAgent => Part::infer("ask the desk"),
    };
    let task = system.submit(part).await.unwrap();
    tool.began.notified().await;
    let call = task.snapshot().await.unwrap().task().calls().open().next().unwrap().request.call_id.clone();
    let store = Arc::new(store.reopened().unwrap());
    let unknown =
        CallEvent::OutcomeUnknown { call_id: call.clone(), attempt: 1, why: "the process ended".to_owned() };
    append(&store, task.stream(), &[TaskEvent::Call(unknown), TaskEvent::Call(decide(call))]).await;
    let store = Arc::new(store.reopened().unwrap());
    let second = started(store, &tool, asked).await;
    let again = second.task(task.id()).unwrap();
    let end = tokio::time::timeout(Duration::from_secs(30), again.finished()).await;
    let end = end.unwrap_or_else(|_| panic!("{asked:?}: the task hangs")).unwrap();
    // The session is free for others.
    let other = second.submit(Part::infer("stays unknown")).await.unwrap();
    let free = tokio::time::timeout(Duration::from_secs(30), other.finished()).await;
    assert_eq!(free.expect("the session is free").unwrap().state(), TaskState::Completed);
    second.shutdown().await.unwrap();
    (end, tool.calls.load(Ordering::SeqCst))
}

fn reconciled(verdict: Verdict) -> impl Fn(String) -> CallEvent {
    move |call_id| CallEvent::Reconciled {
        call_id,
        attempt: 1,
        verdict: verdict.clone(),
        by: VerdictBy::Operator("ada".into()),
    }
}

#[tokio::test]
async fn a_result_that_a_person_gave_is_told_by_its_tool_and_minimized_as_itself() {
    let (store, began) = (Arc::new(MemoryStore::new()), Arc::new(Notify::new()));
    let signal = Arc::clone(&began);
    let hangs = move |_: Nothing| {
        signal.notify_one();
        std::future::pending::<Result<String, Infallible>>()
    };
    let tools = || ArtifactTools::new().outputs_over(CharacterLimit::new(2_000).unwrap());
    let model = || {
        Reads::by(true, |request| match request.messages.last() {
            Some(last) if last.role.as_str() == "user" => Says::Call("hangs", json!({})),
            _ => Says::Final("done".to_owned()),
        })
    };
    let builder = |store: Arc<MemoryStore>, model: Reads| {
        System::builder("-")
            .store(store)
            .tool("hangs", "Hangs", hangs.clone())
            .artifact_tools(tools())
            .infer(model)
    };
    let first = builder(Arc::clone(&store), model()).start().await.unwrap();
    let task = first.session("s").send(Part::infer("go")).await.unwrap();
    began.notified().await;
    let now = task.snapshot().await.unwrap();
    let call = now.task().calls().iter().find(|call| call.request.kind == CallKind::Tool).unwrap();
    let call_id = call.request.call_id.clone();
    let store = Arc::new(store.reopened().unwrap());
    let unknown = CallEvent::OutcomeUnknown {
        call_id: call_id.clone(),
        attempt: 1,
        why: "the process ended".to_owned(),
    };
    let text = "word \"é\" ".repeat(2_000);
    let landed = reconciled(Verdict::Landed(JsonText::string(&text)))(call_id);
    append(&store, task.stream(), &[TaskEvent::Call(unknown), TaskEvent::Call(landed)]).await;
    let (store, second) = (Arc::new(store.reopened().unwrap()), model());
    let system = builder(store, second.clone()).start().await.unwrap();
    let end = system.task(task.id()).unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    let told = told(second.requests().last().unwrap());
    assert_eq!(told["_total_characters"].as_u64(), Some(text.chars().count() as u64), "{told}");
    assert!(told["text"].as_str().unwrap().starts_with("word \"é\" "), "{told}");
}

fn output(end: &TaskSnapshot) -> String {
    end.answer().map(|answer| answer.as_str().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn a_call_that_landed_answers_with_the_result_that_the_person_gave() {
    for asked in ALL {
        let (end, calls) = after(asked, reconciled(Verdict::Landed(JsonText::string("paid")))).await;
        assert_eq!((end.state(), calls), (TaskState::Completed, 1), "{asked:?}: {}", end.to_json());
        let said = if asked == Asked::Part { "\"paid\"" } else { "\"went on\"" };
        assert!(output(&end).contains(said), "{asked:?}: {}", output(&end));
    }
}

#[tokio::test]
async fn a_call_that_did_not_happen_is_made_again_by_its_part_and_told_to_its_model() {
    for asked in ALL {
        let (end, calls) = after(asked, reconciled(Verdict::DidNotHappen)).await;
        assert_eq!(end.state(), TaskState::Completed, "{asked:?}: {}", end.to_json());
        assert_eq!(calls, if asked == Asked::Part { 2 } else { 1 }, "{asked:?}");
        let said = if asked == Asked::Part { "paid again" } else { "went on" };
        assert!(output(&end).contains(said), "{asked:?}: {}", output(&end));
    }
}

#[tokio::test]
async fn a_call_that_was_abandoned_is_an_error_of_its_part_and_told_to_its_model() {
    let abandoned =
        |call_id| CallEvent::Abandoned { call_id, reason: "too old".to_owned(), by: "ada".into() };
    for asked in ALL {
        let (end, calls) = after(asked, abandoned).await;
        let state = if asked == Asked::Part { TaskState::Failed } else { TaskState::Completed };
        assert_eq!((end.state(), calls), (state, 1), "{asked:?}: {}", end.to_json());
    }
}

/// Starts a system whose tool `lose` loses its answer.
async fn losing(asked: Asked) -> System {
    let lose = async |_: Nothing| Err::<(), _>(ToolError::lost("no answer"));
    let script = r#"{"looked into": [{"type": "final", "content": "went on"}],
        "": [{"type": "tool_call", "tool": "lose", "args": {}}]}"#;
    let builder = System::builder("-").store(Arc::new(MemoryStore::new())).tool("lose", "Loses", lose);
    let builder = builder.infer(Scripted::from_json(script).unwrap());
    let builder = if asked == Asked::ModelInSession { builder } else { builder.stateless() };
    builder.start().await.unwrap()
}

#[tokio::test]
async fn a_program_that_follows_the_log_decides_as_soon_as_it_reads_that_a_call_is_unknown() {
    for asked in [Asked::Part, Asked::Model, Asked::ModelInSession] {
        let system = losing(asked).await;
        let is_part = asked == Asked::Part;
        let part = if is_part { Part::tool_call("lose", json!({})).unwrap() } else { Part::infer("please") };
        let task = system.submit(part).await.unwrap();
        let mut log = system.subscribe_task(task.id(), Version(1)).unwrap();
        let unknown = async {
            loop {
                let Delivery::Record(record) = log.next().await.unwrap().unwrap() else { continue };
                for event in decode_record::<TaskEvent>(&record).unwrap() {
                    if let TaskEvent::Call(CallEvent::OutcomeUnknown { call_id, .. }) = event.event {
                        return call_id;
                    }
                }
            }
        };
        let call = tokio::time::timeout(Duration::from_secs(30), unknown).await.unwrap();
        let landed = Verdict::Landed(JsonText::string("paid"));
        let told = tokio::time::timeout(Duration::from_secs(30), task.reconcile(&call, landed, "ada")).await;
        told.unwrap_or_else(|_| panic!("{asked:?}: the verdict hangs")).unwrap();
        let end = tokio::time::timeout(Duration::from_secs(30), task.finished()).await;
        let end = end.unwrap_or_else(|_| panic!("{asked:?}: the task hangs")).unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{asked:?}: {}", end.to_json());
        let said = if asked == Asked::Part { "\"paid\"" } else { "\"went on\"" };
        assert!(output(&end).contains(said), "{asked:?}: {}", output(&end));
        let verified = taskreel_log::audit::verify(system.log().as_ref());
        assert!(verified.is_sound(), "{asked:?}: {:?}", verified.findings);
        system.shutdown().await.unwrap();
    }
}
