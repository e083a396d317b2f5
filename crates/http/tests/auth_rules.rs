//! Scopes over all routes, hosts, origins, and the bounds for each principal.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod auth_support;

use std::sync::Arc;

use auth_support::{guarded, send};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Method, StatusCode};
use taskreel::BoxFuture;
use taskreel_http::{
    Access, Caller, Guard, HttpHandler, Need, Quota, Refusal, Request, RequestBody, Response, ResponseBody,
    Scope, Scopes, rule_of,
};

/// Every route of the handlers with the scope that its request needs, in words.
const ROUTES: &[(&str, &str, &str)] = &[
    ("GET", "/healthz", "nothing"),
    ("GET", "/readyz", "nothing"),
    ("GET", "/metrics", "read"),
    ("POST", "/tasks/", "run"),
    ("POST", "/tasks/stream", "run"),
    ("POST", "/tasks/cancel", "run"),
    ("POST", "/llm/history/compact", "control"),
    ("POST", "/state/describe", "read"),
    ("POST", "/state/reset", "control"),
    ("POST", "/state/compact", "control"),
    ("GET", "/.well-known/agent.json", "read"),
    ("GET", "/status", "read"),
    ("GET", "/chat", "read"),
    ("POST", "/chat", "run"),
    ("POST", "/agents/", "run"),
    ("DELETE", "/agents/", "run"),
    ("POST", "/agents/heartbeat", "run"),
    ("GET", "/agents/", "read"),
    ("GET", "/agents/status", "read"),
    ("POST", "/agents/desk/tasks/", "run"),
    ("POST", "/agents/desk/tasks/stream", "run"),
    ("POST", "/agents/desk/tasks/cancel", "run"),
    ("POST", "/agents/desk/state/describe", "read"),
    ("POST", "/agents/desk/state/reset", "control"),
    ("POST", "/agents/desk/state/compact", "control"),
    ("POST", "/agents/desk/llm/history/compact", "control"),
    ("GET", "/agents/desk/.well-known/agent.json", "read"),
    ("POST", "/agents/desk/chat", "run"),
    ("GET", "/api/openapi.json", "read"),
    ("GET", "/api/v1/streams", "read"),
    ("GET", "/api/v1/agents", "read"),
    ("GET", "/api/v1/tasks", "read"),
    ("POST", "/api/v1/tasks", "run"),
    ("GET", "/api/v1/tasks/t-1", "read"),
    ("GET", "/api/v1/tasks/t-1/events", "read"),
    ("GET", "/api/v1/tasks/t-1/state?at=3", "read"),
    ("POST", "/api/v1/tasks/t-1/cancel", "run"),
    ("POST", "/api/v1/tasks/t-1/approve", "control"),
    ("POST", "/api/v1/tasks/t-1/deny", "control"),
    ("POST", "/api/v1/calls/c-1/reconcile", "control"),
    ("GET", "/api/v1/sessions/s-1", "read"),
    ("GET", "/api/v1/calls", "read"),
    ("GET", "/api/v1/stats", "read"),
    ("GET", "/api/v1/verify", "read"),
    ("GET", "/api/v1/live", "read"),
    ("GET", "/unknown", "read"),
    ("POST", "/unknown", "control"),
    ("PUT", "/tasks/", "control"),
    ("DELETE", "/api/v1/tasks", "control"),
];

fn every_set() -> impl Iterator<Item = Scopes> {
    (0_u8..8).map(|bits| {
        let has = |index: usize| bits & (1 << index) != 0;
        let with = |set: Scopes, (index, scope)| if has(index) { set.with(scope) } else { set };
        Scope::ALL.into_iter().enumerate().fold(Scopes::NONE, with)
    })
}

