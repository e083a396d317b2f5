//! The rows of `task`.

use serde_json::json;

use crate::binary::Place;
use crate::forged::{After, Forged, Reply, artifact, card, status, task};
use crate::{ours, run, url};

#[test]
fn a2acli_task_get_001_state_results_and_history_are_shown() {
    let place = Place::new();
    let agent = Forged::start(|_| {
        let mut task = task("COMPLETED");
        task["artifacts"] = json!([{"artifactId": "a1", "parts": [{"text": "the result"}]}]);
        task["history"] =
            json!([{"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "the question"}]}]);
        Reply::Result(task)
    });
    let got = run(&place, &["task", "get", "t1", "-a", &agent.url, "--history", "7", "--verbose"]).ended(0);
    assert_eq!((got.field("Task"), got.field("Context")), ("t1".to_owned(), "c1".to_owned()));
    assert_eq!(got.field("State"), "TASK_STATE_COMPLETED");
    for shown in ["Artifact text:\n  the result\n", "History text:\n  the question\n"] {
        assert!(got.out().contains(shown), "{}", got.out());
    }
    assert_eq!(agent.of("GetTask")[0].params["historyLength"], 7);
    let json = run(&place, &["task", "get", "t1", "-a", &agent.url, "-o", "json"]).ended(0).document();
    assert_eq!(json["artifacts"][0]["parts"][0]["text"], "the result");
    assert_eq!(json["history"][0]["messageId"], "m");
}

#[test]
fn a2acli_task_cancel_001_a_cancel_reports_the_state_and_may_be_repeated() {
    let place = Place::new();
    let agent = Forged::start(|call| match (call.operation.as_str(), call.before) {
        (_, 0) => Reply::Result(task("CANCELED")),
        ("CancelTask", _) => Reply::Error(-32002, 400, "TASK_NOT_CANCELABLE", "it is over"),
        _ => Reply::Result(task("COMPLETED")),
    });
    for time in ["first", "again"] {
        let canceled = run(&place, &["task", "cancel", "t1", "-a", &agent.url]).ended(0);
        assert_eq!(canceled.field("State"), "TASK_STATE_CANCELED", "{time}");
    }
    let over = run(&place, &["task", "cancel", "t1", "-a", &agent.url, "-o", "json"]).ended(1);
    assert_eq!(over.failed(), "TaskNotCancelableError");
    assert!(over.document()["error"]["message"].as_str().unwrap().contains("TASK_STATE_COMPLETED"));
}

#[test]
fn a2acli_task_list_001_lists_are_filtered_and_come_in_pages() {
    let place = Place::new();
    let served = ours(&place);
    let mut sent = Vec::new();
    for text in ["a", "b", "c"] {
        let ran = run(&place, &["send", "-a", &url(&served), text]).ended(0);
        sent.push((ran.field("Task"), ran.field("Context")));
    }
    let list = |args: &[&str]| {
        run(&place, &[&["task", "list", "-a", &url(&served), "-o", "json"], args].concat()).ended(0)
    };
    let all = list(&[]).document();
    assert_eq!((all["tasks"].as_array().unwrap().len(), &all["totalSize"]), (3, &json!(3)));
    for transport in ["jsonrpc", "http+json"] {
        let mut seen = Vec::new();
        let mut token = String::new();
        loop {
            let page = ["--page-size", "2", "--transport", transport, "--page-token", &token];
            let page = list(if token.is_empty() { &page[..4] } else { &page }).document();
            seen.extend(
                page["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()),
            );
            token = page["nextPageToken"].as_str().unwrap().to_owned();
            if token.is_empty() {
                break;
            }
        }
        let newest_first: Vec<_> = sent.iter().rev().map(|(id, _)| id.clone()).collect();
        assert_eq!(seen, newest_first, "{transport}");
    }
    assert_eq!(list(&["--all", "--page-size", "1"]).document()["tasks"].as_array().unwrap().len(), 3);
    let one = list(&["--context-id", &sent[1].1, "--stream"]).document();
    assert_eq!(one["id"], sent[1].0.as_str());
    assert_eq!(list(&["--status", "working"]).document()["tasks"], json!([]));
    assert_eq!(list(&["--status", "TASK_STATE_COMPLETED"]).document()["tasks"].as_array().unwrap().len(), 3);
    run(&place, &["task", "list", "-a", &url(&served), "--status", "asleep"]).ended(2);
    let text = run(&place, &["task", "list", "-a", &url(&served)]).ended(0);
    assert_eq!(text.out().matches("Context: ").count(), 3);
}

#[test]
fn a2acli_task_subscribe_001_a_task_is_followed_to_its_end() {
    let place = Place::new();
    let agent = Forged::streaming(|_| {
        let events = vec![json!({"task": task("WORKING")}), artifact("piece"), status("COMPLETED")];
        Reply::Events(events, After::Open)
    });
    let lines =
        run(&place, &["task", "subscribe", "t1", "-a", &agent.url, "-o", "json", "--stream"]).ended(0);
    let kinds: Vec<_> = lines
        .documents()
        .iter()
        .map(|line| line.as_object().unwrap().keys().next().unwrap().clone())
        .collect();
    assert_eq!(kinds, ["task", "artifactUpdate", "statusUpdate"]);
    let text = run(&place, &["task", "subscribe", "t1", "-a", &agent.url]).ended(0);
    assert_eq!(text.field("State"), "TASK_STATE_COMPLETED");
    let agent = Forged::streaming(|call| match call.operation.as_str() {
        "SubscribeToTask" => {
            Reply::Events(vec![json!({"task": task("WORKING")}), status("COMPLETED")], After::End)
        }
        _ => Reply::Result(task("COMPLETED")),
    });
    let whole = run(&place, &["task", "subscribe", "t1", "-a", &agent.url, "-o", "json"]).ended(0).document();
    assert_eq!((&whole["id"], &whole["status"]["state"]), (&json!("t1"), &json!("TASK_STATE_COMPLETED")));
    let agent = Forged::streaming(|call| match call.operation.as_str() {
        "SubscribeToTask" => Reply::Error(-32004, 400, "UNSUPPORTED_OPERATION", "it is over"),
        _ => Reply::Result(task("FAILED")),
    });
    let over = run(&place, &["task", "subscribe", "t1", "-a", &agent.url]).ended(0);
    assert_eq!(over.field("State"), "TASK_STATE_FAILED");
}

#[test]
fn a2acli_task_subscribe_002_a_stream_that_breaks_is_taken_up_again_with_the_whole_task() {
    let place = Place::new();
    let agent = Forged::streaming(|call| {
        if call.before == 0 {
            return Reply::Events(vec![json!({"task": task("SUBMITTED")}), artifact("lost?")], After::Cut);
        }
        let mut task = task("WORKING");
        task["artifacts"] = json!([{"artifactId": "a1", "parts": [{"text": "lost?"}, {"text": "more"}]}]);
        Reply::Events(vec![json!({"task": task}), status("COMPLETED")], After::End)
    });
    let ran = run(&place, &["task", "subscribe", "t1", "-a", &agent.url, "-o", "json", "--stream"]).ended(0);
    let lines = ran.documents();
    assert_eq!(agent.of("SubscribeToTask").len(), 2);
    assert_eq!(agent.of("GetTask").len(), 0, "the first event has the whole task");
    assert_eq!(lines[2]["task"]["artifacts"][0]["parts"].as_array().unwrap().len(), 2);
    assert_eq!(lines.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(ran.err().contains("the connection broke"), "{}", ran.err());
}

#[test]
fn a2acli_ver_003_a_capability_that_the_card_denies_is_not_asked_for() {
    let place = Place::new();
    let agent = Forged::with(&card(false), |_| Reply::Result(task("COMPLETED")));
    for line in [
        &["task", "subscribe", "t1", "-a", &agent.url, "-o", "json"][..],
        &["card", "get", "--extended", "-a", &agent.url, "-o", "json"],
    ] {
        assert_eq!(run(&place, line).ended(1).failed(), "UnsupportedOperationError", "{line:?}");
    }
    run(&place, &["send", "-a", &agent.url, "x", "--stream", "--async"]).ended(1);
    let asked: Vec<_> = agent.calls().into_iter().map(|call| call.operation).collect();
    assert!(
        !asked.iter().any(|name| name == "SubscribeToTask" || name == "SendStreamingMessage"),
        "{asked:?}"
    );
}

#[test]
fn a2acli_download_001_results_are_saved_and_nothing_is_overwritten() {
    let place = Place::new();
    let agent = Forged::start(|_| {
        let mut task = task("COMPLETED");
        task["artifacts"] = json!([{"artifactId": "a1", "name": "../../evil", "parts": [
            {"text": "words"}, {"data": {"k": 1}}, {"raw": "AAEC", "filename": "../../../f.bin"},
            {"url": "https://h/x"},
        ]}]);
        Reply::Result(task)
    });
    std::fs::create_dir(place.path().join("out")).unwrap();
    std::fs::write(place.path().join("out/f.bin"), "mine").unwrap();
    let ran =
        run(&place, &["task", "download", "t1", "-a", &agent.url, "--dir", "out", "-o", "json"]).ended(0);
    let saved = ran.document();
    let paths: Vec<_> =
        saved["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["out/evil.txt", "out/evil-2.json", "out/f-2.bin"]);
    assert_eq!(std::fs::read(place.path().join("out/f-2.bin")).unwrap(), [0, 1, 2]);
    assert_eq!(std::fs::read(place.path().join("out/f.bin")).unwrap(), b"mine");
    assert!(ran.err().contains("https://h/x"), "{}", ran.err());
    run(&place, &["task", "download", "t1", "-a", &agent.url, "--dir", "out", "--artifact", "none"]).ended(1);
}

#[test]
fn a2acli_push_001_webhooks_are_registered_read_listed_and_removed() {
    let place = Place::new();
    std::fs::write(place.path().join("token"), "t0ken-of-the-hook\n").unwrap();
    let mut calls = card(false);
    calls["capabilities"]["pushNotifications"] = json!(true);
    let config = json!({"taskId": "t1", "id": "p1", "url": "https://h/hook"});
    let known = config.clone();
    let agent = Forged::with(&calls, move |call| match call.operation.as_str() {
        "CreateTaskPushNotificationConfig" | "GetTaskPushNotificationConfig" => Reply::Result(known.clone()),
        "ListTaskPushNotificationConfigs" => {
            Reply::Result(json!({"configs": [known.clone()], "nextPageToken": ""}))
        }
        "DeleteTaskPushNotificationConfig" => Reply::Result(json!({})),
        _ => Reply::Hang,
    });
    let of = |args: &[&str]| {
        run(&place, &[&["task", "push-config"], args, &["-a", &agent.url, "-o", "json"]].concat())
            .ended(0)
            .document()
    };
    assert_eq!(
        of(&["create", "t1", "--url", "https://h/hook", "--config-id", "p1", "--token-file", "token"]),
        config
    );
    assert_eq!(agent.calls()[0].params["token"], "t0ken-of-the-hook");
    assert_eq!(of(&["get", "t1", "p1"]), config);
    assert_eq!(of(&["list", "t1"])["configs"], json!([config]));
    assert_eq!(of(&["delete", "t1", "p1"]), json!({}));
    let silent = Forged::start(|_| Reply::Hang);
    let refused =
        run(&place, &["task", "push-config", "list", "t1", "-a", &silent.url, "-o", "json"]).ended(1);
    assert_eq!(refused.failed(), "PushNotificationNotSupportedError");
    assert!(silent.calls().is_empty());
}
