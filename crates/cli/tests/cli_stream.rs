//! `run` as a part of a pipe: tasks are executed as they come and printed as they end; signals, closed pipes and full
//! disks end it in order.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use binary::{Place, Ran, TASKS, small_log};
use proto_events::json;
use proto_events::json::JsonValue as Value;

/// The longest wait for something that takes a moment.
const SOON: Duration = Duration::from_secs(30);

fn spawn(place: &Place, line: &str) -> Child {
    let mut command = place.command(line.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn sum(id: &str) -> String {
    let part = json!({"type": "tool_call", "content": {"tool_name": "add", "args": {"a": 1, "b": 2}, "call_id": "c"}});
    json!({"id": id, "messages": [{"id": format!("m-{id}"), "role": "user", "parts": [part]}]}).to_string()
}

fn slow(id: &str, ms: u64) -> String {
    let part =
        json!({"type": "tool_call", "content": {"tool_name": "slow", "args": {"ms": ms}, "call_id": "c"}});
    json!({"id": id, "messages": [{"id": "m", "role": "user", "parts": [part]}]}).to_string()
}

/// Waits until the log in the place says so.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < SOON, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
}

#[test]
fn a_task_is_printed_before_the_next_one_is_written() {
    let place = Place::new();
    let mut child = spawn(&place, "run -");
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for id in ["one", "two", "three"] {
        writeln!(input, "{}", sum(id)).unwrap();
        let task: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!((&task["id"], &task["state"]), (&json!(id), &json!("completed")));
    }
    drop(input);
    assert!(lines.next().is_none());
    binary::end(child).ended(0);
}

#[test]
fn many_tasks_of_a_large_file_all_end_and_those_of_one_conversation_in_their_order() {
    let place = Place::new();
    let padding = "x".repeat(12_000);
    let task = |number: usize| {
        json!({"id": format!("t-{number:04}"), "metadata": {"session_id": format!("s-{}", number % 7), "note": padding},
            "messages": [{"id": format!("m-{number}"), "role": "user", "parts": [{"type": "tool_call",
                "content": {"tool_name": "echo", "args": {"text": format!("{number}")}, "call_id": "c"}}]}]})
    };
    let tasks: Vec<String> = (0..400).map(|number| task(number).to_string()).collect();
    std::fs::write(place.path().join("tasks.ndjson"), tasks.join("\n")).unwrap();
    let done = place.run("run tasks.ndjson").ended(0).json();
    assert_eq!(done.len(), 400);
    for lane in 0..7 {
        let of_lane = done.iter().filter(|task| task["metadata"]["session_id"] == format!("s-{lane}"));
        let ids: Vec<_> = of_lane.map(|task| task["id"].as_str().unwrap()).collect();
        assert!(ids.is_sorted(), "{ids:?}");
    }
    place.run("verify").ended(0);
}

#[test]
fn a_closed_pipe_lets_what_runs_end_and_keeps_the_answer() {
    let place = Place::new();
    let mut child = spawn(&place, "run -");
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(input, "{}", sum("first")).unwrap();
    assert!(lines.next().unwrap().unwrap().contains("first"));
    // The reader has had enough.
    drop(lines);
    let bad = TASKS.lines().nth(1).unwrap();
    writeln!(input, "{bad}\n{}", slow("last", 300)).unwrap();
    let ran = binary::end(child).ended(1);
    assert!(!ran.err().contains("error:"), "{}", ran.err());
    drop(input);
    let open: Vec<Value> = place.run("ls --json --state working,submitted").ended(0).json();
    assert_eq!(open, Vec::<Value>::new(), "nothing is left working");
    place.run("verify").ended(0);
}

#[test]
fn each_signal_ends_a_run_in_order_and_the_log_says_so() {
    for name in ["INT", "TERM", "HUP"] {
        let place = Place::new();
        let mut child = spawn(&place, "run -");
        let mut input = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        writeln!(input, "{}", sum("first")).unwrap();
        assert!(lines.next().unwrap().unwrap().contains("first"));
        writeln!(input, "{}", slow("long", 60_000)).unwrap();
        signal(&child, name);
        let ran = binary::end(child).ended(130).told(&[&format!("SIG{name}"), "run the same"]);
        drop(ran);
        let events = place.run("events --all --json").ended(0).json();
        let of_system: Vec<_> = events.iter().filter(|row| row["stream"] == "system-0").collect();
        let last = of_system.iter().rev().find(|row| row["kind"] == "Stopped");
        assert!(last.is_some(), "{name}: {of_system:#?}");
        place.run("verify").ended(0);
    }
}

/// Whether the process handles SIGTERM already.
#[cfg(target_os = "linux")]
fn handles_signals(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << 14) != 0
}

