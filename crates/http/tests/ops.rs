//! Health and figures: what a probe is told, and that the figures are what Prometheus reads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::Method;
use taskreel::log::memory::MemoryStore;
use taskreel::log::testing::{AppendFault, Faults, FaultyStore};
use taskreel::tool::ToolPolicy;
use taskreel::{Part, System};
use taskreel_http::{
    Access, CountedHandler, Guard, HttpHandler, LiveApi, Mounted, Ops, Protolink, Registry, RegistryHandler,
    RequestBody, Requests, ResponseBody, Scope, Scopes,
};

mod auth_support;

use auth_support::{Answer, send};

async fn works(_: serde_json::Value) -> Result<i64, String> {
    Ok(1)
}

async fn breaks(_: serde_json::Value) -> Result<i64, String> {
    Err("it broke".to_owned())
}

/// A system, its faults, and its handler behind a guard.
async fn served(access: Access) -> (System, Faults, Ops, CountedHandler) {
    let faults = Faults::none();
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new()), faults.clone()));
    let system = System::builder("-")
        .store(store)
        .tool_with("works", "", works, ToolPolicy::read_only())
        .tool("breaks", "", breaks)
        .start()
        .await
        .unwrap();
    let requests = Arc::new(Requests::default());
    let refusals = Arc::default();
    let ops = Ops::new(system.clone(), Arc::clone(&requests), Arc::clone(&refusals));
    let guard = Guard::counting(access, Arc::new(ops.clone()), refusals);
    (system, faults, ops, CountedHandler::new(Arc::new(guard), requests))
}

async fn get(handler: &dyn HttpHandler, path: &str) -> Answer {
    send(handler, Method::GET, path, &[]).await
}

async fn run(system: &System, tool: &str) -> Result<(), taskreel::Error> {
    let call = Part::tool_call(tool, proto_events::json!({})).unwrap();
    system.submit(call).await?.finished().await.map(drop)
}

