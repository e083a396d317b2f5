//! The messages of one socket, each with the scope of its own request and counted in the quota of its caller.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use http::HeaderValue;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use support::{Host, PATIENCE, actix, builder, tool_task};
use taskreel::{Principal, System, Version};
use taskreel_http::{Access, Guard, Protolink, Quota, Scope, Scopes, Server};
use taskreel_log::api::Page;
use taskreel_log::memory::MemoryStore;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

async fn connect(address: SocketAddr, token: &'static str) -> Option<WebSocketStream<TcpStream>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let mut request = format!("ws://{address}/").into_client_request().unwrap();
    request.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static(token));
    tokio_tungstenite::client_async(request, stream).await.ok().map(|(socket, _)| socket)
}

/// Sends a request in a frame and returns its answer.
async fn ask(socket: &mut WebSocketStream<TcpStream>, method: &str, path: &str, data: Value) -> Value {
    say(socket, &json!({"id": path, "method": method, "path": path, "data": data})).await;
    hear(socket).await
}

async fn say(socket: &mut WebSocketStream<TcpStream>, frame: &Value) {
    socket.send(Message::text(frame.to_string())).await.unwrap();
}

async fn hear(socket: &mut WebSocketStream<TcpStream>) -> Value {
    let answer = tokio::time::timeout(PATIENCE, socket.next()).await;
    let answer = answer.expect("an answer comes").unwrap().unwrap();
    serde_json::from_str(answer.to_text().unwrap()).unwrap()
}

/// Reads frames up to the first one that fits.
async fn hear_until(socket: &mut WebSocketStream<TcpStream>, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let frame = hear(socket).await;
        if fits(&frame) {
            return frame;
        }
    }
}

/// Starts a server whose one caller has this quota, and opens a socket to it.
async fn counted(quota: Quota) -> (System, Host, WebSocketStream<TcpStream>) {
    let system = builder().start().await.unwrap();
    let access = Access::open().with_token("runner", Scopes::ALL, "runs").unwrap().quota(quota);
    let host = actix(Arc::new(Guard::new(access, Arc::new(Protolink::new(system.clone()))))).await;
    let socket = connect(host.address, "Bearer runs").await.unwrap();
    (system, host, socket)
}

