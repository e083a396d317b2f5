//! The demo as a new user meets it: watch it, kill it, resume it, check the payments.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

mod binary;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use binary::Place;

/// Arguments for a demo without delays; a payment without confirmation still takes its timeout.
const FAST: &str = "--pace 0 --tasks 11";

/// The payment that succeeds unless the demo is killed.
const PAYMENT: &str = "demo-7-07";

fn states(place: &Place) -> BTreeMap<String, String> {
    let rows = place.run("ls --data-dir taskreel-demo --json").ended(0).json();
    let text = |row: &proto_events::json::JsonValue, key: &str| row[key].as_str().unwrap().to_owned();
    rows.iter().map(|row| (text(row, "id"), text(row, "state"))).collect()
}

/// Returns the model's last reply in each task that asked it.
fn answers(place: &Place) -> BTreeMap<String, String> {
    let mut answers = BTreeMap::new();
    for id in states(place).into_keys() {
        let task = place.run(&format!("state {id} --data-dir taskreel-demo")).ended(0).json();
        let parts = task[0]["artifacts"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|made| made["parts"].as_array().unwrap());
        if let Some(said) = parts.rev().find(|part| part["type"] == "infer_output") {
            answers.insert(id, said["content"].as_str().unwrap().to_owned());
        }
    }
    answers
}

/// Returns the number of payments of each task.
fn paid(place: &Place) -> BTreeMap<String, usize> {
    let ledger =
        std::fs::read_to_string(place.path().join("taskreel-demo/effects.ledger")).unwrap_or_default();
    let mut times = BTreeMap::new();
    for line in ledger.lines() {
        *times.entry(line.split('\t').next().unwrap().to_owned()).or_default() += 1;
    }
    times
}

/// The end of a demo that is not killed.
struct End {
    states: BTreeMap<String, String>,
    answers: BTreeMap<String, String>,
}

fn unkilled() -> End {
    let place = Place::new();
    place.run(&format!("demo {FAST}")).ended(0);
    End { states: states(&place), answers: answers(&place) }
}

#[test]
fn a_demo_shows_a_failure_a_cancel_and_a_payment_that_waits_for_a_person() {
    let place = Place::new();
    let ran = place.run("demo --pace 0").ended(0);
    for word in ["CallOutcomeUnknown", "CallFailed", "CallCanceled", "TurnCommitted", "12 tasks"] {
        assert!(ran.out().contains(word) || ran.err().contains(word), "{word}");
    }
    let states = states(&place);
    let count = |state: &str| states.values().filter(|found| *found == state).count();
    assert_eq!(states.len(), 12);
    assert_eq!((count("failed"), count("canceled"), count("submitted"), count("working")), (1, 1, 0, 0));
    assert!(count("input-required") >= 1 && count("completed") >= 6, "{states:?}");
    assert!(paid(&place).values().all(|times| *times == 1));
}

#[test]
fn a_demo_killed_anywhere_goes_on_to_the_same_end_and_pays_nothing_twice() {
    let expected = unkilled();
    let last: u64 = 140;
    std::thread::scope(|threads| {
        for kill_at in [3, 6, 13, 20, 31, 48, 57, 74, 90, 120, last] {
            let expected = &expected;
            threads.spawn(move || killed_and_resumed(kill_at, expected));
        }
    });
}

fn killed_and_resumed(kill_at: u64, expected: &End) {
    use std::os::unix::process::ExitStatusExt as _;
    let place = Place::new();
    let killed = place.run(&format!("demo {FAST} --kill-at {kill_at}"));
    assert_eq!(killed.0.status.signal(), Some(9), "{}{}", killed.out(), killed.err());
    let flight: Vec<_> = states_of_payment(&place);
    let resumed = place.run("demo --resume --pace 0").ended(0);
    let mut found = states(&place);
    if flight.iter().any(|state| state == "in-flight") {
        // It must not be repeated, so a person is asked.
        assert_eq!(
            found.insert(PAYMENT.to_owned(), expected.states[PAYMENT].clone()).unwrap(),
            "input-required"
        );
    }
    assert_eq!(answers(&place), expected.answers, "killed at {kill_at}");
    assert_eq!(found, expected.states, "killed at {kill_at}\n{}", resumed.err());
    assert!(paid(&place).values().all(|times| *times == 1), "killed at {kill_at}: {:?}", paid(&place));
    assert!(place.run("replay --all --data-dir taskreel-demo").ended(0).out().contains(" 0 mismatches"));
    place.run("verify --data-dir taskreel-demo").ended(0);
}

