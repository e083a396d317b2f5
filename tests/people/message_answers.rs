//! A plain message to a task that waits for the answer to a question is that answer, as A2A's clients send it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use proto_events::call::CallStatus;
use proto_events::json;
use proto_events::json::JsonText;
use serde::Deserialize;
use taskreel::handler::{Answer, HandlerContext, HandlerEnd};
use taskreel::infer::Scripted;
use taskreel::testing::{CrashMatrix, Driver, assert_well_formed, system};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, JsonSchema, Message, Part, PostedTask, TaskCommand, TaskHandle, TaskState};
use taskreel_log::ports::Ports;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn pay(cx: ToolContext, _: Nothing) -> Result<String, ToolError> {
    let account = cx.ask("Which account?").await?;
    let amount = cx.ask("How much?").await?;
    Ok(format!("paid {amount} from {account}"))
}

async fn greets(cx: HandlerContext, message: Message) -> Result<HandlerEnd, ToolError> {
    let city = cx.ask("Which city?").await?;
    cx.say(&format!("{city} of {}", message.parts.len())).await?;
    Ok(HandlerEnd::Completed)
}

const SCRIPT: &str = r#"{"waited for a person's answer has ended": [{"type": "final", "content": "done"}],
    "": [{"type": "tool_call", "tool": "pay", "args": {}}, {"type": "final", "content": "done"}]}"#;

fn tools(builder: Builder) -> Builder {
    builder.tool("pay", "Pays", pay).infer(Scripted::from_json(SCRIPT).unwrap())
}

fn message(id: &str, parts: Vec<Part>) -> Message {
    Message { id: Some(id.to_owned()), role: Some("user".to_owned()), parts, timestamp: None }
}

fn says(id: &str, text: &str) -> TaskCommand {
    TaskCommand::AppendMessage(message(id, vec![Part::text(text)]))
}

fn pays() -> Part {
    Part::tool_call("pay", json!({})).unwrap()
}

async fn waiting(driver: &Driver, part: Part) -> TaskHandle {
    let task = driver.submit(part).await.unwrap();
    assert_eq!(driver.finish(&task).await.unwrap().state(), TaskState::InputRequired);
    task
}

#[tokio::test]
async fn messages_answer_the_questions_of_a_part_and_of_a_models_call_one_after_the_other() {
    let system = system(tools).await.unwrap();
    for part in [pays(), Part::infer("Pay it")] {
        let task = waiting(&system, part).await;
        task.acting_as("ada").command(says("m1", "savings")).await.unwrap();
        let asked = task.snapshot().await.unwrap();
        let call = asked.task().calls().iter().find(|call| call.request.target == "pay").unwrap();
        assert_eq!(call.questions[0].answer, Some(Answer::Given("savings".into())));
        assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::InputRequired, "it asks again");
        task.command(says("m2", "12")).await.unwrap();
        let done = system.finish(&task).await.unwrap();
        assert_eq!(done.state(), TaskState::Completed, "{:?}", done.task().error());
        let call = done.task().calls().iter().find(|call| call.request.target == "pay").unwrap();
        assert_eq!(call.status, CallStatus::Succeeded(JsonText::string("paid 12 from savings")));
        let said = |text: &str| {
            let parts = done.task().messages().iter().flat_map(|message| &message.parts);
            parts.filter(|part| part.content().to_str().as_deref() == Some(text)).count()
        };
        assert_eq!((said("savings"), said("12")), (1, 1), "each answer stands once among the messages");
    }
    assert_well_formed(system.store().as_ref());
}

#[tokio::test]
async fn a_message_answers_a_handler_and_is_the_message_of_its_next_run() {
    let system = system(|builder| builder.handler(greets)).await.unwrap();
    let task = waiting(&system, Part::text("hello")).await;
    task.command(says("m1", "Oslo")).await.unwrap();
    let done = system.finish(&task).await.unwrap();
    assert_eq!((done.state(), done.task().runs()), (TaskState::Completed, 2));
    let told: Vec<_> = done.task().messages().iter().map(|message| message.id.clone().unwrap()).collect();
    assert_eq!((told.len(), told[2].as_str()), (4, "m1"), "{told:?}");
    assert_well_formed(system.store().as_ref());
}

#[tokio::test]
async fn a_task_posted_again_with_one_message_more_is_answered_by_it_and_the_same_post_again_adds_nothing() {
    let system = system(tools).await.unwrap();
    let task = waiting(&system, pays()).await;
    let posted = |text: &str, more: &str| {
        let mut known =
            PostedTask::from_json(&JsonText::parse(text).unwrap(), &mut Ports::default()).unwrap();
        known.messages.push(message("m1", vec![Part::text(more)]));
        let text = known.to_json();
        PostedTask::from_json(&text, &mut Ports::default()).unwrap()
    };
    let known = task.snapshot().await.unwrap().to_json();
    for _ in 0..2 {
        system.submit(posted(known.as_str(), "savings")).await.unwrap();
        let asks = system.finish(&task).await.unwrap();
        assert_eq!((asks.state(), asks.task().runs()), (TaskState::InputRequired, 2));
        let call = asks.task().calls().iter().next().unwrap();
        assert_eq!((call.questions.len(), call.open_question()), (2, Some("How much?")));
    }
    assert_well_formed(system.store().as_ref());
}

#[tokio::test]
async fn a_message_that_is_sent_twice_answers_one_question() {
    let system = system(tools).await.unwrap();
    let task = waiting(&system, pays()).await;
    for _ in 0..2 {
        task.command(says("m1", "savings")).await.unwrap();
        let asks = system.finish(&task).await.unwrap();
        let call = asks.task().calls().iter().next().unwrap();
        assert_eq!((asks.task().runs(), call.open_question()), (2, Some("How much?")));
    }
    assert_well_formed(system.store().as_ref());
}

#[tokio::test]
async fn what_is_no_plain_message_of_a_user_is_no_answer() {
    let system = system(tools).await.unwrap();
    let task = waiting(&system, pays()).await;
    let agents = Message::agent("a note", &mut Ports::default());
    let empty = message("m0", Vec::new());
    let work = message("m1", vec![Part::text("instead:"), Part::infer("Pay it")]);
    for other in [agents, empty, work] {
        task.command(TaskCommand::AppendMessage(other)).await.unwrap();
        let kept = task.snapshot().await.unwrap();
        assert_eq!((kept.state(), kept.task().open_questions().count()), (TaskState::InputRequired, 1));
    }
    // The one with work in it replaces the question, once the host lets it run.
    let end = task.command(TaskCommand::Begin).await.unwrap();
    let begun = system.state_at(task.id(), end.version).await.unwrap();
    let given_up = begun.task().calls().iter().next().unwrap();
    assert_eq!((begun.state(), &given_up.status), (TaskState::Working, &CallStatus::Canceled));
    assert_well_formed(system.store().as_ref());
}

#[tokio::test]
async fn a_crash_after_each_append_of_answers_by_message_leads_to_what_the_rules_say() {
    let describe = |builder: Builder| builder.tool_with("pay", "Pays", pay, ToolPolicy::idempotent());
    let matrix = CrashMatrix::new(describe, |driver| async move {
        let task = driver.submit(pays()).await?;
        for (id, text) in [("m1", "savings"), ("m2", "12")] {
            driver.finish(&task).await?;
            task.command(says(id, text)).await?;
        }
        driver.finish(&task).await.map(drop)
    });
    matrix.run().await.unwrap_or_else(|broken| panic!("{broken}"));
}
