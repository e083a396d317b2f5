//! The messages of one socket, each with the scope of its own request.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use http::HeaderValue;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use taskreel::{Principal, System, Version};
use taskreel_http::{Access, Guard, Protolink, Scope, Scopes, Server};
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
    let frame = json!({"id": path, "method": method, "path": path, "data": data});
    socket.send(Message::text(frame.to_string())).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(30), socket.next()).await;
    let answer = answer.expect("an answer comes").unwrap().unwrap();
    serde_json::from_str(answer.to_text().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_of_a_socket_needs_the_scope_of_its_request() {
    let system = System::builder("-").store(Arc::new(MemoryStore::new())).start().await.unwrap();
    let scope = |scope| Scopes::NONE.with(scope);
    let access = Access::open().with_token("runner", scope(Scope::Run), "runs").unwrap();
    let access = access.with_token("reader", scope(Scope::Read), "reads").unwrap();
    let guard = Guard::new(access, Arc::new(Protolink::new(system.clone())));
    let server = Server::new().workers(1).grace(Duration::from_millis(200));
    let serving = server.face("/", Arc::new(guard)).start("127.0.0.1:0").await.unwrap();
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
    let first = log.page_stream(&stream("t-1"), Version(1), Page::of(1)).unwrap();
    let whose = first.first().map(|stored| stored.record.metadata.principal.clone());
    assert_eq!(whose, Some(Principal::authenticated("runner")));
    assert!(["t-2", "t-3"].iter().all(|id| log.stream_version(&stream(id)).unwrap() == Version(0)));
    drop((runner, reader));
    serving.stop().await.unwrap();
    system.shutdown().await.unwrap();
}
