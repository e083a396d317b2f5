//! Rule R7 over a whole log: a run is cut after every append, and the system is started on the rest. Each cut
//! is a point where a process may die; what follows must be what the recovery mode of each open call allows.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::cuts::{appends, copy, event_by_event, of_work};
use futures_util::future::join_all;
use proto_events::call::{CallEvent, CallKind, CallStatus, Recovery};
use proto_events::id::{Category, StreamId, Version};
use proto_events::json::JsonText;
use proto_events::model::PostedTask;
use proto_events::session::{Session, SessionEvent};
use proto_events::task::{Task, TaskEvent};
use proto_events::turn::TurnMessage;
use serde::Deserialize;
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{ToolContext, ToolPolicy};
use taskreel::{JsonSchema, System, TaskState};
use taskreel_log::api::{EventReader, StoredRecord};
use taskreel_log::audit::words::recovery_step;
use taskreel_log::audit::{Explanation, RecoveryExplanation, explain};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::read::{decode_record, fold_stream};

/// The ids of the calls of each tool, in order.
type Ledger = Arc<Mutex<Vec<String>>>;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn start(store: Arc<MemoryStore>, ledger: &Ledger, conversation: bool) -> System {
    let note = |ledger: &Ledger| {
        let ledger = Arc::clone(ledger);
        move |cx: ToolContext, _: Nothing| {
            ledger.lock().unwrap().push(cx.call_id().to_owned());
            async move { Ok::<_, Infallible>("done") }
        }
    };
    let call = |tool: &str| Entry::Text(format!(r#"{{"type":"tool_call","tool":"{tool}","args":{{}}}}"#));
    let last = || Entry::Text(r#"{"type":"final","content":"ok"}"#.to_owned());
    // Replies depend on the prompt alone, so that a restarted process gets the same ones.
    let model = Scripted::by_prompt([("pay and look".to_owned(), vec![call("pay"), call("look"), last()])]);
    let builder = System::builder("in memory").store(store);
    let builder = if conversation { builder } else { builder.stateless() };
    builder
        .tool("pay", "Pays", note(ledger))
        .tool_with("look", "Looks", note(ledger), ToolPolicy::read_only())
        .tool_with("put", "Puts", note(ledger), ToolPolicy::idempotent())
        .infer(model)
        .start()
        .await
        .unwrap()
}

const TASK: &str = r#"{"id":"t","created_at":"x","metadata":{"session_id":"s"},"messages":[{"id":"m","parts":[
    {"type":"tool_call","content":{"tool_name":"pay","args":{},"call_id":"p1"}},
    {"type":"tool_call","content":{"tool_name":"look","args":{},"call_id":"p2"}},
    {"type":"infer","content":{"prompt":"pay and look"}},
    {"type":"tool_call","content":{"tool_name":"put","args":{},"call_id":"p3"}}]}]}"#;

/// Takes the next message of a conversation: while a tool call waits for its result, only that may come.
fn hear(waiting: &mut Option<String>, message: TurnMessage) {
    assert_eq!(*waiting, message.answers, "{message:?}");
    *waiting = message.asks.into_iter().next();
}

/// Checks every prefix of the task's and the session's streams: a call is sent only after its intent, has at
/// most one outcome, and no inference is requested while a tool call of the conversation waits for its
/// result.
fn check_every_prefix(store: &dyn EventReader) {
    let mut waiting: Option<String> = None;
    let mut outcomes: HashMap<String, u32> = HashMap::new();
    for record in of_work(store) {
        if record.record.stream.category() == Some(Category::Session) {
            for event in decode_record::<SessionEvent>(&record).unwrap() {
                let SessionEvent::MessageAppended(message) = event.event else { continue };
                hear(&mut waiting, message);
            }
            continue;
        }
        for event in decode_record::<TaskEvent>(&record).unwrap() {
            let event = match event.event {
                TaskEvent::Call(event) => event,
                TaskEvent::InferMessageAppended(message) => {
                    hear(&mut waiting, message);
                    continue;
                }
                _ => continue,
            };
            match &event {
                CallEvent::Requested(request) if request.kind == CallKind::Infer => {
                    assert!(waiting.is_none(), "asked while {waiting:?} waits");
                }
                CallEvent::Succeeded { call_id, .. }
                | CallEvent::Failed { call_id, .. }
                | CallEvent::Canceled { call_id, .. }
                | CallEvent::OutcomeUnknown { call_id, .. } => {
                    *outcomes.entry(call_id.clone()).or_default() += 1;
                }
                _ => {}
            }
        }
    }
    assert!(outcomes.values().all(|outcomes| *outcomes == 1), "{outcomes:?}");
    assert!(waiting.is_none());
}

