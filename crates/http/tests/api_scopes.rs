//! The live API and callers: each route needs its scope, a decision is recorded as its caller's, and a task is canceled
//! by the one who submitted it; a key is its caller's own.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use proto_events::envelope::Principal;
use proto_events::id::{StreamId, Version};
use serde_json::{Value, json};
use support::{builder, tool_task};
use taskreel::System;
use taskreel_http::{Caller, HttpHandler as _, LiveApi, RequestBody, ResponseBody, Scope, Scopes};

async fn asked(api: &LiveApi, caller: &Caller, method: &str, path: &str, body: &str) -> (u16, Value) {
    sent(api, caller, http::Request::builder().method(method).uri(path), body).await
}

/// Sends a command under a key.
async fn keyed(api: &LiveApi, caller: &Caller, key: &str, path: &str, body: &str) -> (u16, Value) {
    sent(api, caller, http::Request::post(path).header("idempotency-key", key), body).await
}

async fn sent(
    api: &LiveApi,
    caller: &Caller,
    mut request: http::request::Builder,
    body: &str,
) -> (u16, Value) {
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    let mut request = request.body(RequestBody::from(Bytes::from(body.to_owned()))).unwrap();
    request.extensions_mut().insert(caller.clone());
    let response = api.answer(request).await;
    let status = response.status().as_u16();
    let ResponseBody::Whole(body) = response.into_body() else { return (status, Value::Null) };
    (status, serde_json::from_slice(&body).unwrap())
}

fn caller(name: &str, scopes: Scopes) -> Caller {
    Caller { principal: Principal::authenticated(name), scopes }
}

