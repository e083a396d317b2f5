//! The embedder's own code as an agent's work: how a handler's call is recorded, what it appends, how it ends its
//! task, and what follows after a crash.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::call::{Call, CallKind, CallStatus, FailureClass, Recovery, Verdict};
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::task::TaskEvent;
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::testing::{CrashMatrix, Row, TestSystem, system};
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{Builder, Error, Message, Part, Task, TaskCommand, TaskHandle, TaskState};
use taskreel_log::audit::verify;
use taskreel_log::ports::Ports;
use taskreel_log::read::decode_record;

#[derive(serde::Deserialize, taskreel::JsonSchema)]
struct Nothing {}

/// A handler that does what the message says.
async fn told(cx: HandlerContext, message: Message) -> Result<HandlerEnd, ToolError> {
    let text = message.parts[0].content().to_str().unwrap_or_default();
    match text.as_str() {
        "ask" => Ok(HandlerEnd::InputRequired("Which city?".into())),
        "reject" => Ok(HandlerEnd::Rejected("not my work".into())),
        "fail" => Ok(HandlerEnd::Failed("no paper".into())),
        "break" => Err(ToolError::failed("broken")),
        "hang" => std::future::pending().await,
        _ => {
            cx.say(&format!("heard {text}")).await?;
            cx.append_artifact(vec![Part::text("whole")]).await?;
            cx.append_piece("report", vec![Part::text("one")], false).await?;
            cx.append_piece("report", vec![Part::text("two")], true).await?;
            Ok(HandlerEnd::Completed)
        }
    }
}

async fn with(policy: fn() -> ToolPolicy) -> TestSystem {
    system(move |builder: Builder| builder.handler_with(told, policy())).await.unwrap()
}

async fn task_of(system: &TestSystem, text: &str) -> TaskHandle {
    system.submit(Message::user(text, &mut Ports::default())).await.unwrap()
}

fn call_of(task: &Task) -> Call {
    task.calls().iter().next_back().unwrap().clone()
}

fn text_of(message: &Message) -> String {
    message.parts[0].content().to_str().unwrap()
}

/// The events of each record of a task, as words.
fn records(system: &TestSystem, task: &TaskHandle) -> Vec<Vec<TaskEvent>> {
    use taskreel_log::api::EventReader as _;
    let stored = system.store().read_stream(task.stream(), taskreel::Version(1), usize::MAX).unwrap();
    stored
        .iter()
        .map(|stored| {
            decode_record::<TaskEvent>(stored).unwrap().into_iter().map(|event| event.event).collect()
        })
        .collect()
}

fn assert_sound(system: &TestSystem) {
    let found = verify(system.store().as_ref());
    assert!(found.is_sound(), "{:#?}", found.findings);
}

#[tokio::test]
async fn a_message_goes_to_the_handler_and_not_to_its_parts_and_the_call_is_recorded_as_any_other() {
    let system = with(ToolPolicy::manual).await;
    let message = Message::tool_call("pay", json!({"cents": 3}), &mut Ports::default()).unwrap();
    let task = system.submit(message).await.unwrap();
    let done = system.finish(&task).await.unwrap();
    assert_eq!(done.state(), TaskState::Completed);
    let call = call_of(done.task());
    assert_eq!((call.request.kind, call.request.target.as_str()), (CallKind::Handler, "agent"));
    assert_eq!((call.request.recovery, call.request.recovery_source.as_str()), (Recovery::Manual, "handler"));
    assert_eq!(call.request.args.as_str(), r#"{"message":0}"#);
    assert_eq!((call.attempts, call.status.as_str()), (1, "succeeded"));
    assert_eq!(done.task().calls().iter().count(), 1, "no tool was called");
    assert_sound(&system);
}

#[tokio::test]
async fn what_a_handler_appends_is_in_the_log_in_order_and_its_end_and_the_final_state_are_one_record() {
    let system = with(ToolPolicy::manual).await;
    let task = task_of(&system, "hello").await;
    let done = system.finish(&task).await.unwrap();
    assert_eq!(text_of(&done.task().messages()[1]), "heard hello");
    assert_eq!(done.task().messages()[1].role.as_deref(), Some("agent"));
    let parts: Vec<usize> = done.task().artifacts().iter().map(|artifact| artifact.parts.len()).collect();
    assert_eq!(parts, [1, 2], "a whole artifact, and one of two pieces");
    let records = records(&system, &task);
    let last: Vec<&'static str> = records.last().unwrap().iter().map(word).collect();
    assert_eq!(last, ["succeeded", "state"]);
    let pieces = records.iter().flatten().filter(|event| word(event) == "piece").count();
    assert_eq!(pieces, 2);
    assert_sound(&system);
}

fn word(event: &TaskEvent) -> &'static str {
    match event {
        TaskEvent::Call(proto_events::call::CallEvent::Succeeded { .. }) => "succeeded",
        TaskEvent::StateChanged { .. } => "state",
        TaskEvent::ArtifactPartAppended { .. } => "piece",
        _ => "other",
    }
}

