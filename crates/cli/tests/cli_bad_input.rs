//! Errors for bad input: what, why, what to do; nothing is executed or changed.

mod binary;

use binary::{Place, TASKS, small_log};
use proto_events::json;
use taskreel_log::api::EventStore;
use taskreel_log::sled::SledStore;

#[test]
fn an_unknown_id_ends_with_3_and_an_ambiguous_one_names_what_fits() {
    let place = small_log();
    for line in ["show none-such", "events none-such", "state none-such", "replay none-such"] {
        place.run(line).ended(3).told(&["none-such", "taskreel ls"]);
    }
    place.run("show ab").ended(3).told(&["4 characters"]);
    place.run_tasks(&TASKS.lines().next().unwrap().replace("sum-0001", "sum-0002"), "").ended(0);
    place.run("show sum-").ended(2).told(&["sum-0001", "sum-0002"]);
}

#[test]
fn where_no_log_is_reading_ends_with_5_and_makes_nothing() {
    let place = Place::new();
    for line in ["ls", "events --all", "show abcd", "verify", "export", "replay --all", "demo --resume"] {
        place.run(line).ended(5).told(&["no log"]);
    }
    assert_eq!(place.files("."), []);
    std::fs::create_dir(place.path().join("empty")).unwrap();
    place.run("ls --data-dir empty").ended(5).told(&["empty"]);
    assert_eq!(place.files("empty"), []);
}

#[test]
fn malformed_json_in_a_file_is_told_by_line_and_column_and_nothing_is_executed() {
    let place = Place::new();
    let first = TASKS.lines().next().unwrap();
    let run = |text: String| {
        std::fs::write(place.path().join("tasks.json"), text).unwrap();
        let ran = place.run("run tasks.json").ended(2);
        assert_eq!(place.files(".").len(), 1, "only the file is there");
        ran
    };
    run(format!("{first}\n{{\"id\": \"x\", \"messages\": [}}\n")).told(&[
        "line 2, column 26",
        "expected value",
        "nothing was executed",
    ]);
    run(format!("[{first},")).told(&["line 1", "EOF"]);
    run(format!("{first}\n{{\"id\":\"x\",\"messages\":3}}")).told(&["task 2", "line 2", "messages"]);
    run(format!("{first}\n{first}")).told(&["task 2", "sum-0001", "line 1"]);
    run(String::new()).told(&["no task"]);
}

#[test]
fn stdin_cannot_be_the_tasks_and_the_script() {
    let place = Place::new();
    place.run_tasks(&TASKS.repeat(40), "--script -").ended(2).told(&["stdin can be read once"]);
    assert_eq!(place.files("."), []);
}

#[test]
fn what_comes_before_a_fault_on_stdin_is_executed_and_counted() {
    let place = Place::new();
    place.run_tasks("{\"id\": }", "").ended(2).told(&["line 1, column 8", "nothing was executed"]);
    assert_eq!(place.files("."), []);
    let first = TASKS.lines().next().unwrap();
    let ran = place.run_tasks(&format!("{first}\n{{\"id\": }}\n"), "").ended(2);
    let ran = ran.told(&["line 2, column 8", "the 1 task before it was executed"]);
    assert_eq!(ran.json()[0]["id"], "sum-0001");
}

#[test]
fn a_depth_or_id_over_its_limit_is_told_with_limit_and_size() {
    let place = Place::new();
    let deep = format!("{{\"metadata\":{{\"deep\":{}{}}}}}", "[".repeat(127), "]".repeat(127));
    place.run_tasks(&deep, "").ended(2).told(&["129", "128"]);
    let long = "x".repeat(201);
    place.run_tasks(&format!("{{\"id\":\"{long}\"}}"), "").ended(2).told(&["201 bytes", "200"]);
    assert_eq!(place.files("."), []);
    small_log().run(&format!("show {long}")).ended(2).told(&["201 bytes", "200"]);
}

#[test]
fn a_task_too_large_for_the_log_is_told_with_limit_and_size_and_the_others_run() {
    let place = Place::new();
    let large = json!({"id": "large", "messages": [{"role": "user", "parts": [{"type": "text", "content": "x".repeat(17 << 20)}]}]});
    let ran = place.run_tasks(&format!("{large}\n{}", TASKS.lines().next().unwrap()), "");
    let ran = ran.ended(1).told(&["large", "limit"]);
    assert_eq!(ran.json().len(), 1);
}

