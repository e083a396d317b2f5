//! The id of a task of another caller: whoever may run and not read is told that it is taken, and nothing of the task.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use http::HeaderValue;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use support::{Answer, Host, PATIENCE, actix, builder, request, send, tool_task};
use taskreel_http::{Access, Guard, LiveApi, Mounted, Protolink, Scope, Scopes};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// The paths at which a task is posted.
const PATHS: [&str; 3] = ["/tasks/", "/tasks/stream", "/api/v1/tasks"];

async fn post(host: &Host, path: &str, token: &str, body: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    send(host, &request("POST", path, &headers, body)).await
}

/// Posts a task in a frame of a socket of its own, and returns the answer.
async fn framed(host: &Host, path: &str, token: &str, body: &str) -> Value {
    let stream = TcpStream::connect(host.address).await.unwrap();
    let mut request = format!("ws://{}/", host.address).into_client_request().unwrap();
    let bearer = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    request.headers_mut().insert(AUTHORIZATION, bearer);
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let data: Value = serde_json::from_str(body).unwrap();
    let frame = json!({"id": "a", "method": "POST", "path": path, "data": data});
    socket.send(Message::text(frame.to_string())).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, socket.next()).await.expect("an answer comes");
    serde_json::from_str(answer.unwrap().unwrap().to_text().unwrap()).unwrap()
}

/// Returns the task with a message more.
fn longer(body: &str) -> String {
    let mut task: Value = serde_json::from_str(body).unwrap();
    let more = json!({"id": "more", "role": "user", "parts": [{"type": "text", "content": "more"}]});
    task["messages"].as_array_mut().unwrap().push(more);
    task.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_not_read_is_told_nothing_of_another_callers_task_by_its_id() {
    let system = builder().start().await.unwrap();
    let runs = Scopes::NONE.with(Scope::Run);
    let access = Access::open().with_token("ada", runs, "adas").unwrap();
    let access = access.with_token("eve", runs, "eves").unwrap();
    let access = access.with_token("rita", runs.with(Scope::Read), "ritas").unwrap();
    let handler = Mounted::new()
        .mount("/api", Arc::new(LiveApi::new(&system)))
        .mount("/", Arc::new(Protolink::new(system.clone())));
    let host = actix(Arc::new(Guard::new(access, Arc::new(handler)))).await;
    let own = tool_task("t", "echo", r#"{"text": "private"}"#);
    assert_eq!(post(&host, "/tasks/", "adas", &own).await.status, 200);
    let version = async || system.task("t").unwrap().snapshot().await.unwrap().version();
    let before = version().await;

    let mut told = Vec::new();
    for body in [own.clone(), longer(&own), tool_task("t", "echo", r#"{"text": "other"}"#)] {
        for path in PATHS {
            let refused = post(&host, path, "eves", &body).await;
            assert_eq!((refused.status, refused.code().as_str()), (409, "conflict"), "{path}: {refused:?}");
            told.push(refused.json()["error"]["message"].as_str().unwrap().to_owned());
        }
        for path in ["/tasks/", "/tasks/stream"] {
            let refused = framed(&host, path, "eves", &body).await;
            assert_eq!((&refused["ok"], &refused["error"]["code"]), (&json!(false), &json!("conflict")));
            assert!(refused.get("result").is_none(), "{refused}");
            told.push(refused["error"]["message"].as_str().unwrap().to_owned());
        }
    }
    told.dedup();
    assert_eq!(told.len(), 1, "the refusal is the same whatever is sent: {told:?}");
    assert_eq!(version().await, before, "the task is as it was");

    // Its own caller is answered with it, and so is whoever may read it; an id that nobody has used is free.
    for path in PATHS {
        for token in ["adas", "ritas"] {
            let again = post(&host, path, token, &own).await;
            assert_eq!(again.status, 200, "{path} {token}: {again:?}");
        }
    }
    let new = post(&host, "/tasks/", "eves", &tool_task("new", "echo", r#"{"text": "x"}"#)).await;
    assert_eq!((new.status, new.json()["state"].as_str()), (200, Some("completed")), "{new:?}");
    host.stop().await;
    system.shutdown().await.unwrap();
}