/// Checks that recovery did what was explained: for each open call, the next event of it in the log is the
/// explained one, in the same words; and a call that was not open got no event of an attempt that is not new.
fn check_explained(store: &dyn EventReader, task: &StreamId, explained: &RecoveryExplanation, cut: &str) {
    let Explanation::Task { calls, .. } = &explained.explanation else { panic!("{cut}: it is a task") };
    let after = store.read_stream(task, Version(explained.version.0 + 1), usize::MAX).unwrap();
    let after: Vec<CallEvent> = after
        .iter()
        .flat_map(|stored| decode_record::<TaskEvent>(stored).unwrap())
        .filter_map(|recorded| match recorded.event {
            TaskEvent::Call(event) => Some(event),
            _ => None,
        })
        .collect();
    for recovery in calls {
        let id = recovery.call.request.call_id.as_str();
        let done =
            after.iter().find(|event| event.call_id() == id).unwrap_or_else(|| panic!("{cut}: nothing"));
        assert_eq!(recovery.words, recovery_step(done, &recovery.call.request), "{cut}");
        assert!(!recovery.words.starts_with("nothing"), "{cut}: {}", recovery.words);
        // Compares all fields but the epoch, which only the next process knows.
        let [foretold] = recovery.events.as_slice() else { panic!("{cut}: {:?}", recovery.events) };
        assert_eq!(without_epoch(foretold), without_epoch(done), "{cut}");
    }
    let first = after.first().map(CallEvent::call_id);
    if let (Some(recovery), Some(first)) = (calls.first(), first) {
        assert_eq!(recovery.call.request.call_id, first, "{cut}: an open call comes before everything else");
    }
}

fn without_epoch(event: &CallEvent) -> CallEvent {
    match event.clone() {
        CallEvent::Dispatched { call_id, attempt, cause, .. } => {
            CallEvent::Dispatched { call_id, attempt, epoch: 0, cause }
        }
        other => other,
    }
}

#[tokio::test]
async fn a_run_cut_after_every_append_goes_on_as_each_calls_mode_allows() {
    cut_everywhere(true).await;
}

#[tokio::test]
async fn a_run_without_a_conversation_goes_on_as_well() {
    cut_everywhere(false).await;
}

