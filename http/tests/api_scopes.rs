//! The live API and callers: each route needs its scope, a decision is recorded as its caller's, and a task is canceled
//! by the one who submitted it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use proto_events::envelope::Principal;
use serde_json::Value;
use support::{builder, tool_task};
use taskreel::System;
use taskreel_http::{Caller, Face as _, LiveApi, RequestBody, ResponseBody, Scope, Scopes};

async fn asked(api: &LiveApi, caller: &Caller, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut request = http::Request::builder().method(method).uri(path);
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
