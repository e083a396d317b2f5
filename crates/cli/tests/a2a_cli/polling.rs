//! The rows of waiting for a task.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::binary::Place;
use crate::forged::{After, Forged, Reply, artifact, task};
use crate::served::until;
use crate::{command, run};

/// Returns an agent whose task is in this state from the n-th look on, and works before.
fn agent(state: &'static str, from: usize) -> Forged {
    Forged::start(move |call| match call.operation.as_str() {
        "SendMessage" => Reply::Result(json!({"task": task("SUBMITTED")})),
        _ => Reply::Result(task(if call.before < from { "WORKING" } else { state })),
    })
}

#[test]
fn a2acli_task_poll_001_a_task_is_looked_at_once_or_until_its_end() {
    let place = Place::new();
    let agent = agent("COMPLETED", 3);
    let once = run(&place, &["task", "get", "t1", "-a", &agent.url]).ended(0);
    assert_eq!((once.field("State").as_str(), agent.calls().len()), ("TASK_STATE_WORKING", 1));
    assert!(once.field("Wait").contains("task get --wait"));
    for flag in ["--wait", "--watch"] {
        let line = ["task", "get", "t1", flag, "-a", &agent.url, "-o", "json", "--poll-interval", "20ms"];
        let waited = run(&place, &line).ended(0).document();
        assert_eq!(waited["status"]["state"], "TASK_STATE_COMPLETED", "{flag}");
    }
}

#[test]
fn a2acli_task_poll_002_the_pause_and_the_end_of_the_wait_are_kept_and_the_task_is_named_first() {
    let place = Place::new();
    let agent = agent("COMPLETED", usize::MAX);
    let wait = ["--poll-interval", "200ms", "--timeout", "1s"];
    let late = run(&place, &[&["send", "-a", &agent.url, "x", "-o", "json"][..], &wait].concat()).ended(5);
    assert_eq!(late.failed(), "A2ACLI_ERR_TIMEOUT");
    assert!(late.out().contains("t1") && late.err().contains("task t1 context c1"), "{}", late.err());
    let looks: Vec<_> = agent.of("GetTask").iter().map(|call| call.at).collect();
    assert!((2..=6).contains(&looks.len()), "{} looks within a second", looks.len());
    for pair in looks.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(190), "{:?}", pair[1] - pair[0]);
    }
    // A pause of nothing is no loop without end.
    let line =
        ["task", "get", "t1", "--wait", "-a", &agent.url, "--poll-interval", "0s", "--timeout", "300ms"];
    let before = agent.calls().len();
    run(&place, &line).ended(5);
    assert!(agent.calls().len() - before <= 40, "{}", agent.calls().len() - before);

    // A signal ends the wait, with the task's id already on stderr, and cancels nothing.
    let mut child = command(&place, &["send", "-a", &agent.url, "x"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    said.read_line(&mut first).unwrap();
    assert_eq!(first.trim(), "task t1 context c1");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(crate::binary::exit_code(&mut child), Some(130));
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("task get --wait") && rest.contains("t1"), "{rest}");
    assert!(agent.of("CancelTask").is_empty());
}

#[test]
fn a2acli_task_poll_003_a_task_that_waits_ends_the_wait_and_an_unknown_state_does_not() {
    let place = Place::new();
    for state in ["INPUT_REQUIRED", "AUTH_REQUIRED"] {
        let agent = agent(state, 1);
        let stopped = run(&place, &["send", "-a", &agent.url, "x", "--poll-interval", "20ms"]).ended(0);
        assert_eq!(stopped.field("State"), format!("TASK_STATE_{state}"));
        assert!(stopped.field("Resume").contains("--task-id t1"));
    }
    let agent = Forged::start(|_| Reply::Result(task("UNSPECIFIED")));
    let line = ["task", "get", "t1", "-a", &agent.url];
    assert_eq!(run(&place, &line).ended(0).field("State"), "TASK_STATE_UNSPECIFIED");
    let wait = ["--wait", "--poll-interval", "20ms", "--timeout", "500ms"];
    run(&place, &[&line[..], &wait].concat()).ended(5);
    assert!(agent.calls().len() > 4, "it is looked at until the end of the wait");
}

#[test]
fn a2acli_task_poll_004_a_stream_that_fails_is_replaced_by_looking() {
    let place = Place::new();
    let agent = Forged::streaming(|call| match call.operation.as_str() {
        "SendStreamingMessage" => {
            Reply::Events(vec![json!({"task": task("WORKING")}), artifact("a")], After::Cut)
        }
        "SubscribeToTask" => Reply::Error(-32601, 404, "METHOD_NOT_FOUND", "no such method"),
        _ if call.before < 3 => Reply::Result(task("WORKING")),
        _ => Reply::Result(task("COMPLETED")),
    });
    for output in ["text", "json"] {
        let line = ["send", "-a", &agent.url, "x", "-o", output, "--poll-interval", "20ms"];
        let ran = run(&place, &line).ended(0);
        assert!(ran.out().contains("TASK_STATE_COMPLETED"), "{}", ran.out());
    }
    assert_eq!(agent.of("SendStreamingMessage").len(), 2, "the message is sent once by each command");
}

#[test]
fn an_agent_that_hangs_is_given_up_after_the_timeout() {
    let place = Place::new();
    let agent = Forged::start(|_| Reply::Hang);
    for line in [&["send", "-a", &agent.url, "x"][..], &["task", "get", "t1", "-a", &agent.url]] {
        let late = run(&place, &[line, &["--timeout", "300ms", "-o", "json"]].concat()).ended(5);
        assert_eq!(late.failed(), "A2ACLI_ERR_TIMEOUT", "{line:?}");
    }
    // A stream that stays open and says nothing more, too.
    let agent = Forged::streaming(|_| Reply::Events(vec![json!({"task": task("WORKING")})], After::Open));
    let line = ["send", "-a", &agent.url, "x", "--stream", "--timeout", "500ms", "-o", "json"];
    let late = run(&place, &line).ended(5);
    let lines = late.documents();
    assert_eq!((lines.len(), &lines[1]["error"]["code"]), (2, &json!("A2ACLI_ERR_TIMEOUT")));
}

#[test]
fn a_signal_during_a_stream_ends_it_and_leaves_the_task_alone() {
    let place = Place::new();
    let agent = Forged::streaming(|_| Reply::Events(vec![json!({"task": task("WORKING")})], After::Open));
    for (signal, code) in [("-INT", 130), ("-TERM", 130)] {
        let mut command = command(&place, &["send", "-a", &agent.url, "x", "--stream", "-o", "json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        assert!(first.contains("TASK_STATE_WORKING"), "{first}");
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("TASKREEL_INTERRUPTED") && rest.contains("t1"), "{rest}");
        assert_eq!(crate::binary::exit_code(&mut child), Some(code));
    }
    until("the connections are closed", || true);
    assert!(agent.of("CancelTask").is_empty());
}
