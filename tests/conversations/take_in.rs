//! Tasks and conversations that another system has kept, taken into a log: once each, as they are, and never run again by
//! themselves.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto_events::id::StreamId;
use proto_events::json;
use proto_events::model::LlmRole;
use proto_events::session::Session;
use taskreel::testing::{Entry, Scripted, appends, cut_after};
use taskreel::{
    ConversationHistory, JsonObject, JsonText, KeptItem, KeptStream, Operator, Part, PostedTask, System,
    TakenIn, TaskState,
};
use taskreel_log::api::EventStore;
use taskreel_log::audit;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::read::fold_stream;

/// No arguments.
#[derive(serde::Deserialize, taskreel::JsonSchema)]
struct Nothing {}

const AGENT: &str = "agent";

fn task(id: &str, state: &str) -> KeptStream {
    let text = format!(
        r#"{{"id":"{id}","state":"{state}","messages":[{{"id":"m","role":"user","parts":[{{"type":"tool_call","content":{{"tool_name":"pay","args":{{}},"call_id":"c"}}}}],"timestamp":"2026-11-24T10:00:00+00:00"}}],"artifacts":[],"metadata":{{}},"flow_state":{{}},"created_at":"2026-11-24T10:00:00+00:00"}}"#
    );
    let task = Box::new(PostedTask::parse(&text, &mut Ports::default()).unwrap());
    let what = KeptItem::Task { task, metadata: JsonObject::new() };
    KeptStream { agent: AGENT.to_owned(), what, source: text.into_bytes() }
}

/// Returns a conversation with a system prompt and this many questions with their answers.
fn conversation(id: &str, questions: usize) -> (KeptStream, ConversationHistory) {
    let mut mint = Ports::default();
    let mut history = ConversationHistory::with_system("Be brief.", &mut mint);
    for number in 0..questions {
        history.add_user(&format!("question {number}"), JsonObject::new(), &mut mint);
        history.add_assistant(&format!("answer {number}"), JsonObject::new(), &mut mint);
    }
    let what = KeptItem::Session { id: id.to_owned(), messages: history.as_slice().to_vec() };
    let source = history.to_json().as_str().as_bytes().to_vec();
    (KeptStream { agent: AGENT.to_owned(), what, source }, history)
}

async fn take_in(store: &Arc<dyn EventStore>, kept: &[KeptStream]) -> Vec<TakenIn> {
    let operator = Operator::new(Arc::clone(store));
    let taken = operator.take_in(kept, "importer").await.unwrap();
    operator.finish().await.unwrap();
    taken.into_iter().map(Result::unwrap).collect()
}

fn answering(text: &str) -> Scripted {
    Scripted::new([Entry::json(&json!({"type": "final", "content": text}))])
}

fn memory() -> Arc<dyn EventStore> {
    Arc::new(MemoryStore::new())
}

#[track_caller]
fn assert_verified(store: &Arc<dyn EventStore>) {
    let verified = audit::verify(store.as_ref());
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
}

