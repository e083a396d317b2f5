//! `check`, which is `conformance` in the specification.

use serde_json::{Value, json};

use crate::binary::Place;
use crate::forged::{After, Forged, Reply, card, task};
use crate::{ours, run, url};

/// Returns the result of a check.
fn result(document: &Value, name: &str) -> String {
    let checks = document["checks"].as_array().unwrap();
    let found =
        checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("no {name}: {document}"));
    found["result"].as_str().unwrap().to_owned()
}

#[test]
fn a2acli_conform_001_our_own_server_passes_each_check() {
    let place = Place::new();
    let served = ours(&place);
    let before = run(&place, &["task", "list", "-a", &url(&served), "-o", "json"]).ended(0).document();
    assert_eq!(before["totalSize"], 0);
    let read = run(&place, &["check", &url(&served)]).ended(0);
    assert!(!read.out().contains("FAIL"), "{}", read.out());
    let after = run(&place, &["task", "list", "-a", &url(&served), "-o", "json"]).ended(0).document();
    assert_eq!(after["totalSize"], 0, "nothing was changed at the agent");
    let sent = run(&place, &["conformance", "-a", &url(&served), "--send", "hello", "-o", "json"])
        .ended(0)
        .document();
    assert_eq!((&sent["failed"], &sent["warned"]), (&json!(0), &json!(0)), "{sent}");
    assert!(sent["passed"].as_u64().unwrap() > 50, "{sent}");
    for name in ["card-etag", "wrong-version", "unknown-task", "push", "list-sent", "stream"] {
        assert_eq!(result(&sent, name), "pass");
    }
    let lines = run(&place, &["check", &url(&served), "-o", "json", "--stream"]).ended(0).documents();
    assert!(lines.len() > 20 && lines.last().unwrap()["schema"] == "taskreel.a2a-check/1");
}

#[test]
fn an_agent_that_answers_wrongly_fails_the_checks_that_it_should() {
    let place = Place::new();
    let mut boasts = card(true);
    boasts["capabilities"]["pushNotifications"] = json!(true);
    boasts["skills"] = json!("none");
    let agent = Forged::with(&boasts, |call| match call.operation.as_str() {
        "GetTask" => Reply::Error(-32603, 500, "INTERNAL_ERROR", "\u{1b}[31mbroken"),
        "ListTasks" => Reply::Result(json!({"tasks": []})),
        "ListTaskPushNotificationConfigs" => {
            Reply::Error(-32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED", "no")
        }
        "SendStreamingMessage" => Reply::Events(vec![json!({"task": task("WORKING")})], After::End),
        _ => Reply::Result(json!({"task": task("WORKING")})),
    });
    let ran = run(&place, &["check", &agent.url, "--send", "x", "-o", "json"]).ended(1);
    assert!(!ran.out().contains('\u{1b}'));
    let document = ran.document();
    for name in [
        "card-valid",
        "unknown-task",
        "error-shape",
        "wrong-version",
        "unknown-method",
        "push",
        "list",
        "send",
        "get",
        "stream",
    ] {
        assert_eq!(result(&document, name), "fail", "{name}: {document}");
    }
    for (name, wanted) in [("card-cache-control", "warn"), ("card-etag", "warn"), ("reachable", "pass")] {
        assert_eq!(result(&document, name), wanted, "{name}");
    }
    let text = run(&place, &["check", &agent.url]).ended(1).out();
    assert!(text.contains("FAIL  unknown-task") && !text.contains('\u{1b}'), "{text}");
    run(&place, &["check", "http://127.0.0.1:1"]).ended(3);
    let nobody = Forged::with(
        &json!({"name": "n", "supportedInterfaces": [{"url": "http://127.0.0.1:1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}),
        |_| Reply::Hang,
    );
    let gone = run(&place, &["check", &nobody.url, "-o", "json"]).ended(1).document();
    assert_eq!(result(&gone, "reachable"), "fail");
}
