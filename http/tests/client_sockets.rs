//! The client through WebSockets: against our own agents, and against servers that misbehave.
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
use taskreel::{JsonText, Part, Ports, System};
use taskreel_http::protolink::{Client, ClientError, Credentials, Remote};
use taskreel_http::{Access, Guard, Protolink, Scopes};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

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
    let again = taskreel_http::Server::new().face("/", Arc::new(Protolink::new(system.clone())));
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
    use taskreel::peer::{Peer as _, PeerErrorKind};
    let unknown = remote.cancel("nobody", "late").await.unwrap_err();
    assert_eq!(unknown.kind(), PeerErrorKind::NotFound);
    system.shutdown().await.unwrap();
    host.stop().await;
    other.shutdown().await.unwrap();
}

/// Answers each connection with these bytes, whatever it is sent, and then leaves it open or ends it.
async fn answering(bytes: Vec<u8>, hold: bool) -> String {
    forged(move |_| (bytes.clone(), Vec::new()), hold).await
}

/// Opens each WebSocket, and answers its first frame with the bytes that `answer` makes of its text.
async fn opening(answer: impl Fn(&str) -> Vec<u8> + Clone + Send + 'static, hold: bool) -> String {
    opening_and(answer, hold, || {}).await
}

/// Does the same, and says when the answer is sent.
async fn opening_and(
    answer: impl Fn(&str) -> Vec<u8> + Clone + Send + 'static,
    hold: bool,
    sent: impl Fn() + Clone + Send + 'static,
) -> String {
    let accept = |request: &str| {
        let key = request.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.trim().to_owned())
        });
        let accepted = derive_accept_key(key.unwrap_or_default().as_bytes());
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: {accepted}\r\n\r\n"
        )
        .into_bytes()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let (answer, sent) = (answer.clone(), sent.clone());
            tokio::spawn(async move {
                let mut asked = vec![0; 64 * 1024];
                let count = socket.read(&mut asked).await.unwrap_or(0);
                let _sent = socket.write_all(&accept(&String::from_utf8_lossy(&asked[..count]))).await;
                let mut frames = 0;
                while let Ok(count) = socket.read(&mut asked).await {
                    if count == 0 {
                        break;
                    }
                    frames += 1;
                    if frames > 1 {
                        continue;
                    }
                    let _sent = socket.write_all(&answer(&unmasked(&asked[..count]))).await;
                    sent();
                    if !hold {
                        // What is still on its way would end the connection before the answer is read.
                        let _ended = socket.shutdown().await;
                        while socket.read(&mut asked).await.is_ok_and(|count| count > 0) {}
                        break;
                    }
                }
            });
        }
    });
    url
}

async fn forged(answer: impl Fn(&str) -> (Vec<u8>, Vec<u8>) + Clone + Send + 'static, hold: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut asked = vec![0; 64 * 1024];
                let count = socket.read(&mut asked).await.unwrap_or(0);
                let (first, endless) = answer(&String::from_utf8_lossy(&asked[..count]));
                let _sent = socket.write_all(&first).await;
                while !endless.is_empty() && socket.write_all(&endless).await.is_ok() {}
                if hold {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    url
}

/// Returns the text of the first of a client's frames, which has fewer than 64 KiB.
fn unmasked(frame: &[u8]) -> String {
    let (mask, body) = match frame[1] & 0x7f {
        126 => {
            let length = usize::from(u16::from_be_bytes([frame[2], frame[3]]));
            (&frame[4..8], &frame[8..8 + length])
        }
        length => (&frame[2..6], &frame[6..6 + usize::from(length)]),
    };
    let bytes: Vec<u8> = body.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    String::from_utf8(bytes).unwrap()
}

/// Returns a frame of a server.
fn frame(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match u8::try_from(body.len()) {
        Ok(length) if length < 126 => frame.push(length),
        _ => {
            frame.push(126);
            frame.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        }
    }
    frame.extend(body);
    frame
}

fn text(body: &str) -> Vec<u8> {
    frame(1, body.as_bytes())
}

/// Returns the id of a request in its frame.
fn id_of(asked: &str) -> String {
    let asked: serde_json::Value = serde_json::from_str(asked).unwrap();
    asked["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_handshake_that_is_none_gives_an_error_that_says_how_and_never_a_hang() {
    let client = client().answer_max(10_000).timeout(Duration::from_millis(400));
    let task = posted(Part::text("x"));
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("ws://{}", free.local_addr().unwrap());
    drop(free);
    let error = client.send_task(&nobody, &task).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }) && error.is_before_effect(), "{error}");
    let of = async |bytes: &str, hold| {
        let url = answering(bytes.as_bytes().to_vec(), hold).await;
        client.send_task(&url, &task).await.unwrap_err()
    };
    let upgrade = "HTTP/1.1 101 x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n";
    for (bytes, is) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "Protocol"),
        ("HTTP/1.1 404 x\r\ncontent-length: 2\r\n\r\nno", "Status"),
        ("HTTP/1.1 307 x\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", "Status"),
        (&format!("{upgrade}\r\n"), "Protocol"),
        (&format!("{upgrade}sec-websocket-accept: d3Jvbmc=\r\n\r\n"), "Protocol"),
        ("SSH-2.0-x\r\n", "Protocol"),
        ("HTTP/1.1 101", "Protocol"),
    ] {
        let error = of(bytes, false).await;
        assert!(format!("{error:?}").starts_with(is), "{bytes}: {error:?}");
    }
    for silent in ["", "HTTP/1.1 101 x\r\n", "HTTP/1.1 500 x\r\ncontent-length: 99\r\n\r\nx"] {
        let error = of(silent, true).await;
        assert!(matches!(error, ClientError::TimedOut { .. }), "{silent}: {error:?}");
    }
    let endless = forged(|_| (b"HTTP/1.1 500 x\r\n\r\n".to_vec(), vec![b'x'; 64 * 1024]), true);
    let error = client.send_task(&endless.await, &task).await.unwrap_err();
    assert!(matches!(&error, ClientError::Status { status, .. } if *status == 500), "{error}");
}