#[tokio::test]
async fn a_handler_ends_its_task_as_failed_or_rejected_and_the_two_can_be_told_apart() {
    let system = with(ToolPolicy::manual).await;
    for (text, error, class) in [
        ("fail", "no paper", FailureClass::AfterEffect),
        ("break", "broken", FailureClass::AfterEffect),
        ("reject", "not my work", FailureClass::Rejected),
    ] {
        let task = task_of(&system, text).await;
        let done = system.finish(&task).await.unwrap();
        assert_eq!((done.state(), done.task().error().as_deref()), (TaskState::Failed, Some(error)));
        let CallStatus::Failed(failure) = call_of(done.task()).status else { panic!() };
        assert_eq!(failure.class, class);
        assert_eq!(done.task().is_rejected(), text == "reject");
    }
    assert_sound(&system);
}

#[tokio::test]
async fn a_question_at_the_end_waits_for_a_message_which_runs_the_handler_again() {
    let system = with(ToolPolicy::manual).await;
    let task = task_of(&system, "ask").await;
    let waits = system.finish(&task).await.unwrap();
    assert_eq!(waits.state(), TaskState::InputRequired);
    assert_eq!(text_of(waits.task().messages().last().unwrap()), "Which city?");
    let answer = Message::user("Oslo", &mut Ports::default());
    task.command(TaskCommand::AppendMessage(answer)).await.unwrap();
    task.command(TaskCommand::Begin).await.unwrap();
    let done = system.finish(&task).await.unwrap();
    assert_eq!(done.state(), TaskState::Completed);
    assert_eq!(text_of(done.task().messages().last().unwrap()), "heard Oslo");
    assert_eq!(done.task().calls().iter().count(), 2);
    assert_sound(&system);
}

#[tokio::test]
async fn a_handler_whose_task_is_canceled_adds_nothing_more_and_hears_of_it() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&heard);
    let handler = move |cx: HandlerContext, _: Message| {
        let sink = Arc::clone(&sink);
        async move {
            cx.say("before").await?;
            cx.cancellation().canceled().await;
            let late = cx.say("after").await;
            sink.lock().unwrap().push(late);
            Ok::<_, ToolError>(HandlerEnd::Completed)
        }
    };
    let system = system(move |builder: Builder| builder.handler(handler.clone())).await.unwrap();
    let task = task_of(&system, "x").await;
    system.until_idle().await;
    task.cancel(None).await.unwrap();
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Canceled);
    system.run_out_timers().await.unwrap();
    let late = heard.lock().unwrap()[0].clone().unwrap_err();
    assert!(late.message().contains("is over; it adds nothing more"), "{late}");
    let kept = task.snapshot().await.unwrap();
    assert_eq!(kept.task().messages().len(), 2, "its message, and what was said before");
    assert!(matches!(call_of(kept.task()).status, CallStatus::Unknown(_)), "a manual call in flight");
    assert_sound(&system);
}

#[tokio::test]
async fn an_attempt_that_another_one_followed_adds_nothing_more() {
    let contexts = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&contexts);
    let handler = move |cx: HandlerContext, _: Message| {
        let sink = Arc::clone(&sink);
        async move {
            let first = cx.attempt() == 1;
            sink.lock().unwrap().push(cx.clone());
            if first {
                std::future::pending::<()>().await;
            }
            let superseded = sink.lock().unwrap()[0].clone();
            let late = superseded.say("late").await;
            assert!(late.is_err(), "the first attempt was given up");
            cx.say("second").await?;
            Ok::<_, ToolError>(HandlerEnd::Completed)
        }
    };
    let policy = || ToolPolicy::idempotent().timeout(Duration::from_secs(1));
    let system =
        system(move |builder: Builder| builder.handler_with(handler.clone(), policy())).await.unwrap();
    let task = task_of(&system, "x").await;
    let done = system.finish(&task).await.unwrap();
    assert_eq!((done.state(), call_of(done.task()).attempts), (TaskState::Completed, 2));
    let said: Vec<String> = done.task().messages().iter().map(text_of).collect();
    assert_eq!(said, ["x", "second"]);
}

#[tokio::test]
async fn a_person_settles_a_handler_whose_outcome_is_unknown() {
    for verdict in [Verdict::Landed(JsonText::null()), Verdict::DidNotHappen] {
        let system = with(ToolPolicy::manual).await;
        let task = task_of(&system, "hang").await;
        let system = system.crash().await.unwrap();
        let task = system.task(task.id()).unwrap();
        let waits = system.finish(&task).await.unwrap();
        assert_eq!(waits.state(), TaskState::InputRequired);
        let call_id = call_of(waits.task()).request.call_id;
        task.reconcile(&call_id, verdict.clone(), "ada").await.unwrap();
        system.until_idle().await;
        let after = task.snapshot().await.unwrap();
        match verdict {
            Verdict::Landed(_) => assert_eq!(after.state(), TaskState::Completed),
            _ => assert_eq!((after.state(), system.ledger().executions().len()), (TaskState::Working, 2)),
        }
        assert_sound(&system);
    }
}

