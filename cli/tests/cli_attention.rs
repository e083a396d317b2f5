//! `attention`: everything that waits for somebody or is wrong, with the command that ends it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use std::process::Stdio;

use binary::{Place, small_log};
use proto_events::json;
use proto_events::json::JsonValue as Value;

fn kinds(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["kind"].as_str().unwrap()).collect()
}

/// Rows but those of the disk on which the tests run.
fn rows(place: &Place, code: i32) -> Vec<Value> {
    let ran = place.run("attention --json").ended(code);
    let all = ran.json();
    assert!(all.iter().all(|row| row["schema"] == "taskreel.attention/1"));
    all.into_iter().filter(|row| row["kind"] != "disk").collect()
}

#[test]
fn nothing_to_do_is_said_with_0() {
    let place = small_log();
    if place.run("attention").out().contains("disk") {
        eprintln!("the disk is nearly full here");
        return;
    }
    let ran = place.run("attention").ended(0);
    assert!(ran.out().starts_with("nothing waits for anybody"), "{}", ran.out());
    assert!(rows(&place, 0).is_empty());
}

#[test]
fn an_unknown_payment_is_listed_with_its_whole_arguments_until_its_command_was_typed() {
    let place = Place::new();
    let to = json!({"type": "tool_call", "content": {"tool_name": "pay", "args": {"to": "slow-bank", "cents": 5}, "call_id": "c"}});
    let task = json!({"id": "pay-0001", "messages": [{"id": "m", "role": "user", "parts": [to]}]});
    place.run_tasks(&task.to_string(), "").ended(0);
    let found = rows(&place, 1);
    assert_eq!(kinds(&found), ["unknown"]);
    assert_eq!((&found[0]["task"], &found[0]["args"]["to"]), (&json!("pay-0001"), &json!("slow-bank")));
    let text = place.run("attention").ended(1).out();
    let command = found[0]["commands"][1].as_str().unwrap();
    assert!(text.contains(command) && text.contains("slow-bank"), "{text}");
    // A unique end of the id is enough.
    let call = found[0]["call_id"].as_str().unwrap();
    place.run(&command.replace(call, call.rsplit_once('_').unwrap().1)).ended(0);
    let after = rows(&place, 1);
    assert_eq!(kinds(&after), ["stalled"], "the task works on once its program starts again");
    assert!(after[0]["advice"].as_str().unwrap().contains("start the program"));
}

#[test]
fn a_killed_program_leaves_a_stalled_run_and_an_unclean_end() {
    let place = Place::new();
    let part = json!({"type": "tool_call", "content": {"tool_name": "slow", "args": {"ms": 60_000}, "call_id": "c"}});
    let task = json!({"id": "slow-0001", "messages": [{"id": "m", "role": "user", "parts": [part]}]});
    std::fs::write(place.path().join("t.json"), task.to_string()).unwrap();
    let mut child = place
        .command(["run", "t.json"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = std::time::Instant::now();
    loop {
        // While the program runs, its call is in flight and nothing is wrong.
        let ran = place.run("events slow-0001 --kind CallDispatched --json");
        if ran.code() == Some(0) && !ran.json().is_empty() {
            break;
        }
        assert!(began.elapsed().as_secs() < 30, "not in time: {}", ran.err());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let running = place.run("attention --json").json();
    assert!(running.iter().all(|row| row["kind"] == "disk"), "{running:#?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let found = rows(&place, 1);
    assert_eq!(kinds(&found), ["stalled", "unclean-end"], "{found:#?}");
    assert!(found[0]["commands"][0].as_str().unwrap().starts_with("cancel slow-0001"), "{found:#?}");
}

#[test]
fn an_export_says_nothing_of_programs_but_of_what_waits() {
    let place = Place::new();
    let to = json!({"type": "tool_call", "content": {"tool_name": "pay", "args": {"to": "slow-bank", "cents": 5}, "call_id": "c"}});
    let task = json!({"id": "pay-0001", "messages": [{"id": "m", "role": "user", "parts": [to]}]});
    place.run_tasks(&task.to_string(), "").ended(0);
    std::fs::write(place.path().join("log.ndjson"), place.run("export").ended(0).out()).unwrap();
    let found = place.run("attention --json --file log.ndjson").ended(1).json();
    assert_eq!(kinds(&found), ["unknown"]);
}
