//! Addresses of webhooks that are not on the public internet: refused when they are registered, and when a connection is made.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use taskreel::System;
use taskreel_http::a2a::Push;

use crate::agent::{Gate, agent};
use crate::asked::{ALL, Binding, handler_with};
use crate::hook::{Hook, noted, quick};
use crate::push::until;
use crate::support::{Host, actix};

/// Addresses that are refused when they are registered.
const REFUSED: &[&str] = &[
    "http://127.0.0.1:80/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://localhost/",
    "http://a.localhost/",
    "http://[::1]/",
    "http://[::]/",
    "http://0.0.0.0/",
    "http://[::ffff:127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[fe80::1]/",
    "http://[fc00::1]/",
    "http://224.0.0.1/",
    "http://[ff02::1]/",
    "http://255.255.255.255/",
    "http://metadata.google.internal/",
    "http://printer.local/",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://inside.example/",
    "http://loop.example/",
    "http://mapped.example/",
    "http://nat64.example/",
    "http://user:secret@outside.example/",
    "http://outside.example@127.0.0.1/",
    "ftp://outside.example/",
    "file:///etc/passwd",
    "gopher://outside.example/",
    "//outside.example/",
    "outside.example",
    "http://",
    "http:///path",
    "http://outside.example:x/",
    "http://outside.example /",
    "http://outside.example\\@127.0.0.1/",
    "http://outside.example/\r\nx: y",
    "",
];

async fn host(system: &System, push: &Push) -> (Host, taskreel_http::a2a::PushDeliveries) {
    let pushing = push.start(system).unwrap();
    (actix(handler_with(system, &pushing)).await, pushing)
}

async fn set(host: &Host, task: &str, url: &str) -> crate::asked::Came {
    Binding::Rpc1.ask(host, "push", json!({"taskId": task, "id": "w", "url": url})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_not_public_is_refused_when_it_is_registered() {
    let system = agent(&Gate::shut()).await;
    let look_up = |name: &str| match name {
        "inside.example" => Ok(vec![IpAddr::from([93, 184, 216, 34]), IpAddr::from([10, 0, 0, 7])]),
        "loop.example" => Ok(vec!["::1".parse().unwrap()]),
        "mapped.example" => Ok(vec!["::ffff:127.0.0.1".parse().unwrap()]),
        "nat64.example" => Ok(vec!["64:ff9b::7f00:1".parse().unwrap()]),
        "none.example" => Ok(Vec::new()),
        "outside.example" => Ok(vec![IpAddr::from([93, 184, 216, 34])]),
        _ => Err(std::io::Error::other("no such name")),
    };
    let hopeless = Push::new().look_up(look_up).timeout(Duration::from_millis(50));
    let (host, pushing) = host(&system, &hopeless).await;
    let task = Binding::Rpc1.task(&host, "ask").await;
    let id = task["id"].as_str().unwrap();
    let long = format!("http://outside.example/{}", "x".repeat(3_000));
    for url in REFUSED.iter().copied().chain([long.as_str()]) {
        let refused = set(&host, id, url).await.expect_err(url);
        assert_eq!(refused.0, -32602, "{url}");
    }
    nothing_begins(&system, &host).await;
    for url in [
        "https://outside.example/a?b=c",
        "http://93.184.216.34:8080/",
        "https://[2606:4700::1111]/",
        "http://none.example/",
        "http://unknown.example/",
    ] {
        set(&host, id, url).await.unwrap_or_else(|error| panic!("{url}: {error:?}"));
    }
    let wrong = json!({"taskId": id, "url": "https://outside.example/", "token": "a\nb"});
    assert_eq!(
        Binding::Rpc1.ask(&host, "push", wrong).await.unwrap_err().0,
        -32602,
        "a token is no two lines"
    );
    host.stop().await;
    pushing.stop().await;
    system.shutdown().await.unwrap();
}

/// A message whose webhook may not be reached begins nothing.
async fn nothing_begins(system: &System, host: &Host) {
    for binding in ALL {
        let name = match binding {
            Binding::Rpc1 | Binding::Rest1 => "taskPushNotificationConfig",
            Binding::Rpc03 => "pushNotificationConfig",
            Binding::Rest03 => "pushNotification",
        };
        let before = system.tasks().newest(None, 100).await.unwrap().total;
        let message = binding.message("hello", &serde_json::Value::Null);
        let params = json!({"message": message, "configuration": {name: {"url": "http://[::1]/"}}});
        let refused = binding.ask(host, "send", params).await.unwrap_err();
        assert_eq!(refused.0, if binding.is_rpc() { -32602 } else { 400 }, "{binding:?}");
        assert_eq!(system.tasks().newest(None, 100).await.unwrap().total, before, "nothing was begun");
    }
}

/// A name whose addresses change between the check and the connection leads nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_leads_to_this_machine_later_is_not_connected_to() {
    let (system, hook) = (agent(&Gate::shut()).await, Hook::start().await);
    let is_bad = Arc::new(AtomicBool::new(false));
    let now_bad = Arc::clone(&is_bad);
    let look_up = move |_: &str| {
        let address = if now_bad.swap(true, Ordering::SeqCst) { [127, 0, 0, 1] } else { [93, 184, 216, 34] };
        Ok(vec![IpAddr::from(address)])
    };
    let pause = Duration::from_millis(5);
    let push = Push::new().look_up(look_up).attempts(3).pauses(pause, pause);
    let (host, pushing) = host(&system, &push).await;
    let url = format!("http://rebound.example:{}/", hook.address.port());
    let message = Binding::Rpc1.message("hello", &serde_json::Value::Null);
    let configuration = json!({"taskPushNotificationConfig": {"id": "w", "url": url}});
    let params = json!({"message": message, "configuration": configuration});
    let task = Binding::Rpc1.task_of(&host, None, params).await.unwrap();
    let id = task["id"].as_str().unwrap();
    until(async || noted(&system, id).len() == 2).await;
    let now = system.task(id).unwrap().snapshot().await.unwrap();
    let failure = now.task().webhooks().get("w").unwrap().failure().unwrap().clone();
    assert!(failure.error.contains("not on the public internet"), "{}", failure.error);
    assert!(hook.seen("/").is_empty() && is_bad.load(Ordering::SeqCst));
    host.stop().await;
    pushing.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed_wherever_it_leads() {
    let (system, hook, other) = (agent(&Gate::shut()).await, Hook::start().await, Hook::start().await);
    let (host, pushing) = host(&system, &quick().attempts(3)).await;
    let url = format!("{}?{}", hook.url("/to"), other.url("/inside"));
    let message = Binding::Rpc1.message("hello", &serde_json::Value::Null);
    let configuration = json!({"taskPushNotificationConfig": {"id": "w", "url": url}});
    let task =
        Binding::Rpc1.task_of(&host, None, json!({"message": message, "configuration": configuration}));
    let task = task.await.unwrap();
    let id = task["id"].as_str().unwrap();
    until(async || noted(&system, id).len() == 2).await;
    let now = system.task(id).unwrap().snapshot().await.unwrap();
    let known = now.task().webhooks().get("w").unwrap();
    assert_eq!(known.failure().unwrap().error, "HTTP 307: redirects are not followed");
    assert!(other.seen("/").is_empty());
    host.stop().await;
    pushing.stop().await;
    system.shutdown().await.unwrap();
}