#[tokio::test]
async fn what_a_handler_cannot_have_is_refused_at_the_start() {
    let probe = |_: taskreel::tool::ToolContext, (): ()| async { Ok::<_, ToolError>(Verdict::DidNotHappen) };
    for policy in [
        ToolPolicy::reconcile(probe),
        ToolPolicy::read_only().parallel(),
        ToolPolicy::manual().capabilities(["x"]),
        ToolPolicy::manual().retries(1),
    ] {
        let started = system(move |builder: Builder| builder.handler_with(told, policy.clone())).await;
        let error = started.err().unwrap().to_string();
        assert!(error.contains("the handler"), "{error}");
    }
}

#[tokio::test]
async fn a_caller_cannot_speak_as_a_handler() {
    let system = with(ToolPolicy::manual).await;
    let task = task_of(&system, "x").await;
    let says = proto_events::task::HandlerSays::Message(Message::agent("x", &mut Ports::default()));
    let command = TaskCommand::OfHandler { call_id: "c".into(), attempt: 1, says: Box::new(says) };
    assert!(matches!(task.command(command).await, Err(Error::NotForCallers)));
}

#[tokio::test]
async fn a_handler_is_recovered_by_its_mode_from_a_crash_after_each_append() {
    for (policy, mode) in [
        (ToolPolicy::manual as fn() -> ToolPolicy, "manual"),
        (ToolPolicy::idempotent, "idempotent"),
        (ToolPolicy::read_only, "read-only"),
    ] {
        let matrix = CrashMatrix::new(
            move |builder| builder.handler_with(told, policy()),
            |driver| async move {
                for text in ["hello", "ask", "reject"] {
                    let task = driver.submit(Message::user(text, &mut Ports::default())).await?;
                    driver.finish(&task).await?;
                }
                Ok(())
            },
        );
        let report = matrix.run().await.unwrap_or_else(|broken| panic!("{broken}"));
        assert!(report.cells.contains_key(&(Row::InFlight, mode)), "{report:?}");
    }
}

#[tokio::test]
async fn a_handler_takes_over_no_run_of_parts_whichever_part_made_its_first_call() {
    let has_handler = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&has_handler);
    let describe = move |builder: Builder| {
        let is_later = own.load(Ordering::SeqCst);
        let pay = |_: Nothing| std::future::pending::<Result<&str, ToolError>>();
        let builder = builder.tool("pay", "Pays", pay);
        if is_later { builder.handler(told) } else { builder }
    };
    let system = system(describe).await.unwrap();
    let parts = vec![Part::text("hello"), Part::tool_call("pay", json!({})).unwrap()];
    let message = Message { id: None, role: Some("user".into()), parts, timestamp: None };
    let task = system.submit(message).await.unwrap();
    system.until_idle().await;
    assert_eq!(call_of(task.snapshot().await.unwrap().task()).request.origin.part, 1);
    has_handler.store(true, Ordering::SeqCst);
    let system = system.crash().await.unwrap();
    let done = system.finish(&system.task(task.id()).unwrap()).await.unwrap();
    let kinds: Vec<CallKind> = done.task().calls().iter().map(|call| call.request.kind).collect();
    assert_eq!(
        (done.state(), kinds),
        (TaskState::InputRequired, vec![CallKind::Tool]),
        "a person settles it"
    );
    assert_sound(&system);
}

#[tokio::test]
async fn a_handler_that_waits_for_its_own_task_is_refused_by_name() {
    let socket = Arc::new(std::sync::OnceLock::<taskreel::System>::new());
    let inside = Arc::clone(&socket);
    let waits = move |cx: HandlerContext, _: Message| {
        let own = inside.get().unwrap().task(cx.task_id());
        async move {
            let told = own?.finished().await;
            assert!(matches!(&told, Err(Error::WaitsForItself { call_id, .. }) if call_id == cx.call_id()));
            told.map(|_| HandlerEnd::Completed)
        }
    };
    let system = system(move |builder: Builder| builder.handler_with(waits.clone(), ToolPolicy::manual()))
        .await
        .unwrap();
    assert!(socket.set(taskreel::System::clone(&system)).is_ok());
    let task = task_of(&system, "hello").await;
    let done = system.finish(&task).await.unwrap();
    assert_eq!(done.state(), TaskState::Failed);
    assert!(done.error().unwrap().contains("waits for task"), "{:?}", done.error());
    assert_sound(&system);
}
