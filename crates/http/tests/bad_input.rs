//! Answers to bad input, over raw sockets, in our own server and in a host on axum: each item has an answer from the table of
//! errors, and leaves a log that verifies and a server that answers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use support::{
    Host, Named, PATIENCE, actix_with, ask, axum_with, builder, connect, hosts, hosts_of, request, send,
    tool_task,
};
use taskreel::tool::ToolError;
use taskreel::{JsonSchema, System, TaskState};
use taskreel_http::{BodyTimes, HandlerService, Protolink, Server};
use taskreel_log::audit::verify;

/// Asserts that a host still answers and that the log verifies.
async fn unharmed(host: &Host, system: &System, id: &str) {
    let echo = tool_task(id, "echo", r#"{"text": "x"}"#);
    let answer = ask(host, "POST", "/tasks/", &echo).await;
    assert_eq!(answer.json()["state"], "completed", "{}", host.name);
    assert!(verify(system.log().as_ref()).is_sound());
}

/// Waits until a task is in a state.
async fn until(system: &System, id: &str, state: TaskState) {
    let reached = async {
        while system.task(id).unwrap().snapshot().await.map(|task| task.state()).ok() != Some(state) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("{id} is never {state}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_body_does_nothing_and_a_whole_one_is_carried_out_though_the_client_is_gone() {
    let system = builder().start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let half =
            request("POST", "/tasks/", &[], &tool_task(&format!("half-{n}"), "echo", r#"{"text": "x"}"#));
        let mut connection = connect(&host).await;
        connection.write_all(&half[..half.len() - 5]).await.unwrap();
        drop(connection);
        let whole =
            request("POST", "/tasks/", &[], &tool_task(&format!("whole-{n}"), "slow", r#"{"ms": 20}"#));
        let mut connection = connect(&host).await;
        connection.write_all(&whole).await.unwrap();
        // The request is taken when its task is at work; then nobody waits for it.
        until(&system, &format!("whole-{n}"), TaskState::Working).await;
        drop(connection);
        until(&system, &format!("whole-{n}"), TaskState::Completed).await;
        unharmed(&host, &system, &format!("after-{n}")).await;
        assert!(system.task(&format!("half-{n}")).unwrap().snapshot().await.is_err(), "half a task is none");
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_its_stream_cancels_nothing() {
    let system = builder().start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let id = format!("left-{n}");
        let body = tool_task(&id, "slow", r#"{"ms": 100}"#);
        let mut connection = connect(&host).await;
        connection.write_all(&request("POST", "/tasks/stream", &[], &body)).await.unwrap();
        connection.head().await;
        assert_eq!(connection.frame().await.unwrap().1["result"]["new_state"], "working");
        drop(connection);
        until(&system, &id, TaskState::Completed).await;
        unharmed(&host, &system, &format!("after-{n}")).await;
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stalls_is_answered_with_408() {
    let system = builder().start().await.unwrap();
    let handler = || Arc::new(Protolink::new(system.clone()));
    let times = BodyTimes { pause: Duration::from_millis(100), whole: Duration::from_millis(400) };
    let ours = actix_with(Server::new().grace(Duration::from_millis(100)).body_times(times), handler()).await;
    let theirs = axum_with(HandlerService::new(handler()).body_times(times)).await;
    for (n, host) in [ours, theirs].into_iter().enumerate() {
        // Short bodies are read at once, long ones through a channel.
        for length in [100, 1_000_000] {
            let head = format!("POST /tasks/ HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{{");
            let answer = send(&host, head.as_bytes()).await;
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (408, "timeout"),
                "{}: {answer:?}",
                host.name
            );
        }
        unharmed(&host, &system, &format!("after-{n}")).await;
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_a_gigabyte_is_refused_before_it_is_read() {
    let system = builder().start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let head = format!("POST /tasks/ HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", 1_u64 << 30);
        let answer = send(&host, head.as_bytes()).await;
        assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"), "{}", host.name);
        // One that does not say its length is read up to the bound and no further.
        let mut connection = connect(&host).await;
        let head = "POST /tasks/ HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut piece = format!("{:x}\r\n", 1 << 20).into_bytes();
        piece.extend_from_slice(&vec![b' '; 1 << 20]);
        piece.extend_from_slice(b"\r\n");
        let mut sent = 0;
        let answer = loop {
            tokio::select! {
                biased;
                head = connection.head() => break head,
                () = std::future::ready(()) => {}
            }
            // The server may close while it is sent to.
            if connection.write_all(&piece).await.is_err() {
                break connection.head().await;
            }
            sent += 1;
            assert!(sent < 64, "{} reads on", host.name);
        };
        assert_eq!(answer.0, 413, "{}", host.name);
        unharmed(&host, &system, &format!("after-{n}")).await;
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn json_that_nests_ten_thousand_deep_and_ids_that_are_none_are_malformed() {
    let system = builder().start().await.unwrap();
    let deep = format!(r#"{{"metadata": {}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let id = |id: &str| format!(r#"{{"id": "{id}"}}"#);
    let long = id(&"x".repeat(10 * 1024 * 1024));
    let known = system.tasks().page(99).await.unwrap().tasks.len();
    for host in hosts(&system).await {
        for body in [
            &deep,
            &id("a\\u0000b"),
            &id("a\\nb"),
            &id(""),
            &long,
            r#"{"id": 7}"#,
            r#"{"id": null}"#,
            "[]",
            "7",
        ] {
            for path in ["/tasks/", "/tasks/stream", "/tasks/cancel"] {
                if path == "/tasks/cancel" && body.contains('7') {
                    continue;
                }
                let answer = ask(&host, "POST", path, body).await;
                let shown: String = body.chars().take(40).collect();
                assert_eq!(
                    (answer.status, answer.code().as_str()),
                    (400, "malformed"),
                    "{path} {shown} {}",
                    host.name
                );
            }
        }
        // Dots are letters like others: a name in the log is no path.
        let dots = tool_task(&format!("../../{}", host.name), "echo", r#"{"text": "x"}"#);
        assert_eq!(ask(&host, "POST", "/tasks/", &dots).await.json()["state"], "completed");
        unharmed(&host, &system, host.name).await;
        host.stop().await;
    }
    assert_eq!(system.tasks().page(99).await.unwrap().tasks.len(), known + 4);
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn other_types_and_encodings_of_a_body_are_refused() {
    let system = builder().start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        for header in [
            ("content-type", "text/plain"),
            ("content-type", "multipart/form-data"),
            ("content-encoding", "gzip"),
        ] {
            let answer = send(&host, &request("POST", "/tasks/", &[header], "{}")).await;
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (415, "unsupported_media_type"),
                "{header:?}"
            );
        }
        unharmed(&host, &system, &format!("after-{n}")).await;
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_ends_in_two_ways_smuggles_nothing() {
    let system = builder().start().await.unwrap();
    let hidden = tool_task("smuggled", "echo", r#"{"text": "x"}"#);
    let hidden =
        format!("POST /tasks/ HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{hidden}", hidden.len());
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        for lines in [
            format!("content-length: {}\r\ntransfer-encoding: chunked", hidden.len() + 5),
            format!("transfer-encoding: chunked\r\ncontent-length: {}", hidden.len() + 5),
            "content-length: 5\r\ncontent-length: 6".to_owned(),
            "content-length: +5".to_owned(),
            "content-length: -5".to_owned(),
            "content-length: 5 5".to_owned(),
            "transfer-encoding: xchunked".to_owned(),
            "transfer-encoding: chunked\r\ntransfer-encoding: identity".to_owned(),
            "transfer-encoding : chunked".to_owned(),
            "content-length: 0\r\n x: y".to_owned(),
        ] {
            let bytes = format!("POST /tasks/ HTTP/1.1\r\nhost: a\r\n{lines}\r\n\r\n0\r\n\r\n{hidden}");
            let mut connection = connect(&host).await;
            connection.write_all(bytes.as_bytes()).await.unwrap();
            let (status, _) = connection.head().await;
            assert_eq!(status, 400, "{lines} in {}", host.name);
            connection.rest().await;
            assert!(system.task("smuggled").unwrap().snapshot().await.is_err(), "{lines} in {}", host.name);
        }
        unharmed(&host, &system, &format!("after-{n}")).await;
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_are_too_large_are_refused() {
    let system = builder().start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let many: String = (0..5_000).map(|n| ["x-", &n.to_string(), ": y\r\n"].concat()).collect();
        for lines in
            [format!("x: {}\r\n", "y".repeat(40_000)), format!("x: {}\r\n", "y".repeat(1 << 20)), many]
        {
            let mut connection = connect(&host).await;
            // The server may close while it is sent to.
            let sent = connection
                .write_all(format!("GET /status HTTP/1.1\r\nhost: a\r\n{lines}\r\n").as_bytes())
                .await;
            let answer = connection.rest().await;
            let is_refused = answer.starts_with("HTTP/1.1 431") || answer.is_empty() && sent.is_err();
            assert!(is_refused, "{}: {sent:?} {answer}", host.name);
        }
        let path = format!("/agents/{}", "x".repeat(20_000));
        assert_eq!(ask(&host, "GET", &path, "").await.status, 400);
        unharmed(&host, &system, &format!("after-{n}")).await;
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_posted_many_times_at_once_runs_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let count = move |_: Nothing| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok::<_, ToolError>("x")
        }
    };
    let system = builder().tool("count", "counts", count).start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let body = tool_task(&format!("twice-{n}"), "count", "{}");
        let asked = (0..16).map(|_| ask(&host, "POST", "/tasks/", &body));
        let answers = futures_util::future::join_all(asked).await;
        for answer in &answers {
            assert_eq!((answer.status, &answer.body), (200, &answers[0].body));
        }
        assert_eq!(calls.load(Ordering::SeqCst), n + 1, "{}", host.name);
        let other = body
            .replace("twice", "other")
            .replace(&format!("\"id\": \"other-{n}\""), &format!("\"id\": \"twice-{n}\""));
        let conflict = ask(&host, "POST", "/tasks/", &other).await;
        assert_eq!((conflict.status, conflict.code().as_str()), (409, "conflict"), "{conflict:?}");
        unharmed(&host, &system, &format!("after-{n}")).await;
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_a_finished_an_unknown_and_a_foreign_task_is_refused() {
    let system = builder().start().await.unwrap();
    let handler = Arc::new(Named(Arc::new(Protolink::new(system.clone()))));
    for (n, host) in hosts_of(handler).await.into_iter().enumerate() {
        let post = |path: &'static str, caller: &'static str, body: String| {
            let bytes = request("POST", path, &[("x-caller", caller)], &body);
            let host = &host;
            async move { send(host, &bytes).await }
        };
        let cancel = |caller, id: String| post("/tasks/cancel", caller, format!(r#"{{"id": "{id}"}}"#));
        let refused = |answer: support::Answer| (answer.status, answer.code());
        post("/tasks/", "ada", tool_task(&format!("done-{n}"), "echo", r#"{"text": "x"}"#)).await;
        assert_eq!(refused(cancel("ada", format!("done-{n}")).await), (409, "not_cancelable".to_owned()));
        assert_eq!(refused(cancel("ada", "nobody".to_owned()).await), (404, "not_found".to_owned()));
        for (id, by) in [(format!("a-{n}"), "ada"), (format!("o-{n}"), "operator")] {
            let mut connection = connect(&host).await;
            let body = tool_task(&id, "slow", r#"{"ms": 60000}"#);
            connection.write_all(&request("POST", "/tasks/", &[("x-caller", "ada")], &body)).await.unwrap();
            until(&system, &id, TaskState::Working).await;
            // Whose task it is, is not told to others.
            assert_eq!(refused(cancel("bob", id.clone()).await), (404, "not_found".to_owned()));
            let canceled = cancel(by, id).await;
            assert_eq!((canceled.status, canceled.json()["state"].as_str()), (200, Some("canceled")));
            assert_eq!(connection.answer().await.json()["state"], "canceled");
        }
        unharmed(&host, &system, &format!("after-{n}")).await;
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_asks_for_a_socket_where_there_is_none_is_answered_without_waiting_for_more() {
    let system = builder().start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let echo = tool_task(&format!("socket-{n}"), "echo", r#"{"text": "x"}"#);
        for (method, path, body, status) in [
            ("POST", "/tasks/", "", 400),
            ("POST", "/tasks/", echo.as_str(), 200),
            ("POST", "/state/describe", "", 200),
            ("GET", "/status", "", 200),
            ("GET", "/x", "", 404),
        ] {
            let length = body.len();
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            let mut connection = connect(&host).await;
            connection.write_all(head.as_bytes()).await.unwrap();
            let answer = connection.answer().await;
            assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
            // actix reads what follows as the bytes of a socket: the connection is of no more use.
            if host.name == "actix-web" {
                assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
                assert_eq!(connection.rest().await, "");
            }
        }
        unharmed(&host, &system, &format!("after-{n}")).await;
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}
