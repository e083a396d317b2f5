//! The same face in our own server and in a host on axum: routes, methods, redirects, keep-alive, streams, sockets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use support::{ask, builder, connect, hosts, model, request, send, tool_task};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_carried_out_and_answered_with_and_a_failed_one_too() {
    let system = builder().start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let done =
            ask(&host, "POST", "/tasks/", &tool_task(&format!("t-{n}"), "echo", r#"{"text": "x"}"#)).await;
        assert_eq!((done.status, done.header("content-type")), (200, Some("application/json")), "{done:?}");
        assert_eq!(done.json()["state"], "completed");
        assert_eq!(done.json()["artifacts"][0]["parts"][0]["content"]["result"], "x");
        let failed = ask(&host, "POST", "/tasks/", &tool_task(&format!("f-{n}"), "nope", "{}")).await;
        assert_eq!((failed.status, failed.json()["state"].as_str()), (200, Some("failed")), "{failed:?}");
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_methods_and_slashes_are_answered_as_protolink_answers_them() {
    let system = builder().start().await.unwrap();
    for host in hosts(&system).await {
        let found = |answer: support::Answer| (answer.status, answer.body);
        assert_eq!(found(ask(&host, "GET", "/nope", "").await), (404, "Not Found".to_owned()));
        assert_eq!(found(ask(&host, "GET", "/tasks/", "").await), (405, "Method Not Allowed".to_owned()));
        let moved = ask(&host, "POST", "/tasks?a=1", "{}").await;
        assert_eq!((moved.status, moved.header("location")), (307, Some("/tasks/?a=1")));
        let page = ask(&host, "GET", "/status", "").await;
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(page.body.contains("<title>agent · Agent Status</title>"), "{}", page.body);
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_carries_many_requests() {
    let system = builder().start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let mut connection = connect(&host).await;
        for turn in 0..5 {
            let body = tool_task(&format!("k-{n}-{turn}"), "echo", r#"{"text": "x"}"#);
            connection.write_all(&request("POST", "/tasks/", &[], &body)).await.unwrap();
            assert_eq!(connection.answer().await.json()["state"], "completed");
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_sends_protolink_s_frames_up_to_the_final_status() {
    let system = builder().infer(model(&["one", "two"])).start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let body = format!(
            r#"{{"id": "s-{n}", "messages": [{{"parts": [{{"type": "infer", "content": {{"prompt": "hi"}}}}]}}]}}"#
        );
        let mut connection = connect(&host).await;
        let headers = [("x-protolink-request-id", "r1")];
        connection.write_all(&request("POST", "/tasks/stream", &headers, &body)).await.unwrap();
        let (status, head) = connection.head().await;
        assert_eq!(status, 200, "{head}");
        assert!(head.contains("text/event-stream; charset=utf-8"), "{head}");
        let mut frames = Vec::new();
        while let Some((_, frame)) = connection.frame().await {
            assert_eq!(
                (&frame["id"], &frame["ok"], &frame["jsonrpc"]),
                (&"r1".into(), &true.into(), &"2.0".into())
            );
            frames.push(frame);
        }
        let last = frames.last().unwrap();
        assert_eq!((&last["final"], &last["result"]["new_state"]), (&true.into(), &"completed".into()));
        assert_eq!(frames.iter().filter(|frame| frame["final"] == true).count(), 1);
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_request_is_told_what_is_wrong_and_nothing_is_done() {
    let system = builder().start().await.unwrap();
    for host in hosts(&system).await {
        for (body, status, code) in [
            ("{nope", 400, "malformed"),
            ("", 400, "malformed"),
            (r#"{"state": "done"}"#, 400, "malformed"),
            (r#"{"messages": [{"parts": [{"content": 1}]}]}"#, 400, "malformed"),
        ] {
            let answer = ask(&host, "POST", "/tasks/", body).await;
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{body}: {answer:?}");
        }
        let text = send(&host, &request("POST", "/tasks/", &[("content-type", "text/plain")], "{}")).await;
        assert_eq!((text.status, text.code().as_str()), (415, "unsupported_media_type"));
        host.stop().await;
    }
    assert_eq!(system.tasks().page(10).await.unwrap().tasks.len(), 0);
    system.shutdown().await.unwrap();
}
