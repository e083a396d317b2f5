//! Conditions over what the live API shows (`where`), and its filters.

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

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_does_not_exist_is_refused_with_those_that_do() {
    let system = varied().await;
    let host = served(&system).await;
    for (path, says) in [
        ("calls?kind=CallFailed", "`callfailed` is not a kind of calls; the kinds of calls are tool, infer"),
        ("calls?kind=tool&kind=odd", "`odd` is not a kind of calls"),
        ("calls?not=kind%3Dodd", "`odd` is not a kind of calls"),
        ("stats?kind=odd", "`odd` is not a kind of calls"),
        ("stats?not=tool%3Decho&not=kind%3Dodd", "`odd` is not a kind of calls"),
        ("live?kind=CallExploded", "`callexploded` is not a kind of events; the kinds of events are "),
        ("live?kind=CallFailed&kind=infer", "`infer` is not a kind of events"),
    ] {
        let answer = get(&host, &format!("/api/v1/{path}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "malformed"), "{path}: {answer:?}");
        let told = answer.json();
        assert!(told["error"]["message"].as_str().unwrap().contains(says), "{path}: {told}");
    }
    for (path, is_found) in [("calls?kind=TOOL", true), ("calls?not=kind%3Dtool", false)] {
        let calls = get(&host, &format!("/api/v1/{path}")).await.json();
        assert_eq!(!calls["items"].as_array().unwrap().is_empty(), is_found, "{path}: {calls}");
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_date_is_taken_with_all_of_its_day_whichever_side_it_bounds() {
    let system = varied().await;
    let host = served(&system).await;
    let items = async |query: &str| {
        let answer = get(&host, &format!("/api/v1/{query}")).await;
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        answer.json()["items"].as_array().unwrap().clone()
    };
    let calls = items("calls").await;
    // The log may have been written across a midnight.
    let day = |call: &Value| call["since"].as_str().unwrap()[..10].parse::<jiff::civil::Date>().unwrap();
    let (first, last) = (day(&calls[0]), day(calls.last().unwrap()));
    let ids = |rows: &[Value]| rows.iter().map(|row| row["call_id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&items(&format!("calls?since={first}&until={last}")).await), ids(&calls));
    assert!(items(&format!("calls?until={}", first.yesterday().unwrap())).await.is_empty());
    assert!(items(&format!("calls?since={}", last.tomorrow().unwrap())).await.is_empty());
    // A time of that day is no date.
    assert!(items(&format!("calls?until={first}T00:00:00Z")).await.is_empty());
    assert_eq!(items(&format!("stats?until={last}")).await.len(), items("stats").await.len());
    for wrong in ["calls?until=yesterday", "stats?since=2026-02-30"] {
        assert_eq!(get(&host, &format!("/api/v1/{wrong}")).await.status, 400, "{wrong}");
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}
