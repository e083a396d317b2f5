//! Webhooks across restarts, and their secrets beside the log.

use std::path::Path;

use serde_json::json;
use taskreel::System;
use taskreel_http::a2a::PushDeliveries;

use crate::agent::{Gate, with_handler};
use crate::asked::{Binding, handler_with};
use crate::hook::{Hook, noted, quick};
use crate::push::until;
use crate::support::{Host, actix};

async fn started(dir: &Path, gate: &Gate) -> (System, PushDeliveries, Host) {
    let system = with_handler(System::builder(dir), gate).start().await.unwrap();
    let pushing = quick().start(&system).unwrap();
    let host = actix(handler_with(&system, &pushing)).await;
    (system, pushing, host)
}

async fn stop((system, pushing, host): (System, PushDeliveries, Host)) {
    host.stop().await;
    pushing.stop().await;
    system.shutdown().await.unwrap();
}

/// Returns the files of a folder whose bytes hold a text.
fn holding(dir: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(text.len()).any(|part| part == text.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_delivered_before_a_stop_is_delivered_after_the_next_start_and_nothing_twice() {
    let (dir, gate, hook) = (tempfile::tempdir().unwrap(), Gate::shut(), Hook::start().await);
    let first = started(dir.path(), &gate).await;
    let config = json!({"id": "w", "url": hook.url("/ok"), "token": "tok-3fd1"});
    let message = Binding::Rpc1.message("wait", &serde_json::Value::Null);
    let configuration = json!({"returnImmediately": true, "taskPushNotificationConfig": config});
    let params = json!({"message": message, "configuration": configuration});
    let task = Binding::Rpc1.task_of(&first.2, None, params).await.unwrap();
    let id = task["id"].as_str().unwrap();
    hook.wait("/ok", 2).await;
    hook.set_up(false);
    gate.open();
    // It fails, and its failure is told.
    until(async || noted(&first.0, id).iter().any(|kind| kind == "WebhookFailed")).await;
    stop(first).await;
    hook.set_up(true);
    let refused = hook.seen("/ok").len() - 2;
    let second = started(dir.path(), &gate).await;
    let seen = hook.wait("/ok", refused + 3).await;
    assert!(seen.iter().all(|one| one.header("x-a2a-notification-token") == Some("tok-3fd1")));
    let taken: Vec<_> = seen[..2].iter().chain(&seen[2 + refused..]).map(|one| one.body.clone()).collect();
    let frames = Binding::Rest1
        .frames(&second.2, "subscribe", &json!({"id": id}), &[("last-event-id", "1")], 99)
        .await;
    assert_eq!(taken, frames.into_iter().map(|(_, event)| event).collect::<Vec<_>>(), "each once, in order");
    until(async || noted(&second.0, id).last().is_some_and(|last| last == "WebhookDelivered")).await;
    // Nothing needs the token any more.
    until(async || std::fs::read_dir(dir.path().join("secrets")).unwrap().next().is_none()).await;
    let verified = taskreel_log::audit::verify(second.0.log().as_ref());
    assert!(verified.is_sound(), "{:?}", verified.findings);
    stop(second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_a_webhook_stand_in_one_private_file_each_and_nowhere_else_until_it_is_removed() {
    let (dir, gate, hook) = (tempfile::tempdir().unwrap(), Gate::shut(), Hook::start().await);
    let running = started(dir.path(), &gate).await;
    let (token, credentials) = ("tok-77aa9c1e", "cred-5b2f0d44");
    let task = Binding::Rpc1.task(&running.2, "ask").await;
    let id = task["id"].as_str().unwrap();
    let config = json!({"taskId": id, "id": "w", "url": hook.url("/ok"), "token": token,
                        "authentication": {"scheme": "Bearer", "credentials": credentials}});
    Binding::Rpc1.ask(&running.2, "push", config.clone()).await.unwrap();
    for secret in [token, credentials] {
        let files = holding(dir.path(), secret);
        assert_eq!(files.len(), 1, "{files:?}");
        assert!(files[0].contains("/secrets/"), "{files:?}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
    let log = running.0.log();
    let mut exported = String::new();
    let id_of_log = proto_events::id::LogId::default();
    let export = taskreel_log::audit::export(log.as_ref(), id_of_log, "strict", |line| {
        exported.push_str(line);
        Ok::<_, taskreel_log::api::ReadError>(())
    });
    export.unwrap();
    assert!(exported.contains("WebhookSet") && exported.contains("secret:sha256-"));
    assert!(!exported.contains(token) && !exported.contains(credentials));
    // Registered again, the values of before are gone.
    let mut again = config;
    again["token"] = json!("tok-second-9921");
    Binding::Rpc1.ask(&running.2, "push", again).await.unwrap();
    until(async || holding(dir.path(), token).is_empty()).await;
    assert_eq!(holding(dir.path(), "tok-second-9921").len(), 1);
    Binding::Rpc1.ask(&running.2, "unhook", json!({"id": id, "config": "w"})).await.unwrap();
    until(async || {
        holding(dir.path(), credentials).is_empty() && holding(dir.path(), "tok-second").is_empty()
    })
    .await;
    stop(running).await;
}

/// Values that are gone, as after a copy of the log alone: the webhook is given up, and says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_whose_secrets_are_not_beside_the_log_is_given_up_and_not_called_without_them() {
    let (dir, gate, hook) = (tempfile::tempdir().unwrap(), Gate::shut(), Hook::start().await);
    let first = started(dir.path(), &gate).await;
    let task = Binding::Rpc1.task(&first.2, "ask").await;
    let id = task["id"].as_str().unwrap();
    let config = json!({"taskId": id, "id": "w", "url": hook.url("/ok"), "token": "tok-31"});
    Binding::Rpc1.ask(&first.2, "push", config).await.unwrap();
    stop(first).await;
    std::fs::remove_dir_all(dir.path().join("secrets")).unwrap();
    let second = started(dir.path(), &gate).await;
    until(async || noted(&second.0, id).last().is_some_and(|last| last == "WebhookFailed")).await;
    let now = second.0.task(id).unwrap().snapshot().await.unwrap();
    let known = now.task().webhooks().get("w").unwrap();
    assert_eq!(known.state.as_str(), "given-up");
    assert!(known.failure().unwrap().error.contains("not kept beside this log"));
    assert!(hook.seen("/").is_empty());
    stop(second).await;
}
