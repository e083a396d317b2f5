//! The client through a WebSocket of our own agents.
#![cfg(feature = "client")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proto_events::call::CallStatus;
use proto_events::json;
use proto_events::json::JsonObject;
use proto_events::model::{
    HistoryCompactionRequest, Message, PostedTask, StateOperationRequest, TaskCancellationRequest, TaskState,
};
use support::{Host, PATIENCE, actix, builder, model};
use taskreel::infer::{Entry, Scripted};
use taskreel::peer::{Peer as _, PeerErrorKind};
use taskreel::{JsonText, Part, Ports, System};
use taskreel_http::protolink::{Client, ClientError, Credentials, Remote};
use taskreel_http::{Access, Guard, Protolink, Scopes};
use tokio::net::{TcpListener, TcpStream};

fn client() -> Client {
    Client::new().unwrap().timeout(PATIENCE)
}

fn posted(part: Part) -> PostedTask {
    let mint = &mut Ports::default();
    PostedTask::new(Message::new("user", vec![part.hydrated(mint).unwrap()], mint), mint)
}

fn call(tool: &str, args: proto_events::json::JsonValue) -> PostedTask {
    posted(Part::tool_call(tool, args).unwrap())
}

/// Returns a server of a system's agents, and its address behind a relay that counts connections.
async fn agent(system: &System) -> (Host, String, Arc<AtomicUsize>) {
    let host = actix(Arc::new(Protolink::new(system.clone()))).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let (count, to) = (Arc::<AtomicUsize>::default(), host.address);
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await.unwrap();
                let _ended = tokio::io::copy_bidirectional(&mut socket, &mut server).await;
            });
        }
    });
    (host, url, count)
}

