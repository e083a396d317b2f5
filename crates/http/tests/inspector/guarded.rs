//! Headers, hosts and origins, credentials, methods, and what is asked for that is not there.

use std::sync::Arc;

use http::{Method, StatusCode};
use taskreel_http::{Access, Guard, HttpHandler, InspectedLog};

use crate::asked::{PLACE, Pages};
use crate::markup::{harmless, unescaped};
use crate::seeded::seeded;
use crate::support::{Named, builder};

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_forbids_foreign_code_frames_and_guessing() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    for path in [
        "/",
        "/t/agent/pay-0001",
        "/assets/inspect.css",
        "/assets/inspect.js",
        "/nothing",
        "/live/events",
        "/e/task-agent%2Fecho-0001/1/body",
        "/open?id=echo-0001",
    ] {
        let got = pages.get(path).await;
        let policy = got.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self';"),
            "{path}: {policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("base-uri 'none'"), "{path}");
        assert!(!policy.contains("unsafe"), "{path}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
        ] {
            assert_eq!(got.header(name), value, "{path}");
        }
        let kept = if path.starts_with("/assets") { "no-cache" } else { "no-store" };
        assert_eq!(got.header("cache-control"), kept, "{path}");
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_refused_with_a_page_in_the_same_frame() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    for (path, status) in [
        ("/nothing", 404),
        ("/t/agent/nobody", 404),
        ("/t/nobody/echo-0001", 404),
        ("/t/agent/", 400),
        ("/t/agent/echo-0001?at=0", 404),
        ("/t/agent/echo-0001?at=99999", 404),
        ("/t/agent/echo-0001?at=x", 400),
        ("/t/agent/echo-0001?at=-1", 400),
        ("/t/agent/echo-0001?at=18446744073709551616", 400),
        ("/t/agent/echo-0001?cmp=99999", 404),
        ("/t/agent/echo-0001?tab=odd", 404),
        ("/t/agent/echo-0001?call=odd", 404),
        ("/s/agent/nobody", 404),
        ("/s/agent/talk?from=99999", 404),
        ("/s/agent/talk?from=x", 400),
        ("/sessions?after=odd", 400),
        ("/e/odd/1", 400),
        ("/e/task-agent%2Fnobody/1", 404),
        ("/e/task-agent%2Fecho-0001/0", 404),
        ("/e/task-agent%2Fecho-0001/99999", 404),
        ("/?before=x", 400),
        ("/?state=odd", 400),
        ("/?not=odd", 400),
        ("/?since=yesterday", 400),
        ("/?kind=CallExploded", 400),
        ("/?kind=infer", 400),
        ("/?not=state%3Dfailed+kind%3DCallExploded", 400),
        ("/?text=%ff", 400),
        ("/tools?until=x", 400),
        ("/tools?kind=CallFailed", 400),
        ("/live?kind=infer", 400),
        ("/live?not=kind%3DCallExploded", 400),
        ("/live/events?kind=CallExploded", 400),
        ("/live/events?not=kind%3Dinfer", 400),
        ("/audit?stream=odd", 400),
        ("/audit?stream=task-agent%2Fnobody", 404),
        ("/compare?l=nobody&r=echo-0001", 404),
        ("/open?id=nobody-of-this-name", 404),
        ("/open", 400),
        ("/live/events?from=99999", 409),
        ("/live/events?from=x", 400),
        ("/assets/odd.css", 404),
    ] {
        let got = pages.get(path).await;
        assert_eq!(got.status.as_u16(), status, "{path}: {}", got.body);
        harmless(path, &got.body);
        assert!(got.body.contains("<nav aria-label=\"Pages\">"), "{path}");
    }
    let told = unescaped(&pages.get("/live?kind=CallExploded").await.body);
    assert!(told.contains("`callexploded` is not a kind of events; the kinds of events are "), "{told}");
    let told = unescaped(&pages.get("/tools?kind=odd").await.body);
    assert!(told.contains("the kinds of calls are tool, infer, delegate, handler, agent"), "{told}");
    assert_eq!(pages.get("/tools?kind=Infer").await.status, StatusCode::OK);
    // Before the log's beginning there is nothing, which is no fault.
    assert_eq!(pages.get("/?before=1").await.status, StatusCode::OK);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_pages_are_only_read_and_files_are_not_sent_twice() {
    let system = builder().start().await.unwrap();
    let pages = Pages::of(InspectedLog::of(&system));
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        let got = pages.send(method, &format!("{PLACE}/"), &[]).await;
        assert_eq!((got.status.as_u16(), got.header("allow")), (405, "GET, HEAD"));
    }
    let head = pages.send(Method::HEAD, &format!("{PLACE}/"), &[]).await;
    assert_eq!((head.status.as_u16(), head.body.as_str()), (200, ""));
    let style = format!("{PLACE}/assets/inspect.css");
    let first = pages.send(Method::GET, &style, &[]).await;
    let again = pages.send(Method::GET, &style, &[("if-none-match", first.header("etag"))]).await;
    assert_eq!((again.status.as_u16(), again.body.as_str()), (304, ""));
    let nothing = Pages::reading(Arc::new(taskreel_log::memory::MemoryStore::new()));
    let empty = nothing.page("/").await;
    assert!(empty.contains("taskreel demo") && empty.contains("taskreel run tasks.ndjson"), "{empty}");
    for path in ["/sessions", "/live", "/tools", "/audit?verify=1", "/compare"] {
        harmless(path, &nothing.page(path).await);
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_choice_of_colours_is_kept_and_leads_nowhere_else() {
    let system = builder().start().await.unwrap();
    let pages = Pages::of(InspectedLog::of(&system));
    let chosen = pages.get("/theme?to=dark&back=%2Ftools%3Fagent%3Da").await;
    assert_eq!((chosen.status.as_u16(), chosen.header("location")), (303, "/inspect/tools?agent=a"));
    let cookie = chosen.header("set-cookie").split(';').next().unwrap().to_owned();
    let page = pages.send(Method::GET, "/inspect/", &[("cookie", &format!("other=1; {cookie}"))]).await;
    assert!(page.body.contains("data-theme=\"dark\""), "{cookie}");
    for back in [
        "https%3A%2F%2Fevil.example",
        "%2F%2Fevil.example",
        "%2F%5Cevil.example",
        "%2Fa%0d%0aset-cookie%3Ax%3D1",
    ] {
        let chosen = pages.get(&format!("/theme?to=odd&back={back}")).await;
        assert_eq!(chosen.header("location"), "/inspect/", "{back}");
        assert!(chosen.header("set-cookie").starts_with("taskreel-theme=auto;"), "{back}");
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_hosts_and_origins_and_callers_without_a_credential_see_nothing() {
    let system = seeded().await;
    let local = Pages(Arc::new(Guard::new(
        Access::open().only_local_hosts(),
        Pages::of(InspectedLog::of(&system)).0,
    )));
    assert_eq!(local.get("/").await.status, StatusCode::OK);
    let foreign: [&[(&str, &str)]; 3] = [
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site"), ("origin", "http://evil.example")],
    ];
    for headers in foreign {
        let got = local.send(Method::GET, "/inspect/", headers).await;
        assert!(got.status.is_client_error() && !got.body.contains("pay-0001"), "{headers:?}: {got:?}");
    }
    let request = http::Request::get("/inspect/")
        .header("host", "evil.example")
        .body(taskreel_http::RequestBody::empty());
    let answer = local.0.answer(request.unwrap()).await;
    assert!(answer.status().is_client_error(), "{answer:?}");

    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ada"), "p-w").unwrap();
    let file =
        r#"{"credentials": [{"name": "Ada", "user": "ada", "scopes": ["read"], "secret_file": "ada"}]}"#;
    std::fs::write(dir.path().join("auth.json"), file).unwrap();
    let access = Access::open().with_file(&dir.path().join("auth.json")).unwrap();
    let guarded = Pages(Arc::new(Guard::new(access, Pages::of(InspectedLog::of(&system)).0)));
    let refused = guarded.send(Method::GET, "/inspect/", &[("accept", "text/html,*/*")]).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(
        refused
            .headers
            .get_all("www-authenticate")
            .iter()
            .any(|way| way.to_str().unwrap().starts_with("Basic")),
        "{refused:?}"
    );
    let shown = guarded.send(Method::GET, "/inspect/", &[("authorization", "Basic YWRhOnAtdw==")]).await;
    assert_eq!(shown.status, StatusCode::OK);

    // A caller with scopes, but not that of reading.
    let nobody: Arc<dyn HttpHandler> = Arc::new(Named(Pages::of(InspectedLog::of(&system)).0));
    assert_eq!(
        Pages(nobody).send(Method::GET, "/inspect/", &[("x-caller", "eve")]).await.status,
        StatusCode::OK
    );
    system.shutdown().await.unwrap();
}