#[cfg(target_os = "linux")]
#[test]
fn each_signal_ends_a_run_that_has_no_task_yet_and_touches_no_log() {
    for name in ["INT", "TERM", "HUP"] {
        let place = Place::new();
        let mut child = spawn(&place, "run -");
        let input = child.stdin.take().unwrap();
        wait_until("signals are handled", || handles_signals(&child));
        signal(&child, name);
        let ran = binary::end(child).ended(130);
        assert!(ran.out().is_empty(), "{}", ran.out());
        assert!(!place.path().join("taskreel-log").exists(), "{name}");
        drop(input);
    }
}

/// Sends a signal to many runs of a command, each in another moment after it has begun. Each must end as interrupted or
/// done, and leave a log that was closed in order, or none.
#[cfg(target_os = "linux")]
fn interrupt_often(place: &Place, lines: &[String]) {
    let dir = place.path().join("taskreel-log");
    let mut codes = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let mut child = spawn(place, line);
        let input = child.stdin.take();
        wait_until("signals are handled", || handles_signals(&child) || child.try_wait().unwrap().is_some());
        // On every other run not before the log is open, if it is seen open at all.
        while number % 2 == 1 && !dir.join("holder").exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        if child.try_wait().unwrap().is_none() {
            signal(&child, "TERM");
        }
        let ran = binary::end(child);
        assert!(matches!(ran.code(), Some(0 | 130)), "{line}: {:?}: {}", ran.0.status, ran.err());
        codes.push(ran.code());
        drop(input);
        if dir.exists() {
            let said = place.run("ls").ended(0).err();
            assert!(!said.contains("was not closed"), "{line}: {said}");
        }
    }
    assert!(codes.contains(&Some(130)), "{codes:?}");
    if dir.exists() {
        place.run("verify").ended(0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_in_any_moment_of_an_opening_leaves_a_log_that_was_closed() {
    let place = small_log();
    std::fs::write(place.path().join("more.json"), sum("more")).unwrap();
    interrupt_often(&place, &vec!["run more.json".to_owned(); 16]);
    let demos = Place::new();
    interrupt_often(&demos, &vec!["demo --tasks 3 --pace 300 --data-dir taskreel-log".to_owned(); 6]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_decision_that_is_interrupted_is_made_whole_or_not_at_all() {
    let place = Place::new();
    let pay = |id: &str| {
        let content = json!({"tool_name": "pay", "args": {"to": "slow-bank", "cents": 5}, "call_id": "c"});
        let part = json!({"type": "tool_call", "content": content});
        json!({"id": id, "messages": [{"id": format!("m-{id}"), "role": "user", "parts": [part]}]})
            .to_string()
    };
    let ids: Vec<String> = (0..16).map(|number| format!("pay-{number:04}")).collect();
    let tasks: Vec<String> = ids.iter().map(|id| pay(id)).collect();
    place.run_tasks(&tasks.join("\n"), "").ended(0);
    let lines: Vec<String> = ids.iter().map(|id| format!("cancel {id} --reason enough")).collect();
    interrupt_often(&place, &lines);
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_import_leaves_nothing_whether_it_waits_for_its_input_or_writes() {
    let place = small_log();
    let export = place.run("export").ended(0).out();
    let half = export.get(..export.len() / 2).unwrap();
    for begun in [half, ""] {
        let mut child = spawn(&place, "import - --data-dir copy");
        let mut input = child.stdin.take().unwrap();
        input.write_all(begun.as_bytes()).unwrap();
        let copy = place.path().join("copy");
        wait_until("it has begun", || handles_signals(&child) && (begun.is_empty() || copy.exists()));
        signal(&child, "TERM");
        let ran = binary::end(child).ended(130);
        assert!(begun.is_empty() || ran.err().contains("nothing was imported"), "{}", ran.err());
        assert!(!copy.exists(), "{}", ran.err());
        drop(input);
    }
    std::fs::write(place.path().join("log.ndjson"), &export).unwrap();
    place.run("import log.ndjson --data-dir copy").ended(0);
    place.run("verify --data-dir copy").ended(0);
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_salvage_leaves_no_part_of_its_file() {
    let place = small_log();
    let filler = |number: usize| {
        let part = json!({"type": "text", "content": "x".repeat(100_000)});
        json!({"id": format!("long-{number}"), "messages": [{"id": format!("m-{number}"), "role": "user", "parts": [part]}]})
            .to_string()
    };
    let tasks: Vec<String> = (0..40).map(filler).collect();
    place.run_tasks(&tasks.join("\n"), "").ended(0);
    let out = place.path().join("saved.ndjson");
    let mut interrupted = 0;
    for _ in 0..10 {
        let mut child = spawn(&place, "salvage taskreel-log saved.ndjson");
        while !out.exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        if child.try_wait().unwrap().is_none() {
            signal(&child, "TERM");
        }
        let ran = binary::end(child);
        if out.exists() {
            let last = std::fs::read_to_string(&out).unwrap();
            assert!(last.lines().last().unwrap().contains("root"), "a part of the file is left");
            std::fs::remove_file(&out).unwrap();
        } else {
            assert_eq!(ran.code(), Some(130), "{}", ran.err());
            interrupted += 1;
        }
    }
    assert!(interrupted > 0, "no salvage was interrupted");
}

#[test]
fn each_signal_before_the_first_result_ends_a_run_in_order_too() {
    for name in ["INT", "TERM", "HUP"] {
        let place = Place::new();
        let mut child = spawn(&place, "run -");
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{}", slow("long", 60_000)).unwrap();
        let sent = "events long --kind CallDispatched --json";
        wait_until("the call is sent", || !place.run(sent).out().is_empty());
        signal(&child, name);
        let ran = binary::end(child).ended(130);
        assert!(ran.out().is_empty() && ran.err().contains("the next start handles them"), "{}", ran.err());
        let events = place.run("events --all --json").ended(0).json();
        assert_eq!(events.last().unwrap()["kind"], "Stopped", "{name}");
        assert!(!place.run("ls").ended(0).err().contains("was not closed"), "{name}");
        drop(input);
    }
}

#[test]
fn a_second_signal_ends_a_run_at_once() {
    let place = Place::new();
    let mut child = spawn(&place, "run -");
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(input, "{}\n{}", slow("long", 60_000), sum("first")).unwrap();
    assert!(lines.next().unwrap().unwrap().contains("first"));
    let began = Instant::now();
    // The signals are sent until the process has ended: it may take the first ones as one.
    let mut ended = None;
    wait_until("the process ends", || {
        ended = signal_if_alive(&mut child);
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(10));
    drop(input);
    // What was acknowledged is there all the same.
    assert_eq!(place.run("ls --json --state completed").ended(0).json().len(), 1);
}

fn signal_if_alive(child: &mut Child) -> Option<ExitStatus> {
    let ended = child.try_wait().unwrap();
    if ended.is_none() {
        signal(child, "TERM");
    }
    ended
}

#[test]
fn an_output_that_cannot_be_written_is_not_a_no() {
    let place = small_log();
    for line in ["ls", "verify", "events --all", "export", "diff sum-0001 1 8", "--help", "--version"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = place.command(line.split(' ')).stdout(full).stderr(Stdio::piped()).output().unwrap();
        Ran(ran).ended(8).told(&["cannot write the output", "No space left"]);
    }
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    std::fs::write(place.path().join("tasks.ndjson"), format!("{}\n{}", slow("a", 200), sum("b"))).unwrap();
    let ran = place.command(["run", "tasks.ndjson"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    Ran(ran).ended(8);
    let states: Vec<_> = place.run("ls --json --state working,submitted").ended(0).json();
    assert_eq!(states, Vec::<Value>::new(), "what ran was let end");
}

#[test]
fn a_new_message_to_a_task_that_is_over_is_said_to_be_executed_by_nobody() {
    let place = Place::new();
    place.run_tasks(&sum("over"), "").ended(0);
    let mut task: Value = place.run("state over").ended(0).json().remove(0);
    let part = json!({"type": "tool_call", "content": {"tool_name": "add", "args": {"a": 5, "b": 5}, "call_id": "d"}});
    let message = json!({"id": "later", "role": "user", "parts": [part]});
    task["messages"].as_array_mut().unwrap().push(message);
    let ran = place.run_tasks(&task.to_string(), "").ended(1);
    assert!(ran.err().contains("nothing was executed"), "{}", ran.err());
    assert_eq!(place.run("show over --json").ended(0).json()[0]["calls"].as_array().unwrap().len(), 1);
    // Posted once more, it has nothing new.
    assert!(!place.run_tasks(&task.to_string(), "").ended(0).err().contains("nothing was executed"));
}
