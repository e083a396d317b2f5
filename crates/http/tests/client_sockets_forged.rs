//! The client through a WebSocket of servers that misbehave: typed errors, within bounded memory and time.
#![cfg(feature = "client")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod forged;
mod support;

use std::sync::Arc;
use std::time::Duration;

use forged::{answering, forged, frame, opening, opening_and, text};
use proto_events::model::{Message, PostedTask};
use support::PATIENCE;
use taskreel::{Part, Ports};
use taskreel_http::protolink::{Client, ClientError};
use tokio::net::TcpListener;

fn client() -> Client {
    Client::new().unwrap().timeout(PATIENCE)
}

fn posted(part: Part) -> PostedTask {
    let mint = &mut Ports::default();
    PostedTask::new(Message::new("user", vec![part.hydrated(mint).unwrap()], mint), mint)
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
