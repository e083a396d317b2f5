//! A tool or a handler asks a person: the call waits on disk, the task waits for input, and with the answer the call is
//! sent again and continues, through restarts, whoever asked for it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;
use std::time::Duration;

use proto_events::call::{Call, CallStatus};
use proto_events::id::StreamId;
use proto_events::json;
use proto_events::system::SystemHistory;
use serde::Deserialize;
use taskreel::handler::{Answer, HandlerContext, HandlerEnd};
use taskreel::infer::Scripted;
use taskreel::testing::{CrashMatrix, Driver, Row, TestSystem, system};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{
    Builder, Error, JsonSchema, Message, Operator, Part, Task, TaskCommand, TaskHandle, TaskState,
};
use taskreel_log::api::{EventReader as _, EventStore};
use taskreel_log::audit::verify;
use taskreel_log::ports::Ports;
use taskreel_log::read::fold_stream;
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A tool that asks for an account and then for the amount.
async fn pay(cx: ToolContext, _: Nothing) -> Result<String, ToolError> {
    let account = cx.ask("Which account?").await?;
    let amount = cx.ask(&format!("How much from {account}?")).await?;
    Ok(format!("paid {amount} from {account}"))
}

/// A tool that asks once, and handles a refusal to answer.
async fn look(cx: ToolContext, _: Nothing) -> Result<String, ToolError> {
    match cx.ask("Where?").await {
        Ok(place) => Ok(format!("looked at {place}")),
        Err(error) if error.type_name() == "Declined" => Ok(format!("looked nowhere: {error}")),
        Err(error) => Err(error),
    }
}

async fn quick(_: Nothing) -> Result<String, ToolError> {
    Ok("quick".to_owned())
}

async fn asking_handler(cx: HandlerContext, _: Message) -> Result<HandlerEnd, ToolError> {
    if cx.attempt() == 1 {
        cx.say("I have a question").await?;
    }
    let city = cx.ask("Which city?").await?;
    cx.say(&format!("So it is {city}")).await?;
    Ok(HandlerEnd::Completed)
}

const SCRIPT: &str = r#"{"waited for a person's answer has ended": [{"type": "final", "content": "done"}],
    "": [{"type": "tool_call", "tool": "pay", "args": {}}, {"type": "final", "content": "done"}]}"#;

fn tools(builder: Builder) -> Builder {
    tools_with(builder, ToolPolicy::manual())
}

/// Returns the tools, with this policy of the one that asks.
fn tools_with(builder: Builder, policy: ToolPolicy) -> Builder {
    builder
        .tool_with("pay", "Pays", pay, policy)
        .tool_with("look", "Looks", look, ToolPolicy::read_only().parallel())
        .tool_with("quick", "Is quick", quick, ToolPolicy::read_only().parallel())
        .infer(Scripted::from_json(SCRIPT).unwrap())
}

fn calls(tools: &[&str]) -> Message {
    let parts = tools.iter().map(|tool| Part::tool_call(tool, json!({})).unwrap()).collect();
    Message { id: None, role: Some("user".into()), parts, timestamp: None }
}

fn user(text: &str) -> Message {
    Message::user(text, &mut Ports::default())
}

fn last_call<'a>(task: &'a Task, tool: &str) -> &'a Call {
    task.calls().iter().rev().find(|call| call.request.target == tool).unwrap()
}

/// Answers the task's open question and waits for what follows.
async fn answer(driver: &Driver, task: &TaskHandle, text: &str) -> Result<(), Error> {
    let open = task.questions().await?;
    assert_eq!(open.len(), 1, "one question at a time");
    task.answer(&open[0].question_id(), text, "ada").await?;
    driver.finish(task).await.map(drop)
}

fn outputs(task: &Task) -> Vec<String> {
    task.artifacts().iter().map(|artifact| artifact.parts[0].content().as_str().to_owned()).collect()
}

fn assert_sound(system: &TestSystem) {
    let found = verify(system.store().as_ref());
    assert!(found.is_sound(), "{:#?}", found.findings);
}

