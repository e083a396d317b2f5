//! Policies of a tool's calls: probes, retries, windows, deadlines, permits, circuits, concurrency.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::call_support::{Nothing, call, call_events, memory, soon};
use proto_events::call::CallEvent;
use proto_events::id::Version;
use proto_events::json::JsonText;
use taskreel::infer::Scripted;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy, Verdict};
use taskreel::{Error, Part, System, TaskHandle, TaskState};
use taskreel_log::memory::MemoryStore;
use tokio::sync::Notify;

fn words(events: &[CallEvent]) -> Vec<String> {
    let word = |event: &CallEvent| match event {
        CallEvent::Requested(_) => "requested".to_owned(),
        CallEvent::Dispatched { attempt, .. } => format!("sent {attempt}"),
        CallEvent::Succeeded { .. } => "succeeded".to_owned(),
        CallEvent::Failed { failure, .. } => format!("failed {}", failure.class.as_str()),
        CallEvent::RetryScheduled { attempt, .. } => format!("failed {attempt}, again later"),
        CallEvent::TimedOut { .. } => "timed out".to_owned(),
        CallEvent::Canceled { .. } => "canceled".to_owned(),
        CallEvent::OutcomeUnknown { .. } => "unknown".to_owned(),
        CallEvent::Reconciled { verdict, .. } => verdict.as_str().to_owned(),
        CallEvent::Abandoned { .. } => "abandoned".to_owned(),
        CallEvent::LateResultIgnored { .. } => "late".to_owned(),
        CallEvent::Asked { .. } => "asked".to_owned(),
        CallEvent::Accepted { handle, .. } => format!("taken as {handle}"),
        CallEvent::Answered { .. } => "answered".to_owned(),
    };
    events.iter().map(word).collect()
}

/// A tool whose first call hangs until its process ends.
#[derive(Clone, Default)]
struct Hang {
    started: Arc<Notify>,
    runs: Arc<AtomicU32>,
}

/// Returns a store with the same contents, as after a crash.
fn crashed(store: &MemoryStore) -> Arc<MemoryStore> {
    Arc::new(store.reopened().unwrap())
}

/// Returns a system whose tool `pay` hangs in its first attempt and works in all others; its probe returns
/// `verdict`.
async fn paying(store: Arc<MemoryStore>, pay: &Hang, verdict: Verdict, model: Option<&str>) -> System {
    let (hang, asked) = (pay.clone(), verdict);
    let tool = move |_: Nothing| {
        let hang = hang.clone();
        async move {
            if hang.runs.fetch_add(1, Ordering::SeqCst) == 0 {
                hang.started.notify_one();
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>("paid")
        }
    };
    let probe = move |cx: ToolContext, _: JsonText| {
        assert_eq!(cx.idempotency_key().len(), 64);
        let verdict = asked.clone();
        async move { Ok::<_, ToolError>(verdict) }
    };
    let builder =
        System::builder("-").store(store).tool_with("pay", "Pays", tool, ToolPolicy::reconcile(probe));
    let builder = match model {
        Some(script) => builder.infer(Scripted::from_json(script).unwrap()),
        None => builder,
    };
    builder.start().await.unwrap()
}

/// Runs one `pay` part into a crash, and then recovers it with this verdict.
async fn after_a_crash(verdict: Verdict) -> (TaskState, Vec<String>, u32, String) {
    let (store, pay) = (memory(), Hang::default());
    let first = paying(store.clone(), &pay, verdict.clone(), None).await;
    let task = first.submit(call("pay")).await.unwrap();
    soon(pay.started.notified()).await;
    let store = crashed(&store);
    let second = paying(store.clone(), &pay, verdict, None).await;
    let task = second.task(task.id()).unwrap();
    let end = soon(task.finished()).await.unwrap();
    let answer = end.answer().map(ToString::to_string).unwrap_or_default();
    (end.state(), words(&call_events(&store, &task)), pay.runs.load(Ordering::SeqCst), answer)
}

#[tokio::test]
async fn a_lost_call_that_landed_is_recorded_with_what_its_probe_names_and_not_sent_again() {
    let landed = Verdict::Landed(JsonText::string("paid before"));
    let (state, events, runs, answer) = after_a_crash(landed).await;
    assert_eq!(events, ["requested", "sent 1", "landed", "succeeded"]);
    assert_eq!((state, runs), (TaskState::Completed, 1));
    assert!(answer.contains("paid before"), "{answer}");
}

#[tokio::test]
async fn a_lost_call_that_did_not_happen_is_sent_again() {
    let (state, events, runs, answer) = after_a_crash(Verdict::DidNotHappen).await;
    assert_eq!(events, ["requested", "sent 1", "did-not-happen", "sent 2", "succeeded"]);
    assert_eq!((state, runs), (TaskState::Completed, 2));
    assert!(answer.contains("paid"), "{answer}");
}

#[tokio::test]
async fn a_lost_call_of_which_nobody_can_say_is_unknown_and_the_task_waits_for_a_person() {
    let (state, events, runs, _) = after_a_crash(Verdict::Inconclusive("the bank is closed".into())).await;
    assert_eq!(events, ["requested", "sent 1", "inconclusive", "unknown"]);
    assert_eq!((state, runs), (TaskState::InputRequired, 1));
}

#[tokio::test]
async fn a_canceled_call_that_can_be_asked_is_looked_into_for_evidence() {
    let (store, pay) = (memory(), Hang::default());
    let system = paying(store.clone(), &pay, Verdict::DidNotHappen, None).await;
    let task = system.submit(call("pay")).await.unwrap();
    soon(pay.started.notified()).await;
    task.cancel(Some("changed my mind")).await.unwrap();
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Canceled);
    let mut log = system.subscribe_task(task.id(), Version(1)).unwrap();
    soon(async {
        while !words(&call_events(&store, &task)).iter().any(|word| word == "did-not-happen") {
            log.next().await.unwrap().unwrap();
        }
    })
    .await;
    assert_eq!(words(&call_events(&store, &task)), ["requested", "sent 1", "canceled", "did-not-happen"]);
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Canceled, "evidence changes nothing");
}