/// Returns the states of the payment's calls so far, if it has any.
fn states_of_payment(place: &Place) -> Vec<String> {
    let ran = place.run(&format!("show {PAYMENT} --data-dir taskreel-demo --json"));
    if ran.code() == Some(3) {
        return Vec::new();
    }
    let shown = ran.ended(0).json();
    let calls = shown[0]["calls"].as_array().unwrap();
    calls.iter().map(|call| call["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_payment_in_flight_when_killed_is_not_paid_again_and_waits_for_a_person() {
    use std::os::unix::process::ExitStatusExt as _;
    let place = Place::new();
    // The only payment here is never confirmed; its dispatch is the fifth event of its stream.
    let mut child = place
        .command(["demo", "--tasks", "3", "--pace", "0", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ledger = place.path().join("taskreel-demo/effects.ledger");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let sent = lines
        .by_ref()
        .map(Result::unwrap)
        .find(|line| line.contains("\"id\":\"demo-7-03\"") && line.contains("\"CallDispatched\""));
    assert!(sent.is_some());
    while !std::fs::read_to_string(&ledger).is_ok_and(|text| text.ends_with('\n')) {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    place.run("demo --resume --pace 0").ended(0);
    assert_eq!(states(&place)["demo-7-03"], "input-required");
    assert_eq!(paid(&place), BTreeMap::from([("demo-7-03".to_owned(), 1)]));
    let shown = place.run("show demo-7-03 --data-dir taskreel-demo --full").ended(0).out();
    assert!(shown.contains("the process ended while the call was in flight"), "{shown}");
}

#[test]
fn ctrl_c_ends_the_demo_with_130_and_says_how_to_go_on() {
    let place = Place::new();
    let mut child = place
        .command(["demo", "--tasks", "5", "--pace", "20"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("CallDispatched") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the demo ended before it began");
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    let ended = binary::end(child).0;
    let err = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{err}");
    assert!(err.contains("interrupted") && err.contains("demo --resume"), "{err}");
    // Without `--resume` it resumes by itself, and prints so.
    let again = place.run("demo --pace 0").ended(0);
    assert!(again.err().contains("resuming the demo"), "{}", again.err());
}

#[test]
fn a_demo_whose_reader_goes_away_ends_quietly_and_can_be_gone_on_with() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = place.command(["demo", "--tasks", "2", "--pace", "0"]).stdout(writer).output().unwrap();
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{err}");
    assert!(!err.contains("error") && !err.contains("panic"), "{err}");
    place.run("demo --resume --pace 0").ended(0);
    assert_eq!(states(&place).len(), 2);
}

#[test]
fn a_complete_demo_says_so_and_another_one_needs_another_folder() {
    let place = Place::new();
    place.run("demo --tasks 2 --pace 0").ended(0);
    let head = place.run("export --data-dir taskreel-demo").json()[0]["head"].clone();
    for line in ["demo", "demo --resume", "demo --seed 7 --tasks 2"] {
        let ran = place.run(line).ended(0);
        assert!(ran.err().contains("is complete"), "{}", ran.err());
    }
    place.run("demo --seed 8").ended(2).told(&["--seed 7, not 8", "--data-dir"]);
    place.run("demo --tasks 3").ended(2).told(&["--tasks 2, not 3"]);
    assert_eq!(place.run("export --data-dir taskreel-demo").json()[0]["head"], head);
    place.run_tasks("{\"id\":\"mine\"}", "").ended(0);
    place.run("demo --data-dir taskreel-log").ended(2).told(&["does not belong to a demo"]);
}

#[test]
fn what_the_demo_says_to_type_names_its_log_where_another_one_would_be_read() {
    let place = Place::new();
    place.run_tasks("{\"id\":\"mine\"}", "").ended(0);
    assert!(place.path().join("taskreel-log").exists());
    let told = place.run("demo --tasks 2 --pace 0").ended(0).err();
    assert!(told.contains("replay --all --data-dir taskreel-demo"), "{told}");
}
