//! The live API over a socket: every route against the `OpenAPI` document, paging, control, and what is refused.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod api_conditions;
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use support::{Answer, Connection, Host, actix_with, ask, builder, connect, model, request, send, tool_task};
use taskreel::approval::CapabilityPolicy;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{JsonSchema, Part, System, TaskState};
use taskreel_http::{LiveApi, Mounted, Server};

#[derive(serde::Deserialize, JsonSchema)]
struct Nothing {}

/// A system with tasks of several ends: completed, waiting for an approval, for an answer, for an outcome.
async fn varied() -> System {
    let pays = |_: Nothing| async { Ok::<_, ToolError>(7) };
    let asks = |context: ToolContext, _: Nothing| async move { context.ask("Which one?").await };
    let hangs = |_: Nothing| async {
        std::future::pending::<()>().await;
        Ok::<_, ToolError>(0)
    };
    let policy = ToolPolicy::manual().capabilities(["money.spend"]);
    let impatient = ToolPolicy::manual().timeout(std::time::Duration::from_millis(20));
    let system = builder()
        .infer(model(&["hello"]))
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .approvals_by_person()
        .tool_with("pay", "Pays", pays, policy)
        .tool_with("hang", "Hangs", hangs, impatient)
        .tool("choose", "Chooses", asks)
        .start()
        .await
        .unwrap();
    for (id, tool, args) in [
        ("echo-0001", "echo", r#"{"text": "a\nb"}"#),
        ("pay-0001", "pay", "{}"),
        ("pay-0002", "pay", "{}"),
        ("pay-0003", "pay", "{}"),
        ("ask-0001", "choose", "{}"),
        ("hang-0001", "hang", "{}"),
        ("hang-0002", "hang", "{}"),
    ] {
        let posted = proto_events::model::PostedTask::parse(
            &tool_task(id, tool, args),
            &mut taskreel::Ports::default(),
        );
        system.submit(posted.unwrap()).await.unwrap().finished().await.unwrap();
    }
    let part = Part::infer("Hi");
    system.session("talk").send(part).await.unwrap().finished().await.unwrap();
    system
}

async fn served(system: &System) -> Host {
    let handler = Mounted::new().mount("/api", Arc::new(LiveApi::new(system)));
    actix_with(Server::new().grace(std::time::Duration::from_millis(200)), Arc::new(handler)).await
}

async fn get(host: &Host, path: &str) -> Answer {
    send(host, &request("GET", path, &[("connection", "close")], "")).await
}

/// Compares a value with a schema of the document.
fn check(document: &Value, schema: &Value, value: &Value, place: &str) {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<_> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{place}: {faults:?} in {value}");
}

/// The field of the first row of the calls that has it.
fn field(calls: &Value, task: &str, name: &str) -> String {
    let rows = calls["items"].as_array().unwrap();
    let row = rows.iter().find(|row| row["task"] == task).unwrap_or_else(|| panic!("{task}: {calls}"));
    row[name].as_str().unwrap_or_else(|| panic!("{name} of {row}")).to_owned()
}

/// A request: its method, the path as the document has it, the id, the query, and the body.
type Probe = (&'static str, &'static str, &'static str, &'static str, String);

/// Requests that read.
const READING: [(&str, &str, &str); 15] = [
    ("/openapi.json", "", ""),
    ("/v1/log", "", ""),
    ("/v1/streams", "", "?limit=3"),
    ("/v1/agents", "", ""),
    ("/v1/tasks", "", "?state=completed&state=input-required&limit=2"),
    ("/v1/tasks/{id}", "pay-0001", ""),
    ("/v1/tasks/{id}", "echo-0001", ""),
    ("/v1/tasks/{id}/events", "echo-0001", "?limit=2"),
    ("/v1/tasks/{id}/state", "echo-0001", "?at=2"),
    ("/v1/sessions/{id}", "talk", ""),
    ("/v1/calls", "", "?kind=tool&limit=1"),
    ("/v1/stats", "", "?tool=echo"),
    ("/v1/verify", "", ""),
    ("/v1/records", "", "?records=5"),
    ("/v1/records", "", "?survey=log"),
];

/// Requests that decide about what waits.
fn deciding(calls: &Value) -> [Probe; 8] {
    let approval = |task: &str| json!({"approval": field(calls, task, "approval_id")}).to_string();
    let about = |task: &str, name: &str, value: &Value| {
        json!({"call": field(calls, task, "call_id"), name: value}).to_string()
    };
    let question = field(calls, "ask-0001", "question_id");
    let post = |path, id, body| ("POST", path, id, "", body);
    [
        ("POST", "/v1/tasks", "", "?wait=20", tool_task("new-0001", "echo", r#"{"text": "x"}"#)),
        post("/v1/tasks/{id}/approve", "pay-0001", approval("pay-0001")),
        post("/v1/tasks/{id}/deny", "pay-0002", approval("pay-0002")),
        post("/v1/tasks/{id}/budget", "pay-0003", json!({"budget": {"max_steps": 50}}).to_string()),
        post("/v1/tasks/{id}/cancel", "pay-0003", "{}".to_owned()),
        post(
            "/v1/tasks/{id}/answer",
            "ask-0001",
            json!({"question": question, "answer": "blue"}).to_string(),
        ),
        post("/v1/tasks/{id}/reconcile", "hang-0001", about("hang-0001", "landed", &Value::Null)),
        post("/v1/tasks/{id}/abandon", "hang-0002", about("hang-0002", "reason", &json!("gone"))),
    ]
}

/// Sends a request, and compares the answer with the document.
async fn probe(host: &Host, document: &Value, (method, path, id, query, body): Probe) {
    let place = format!("{method} {path} {id} {query}");
    let address = format!("/api{}{query}", path.replace("{id}", id));
    let answer = match method {
        "GET" => get(host, &address).await,
        _ => ask(host, method, &address, &body).await,
    };
    assert_eq!(answer.status, 200, "{place}: {answer:?}");
    let media = answer.header("content-type").unwrap().to_owned();
    let operation = &document["paths"][format!("/api{path}")][method.to_ascii_lowercase()];
    let schema = &operation["responses"]["200"]["content"][&media]["schema"];
    assert!(schema.is_object(), "{place}: the document has no {media}");
    if media != "application/x-ndjson" {
        return check(document, schema, &answer.json(), &place);
    }
    let lines: Vec<Value> = answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.last().unwrap()["done"].as_u64().unwrap() >= 5, "{place}");
    for line in &lines {
        check(document, schema, line, &place);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_as_the_document_says_and_every_operation_of_the_document_is_asked() {
    let system = varied().await;
    let host = served(&system).await;
    let document = get(&host, "/api/openapi.json").await.json();
    let calls = get(&host, "/api/v1/calls").await.json();
    let reading = READING.map(|(path, id, query)| ("GET", path, id, query, String::new()));
    let mut asked = BTreeSet::from([("GET".to_owned(), "/api/v1/live".to_owned())]);
    for request in reading.into_iter().chain(deciding(&calls)) {
        asked.insert((request.0.to_owned(), format!("/api{}", request.1)));
        probe(&host, &document, request).await;
    }
    let mut described = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys();
        described.extend(methods.map(|method| (method.to_ascii_uppercase(), path.clone())));
    }
    assert_eq!(asked, described);
    let paid = system.task("pay-0001").unwrap().finished().await.unwrap();
    assert_eq!(paid.state(), TaskState::Completed);
    let verified = get(&host, "/api/v1/verify").await.json();
    assert_eq!(verified["findings"], json!([]), "{verified}");
    host.stop().await;
    system.shutdown().await.unwrap();
}

/// Reads server-sent events up to one of this kind: the kind and the data of each.
async fn events_up_to(stream: &mut Connection, last: &str) -> Vec<(String, Value)> {
    let (mut text, mut events) = (String::new(), Vec::new());
    loop {
        while let Some((block, rest)) = text.split_once("\n\n") {
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
            if let (Some(kind), Some(data)) = (field("event: "), field("data: ")) {
                events.push((kind.to_owned(), serde_json::from_str(data).unwrap()));
            }
            text = rest.to_owned();
        }
        if events.last().is_some_and(|(kind, _)| kind == last) {
            return events;
        }
        text.push_str(&stream.chunk().await.expect("the stream goes on"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn live_events_are_as_the_document_says_and_the_same_as_those_that_are_read() {
    let system = varied().await;
    let host = served(&system).await;
    let document = get(&host, "/api/openapi.json").await.json();
    let mut stream = connect(&host).await;
    stream.write_all(&request("GET", "/api/v1/live?from=1", &[], "")).await.unwrap();
    let (status, head) = stream.head().await;
    assert!(status == 200 && head.contains("text/event-stream"), "{head}");
    let mut read: Vec<Value> = Vec::new();
    for task in get(&host, "/api/v1/tasks?limit=1000").await.json()["items"].as_array().unwrap() {
        let id = task["id"].as_str().unwrap();
        let page = get(&host, &format!("/api/v1/tasks/{id}/events?limit=1000")).await.json();
        read.extend(page["items"].as_array().unwrap().iter().cloned());
    }
    let records = system.log().head().unwrap().0;
    system.clone().shutdown().await.unwrap();
    let events = events_up_to(&mut stream, "ended").await;
    let operation = &document["paths"]["/api/v1/live"]["get"]["responses"]["200"];
    let schema = &operation["content"]["text/event-stream"]["schema"];
    for (kind, data) in &events {
        check(&document, schema, data, kind);
    }
    // A schema that lets everything pass proves nothing.
    let row = |data: &Value| data.get("position").is_some();
    let mut broken = events.iter().find(|(_, data)| row(data)).unwrap().1.clone();
    broken["position"] = json!("first");
    let mut strict = schema.clone();
    strict["components"] = document["components"].clone();
    assert!(!jsonschema::validator_for(&strict).unwrap().is_valid(&broken));
    let live: Vec<&Value> = events.iter().map(|(_, data)| data).filter(|data| row(data)).collect();
    assert!(live.len() as u64 >= records, "{} of {records}", live.len());
    read.sort_by_key(|row| row["position"].as_u64());
    assert!(read.len() > 20, "{}", read.len());
    for row in &read {
        assert!(live.contains(&row), "{row} is not live");
    }
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_carried_out_is_an_error_of_the_table_and_changes_nothing() {
    let system = varied().await;
    let host = served(&system).await;
    let document = get(&host, "/api/openapi.json").await.json();
    let head = get(&host, "/api/v1/log").await.json()["head"].clone();
    let schema = json!({"$ref": "#/components/schemas/error"});
    let long = "x".repeat(10_000);
    for (method, path, body, status) in [
        ("GET", "/v1/nothing", "", 404),
        ("GET", "/v1/tasks/none", "", 404),
        ("GET", "/v1/tasks/a%00b", "", 404),
        ("GET", "/v1/tasks/..%2F..%2Fetc", "", 404),
        ("GET", &format!("/v1/tasks/{long}"), "", 400),
        ("GET", "/v1/sessions/none", "", 404),
        ("GET", "/v1/tasks/echo-0001/state?at=99", "", 404),
        ("GET", "/v1/tasks/echo-0001/state?at=x", "", 400),
        ("GET", "/v1/tasks?stat=failed", "", 400),
        ("GET", "/v1/tasks?after=nonsense", "", 404),
        ("GET", "/v1/calls?after=nonsense", "", 404),
        ("GET", "/v1/stats?since=yesterday", "", 400),
        ("GET", "/v1/records?survey=log&from=3", "", 400),
        ("GET", "/v1/verify?stream=task-agent%2Fnone", "", 404),
        ("GET", "/v1/live?from=99999", "", 409),
        ("DELETE", "/v1/tasks", "", 405),
        ("POST", "/v1/stats", "{}", 405),
        ("POST", "/v1/tasks", "", 400),
        ("POST", "/v1/tasks", "[1]", 400),
        ("POST", "/v1/tasks?wait=301", "{}", 400),
        ("POST", "/v1/tasks/echo-0001/cancel", "{}", 409),
        ("POST", "/v1/tasks/none/cancel", "{}", 404),
        ("POST", "/v1/tasks/echo-0001/cancel", r#"{"why": "x"}"#, 400),
        ("POST", "/v1/tasks/echo-0001/approve", "{}", 400),
        ("POST", "/v1/tasks/pay-0001/approve", r#"{"approval": "none"}"#, 404),
        ("POST", "/v1/tasks/hang-0001/abandon", r#"{"call": "none", "reason": "x"}"#, 404),
    ] {
        let answer = ask(&host, method, &format!("/api{path}"), body).await;
        let place = format!("{method} {path} {body}");
        assert_eq!(answer.status, status, "{place}: {answer:?}");
        check(&document, &schema, &answer.json(), &place);
    }
    let text = request("POST", "/api/v1/tasks", &[("content-type", "text/plain")], "{}");
    assert_eq!(send(&host, &text).await.status, 415);
    assert_eq!(get(&host, "/api/v1/log").await.json()["head"], head, "nothing was done");
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_put_together_are_the_whole_list_without_a_gap_or_a_repeat() {
    let system = varied().await;
    let host = served(&system).await;
    for list in ["streams", "tasks", "calls", "stats", "tasks/pay-0001/events"] {
        let whole = get(&host, &format!("/api/v1/{list}?limit=1000")).await.json();
        assert!(whole["next"].is_null() && whole["items"].as_array().unwrap().len() > 2, "{list}: {whole}");
        let key = if list.ends_with("events") { "from" } else { "after" };
        for limit in [1, 2, 3] {
            let (mut items, mut next) = (Vec::new(), String::new());
            loop {
                let page = get(&host, &format!("/api/v1/{list}?limit={limit}{next}")).await.json();
                let some = page["items"].as_array().unwrap().clone();
                assert!(some.len() <= limit, "{list}");
                items.extend(some);
                let Some(after) = page["next"].as_str() else { break };
                next = format!("&{key}={}", after.replace(' ', "+").replace('/', "%2F"));
            }
            assert_eq!(Value::from(items), whole["items"], "{list} by {limit}");
        }
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_under_a_key_is_submitted_once_and_a_decision_twice_is_made_once() {
    let system = varied().await;
    let host = served(&system).await;
    let keyed = |body: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", "order-7")];
        request("POST", "/api/v1/tasks?wait=20", &headers, body)
    };
    let body = r#"{"messages": [{"role": "user", "parts": [{"type": "text", "content": "once"}]}]}"#;
    let (first, second) = (send(&host, &keyed(body)).await, send(&host, &keyed(body)).await);
    assert_eq!((first.status, second.status), (200, 200), "{second:?}");
    assert_eq!(first.json()["id"], second.json()["id"]);
    let other = send(&host, &keyed(&body.replace("once", "twice"))).await;
    assert_eq!(other.status, 409, "{other:?}");
    let calls = get(&host, "/api/v1/calls").await.json();
    let approval = json!({"approval": field(&calls, "pay-0001", "approval_id")}).to_string();
    let path = "/api/v1/tasks/pay-0001/approve";
    let made = ask(&host, "POST", path, &approval).await.json();
    assert_eq!((&made["new"], &made["decision"]), (&json!(true), &json!("approved")), "{made}");
    let again = ask(&host, "POST", path, &approval).await.json();
    assert_eq!(again["new"], json!(false), "{again}");
    let denied = ask(&host, "POST", "/api/v1/tasks/pay-0001/deny", &approval).await;
    assert_eq!(denied.status, 409, "{denied:?}");
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_each_agent_are_listed_shown_and_controlled() {
    let archive = |agent: taskreel::AgentBuilder| agent.infer(model(&["found"]));
    let system = builder().agent("archive", archive).start().await.unwrap();
    let host = served(&system).await;
    let agents = get(&host, "/api/v1/agents").await.json();
    let names: Vec<&str> =
        agents["items"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert_eq!(names, system.agents());
    let body =
        r#"{"id": "both", "messages": [{"role": "user", "parts": [{"type": "text", "content": "x"}]}]}"#;
    for query in ["?wait=20", "?wait=20&agent=archive"] {
        let made = ask(&host, "POST", &format!("/api/v1/tasks{query}"), body).await;
        assert_eq!((made.status, made.json()["state"].as_str()), (200, Some("completed")), "{made:?}");
    }
    let of = async |query: &str| get(&host, &format!("/api/v1/tasks{query}")).await.json()["items"].clone();
    assert_eq!(of("").await.as_array().unwrap().len(), 2);
    let archived = of("?agent=archive").await;
    assert_eq!(archived[0]["stream"], "task-archive/both", "{archived}");
    let shown = get(&host, "/api/v1/tasks/both?agent=archive").await.json();
    assert_eq!(shown["row"]["stream"], "task-archive/both");
    let shown = get(&host, "/api/v1/tasks/task-archive%2Fboth").await.json();
    assert_eq!(shown["row"]["stream"], "task-archive/both");
    let unknown = ask(&host, "POST", "/api/v1/tasks?agent=nobody", body).await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
    host.stop().await;
    system.shutdown().await.unwrap();
}
