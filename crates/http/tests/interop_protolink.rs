//! The real packages, protolink 0.6.4 and 0.8.3, against ours over sockets. `TASKREEL_PROTOLINK_064` and
//! `TASKREEL_PROTOLINK_083` name their Pythons; `tests/interop/venv` makes them. Where `CI=true`, one that is missing is a
//! failure.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod interop;
mod support;

use std::sync::Arc;

use interop::packages;
use serde_json::Value;
use support::{builder, model};
use taskreel::System;

/// Returns our server, and its URL.
async fn served(system: &System) -> (taskreel_http::RunningServer, String) {
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

#[tokio::test(flavor = "multi_thread")]
async fn their_client_reads_the_card_here() {
    for package in packages() {
        let system = builder().start().await.unwrap();
        let (serving, url) = served(&system).await;
        let made = package.client(&url, &["card"]).await;
        assert_eq!(made[0]["name"], "agent", "{}: {}", package.version, made[0]);
        let skills = made[0]["skills"].as_array().unwrap();
        assert!(skills.iter().any(|skill| skill["id"] == "echo"), "{}: {}", package.version, made[0]);
        serving.stop().await.unwrap();
        system.shutdown().await.unwrap();
    }
}

/// Returns our registry at a port of its own, and its URL.
async fn registry(system: &System) -> (taskreel_http::Registry, taskreel_http::RunningServer, String) {
    let registry = taskreel_http::Registry::new(system, "main").unwrap();
    let handler = Arc::new(taskreel_http::RegistryHandler::new(registry.clone()));
    let serving = taskreel_http::Server::new().mount("/", handler).start("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", serving.address());
    (registry, serving, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn their_registry_client_registers_finds_and_unregisters_here() {
    for package in packages() {
        let system = builder().start().await.unwrap();
        let (_, serving, url) = registry(&system).await;
        let card = r#"register={"name": "desk", "description": "Answers", "url": "http://127.0.0.1:9", "tags": ["a"]}"#;
        let steps = [
            card,
            r#"heartbeat="http://127.0.0.1:9""#,
            r#"discover={"name": "desk"}"#,
            r#"discover={"name": "nobody"}"#,
            r#"unregister="http://127.0.0.1:9""#,
            r#"heartbeat="http://127.0.0.1:9""#,
            "discover={}",
        ];
        let made = package.client(&url, &steps).await;
        let at = package.version;
        assert_eq!(made[0]["status"], "agent registered successfully", "{at}: {made:?}");
        assert_eq!(made[1]["status"], "agent heartbeat recorded", "{at}: {made:?}");
        assert_eq!(made[2][0]["description"], "Answers", "{at}: {made:?}");
        assert_eq!(made[3].as_array().map(Vec::len), Some(0), "{at}: {made:?}");
        assert_eq!(made[4]["status"], "agent unregistered successfully", "{at}: {made:?}");
        assert_eq!(made[5]["status"], "agent not found", "{at}: {made:?}");
        assert_eq!(made[6].as_array().map(Vec::len), Some(0), "{at}: {made:?}");
        serving.stop().await.unwrap();
        system.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_theirs_finds_ours_in_our_registry_and_delegates_to_it() {
    for package in packages() {
        let system = builder().start().await.unwrap();
        let (serving, url) = served(&system).await;
        let (registry, registry_serving, registry_url) = registry(&system).await;
        let mut card = system.card();
        card.url.clone_from(&url);
        registry.register(card, &taskreel::Principal::asserted("host")).await.unwrap();
        let theirs = package.agent("theirs", "http", &["--registry", &registry_url]);
        let made = package.client(&registry_url, &[r#"discover={"name": "theirs"}"#]).await;
        assert_eq!(made[0][0]["url"], theirs.url, "{}: it registered itself here: {made:?}", package.version);
        let made = package.client(&theirs.url, &[r#"infer={"prompt": "delegate agent hello there"}"#]).await;
        assert_eq!(made[0]["state"], "completed", "{}: {}", package.version, made[0]);
        let said = &made[0]["artifacts"].as_array().unwrap().last().unwrap()["parts"][0]["content"];
        assert!(
            said.as_str().is_some_and(|said| said.starts_with("they said") && said.contains("hello there")),
            "{}: {}",
            package.version,
            made[0]
        );
        let here = system.tasks().page(10).await.unwrap();
        assert_eq!(here.tasks.len(), 1, "{}: the child ran here", package.version);
        drop(theirs);
        registry_serving.stop().await.unwrap();
        serving.stop().await.unwrap();
        system.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn their_client_describes_compacts_and_resets_here() {
    for package in packages() {
        let system = builder().infer(model(&["one", "two", "three"])).start().await.unwrap();
        let (serving, url) = served(&system).await;
        let steps = [
            r#"infer={"prompt": "first", "session": "s"}"#,
            r#"infer={"prompt": "second", "session": "s"}"#,
            r#"infer={"prompt": "third", "session": "s"}"#,
            r#"describe={"session_id": "s"}"#,
            r#"compact={"session_id": "s", "strategy": "recent", "max_messages": 5, "preserve_recent": 1}"#,
            r#"compact_history={"session_id": "s", "strategy": "recent", "max_messages": 3, "preserve_recent": 1}"#,
            r#"reset={"session_id": "s"}"#,
            r#"describe={"session_id": "s"}"#,
        ];
        let made = package.client(&url, &steps).await;
        let at = package.version;
        let of = |result: &Value| {
            let stores = result["stores"].as_array().unwrap_or_else(|| panic!("{at}: {result}"));
            let store = stores.iter().find(|store| store["name"] == "conversation");
            store.unwrap_or_else(|| panic!("{at}: {result}")).clone()
        };
        assert_eq!(of(&made[3])["message_count"], 7, "{at}: {}", made[3]);
        assert_eq!(made[4]["compacted"][0], "conversation", "{at}: {}", made[4]);
        assert_eq!(made[5]["after_messages"], 3, "{at}: {}", made[5]);
        assert_eq!(made[6]["cleared"][0], "conversation", "{at}: {}", made[6]);
        assert_eq!(of(&made[7])["exists"], false, "{at}: {}", made[7]);
        assert_eq!(system.session("s").history().await.unwrap().len(), 0, "{at}");
        serving.stop().await.unwrap();
        system.shutdown().await.unwrap();
    }
}
