//! A handler in our own server and in a host on axum: routes, methods, redirects, keep-alive, streams, sockets.
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

/// Returns a system of two agents.
fn two_agents() -> taskreel::Builder {
    builder().agent("archive", |agent| {
        agent.tool("echo", "the text twice", |args: support::Text| async move {
            Ok::<_, taskreel::tool::ToolError>(args.text.repeat(2))
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn each_agent_has_its_routes_under_its_name_and_the_first_one_at_the_root_too() {
    let system = two_agents().start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let body = tool_task(&format!("t-{n}"), "echo", r#"{"text": "x"}"#);
        let result = async |path| {
            let answer = ask(&host, "POST", path, &body).await;
            answer.json()["artifacts"][0]["parts"][0]["content"]["result"].clone()
        };
        assert_eq!(result("/tasks/").await, "x");
        assert_eq!(result("/agents/archive/tasks/").await, "xx", "a task of its own, of the same id");
        assert_eq!(result("/agents/%61gent/tasks/").await, "x", "the first agent has its name too");
        assert_eq!(ask(&host, "POST", "/agents/nobody/tasks/", &body).await.status, 404);
        assert_eq!(ask(&host, "POST", "/agents/archive%2Ftasks/", &body).await.status, 404);
        let moved = ask(&host, "POST", "/agents/archive/tasks", &body).await;
        assert_eq!((moved.status, moved.header("location")), (307, Some("/agents/archive/tasks/")));
        let card = ask(&host, "GET", "/agents/archive/.well-known/agent.json", "").await.json();
        assert_eq!(
            (&card["name"], &card["url"]),
            (&"archive".into(), &"http://localhost/agents/archive".into())
        );
        assert_eq!(ask(&host, "GET", "/.well-known/agent.json", "").await.json()["url"], "http://localhost");
        // A task of one agent is unknown to the other.
        let only = tool_task(&format!("only-{n}"), "echo", r#"{"text": "x"}"#);
        ask(&host, "POST", "/agents/archive/tasks/", &only).await;
        let cancel = ask(&host, "POST", "/tasks/cancel", &format!(r#"{{"id": "only-{n}"}}"#)).await;
        assert_eq!((cancel.status, cancel.code().as_str()), (404, "not_found"));
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_the_name_of_a_path_is_refused_at_start() {
    for name in ["heartbeat", "status"] {
        assert!(builder().agent(name, |agent| agent).start().await.is_err(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checked_caller_stands_in_the_records_and_others_are_nobody() {
    let system = builder().start().await.unwrap();
    let handler = std::sync::Arc::new(taskreel_http::Protolink::new(system.clone()));
    for (n, host) in
        support::hosts_of(std::sync::Arc::new(support::Named(handler))).await.into_iter().enumerate()
    {
        for (name, headers) in [("ada", vec![("x-caller", "ada")]), ("", vec![])] {
            let id = format!("by-{name}-{n}");
            let body = tool_task(&id, "echo", r#"{"text": "x"}"#);
            assert_eq!(send(&host, &request("POST", "/tasks/", &headers, &body)).await.status, 200);
            let stream = system.task(&id).unwrap().stream().clone();
            let page = system
                .log()
                .page_stream(&stream, taskreel::Version(1), taskreel_log::api::Page::default())
                .unwrap();
            let events =
                taskreel_log::read::decode_record::<taskreel::proto_events::task::TaskEvent>(&page[0])
                    .unwrap();
            let principal = &events[0].metadata.principal;
            assert_eq!(principal.name, name);
            assert_eq!(*principal == taskreel::Principal::authenticated(name), !name.is_empty());
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_answers_and_an_agent_without_a_model_has_none() {
    let silent = builder().start().await.unwrap();
    let system = builder().infer(model(&["one", "two"])).start().await.unwrap();
    for (answer, (host, mute)) in
        ["one", "two"].into_iter().zip(hosts(&system).await.into_iter().zip(hosts(&silent).await))
    {
        let said = ask(&host, "POST", "/chat", r#"{"message": "hi"}"#).await;
        assert_eq!((said.status, said.json()), (200, serde_json::json!({"response": answer})));
        assert_eq!(ask(&host, "POST", "/chat", r#"{"message": " "}"#).await.json()["error"], "Empty message");
        assert_eq!(ask(&host, "POST", "/chat", r#"{"message": 7}"#).await.status, 400);
        let page = ask(&host, "GET", "/chat", "").await;
        assert!(page.body.contains("<title>agent · Chat</title>"), "{}", page.body);
        assert!(
            page.header("content-security-policy")
                .is_some_and(|policy| policy.starts_with("default-src 'none'"))
        );
        assert_eq!(ask(&mute, "GET", "/chat", "").await.body, "");
        assert_eq!(ask(&mute, "POST", "/chat", r#"{"message": "hi"}"#).await.status, 405);
        host.stop().await;
        mute.stop().await;
    }
    system.shutdown().await.unwrap();
    silent.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_request_resets_nothing() {
    let system = builder().infer(model(&["one", "two"])).start().await.unwrap();
    for host in hosts(&system).await {
        let talked = ask(&host, "POST", "/chat", r#"{"message": "hi", "session_id": "s"}"#).await;
        assert_eq!(talked.status, 200, "{talked:?}");
        let messages = async || {
            let described = ask(&host, "POST", "/state/describe", r#"{"session_id": "s"}"#).await.json();
            described["stores"][0]["message_count"].clone()
        };
        let before = messages().await;
        assert_ne!(before, 0);
        for body in ["", "{nope", "null", "[]", "7", r#"{"strategy": "x"}"#] {
            for path in ["/state/reset", "/state/compact"] {
                let refused = ask(&host, "POST", path, body).await;
                assert_eq!((refused.status, refused.code().as_str()), (400, "malformed"), "{path} {body}");
            }
        }
        assert_eq!(messages().await, before, "nothing was wiped");
        assert_eq!(ask(&host, "POST", "/state/describe", "").await.status, 200, "an empty body asks for all");
        let reset = ask(&host, "POST", "/state/reset", r#"{"session_id": "s"}"#).await;
        assert_eq!(reset.json()["cleared"], serde_json::json!(["conversation"]));
        assert_ne!(messages().await, before);
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}