#[tokio::test]
async fn each_request_of_the_client_is_answered_through_one_socket() {
    let system = builder().infer(model(&["hello", "again", "more"])).start().await.unwrap();
    let (host, url, connections) = agent(&system).await;
    let client = client();
    let done = client.send_task(&url, &call("echo", json!({"text": "é"}))).await.unwrap();
    assert_eq!((done.state, done.output().unwrap().as_str()), (TaskState::Completed, "\"é\""));
    let failed = client.send_task(&url, &call("nothing", json!({}))).await.unwrap();
    assert!(failed.raise_for_status().unwrap_err().to_string().contains("Tool 'nothing' not found"));
    let mut task = posted(Part::infer("hi"));
    task.metadata.set("session_id", JsonText::string("s"));
    let mut stream = client.send_task_streaming(&url, &task).await.unwrap();
    let mut kinds = Vec::new();
    while let Some(event) = stream.next().await {
        kinds.push(event.unwrap().type_name());
    }
    assert!(kinds.contains(&"task_llm_stream") && kinds.last() == Some(&"task_status_update"), "{kinds:?}");
    let place = stream.last_event_id().unwrap().to_owned();
    let mut again = client.resume_task_streaming(&url, &task, &place).await.unwrap();
    let mut rest = 0;
    while let Some(event) = again.next().await {
        event.unwrap();
        rest += 1;
    }
    assert!(rest <= 1, "what was shown is not shown again: {rest}");
    assert_eq!(client.chat(&url, "hi", Some("s")).await.unwrap().as_str(), "\"again\"");
    assert!(client.status(&url).await.unwrap().contains("<html"));
    assert_eq!(client.get_agent_card(&url).await.unwrap().name, "agent");
    let of = |json: proto_events::json::JsonValue| StateOperationRequest::from_json(&json.to_text()).unwrap();
    let session = of(json!({"session_id": "s"}));
    let described = client.describe_state(&url, &session).await.unwrap();
    assert!(described.stores.iter().any(|store| store.message_count == Some(5)), "{described:?}");
    let history = json!({"session_id": "s", "strategy": "recent", "max_messages": 3}).to_text();
    let history = HistoryCompactionRequest::from_json(&history).unwrap();
    assert_eq!(client.compact_history(&url, &history).await.unwrap().after_messages, 3);
    let compact = of(json!({"session_id": "s", "strategy": "recent", "max_messages": 2}));
    assert_eq!(client.compact_state(&url, &compact).await.unwrap().compacted, ["conversation"]);
    assert!(client.reset_state(&url, &session).await.unwrap().cleared.contains(&"conversation".to_owned()));
    let unknown = TaskCancellationRequest::new("nobody", None, JsonObject::new()).unwrap();
    let unknown = client.cancel_task(&url, &unknown).await.unwrap_err();
    assert_eq!(unknown.code().as_deref(), Some("not_found"), "{unknown}");
    assert!(unknown.is_before_effect() && unknown.to_string().contains("TaskNotFoundError"), "{unknown}");
    let refused = client.send_task(&url, &PostedTask { id: String::new(), ..task }).await.unwrap_err();
    assert!(matches!(&refused, ClientError::Refused { kind, .. } if kind == "ValueError"), "{refused}");
    // One for all requests, and one for cancels.
    assert_eq!(connections.load(Ordering::SeqCst), 2);
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_long_run_holds_up_neither_the_requests_after_it_nor_its_cancel() {
    let system = builder().start().await.unwrap();
    let (host, url, connections) = agent(&system).await;
    let (client, slow) = (client(), call("slow", json!({"ms": 600_000})));
    let sent = tokio::spawn({
        let (client, url, slow) = (client.clone(), url.clone(), slow.clone());
        async move { client.send_task(&url, &slow).await }
    });
    let quick: Vec<_> = (0..100).map(|index| call("echo", json!({"text": format!("{index}")}))).collect();
    let answers = futures_util::future::join_all(quick.iter().map(|task| client.send_task(&url, task))).await;
    for (index, answer) in answers.into_iter().enumerate() {
        let text = answer.unwrap().output().unwrap().to_str().unwrap();
        assert_eq!(text, index.to_string(), "each request gets its own answer");
    }
    assert!(!sent.is_finished() && connections.load(Ordering::SeqCst) == 1);
    let cancel = TaskCancellationRequest::new(&slow.id, Some("late"), JsonObject::new()).unwrap();
    while client.cancel_task(&url, &cancel).await.is_err() {}
    assert_eq!(sent.await.unwrap().unwrap().state, TaskState::Canceled);
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_request_that_is_given_up_leaves_the_socket_to_the_others() {
    let system = builder().start().await.unwrap();
    let (host, url, connections) = agent(&system).await;
    let client = client();
    let impatient = client.clone().timeout(Duration::from_millis(50));
    let late = impatient.send_task(&url, &call("slow", json!({"ms": 2_000}))).await.unwrap_err();
    assert!(matches!(late, ClientError::TimedOut { .. }) && !late.is_before_effect(), "{late}");
    drop(client.send_task_streaming(&url, &call("slow", json!({"ms": 2_000}))).await.unwrap());
    let done = client.send_task(&url, &call("echo", json!({"text": "x"}))).await.unwrap();
    assert_eq!(done.state, TaskState::Completed);
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_handshake_shows_the_credentials_and_a_server_that_ends_and_comes_back_is_reached_again() {
    let system = builder().start().await.unwrap();
    let access = Access::open().with_token("ada", Scopes::ALL, "s3cret-t0ken").unwrap();
    let guard = Guard::new(access, Arc::new(Protolink::new(system.clone())));
    let host = actix(Arc::new(guard)).await;
    let (address, url) = (host.address, format!("ws://{}", host.address));
    let task = call("echo", json!({"text": "x"}));
    let nobody = client().send_task(&url, &task).await.unwrap_err();
    assert!(matches!(&nobody, ClientError::Status { status, .. } if *status == 401), "{nobody}");
    let wrong = client().credentials(Credentials::ApiKey("wr0ng".to_owned()));
    assert!(wrong.send_task(&url, &task).await.unwrap_err().is_before_effect());
    let known = client().credentials(Credentials::Bearer("s3cret-t0ken".to_owned()));
    assert_eq!(known.send_task(&url, &task).await.unwrap().state, TaskState::Completed);
    // A clone under another name does not use the socket of the first one.
    let wrong = known.clone().credentials(Credentials::Bearer("wr0ng".to_owned()));
    assert!(matches!(wrong.send_task(&url, &task).await, Err(ClientError::Status { .. })));
    host.stop().await;
    let gone = known.send_task(&url, &task).await.unwrap_err();
    assert!(matches!(gone, ClientError::Unreachable { .. }), "{gone}");
    let again = taskreel_http::Server::new().mount("/", Arc::new(Protolink::new(system.clone())));
    let again = again.start(address).await.unwrap();
    assert_eq!(known.send_task(&url, &task).await.unwrap().state, TaskState::Completed);
    // A socket without a request in flight does not hold up the end.
    tokio::time::timeout(PATIENCE / 2, again.stop()).await.unwrap().unwrap();
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_server_that_stops_answers_what_is_in_flight_on_a_socket_and_then_says_that_it_goes() {
    let system = builder().start().await.unwrap();
    let server = taskreel_http::Server::new().grace(PATIENCE);
    let host = support::actix_with(server, Arc::new(Protolink::new(system.clone()))).await;
    let (client, url) = (client(), format!("ws://{}", host.address));
    let task = call("slow", json!({"ms": 500}));
    let mut stream = client.send_task_streaming(&url, &task).await.unwrap();
    let sent = client.send_task(&url, &task);
    let answered = async {
        let mut last = None;
        while let Some(event) = stream.next().await {
            last = Some(event.unwrap().type_name());
        }
        last
    };
    let ((), last) = tokio::join!(host.stop(), answered);
    assert_eq!(last, Some("task_status_update"), "the run was shown up to its end");
    assert!(matches!(sent.await, Err(ClientError::Unreachable { .. })));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_agent_at_an_address_of_a_socket_is_asked_by_a_recorded_call() {
    let other = System::builder("in memory").store(Arc::new(taskreel_log::memory::MemoryStore::new()));
    let other = support::with_tools(other.name("far")).start().await.unwrap();
    let (host, url, _) = agent(&other).await;
    let ask = json!({"type": "agent_call", "agent": "far", "action": "tool_call", "tool": "echo", "args": {"text": "far"}});
    let script =
        Scripted::new([Entry::json(&ask), Entry::json(&json!({"type": "final", "content": "done"}))]);
    let remote = Remote::at(&client(), &url).await.unwrap();
    let system = builder().infer(script).peer(remote.clone()).start().await.unwrap();
    let task = system.submit(Part::infer("q")).await.unwrap().finished().await.unwrap();
    assert_eq!(task.answer().unwrap().as_str(), "\"done\"");
    assert!(task.task().calls().iter().any(|call| matches!(call.status, CallStatus::Succeeded(_))));
    let unknown = remote.cancel("nobody", "late").await.unwrap_err();
    assert_eq!(unknown.kind(), PeerErrorKind::NotFound);
    system.shutdown().await.unwrap();
    host.stop().await;
    other.shutdown().await.unwrap();
}
