//! An A2A agent as one that a system asks: what it answers, what it asks itself, cancels, and a system that ends in the middle.

use std::sync::Arc;

use proto_events::call::{CallEvent, CallStatus};

use proto_events::id::Version;
use proto_events::json;
use proto_events::task::TaskEvent;
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{ToolContext, ToolError};
use taskreel::{Builder, JsonSchema, Message, Part, System, TaskHandle, TaskState};
use taskreel_http::a2a::{CardDirectory, Options, Remote};

use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::decode_record;

use crate::agent::Gate;
use crate::ours::handler;
use crate::support::{Host, PATIENCE, actix, builder};

/// Starts an agent that does what it is told, and counts the tasks that it has.
pub(crate) async fn far(gate: &Gate) -> System {
    let builder = System::builder("in memory").store(Arc::new(MemoryStore::new())).name("far");
    with_work(builder, gate).start().await.unwrap()
}

pub(crate) fn with_work(builder: Builder, gate: &Gate) -> Builder {
    let gate = gate.clone();
    builder.handler(move |cx: HandlerContext, message: Message| {
        let gate = gate.clone();
        async move { work(&cx, &message, &gate).await }
    })
}

/// Returns what a message says, whether it is a text or a prompt.
fn said(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| {
        let content = part.content();
        content.to_str().or_else(|| Some(part.as_infer().ok()?.prompt))
    });
    texts.collect::<Vec<_>>().join(" ")
}

async fn work(cx: &HandlerContext, message: &Message, gate: &Gate) -> Result<HandlerEnd, ToolError> {
    match said(message).as_str() {
        "ask" => Ok(HandlerEnd::InputRequired("Which city?".into())),
        "reject" => Ok(HandlerEnd::Rejected("not my work".into())),
        "fail" => Ok(HandlerEnd::Failed("no paper".into())),
        "wait" => {
            gate.pass().await;
            cx.say("the gate is open").await?;
            Ok(HandlerEnd::Completed)
        }
        other => {
            cx.say(&format!("heard {other}")).await?;
            Ok(HandlerEnd::Completed)
        }
    }
}

