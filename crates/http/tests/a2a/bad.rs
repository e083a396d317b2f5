//! Requests of a generator to A2A's routes: each is answered with a typed error or a result, and a refused one changes nothing.

use std::sync::Arc;

use serde_json::Value;
use taskreel_http::{A2a, Mounted, Protolink};
use taskreel_log::audit::verify;

use crate::agent::{Gate, with_handler};
use crate::asked::{ALL, hosts};
use crate::bad_requests_support::{Random, request_to};
use crate::support::{Host, builder, connect, hosts_of};

/// The number of requests to each host.
const REQUESTS: u64 = 120;

const ROUTES: &[&str] = &[
    "POST /",
    "POST /",
    "POST /agent",
    "POST /agents/{}",
    "GET /.well-known/agent-card.json",
    "GET /extendedAgentCard",
    "POST /message:send",
    "POST /message:send",
    "POST /message:stream",
    "GET /tasks",
    "GET /tasks/{}",
    "POST /tasks/{}:cancel",
    "POST /tasks/{}:subscribe",
    "GET /tasks/{}:subscribe",
    "POST /tasks/{}/pushNotificationConfigs",
    "DELETE /tasks/{}/pushNotificationConfigs/{}",
    "POST /v1/message:send",
    "POST /v1/message:stream",
    "GET /v1/tasks/{}",
    "GET /v1/card",
    "POST /agents/{}/message:send",
    "PUT /message:send",
];

const GOOD: &[&str] = &[
    r#"{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}}"#,
    r#"{"jsonrpc": "2.0", "id": "x", "method": "SendStreamingMessage", "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "report"}]}}}"#,
    r#"{"jsonrpc": "2.0", "id": null, "method": "ListTasks", "params": {"pageSize": 3, "status": "TASK_STATE_COMPLETED"}}"#,
    r#"{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}}}"#,
    r#"{"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"a": [1]}}, {"raw": "aGk="}]}, "configuration": {"historyLength": 1}}"#,
    r#"{"message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hello"}]}, "configuration": {"blocking": true}}"#,
];

/// Returns what is wrong with an answer; `Ok` with whether it refuses.
fn judged(status: u16, head: &str, body: &str) -> Result<bool, &'static str> {
    if head.to_lowercase().contains("content-type: text/event-stream") {
        return Ok(false);
    }
    match status {
        // A head that the server itself refuses, another handler's path, a body of another handler.
        400 | 404 | 405 | 426 | 431 if body.is_empty() || !body.starts_with('{') => return Ok(true),
        200 | 400 | 404 | 405 | 408 | 413 | 415 | 422 | 429 => {}
        _ => return Err("no status of the table"),
    }
    let body: Value = serde_json::from_str(body).map_err(|_| "no JSON")?;
    let error = &body["error"];
    if !error.is_object() {
        return if status == 200 { Ok(false) } else { Err("a refusal without an error") };
    }
    let is_typed = error["code"].is_number() || error["code"].is_string();
    if is_typed && error["message"].is_string() { Ok(true) } else { Err("an error without a code") }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_generator_to_the_routes_of_a2a_get_typed_answers_and_refused_ones_change_nothing() {
    let set = |name: &str, usual| std::env::var(name).ok().map_or(usual, |text| text.parse().unwrap());
    let (requests, seed) = (set("TASKREEL_BAD_REQUESTS", REQUESTS), set("TASKREEL_BAD_SEED", 13));
    let system = with_handler(builder(), &Gate::shut()).start().await.unwrap();
    let handlers = Mounted::new()
        .mount("/", Arc::new(A2a::new(system.clone())))
        .mount("/", Arc::new(Protolink::new(system.clone())));
    let (mut refused, mut done) = (0, 0);
    for host in hosts_of(Arc::new(handlers)).await {
        let mut random = Random::new(seed);
        for n in 0..requests {
            let before = system.log().head().unwrap();
            let (bytes, shown) = request_to(&mut random, ROUTES, GOOD, "a2a-version: 1.0\r\n");
            let (status, head, body) = answered(&host, &bytes).await;
            let place = format!("seed {seed}, request {n}, {}: {shown}: {status} {body}", host.name);
            match judged(status, &head, &body) {
                Ok(true) => {
                    refused += 1;
                    assert_eq!(system.log().head().unwrap(), before, "a refused request was done: {place}");
                }
                Ok(false) => done += 1,
                Err(why) => panic!("{why}: {place}"),
            }
        }
        host.stop().await;
    }
    println!("{refused} refused, {done} done");
    assert!(refused > requests && done > 10, "{refused} refused, {done} done");
    for host in hosts(&system).await {
        for binding in ALL {
            assert_eq!(binding.task(&host, "hello").await["status"]["state"], binding.state("completed"));
        }
        host.stop().await;
    }
    assert!(verify(system.log().as_ref()).is_sound());
    system.shutdown().await.unwrap();
}

async fn answered(host: &Host, bytes: &[u8]) -> (u16, String, String) {
    let mut connection = connect(host).await;
    // A server may refuse before it has read all.
    let _ = connection.write_all(bytes).await;
    let text = connection.rest().await;
    let text = text.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&text);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
}