async fn system() -> System {
    builder().start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_route_needs_its_scope() {
    let system = system().await;
    let api = LiveApi::new(&system);
    let (read, run, control) = (Scope::Read, Scope::Run, Scope::Control);
    for (method, path, needs) in [
        ("GET", "/openapi.json", read),
        ("GET", "/v1/tasks", read),
        ("GET", "/v1/records", read),
        ("GET", "/v1/live", read),
        ("POST", "/v1/tasks", run),
        ("POST", "/v1/tasks/x/cancel", run),
        ("POST", "/v1/tasks/x/approve", control),
        ("POST", "/v1/tasks/x/reconcile", control),
        ("POST", "/v1/tasks/x/budget", control),
    ] {
        for scope in [read, run, control] {
            let (status, _) = asked(&api, &caller("ada", Scopes::NONE.with(scope)), method, path, "").await;
            assert_eq!(status == 403, scope != needs, "{method} {path} with {scope:?}: {status}");
        }
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_cancels_its_own_task_and_a_foreign_one_only_with_control() {
    let system = system().await;
    let api = LiveApi::new(&system);
    let runs = Scopes::NONE.with(Scope::Run).with(Scope::Read);
    let (ada, eve) = (caller("ada", runs), caller("eve", runs));
    for id in ["one", "two"] {
        let body = tool_task(id, "slow", r#"{"ms": 60000}"#);
        assert_eq!(asked(&api, &ada, "POST", "/v1/tasks", &body).await.0, 200);
    }
    assert_eq!(asked(&api, &eve, "POST", "/v1/tasks/one/cancel", "{}").await.0, 403);
    let (status, made) = asked(&api, &ada, "POST", "/v1/tasks/one/cancel", r#"{"reason": "late"}"#).await;
    assert_eq!((status, made["state"].as_str()), (200, Some("canceled")), "{made}");
    let control = caller("op", Scopes::ALL);
    assert_eq!(asked(&api, &control, "POST", "/v1/tasks/two/cancel", "{}").await.0, 200);
    let (_, events) = asked(&api, &control, "GET", "/v1/tasks/two/events", "").await;
    let last = events["items"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (last["principal"].as_str(), last["principal_basis"].as_str()),
        (Some("op"), Some("authenticated"))
    );
    drop(Arc::new(api));
    system.shutdown().await.unwrap();
}

/// A task whose text names no id.
const NEW: &str = r#"{"messages": [{"role": "user", "parts": [{"type": "text", "content": "once"}]}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_its_callers_own() {
    let system = system().await;
    let api = LiveApi::new(&system);
    let (ada, bob) = (caller("ada", Scopes::ALL), caller("bob", Scopes::ALL));
    let submitted = async |caller: &Caller, key: &str| {
        let (status, row) = keyed(&api, caller, key, "/v1/tasks", NEW).await;
        assert_eq!(status, 200, "{key}: {row}");
        row["id"].as_str().unwrap().to_owned()
    };
    let first = submitted(&ada, "order-7").await;
    assert_eq!(submitted(&ada, "order-7").await, first);
    let other = submitted(&bob, "order-7").await;
    assert_ne!(other, first, "the task of another is not the answer");
    assert_eq!(submitted(&bob, "order-7").await, other);
    // Where nobody's name was checked, a key is known as it came.
    let unchecked = Caller { principal: Principal::asserted("ada"), scopes: Scopes::ALL };
    let shared = submitted(&unchecked, "order-7").await;
    assert!(shared != first && shared != other);
    let first = system.task(&first).unwrap().stream().clone();
    let command = |stream: &StreamId| {
        let records = system.log().read_stream(stream, Version(1), 1).unwrap();
        records[0].record.metadata.command_id.clone()
    };
    let known = command(&first);
    let digits = known.strip_prefix("order-7:").unwrap_or_default();
    assert!(digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()), "{known}");
    assert_eq!(command(system.task(&shared).unwrap().stream()), "order-7");
    // An error may name this id: the command is sent again under it.
    assert_eq!(submitted(&ada, &known).await, first.id());
    assert_ne!(submitted(&bob, &known).await, first.id());
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_was_submitted_without_a_key_is_sent_again_under_its_id_by_its_caller_alone() {
    let system = system().await;
    let api = LiveApi::new(&system);
    let (ada, bob) = (caller("ada", Scopes::ALL), caller("bob", Scopes::ALL));
    let (status, row) = asked(&api, &ada, "POST", "/v1/tasks", NEW).await;
    assert_eq!(status, 200, "{row}");
    let id = row["id"].as_str().unwrap();
    assert_eq!(keyed(&api, &ada, id, "/v1/tasks", NEW).await.1["id"], id);
    assert_ne!(keyed(&api, &bob, id, "/v1/tasks", NEW).await.1["id"], id);
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_under_a_key_is_another_callers_neither() {
    let system = system().await;
    let api = LiveApi::new(&system);
    let (ada, bob) = (caller("ada", Scopes::ALL), caller("bob", Scopes::ALL));
    let body = tool_task("one", "slow", r#"{"ms": 60000}"#);
    assert_eq!(asked(&api, &ada, "POST", "/v1/tasks", &body).await.0, 200);
    let path = "/v1/tasks/one/cancel";
    let (status, made) = keyed(&api, &ada, "stop", path, r#"{"reason": "late"}"#).await;
    assert_eq!((status, &made["new"], &made["by"]), (200, &json!(true), &json!("ada")), "{made}");
    let (status, again) = keyed(&api, &ada, "stop", path, r#"{"reason": "late"}"#).await;
    assert_eq!((status, &again["new"]), (200, &json!(false)), "{again}");
    let (status, other) = keyed(&api, &ada, "stop", path, r#"{"reason": "other"}"#).await;
    assert_eq!(status, 409, "{other}");
    let (status, other) = keyed(&api, &bob, "stop", path, r#"{"reason": "other"}"#).await;
    assert_eq!((status, &other["new"]), (200, &json!(false)), "{other}");
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_can_be_none_is_refused_with_its_bound() {
    let system = system().await;
    let api = LiveApi::new(&system);
    let ada = caller("ada", Scopes::ALL);
    let unchecked = Caller { principal: Principal::asserted("ada"), scopes: Scopes::ALL };
    for (caller, most) in [(&ada, 183), (&unchecked, 200)] {
        for (key, status) in [
            (String::new(), 400),
            ("~own".to_owned(), 400),
            ("k".repeat(most), 200),
            ("k".repeat(most + 1), 400),
        ] {
            let (came, told) = keyed(&api, caller, &key, "/v1/tasks", NEW).await;
            assert_eq!(came, status, "{key}: {told}");
            let says = told["error"]["message"].as_str().unwrap_or_default();
            assert!(key.len() <= most || says.contains(&most.to_string()), "{says}");
        }
    }
    system.shutdown().await.unwrap();
}