#[test]
fn a_known_id_with_another_content_is_refused_with_the_first_difference_and_no_event() {
    let place = small_log();
    let other = TASKS.lines().next().unwrap().replace("\"m1\"", "\"m9\"");
    place.run_tasks(&other, "").ended(1).told(&["messages[0].id", "`m1`", "`m9`"]);
    assert_eq!(place.run("events sum-0001 --json").json().len(), 8);
}

#[test]
fn files_and_scripts_that_cannot_be_used_are_told_before_anything_runs() {
    let place = Place::new();
    place.run("run missing.json").ended(3).told(&["missing.json"]);
    std::fs::write(place.path().join("script.json"), "[1]").unwrap();
    place.run_tasks(TASKS, "--script script.json").ended(2).told(&["script.json", "line 1"]);
    assert!(!place.path().join("taskreel-log").exists());
}

#[test]
fn a_second_process_that_would_write_is_told_who_holds_the_log() {
    let place = small_log();
    let held = SledStore::open(place.path().join("taskreel-log")).unwrap();
    let pid = std::process::id().to_string();
    for line in ["doctor --rebuild-index", "demo --data-dir taskreel-log"] {
        let ran = place.run(line);
        assert!(ran.out().contains(&pid) || ran.err().contains(&pid), "{line}: {}{}", ran.out(), ran.err());
    }
    place.run("demo --data-dir taskreel-log").ended(4).told(&["process", &pid, "kill -INT"]);
    place.run_tasks(TASKS, "").ended(4).told(&[&pid]);
    held.close().unwrap();
    place.run("ls").ended(0);
}

#[test]
fn a_folder_that_is_no_log_or_of_another_format_is_refused_untouched() {
    let place = Place::new();
    for (folder, file, content, word, code) in [
        ("photos", "precious.txt", "mine", "not a taskreel log", 5),
        ("newer", "taskreel.format", "taskreel log\nformat 3\ndurability strict\n", "format 3", 7),
        ("older", "taskreel.format", "taskreel log\nformat 1\ndurability strict\n", "build that wrote it", 5),
    ] {
        std::fs::create_dir(place.path().join(folder)).unwrap();
        std::fs::write(place.path().join(folder).join(file), content).unwrap();
        let before = place.files(folder);
        for command in ["ls", "demo", "verify"] {
            place.run(&format!("{command} --data-dir {folder}")).ended(code).told(&[folder, word]);
        }
        place.run_tasks(TASKS, &format!("--data-dir {folder}")).ended(code).told(&[word]);
        assert_eq!(place.files(folder), before);
    }
}

#[test]
fn what_a_log_says_cannot_steer_a_terminal() {
    let place = Place::new();
    let evil = "\u{1b}]0;mine\u{7}\u{1b}[2J";
    let part = json!({"type": "tool_call", "content": {"tool_name": "fail", "args": {"message": evil}, "call_id": evil}});
    let task = json!({
        "id": "evil", "metadata": {"note": evil},
        "messages": [{"id": "m", "role": evil, "parts": [part, {"type": "text", "content": evil}]}],
    });
    place.run_tasks(&task.to_string(), "").ended(1);
    for line in
        ["ls", "show evil --full", "events --all --full", "events --all --json", "export", "state evil"]
    {
        let ran = place.run(line).ended(0);
        assert!(!ran.out().contains(['\u{1b}', '\u{7}']), "{line}: {}", ran.out());
        assert!(!ran.err().contains(['\u{1b}', '\u{7}']), "{line}: {}", ran.err());
    }
}

#[cfg(unix)]
#[test]
fn an_argument_that_is_no_text_is_wrong_usage_and_no_panic() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let place = Place::new();
    let odd = OsStr::from_bytes(b"a\xff");
    let lines: [&[&OsStr]; 4] = [
        &[odd],
        &[OsStr::new("show"), odd],
        &[OsStr::new("verify"), OsStr::new("--file"), odd, OsStr::new("--bogus")],
        &[OsStr::new("a2a"), OsStr::new("--json"), odd],
    ];
    for line in lines {
        let ran = binary::read(&mut place.command(line), &format!("{line:?}")).ended(2);
        assert!(!ran.err().contains("panicked"), "{line:?}: {}", ran.err());
    }
}