async fn cut_everywhere(conversation: bool) {
    let whole = Arc::new(MemoryStore::new());
    let ledger = Ledger::default();
    let system = start(Arc::clone(&whole), &ledger, conversation).await;
    let posted = PostedTask::parse(TASK, &mut Ports::default()).unwrap();
    let end = system.submit(posted).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    assert_eq!(end.task().artifacts().len(), 4);
    let sets = appends(whole.as_ref());
    assert!(sets.len() >= 8, "{} appends", sets.len());
    check_every_prefix(whole.as_ref());
    system.shutdown().await.unwrap();

    let mut unknown = 0;
    for cut in 1..sets.len() {
        let store = copy(&sets[..cut]).await;
        let task = proto_events::id::StreamId::task("agent", "t").unwrap();
        let before = fold_stream::<Task>(store.as_ref(), &task, None).unwrap().state;
        let open = before.calls().open().next().cloned();
        let explained = explain(store.as_ref(), &task, store.stream_version(&task).unwrap()).unwrap();
        let ledger = Ledger::default();
        let system = start(Arc::clone(&store), &ledger, conversation).await;
        let end = system.task("t").unwrap().finished().await.unwrap();
        let sent = ledger.lock().unwrap().clone();
        check_explained(store.as_ref(), &task, &explained, &format!("cut {cut}"));
        match open {
            Some(open) if open.request.recovery == Recovery::Manual => {
                assert_eq!(end.state(), TaskState::InputRequired, "cut {cut}: {}", end.to_json());
                assert!(!sent.contains(&open.request.call_id), "cut {cut}: a Manual call was sent again");
                let status = &end.task().calls().get(&open.request.call_id).unwrap().status;
                assert!(matches!(status, CallStatus::Unknown(_)), "cut {cut}: {status:?}");
                unknown += 1;
            }
            Some(open) => {
                assert_eq!(end.state(), TaskState::Completed, "cut {cut}: {}", end.to_json());
                if open.request.kind == CallKind::Tool {
                    assert_eq!(sent[0], open.request.call_id, "cut {cut}: sent again under its own id");
                }
                assert_eq!(end.task().calls().get(&open.request.call_id).unwrap().attempts, 2, "cut {cut}");
            }
            None => assert_eq!(end.state(), TaskState::Completed, "cut {cut}: {}", end.to_json()),
        }
        let answers = end.task().artifacts().iter().flat_map(|artifact| &artifact.parts);
        let answers: Vec<_> = answers.filter(|part| part.kind() == "infer_output").collect();
        assert!(answers.iter().all(|answer| answer.content().as_str() == "\"ok\""), "cut {cut}: {answers:?}");
        for call in before.calls().iter().filter(|call| !call.status.is_open()) {
            assert!(!sent.contains(&call.request.call_id), "cut {cut}: an ended call was sent again");
        }
        check_every_prefix(store.as_ref());
        let session = proto_events::id::StreamId::session("agent", "s").unwrap();
        let session = fold_stream::<Session>(store.as_ref(), &session, None).unwrap().state;
        assert!(session.open_turn().is_none(), "cut {cut}: the turn is still open");
        system.shutdown().await.unwrap();
    }
    assert_eq!(unknown, 2, "one Manual call as a part, one inside the infer loop");
}

#[tokio::test]
async fn what_waits_for_a_person_goes_on_with_the_persons_message() {
    let whole = Arc::new(MemoryStore::new());
    let ledger = Ledger::default();
    let system = start(Arc::clone(&whole), &ledger, true).await;
    let posted = PostedTask::parse(TASK, &mut Ports::default()).unwrap();
    system.submit(posted).await.unwrap().finished().await.unwrap();
    let sets = appends(whole.as_ref());
    system.shutdown().await.unwrap();

    // The first append holds the intent of the Manual call: a crash here leaves its outcome unknown.
    let store = copy(&sets[..1]).await;
    let system = start(Arc::clone(&store), &ledger, true).await;
    let waits = system.task("t").unwrap().finished().await.unwrap();
    assert_eq!(waits.state(), TaskState::InputRequired);
    let mut answered = PostedTask::from_json(&waits.to_json(), &mut Ports::default()).unwrap();
    let message = JsonText::parse(
        r#"{"id":"m2","parts":[{"type":"tool_call","content":{"tool_name":"look","args":{},"call_id":"x"}}]}"#,
    );
    answered
        .messages
        .push(proto_events::model::Message::from_json(&message.unwrap(), &mut Ports::default()).unwrap());
    let end = system.submit(answered).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    system.shutdown().await.unwrap();
}

