//! Conditions over what the live API shows (`where`).

use serde_json::Value;

use crate::support::Answer;
use crate::{get, served, varied};

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_selects_among_the_items_of_each_list_and_among_records() {
    let system = varied().await;
    let host = served(&system).await;
    let all = get(&host, "/api/v1/tasks").await.json()["items"].as_array().unwrap().clone();
    let kept = |name: &'static str, wanted: &'static str| {
        all.iter().filter(|row| row[name] == wanted).cloned().collect::<Vec<_>>()
    };
    for (path, expected) in [
        ("tasks?where=state%20%3D%20completed", kept("state", "completed")),
        ("tasks?where=not%20id%20~%20%2Fpay%7Chang%2F&state=input-required", kept("id", "ask-0001")),
        ("tasks?where=error", Vec::new()),
    ] {
        let found = get(&host, &format!("/api/v1/{path}")).await.json();
        assert_eq!(found["items"], Value::from(expected), "{path}");
    }
    let calls = get(&host, "/api/v1/calls?where=target%20%3D%20pay").await.json();
    assert_eq!(calls["items"].as_array().unwrap().len(), 3, "{calls}");
    let stats = get(&host, "/api/v1/stats?where=group%20%3D%20tool%20and%20calls%20%3E%201").await.json();
    assert!(stats["items"].as_array().unwrap().iter().all(|row| row["group"] == "tool"), "{stats}");
    // Of records those that hold an event which fits, and at the end their number.
    let lines = |answer: Answer| -> Vec<Value> {
        answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let whole = lines(get(&host, "/api/v1/records").await);
    let has = |record: &Value| {
        let events = record["events"].as_array().into_iter().flatten();
        events.map(|event| &event["kind"]).any(|kind| kind == "ApprovalRequested")
    };
    let expected: Vec<Value> = whole.into_iter().filter(has).collect();
    let some = lines(get(&host, "/api/v1/records?where=kind%20%3D%20ApprovalRequested").await);
    assert_eq!(some[..some.len() - 1], expected);
    assert_eq!(some.last().unwrap()["done"], expected.len());
    for (query, says) in [
        ("tasks?where=state", None),
        ("tasks?where=state%20%3D", Some("a value")),
        ("tasks?where=none%20%3D%201", Some("no field `none`")),
        ("records?where=state%20%3D%201", Some("no field `state`")),
        ("records?where=kind&records=3", Some("takes no survey")),
        ("records?where=kind&follow=true", Some("takes no survey")),
        ("live?where=none", Some("no field `none`")),
        ("streams?where=kind", Some("no parameter `where`")),
    ] {
        let answer = get(&host, &format!("/api/v1/{query}")).await;
        match says {
            None => assert_eq!(answer.status, 200, "{query}"),
            Some(says) => {
                let told = answer.json();
                let message = told["error"]["message"].as_str().unwrap().to_owned();
                assert!(answer.status == 400 && message.contains(says), "{query}: {told}");
            }
        }
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}
