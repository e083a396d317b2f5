//! Webhooks of `serve --a2a`: what a killed server owed is delivered by the next one, and nothing is lost.

mod receiver;

use std::path::Path;

use receiver::Receiver;
use serde_json::{Value, json};

use crate::binary::Place;
use crate::served::{Served, until};

/// The tasks that have a webhook.
const TASKS: usize = 20;

/// The token of all webhooks.
const TOKEN: &str = "tok-c0ffee-41";

fn ask(served: &Served, method: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params});
    let (_, answer) = served.send("POST", "/", "a2a-version: 1.0\r\n", &body.to_string()).unwrap();
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// Sends a message whose task calls a webhook at this path, and returns the task's id.
fn begin(served: &Served, receiver: &Receiver, at: usize) -> String {
    let url = format!("http://{}/{at}", receiver.address);
    let part = json!({"data": {"tool_name": "add", "args": {"a": at, "b": 1}, "call_id": format!("c{at}")},
                      "metadata": {"urn:taskreel:a2a:protolink:v1": {"kind": "tool_call"}}});
    let message = json!({"messageId": format!("m{at}"), "role": "ROLE_USER", "parts": [part]});
    let config = json!({"url": url, "token": TOKEN});
    let configuration = json!({"returnImmediately": true, "taskPushNotificationConfig": config});
    let answer = ask(served, "SendMessage", &json!({"message": message, "configuration": configuration}));
    answer["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Returns what a stream tells of a task after its first event.
fn told(served: &Served, id: &str) -> Vec<Value> {
    let head = "a2a-version: 1.0\r\nlast-event-id: 1\r\n";
    let (status, text) = served.send("POST", &format!("/tasks/{id}:subscribe"), head, "").unwrap();
    assert_eq!(status, 200, "{text}");
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// Returns what a webhook was told, without what it was told again: after a crash that is what was not noted before.
fn received(receiver: &Receiver, at: usize) -> Vec<Value> {
    let of = receiver.deliveries().into_iter().filter(|(path, ..)| *path == format!("/{at}"));
    of.fold(Vec::new(), |mut told, (_, _, body)| {
        if !told.contains(&body) {
            told.push(body);
        }
        told
    })
}

fn holds(dir: &Path, text: &str) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return path.file_name().is_some_and(|name| name != "secrets") && holds(&path, text);
        }
        std::fs::read(&path).unwrap().windows(text.len()).any(|part| part == text.as_bytes())
    })
}

#[test]
fn a_server_that_is_killed_in_the_middle_of_deliveries_loses_none_of_them() {
    let place = Place::new();
    for answered in [0, 1, TASKS, 2 * TASKS - 3] {
        let receiver = Receiver::start(answered);
        let served = Served::start(&place, "--listen 127.0.0.1:0 --a2a --push-loopback", &[]);
        let ids: Vec<String> = (0..TASKS).map(|at| begin(&served, &receiver, at)).collect();
        // So many were answered, and others wait for an answer that does not come.
        until("deliveries are under way", || receiver.deliveries().len() > answered);
        served.signal("-KILL");
        drop(served);
        receiver.answer_all();
        let again = Served::start(&place, "--listen 127.0.0.1:0 --a2a --push-loopback", &[]);
        for (at, id) in ids.iter().enumerate() {
            let last = |events: &[Value]| {
                let last = events.last().map(|event| event["statusUpdate"]["status"]["state"].clone());
                last == Some(json!("TASK_STATE_COMPLETED"))
            };
            until("the webhook was told the end", || last(&received(&receiver, at)));
            assert_eq!(received(&receiver, at), told(&again, id), "{answered} answered, task {at}");
        }
        assert!(receiver.deliveries().iter().all(|(_, head, _)| head.contains(TOKEN)));
        again.signal("-TERM");
        again.end().ended(0);
        let shown = place.run(&format!("show {} --json", ids[0])).ended(0).out();
        assert!(
            shown.contains(r#""state":"over""#) && shown.contains(r#""token":"secret:sha256-"#),
            "{shown}"
        );
        place.run("verify").ended(0);
        assert!(!holds(place.path(), TOKEN));
    }
}
