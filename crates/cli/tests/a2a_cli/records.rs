//! `--record`: the exchanges of a command as a log.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::binary::Place;
use crate::forged::{After, Forged, Reply, artifact, status, task};
use crate::{command, run};

/// Returns the tasks of the recording, the oldest first, each as `state` prints it.
fn exchanges(place: &Place) -> Vec<Value> {
    let parsed = |out: String| {
        out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let rows = parsed(place.run("ls --json --data-dir rec").ended(0).out());
    let of = |row: &Value| {
        let id = row["id"].as_str().unwrap();
        parsed(place.run(&format!("state {id} --json --data-dir rec")).ended(0).out()).pop().unwrap()
    };
    let mut all: Vec<_> = rows.iter().map(of).collect();
    all.sort_by_key(|one| one["created_at"].as_str().unwrap().to_owned());
    all
}

/// Returns the request of an exchange.
fn request(exchange: &Value) -> &Value {
    &exchange["messages"][0]["parts"][1]["content"]
}

/// Returns the parts of an artifact of an exchange.
fn came<'a>(exchange: &'a Value, name: &str) -> Vec<&'a Value> {
    let of = exchange["artifacts"].as_array().unwrap();
    let named = of.iter().filter(|one| one["id"].as_str().unwrap().ends_with(name));
    named.flat_map(|one| one["parts"].as_array().unwrap()).map(|part| &part["content"]).collect()
}

#[test]
fn each_exchange_is_a_task_of_a_log_that_verifies() {
    let place = Place::new();
    let agent = Forged::streaming(|call| match call.operation.as_str() {
        "SendStreamingMessage" => Reply::Events(
            vec![json!({"task": task("WORKING")}), artifact("piece"), status("COMPLETED")],
            After::End,
        ),
        "GetTask" => Reply::Result(task("COMPLETED")),
        _ => Reply::Error(-32002, 400, "TASK_NOT_CANCELABLE", "it is over"),
    });
    run(&place, &["send", "hello", "-a", &agent.url, "--record", "rec"]).ended(0);
    run(&place, &["task", "cancel", "t1", "-a", &agent.url, "--record", "rec"]).ended(1);
    let all = exchanges(&place);
    let urls: Vec<_> =
        all.iter().map(|one| request(one)["url"].as_str().unwrap().rsplit('/').next().unwrap()).collect();
    assert_eq!(urls, ["agent-card.json", "rpc", "rpc", "agent-card.json", "rpc", "rpc"]);
    let sent = &all[1];
    assert_eq!(request(sent)["body"]["params"]["message"]["parts"][0]["text"], "hello");
    assert_eq!(request(sent)["headers"]["a2a-version"], "1.0");
    assert_eq!(came(sent, "-answer")[0]["status"], 200);
    let events = came(sent, "-events");
    assert_eq!(events.len(), 3);
    assert_eq!(events[1]["body"]["result"], artifact("piece"));
    assert!(events.iter().all(|event| event["at"].is_string()));
    assert_eq!(came(&all[4], "-answer")[0]["body"]["error"]["code"], -32002);
    assert!(all.iter().all(|one| one["state"] == "completed"), "an error of the agent is an answer");
    let same = |one: &Value| one["metadata"]["invocation"].clone();
    assert!(same(&all[0]) == same(&all[2]) && same(&all[0]) != same(&all[3]));
    let verified = place.run("verify --data-dir rec").ended(0);
    assert!(verified.out().contains(" 0 faults"), "{}", verified.out());
    place.run("doctor --data-dir rec").ended(0);
}

#[test]
fn what_came_before_a_kill_is_in_the_log_and_the_next_recording_goes_on() {
    let place = Place::new();
    let agent = Forged::streaming(|_| {
        Reply::Events(vec![json!({"task": task("WORKING")}), artifact("before the kill")], After::Open)
    });
    let mut command =
        command(&place, &["send", "x", "-a", &agent.url, "--stream", "-o", "json", "--record", "rec"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (mut line, mut lines) = (String::new(), 0);
    while lines < 2 && out.read_line(&mut line).unwrap() > 0 {
        lines += 1;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    place.run("verify --data-dir rec").ended(0);
    let cut = exchanges(&place);
    let open = cut.iter().find(|one| one["state"] == "working").unwrap();
    let events = came(open, "-events");
    assert_eq!(events[1]["body"]["result"], artifact("before the kill"), "what was printed is on disk");
    // A further recording ends what was open, and adds its own.
    let whole = Forged::start(|_| Reply::Result(task("COMPLETED")));
    run(&place, &["task", "get", "t1", "-a", &whole.url, "--record", "rec"]).ended(0);
    let after = exchanges(&place);
    assert_eq!(after.len(), cut.len() + 2);
    assert!(after.iter().all(|one| one["state"] != "working"), "{after:?}");
    assert_eq!(after.iter().filter(|one| one["state"] == "failed").count(), 1);
    place.run("verify --data-dir rec").ended(0);
}

#[test]
fn an_exchange_that_cannot_be_recorded_is_not_begun() {
    let place = Place::new();
    let agent = Forged::start(|_| Reply::Result(task("COMPLETED")));
    std::fs::create_dir(place.path().join("other")).unwrap();
    std::fs::write(place.path().join("other/file"), "no log").unwrap();
    let refused =
        run(&place, &["task", "get", "t1", "-a", &agent.url, "--record", "other", "-o", "json"]).ended(1);
    assert_eq!(refused.failed(), "A2ACLI_ERR_INTERNAL");
    assert!(agent.calls().is_empty() && agent.card_heads().is_empty());
}

#[test]
fn two_commands_record_into_one_log_one_after_the_other() {
    let place = Place::new();
    let agent = Forged::start(|_| Reply::Result(task("COMPLETED")));
    let line = ["task", "get", "t1", "-a", &agent.url, "--record", "rec"];
    let mut both: Vec<_> = (0..3)
        .map(|_| command(&place, &line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
        .collect();
    assert!(both.iter_mut().all(|child| child.wait().unwrap().success()));
    assert_eq!(exchanges(&place).len(), 6);
}