#[tokio::test]
async fn each_route_is_open_to_exactly_the_sets_of_scopes_that_hold_its_scope() {
    for scopes in every_set() {
        let handler = guarded(Access::open().with_token("ada", scopes, "t0ken").unwrap());
        for (method, path, needed) in ROUTES {
            let may = Scope::parse(needed).is_none_or(|scope| scopes.has(scope));
            let method: Method = method.parse().unwrap();
            let answer = send(&handler, method.clone(), path, &[("authorization", "Bearer t0ken")]).await;
            let expected = if may { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(answer.status, expected, "{method} {path} with {scopes:?}");
            if !may {
                let body = format!(
                    r#"{{"error":{{"code":"forbidden","message":"the credential has not the scope `{needed}`, which this request needs"}}}}"#
                );
                assert_eq!(answer.body, body);
            }
            let without = send(&handler, method, path, &[]).await;
            let open = *needed == "nothing";
            assert_eq!(
                without.status,
                if open { StatusCode::OK } else { StatusCode::UNAUTHORIZED },
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn a_socket_needs_a_scope_and_each_of_its_messages_its_own() {
    assert_eq!(rule_of(&Method::GET, "/", true).need, Need::AnyScope);
    assert_eq!(taskreel_http::scope_of(&Method::POST, "/tasks/"), Some(Scope::Run));
    assert_eq!(taskreel_http::scope_of(&Method::POST, "/state/reset"), Some(Scope::Control));
    let upgrade = [("authorization", "Bearer t0ken"), ("upgrade", "websocket")];
    // The header alone opens nothing else.
    let run = guarded(Access::open().with_token("ada", Scopes::NONE.with(Scope::Run), "t0ken").unwrap());
    for (method, path, needed) in ROUTES.iter().filter(|(method, ..)| *method == "GET") {
        let status = send(&run, method.parse().unwrap(), path, &upgrade).await.status;
        assert_eq!(status, if *needed == "nothing" { 200 } else { 403 }, "{path}");
    }
    for scopes in every_set() {
        let handler = guarded(Access::open().with_token("ada", scopes, "t0ken").unwrap());
        let status = send(&handler, Method::GET, "/", &upgrade).await.status;
        let expected = if scopes == Scopes::NONE { StatusCode::FORBIDDEN } else { StatusCode::OK };
        assert_eq!(status, expected);
    }
}

#[test]
fn a_caller_cancels_its_own_tasks_with_run_and_any_with_control() {
    use taskreel::Principal;
    let (ada, eve) = (Principal::authenticated("ada"), Principal::authenticated("eve"));
    let caller = |scopes| Caller { principal: ada.clone(), scopes };
    let run = caller(Scopes::NONE.with(Scope::Run));
    assert!(run.may_cancel(&ada) && !run.may_cancel(&eve));
    // A name that nobody has checked is not the one that was.
    assert!(!run.may_cancel(&Principal::asserted("ada")));
    assert!(caller(Scopes::NONE.with(Scope::Control)).may_cancel(&eve));
    assert!(!caller(Scopes::NONE.with(Scope::Read)).may_cancel(&ada));
}

#[tokio::test]
async fn another_sites_page_reaches_a_local_server_neither_by_name_nor_by_origin() {
    let handler = guarded(Access::open().only_local_hosts());
    let send = async |headers: &[(&str, &str)]| send(&handler, Method::POST, "/tasks/", headers).await;
    assert_eq!(send(&[("host", "localhost:8080")]).await.status, 200);
    let rebound = send(&[("host", "evil.example:8080")]).await;
    assert_eq!(rebound.status, 403);
    assert!(rebound.body.contains(r#""code":"host_not_allowed""#), "{}", rebound.body);
    let foreign = send(&[("origin", "http://evil.example")]).await;
    assert_eq!(foreign.status, 403);
    assert!(foreign.body.contains(r#""code":"origin_not_allowed""#), "{}", foreign.body);
    assert_eq!(send(&[("origin", "http://localhost:8080")]).await.status, 200);
    let counts: Vec<u64> = handler.refusals().rows().map(|(_, count)| count).collect();
    assert_eq!(handler.refusals().rows().find(|(why, _)| *why == Refusal::Host).unwrap().1, 1);
    assert_eq!(counts.iter().sum::<u64>(), 2);
}

#[tokio::test]
async fn an_allowed_page_may_ask_before_it_sends_and_may_read_answers_and_refusals() {
    let access = Access::open().allow_origin("https://desk.example").unwrap();
    let handler = guarded(access.with_token("ada", Scopes::ALL, "t0ken").unwrap());
    let page = ("origin", "https://desk.example");
    let asks = [page, ("access-control-request-method", "POST")];
    let preflight = send(&handler, Method::OPTIONS, "/tasks/", &asks).await;
    assert_eq!(preflight.status, 204);
    assert!(preflight.headers["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
    for headers in [vec![page], vec![page, ("authorization", "Bearer t0ken")]] {
        let answer = send(&handler, Method::POST, "/tasks/", &headers).await;
        assert_eq!(answer.headers["access-control-allow-origin"], "https://desk.example", "{headers:?}");
        assert_eq!(answer.headers["vary"], "origin");
    }
    let foreign = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
    let preflight = send(&handler, Method::OPTIONS, "/tasks/", &foreign).await;
    assert_eq!(preflight.status, 403);
    assert!(!preflight.headers.contains_key("access-control-allow-origin"));
}

/// A handler that streams for ever.
struct Streams;

impl HttpHandler for Streams {
    fn answer(&self, _: Request) -> BoxFuture<'static, Response> {
        let pieces = futures_util::stream::repeat(Bytes::from("x")).boxed();
        Box::pin(async move { Response::new(ResponseBody::Pieces(pieces)) })
    }
}

fn request(path: &str, token: &str) -> Request {
    let request = http::Request::builder().method("POST").uri(path).header("host", "localhost");
    request.header("authorization", format!("Bearer {token}")).body(RequestBody::empty()).unwrap()
}

#[tokio::test]
async fn a_stream_holds_its_place_until_it_is_dropped_and_one_too_many_is_told_when_to_retry() {
    let mut quota = Quota::default();
    quota.streams_at_once = 2;
    let access = Access::open().with_token("ada", Scopes::ALL, "a").unwrap();
    let access = access.with_token("eve", Scopes::ALL, "e").unwrap().quota(quota);
    let handler = Guard::new(access, Arc::new(Streams));
    let first = handler.answer(request("/tasks/stream", "a")).await;
    let second = handler.answer(request("/tasks/stream", "a")).await;
    let third = handler.answer(request("/tasks/stream", "a")).await;
    assert_eq!((second.status(), third.status()), (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(third.headers()["retry-after"], "1");
    // Others have places of their own.
    assert_eq!(handler.answer(request("/tasks/stream", "e")).await.status(), StatusCode::OK);
    drop(first);
    let fourth = handler.answer(request("/tasks/stream", "a")).await;
    assert_eq!(fourth.status(), StatusCode::OK);
    // Its place is held while it is read.
    let ResponseBody::Pieces(mut pieces) = fourth.into_body() else { panic!("it streams") };
    assert_eq!(pieces.next().await.unwrap(), "x");
    assert_eq!(handler.answer(request("/tasks/stream", "a")).await.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn requests_beyond_the_rate_are_told_when_to_retry() {
    let mut quota = Quota::default();
    (quota.requests_per_second, quota.burst) = (Some(1), Some(3));
    let handler = guarded(Access::open().quota(quota));
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(send(&handler, Method::GET, "/status", &[]).await);
    }
    assert!(statuses[..3].iter().all(|answer| answer.status == 200));
    assert_eq!(statuses[3].status, 429);
    assert_eq!(statuses[3].headers["retry-after"], "1");
    assert_eq!(send(&handler, Method::GET, "/healthz", &[]).await.status, 200);
}

/// A handler that never answers.
struct Hangs;

impl HttpHandler for Hangs {
    fn answer(&self, _: Request) -> BoxFuture<'static, Response> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_takes_too_long_is_one_of_the_table() {
    let handler = Guard::new(Access::open(), Arc::new(Hangs));
    let answer = send(&handler, Method::GET, "/status", &[]).await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains(r#""code":"time_limit""#), "{}", answer.body);
}
