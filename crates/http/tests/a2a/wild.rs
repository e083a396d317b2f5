//! Requests as clients in the wild write them: what has one meaning is taken, what has none is refused by its name.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use taskreel::System;
use taskreel_http::limits::TASKS_PAGE_BYTES;
use taskreel_http::{A2a, Access, Guard, HttpHandler, Mounted, Protolink};

use crate::agent::{Gate, agent};
use crate::asked::{Binding, hosts};
use crate::support::{Answer, Host, actix, hosts_of, request, send};

/// Returns the bodies of the requests, each with the name of its case and its path.
fn cases() -> Vec<(String, &'static str, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/wild/a2a");
    let mut cases: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let place = if name.ends_with("-rest") { "/message:send" } else { "/" };
            (name, place, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    cases.sort();
    cases
}

async fn post(host: &Host, path: &str, body: &str) -> Answer {
    let is_03 = body.contains("message/send") || body.contains("tasks/send");
    let version = if is_03 { "0.3" } else { "1.0" };
    let headers = [("content-type", "application/json"), ("a2a-version", version)];
    send(host, &request("POST", path, &headers, body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_one_meaning_is_taken_and_what_has_none_is_refused_by_its_name() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        let mut taken = 0;
        for (name, path, body) in cases() {
            let answer = post(&host, path, &body).await;
            let said = answer.json();
            let refused = match name.get(..4).unwrap() {
                "A02e" => Some("parts[0]"),
                "A02g" => Some("kind"),
                "A02h" => Some("tasks/send"),
                _ => None,
            };
            let error = &said["error"];
            if let Some(word) = refused {
                let code = error["code"].as_i64().unwrap();
                assert!(code == -32602 || code == -32601, "{name}: {said}");
                assert!(answer.body.contains(word), "{name} does not name {word}: {said}");
            } else {
                assert!(answer.status == 200 && error.is_null(), "{name}: {} {said}", answer.status);
                taken += 1;
            }
        }
        assert_eq!(taken, 10);
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_agent_is_asked_with_a_slash_at_the_end_and_without_one_and_by_those_who_may() {
    let dir = tempfile::tempdir().unwrap();
    let entry = |name: &str, scopes: &str| {
        std::fs::write(dir.path().join(name), format!("{name}-token")).unwrap();
        format!(r#"{{"name": "{name}", "scopes": [{scopes}], "secret_file": "{name}"}}"#)
    };
    let file = format!(
        r#"{{"credentials": [{}, {}]}}"#,
        entry("ada", r#""read", "run""#),
        entry("eve", r#""read""#)
    );
    std::fs::write(dir.path().join("auth.json"), file).unwrap();
    let system = agent(&Gate::shut()).await;
    let name = system.card().name.clone();
    let handlers = || -> Arc<dyn HttpHandler> {
        let handlers = Mounted::new().mount("/", Arc::new(A2a::new(system.clone())));
        Arc::new(handlers.mount("/", Arc::new(Protolink::new(system.clone()))))
    };
    let plain = cases().into_iter().find(|(name, ..)| name.starts_with("A05")).unwrap().2;
    for host in hosts_of(handlers()).await {
        for path in
            [format!("/{name}"), format!("/{name}/"), format!("/agents/{name}"), format!("/agents/{name}/")]
        {
            let answer = post(&host, &path, &plain).await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            assert!(answer.json()["result"].is_object(), "{path}: {answer:?}");
        }
        assert!(post(&host, "/nobody", &plain).await.status >= 400);
        host.stop().await;
    }
    let access = Access::open().with_file(&dir.path().join("auth.json")).unwrap();
    let host = actix(Arc::new(Guard::new(access, handlers()))).await;
    for (token, outcome) in [("ada-token", "result"), ("eve-token", "error")] {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("content-type", "application/json"),
            ("a2a-version", "1.0"),
            ("authorization", bearer.as_str()),
        ];
        let answer = send(&host, &request("POST", &format!("/{name}"), &headers, &plain)).await;
        assert!(!answer.json()[outcome].is_null(), "{token}: {answer:?}");
        // What no handler has needs the scope of what changes something.
        let elsewhere = send(&host, &request("POST", "/nobody", &headers, &plain)).await;
        assert_eq!(elsewhere.status, 403, "{token}: {elsewhere:?}");
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_an_allowed_site_may_send_what_clients_send_and_reads_what_they_read() {
    let system = agent(&Gate::shut()).await;
    let access = Access::open().allow_origin("https://app.example").unwrap();
    let host = actix(Arc::new(Guard::new(access, Arc::new(A2a::new(system.clone()))))).await;
    let asking = [
        ("origin", "https://app.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,x-a2a-extensions"),
    ];
    let preflight = send(&host, &request("OPTIONS", "/", &asking, "")).await;
    let allowed = preflight.header("access-control-allow-headers").unwrap_or_else(|| panic!("{preflight:?}"));
    for name in ["content-type", "x-a2a-extensions", "a2a-extensions", "a2a-version", "idempotency-key"] {
        assert!(allowed.split(", ").any(|known| known == name), "{name}: {allowed}");
    }
    let card = send(&host, &request("GET", "/.well-known/agent-card.json", &asking[..1], "")).await;
    let shown = card.header("access-control-expose-headers").unwrap();
    for name in ["etag", "retry-after", "www-authenticate"] {
        assert!(shown.split(", ").any(|known| known == name), "{name}: {shown}");
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_in_the_first_line_of_a_request_counts() {
    let system = agent(&Gate::shut()).await;
    let guard = Guard::new(Access::open().only_local_hosts(), Arc::new(A2a::new(system.clone())));
    let host = actix(Arc::new(guard)).await;
    let path = "/.well-known/agent-card.json";
    for (target, host_header, status) in [
        (path.to_owned(), "localhost", 200),
        (format!("http://localhost{path}"), "localhost", 200),
        (format!("http://evil.example{path}"), "localhost", 400),
        (format!("http://evil.example{path}"), "evil.example", 403),
        (format!("http://localhost@evil.example{path}"), "localhost", 400),
        (path.to_owned(), "evil.example", 403),
    ] {
        let asked = format!("GET {target} HTTP/1.1\r\nhost: {host_header}\r\nconnection: close\r\n\r\n");
        let answer = send(&host, asked.as_bytes()).await;
        assert_eq!(answer.status, status, "{target} {host_header}: {answer:?}");
        assert!(status == 200 || !answer.body.contains("skills"), "{answer:?}");
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_in_the_query_is_none_on_the_paths_of_a2a() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ada"), "ada-token").unwrap();
    let file = r#"{"credentials": [{"name": "ada", "scopes": ["read", "run"], "secret_file": "ada"}]}"#;
    std::fs::write(dir.path().join("auth.json"), file).unwrap();
    let access = Access::open().with_file(&dir.path().join("auth.json")).unwrap();
    let system = agent(&Gate::shut()).await;
    let host = actix(Arc::new(Guard::new(access, Arc::new(A2a::new(system.clone()))))).await;
    for path in
        ["/tasks", "/tasks/t-1", "/tasks/t-1/pushNotificationConfigs", "/extendedAgentCard", "/v1/card"]
    {
        for name in ["token", "api_key", "apikey"] {
            let answer = send(
                &host,
                &request("GET", &format!("{path}?{name}=ada-token"), &[("a2a-version", "1.0")], ""),
            )
            .await;
            assert_eq!(answer.status, 401, "{path} {name}: {answer:?}");
        }
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

async fn listed(host: &Host, params: Value) -> Value {
    Binding::Rpc1.ask(host, "list", params).await.unwrap()
}

/// Sends a message of this many bytes.
async fn say(host: &Host, id: &str, bytes: usize) -> Value {
    let text = format!("{id} {}", "x".repeat(bytes));
    let params = json!({"message": Binding::Rpc1.message(&text, &json!({"messageId": id}))});
    Binding::Rpc1.ask(host, "send", params).await.unwrap()
}

async fn with_large_tasks(count: usize, bytes: usize) -> (System, Host) {
    let system = agent(&Gate::shut()).await;
    let host = actix(Arc::new(A2a::new(system.clone()))).await;
    for number in 0..count {
        say(&host, &format!("m-{number}"), bytes).await;
    }
    (system, host)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_tasks_ends_early_and_the_next_one_goes_on_until_all_were_listed_once() {
    let (system, host) = with_large_tasks(9, 600_000).await;
    // The words of a status are shown without a history too.
    let whole = listed(&host, json!({"pageSize": 100, "historyLength": 10})).await;
    assert!(whole["tasks"].as_array().unwrap().len() < 9, "nine histories are no page");
    for (asked, has_history) in [(json!({}), false), (json!({"historyLength": 10}), true)] {
        let (mut ids, mut token, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let mut params = asked.clone();
            params["pageToken"] = json!(token);
            let page = listed(&host, params).await;
            let tasks = page["tasks"].as_array().unwrap();
            let bytes: usize = tasks.iter().map(|task| task.to_string().len()).sum();
            assert!(bytes < TASKS_PAGE_BYTES + 3 * 700_000, "{bytes}");
            for task in tasks {
                assert_eq!(task["history"].as_array().is_some_and(|told| !told.is_empty()), has_history);
                ids.push(task["id"].as_str().unwrap().to_owned());
            }
            assert_eq!(page["totalSize"], 9);
            pages += 1;
            page["nextPageToken"].as_str().unwrap().clone_into(&mut token);
            if token.is_empty() {
                break;
            }
            assert!(!tasks.is_empty());
        }
        assert!(pages > 1 && ids.len() == 9, "{pages} pages, {ids:?}");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 9);
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_has_the_length_of_an_id() {
    let system = agent(&Gate::shut()).await;
    let host = actix(Arc::new(A2a::new(system.clone()))).await;
    let long = "i".repeat(1_000_000);
    for (member, fits) in [("messageId", 200), ("contextId", 200), ("taskId", 200)] {
        let mut message = Binding::Rpc1.message("hello", &json!({"messageId": "m"}));
        message[member] = json!(long);
        let (code, _) = Binding::Rpc1.ask(&host, "send", json!({"message": message})).await.unwrap_err();
        assert!([-32602, -32001].contains(&code), "{member}: {code}");
        if member == "messageId" {
            message[member] = json!("i".repeat(fits));
            Binding::Rpc1.ask(&host, "send", json!({"message": message})).await.unwrap();
        }
    }
    let body = json!({"jsonrpc": "2.0", "id": long, "method": "ListTasks", "params": {}}).to_string();
    let answer = post(&host, "/", &body).await;
    assert!(answer.body.len() < 1_000 && answer.json()["error"]["code"] == -32600, "{}", answer.body.len());
    host.stop().await;
    system.shutdown().await.unwrap();
}
