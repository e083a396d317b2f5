//! The bounds of a handler's call: no message that nobody would read, the longest time without progress, and the rate and
//! the number of attempts at once, each as for a tool.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::time::Duration;

use proto_events::call::{CallEvent, CallStatus, TimeLimit};
use proto_events::task::{TaskEvent, TaskRejection};
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::testing::{TestSystem, sleep, system};
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{Builder, Error, Message, Part, System, TaskCommand, TaskHandle, TaskState, Version};
use taskreel_log::api::EventReader;
use taskreel_log::audit::verify;
use taskreel_log::ports::{Clock, Ports};
use taskreel_log::read::decode_record;

/// A handler that reports progress every 20 s, as many times as the message says, and then hangs if it says so.
async fn works(cx: HandlerContext, message: Message) -> Result<HandlerEnd, ToolError> {
    let text = message.parts[0].content().to_str().unwrap_or_default();
    let (reports, then) = text.split_once(' ').unwrap_or(("0", ""));
    for step in 0..reports.parse().unwrap_or(0) {
        sleep(Duration::from_secs(20)).await;
        cx.progress(&format!("step {step}"));
    }
    if then == "hang" {
        std::future::pending::<()>().await;
    }
    Ok(HandlerEnd::Completed)
}

async fn with(policy: fn() -> ToolPolicy) -> TestSystem {
    system(move |builder: Builder| builder.handler_with(works, policy())).await.unwrap()
}

fn user(text: &str) -> Message {
    Message::user(text, &mut Ports::default())
}

async fn submit(system: &TestSystem, text: &str) -> TaskHandle {
    system.submit(user(text)).await.unwrap()
}

/// Returns the call events of a task, each with its second since the first one of the log.
fn events(system: &TestSystem, task: &TaskHandle) -> Vec<(i64, CallEvent)> {
    let stored = system.store().read_stream(task.stream(), Version(1), usize::MAX).unwrap();
    let first = system.store().read_all(taskreel::Position(1), 1).unwrap()[0].record.metadata.at.0;
    let decoded = stored.iter().flat_map(|stored| decode_record::<TaskEvent>(stored).unwrap());
    let of_call = decoded.filter_map(|recorded| match recorded.event {
        TaskEvent::Call(event) => Some(((recorded.metadata.at.0 - first) / 1_000_000, event)),
        _ => None,
    });
    of_call.collect()
}

/// Returns the seconds in which the tasks' attempts were sent.
fn sent(system: &TestSystem, tasks: &[TaskHandle]) -> Vec<i64> {
    let all = tasks.iter().flat_map(|task| events(system, task));
    let dispatched = all.filter(|(_, event)| matches!(event, CallEvent::Dispatched { .. }));
    dispatched.map(|(second, _)| second).collect()
}

fn assert_sound(system: &TestSystem) {
    let found = verify(system.store().as_ref());
    assert!(found.is_sound(), "{:#?}", found.findings);
}

#[tokio::test]
async fn a_users_message_to_a_handlers_run_is_refused_although_its_item_holds_a_prompt() {
    let system = with(ToolPolicy::manual).await;
    let parts = vec![Part::text("0 hang"), Part::infer("and then?")];
    let item = Message { id: None, role: Some("user".into()), parts, timestamp: None };
    let task = system.submit(item).await.unwrap();
    system.until_idle().await;
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Working);
    let refused = task.command(TaskCommand::AppendMessage(user("hurry"))).await;
    let Err(Error::Task(TaskRejection::NoInferenceFollows(id))) = refused else { panic!("{refused:?}") };
    assert_eq!(id, task.id());
    // A note of the host is kept, as in any other run.
    let note = Message::agent("a note", &mut Ports::default());
    task.command(TaskCommand::AppendMessage(note)).await.unwrap();
    assert_sound(&system);
}

#[tokio::test]
async fn a_silent_handler_is_timed_out_by_its_heartbeat_and_one_that_reports_is_not() {
    let system =
        with(|| ToolPolicy::manual().heartbeat(Duration::from_secs(30)).timeout(Duration::from_secs(3_600)))
            .await;
    let talks = submit(&system, "6 end").await;
    assert_eq!(system.finish(&talks).await.unwrap().state(), TaskState::Completed, "120 s, 20 s apart");
    let silent = submit(&system, "2 hang").await;
    let begun = system.clock().now();
    let waits = system.finish(&silent).await.unwrap();
    assert_eq!(waits.state(), TaskState::InputRequired);
    let call = waits.task().calls().iter().next().unwrap();
    let CallStatus::Unknown(why) = &call.status else { panic!("{:?}", call.status) };
    assert_eq!(why, "attempt 1 reported no progress for 30 s");
    let limits: Vec<_> = events(&system, &silent)
        .into_iter()
        .filter_map(|(_, event)| match event {
            CallEvent::TimedOut { after_ms, limit, .. } => Some((after_ms, limit)),
            _ => None,
        })
        .collect();
    assert_eq!(limits, [(30_000, TimeLimit::Heartbeat)]);
    assert_eq!(
        system.clock().now().0 - begun.0,
        71_000_000,
        "40 s of reports, 30 s of silence, and the grace of a second"
    );
    assert_sound(&system);
}

#[tokio::test]
async fn a_silent_handler_that_may_be_repeated_is_sent_again() {
    let policy = || ToolPolicy::idempotent().heartbeat(Duration::from_secs(30));
    let system = with(policy).await;
    let task = submit(&system, "0 hang").await;
    let failed = system.finish(&task).await.unwrap();
    assert_eq!(failed.state(), TaskState::Failed);
    assert_eq!(failed.task().calls().iter().next().unwrap().attempts, 4, "the most for this mode");
    assert_sound(&system);
}

#[tokio::test]
async fn handlers_begin_no_faster_than_their_rate_and_no_more_at_once_than_their_number() {
    let system = with(|| ToolPolicy::manual().rate(2, Duration::from_secs(10))).await;
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(submit(&system, "0 end").await);
    }
    for task in &tasks {
        assert_eq!(system.finish(task).await.unwrap().state(), TaskState::Completed);
    }
    assert_eq!(sent(&system, &tasks), [0, 0, 10, 10, 20]);
    assert_sound(&system);

    let system = with(|| ToolPolicy::manual().concurrency(1)).await;
    let tasks = [submit(&system, "1 end").await, submit(&system, "1 end").await];
    for task in &tasks {
        assert_eq!(system.finish(task).await.unwrap().state(), TaskState::Completed);
    }
    assert_eq!(sent(&system, &tasks), [0, 20]);
    assert_sound(&system);
}

#[tokio::test]
async fn a_handler_and_a_tool_before_one_service_share_its_rate_and_may_not_dispute_it() {
    let start = |of_handler: u32| {
        let handler = ToolPolicy::manual().rate_of("bank", of_handler, Duration::from_secs(10));
        let tool = ToolPolicy::read_only().rate_of("bank", 2, Duration::from_secs(10));
        let look = |_: Nothing| async { Ok::<_, ToolError>("seen") };
        System::builder("-")
            .store(std::sync::Arc::new(taskreel_log::memory::MemoryStore::new()))
            .handler_with(works, handler)
            .tool_with("look", "Looks", look, tool)
            .start()
    };
    start(2).await.unwrap().shutdown().await.unwrap();
    let disputed = start(3).await.unwrap_err();
    assert!(matches!(&disputed, Error::Builder(why) if why.contains("bank")), "{disputed}");
}

#[derive(serde::Deserialize, taskreel::JsonSchema)]
struct Nothing {}