/// A task in which every status of an open call occurs: attempts that never end, of tools that may be
/// repeated, of tools that may not, and of a tool that never returns at all.
const SLOW_TASK: &str = r#"{"id":"t","created_at":"x","messages":[{"id":"m","parts":[
    {"type":"tool_call","content":{"tool_name":"late","args":{},"call_id":"p1"}},
    {"type":"tool_call","content":{"tool_name":"never","args":{},"call_id":"p2"}},
    {"type":"tool_call","content":{"tool_name":"lost","args":{},"call_id":"p3"}}]}]}"#;

async fn start_slow(store: Arc<MemoryStore>) -> System {
    let bound = Duration::from_millis(40);
    // The first attempt never ends; all others return at once.
    let late = |cx: ToolContext, _: Nothing| async move {
        if cx.attempt() == 1 {
            std::future::pending::<()>().await;
        }
        Ok::<_, Infallible>("done")
    };
    let never = |_: ToolContext, _: Nothing| std::future::pending::<Result<&str, Infallible>>();
    System::builder("in memory")
        .store(store)
        .tool_with("late", "Answers late", late, ToolPolicy::idempotent().timeout(bound))
        .tool_with("never", "Answers never", never, ToolPolicy::read_only().timeout(bound))
        .tool_with("lost", "Gets lost", never, ToolPolicy::manual().timeout(bound))
        .start()
        .await
        .unwrap()
}

/// Compares what is explained at the end of a log with what a recovery of it does. Returns the status of each open
/// call and what is done with it.
async fn explained_and_done(
    sets: &[Vec<StoredRecord>],
    task: &StreamId,
) -> Vec<(&'static str, &'static str)> {
    let cut = sets.len();
    let store = copy(sets).await;
    let at = store.stream_version(task).unwrap();
    let explained = explain(store.as_ref(), task, at).unwrap();
    assert_eq!(explained.version, at, "every event is an append of its own");
    let Explanation::Task { state, calls } = &explained.explanation else { panic!("it is a task") };
    if *state != TaskState::Working {
        assert!(calls.is_empty(), "cut {cut}");
        return Vec::new();
    }
    let seen = calls.iter().map(|recovery| {
        let [event] = recovery.events.as_slice() else { panic!("cut {cut}: {:?}", recovery.events) };
        let does = match event {
            CallEvent::Dispatched { attempt: 1, .. } => "first",
            CallEvent::Dispatched { .. } => "again",
            CallEvent::OutcomeUnknown { .. } => "unknown",
            CallEvent::Failed { .. } => "fails",
            other => panic!("cut {cut}: {other:?}"),
        };
        (recovery.call.status.as_str(), does)
    });
    let seen = seen.collect();
    let system = start_slow(Arc::clone(&store)).await;
    system.task("t").unwrap().finished().await.unwrap();
    check_explained(store.as_ref(), task, &explained, &format!("cut {cut}"));
    system.shutdown().await.unwrap();
    seen
}

#[tokio::test]
async fn what_is_explained_is_what_recovery_does_behind_every_single_event() {
    let whole = Arc::new(MemoryStore::new());
    let system = start_slow(Arc::clone(&whole)).await;
    let posted = PostedTask::parse(SLOW_TASK, &mut Ports::default()).unwrap();
    let end = system.submit(posted).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::InputRequired, "{}", end.to_json());
    let sets = event_by_event(&of_work(whole.as_ref())).await;
    system.shutdown().await.unwrap();
    let task = StreamId::task("agent", "t").unwrap();

    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    // Many at once: most of the time each waits for time limits and back-offs.
    for together in (1..sets.len()).collect::<Vec<_>>().chunks(16) {
        let compared = together.iter().map(|cut| explained_and_done(&sets[..*cut], &task));
        seen.extend(join_all(compared).await.into_iter().flatten());
    }
    let all = [
        ("in-flight", "again"),
        ("in-flight", "fails"),
        ("in-flight", "unknown"),
        ("requested", "first"),
        ("timed-out", "again"),
        ("timed-out", "fails"),
        ("timed-out", "unknown"),
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all, "every row of R7 that a tool can come to");
}
