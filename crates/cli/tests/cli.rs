//! The command line as people and scripts use it: the built binary, its output, its exit codes.

mod binary;

use std::process::Stdio;

use binary::{Place, SCRIPT, TASKS, small_log};
use proto_events::json;
use proto_events::json::JsonValue as Value;

#[test]
fn run_prints_the_final_tasks_and_ends_with_1_if_one_failed() {
    let place = Place::new();
    std::fs::write(place.path().join("script.json"), SCRIPT).unwrap();
    let ran = place.run_tasks(TASKS, "--script script.json").ended(1);
    let mut tasks = ran.json();
    // Each is printed when it ends, so their order is not that of the input.
    tasks.sort_by_key(|task| ["sum-0001", "bad-0001", "ask-0001"].iter().position(|id| task["id"] == *id));
    assert_eq!((tasks.len(), &tasks[0]["id"]), (3, &json!("sum-0001")));
    assert_eq!(tasks[0]["artifacts"][0]["parts"][0]["content"]["result"], json!(7));
    assert_eq!(tasks[1]["state"], "failed");
    assert_eq!(tasks[2]["state"], "completed");
    assert_eq!(tasks[2]["artifacts"][0]["parts"][0]["content"], "20 degrees");
    assert!(ran.err().contains("bad-0001 failed: no"), "{}", ran.err());
}

#[test]
fn a_file_of_one_task_and_an_array_run_too_and_all_well_ends_with_0() {
    let place = Place::new();
    let one = TASKS.lines().next().unwrap();
    place.run_tasks(one, "").ended(0);
    std::fs::write(place.path().join("tasks.json"), format!("[\n{one}\n]")).unwrap();
    // Submitting the same body again returns the first result.
    let again = place.run("run tasks.json").ended(0);
    assert_eq!(again.json().len(), 1);
    assert_eq!(place.run("events sum-0001 --json").json().len(), 8);
}

#[test]
fn ls_lists_tasks_and_sessions_as_rows_and_as_json() {
    let place = small_log();
    let rows = place.run("ls --json").ended(0).json();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row["schema"] == "taskreel.task/1"));
    let failed = place.run("ls --state failed --json").ended(0).json();
    assert_eq!((failed.len(), &failed[0]["id"]), (1, &json!("bad-0001")));
    let table = place.run("ls").ended(0).out();
    assert!(
        table.contains("sum-0001") && table.contains("✓ completed") && table.contains("✗ failed"),
        "{table}"
    );
    assert!(!table.contains('\u{1b}'), "no colours where nobody looks");
    let sessions = place.run("ls --sessions --json").ended(0).json();
    assert_eq!((sessions.len(), &sessions[0]["turns"]), (1, &json!(1)));
    place.run("ls --state gone").ended(2);
}

#[test]
fn show_takes_a_full_id_a_unique_beginning_and_the_last_one() {
    let place = small_log();
    let full = place.run("show sum-0001 --json").ended(0).json();
    assert_eq!(full[0]["task"]["state"], "completed");
    assert_eq!(full[0]["calls"][0]["result"], json!(7));
    assert_eq!(place.run("show sum- --json").ended(0).json(), full);
    let shown = place.run("show sum-0001").ended(0).out();
    assert!(shown.contains("tool add") && shown.contains("submitted → working → completed"), "{shown}");
    assert!(place.run("show @last").ended(0).out().contains("task "));
    assert!(place.run("show session-agent/ask-0001").ended(0).out().contains("what is it?"));
}

#[test]
fn events_are_lossless_as_json_one_a_line_in_order() {
    let place = small_log();
    let rows = place.run("events ask-0001 --json").ended(0).json();
    let versions: Vec<_> = rows.iter().map(|row| row["version"].as_u64().unwrap()).collect();
    assert_eq!(versions, (1..=rows.len() as u64).collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row["schema"] == "taskreel.event/1" && row["error"].is_null()));
    assert_eq!(rows[0]["payload"]["task"]["messages"][0]["id"], "m3");
    let all = place.run("events --all --json").ended(0).json();
    let positions: Vec<_> = all.iter().map(|row| row["position"].as_u64().unwrap()).collect();
    assert_eq!(positions, (1..=all.len() as u64).collect::<Vec<_>>());
    assert!(place.run("events ask-0001").ended(0).out().contains("tool lookup"));
}