#[tokio::test]
async fn a_manual_tool_asks_twice_and_returns_with_both_answers() {
    let system = system(tools).await.unwrap();
    let task = system.submit(calls(&["pay", "quick"])).await.unwrap();
    let waits = system.finish(&task).await.unwrap();
    assert_eq!(waits.state(), TaskState::InputRequired);
    let call = last_call(waits.task(), "pay");
    assert_eq!((call.open_question(), call.status.as_str()), (Some("Which account?"), "asked"));
    assert_eq!(waits.task().messages().last().unwrap().parts[0], Part::text("Which account?"));
    answer(&system, &task, "savings").await.unwrap();
    let waits = task.snapshot().await.unwrap();
    assert_eq!(last_call(waits.task(), "pay").open_question(), Some("How much from savings?"));
    answer(&system, &task, "12").await.unwrap();
    let done = task.snapshot().await.unwrap();
    assert_eq!(done.state(), TaskState::Completed, "{:?}", done.task().error());
    let call = last_call(done.task(), "pay");
    assert_eq!((call.attempts, call.counted_attempts()), (3, 1));
    let outputs = outputs(done.task());
    assert!(outputs[0].contains("paid 12 from savings") && outputs[1].contains("quick"), "{outputs:?}");
    assert_eq!(done.task().calls().iter().filter(|call| call.request.target == "pay").count(), 1);
    assert_sound(&system);
}

#[tokio::test]
async fn an_answer_that_comes_twice_answers_no_later_question() {
    let system = system(tools).await.unwrap();
    let task = system.submit(calls(&["pay"])).await.unwrap();
    let waits = system.finish(&task).await.unwrap();
    let first = last_call(waits.task(), "pay").question_id();
    answer(&system, &task, "savings").await.unwrap();
    // The person's client sends its answer again, and the call has asked something else meanwhile.
    task.answer(&first, "savings", "ada").await.unwrap();
    let waits = task.snapshot().await.unwrap();
    let call = last_call(waits.task(), "pay").clone();
    assert_eq!(call.open_question(), Some("How much from savings?"));
    for (named, text) in [
        (first, "checking"),
        (call.request.call_id.clone(), "savings"),
        (format!("{}:3", call.request.call_id), "12"),
        (format!("{}:0", call.request.call_id), "12"),
    ] {
        let refused = task.answer(&named, text, "ada").await;
        assert!(matches!(refused, Err(Error::Task(_))), "{named} {refused:?}");
    }
    answer(&system, &task, "12").await.unwrap();
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Completed);
    assert_sound(&system);
}

#[tokio::test]
async fn a_tool_that_a_model_called_asks_and_the_model_is_told_its_result_in_a_new_turn() {
    for stateless in [false, true] {
        let describe = move |builder: Builder| {
            let builder = tools(builder);
            if stateless { builder.stateless() } else { builder }
        };
        let system = system(describe).await.unwrap();
        let task = system.submit(Part::infer("Pay it")).await.unwrap();
        assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::InputRequired);
        answer(&system, &task, "savings").await.unwrap();
        answer(&system, &task, "12").await.unwrap();
        let done = task.snapshot().await.unwrap();
        assert_eq!(done.state(), TaskState::Completed, "{:?}", done.task().error());
        assert_eq!(last_call(done.task(), "pay").attempts, 3);
        assert_eq!(done.answer().unwrap().to_str().as_deref(), Some("done"));
        assert_sound(&system);
        let shown = system.store().read_all(taskreel::Position(1), usize::MAX).unwrap();
        let told = shown.iter().any(|stored| {
            String::from_utf8_lossy(&stored.bytes).contains("that waited for a person's answer has ended")
        });
        assert!(told, "the model reads the result");
    }
}

#[tokio::test]
async fn a_handler_asks_and_continues_with_the_answer() {
    let system = system(|builder: Builder| builder.handler(asking_handler)).await.unwrap();
    let task = system.submit(user("Coat?")).await.unwrap();
    assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::InputRequired);
    answer(&system, &task, "Oslo").await.unwrap();
    let done = task.snapshot().await.unwrap();
    assert_eq!(done.state(), TaskState::Completed);
    let said: Vec<_> = done.task().messages().iter().map(|message| message.parts[0].clone()).collect();
    let texts = ["Coat?", "I have a question", "Which city?", "Oslo", "So it is Oslo"];
    assert_eq!(said, texts.map(Part::text));
    assert_eq!(done.task().calls().iter().count(), 1, "one call, in two attempts");
    assert_sound(&system);
}