/// Returns a model that asks the agent `far` this, and ends with what it was answered.
pub(crate) fn asks(prompt: &str) -> Scripted {
    let ask = json!({"type": "agent_call", "agent": "far", "action": "infer", "prompt": prompt});
    Scripted::new([Entry::json(&ask), Entry::Text(r#"{"type": "final", "content": "done"}"#.to_owned())])
}

pub(crate) fn near(store: &Arc<MemoryStore>, url: &str, prompt: &str) -> Builder {
    let remote = Remote::at(url).named("far");
    System::builder("in memory").store(store.clone()).infer(asks(prompt)).peer(remote)
}

pub(crate) fn url(host: &Host) -> String {
    format!("http://{}", host.address)
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Returns the number of tasks that an agent has.
pub(crate) async fn tasks(system: &System) -> Vec<(String, TaskState)> {
    let page = system.tasks().page(100).await.unwrap();
    page.tasks.iter().map(|task| (task.id.clone(), task.state)).collect()
}

/// Returns the words for the events of the calls to the agent.
pub(crate) fn calls(system: &System, task: &TaskHandle) -> Vec<String> {
    let records = system.log().read_stream(task.stream(), Version(1), 10_000).unwrap();
    let events = records.iter().flat_map(|record| decode_record::<TaskEvent>(record).unwrap());
    let word = |event: TaskEvent| match event {
        TaskEvent::Call(CallEvent::Requested(request)) if request.target == "far" => {
            Some(format!("requested {}", request.recovery.as_str()))
        }
        TaskEvent::Call(CallEvent::Accepted { attempt, .. }) => Some(format!("accepted {attempt}")),
        TaskEvent::Call(CallEvent::Asked { question, .. }) => Some(format!("asked {question}")),
        TaskEvent::Call(CallEvent::Answered { .. }) => Some("answered".to_owned()),
        TaskEvent::Call(CallEvent::Canceled { .. }) => Some("canceled".to_owned()),
        TaskEvent::Call(CallEvent::Reconciled { verdict, .. }) => Some(verdict.as_str().to_owned()),
        _ => None,
    };
    events.map(|recorded| recorded.event).filter_map(word).collect()
}

pub(crate) async fn stop(systems: impl IntoIterator<Item = System>) {
    for system in systems {
        let verified = verify(system.log().as_ref());
        assert!(verified.is_sound(), "{verified:?}");
        system.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_of_an_agent_elsewhere_reaches_the_model_and_its_id_stands_in_the_log() {
    let far = far(&Gate::shut()).await;
    let host = actix(handler(&far)).await;
    let store = Arc::new(MemoryStore::new());
    let near = near(&store, &url(&host), "hello").start().await.unwrap();
    let task = near.submit(Part::infer("q")).await.unwrap();
    let ended = task.finished().await.unwrap();
    assert_eq!(ended.state(), TaskState::Completed, "{ended:?}");
    let there = tasks(&far).await;
    assert_eq!(there.len(), 1);
    let snapshot = ended.task();
    let call = snapshot.calls().iter().find(|call| call.request.target == "far").unwrap();
    assert_eq!(call.handle.as_deref(), Some(there[0].0.as_str()));
    let CallStatus::Succeeded(answer) = &call.status else { panic!("{call:?}") };
    assert!(answer.as_str().contains("heard hello") && answer.as_str().contains("\"used\""), "{answer}");
    assert_eq!(calls(&near, &task), ["requested reconcile", "accepted 1"]);
    host.stop().await;
    stop([near, far]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_the_agent_is_asked_of_the_person_and_the_answer_goes_to_its_task() {
    let far = far(&Gate::shut()).await;
    let host = actix(handler(&far)).await;
    let store = Arc::new(MemoryStore::new());
    let near = near(&store, &url(&host), "ask").start().await.unwrap();
    let task = near.submit(Part::infer("q")).await.unwrap();
    let waits = task.finished().await.unwrap();
    assert_eq!(waits.state(), TaskState::InputRequired);
    let call = waits.task().open_questions().next().unwrap().clone();
    assert_eq!(call.open_question(), Some("The agent 'far' asks: Which city?"));
    near.answer(task.id(), &call.question_id(), "Oslo", "ada").await.unwrap();
    let ended = task.finished().await.unwrap();
    assert_eq!(ended.state(), TaskState::Completed, "{ended:?}");
    let call = ended.task().calls().get(&call.request.call_id).unwrap();
    let CallStatus::Succeeded(answer) = &call.status else { panic!("{call:?}") };
    assert!(answer.as_str().contains("heard Oslo"), "{answer}");
    assert_eq!(tasks(&far).await.len(), 1);
    host.stop().await;
    stop([near, far]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_task_cancels_the_task_of_the_agent_elsewhere() {
    let far = far(&Gate::shut()).await;
    let host = actix(handler(&far)).await;
    let store = Arc::new(MemoryStore::new());
    let near = near(&store, &url(&host), "wait").start().await.unwrap();
    let task = near.submit(Part::infer("q")).await.unwrap();
    until("the agent works", async || {
        tasks(&far).await.iter().any(|(_, state)| *state == TaskState::Working)
    })
    .await;
    near.cancel(task.id(), Some("enough")).await.unwrap();
    until("it is canceled", async || tasks(&far).await[0].1 == TaskState::Canceled).await;
    assert_eq!(task.finished().await.unwrap().state(), TaskState::Canceled);
    host.stop().await;
    stop([near, far]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_two_systems_do_not_ask_each_other_in_a_circle() {
    let (near_port, far_port) = (free_address(), free_address());
    let ask = |agent: &str| {
        let ask = json!({"type": "agent_call", "agent": agent, "action": "infer", "prompt": "and you?"});
        Scripted::new([Entry::json(&ask), Entry::Text(r#"{"type": "final", "content": "done"}"#.to_owned())])
    };
    let agent = |name: &str, other: &str, address: &str| {
        let builder = System::builder("in memory").store(Arc::new(MemoryStore::new())).name(name);
        builder.infer(ask(other)).peer(Remote::at(&format!("http://{address}")).named(other))
    };
    let near = agent("near", "far", &far_port).start().await.unwrap();
    let far = agent("far", "near", &near_port).start().await.unwrap();
    let server = |system: &System, address: &str| {
        let server = taskreel_http::Server::new().workers(1).mount("/", handler(system));
        let address = address.to_owned();
        async move { server.start(&address).await.unwrap() }
    };
    let servers = [server(&near, &near_port).await, server(&far, &far_port).await];
    let task = near.submit(Part::infer("q")).await.unwrap();
    let ended = task.finished().await.unwrap();
    assert_eq!(ended.state(), TaskState::Completed, "{ended:?}");
    let there = tasks(&far).await;
    let asked = far.task(&there[0].0).unwrap().snapshot().await.unwrap();
    let asks_back = asked.task().calls().iter().any(|call| call.request.target == "near");
    assert!(!asks_back, "far knows that near waits for it");
    assert_eq!((there.len(), tasks(&near).await.len()), (1, 1));
    for server in servers {
        server.stop().await.unwrap();
    }
    stop([near, far]).await;
}

/// Returns an address that is free.
fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_found_among_cards_and_one_whose_card_fails_is_found_once_it_is_there() {
    let far = far(&Gate::shut()).await;
    let address = free_address();
    let directory = CardDirectory::new([format!("http://{address}")], &Options::new().attempts(1));
    let store = Arc::new(MemoryStore::new());
    let ask = json!({"type": "agent_call", "agent": "far", "action": "infer", "prompt": "hello"});
    let model = Scripted::new([
        Entry::json(&ask),
        Entry::json(&ask),
        Entry::Text(r#"{"type": "final", "content": "done"}"#.to_owned()),
    ]);
    let near = System::builder("in memory").store(store).infer(model).peer_directory(directory);
    let near = near.start().await.unwrap();
    let failed = near.submit(Part::infer("q")).await.unwrap().finished().await.unwrap();
    assert!(
        failed.task().error().is_some_and(|error| error.contains("not all cards could be read")),
        "{failed:?}"
    );
    let server =
        taskreel_http::Server::new().workers(1).mount("/", handler(&far)).start(&address).await.unwrap();
    let task = near.submit(Part::infer("q")).await.unwrap();
    assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
    assert_eq!(tasks(&far).await.len(), 1);
    server.stop().await.unwrap();
    stop([near, far]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_card_that_is_there_at_the_start_is_shown_to_the_model_and_one_that_is_not_is_told_of() {
    let far = builder().name("far").start().await.unwrap();
    let host = actix(handler(&far)).await;
    let (there, away) =
        (Remote::at(&url(&host)).named("far"), Remote::at("http://127.0.0.1:1").named("away"));
    let model = Scripted::new([Entry::Text(r#"{"type": "final", "content": "done"}"#.to_owned())]);
    let near = System::builder("in memory").store(Arc::new(MemoryStore::new())).infer(model);
    let near = near.peer(there.clone()).peer(away.clone()).start().await.unwrap();
    assert_eq!(there.known_card().unwrap().name, "far");
    assert!(there.card_failure().is_none());
    let failure = away.card_failure().unwrap();
    assert!(away.known_card().is_none() && failure.contains("127.0.0.1:1"), "{failure}");
    let definition = near.log().list_streams("agent-", None, 9).unwrap();
    let records = near.log().read_stream(&definition[0].stream, Version(1), 9).unwrap();
    let texts = format!("{:?}", decode_record::<proto_events::definition::AgentEvent>(&records[0]).unwrap());
    assert!(texts.contains("echo") && texts.contains("away"), "the skills of the card: {texts}");
    host.stop().await;
    stop([near, far]).await;
}

#[derive(serde::Deserialize, JsonSchema)]
struct NoArgs {}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_asks_the_agent_waits_for_the_same_answer() {
    let far = far(&Gate::shut()).await;
    let host = actix(handler(&far)).await;
    let near = System::builder("in memory").store(Arc::new(MemoryStore::new()));
    let near = near.peer(Remote::at(&url(&host)).named("far"));
    let near = near.tool("trip", "Plans", |cx: ToolContext, _: NoArgs| async move {
        let answer = cx.delegate("far", "ask").await?;
        Ok::<_, ToolError>(answer.result)
    });
    let near = near.start().await.unwrap();
    for way in ["message", "tool", "agent"] {
        let part = Part::tool_call("trip", json!({})).unwrap();
        let task = near.submit(part).await.unwrap();
        let waits = task.finished().await.unwrap();
        assert_eq!(waits.state(), TaskState::InputRequired, "{waits:?}");
        let question_of = |target: &str| {
            let mut open = waits.task().open_questions();
            open.find(|call| call.request.target == target).unwrap().question_id()
        };
        match way {
            "message" => {
                let message = Message::user("Oslo", &mut taskreel::Ports::default());
                let command = proto_events::task::TaskCommand::AppendMessage(message);
                task.command(command).await.unwrap();
            }
            "tool" => drop(task.answer(&question_of("trip"), "Oslo", "ada").await.unwrap()),
            _ => drop(task.answer(&question_of("far"), "Oslo", "ada").await.unwrap()),
        }
        let ended = task.finished().await.unwrap();
        assert_eq!(ended.state(), TaskState::Completed, "{way}: {ended:?}");
        let said = format!("{:?}", ended.task().artifacts().iter().collect::<Vec<_>>());
        assert!(said.contains("heard Oslo"), "{way}: {said}");
    }
    assert_eq!(tasks(&far).await.len(), 3);
    host.stop().await;
    stop([near, far]).await;
}
