//! The requests for an agent's card and state over HTTP: answered by our own server, and by servers that misbehave, which
//! gives typed errors within bounded memory and time.
#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod forged;
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use forged::forged;
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::{HistoryCompactionRequest, Message, PostedTask, StateOperationRequest};
use support::{PATIENCE, actix, builder, model};
use taskreel::{Part, Ports};
use taskreel_http::Protolink;
use taskreel_http::protolink::{Client, ClientError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// The requests.
const REQUESTS: [&str; 5] = ["card", "describe", "reset", "compact", "history"];

fn request(more: &proto_events::json::JsonValue) -> StateOperationRequest {
    StateOperationRequest::from_json(&more.to_text()).unwrap()
}

/// Sends a request, and returns what came of it as text.
async fn sent(client: &Client, url: &str, what: &str) -> Result<String, ClientError> {
    let state = request(&json!({"session_id": "s"}));
    let history = json!({"session_id": "s", "strategy": "recent", "max_messages": 3}).to_text();
    let history = HistoryCompactionRequest::from_json(&history).unwrap();
    Ok(match what {
        "card" => client.get_agent_card(url).await?.to_json(),
        "describe" => client.describe_state(url, &state).await?.to_json(),
        "reset" => client.reset_state(url, &state).await?.to_json(),
        "compact" => client.compact_state(url, &state).await?.to_json(),
        _ => client.compact_history(url, &history).await?.to_json(),
    }
    .to_string())
}

#[tokio::test]
async fn our_server_answers_each_request_and_refuses_what_it_cannot_do() {
    let system = builder().infer(model(&["hello", "again"])).start().await.unwrap();
    let host = actix(Arc::new(Protolink::new(system.clone()))).await;
    let (client, url) = (Client::new().unwrap().timeout(PATIENCE), format!("http://{}", host.address));
    let mint = &mut Ports::default();
    for prompt in ["first", "second"] {
        let mut task = PostedTask::new(Message::new("user", vec![Part::infer(prompt)], mint), mint);
        task.metadata.set("session_id", JsonText::string("s"));
        client.send_task(&url, &task).await.unwrap().raise_for_status().unwrap();
    }
    let state = request(&json!({"session_id": "s", "include_data": true}));
    let described = client.describe_state(&url, &state).await.unwrap();
    let conversation = described.stores.iter().find(|store| store.name == "conversation").unwrap();
    assert!(conversation.message_count == Some(5) && conversation.exists, "{conversation:?}");
    let history = json!({"session_id": "s", "strategy": "recent", "max_messages": 3}).to_text();
    let history = HistoryCompactionRequest::from_json(&history).unwrap();
    let compacted = client.compact_history(&url, &history).await.unwrap();
    assert_eq!((compacted.before_messages, compacted.after_messages, compacted.changed()), (5, 3, true));
    let compact = request(&json!({"session_id": "s", "strategy": "recent", "max_messages": 2}));
    assert_eq!(client.compact_state(&url, &compact).await.unwrap().compacted, ["conversation"]);
    let reset = client.reset_state(&url, &request(&json!({"session_id": "s"}))).await.unwrap();
    assert!(reset.cleared.contains(&"conversation".to_owned()), "{reset:?}");
    let described = client.describe_state(&url, &state).await.unwrap();
    let conversation = described.stores.iter().find(|store| store.name == "conversation").unwrap();
    assert!(conversation.message_count.unwrap_or_default() == 0, "{conversation:?}");
    let unknown = request(&json!({"session_id": "s", "stores": ["nothing"]}));
    assert_eq!(client.describe_state(&url, &unknown).await.unwrap().missing, ["nothing"]);
    assert_eq!(client.get_agent_card(&format!("{url}/agents/agent")).await.unwrap().name, "agent");
    for what in REQUESTS {
        let nobody = sent(&client, &format!("{url}/agents/nobody"), what).await.unwrap_err();
        assert!(matches!(&nobody, ClientError::Status { status, .. } if *status == 404), "{what}: {nobody}");
        assert!(nobody.is_before_effect());
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

fn http(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Asks a server that answers with these bytes for each request, and returns the errors.
async fn errors(
    client: &Client,
    first: Vec<u8>,
    endless: Vec<u8>,
    hold: bool,
) -> Vec<(&'static str, ClientError)> {
    let url = forged(move |_| (first.clone(), endless.clone()), hold).await.replace("ws://", "http://");
    let all = REQUESTS.map(|what| {
        let url = &url;
        async move { (what, sent(client, url, what).await) }
    });
    let answered = futures_util::future::join_all(all).await;
    answered.into_iter().map(|(what, answer)| (what, answer.expect_err(what))).collect()
}

#[tokio::test]
async fn an_answer_of_another_shape_is_an_error_that_names_the_fault() {
    let client = Client::new().unwrap().timeout(PATIENCE).answer_max(100_000);
    let deep = "[".repeat(50_000);
    for body in [
        &b""[..],
        b"{nope",
        b"[]",
        b"null",
        b"7",
        b"\"text\"",
        b"{}",
        b"\xff\xfe",
        br#"{"operation": "approve", "strategy": null}"#,
        br#"{"operation": "explode", "strategy": "none", "name": 7}"#,
        br#"{"operation": ["describe"], "strategy": {}, "name": "a"}"#,
        deep.as_bytes(),
    ] {
        for (what, error) in errors(&client, http("200 OK", "", body), Vec::new(), false).await {
            assert!(
                matches!(&error, ClientError::Answer { .. }) && !error.is_before_effect(),
                "{what} {:?}: {error}",
                String::from_utf8_lossy(body).chars().take(40).collect::<String>()
            );
        }
    }
}

#[tokio::test]
async fn a_refusal_or_a_way_elsewhere_is_an_error_with_its_status_and_a_bounded_text() {
    let client = Client::new().unwrap().timeout(PATIENCE);
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let away = format!("location: http://{}/\r\n", elsewhere.local_addr().unwrap());
    let long = vec![b'x'; 50_000];
    for (status, headers, body, code) in [
        ("500 Internal Server Error", "", &b"Internal Server Error"[..], 500),
        ("503 x", "", &long[..], 503),
        ("401 x", "", &b"{\"error\":\"Missing credentials\"}"[..], 401),
        ("307 x", away.as_str(), &b""[..], 307),
        ("301 x", away.as_str(), &b""[..], 301),
        ("304 x", "", &b""[..], 304),
    ] {
        for (what, error) in errors(&client, http(status, headers, body), Vec::new(), false).await {
            let ClientError::Status { status, body, .. } = &error else { panic!("{what}: {error:?}") };
            assert_eq!(status.as_u16(), code, "{what}");
            assert!(body.len() <= 2_000, "{what}: {} bytes are quoted", body.len());
        }
    }
    // Nothing was sent on to the other server.
    let nobody = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
    assert!(nobody.is_err());
}

#[tokio::test]
async fn a_redirect_without_an_end_is_given_up() {
    let client = Client::new().unwrap().timeout(PATIENCE);
    let around = http("307 x", "location: /again\r\nconnection: close\r\n", b"");
    for (what, error) in errors(&client, around, Vec::new(), false).await {
        assert!(matches!(&error, ClientError::Status { status, .. } if *status == 307), "{what}: {error:?}");
    }
}

#[tokio::test]
async fn a_body_without_an_end_is_cut_off_at_the_limit() {
    let client = Client::new().unwrap().timeout(PATIENCE).answer_max(100_000);
    let chunk = [b"10000\r\n".to_vec(), vec![b'x'; 65_536], b"\r\n".to_vec()].concat();
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let until_closed = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    let promised = b"HTTP/1.1 200 OK\r\ncontent-length: 1099511627776\r\n\r\n".to_vec();
    let refused = b"HTTP/1.1 500 x\r\n\r\n".to_vec();
    for (first, endless) in [
        (chunked, chunk),
        (until_closed, vec![b'x'; 65_536]),
        (promised, vec![b' '; 65_536]),
        (refused, vec![b'x'; 65_536]),
    ] {
        let began = Instant::now();
        for (what, error) in errors(&client, first, endless, false).await {
            assert!(matches!(error, ClientError::TooLarge { limit: 100_000, .. }), "{what}: {error:?}");
        }
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    }
    let headers = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"x-more: more\r\n".repeat(1_000)].concat();
    for (what, error) in errors(&client, headers, b"x-more: more\r\n".repeat(1_000), false).await {
        assert!(matches!(error, ClientError::Protocol { .. }), "{what}: {error:?}");
    }
}

#[tokio::test]
async fn a_body_that_drips_is_given_up_after_the_time_limit() {
    let client = Client::new().unwrap().timeout(Duration::from_millis(400));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = vec![0; 64 * 1024];
                let _read = socket.read(&mut asked).await;
                let _sent = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{").await;
                // Each byte comes well within any pause that could be allowed.
                while socket.write_all(b" ").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
        }
    });
    let began = Instant::now();
    for what in REQUESTS {
        let error = sent(&client, &url, what).await.unwrap_err();
        assert!(matches!(error, ClientError::TimedOut { .. }), "{what}: {error:?}");
    }
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}
