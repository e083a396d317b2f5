//! The rows of going on with an interaction.

use serde_json::json;

use crate::binary::Place;
use crate::forged::{Forged, Reply, task};
use crate::{command, ours, run, run_with, url};

#[test]
fn a2acli_interact_001_a_context_is_gone_on_with() {
    let place = Place::new();
    let served = ours(&place);
    let first = run(&place, &["send", "-a", &url(&served), "one"]).ended(0);
    let context = first.field("Context");
    let second = run(&place, &["send", "-a", &url(&served), "two", "--context-id", &context]).ended(0);
    assert_eq!(second.field("Context"), context);
    assert_ne!(second.field("Task"), first.field("Task"));
    let listed =
        run(&place, &["task", "list", "-a", &url(&served), "--context-id", &context, "-o", "json"]).ended(0);
    assert_eq!(listed.document()["tasks"].as_array().unwrap().len(), 2);
}

#[test]
fn a2acli_interact_002_a_task_is_gone_on_with_and_a_refusal_makes_no_other() {
    let place = Place::new();
    let agent = Forged::start(|call| {
        let message = &call.params["message"];
        match (message["taskId"].as_str(), message["contextId"].as_str()) {
            (Some("t1"), None | Some("c1")) => Reply::Result(json!({"task": task("COMPLETED")})),
            (Some("t1"), _) => Reply::Error(-32602, 400, "INVALID_PARAMS", "the context is another one"),
            (Some("over"), _) => Reply::Error(-32004, 400, "UNSUPPORTED_OPERATION", "the task is over"),
            (Some(_), _) => Reply::Error(-32001, 404, "TASK_NOT_FOUND", "no such task"),
            (None, _) => panic!("a task of its own was asked for"),
        }
    });
    for transport in ["JSONRPC", "HTTP+JSON"] {
        let send = |args: &[&str]| {
            run(
                &place,
                &[&["send", "-a", &agent.url, "Oslo", "-o", "json", "--transport", transport], args].concat(),
            )
        };
        send(&["--task-id", "t1"]).ended(0);
        send(&["--task-id", "t1", "--context-id", "c1"]).ended(0);
        for (args, code) in [
            (&["--task-id", "t1", "--context-id", "c2"][..], "InvalidParamsError"),
            (&["--task-id", "over"], "UnsupportedOperationError"),
            (&["--task-id", "gone"], "TaskNotFoundError"),
        ] {
            let before = agent.calls().len();
            let refused = send(args).ended(1);
            assert_eq!(refused.failed(), code);
            assert_eq!(agent.calls().len(), before + 1, "{args:?}");
            assert!(
                refused.document()["error"]["hint"].as_str().unwrap().contains("--debug"),
                "{}",
                refused.out()
            );
        }
    }
}

#[test]
fn a2acli_interact_003_no_id_of_the_server_is_made_up() {
    let place = Place::new();
    let agent = Forged::start(|_| Reply::Result(json!({"task": task("COMPLETED")})));
    let sent = run(&place, &["send", "-a", &agent.url, "hello"]).ended(0);
    let message = &agent.calls()[0].params["message"];
    let names: Vec<_> = message.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["messageId", "parts", "role"]);
    assert!(!sent.out().to_lowercase().contains("chat") && !sent.out().to_lowercase().contains("session"));
}

#[test]
fn a2acli_interact_004_the_ids_and_the_command_to_go_on_are_printed() {
    let place = Place::new();
    let agent = Forged::start(|call| {
        let state = if call.params["message"]["taskId"] == "t1" { "COMPLETED" } else { "INPUT_REQUIRED" };
        Reply::Result(json!({"task": task(state)}))
    });
    let asked = run(&place, &["send", "-a", &agent.url, "weather"]).ended(0);
    let named = [asked.field("Task"), asked.field("Context"), asked.field("State")];
    assert_eq!(named, ["t1", "c1", "TASK_STATE_INPUT_REQUIRED"]);
    assert!(asked.err().contains("INPUT_REQUIRED"), "{}", asked.err());
    let typed = asked.field("Resume").replace("<reply>", "Oslo it is");
    // As a shell would take it.
    let words = typed.strip_prefix("taskreel a2a ").unwrap();
    let shell = format!("\"$0\" a2a {words}");
    let mut shell_command = std::process::Command::new("sh");
    shell_command.args(["-c", &shell, env!("CARGO_BIN_EXE_taskreel")]).current_dir(place.path());
    let resumed = crate::binary::Ran(shell_command.env("HOME", place.path()).output().unwrap()).ended(0);
    assert_eq!(resumed.field("State"), "TASK_STATE_COMPLETED");
    assert_eq!(agent.calls()[1].params["message"]["parts"][0]["text"], "Oslo it is");
    assert!(resumed.field("Continue").contains("--context-id c1"));
}

#[test]
fn a2acli_interact_005_nothing_is_remembered_from_one_command_to_the_next() {
    let place = Place::new();
    let agent = Forged::start(|_| Reply::Result(json!({"task": task("INPUT_REQUIRED")})));
    for _ in 0..2 {
        run(&place, &["send", "-a", &agent.url, "hello"]).ended(0);
    }
    for call in agent.calls() {
        assert!(
            call.params["message"].get("taskId").is_none()
                && call.params["message"].get("contextId").is_none()
        );
    }
    assert!(std::fs::read_dir(place.path()).unwrap().next().is_none(), "no file is left");
    run(&place, &["send", "-a", &agent.url, "hello", "--continue"]).ended(2);
    // Two at once do not meet.
    let mut both: Vec<_> = (0..2)
        .map(|_| {
            command(&place, &["send", "-a", &agent.url, "x"])
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    assert!(both.iter_mut().all(|child| child.wait().unwrap().success()));
    let set = run_with(&place, &[("A2ACLI_TASK_ID", "t1")], &["send", "-a", &agent.url, "x"]).ended(0);
    assert_eq!(set.field("Task"), "t1");
    assert_eq!(
        agent.calls().last().unwrap().params["message"]["taskId"],
        "t1",
        "a setting is the caller's own word"
    );
}