#[tokio::test]
async fn a_question_outlives_restarts_and_is_answered_in_a_log_that_no_system_has_open() {
    let system = system(tools).await.unwrap();
    let task = system.submit(calls(&["look"])).await.unwrap();
    system.finish(&task).await.unwrap();
    let found = system.store().reopened().unwrap();
    let store: Arc<dyn EventStore> = Arc::new(found.reopened().unwrap());
    let waits = task.questions().await.unwrap();
    let operator = Operator::new(Arc::clone(&store));
    let call_id = &waits[0].request.call_id;
    let decided = operator.answer(task.stream(), call_id, Answer::Given("Oslo".into()), "ada").await.unwrap();
    assert_eq!((decided.is_new, decided.task.state()), (true, TaskState::Working));
    let again = operator.answer(task.stream(), call_id, Answer::Given("Oslo".into()), "ada").await.unwrap();
    assert!(!again.is_new);
    let other = operator.answer(task.stream(), call_id, Answer::Given("Rome".into()), "ada").await;
    assert!(matches!(other, Err(Error::Task(_))));
    let programs = || {
        let programs = fold_stream::<SystemHistory>(&*store, &StreamId::of_system(0), None).unwrap().state;
        (programs.starts(), programs.is_running())
    };
    let (starts, _) = programs();
    assert_eq!(starts, 2, "who decides is a program that started, once for all decisions");
    operator.finish().await.unwrap();
    assert_eq!(programs(), (2, false));
    let by = store.read_stream(task.stream(), decided.task.version(), 1).unwrap();
    assert_eq!(by[0].record.metadata.principal.name, "ada");
    // The system itself finds the question open after a crash.
    let system = system.crash().await.unwrap();
    let task = system.task(task.id()).unwrap();
    assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::InputRequired);
    answer(&system, &task, "Rome").await.unwrap();
    let done = task.snapshot().await.unwrap();
    assert!(outputs(done.task())[0].contains("looked at Rome"));
    assert_sound(&system);
}

#[tokio::test]
async fn a_person_who_declines_gives_the_call_an_error_that_it_may_handle() {
    let system = system(tools).await.unwrap();
    for (tool, state, said) in
        [("look", TaskState::Completed, "looked nowhere: ask Bob"), ("pay", TaskState::Failed, "ask Bob")]
    {
        let task = system.submit(calls(&[tool])).await.unwrap();
        system.finish(&task).await.unwrap();
        let open = task.questions().await.unwrap();
        task.decline(&open[0].request.call_id, "ask Bob", "ada").await.unwrap();
        let done = system.finish(&task).await.unwrap();
        assert_eq!(done.state(), state);
        assert!(outputs(done.task())[0].contains(said), "{:?}", outputs(done.task()));
    }
    assert_sound(&system);
}

#[tokio::test]
async fn a_task_that_is_canceled_or_goes_on_without_the_answer_gives_the_question_up() {
    let system = system(tools).await.unwrap();
    let canceled = system.submit(calls(&["pay"])).await.unwrap();
    system.finish(&canceled).await.unwrap();
    let call_id = canceled.questions().await.unwrap()[0].request.call_id.clone();
    canceled.cancel(None).await.unwrap();
    let over = canceled.snapshot().await.unwrap();
    assert_eq!(
        last_call(over.task(), "pay").status,
        CallStatus::Canceled,
        "a manual call too: nothing is in flight"
    );
    assert!(matches!(canceled.answer(&call_id, "x", "ada").await, Err(Error::Task(_))));

    let goes_on = system.submit(calls(&["pay"])).await.unwrap();
    system.finish(&goes_on).await.unwrap();
    goes_on.command(TaskCommand::AppendMessage(calls(&["quick"]))).await.unwrap();
    goes_on.command(TaskCommand::Begin).await.unwrap();
    let done = system.finish(&goes_on).await.unwrap();
    assert_eq!(done.state(), TaskState::Completed);
    assert_eq!(last_call(done.task(), "pay").status, CallStatus::Canceled);
    assert_sound(&system);
}

