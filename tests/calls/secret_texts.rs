//! Secret values that arrive where no declared argument is: in the calls of a tool that the agent no longer has, in what
//! a handler says, in what a person answers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::{Arc, Mutex};

use crate::bench::{Bench, Does, Login, PASSWORD, ended, files, login, spills};
use proto_events::json;
use proto_events::json::JsonText;
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::infer::Scripted;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy, Verdict};
use taskreel::{Artifact, Message, Part, PostedTask, System, TaskCommand, TaskHandle, TaskState};
use taskreel_log::ports::Ports;

#[tokio::test]
async fn the_values_of_a_tool_that_the_agent_no_longer_has_are_replaced_as_before() {
    let dir = tempfile::tempdir().unwrap();
    Bench::default().start(dir.path(), ToolPolicy::idempotent()).await.shutdown().await.unwrap();
    let args = json!({"user": "ada", "password": PASSWORD});
    let text = json!({"type": "tool_call", "tool": "login", "args": args.clone()});
    let native = json!({"calls": [json!({"tool": "login", "args": args})]});
    let answer = json!({"type": "final", "content": "done"});
    let script = JsonText::from(json!([text, native, answer]));
    // Two more starts: the declaration is remembered beyond the next one.
    System::builder(dir.path()).system_prompt("Be brief.").start().await.unwrap().shutdown().await.unwrap();
    let builder = System::builder(dir.path()).infer(Scripted::from_json(script.as_str()).unwrap());
    let system = builder.start().await.unwrap();
    let part = json!({"type": "infer", "content": json!({"prompt": "log in"})});
    let end = ended(&system.submit(crate::bench::task("asked", &part)).await.unwrap()).await;
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    let posted = ended(&system.submit(login(PASSWORD)).await.unwrap()).await;
    assert!(posted.to_json().as_str().contains("Tool 'login' not found"), "{}", posted.to_json());
    system.shutdown().await.unwrap();
    assert!(spills(dir.path()).is_empty(), "the log holds the value: {:?}", spills(dir.path()));
    assert!(files(dir.path()).is_empty(), "no call needs the value");
}

/// A handler that repeats the value in all that it may say, and ends as the number says.
async fn repeats(cx: HandlerContext, ends: usize) -> Result<HandlerEnd, ToolError> {
    let text = || vec![Part::text(PASSWORD)];
    cx.say(&format!("it is {PASSWORD}")).await?;
    cx.append_message(vec![Part::new("json", JsonText::from(json!({"key": PASSWORD})))]).await?;
    cx.append_artifact(text()).await?;
    cx.append_piece("piece", text(), false).await?;
    cx.append_piece("piece", text(), true).await?;
    // A value that the task does not know is one of an argument.
    let args = json!({"user": "ada", "password": "other-battery-4711"});
    let call = Part::tool_call("login", args).unwrap();
    cx.append_message(vec![Part::text("with other-battery-4711"), call]).await?;
    cx.say("and other-battery-4711").await?;
    match ends {
        0 => Ok(HandlerEnd::InputRequired(PASSWORD.to_owned())),
        1 => Ok(HandlerEnd::Rejected(PASSWORD.to_owned())),
        2 => Ok(HandlerEnd::Failed(PASSWORD.to_owned())),
        3 => Err(ToolError::failed(PASSWORD)),
        4 => Err(ToolError::lost(PASSWORD)),
        5 => panic!("{PASSWORD}"),
        _ => cx.ask(PASSWORD).await.map(|_| HandlerEnd::Completed),
    }
}

#[tokio::test]
async fn what_a_handler_says_and_how_it_ends_is_masked() {
    for ends in 0..=6 {
        let dir = tempfile::tempdir().unwrap();
        let handle = move |cx: HandlerContext, _: Message| repeats(cx, ends);
        let builder = Bench::default().builder(dir.path(), ToolPolicy::idempotent());
        let system = builder.handler_with(handle, ToolPolicy::manual()).start().await.unwrap();
        let mut end = ended(&system.submit(login(PASSWORD)).await.unwrap()).await;
        if ends == 6 {
            let call = end.task().open_questions().next().unwrap().request.call_id.clone();
            let task = system.task(crate::bench::TASK).unwrap();
            task.answer(&call, format!("no, {PASSWORD}"), "ada").await.unwrap();
            end = ended(&task).await;
        }
        let shown = end.to_json();
        assert!(
            end.task().messages().len() > 3 && shown.as_str().contains("it is secret:sha256-"),
            "{shown}"
        );
        system.shutdown().await.unwrap();
        assert!(spills(dir.path()).is_empty(), "{ends}: the log holds the value");
    }
}