#[test]
fn state_shows_a_task_as_it_was_and_refuses_a_version_that_is_not_there() {
    let place = small_log();
    assert_eq!(place.run("state sum-0001 --at 1").ended(0).json()[0]["state"], "submitted");
    assert_eq!(place.run("state sum-0001 --at 3").ended(0).json()[0]["state"], "working");
    assert_eq!(place.run("state sum-0001").ended(0).json()[0]["state"], "completed");
    place.run("state sum-0001 --at 99").ended(3).told(&["99", "8 events"]);
    place.run("state sum-0001 --at 0").ended(3).told(&["1 to 8"]);
}

#[test]
fn replay_and_verify_find_nothing_in_a_log_that_is_whole() {
    let place = small_log();
    let replayed = place.run("replay --all --json").ended(0).json();
    assert_eq!((&replayed[0]["tasks"], &replayed[0]["mismatches"]), (&json!(3), &json!(0)));
    assert!(
        place.run("replay sum-0001").ended(0).out().contains("8 events, 1 task, 0 sessions, 0 mismatches")
    );
    let verified = place.run("verify --json").ended(0).json();
    assert_eq!(verified.last().unwrap()["faults"], json!(0));
    assert!(place.run("verify").ended(0).out().contains("not checked: "));
}

#[test]
fn export_carries_every_event_and_the_bytes_whose_hash_it_names() {
    let place = small_log();
    let lines = place.run("export").ended(0).json();
    assert_eq!(lines[0]["schema"], "taskreel.export/2");
    assert_eq!(lines[0]["durability"], "strict");
    let (end, records) = lines[1..].split_last().unwrap();
    let said = (&lines[0]["head"], &lines[0]["records"], &lines[0]["root"]);
    assert_eq!((&end["end"], &end["records"], &end["root"]), said);
    let events: usize = records.iter().map(|line| line["events"].as_array().unwrap().len()).sum();
    assert_eq!(lines[0]["head"], json!(events));
    for line in records {
        let hex = line["bytes"].as_str().unwrap();
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        let view = proto_events::codec::record::RecordView::peek(&bytes).unwrap();
        assert_eq!(line["hash"], json!(view.leaf_hash().to_string()));
    }
}

#[test]
fn a_closed_pipe_ends_every_command_quietly_with_its_own_answer() {
    let place = small_log();
    let lines = [
        ("ls", 0),
        ("ls --json", 0),
        ("ls --sessions", 0),
        ("show sum-0001", 0),
        ("events --all", 0),
        ("events --all --json", 0),
        ("state sum-0001", 0),
        ("replay --all", 0),
        ("verify", 0),
        ("diff sum-0001 1 8", 1),
        ("diff sum-0001 1 8 --patch", 1),
        ("diff sum-0001 8 8", 0),
        ("explain sum-0001", 0),
        ("export", 0),
    ];
    for (line, code) in lines {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = place.command(line.split(' ')).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(ran.status.code(), Some(code), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
        assert!(ran.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
    }
}

#[test]
fn every_command_has_help_and_wrong_usage_ends_with_2() {
    let place = Place::new();
    assert!(place.run("--help").ended(0).out().contains("Exit codes"));
    for command in [
        "demo", "run", "ls", "show", "events", "state", "replay", "verify", "diff", "explain", "export",
        "import", "salvage",
    ] {
        let help = place.run(&format!("{command} --help")).ended(0).out();
        assert!(help.contains("Usage: taskreel") && help.contains("--data-dir"), "{help}");
        place.run(&format!("{command} --no-such-flag")).ended(2);
    }
    for line in
        ["", "no-such-command", "events", "events x --all", "replay", "demo --tasks 0", "state x --at y"]
    {
        place.run(line).ended(2);
    }
    assert!(place.run("--version").ended(0).out().starts_with("taskreel "));
}

#[test]
fn colours_come_when_they_are_asked_for() {
    let place = small_log();
    assert!(place.run("ls --color always").ended(0).out().contains('\u{1b}'));
    assert!(!place.run("ls --color never").ended(0).out().contains('\u{1b}'));
    let forced = place.command(["ls"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(String::from_utf8_lossy(&forced.stdout).contains('\u{1b}'));
    let json: Vec<Value> = place.run("ls --json --color always").ended(0).json();
    assert_eq!(json.len(), 3);
}

#[test]
fn a_locale_without_utf_8_gets_marks_in_ascii() {
    let place = small_log();
    let ran = place.command(["ls"]).env("LC_ALL", "C").output().unwrap();
    assert!(ran.stdout.is_ascii(), "{}", String::from_utf8_lossy(&ran.stdout));
    assert!(String::from_utf8_lossy(&ran.stdout).contains("+ completed"));
}