#[tokio::test]
async fn a_call_that_asks_another_question_than_before_fails() {
    let fickle = |cx: ToolContext, _: Nothing| async move {
        cx.ask(&format!("Question of attempt {}?", cx.attempt())).await
    };
    let system = system(move |builder: Builder| builder.tool("fickle", "Is fickle", fickle)).await.unwrap();
    let task = system.submit(calls(&["fickle"])).await.unwrap();
    system.finish(&task).await.unwrap();
    answer(&system, &task, "yes").await.unwrap();
    let done = task.snapshot().await.unwrap();
    assert_eq!(done.state(), TaskState::Failed);
    assert!(done.task().error().unwrap().contains("must ask the same questions in the same order"));
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_holds_no_permit_and_its_deadline_waits_with_it() {
    let describe = |builder: Builder| {
        builder
            .max_concurrency(1)
            .tool_with("look", "Looks", look, ToolPolicy::manual().deadline(Duration::from_secs(60)))
            .tool("quick", "Is quick", quick)
    };
    let system = system(describe).await.unwrap();
    let asks = system.submit(calls(&["look"])).await.unwrap();
    system.finish(&asks).await.unwrap();
    let other = system.submit(calls(&["quick"])).await.unwrap();
    assert_eq!(system.finish(&other).await.unwrap().state(), TaskState::Completed);
    system.advance(Duration::from_secs(3_600)).await;
    answer(&system, &asks, "Oslo").await.unwrap();
    assert_eq!(asks.snapshot().await.unwrap().state(), TaskState::Completed);
    assert_sound(&system);
}

#[tokio::test]
async fn an_answer_that_comes_while_other_calls_of_the_run_are_in_flight_is_used_in_that_run() {
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let slow = move |_: Nothing| {
        let held = Arc::clone(&held);
        async move {
            held.notified().await;
            Ok::<_, ToolError>("slow")
        }
    };
    let describe = move |builder: Builder| {
        tools(builder).tool_with("slow", "Is slow", slow.clone(), ToolPolicy::read_only().parallel())
    };
    let system = system(describe).await.unwrap();
    let task = system.submit(calls(&["look", "slow"])).await.unwrap();
    system.until_idle().await;
    let now = task.snapshot().await.unwrap();
    assert_eq!(now.state(), TaskState::Working, "the other call is in flight");
    let call_id = now.task().open_questions().next().unwrap().request.call_id.clone();
    task.answer(&call_id, "Oslo", "ada").await.unwrap();
    gate.notify_one();
    let done = system.finish(&task).await.unwrap();
    let error = done.task().error();
    assert_eq!((done.state(), done.task().runs()), (TaskState::Completed, 1), "{error:?}");
    assert_sound(&system);
}

#[tokio::test]
async fn a_crash_after_each_append_of_runs_with_questions_leads_to_what_the_rules_say() {
    let matrix = CrashMatrix::new(tools, |driver| async move {
        for message in [calls(&["pay", "quick"]), calls(&["look", "quick"])] {
            let task = driver.submit(message).await?;
            driver.finish(&task).await?;
            while !task.questions().await?.is_empty() {
                answer(&driver, &task, "7").await?;
            }
        }
        let task = driver.submit(Part::infer("Pay it")).await?;
        driver.finish(&task).await?;
        answer(&driver, &task, "savings").await?;
        answer(&driver, &task, "12").await
    });
    let report = matrix.run().await.unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.cells.contains_key(&(Row::Asked, "manual")), "{report:?}");
    let handler = CrashMatrix::new(
        |builder| builder.handler_with(asking_handler, ToolPolicy::idempotent()),
        |driver| async move {
            let task = driver.submit(user("Coat?")).await?;
            driver.finish(&task).await?;
            answer(&driver, &task, "Oslo").await
        },
    );
    let report = handler.run().await.unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.cells.contains_key(&(Row::Asked, "idempotent")), "{report:?}");
}

/// A person answers after a restart at each cut: every run comes to its end, with every answer used.
#[tokio::test]
async fn whatever_the_cut_the_answers_after_the_restart_end_the_task() {
    let system = system(|builder: Builder| tools_with(builder, ToolPolicy::idempotent())).await.unwrap();
    let task = system.submit(calls(&["pay", "quick"])).await.unwrap();
    system.finish(&task).await.unwrap();
    answer(&system, &task, "savings").await.unwrap();
    answer(&system, &task, "12").await.unwrap();
    let appends = taskreel::testing::appends(system.store().as_ref()).unwrap().len();
    assert!(appends >= 5, "{appends}");
    for cut in 2..=appends {
        let again = system.cut_after(cut).await.unwrap();
        let task = again.task(task.id()).unwrap();
        if again.finish(&task).await.is_err() {
            continue; // Cut before the task was submitted.
        }
        for text in ["savings", "12"] {
            if !task.questions().await.unwrap().is_empty() {
                answer(&again, &task, text).await.unwrap();
            }
        }
        let done = task.snapshot().await.unwrap();
        assert_eq!(done.state(), TaskState::Completed, "cut after {cut}");
        assert_sound(&again);
    }
}
