//! The client against our own handlers over sockets, against servers that misbehave, and as an agent that a system asks.
#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use proto_events::call::CallStatus;
use proto_events::envelope::Principal;
use proto_events::json;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{AgentCard, Message, PostedTask, TaskCancellationRequest, TaskState};
use support::{Host, PATIENCE, actix, builder, model};
use taskreel::infer::{Entry, Scripted};
use taskreel::{Part, Ports, System, TaskStreamPayload};
use taskreel_http::protolink::{Client, ClientError, Remote};
use taskreel_http::{AgentFilter, HttpHandler, Mounted, Protolink, Registry, RegistryHandler};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

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

async fn agent(system: &System) -> (Host, String) {
    let host = actix(Arc::new(Protolink::new(system.clone()))).await;
    let url = format!("http://{}", host.address);
    (host, url)
}

#[tokio::test]
async fn a_task_is_sent_and_streamed_and_one_that_failed_is_an_answer() {
    let system = builder().infer(model(&["hello", "again"])).start().await.unwrap();
    let (host, url) = agent(&system).await;
    let client = client();
    let done = client.send_task(&url, &call("echo", json!({"text": "é"}))).await.unwrap();
    assert_eq!((done.state, done.output().unwrap().as_str()), (TaskState::Completed, "\"é\""));
    let failed = client.send_task(&url, &call("nothing", json!({}))).await.unwrap();
    let error = failed.raise_for_status().unwrap_err().to_string();
    assert!(error.contains("failed: Tool 'nothing' not found"), "{error}");
    let task = posted(Part::infer("hi"));
    let mut stream = client.send_task_streaming(&url, &task).await.unwrap();
    let mut kinds = Vec::new();
    while let Some(event) = stream.next().await {
        let event = event.unwrap();
        assert_eq!(event.task_id, task.id);
        if let TaskStreamPayload::Status { last: true, new, .. } = &event.payload {
            assert_eq!(*new, TaskState::Completed);
        }
        kinds.push(event.type_name());
    }
    assert_eq!(kinds.last(), Some(&"task_status_update"), "{kinds:?}");
    assert!(kinds.contains(&"task_llm_stream") && kinds.contains(&"task_artifact_update"), "{kinds:?}");
    let place = stream.last_event_id().unwrap().to_owned();
    let again = client.resume_task_streaming(&url, &task, &place).await.unwrap();
    let rest: Vec<_> = again.map(Result::unwrap).collect().await;
    assert!(rest.len() <= 1, "what was shown is not shown again: {rest:?}");
    let said = client.chat(&url, "hi", Some("s")).await.unwrap();
    assert_eq!(said.as_str(), "\"again\"");
    assert!(client.status(&url).await.unwrap().contains("<html"));
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_running_task_is_canceled_and_one_that_is_over_or_unknown_is_not() {
    let system = builder().start().await.unwrap();
    let (host, url) = agent(&system).await;
    let (client, task) = (client(), call("slow", json!({"ms": 600_000})));
    let cancel = |id: &str| TaskCancellationRequest::new(id, Some("late"), JsonObject::new()).unwrap();
    let sent = tokio::spawn({
        let (client, url, task) = (client.clone(), url.clone(), task.clone());
        async move { client.send_task(&url, &task).await }
    });
    let canceled = loop {
        match client.cancel_task(&url, &cancel(&task.id)).await {
            Ok(canceled) => break canceled,
            Err(error) => assert_eq!(error.code().as_deref(), Some("not_found"), "{error}"),
        }
    };
    assert_eq!(canceled.state, TaskState::Canceled);
    let answer = sent.await.unwrap().unwrap();
    assert_eq!(
        answer.raise_for_status().unwrap_err().to_string(),
        format!("Task '{}' canceled: late", task.id)
    );
    let again = client.cancel_task(&url, &cancel(&task.id)).await.unwrap();
    assert_eq!(again.state, TaskState::Canceled, "a cancel that comes twice is one");
    let done = client.send_task(&url, &call("echo", json!({"text": "x"}))).await.unwrap();
    let over = client.cancel_task(&url, &cancel(&done.id)).await.unwrap_err();
    assert_eq!(over.code().as_deref(), Some("not_cancelable"), "{over}");
    let unknown = client.cancel_task(&url, &cancel("nobody")).await.unwrap_err();
    assert_eq!(unknown.code().as_deref(), Some("not_found"));
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_agent_is_registered_heard_of_found_and_unregistered() {
    let system = builder().start().await.unwrap();
    let registry = Registry::new(&system, "main").unwrap();
    let host = actix(Arc::new(RegistryHandler::new(registry))).await;
    let (client, url) = (client(), format!("http://{}/", host.address));
    let card = AgentCard {
        tags: vec!["ü&=".to_owned()],
        ..AgentCard::new("desk", "Answers", "http://127.0.0.1:1")
    };
    assert!(!client.heartbeat(&url, &card.url).await.unwrap());
    client.register(&url, &card).await.unwrap();
    assert!(client.heartbeat(&url, &card.url).await.unwrap());
    let found = client.discover(&url, &AgentFilter::new().tag("ü&=").name("desk")).await.unwrap();
    assert_eq!(found, std::slice::from_ref(&card));
    assert!(client.discover(&url, &AgentFilter::new().role("gateway")).await.unwrap().is_empty());
    let refused = client.register(&url, &AgentCard { url: "nowhere".to_owned(), ..card.clone() }).await;
    assert_eq!(refused.unwrap_err().code().as_deref(), Some("malformed"));
    client.unregister(&url, &card.url).await.unwrap();
    client.unregister(&url, &card.url).await.unwrap();
    assert!(client.discover(&url, &AgentFilter::new()).await.unwrap().is_empty());
    let unknown = Remote::find(&client, &url, "desk").await.unwrap_err();
    assert!(matches!(unknown, ClientError::UnknownAgent { .. }), "{unknown}");
    host.stop().await;
    system.shutdown().await.unwrap();
}

/// Answers each connection with these bytes, whatever it is sent, and leaves it open where `hold` says so.
async fn answering(bytes: Vec<u8>, hold: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let mut asked = vec![0; 64 * 1024];
                let _read = socket.read(&mut asked).await;
                let _sent = socket.write_all(&bytes).await;
                if hold {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    url
}

fn http(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[tokio::test]
async fn a_server_that_misbehaves_gives_an_error_that_says_how_and_never_a_hang() {
    let task = posted(Part::text("x"));
    let client = client().answer_max(10_000).timeout(Duration::from_millis(400));
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let error = client.send_task(&nobody, &task).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }) && error.is_before_effect(), "{error}");
    assert!(error.to_string().starts_with(&format!("Failed to connect to agent at {nobody}. Make sure")));
    let of = async |bytes: Vec<u8>, hold| {
        let url = answering(bytes, hold).await;
        client.send_task(&url, &task).await.unwrap_err()
    };
    let error = of(http("500 Internal Server Error", "Internal Server Error"), false).await;
    assert!(error.to_string().ends_with("returned HTTP 500: Internal Server Error"), "{error}");
    assert!(!error.is_before_effect());
    let big = format!("\"{}\"", "x".repeat(20_000));
    assert!(matches!(of(http("200 OK", &big), false).await, ClientError::TooLarge { limit: 10_000, .. }));
    assert!(matches!(of(http("200 OK", "{nope"), false).await, ClientError::Answer { .. }));
    assert!(matches!(of(http("200 OK", r#"{"state":"done"}"#), false).await, ClientError::Answer { .. }));
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{".to_vec();
    assert!(matches!(of(cut, false).await, ClientError::Protocol { .. }));
    assert!(matches!(of(b"SSH-2.0-x\r\n".to_vec(), false).await, ClientError::Protocol { .. }));
    assert!(matches!(of(Vec::new(), true).await, ClientError::TimedOut { .. }));
    let begun = b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{".to_vec();
    assert!(matches!(of(begun, true).await, ClientError::TimedOut { .. }));
}

#[tokio::test]
async fn a_stream_that_breaks_or_lies_ends_with_an_error() {
    let task = posted(Part::text("x"));
    let client = client().answer_max(10_000).timeout(Duration::from_millis(400));
    let of = async |frames: &str, hold| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let url = answering(format!("{head}{frames}").into_bytes(), hold).await;
        let stream = client.send_task_streaming(&url, &task).await.unwrap();
        stream.collect::<Vec<_>>().await
    };
    let status = r#"{"type":"task_status_update","new_state":"working"}"#;
    let frame = |fields: &str| format!("data: {{\"id\":null,{fields}}}\n\n");
    let good = frame(&format!(r#""ok":true,"result":{status},"final":false"#));
    let end = frame(r#""ok":true,"result":null,"final":true"#);
    // What a newer release says is passed over.
    let newer = frame(r#""ok":true,"result":{"type":"action.requested"},"final":false"#);
    let newer = of(&format!("{newer}{good}{end}"), true).await;
    assert!(newer.len() == 1 && newer.iter().all(Result::is_ok), "{newer:?}");
    // What stands behind the final frame is not read.
    let whole = of(&format!("{good}{end}{good}"), true).await;
    assert!(whole.len() == 1 && whole.iter().all(Result::is_ok), "{whole:?}");
    let told =
        of(&frame(r#""ok":false,"error":{"message":"no","type":"ValueError"},"final":true"#), false).await;
    let [Err(ClientError::Stream { kind, message, .. })] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((kind.as_str(), message.as_str()), ("ValueError", "no"));
    for bad in [
        "data: nope\n\n".to_owned(),
        "data: []\n\n".to_owned(),
        frame(r#""ok":true,"result":{},"final":true"#),
        format!("data: {{\"id\":\"another\",\"ok\":true,\"result\":{status},\"final\":false}}\n\n"),
    ] {
        let events = of(&format!("{good}{bad}"), false).await;
        assert!(matches!(events.as_slice(), [Ok(_), Err(ClientError::Answer { .. })]), "{events:?}");
    }
    let large = of(&format!("data: {}", "x".repeat(20_000)), true).await;
    assert!(matches!(large.as_slice(), [Err(ClientError::TooLarge { .. })]), "{large:?}");
    let silent = of(&good, true).await;
    assert!(matches!(silent.as_slice(), [Ok(_), Err(ClientError::TimedOut { .. })]), "{silent:?}");
}

#[tokio::test]
async fn an_address_that_leads_elsewhere_is_not_followed_with_the_task() {
    let elsewhere = answering(http("200 OK", "{}"), false).await;
    let moved = format!("HTTP/1.1 307 x\r\nlocation: {elsewhere}/tasks/\r\ncontent-length: 0\r\n\r\n");
    let url = answering(moved.into_bytes(), false).await;
    let error = client().send_task(&url, &posted(Part::text("x"))).await.unwrap_err();
    assert!(matches!(&error, ClientError::Status { status, .. } if status.as_u16() == 307), "{error}");
}

fn asks(agent: &str) -> Scripted {
    let ask = json!({"type": "agent_call", "agent": agent, "action": "tool_call", "tool": "echo", "args": {"text": "far"}});
    Scripted::new([Entry::json(&ask), Entry::json(&json!({"type": "final", "content": "done"}))])
}

#[tokio::test]
async fn an_agent_is_found_by_its_name_in_a_registry_and_asked_by_a_recorded_call() {
    // The other agent and the registry stand on one port.
    let other = System::builder("in memory").store(Arc::new(MemoryStore::new())).name("far");
    let other = support::with_tools(other).start().await.unwrap();
    let registry = Registry::new(&other, "main").unwrap();
    let both = Mounted::new()
        .mount("/", Arc::new(RegistryHandler::new(registry.clone())) as Arc<dyn HttpHandler>)
        .mount("/", Arc::new(Protolink::new(other.clone())));
    let host = actix(Arc::new(both)).await;
    let (client, url) = (client(), format!("http://{}", host.address));
    let card = AgentCard { url: url.clone(), ..other.card() };
    registry.register(card, &Principal::default()).await.unwrap();
    let remote = Remote::find(&client, &url, "far").await.unwrap();
    let model = asks("far");
    let shown = model.clone();
    let system = builder().infer(model).peer(remote).start().await.unwrap();
    let task = system.session("s").send(Part::infer("q")).await.unwrap().finished().await.unwrap();
    assert_eq!(task.answer().unwrap().as_str(), "\"done\"", "{task:?}");
    let asked = format!("{:?}", shown.requests());
    assert!(asked.contains("name: far,") && asked.contains("\\\"name\\\": echo,"), "{asked}");
    let calls = task.task().calls();
    let delegated = calls.iter().find(|call| call.request.target == "far").unwrap();
    assert!(matches!(&delegated.status, CallStatus::Succeeded(result) if result.as_str().contains("far")));
    let child: JsonObject = delegated.request.args.read().unwrap();
    let child: JsonObject = child.get("task").unwrap().read().unwrap();
    let id = child.get("id").and_then(JsonText::to_str).unwrap();
    let context = other.task(&id).unwrap().snapshot().await.unwrap().to_json();
    assert!(context.as_str().contains("parent_run_id"), "the child's run names its parent: {context}");
    for system in [&system, &other] {
        assert!(verify(system.log().as_ref()).findings.is_empty());
    }
    system.shutdown().await.unwrap();
    host.stop().await;
    other.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_lost_answer_of_a_remote_agent_is_unknown_unless_it_answers_again() {
    use taskreel::peer::{Delegation, Peer as _, PeerErrorKind};
    let system = builder().start().await.unwrap();
    let (host, url) = agent(&system).await;
    let card = AgentCard { url: url.clone(), ..system.card() };
    let impatient = client().timeout(Duration::from_millis(300));
    let task = call("slow", json!({"ms": 1_500}));
    let manual = Remote::with_card(&impatient, card.clone());
    assert_eq!(manual.policy().recovery().as_str(), "manual");
    let lost = manual.send(Delegation::new(task.clone(), "k", 1)).await.unwrap_err();
    assert_eq!(lost.kind(), PeerErrorKind::Lost, "{lost}");
    // Sent again, the task is not run again: it is waited for, and its first answer comes.
    let patient = Remote::with_card(&client(), card).answers_again();
    assert_eq!(patient.policy().recovery().as_str(), "idempotent");
    for attempt in 2..4 {
        let answer = patient.send(Delegation::new(task.clone(), "k", attempt)).await.unwrap();
        assert_eq!(
            (answer.state, answer.result.as_str()),
            (
                TaskState::Completed,
                r#"{"call_id":"c","result":1500,"error":null}"#.replace("\"c\"", &call_id(&task)).as_str()
            )
        );
    }
    assert_eq!(system.task(&task.id).unwrap().snapshot().await.unwrap().task().runs(), 1);
    patient.cancel(&task.id, "late").await.unwrap();
    let unknown = patient.cancel("nobody", "late").await.unwrap_err();
    assert_eq!(unknown.kind(), PeerErrorKind::NotFound);
    host.stop().await;
    system.shutdown().await.unwrap();
}

fn call_id(task: &PostedTask) -> String {
    let call =
        task.messages.first().and_then(|message| message.parts.first()).unwrap().as_tool_call().unwrap();
    JsonText::string(&call.call_id.unwrap()).to_string()
}
