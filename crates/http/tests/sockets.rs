//! Sockets with Protolink's frames, in our own server and in a host on axum: requests side by side, streams, and
//! clients that do not follow the protocol.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use support::{Host, PATIENCE, builder, connect, hosts, model, request, tool_task};
use taskreel_log::audit::verify;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

type Client = WebSocketStream<TcpStream>;

async fn open(host: &Host) -> Client {
    let socket = TcpStream::connect(host.address).await.unwrap();
    client_async(format!("ws://{}/", host.address), socket).await.unwrap().0
}

async fn say(client: &mut Client, frame: &Value) {
    client.send(Message::text(frame.to_string())).await.unwrap();
}

async fn hear(client: &mut Client) -> Value {
    loop {
        let message = tokio::time::timeout(PATIENCE, client.next()).await.expect("an answer comes");
        match message.unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn task(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_request_does_not_hold_up_the_one_after_it() {
    let system = builder().start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let mut client = open(&host).await;
        let slow = task(&tool_task(&format!("slow-{n}"), "slow", r#"{"ms": 60000}"#));
        say(&mut client, &json!({"id": "a", "method": "POST", "path": "/tasks/", "data": slow})).await;
        let echo = task(&tool_task(&format!("echo-{n}"), "echo", r#"{"text": "x"}"#));
        say(&mut client, &json!({"id": "b", "method": "POST", "path": "/tasks/", "data": echo})).await;
        let first = hear(&mut client).await;
        assert_eq!(
            (&first["id"], &first["ok"], &first["result"]["state"]),
            (&json!("b"), &json!(true), &json!("completed"))
        );
        // The slow one is canceled over the same socket; both are answered with the canceled task.
        say(
            &mut client,
            &json!({"id": 3, "method": "POST", "path": "/tasks/cancel", "data": {"id": format!("slow-{n}")}}),
        )
        .await;
        let mut ids = Vec::new();
        for _ in 0..2 {
            let answer = hear(&mut client).await;
            assert_eq!(answer["result"]["state"], "canceled", "{answer}");
            ids.push(answer["id"].to_string());
        }
        ids.sort();
        assert_eq!(ids, ["\"a\"", "3"]);
        client.close(None).await.unwrap();
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_s_frames_are_named_by_its_id_and_the_last_one_is_final() {
    let system = builder().infer(model(&["one", "two"])).start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let mut client = open(&host).await;
        let ask = json!({"id": format!("s-{n}"), "messages": [{"parts": [{"type": "infer", "content": {"prompt": "hi"}}]}]});
        say(&mut client, &json!({"id": "q", "method": "POST", "path": "/tasks/stream", "data": ask})).await;
        let mut frames = Vec::new();
        loop {
            let frame = hear(&mut client).await;
            assert_eq!(
                (&frame["id"], &frame["ok"], &frame["stream"]),
                (&json!("q"), &json!(true), &json!(true)),
                "{frame}"
            );
            let is_last = frame["final"] == true;
            frames.push(frame);
            if is_last {
                break;
            }
        }
        assert_eq!(frames.last().unwrap()["result"]["new_state"], "completed");
        assert!(frames.iter().any(|frame| frame["result"]["llm_event_type"] == "llm_chunk"));
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_is_no_request_is_refused_and_the_socket_goes_on() {
    let system = builder().start().await.unwrap();
    for host in hosts(&system).await {
        let mut client = open(&host).await;
        for (frame, id, kind) in [
            (json!({"id": "a", "method": "POST"}), json!("a"), "ValueError"),
            (json!({"id": "a", "method": "POST", "path": "/nope"}), json!("a"), "ValueError"),
            (json!([1]), json!(null), "ValueError"),
            (
                json!({"id": "a", "method": "POST", "path": "/tasks/cancel", "data": {"id": "zzz"}}),
                json!("a"),
                "TaskNotFoundError",
            ),
            (
                json!({"id": "a", "method": "POST", "path": "/tasks/", "data": {"state": "x"}}),
                json!("a"),
                "ValueError",
            ),
        ] {
            say(&mut client, &frame).await;
            let refused = hear(&mut client).await;
            assert_eq!((&refused["ok"], &refused["id"]), (&json!(false), &id), "{refused}");
            assert_eq!(refused["error"]["type"], kind, "{refused}");
        }
        let stream = json!({"id": "a", "method": "POST", "path": "/tasks/stream", "data": {"state": "x"}});
        say(&mut client, &stream).await;
        assert_eq!(hear(&mut client).await["final"], true, "a stream that does not begin has an end");
        say(&mut client, &json!({"id": "b", "method": "GET", "path": "/.well-known/agent.json"})).await;
        assert_eq!(hear(&mut client).await["result"]["name"], "agent");
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

/// Returns a client's frame as bytes: text, final, with this length in its head.
fn raw_frame(masked: bool, length: u64, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81, if masked { 0xff } else { 0x7f }];
    frame.extend_from_slice(&length.to_be_bytes());
    if masked {
        frame.extend_from_slice(&[0; 4]);
    }
    frame.extend_from_slice(body);
    frame
}

const UPGRADE: [(&str, &str); 4] = [
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_socket_ends_although_its_client_keeps_the_connection_open() {
    let system = builder().start().await.unwrap();
    for host in hosts(&system).await {
        let mut connection = connect(&host).await;
        connection.write_all(&request("GET", "/", &UPGRADE, "")).await.unwrap();
        let (status, head) = connection.head().await;
        assert_eq!(status, 101, "{head}");
        // The frame that closes, with the code 1000 and a mask of zeros; the server sends the same code back.
        connection.write_all(&[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]).await.unwrap();
        assert_eq!(connection.exactly(4).await, [0x88, 0x02, 0x03, 0xe8], "{}", host.name);
        assert_eq!(connection.rest().await, "", "{}", host.name);
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_without_a_mask_or_of_a_gigabyte_end_the_socket_and_nothing_else() {
    let system = builder().start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        for (frame, code) in [(raw_frame(false, 2, b"{}"), 1002_u16), (raw_frame(true, 1 << 30, b"{"), 1009)]
        {
            let mut connection = connect(&host).await;
            connection.write_all(&request("GET", "/", &UPGRADE, "")).await.unwrap();
            let (status, head) = connection.head().await;
            assert_eq!(status, 101, "{head}");
            connection.write_all(&frame).await.unwrap();
            let head = connection.exactly(4).await;
            assert_eq!((head[0], u16::from_be_bytes([head[2], head[3]])), (0x88, code), "{}", host.name);
            connection.rest().await;
        }
        let echo = tool_task(&format!("after-{n}"), "echo", r#"{"text": "x"}"#);
        assert_eq!(support::ask(&host, "POST", "/tasks/", &echo).await.json()["state"], "completed");
        host.stop().await;
    }
    assert!(verify(system.log().as_ref()).is_sound());
    system.shutdown().await.unwrap();
}