const PAYS: &str = r#"{"pay please":[{"type":"tool_call","tool":"pay","args":{}}],
    "looked into":[{"type":"final","content":"told"}],"stays unknown":[{"type":"final","content":"left"}]}"#;

/// Returns a system at the point where a person must reconcile a call.
async fn unknown(part: Part, model: Option<&str>) -> (System, TaskHandle, String, Hang, Arc<MemoryStore>) {
    let (store, pay) = (memory(), Hang::default());
    let why = Verdict::Inconclusive("nobody knows".into());
    let first = paying(store.clone(), &pay, why.clone(), model).await;
    let task = first.session("s").send(part).await.unwrap();
    soon(pay.started.notified()).await;
    let store = crashed(&store);
    let second = paying(store.clone(), &pay, why, model).await;
    let task = second.task(task.id()).unwrap();
    let waits = soon(task.finished()).await.unwrap();
    assert_eq!(waits.state(), TaskState::InputRequired);
    let lost = waits.task().calls().iter().find(|call| call.request.target == "pay").unwrap();
    let id = lost.request.call_id.clone();
    (second, task, id, pay, store)
}

#[tokio::test]
async fn a_person_who_says_that_it_landed_completes_a_part_with_the_result() {
    let (_system, task, lost, pay, _) = unknown(call("pay"), None).await;
    let landed = Verdict::Landed(JsonText::string("receipt 7"));
    let settled = task.reconcile(&lost, landed.clone(), "ada").await.unwrap();
    let end = task.snapshot().await.unwrap();
    assert_eq!(end.version(), settled.version);
    assert_eq!(end.state(), TaskState::Completed);
    assert!(end.answer().unwrap().as_str().contains("receipt 7"));
    assert_eq!(pay.runs.load(Ordering::SeqCst), 1);
    let again = task.reconcile(&lost, landed, "ada").await.unwrap();
    assert_eq!(again, settled, "the same again adds nothing");
    let other = task.reconcile(&lost, Verdict::DidNotHappen, "bob").await.unwrap_err();
    assert!(other.to_string().contains("already settled as landed"), "{other}");
}

#[tokio::test]
async fn a_person_who_says_that_it_did_not_happen_has_a_part_called_again_under_another_key() {
    let (_system, task, lost, pay, store) = unknown(call("pay"), None).await;
    task.reconcile(&lost, Verdict::DidNotHappen, "ada").await.unwrap();
    let end = soon(task.finished()).await.unwrap();
    assert_eq!((end.state(), pay.runs.load(Ordering::SeqCst)), (TaskState::Completed, 2));
    let keys: Vec<_> = call_events(&store, &task)
        .into_iter()
        .filter_map(|event| match event {
            CallEvent::Requested(request) => Some(request.idempotency_key),
            _ => None,
        })
        .collect();
    assert!(keys.len() == 2 && keys[0] != keys[1], "{keys:?}");
}