/// The answers that a tool got, as it got them.
type Heard = Arc<Mutex<Vec<String>>>;

async fn asking(dir: &std::path::Path, heard: &Heard) -> System {
    let heard = Arc::clone(heard);
    let ask = move |cx: ToolContext, asked: Login| {
        let heard = Arc::clone(&heard);
        async move {
            let answer = match cx.ask(&format!("{} uses {}?", asked.user, asked.password)).await {
                Err(error) if error.type_name() == "Declined" => error.message().to_owned(),
                answer => answer?,
            };
            heard.lock().unwrap().push(answer);
            Ok::<_, ToolError>("done")
        }
    };
    let policy = ToolPolicy::idempotent().secret_args(["password"]);
    System::builder(dir).tool_with("login", "Asks", ask, policy).start().await.unwrap()
}

async fn answer(system: &System, task: &TaskHandle, how: &str) {
    let text = format!("yes, {PASSWORD}");
    let said = || Message::user(&text, &mut Ports::default());
    let now = task.snapshot().await.unwrap();
    let call = now.task().open_questions().next().unwrap().request.call_id.clone();
    match how {
        "answer" => drop(task.answer(&call, text, "ada").await.unwrap()),
        "decline" => drop(task.decline(&call, &text, "ada").await.unwrap()),
        "message" => drop(task.command(TaskCommand::AppendMessage(said())).await.unwrap()),
        _ => {
            let mut posted = PostedTask::from_json(&now.to_json(), &mut Ports::default()).unwrap();
            posted.messages.push(said());
            system.submit(posted).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_answer_that_repeats_a_value_is_masked_in_the_log_and_reaches_the_tool_in_clear() {
    for how in ["answer", "decline", "message", "post"] {
        let (dir, heard) = (tempfile::tempdir().unwrap(), Heard::default());
        let system = asking(dir.path(), &heard).await;
        let task = system.submit(login(PASSWORD)).await.unwrap();
        assert_eq!(ended(&task).await.state(), TaskState::InputRequired);
        answer(&system, &task, how).await;
        let end = ended(&task).await;
        assert_eq!(end.state(), TaskState::Completed, "{how}: {}", end.to_json());
        assert_eq!(*heard.lock().unwrap(), [format!("yes, {PASSWORD}")], "{how}");
        system.shutdown().await.unwrap();
        assert!(
            spills(dir.path()).is_empty() && files(dir.path()).is_empty(),
            "{how}: the log holds the value"
        );
    }
}

#[tokio::test]
async fn a_probe_that_panics_or_fails_with_the_value_is_masked() {
    for panics in [true, false] {
        let probe = move |_: ToolContext, asked: Login| async move {
            assert!(!panics, "cannot find {}", asked.password);
            Err::<Verdict, _>(ToolError::failed(format!("not found: {}", asked.password)))
        };
        let dir = tempfile::tempdir().unwrap();
        let system = Bench::that(Does::Loses).start(dir.path(), ToolPolicy::reconcile(probe)).await;
        let end = ended(&system.submit(login(PASSWORD)).await.unwrap()).await;
        assert_eq!(end.state(), TaskState::InputRequired, "{}", end.to_json());
        system.shutdown().await.unwrap();
        assert!(spills(dir.path()).is_empty(), "panics: {panics}: the log holds the value");
    }
}

#[tokio::test]
async fn a_value_in_a_call_that_a_caller_adds_with_an_artifact_or_a_piece_of_one_is_not_in_the_log() {
    let part = || {
        let args = json!({"user": "ada", "password": PASSWORD});
        Part::tool_call("login", args).unwrap()
    };
    let artifact = || Artifact::new(vec![part()], &mut Ports::default());
    for command in [
        TaskCommand::AppendMessage(Message::new("agent", vec![part()], &mut Ports::default())),
        TaskCommand::AppendArtifact { artifact: artifact(), part: None },
        TaskCommand::AppendArtifactPart { artifact: artifact(), is_last: true },
    ] {
        let (dir, heard) = (tempfile::tempdir().unwrap(), Heard::default());
        let system = asking(dir.path(), &heard).await;
        let task = system.submit(login("another-value")).await.unwrap();
        assert_eq!(ended(&task).await.state(), TaskState::InputRequired);
        let which = format!("{command:?}").chars().take(20).collect::<String>();
        task.command(command).await.unwrap();
        let shown = task.snapshot().await.unwrap().to_json();
        assert!(shown.as_str().matches("secret:sha256-").count() >= 2, "{which}: {shown}");
        system.shutdown().await.unwrap();
        assert!(spills(dir.path()).is_empty(), "{which}: the log holds the value");
    }
}