#[tokio::test]
async fn a_server_is_ready_while_its_log_takes_appends_and_lives_also_after_that() {
    let (system, faults, _, handler) = served(Access::open()).await;
    assert_eq!(
        (get(&handler, "/healthz").await.body, get(&handler, "/readyz").await.body),
        ("ok\n".into(), "ready\n".into())
    );
    faults.at_next_append(AppendFault::BeforeWrite);
    run(&system, "works").await.unwrap_err();
    let ready = get(&handler, "/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.body.starts_with(r#"{"error":{"code":"poisoned","message":"#), "{}", ready.body);
    assert_eq!(get(&handler, "/healthz").await.status, 200, "a restart does not help");
    assert_eq!(get(&handler, "/metrics").await.status, 200, "the figures say why");
    system.reopen().await.unwrap();
    assert_eq!(get(&handler, "/readyz").await.status, 200);
    system.shutdown().await.unwrap();
    let ready = get(&handler, "/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains(r#""code":"stopped""#), "{}", ready.body);
}

/// Sends a body, and returns the status and the code of an error.
async fn ask(handler: &dyn HttpHandler, method: Method, path: &str, body: &'static str) -> (u16, String) {
    let request = http::Request::builder().method(method).uri(path).header("host", "localhost");
    let body = RequestBody::from(bytes::Bytes::from_static(body.as_bytes()));
    let (head, body) = handler.answer(request.body(body).unwrap()).await.into_parts();
    let ResponseBody::Whole(body) = body else { panic!("{path} has a stream") };
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    (
        head.status.as_u16(),
        body.pointer("/error/code").and_then(|code| code.as_str()).unwrap_or_default().to_owned(),
    )
}

#[tokio::test]
async fn what_a_poisoned_log_cannot_take_is_503_on_every_handler_and_what_it_holds_is_read() {
    let (system, faults, ..) = served(Access::open()).await;
    let registry = Registry::new(&system, "r").unwrap();
    let handler = Mounted::new()
        .mount("/api", Arc::new(LiveApi::new(&system)))
        .mount("/", Arc::new(RegistryHandler::new(registry)))
        .mount("/", Arc::new(Protolink::new(system.clone())));
    let task = r#"{"messages": [{"role": "user", "parts": [{"type": "text", "content": "x"}]}]}"#;
    let card = r#"{"name": "a", "description": "x", "url": "http://127.0.0.1:1"}"#;
    let writing = [
        (Method::POST, "/tasks/", task),
        (Method::POST, "/api/v1/tasks?wait=9", task),
        (Method::POST, "/agents/", card),
        (Method::DELETE, "/agents/", r#"{"agent_url": "http://127.0.0.1:1"}"#),
    ];
    for (method, path, body) in writing.iter().take(3) {
        assert_eq!(ask(&handler, method.clone(), path, body).await, (200, String::new()), "{path}");
    }
    faults.at_next_append(AppendFault::BeforeWrite);
    run(&system, "works").await.unwrap_err();
    for (method, path, body) in writing.iter().filter(|(.., body)| *body != card) {
        let refused = ask(&handler, method.clone(), path, body).await;
        assert_eq!(refused, (503, "poisoned".to_owned()), "{method} {path}");
    }
    for path in ["/status", "/agents/", "/api/v1/tasks", "/api/v1/verify"] {
        assert_eq!(get(&handler, path).await.status, 200, "{path}");
    }
    system.reopen().await.unwrap();
    for (method, path, body) in writing {
        assert_eq!(ask(&handler, method, path, body).await, (200, String::new()), "{path}");
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_about_to_end_is_not_ready() {
    let (system, _, ops, handler) = served(Access::open()).await;
    ops.start_stopping();
    let ready = get(&handler, "/readyz").await;
    assert_eq!((ready.status.as_u16(), ready.headers["cache-control"].to_str().unwrap()), (503, "no-store"));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn probes_need_no_credential_and_figures_need_one() {
    let access = Access::open().with_token("scraper", Scopes::NONE.with(Scope::Read), "t0ken").unwrap();
    let (system, _, _, handler) = served(access.only_local_hosts()).await;
    for path in ["/healthz", "/readyz"] {
        // A supervisor asks by address.
        let answer = send(&handler, Method::GET, path, &[("host", "10.1.2.3:8080")]).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(
            send(&handler, Method::POST, path, &[("authorization", "Bearer t0ken")]).await.status,
            403,
            "{path}"
        );
    }
    assert_eq!(get(&handler, "/metrics").await.status, 401);
    let figures = send(&handler, Method::GET, "/metrics", &[("authorization", "Bearer t0ken")]).await;
    assert_eq!(figures.status, 200);
    assert_eq!(figures.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn another_method_is_not_allowed() {
    let (system, _, _, handler) = served(Access::open()).await;
    let answer = send(&handler, Method::POST, "/metrics", &[]).await;
    assert_eq!((answer.status.as_u16(), answer.headers["allow"].to_str().unwrap()), (405, "GET, HEAD"));
    system.shutdown().await.unwrap();
}

/// A sample: its labels and its value.
type Sample = (BTreeMap<String, String>, f64);

/// A figure: its type, and its samples by name.
#[derive(Debug, Default)]
struct Figure {
    kind: String,
    samples: Vec<(String, Sample)>,
}

/// Reads Prometheus' text format as its specification has it, and panics at any line that is not in it.
fn parse(text: &str) -> BTreeMap<String, Figure> {
    assert!(text.ends_with('\n'), "the last line ends too");
    let mut figures: BTreeMap<String, Figure> = BTreeMap::new();
    let (mut helped, mut now) = (BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help has a text");
            assert!(is_name(name) && !help.is_empty() && helped.insert(name.to_owned()), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type has a word");
            assert!(["counter", "gauge", "histogram"].contains(&kind) && helped.contains(name), "{line}");
            let figure = Figure { kind: kind.to_owned(), samples: Vec::new() };
            assert!(figures.insert(name.to_owned(), figure).is_none(), "{name} stands in one place");
            name.clone_into(&mut now);
        } else {
            let (name, sample) = parse_sample(line);
            let figure = figures.get_mut(&now).expect("a type comes first");
            let endings: &[&str] =
                if figure.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(endings.iter().any(|ending| name == format!("{now}{ending}")), "{line} is not of {now}");
            let is_new =
                figure.samples.iter().all(|(known, (labels, _))| *known != name || *labels != sample.0);
            assert!(is_new, "{line} stands once");
            figure.samples.push((name, sample));
        }
    }
    figures
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn parse_sample(line: &str) -> (String, Sample) {
    let end = line.find(['{', ' ']).expect("a sample has a value");
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label has a value");
            assert!(is_name(label) && !label.starts_with("__"), "{line}");
            let mut value = String::new();
            let mut chars = after.char_indices();
            let close = loop {
                match chars.next().expect("a value ends") {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next().expect("an escape ends").1 {
                        'n' => value.push('\n'),
                        escaped @ ('\\' | '"') => value.push(escaped),
                        other => panic!("{line}: \\{other}"),
                    },
                    (_, other) => value.push(other),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            rest = &after[close + 1..];
            if let Some(end) = rest.strip_prefix('}') {
                rest = end;
                break;
            }
            rest = rest.strip_prefix(',').expect("a comma between labels");
        }
    }
    let value = rest.strip_prefix(' ').expect("one blank before the value");
    (name.to_owned(), (labels, value.parse().expect("a number")))
}

/// Checks that buckets ascend, and end with all values.
fn check_histogram(name: &str, figure: &Figure) {
    let mut rows: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    for (_, (labels, value)) in figure.samples.iter().filter(|(sample, _)| sample.ends_with("_bucket")) {
        let mut labels = labels.clone();
        let bound = labels.remove("le").expect("a bucket has a bound");
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
        rows.entry(labels).or_default().push((bound, *value));
    }
    assert!(!rows.is_empty(), "{name}");
    for (labels, buckets) in rows {
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name} {buckets:?}");
        let last = buckets.last().unwrap();
        let count =
            figure.samples.iter().find(|(sample, of)| sample.ends_with("_count") && of.0 == labels).unwrap();
        assert_eq!(*last, (f64::INFINITY, count.1.1), "{name}");
    }
}

fn value(figures: &BTreeMap<String, Figure>, name: &str, wanted: &[(&str, &str)]) -> f64 {
    let has = |labels: &BTreeMap<String, String>| {
        wanted.iter().all(|(name, value)| labels.get(*name).is_some_and(|found| found == value))
    };
    let samples = figures.get(name).unwrap_or_else(|| panic!("{name} is not there")).samples.iter();
    samples.filter(|(_, (labels, _))| has(labels)).map(|(_, (_, value))| value).sum()
}

#[tokio::test]
async fn the_figures_are_in_prometheus_format_with_its_conventions_and_count_what_happened() {
    let (system, _, _, handler) = served(Access::open().only_local_hosts()).await;
    for tool in ["works", "works", "breaks"] {
        run(&system, tool).await.unwrap();
    }
    get(&handler, "/status").await;
    send(&handler, Method::GET, "/api/v1/tasks", &[("host", "evil.example")]).await;
    let first = parse(&get(&handler, "/metrics").await.body);
    let figures = parse(&get(&handler, "/metrics").await.body);
    for (name, figure) in &figures {
        assert!(name.starts_with("taskreel_"), "{name}");
        assert_eq!(name.ends_with("_total"), figure.kind == "counter", "{name}");
        assert!(!name.ends_with("_ms") && !name.ends_with("_micros"), "{name} is in base units");
        if figure.kind == "histogram" {
            check_histogram(name, figure);
        }
        if figure.kind == "counter" {
            let sum = |figures: &BTreeMap<String, Figure>| value(figures, name, &[]);
            assert!(sum(&figures) >= sum(&first), "{name} never falls");
        }
    }
    assert!((value(&figures, "taskreel_commands_total", &[]) - 3.0).abs() < 0.1);
    let calls = "taskreel_call_attempts_total";
    let works = [("target", "works"), ("mode", "read-only"), ("outcome", "succeeded"), ("kind", "tool")];
    assert!((value(&figures, calls, &works) - 2.0).abs() < 0.1);
    assert!((value(&figures, calls, &[("target", "breaks"), ("outcome", "failed")]) - 1.0).abs() < 0.1);
    let requests = "taskreel_http_requests_total";
    assert!((value(&figures, requests, &[("class", "protolink"), ("status", "404")]) - 1.0).abs() < 0.1);
    assert!((value(&figures, requests, &[("class", "api"), ("status", "403")]) - 1.0).abs() < 0.1);
    assert!(value(&figures, "taskreel_log_appends_total", &[]) >= 6.0);
    assert!((value(&figures, "taskreel_http_refusals_total", &[("reason", "host")]) - 1.0).abs() < 0.1);
    for name in
        ["taskreel_live_tasks", "taskreel_tasks_waiting", "taskreel_http_refusals_total", "taskreel_log_head"]
    {
        assert!(figures.contains_key(name), "{name}");
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_figures_of_a_log_on_disk_have_groups_and_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let system = System::builder(dir.path()).tool("works", "", works).start().await.unwrap();
    run(&system, "works").await.unwrap();
    let ops = Ops::new(system.clone(), Arc::default(), Arc::default());
    let figures = parse(&get(&ops, "/metrics").await.body);
    let store = system.metrics().await.unwrap().store.unwrap();
    assert!(store.group_appends.count() > 0 && store.group_appends.count() == store.sync_micros.count());
    assert!(store.group_appends.sum >= system.metrics().await.unwrap().appends);
    for name in ["taskreel_log_group_appends", "taskreel_log_sync_seconds"] {
        check_histogram(name, &figures[name]);
    }
    assert!(
        figures.contains_key("taskreel_disk_free_bytes")
            && figures.contains_key("taskreel_log_feed_lag_records")
    );
    system.shutdown().await.unwrap();
}