#[tokio::test]
async fn a_person_who_abandons_a_part_fails_the_task_with_the_reason() {
    let (_system, task, lost, pay, _) = unknown(call("pay"), None).await;
    task.abandon(&lost, "the shop is gone", "ada").await.unwrap();
    let end = task.snapshot().await.unwrap();
    assert_eq!(end.state(), TaskState::Failed);
    assert!(end.task().error().unwrap().contains("the shop is gone"));
    assert_eq!(pay.runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_a_person_says_of_a_models_call_is_told_to_the_model_in_a_new_turn() {
    for (settle, answer) in [("landed", "told"), ("not", "told"), ("abandon", "left")] {
        let (system, task, lost, pay, _) = unknown(Part::infer("pay please"), Some(PAYS)).await;
        let settled = match settle {
            "landed" => task.reconcile(&lost, Verdict::Landed(JsonText::string("receipt 7")), "ada").await,
            "not" => task.reconcile(&lost, Verdict::DidNotHappen, "ada").await,
            _ => task.abandon(&lost, "no way to know", "ada").await,
        };
        settled.unwrap();
        let end = soon(task.finished()).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{settle}");
        assert_eq!(end.answer().unwrap().as_str(), format!("{answer:?}"), "{settle}");
        assert_eq!(pay.runs.load(Ordering::SeqCst), 1, "{settle}: the model did not ask for it again");
        let history = system.session("s").history().await.unwrap();
        let told = history.as_slice().iter().filter(|message| message.content.contains("unknown")).count();
        assert!(told >= 2, "{settle}: the answer of the first turn stands, the verdict comes after it");
    }
}

const INSISTS: &str = r#"{"pay please":[{"type":"tool_call","tool":"pay","args":{}}],
    "looked into":[{"type":"tool_call","tool":"pay","args":{}},{"type":"final","content":"told"}],
    "stays unknown":[{"calls":[{"tool":"pay","args":{}}]},{"type":"tool_call","tool":"pay","args":{}},
        {"type":"final","content":"told"}]}"#;

#[tokio::test]
async fn a_model_that_asks_again_for_what_a_person_has_settled_is_told_so_and_the_call_is_not_made_again() {
    for (settle, runs) in [("landed", 1), ("abandon", 1), ("not", 2)] {
        let (system, task, lost, pay, _) = unknown(Part::infer("pay please"), Some(INSISTS)).await;
        let settled = match settle {
            "landed" => task.reconcile(&lost, Verdict::Landed(JsonText::string("receipt 7")), "ada").await,
            "not" => task.reconcile(&lost, Verdict::DidNotHappen, "ada").await,
            _ => task.abandon(&lost, "no way to know", "ada").await,
        };
        settled.unwrap();
        let end = soon(task.finished()).await.unwrap();
        assert_eq!(
            (end.state(), end.answer().unwrap().as_str()),
            (TaskState::Completed, "\"told\""),
            "{settle}"
        );
        assert_eq!(pay.runs.load(Ordering::SeqCst), runs, "{settle}");
        // What a user asks for anew is made.
        let other = system.session("s").send(Part::infer("pay please")).await.unwrap();
        soon(other.finished()).await.unwrap();
        assert_eq!(pay.runs.load(Ordering::SeqCst), runs + 1, "{settle}: of another task");
    }
}

#[tokio::test]
async fn a_call_that_is_not_unknown_is_settled_by_nobody() {
    let system =
        System::builder("-").store(memory()).tool("yes", "", |_: Nothing| async { Ok::<_, Infallible>(1) });
    let system = system.start().await.unwrap();
    let task = system.submit(call("yes")).await.unwrap();
    let end = soon(task.finished()).await.unwrap();
    let id = end.task().calls().iter().next().unwrap().request.call_id.clone();
    let error = task.reconcile(&id, Verdict::DidNotHappen, "ada").await.unwrap_err();
    assert!(error.to_string().contains("is succeeded"), "{error}");
    assert!(task.abandon("call_none", "x", "ada").await.is_err());
    assert_eq!(task.snapshot().await.unwrap().version(), end.version());
}

/// Returns a tool that fails `times` times, then works.
fn failing(
    times: u32,
) -> (Arc<AtomicU32>, impl Fn(Nothing) -> taskreel::tool::BoxFuture<'static, Result<u32, String>> + Send + Sync)
{
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let tool = move |_: Nothing| -> taskreel::tool::BoxFuture<'static, Result<u32, String>> {
        let run = counted.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { if run < times { Err(format!("no {run}")) } else { Ok(run) } })
    };
    (runs, tool)
}

