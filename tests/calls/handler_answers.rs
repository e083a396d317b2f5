//! A handler that ends with its answer: the message and the end are one record, or neither is there.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use proto_events::call::CallStatus;
use proto_events::limits::PAYLOAD_BYTES_MAX;
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::testing::{CrashMatrix, Row, TestSystem, system};
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{Builder, Message, Part, TaskHandle, TaskState};
use taskreel_log::api::EventReader as _;
use taskreel_log::audit::verify;
use taskreel_log::ports::Ports;

async fn answers(_: HandlerContext, message: Message) -> Result<String, ToolError> {
    Ok(format!("heard {}", text_of(&message)))
}

fn text_of(message: &Message) -> String {
    message.parts[0].content().to_str().unwrap()
}

async fn task_of(system: &TestSystem, text: &str) -> TaskHandle {
    system.submit(Message::user(text, &mut Ports::default())).await.unwrap()
}

fn assert_sound(system: &TestSystem) {
    let found = verify(system.store().as_ref());
    assert!(found.is_sound(), "{:#?}", found.findings);
}

#[tokio::test]
async fn a_handlers_answer_and_its_end_are_one_record() {
    let system = system(|builder: Builder| builder.handler(answers)).await.unwrap();
    let task = task_of(&system, "hello").await;
    let done = system.finish(&task).await.unwrap();
    assert_eq!(done.state(), TaskState::Completed);
    let said: Vec<String> = done.task().messages().iter().map(text_of).collect();
    assert_eq!(said, ["hello", "heard hello"]);
    assert_eq!(done.answer().unwrap().to_str().unwrap(), "heard hello");
    assert_eq!(HandlerEnd::of_task(done.task()), Some(HandlerEnd::Completed));
    let records = system.store().read_stream(task.stream(), taskreel::Version(1), usize::MAX).unwrap();
    assert_eq!(records.len(), 2, "the task with its call, and the answer with the end");
    assert_sound(&system);
}

#[tokio::test]
async fn a_handler_that_answers_is_recovered_from_a_crash_after_each_append_and_answers_once() {
    let matrix = CrashMatrix::new(
        |builder| builder.handler_with(answers, ToolPolicy::idempotent()),
        |driver| async move {
            let task = driver.submit(Message::user("x", &mut Ports::default())).await?;
            let done = driver.finish(&task).await?;
            let said: Vec<String> = done.task().messages().iter().map(text_of).collect();
            assert_eq!(said, ["x", "heard x"]);
            Ok(())
        },
    );
    let report = matrix.run().await.unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.cells.contains_key(&(Row::InFlight, "idempotent")), "{report:?}");
}

#[tokio::test]
async fn the_answer_of_an_attempt_whose_task_was_canceled_is_dropped() {
    let handler = |cx: HandlerContext, _: Message| async move {
        cx.cancellation().canceled().await;
        Ok::<_, ToolError>("late")
    };
    let system = system(move |builder: Builder| builder.handler(handler)).await.unwrap();
    let task = task_of(&system, "x").await;
    system.until_idle().await;
    task.cancel(None).await.unwrap();
    system.run_out_timers().await.unwrap();
    let after = task.snapshot().await.unwrap();
    assert_eq!((after.state(), after.task().messages().len()), (TaskState::Canceled, 1));
    assert_sound(&system);
}

#[tokio::test]
async fn an_answer_that_no_event_can_hold_fails_its_call_and_says_how_large_it_was() {
    let handler = |_: HandlerContext, _: Message| async {
        Ok::<_, ToolError>(HandlerEnd::Answered(vec![Part::text("x".repeat(PAYLOAD_BYTES_MAX))]))
    };
    let system = system(move |builder: Builder| builder.handler(handler)).await.unwrap();
    let task = task_of(&system, "x").await;
    let done = system.finish(&task).await.unwrap();
    assert_eq!((done.state(), done.task().messages().len()), (TaskState::Failed, 1));
    let call = done.task().calls().iter().next_back().unwrap().clone();
    let CallStatus::Failed(failure) = call.status else { panic!("{:?}", call.status) };
    assert_eq!(failure.error_type, "TooLarge");
    assert!(failure.message.contains(&(PAYLOAD_BYTES_MAX + 2 + 21).to_string()), "{}", failure.message);
    assert_sound(&system);
}
