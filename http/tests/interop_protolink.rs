//! The real packages, protolink 0.6.4 and 0.8.3, against ours over sockets. `TASKREEL_PROTOLINK_064` and
//! `TASKREEL_PROTOLINK_083` name their Pythons; `tests/interop/venv` makes them. Where `CI=true`, one that is missing is a
//! failure.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod interop;
mod support;

use interop::packages;
use serde_json::Value;
use support::{builder, model};
use taskreel::System;

/// Returns our server, and its URL.
async fn served(system: &System) -> (taskreel_http::Serving, String) {
    let serving = taskreel_http::serve(system.clone(), "127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", serving.address());
    (serving, url)
}

/// Returns the types of events in their order.
fn types(events: &Value) -> Vec<&str> {
    let all = events.as_array().unwrap_or_else(|| panic!("no events: {events}"));
    all.iter().map(|event| event["type"].as_str().unwrap_or_default()).collect()
}

/// Asserts a whole stream: from the first status to the final one, with the finished task.
#[track_caller]
fn assert_whole(events: &Value, state: &str) {
    let (types, last) = (types(events), events.as_array().unwrap().last().unwrap());
    assert_eq!(types.first(), Some(&"task_status_update"), "{events}");
    assert_eq!(
        (last["type"].as_str(), last["final"].as_bool()),
        (Some("task_status_update"), Some(true)),
        "{last}"
    );
    assert_eq!(last["new_state"], state, "{last}");
    assert_eq!(last["metadata"]["task"]["state"], state, "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn their_client_sends_tasks_here() {
    for package in packages() {
        let system = builder().infer(model(&["one", "two"])).start().await.unwrap();
        let (serving, url) = served(&system).await;
        let steps = [
            r#"tool={"tool": "echo", "args": {"text": "ø"}}"#,
            r#"tool={"tool": "nowhere"}"#,
            r#"infer={"prompt": "first", "session": "s"}"#,
            r#"infer={"prompt": "second", "session": "s"}"#,
        ];
        let made = package.client(&url, &steps).await;
        let at = package.version;
        assert_eq!(made[0]["state"], "completed", "{at}: {}", made[0]);
        assert_eq!(made[0]["artifacts"][0]["parts"][0]["content"]["result"], "ø", "{at}");
        assert_eq!(made[1]["state"], "failed", "{at}: a failed task comes back: {}", made[1]);
        assert_eq!(made[2]["artifacts"][0]["parts"][0]["content"], "one", "{at}: {}", made[2]);
        assert_eq!(made[3]["artifacts"][0]["parts"][0]["content"], "two", "{at}: {}", made[3]);
        let history = system.session("s").history().await.unwrap();
        assert_eq!(history.len(), 5, "{at}: the turns are one conversation");
        serving.stop().await.unwrap();
        system.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn their_client_streams_to_the_final_status_here() {
    for package in packages() {
        let system = builder().infer(model(&["one", "two"])).start().await.unwrap();
        let (serving, url) = served(&system).await;
        let steps = [
            r#"stream={"tool": "echo", "args": {"text": "x"}}"#,
            r#"stream={"prompt": "first", "session": "s"}"#,
            r#"stream={"tool": "nowhere"}"#,
        ];
        let made = package.client(&url, &steps).await;
        assert_whole(&made[0], "completed");
        assert!(types(&made[0]).contains(&"task_progress"), "{}: {}", package.version, made[0]);
        assert!(types(&made[0]).contains(&"task_artifact_update"), "{}: {}", package.version, made[0]);
        // The real 0.6.4 server cuts its own streams at the model's final answer; its client is not cut here.
        assert_whole(&made[1], "completed");
        assert!(types(&made[1]).contains(&"task_llm_stream"), "{}: {}", package.version, made[1]);
        assert_whole(&made[2], "failed");
        serving.stop().await.unwrap();
        system.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn their_client_cancels_here_and_both_callers_get_the_canceled_task() {
    for package in packages() {
        let system = builder().start().await.unwrap();
        let (serving, url) = served(&system).await;
        let slow = r#"cancel={"tool": "slow", "args": {"ms": 600000}}"#;
        let made = package.client(&url, &[slow, &slow.replace("cancel", "ws_cancel")]).await;
        for both in &made {
            for caller in ["canceler", "caller"] {
                assert_eq!(both[caller]["state"], "canceled", "{}: {both}", package.version);
                assert_eq!(
                    both[caller]["metadata"]["cancel_reason"], "enough",
                    "{}: {both}",
                    package.version
                );
            }
        }
        serving.stop().await.unwrap();
        system.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn their_websocket_client_sends_and_streams_here() {
    for package in packages() {
        let system = builder().infer(model(&["one"])).start().await.unwrap();
        let (serving, url) = served(&system).await;
        let steps = [
            r#"ws_tool={"tool": "echo", "args": {"text": "x"}}"#,
            r#"ws_stream={"prompt": "first", "session": "s"}"#,
        ];
        let made = package.client(&url, &steps).await;
        assert_eq!(
            made[0]["artifacts"][0]["parts"][0]["content"]["result"], "x",
            "{}: {}",
            package.version, made[0]
        );
        assert_whole(&made[1], "completed");
        serving.stop().await.unwrap();
        system.shutdown().await.unwrap();
    }
}