#[tokio::test]
async fn an_error_is_tried_again_where_policy_and_mode_allow_it_and_each_attempt_is_in_the_log() {
    let (runs, tool) = failing(1);
    let store = memory();
    let policy = ToolPolicy::idempotent().retries(2);
    let system =
        System::builder("-").store(store.clone()).tool_with("t", "", tool, policy).start().await.unwrap();
    let task = system.submit(call("t")).await.unwrap();
    let end = soon(task.finished()).await.unwrap();
    assert_eq!((end.state(), runs.load(Ordering::SeqCst)), (TaskState::Completed, 2));
    let events = call_events(&store, &task);
    assert_eq!(words(&events), ["requested", "sent 1", "failed 1, again later", "sent 2", "succeeded"]);
    let CallEvent::RetryScheduled { failure, .. } = &events[2] else { panic!("{events:?}") };
    assert_eq!(failure.message, "no 0");
}

#[tokio::test]
async fn an_error_is_not_tried_again_unless_the_policy_says_so() {
    let (runs, tool) = failing(1);
    let builder = System::builder("-").store(memory()).tool_with("t", "", tool, ToolPolicy::read_only());
    let system = builder.start().await.unwrap();
    let end = soon(system.submit(call("t")).await.unwrap().finished()).await.unwrap();
    assert_eq!((end.state(), runs.load(Ordering::SeqCst)), (TaskState::Failed, 1));
}

#[tokio::test]
async fn rules_that_contradict_each_other_are_refused_at_the_start() {
    for policy in [ToolPolicy::manual().retries(1), ToolPolicy::idempotent().parallel()] {
        let (_, tool) = failing(0);
        let builder = System::builder("-").store(memory()).tool_with("t", "", tool, policy);
        let Err(Error::Builder(text)) = builder.start().await else { panic!("it was taken") };
        assert!(text.contains("tool `t`") && text.contains("its recovery mode is"), "{text}");
    }
}

#[tokio::test]
async fn past_its_deadline_no_attempt_starts() {
    let (runs, tool) = failing(9);
    let store = memory();
    // The first back-off is at least a second.
    let policy = ToolPolicy::idempotent().retries(5).deadline(Duration::from_millis(500));
    let system =
        System::builder("-").store(store.clone()).tool_with("t", "", tool, policy).start().await.unwrap();
    let task = system.submit(call("t")).await.unwrap();
    assert_eq!(soon(task.finished()).await.unwrap().state(), TaskState::Failed);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(words(&call_events(&store, &task)), ["requested", "sent 1", "failed after-effect"]);
}

#[tokio::test]
async fn a_key_that_the_target_has_forgotten_is_not_sent_again() {
    let (store, pay) = (memory(), Hang::default());
    let start = |store: Arc<MemoryStore>| {
        let hang = pay.clone();
        let tool = move |_: Nothing| {
            let hang = hang.clone();
            async move {
                hang.runs.fetch_add(1, Ordering::SeqCst);
                hang.started.notify_one();
                std::future::pending::<Result<(), Infallible>>().await
            }
        };
        let policy = ToolPolicy::idempotent_within(Duration::ZERO);
        System::builder("-").store(store).tool_with("pay", "", tool, policy).start()
    };
    let first = start(store.clone()).await.unwrap();
    let task = first.submit(call("pay")).await.unwrap();
    soon(pay.started.notified()).await;
    let store = crashed(&store);
    let second = start(store.clone()).await.unwrap();
    let task = second.task(task.id()).unwrap();
    assert_eq!(soon(task.finished()).await.unwrap().state(), TaskState::InputRequired);
    assert_eq!(pay.runs.load(Ordering::SeqCst), 1);
    assert_eq!(words(&call_events(&store, &task)), ["requested", "sent 1", "unknown"]);
}
