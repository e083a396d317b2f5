//! The blocking client: without a runtime, and within those of others.
#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use proto_events::json;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{
    AgentCard, HistoryCompactionRequest, Message, PostedTask, StateOperationRequest, TaskCancellationRequest,
    TaskState,
};
use support::{Host, PATIENCE, actix, builder, model};
use taskreel::{Part, Ports, System};
use taskreel_http::protolink::{BlockingClient, ClientError};
use taskreel_http::{AgentFilter, HttpHandler, Mounted, Protolink, Registry, RegistryHandler};

fn client() -> BlockingClient {
    BlockingClient::new().unwrap().timeout(PATIENCE)
}

fn posted(part: Part) -> PostedTask {
    let mint = &mut Ports::default();
    PostedTask::new(Message::new("user", vec![part.hydrated(mint).unwrap()], mint), mint)
}

fn echo(text: &str) -> PostedTask {
    posted(Part::tool_call("echo", json!({"text": text})).unwrap())
}

/// Returns a server of agents and of a registry.
async fn served(system: &System) -> (Host, String) {
    let registry = Registry::new(system, "main").unwrap();
    let both = Mounted::new()
        .mount("/", Arc::new(RegistryHandler::new(registry)) as Arc<dyn HttpHandler>)
        .mount("/", Arc::new(Protolink::new(system.clone())));
    let host = actix(Arc::new(both)).await;
    let url = format!("http://{}", host.address);
    (host, url)
}

#[test]
fn a_program_without_a_runtime_makes_every_call() {
    // The server's own runtime, on threads of its own.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (system, host, url) = runtime.block_on(async {
        let system = builder().infer(model(&["hello", "again", "more"])).start().await.unwrap();
        let (host, url) = served(&system).await;
        (system, host, url)
    });
    let client = client();
    let done = client.send_task(&url, &echo("é")).unwrap();
    assert_eq!((done.state, done.output().unwrap().as_str()), (TaskState::Completed, "\"é\""));
    let mut task = posted(Part::infer("hi"));
    task.metadata.set("session_id", JsonText::string("s"));
    let mut events = client.send_task_streaming(&url, &task).unwrap();
    let kinds: Vec<_> = events.by_ref().map(|event| event.unwrap().type_name()).collect();
    assert!(kinds.contains(&"task_llm_stream") && kinds.last() == Some(&"task_status_update"), "{kinds:?}");
    assert!(events.next().is_none(), "nothing follows the final event");
    let place = events.last_event_id().unwrap();
    assert!(client.resume_task_streaming(&url, &task, place).unwrap().all(|event| event.is_ok()));
    let said = client.send_message(&url, Message::user("x", &mut Ports::default())).unwrap();
    assert_eq!(said.role.as_deref(), Some("user"));
    assert_eq!(client.chat(&url, "hi", Some("s")).unwrap().as_str(), "\"again\"");
    let cancel = TaskCancellationRequest::new("nobody", None, JsonObject::new()).unwrap();
    assert_eq!(client.cancel_task(&url, &cancel).unwrap_err().code().as_deref(), Some("not_found"));
    assert_eq!(client.get_agent_card(&url).unwrap().name, "agent");
    assert!(client.status(&url).unwrap().contains("<html"));
    let of = |json: proto_events::json::JsonValue| StateOperationRequest::from_json(&json.to_text()).unwrap();
    let session = of(json!({"session_id": "s"}));
    assert!(!client.describe_state(&url, &session).unwrap().stores.is_empty());
    let history = json!({"session_id": "s", "strategy": "recent", "max_messages": 3}).to_text();
    let history = HistoryCompactionRequest::from_json(&history).unwrap();
    assert_eq!(client.compact_history(&url, &history).unwrap().after_messages, 3);
    let compact = of(json!({"session_id": "s", "strategy": "recent", "max_messages": 2}));
    assert_eq!(client.compact_state(&url, &compact).unwrap().compacted, ["conversation"]);
    assert!(client.reset_state(&url, &session).unwrap().cleared.contains(&"conversation".to_owned()));
    let card = AgentCard::new("desk", "Answers", "http://127.0.0.1:1");
    client.register(&url, &card).unwrap();
    assert!(client.heartbeat(&url, &card.url).unwrap());
    assert_eq!(client.discover(&url, &AgentFilter::new().name("desk")).unwrap().len(), 1);
    client.unregister(&url, &card.url).unwrap();
    // Through a socket too.
    let done = client.send_task(&url.replace("http", "ws"), &echo("ø")).unwrap();
    assert_eq!(done.output().unwrap().as_str(), "\"ø\"");
    runtime.block_on(async {
        host.stop().await;
        system.shutdown().await.unwrap();
    });
    let gone = client.send_task(&url, &echo("x")).unwrap_err();
    assert!(matches!(gone, ClientError::Unreachable { .. }), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_within_a_worker_thread_of_another_runtime_waits_and_does_not_panic() {
    let system = builder().start().await.unwrap();
    let (host, url) = served(&system).await;
    let (of_task, to) = (client(), url.clone());
    let in_task = tokio::spawn(async move {
        let done = of_task.send_task(&to, &echo("task")).unwrap();
        let events = of_task.send_task_streaming(&to, &echo("stream")).unwrap();
        // The client ends within the runtime too.
        (done.state, events.flatten().count())
    });
    let (state, events) = in_task.await.unwrap();
    assert!(state == TaskState::Completed && events >= 3, "{events} events");
    let (of_pool, to) = (client(), url.clone());
    let in_pool = tokio::task::spawn_blocking(move || of_pool.send_task(&to, &echo("pool")));
    assert_eq!(in_pool.await.unwrap().unwrap().state, TaskState::Completed);
    let shared = client();
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let (client, url) = (shared.clone(), url.clone());
            std::thread::spawn(move || client.send_task(&url, &echo(&number.to_string())).unwrap())
        })
        .collect();
    for (number, thread) in threads.into_iter().enumerate() {
        let done = tokio::task::block_in_place(|| thread.join().unwrap());
        assert_eq!(done.output().unwrap().to_str().unwrap(), number.to_string());
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_call_that_waits_for_the_very_thread_that_it_holds_ends_with_its_time_limit() {
    // The tools of this system run on this runtime, which has one thread.
    let system = builder().start().await.unwrap();
    let (host, url) = served(&system).await;
    let client = client();
    assert_eq!(client.get_agent_card(&url).unwrap().name, "agent");
    let began = Instant::now();
    let impatient = client.timeout(Duration::from_millis(300));
    let late = impatient.send_task(&url, &echo("x")).unwrap_err();
    assert!(matches!(late, ClientError::TimedOut { .. }) && began.elapsed() < PATIENCE, "{late}");
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[test]
fn a_wrong_address_is_told_at_once() {
    for wrong in ["", "desk", "ftp://h", "http://u:p@h"] {
        assert!(matches!(client().get_agent_card(wrong), Err(ClientError::Url { .. })), "{wrong}");
    }
}