#[tokio::test]
async fn a_conversation_that_was_taken_in_is_the_same_and_goes_on() {
    let store = memory();
    let (kept, history) = conversation("demo", 700);
    assert_eq!(take_in(&store, &[kept]).await, [TakenIn::New]);
    assert_verified(&store);
    let system =
        System::builder("").store(Arc::clone(&store)).infer(answering("of course")).start().await.unwrap();
    let session = system.session("demo");
    assert_eq!(*session.history().await.unwrap().as_slice(), *history.as_slice());
    session.send(Part::infer("And now?")).await.unwrap().finished().await.unwrap();
    let after = session.history().await.unwrap();
    assert_eq!(after.len(), history.len() + 2);
    assert_eq!(after.as_slice()[after.len() - 2].content, "And now?");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_same_source_adds_nothing_and_another_one_is_refused() {
    let store = memory();
    let (session, _) = conversation("demo", 300);
    let kept = [task("done", "completed"), task("failed", "failed"), session];
    assert_eq!(take_in(&store, &kept).await, [TakenIn::New; 3]);
    let before = store.head().unwrap();
    assert_eq!(take_in(&store, &kept).await, [TakenIn::Known; 3]);
    assert_eq!(store.head().unwrap(), before, "not even a start is recorded");
    let (session, _) = conversation("demo", 301);
    let mut changed = [task("done", "canceled"), session];
    assert_eq!(take_in(&store, &changed).await, [TakenIn::Changed; 2]);
    changed[0].agent = "another".to_owned();
    assert_eq!(take_in(&store, &changed).await, [TakenIn::New, TakenIn::Changed]);
    assert_verified(&store);
}

#[tokio::test]
async fn a_stream_from_elsewhere_is_left_alone() {
    let store = memory();
    let system = System::builder("").store(Arc::clone(&store)).infer(answering("yes")).start().await.unwrap();
    system.session("demo").send(Part::infer("Hello?")).await.unwrap().finished().await.unwrap();
    let mut posted = PostedTask::parse(r#"{"id":"done"}"#, &mut Ports::default()).unwrap();
    posted.metadata.set("own", JsonText::string("yes"));
    system.submit(posted).await.unwrap().finished().await.unwrap();
    system.shutdown().await.unwrap();
    let store = store.reopen().unwrap();
    let head = store.head().unwrap();
    let kept = [task("done", "completed"), conversation("demo", 1).0];
    assert_eq!(take_in(&store, &kept).await, [TakenIn::Elsewhere; 2]);
    assert_eq!(store.head().unwrap(), head);
}

#[tokio::test]
async fn a_task_that_was_at_work_or_not_begun_waits_for_a_person_and_is_not_run() {
    let store = memory();
    let kept = [task("working", "working"), task("submitted", "submitted"), task("asked", "input-required")];
    assert_eq!(take_in(&store, &kept).await, [TakenIn::New; 3]);
    let paid = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&paid);
    let pay = move |_: Nothing| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, Infallible>("paid") }
    };
    let system =
        System::builder("").store(Arc::clone(&store)).tool("pay", "Pays", pay).start().await.unwrap();
    let of = |id: &str| system.task(id).unwrap();
    let working = of("working").snapshot().await.unwrap();
    assert_eq!(working.state(), TaskState::InputRequired);
    assert!(working.to_json().as_str().contains("It is not known which of its calls took effect"));
    let submitted = of("submitted").snapshot().await.unwrap();
    assert_eq!(submitted.state(), TaskState::InputRequired);
    assert!(submitted.to_json().as_str().contains("was not begun when it was imported"));
    assert_eq!(of("asked").snapshot().await.unwrap().state(), TaskState::InputRequired);
    // One that is posted here runs, so the others would have, too.
    let KeptItem::Task { task: posted, .. } = task("posted", "submitted").what else {
        unreachable!("a task")
    };
    system.submit(*posted).await.unwrap().finished().await.unwrap();
    system.shutdown().await.unwrap();
    assert_eq!(paid.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_session_whose_import_was_cut_off_is_completed() {
    let whole = memory();
    let (kept, history) = conversation("demo", 700);
    take_in(&whole, std::slice::from_ref(&kept)).await;
    for cut in 1..appends(whole.as_ref()).unwrap().len() {
        let store: Arc<dyn EventStore> = Arc::new(cut_after(whole.as_ref(), cut).await.unwrap());
        let taken = take_in(&store, std::slice::from_ref(&kept)).await;
        let stream = StreamId::session(AGENT, "demo").unwrap();
        let folded = fold_stream::<Session>(store.as_ref(), &stream, None).unwrap();
        assert_eq!(folded.state.history().as_slice(), history.as_slice(), "{cut}");
        assert!(matches!(taken[0], TakenIn::New | TakenIn::Known), "{cut}: {taken:?}");
        assert_verified(&store);
    }
}

#[tokio::test]
async fn a_history_without_a_system_prompt_gets_none() {
    let store = memory();
    let (mut kept, _) = conversation("demo", 300);
    let KeptItem::Session { messages, .. } = &mut kept.what else { unreachable!("it is a session") };
    messages.remove(0);
    assert_eq!(take_in(&store, &[kept]).await, [TakenIn::New]);
    let stream = StreamId::session(AGENT, "demo").unwrap();
    let folded = fold_stream::<Session>(store.as_ref(), &stream, None).unwrap();
    let history = folded.state.history();
    assert_eq!((history.len(), history.as_slice()[0].role), (600, LlmRole::User));
    assert_verified(&store);
}

#[tokio::test]
async fn what_cannot_be_an_item_of_a_log_is_refused_by_itself() {
    let store = memory();
    let mut long = task("done", "completed");
    long.agent = "x".repeat(300);
    let mut large = task("large", "completed");
    let KeptItem::Task { task: posted, .. } = &mut large.what else { unreachable!("it is a task") };
    posted.metadata.set("text", JsonText::string(&"x".repeat(17 << 20)));
    let kept = [long, large, task("small", "completed")];
    let operator = Operator::new(Arc::clone(&store));
    let taken = operator.take_in(&kept, "importer").await.unwrap();
    assert!(taken[0].as_ref().unwrap_err().to_string().contains("200"), "{:?}", taken[0]);
    assert!(taken[1].as_ref().unwrap_err().to_string().contains("limit"), "{:?}", taken[1]);
    assert_eq!(*taken[2].as_ref().unwrap(), TakenIn::New);
    operator.finish().await.unwrap();
    assert_verified(&store);
}