/// The number of frames that are sent at once: far more than a quota of one a second allows while they are answered.
const FLOOD: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn frames_beyond_the_rate_of_their_caller_are_refused_and_later_ones_are_taken_again() {
    let mut quota = Quota::default();
    (quota.requests_per_second, quota.burst) = (Some(1), Some(3));
    let (system, host, mut socket) = counted(quota).await;
    let card = json!({"id": "card", "method": "GET", "path": "/.well-known/agent.json"});
    let nonsense = json!({"id": "none", "method": "GET", "path": "/nope"});
    let mut refusals = Vec::new();
    for (frame, least) in [(&card, 2), (&nonsense, 0)] {
        for _ in 0..FLOOD {
            say(&mut socket, frame).await;
        }
        let mut refused = 0;
        for _ in 0..FLOOD {
            let answer = hear(&mut socket).await;
            assert_eq!(answer["id"], frame["id"], "{answer}");
            if answer["error"]["code"] == "too_many_requests" {
                refused += 1;
                refusals.push(answer);
            }
        }
        // The handshake has taken one of the burst, and nothing but that.
        assert!(refused > 0 && FLOOD - refused >= least, "{refused} of {FLOOD} frames are refused");
    }
    for refused in refusals {
        assert_eq!(refused["ok"], false, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains("requests per second"), "{refused}");
    }
    let taken = async {
        while ask(&mut socket, "GET", "/.well-known/agent.json", json!(null)).await["ok"] != true {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, taken).await.expect("a frame is taken once the time allows it");
    drop(socket);
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_in_a_socket_has_places_of_its_own_until_its_last_frame() {
    let mut quota = Quota::default();
    // One stream is the socket, and no request is the handshake any more.
    (quota.requests_at_once, quota.streams_at_once) = (2, 2);
    let (system, host, mut socket) = counted(quota).await;
    let stream = |id: &str, tool: &str, args: &str| {
        let task: Value = serde_json::from_str(&tool_task(id, tool, args)).unwrap();
        json!({"id": id, "method": "POST", "path": "/tasks/stream", "data": task})
    };
    say(&mut socket, &stream("long", "slow", r#"{"ms": 600000}"#)).await;
    let first = hear(&mut socket).await;
    assert_eq!((&first["id"], &first["ok"]), (&json!("long"), &json!(true)), "{first}");
    say(&mut socket, &stream("more", "echo", r#"{"text": "x"}"#)).await;
    let refused = hear_until(&mut socket, |frame| frame["id"] == "more").await;
    assert_eq!((&refused["ok"], &refused["final"]), (&json!(false), &json!(true)), "{refused}");
    assert_eq!(refused["error"]["code"], "too_many_requests", "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("streams at once"), "{refused}");
    let never = system.task("more").unwrap().stream().clone();
    assert_eq!(system.log().stream_version(&never).unwrap(), Version(0), "it was not carried out");
    let cancel = json!({"id": "c", "method": "POST", "path": "/tasks/cancel", "data": {"id": "long"}});
    say(&mut socket, &cancel).await;
    hear_until(&mut socket, |frame| frame["id"] == "long" && frame["final"] == true).await;
    say(&mut socket, &stream("later", "echo", r#"{"text": "x"}"#)).await;
    let later = hear_until(&mut socket, |frame| frame["id"] == "later").await;
    assert_eq!(later["ok"], true, "{later}");
    drop(socket);
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_of_a_socket_needs_the_scope_of_its_request() {
    let system = System::builder("-").store(Arc::new(MemoryStore::new())).start().await.unwrap();
    let scope = |scope| Scopes::NONE.with(scope);
    let access = Access::open().with_token("runner", scope(Scope::Run), "runs").unwrap();
    let access = access.with_token("reader", scope(Scope::Read), "reads").unwrap();
    let guard = Guard::new(access, Arc::new(Protolink::new(system.clone())));
    let server = Server::new().workers(1).grace(Duration::from_millis(200));
    let serving = server.mount("/", Arc::new(guard)).start("127.0.0.1:0").await.unwrap();
    assert!(
        connect(serving.address(), "Bearer wr0ng").await.is_none(),
        "there is no socket without a credential"
    );
    let task = |id: &str| {
        let message = json!({"id": "m", "role": "user", "parts": [{"type": "text", "content": "hi"}]});
        json!({"id": id, "messages": [message]})
    };
    let mut runner = connect(serving.address(), "Bearer runs").await.unwrap();
    let mut reader = connect(serving.address(), "Bearer reads").await.unwrap();
    let ran = ask(&mut runner, "POST", "/tasks/", task("t-1")).await;
    assert_eq!(ran["ok"], true, "{ran}");
    let read = ask(&mut reader, "GET", "/status", json!(null)).await;
    assert_eq!(read["ok"], true, "{read}");
    for refused in [
        ask(&mut runner, "GET", "/status", json!(null)).await,
        ask(&mut reader, "POST", "/tasks/", task("t-2")).await,
        ask(&mut reader, "POST", "/tasks/stream", task("t-3")).await,
        ask(&mut reader, "POST", "/tasks/cancel", json!({"id": "t-1"})).await,
    ] {
        assert_eq!(refused["ok"], false, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains("scope"), "{refused}");
    }
    let log = system.log();
    let stream = |id| system.task(id).unwrap().stream().clone();
    let first = log.page_stream(&stream("t-1"), Version(1), Page::with_limit(1)).unwrap();
    let whose = first.first().map(|stored| stored.record.metadata.principal.clone());
    assert_eq!(whose, Some(Principal::authenticated("runner")));
    assert!(["t-2", "t-3"].iter().all(|id| log.stream_version(&stream(id)).unwrap() == Version(0)));
    drop((runner, reader));
    serving.stop().await.unwrap();
    system.shutdown().await.unwrap();
}