#[tokio::test]
async fn frames_that_are_cut_too_large_or_none_are_errors_of_every_request_that_waits() {
    let client = client().answer_max(10_000).timeout(Duration::from_millis(600));
    let of = async |bytes: Vec<u8>, hold| {
        let url = opening(move |_| bytes.clone(), hold).await;
        let tasks = [posted(Part::text("x")), posted(Part::text("y"))];
        let both = tokio::join!(client.send_task(&url, &tasks[0]), client.send_task(&url, &tasks[1]));
        let (first, second) = (both.0.unwrap_err(), both.1.unwrap_err());
        assert_eq!(std::mem::discriminant(&first), std::mem::discriminant(&second), "{first:?} {second:?}");
        assert!(!first.is_before_effect(), "{first:?}");
        first
    };
    let closing = |code: u16, why: &str| frame(8, &[&code.to_be_bytes()[..], why.as_bytes()].concat());
    let error = of(closing(1001, "restarting"), false).await;
    assert!(
        matches!(&error, ClientError::Closed { why, .. } if why.contains("1001 restarting")),
        "{error:?}"
    );
    let cut = text(&"x".repeat(1_000));
    let large = [&[0x81, 127][..], &(1_u64 << 40).to_be_bytes(), b"x"].concat();
    let pieces: Vec<u8> = (0..40)
        .flat_map(|index| {
            let mut piece = frame(u8::from(index == 0), &[b'x'; 500]);
            piece[0] &= 0x7f;
            piece
        })
        .collect();
    let masked = [&[0x81, 0x81][..], b"mask", b"x"].concat();
    for (what, bytes, is) in [
        ("nothing", Vec::new(), "Closed"),
        ("half a head", vec![0x81], "Closed"),
        ("half a frame", cut[..500].to_vec(), "Closed"),
        ("a frame of a tebibyte", large, "TooLarge"),
        ("a message in too many pieces", pieces, "TooLarge"),
        ("a frame of the wrong side", masked, "Protocol"),
        ("an unknown kind", frame(5, b"x"), "Protocol"),
        ("a reserved bit", vec![0xf1, 1, b'x'], "Protocol"),
        ("no text", frame(1, b"\xff\xfe"), "Protocol"),
        ("bytes that are no text", frame(2, b"\xff\xfe"), "Answer"),
        ("no JSON", text("{nope"), "Answer"),
        ("no object", text("[]"), "Answer"),
        ("no id", text(r#"{"ok": true, "result": {}}"#), "Answer"),
        ("an id of another kind", text(r#"{"id": 7, "ok": true, "result": {}}"#), "Answer"),
        ("deep JSON", text(&"[".repeat(9_000)), "Answer"),
    ] {
        let error = of(bytes, false).await;
        assert!(format!("{error:?}").starts_with(is), "{what}: {error:?}");
    }
    let another = of(text(r#"{"id": "another", "ok": true, "result": {}}"#), true).await;
    assert!(matches!(another, ClientError::TimedOut { .. }), "{another:?}");
}

#[tokio::test]
async fn an_answer_that_is_none_is_an_error_of_its_request_alone() {
    let client = client().answer_max(10_000).timeout(Duration::from_millis(400));
    let of = async |fields: &'static str| {
        let url = opening(move |asked| text(&format!(r#"{{"id":"{}",{fields}}}"#, id_of(asked))), true).await;
        client.send_task(&url, &posted(Part::text("x"))).await.unwrap_err()
    };
    for fields in [r#""ok":true"#, r#""ok":true,"result":[]"#, r#""ok":true,"result":{"state":"done"}"#] {
        assert!(matches!(of(fields).await, ClientError::Answer { .. }), "{fields}");
    }
    let refused = of(r#""ok":false,"error":{"message":"no","type":"KeyError"}"#).await;
    assert!(matches!(&refused, ClientError::Refused { kind, .. } if kind == "KeyError"), "{refused}");
    assert!(!refused.is_before_effect(), "an agent of Protolink's may have run");
    assert!(matches!(of(r#""ok":false"#).await, ClientError::Refused { .. }));
    assert!(matches!(of(r#""result":{}"#).await, ClientError::Refused { .. }));
}

#[tokio::test]
async fn a_stream_that_breaks_lies_or_floods_ends_with_an_error() {
    let client = client().answer_max(10_000).timeout(Duration::from_millis(400));
    let status = r#""ok":true,"result":{"type":"task_status_update","new_state":"working"},"final":false,"stream":true"#;
    let of = async |frames: Vec<String>, hold| {
        let answer = move |asked: &str| {
            let id = id_of(asked);
            frames.iter().flat_map(|fields| text(&format!(r#"{{"id":"{id}",{fields}}}"#))).collect()
        };
        let url = opening(answer, hold).await;
        let task = posted(Part::text("x"));
        let mut stream = match client.send_task_streaming(&url, &task).await {
            Ok(stream) => stream,
            Err(error) => return vec![Err(error)],
        };
        let mut events = Vec::new();
        while let Some(event) = stream.next().await {
            events.push(event);
        }
        events
    };
    let frames = |frames: &[&str]| frames.iter().map(|&frame| frame.to_owned()).collect::<Vec<_>>();
    let end = r#""ok":true,"result":null,"final":true"#;
    let newer = r#""ok":true,"result":{"type":"action.requested"},"final":false"#;
    let whole = of(frames(&[newer, status, end, status]), true).await;
    assert!(whole.len() == 1 && whole.iter().all(Result::is_ok), "{whole:?}");
    let refused =
        of(frames(&[r#""ok":false,"error":{"message":"no","type":"ValueError"},"final":true"#]), true).await;
    assert!(matches!(refused.as_slice(), [Err(ClientError::Refused { .. })]), "{refused:?}");
    let told =
        of(frames(&[status, r#""ok":false,"error":{"message":"no","type":"ValueError"}"#]), true).await;
    assert!(matches!(told.as_slice(), [Ok(_), Err(ClientError::Stream { .. })]), "{told:?}");
    let cut = of(frames(&[status]), false).await;
    assert!(matches!(cut.as_slice(), [Ok(_), Err(ClientError::Closed { .. })]), "{cut:?}");
    let silent = of(frames(&[status]), true).await;
    assert!(matches!(silent.as_slice(), [Ok(_), Err(ClientError::TimedOut { .. })]), "{silent:?}");
    let bad = of(frames(&[status, r#""ok":true,"result":{},"final":true"#]), true).await;
    assert!(matches!(bad.as_slice(), [Ok(_), Err(ClientError::Answer { .. })]), "{bad:?}");
}

#[tokio::test]
async fn whoever_does_not_take_what_comes_is_told_so_before_it_fills_the_memory() {
    let client = client().answer_max(100_000);
    let sent = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&sent);
    let answer = move |asked: &str| {
        let id = id_of(asked);
        let event = r#""ok":true,"result":{"type":"task_status_update","new_state":"working"},"final":false"#;
        // Far more than the buffers of a connection hold.
        text(&format!(r#"{{"id":"{id}",{event}}}"#)).repeat(100_000)
    };
    let url = opening_and(answer, true, move || tell.notify_one()).await;
    let mut stream = client.send_task_streaming(&url, &posted(Part::text("x"))).await.unwrap();
    tokio::time::timeout(PATIENCE, sent.notified()).await.unwrap();
    let mut taken = 0;
    let end = loop {
        match stream.next().await.unwrap() {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(end, ClientError::TooLarge { limit: 100_000, .. }), "{end:?}");
    assert!(taken < 1_000, "{taken} events were kept");
    assert!(stream.next().await.is_none());
}
