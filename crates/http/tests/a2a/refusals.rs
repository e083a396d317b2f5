//! The error table on every binding, and input that is no request at all. Nothing is lost by any of it: the log verifies.

use serde_json::{Value, json};
use taskreel_log::audit::verify;

use crate::agent::{Gate, agent};
use crate::asked::{ALL, Binding, hosts};
use crate::support::{Answer, Host, connect, request, send};

/// A refusal: what is asked, and the code over JSON-RPC, the status over REST and the reason that come back.
struct Case {
    name: &'static str,
    operation: &'static str,
    params: Value,
    code: i64,
    status: i64,
    reason: &'static str,
}

fn case(name: &'static str, asked: (&'static str, Value), refused: (i64, i64, &'static str)) -> Case {
    let ((operation, params), (code, status, reason)) = (asked, refused);
    Case { name, operation, params, code, status, reason }
}

/// The cases of a binding, with a task that is over and one that waits.
#[allow(clippy::too_many_lines, reason = "a table")]
fn cases(binding: Binding, over: &Value, waiting: &Value) -> Vec<Case> {
    let message = |more: Value| json!({"message": binding.message("hello", &more)});
    let not_found = (-32001, 404, "TASK_NOT_FOUND");
    let unsupported = (-32004, 400, "UNSUPPORTED_OPERATION");
    let invalid = (-32602, 400, "");
    let (id, context) = (&over["id"], &waiting["contextId"]);
    let push = match binding {
        Binding::Rpc1 | Binding::Rest1 => "taskPushNotificationConfig",
        Binding::Rpc03 => "pushNotificationConfig",
        Binding::Rest03 => "pushNotification",
    };
    let mut with_push = message(Value::Null);
    with_push["configuration"] = json!({push: {"url": "http://127.0.0.1:9/"}});
    let mut negative = message(Value::Null);
    negative["configuration"] = json!({"historyLength": -1});
    let mut cases = vec![
        case("an unknown task", ("get", json!({"id": "none"})), not_found),
        case("an id that cannot be one", ("get", json!({"id": "x".repeat(300)})), not_found),
        case("an unknown task is canceled", ("cancel", json!({"id": "none"})), not_found),
        case("an unknown task is followed", ("subscribe", json!({"id": "none"})), not_found),
        case("a message to an unknown task", ("send", message(json!({"taskId": "none"}))), not_found),
        case("a stream to an unknown task", ("stream", message(json!({"taskId": "none"}))), not_found),
        case(
            "a task that is over is canceled",
            ("cancel", json!({"id": id})),
            (-32002, 400, "TASK_NOT_CANCELABLE"),
        ),
        case("a task that is over is followed", ("subscribe", json!({"id": id})), unsupported),
        case("a message to a task that is over", ("send", message(json!({"taskId": id}))), unsupported),
        case("a stream to a task that is over", ("stream", message(json!({"taskId": id}))), unsupported),
        case(
            "another context than the task's",
            ("send", message(json!({"taskId": waiting["id"], "contextId": "other"}))),
            invalid,
        ),
        case(
            "another task in the context",
            ("send", message(json!({"taskId": id, "contextId": context}))),
            unsupported,
        ),
        case("a context that cannot be one", ("send", message(json!({"contextId": "a\nb"}))), invalid),
        case("no message", ("send", json!({})), invalid),
        case("a message that is none", ("send", json!({"message": []})), invalid),
        case(
            "a message of the agent",
            (
                "send",
                message(
                    json!({"role": if binding.is_rpc() && !binding.is_1() { "agent" } else { "ROLE_AGENT" }}),
                ),
            ),
            invalid,
        ),
        case("a role that is none", ("send", message(json!({"role": "someone"}))), invalid),
        case("an empty id", ("send", message(json!({"messageId": ""}))), invalid),
        case("a negative length in a message", ("send", negative), invalid),
        case(
            "a webhook with a message",
            ("send", with_push),
            (-32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ),
        case(
            "a webhook",
            ("push", json!({"id": id, "url": "http://127.0.0.1:9/"})),
            (-32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ),
        case("a negative length", ("get", json!({"id": id, "historyLength": -1})), invalid),
        case("a length that is no number", ("get", json!({"id": id, "historyLength": "x"})), invalid),
        case("a page without tasks", ("list", json!({"pageSize": 0})), invalid),
        case("a page that is too long", ("list", json!({"pageSize": 101})), invalid),
        case("a token of no page", ("list", json!({"pageToken": "x"})), invalid),
        case("a state that is none", ("list", json!({"status": "x"})), invalid),
        case("a time that is none", ("list", json!({"statusTimestampAfter": "x"})), invalid),
        case(
            "an extended card",
            ("card", json!({})),
            if binding.is_1() { unsupported } else { (-32007, 400, "EXTENDED_AGENT_CARD_NOT_CONFIGURED") },
        ),
    ];
    if binding == Binding::Rpc03 {
        // Its clients follow each task that they sent, and get one that is over by then as the only event.
        cases.retain(|case| case.name != "a task that is over is followed");
    }
    if binding.is_rpc() {
        cases.push(case("no id", ("get", json!({})), invalid));
        cases.push(case("an id that is no text", ("get", json!({"id": 5})), invalid));
    }
    for part in [json!({}), json!({"text": 5}), json!(null), json!({"kind": "image"})] {
        let parts = if binding == Binding::Rest03 { "content" } else { "parts" };
        cases.push(case("a part that is none", ("send", message(json!({parts: [part]}))), invalid));
    }
    let part =
        if binding == Binding::Rpc03 { json!({"kind": "text", "text": "x"}) } else { json!({"text": "x"}) };
    let place = if binding == Binding::Rest03 { "content" } else { "parts" };
    cases.push(case("too many parts", ("send", message(json!({place: vec![part; 100_001]}))), invalid));
    let empty = if binding == Binding::Rest03 { json!({"content": []}) } else { json!({"parts": []}) };
    cases.push(case("no parts", ("send", message(empty)), invalid));
    cases
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_of_the_error_table_has_its_code_its_status_and_its_reason_on_every_binding() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let (over, waiting) = (binding.task(&host, "hello").await, binding.task(&host, "ask").await);
            for Case { name, operation, params, code, status, reason } in cases(binding, &over, &waiting) {
                let refused = binding.ask(&host, operation, params).await;
                let expected = (if binding.is_rpc() { code } else { status }, reason.to_owned());
                assert_eq!(refused, Err(expected), "{} {binding:?}: {name}", host.name);
            }
            let again = binding.ask(&host, "get", json!({"id": waiting["id"]})).await.unwrap();
            assert_eq!(again, waiting, "nothing of it changed the task");
        }
        host.stop().await;
    }
    let found = verify(system.log().as_ref());
    assert!(found.is_sound(), "{:#?}", found.findings);
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_says_which_value_was_wrong_and_what_it_is_about() {
    let system = agent(&Gate::shut()).await;
    let [host, other] = hosts(&system).await;
    other.stop().await;
    let ask = async |binding: Binding, operation, params| {
        send(&host, &binding.request(operation, &params, &[])).await.json()
    };
    let wrong = json!({"message": Binding::Rpc1.message("x", &json!({"parts": [{"raw": "%"}]}))});
    let error = &ask(Binding::Rpc1, "send", wrong.clone()).await["error"];
    let violation = json!([{"field": "message.parts[0].raw", "description": "must be base64"}]);
    let bad = json!([{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violation}]);
    assert_eq!(error["data"], bad);
    let error = &ask(Binding::Rest1, "send", wrong).await["error"];
    assert_eq!(
        (&error["code"], &error["status"], &error["details"]),
        (&json!(400), &json!("INVALID_ARGUMENT"), &bad)
    );
    let info = json!([{
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "TASK_NOT_FOUND",
        "domain": "a2a-protocol.org",
        "metadata": {"taskId": "none"},
    }]);
    assert_eq!(ask(Binding::Rpc1, "get", json!({"id": "none"})).await["error"]["data"], info);
    let error = &ask(Binding::Rest1, "get", json!({"id": "none"})).await["error"];
    assert_eq!((&error["status"], &error["details"]), (&json!("NOT_FOUND"), &info));
    host.stop().await;
    system.shutdown().await.unwrap();
}

/// Posts a body as it is.
async fn post(host: &Host, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    send(host, &request("POST", path, headers, body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_spoken_is_refused_and_a_method_belongs_to_its_version() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        let rpc = async |headers: &[(&str, &str)], path: &str, method: &str| {
            let body =
                json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {"id": "none"}}).to_string();
            let answer = post(&host, path, headers, &body).await.json();
            assert_eq!(answer["id"], 7);
            answer["error"]["code"].as_i64().unwrap()
        };
        assert_eq!(rpc(&[("a2a-version", "99.0")], "/", "GetTask").await, -32009);
        assert_eq!(rpc(&[], "/?A2A-Version=2.0", "GetTask").await, -32009);
        assert_eq!(rpc(&[], "/?A2A-Version=1.0", "GetTask").await, -32001);
        assert_eq!(rpc(&[("a2a-version", "1.0")], "/", "GetTask").await, -32001);
        assert_eq!(rpc(&[("a2a-version", "1.0")], "/", "tasks/get").await, -32601);
        assert_eq!(rpc(&[("a2a-version", "0.3")], "/", "GetTask").await, -32601);
        // Without a version the name of the method says it.
        assert_eq!(rpc(&[], "/", "GetTask").await, -32001);
        assert_eq!(rpc(&[], "/", "tasks/get").await, -32001);
        assert_eq!(rpc(&[], "/", "Nothing").await, -32601);
        let rest = async |headers: &[(&str, &str)], path: &str| {
            send(&host, &request("GET", path, headers, "")).await
        };
        for (headers, path, status) in [
            (&[("a2a-version", "99.0")][..], "/tasks/none", 400),
            (&[("a2a-version", "0.3")], "/tasks/none", 400),
            (&[("a2a-version", "1.0")], "/v1/tasks/none", 400),
            (&[], "/tasks/none?A2A-Version=7", 400),
            (&[("a2a-version", "1.0")], "/tasks/none", 404),
            (&[("a2a-version", "0.3")], "/v1/tasks/none", 404),
            (&[], "/tasks/none", 404),
            (&[], "/v1/tasks/none", 404),
        ] {
            let answer = rest(headers, path).await;
            assert_eq!(answer.status, status, "{path} {answer:?}");
            let reason = if status == 400 { "VERSION_NOT_SUPPORTED" } else { "TASK_NOT_FOUND" };
            assert_eq!(answer.json()["error"]["details"][0]["reason"], reason);
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_refused_with_a_code_that_says_why() {
    let system = agent(&Gate::shut()).await;
    let deep = format!("{}{}", "[".repeat(2_000), "]".repeat(2_000));
    for host in hosts(&system).await {
        let json = ("content-type", "application/json");
        for (headers, body, code) in [
            (&[json][..], "{nope", -32700),
            (&[json], "", -32700),
            (&[json], deep.as_str(), -32700),
            (&[json], "\"text\"", -32600),
            (&[json], "[]", -32600),
            (&[json], r#"[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]"#, -32600),
            (&[json], r#"{"id":1,"method":"GetTask"}"#, -32600),
            (&[json], r#"{"jsonrpc":"1.0","id":1,"method":"GetTask"}"#, -32600),
            (&[json], r#"{"jsonrpc":"2.0","id":1}"#, -32600),
            (&[json], r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600),
            (&[json], r#"{"jsonrpc":"2.0","id":{},"method":"GetTask"}"#, -32600),
            (&[json], r#"{"jsonrpc":"2.0","id":1.5,"method":"GetTask"}"#, -32600),
            (&[json], r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[1]}"#, -32602),
            (&[json], r#"{"jsonrpc":"2.0","id":1,"method":"GetTask"}"#, -32602),
            (&[("content-type", "text/plain")], "{}", -32005),
            (&[("content-type", "application/xml")], "{}", -32005),
            (&[json, ("content-encoding", "gzip")], "{}", -32005),
        ] {
            let answer = post(&host, "/", headers, body).await;
            assert_eq!((answer.status, &answer.json()["error"]["code"]), (200, &code.into()), "{body:.80}");
            assert_eq!(answer.json()["jsonrpc"], "2.0");
        }
        for (path, headers, body, status, reason) in [
            ("/message:send", json, "{nope", 400, ""),
            ("/message:send", json, deep.as_str(), 400, ""),
            ("/message:send", json, "[]", 400, ""),
            ("/v1/message:send", json, "5", 400, ""),
            ("/message:stream", json, "", 400, ""),
            ("/message:send", ("content-type", "text/plain"), "{}", 400, "CONTENT_TYPE_NOT_SUPPORTED"),
        ] {
            let answer = post(&host, path, &[headers], body).await;
            assert_eq!(answer.status, status, "{path} {body:.80} {answer:?}");
            let reason_of =
                answer.json()["error"]["details"][0]["reason"].as_str().unwrap_or_default().to_owned();
            assert_eq!(reason_of, reason, "{path} {body:.80}");
        }
        for path in ["/", "/message:send"] {
            // Refused by the length that it names, before a byte of it was read.
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n"
            );
            let mut connection = connect(&host).await;
            connection.write_all(head.as_bytes()).await.unwrap();
            assert_eq!(connection.head().await.0, 413, "{path}");
        }
        host.stop().await;
    }
    let found = verify(system.log().as_ref());
    assert!(found.is_sound(), "{:#?}", found.findings);
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_comes_back_in_the_media_type_in_which_it_was_sent() {
    let system = agent(&Gate::shut()).await;
    let [host, other] = hosts(&system).await;
    other.stop().await;
    let body = json!({"message": Binding::Rest1.message("hello", &Value::Null)}).to_string();
    for media in ["application/json", "application/a2a+json"] {
        for (path, body) in [("/message:send", body.as_str()), ("/message:send", "{}")] {
            let answer = post(&host, path, &[("content-type", media)], body).await;
            assert_eq!(answer.header("content-type"), Some(media), "{answer:?}");
        }
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_refused_is_a_plain_answer_and_in_0_3_an_event_for_those_who_accept_nothing_else() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        let none = json!({"id": "none"});
        let accept = [("accept", "text/event-stream")];
        for binding in ALL {
            let bytes = binding.request("subscribe", &none, &accept);
            if binding == Binding::Rpc03 {
                let mut connection = crate::support::connect(&host).await;
                connection.write_all(&bytes).await.unwrap();
                let (status, head) = connection.head().await;
                assert!(status == 200 && head.contains("text/event-stream"), "{head}");
                let (_, event) = connection.frame().await.unwrap();
                assert_eq!(binding.result(&event).unwrap_err().1, "TASK_NOT_FOUND");
                assert!(connection.frame().await.is_none());
            } else {
                let refused = send(&host, &bytes).await;
                assert_eq!(binding.came(&refused).unwrap_err().1, "TASK_NOT_FOUND", "{binding:?}");
            }
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}
