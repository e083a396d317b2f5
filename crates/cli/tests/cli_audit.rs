//! `verify`, `diff`, `explain`, `export`, `import` and `--file`, as people and scripts use them.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]

mod binary;

use std::io::Write as _;
use std::process::Stdio;

use binary::{Place, Ran, TASKS, small_log};
use proto_events::json;
use proto_events::json::JsonValue as Value;

/// Returns a place with a small log and its export.
fn exported() -> Place {
    let place = small_log();
    let text = place.run("export").ended(0).out();
    std::fs::write(place.path().join("log.ndjson"), text).unwrap();
    place
}

fn text(place: &Place) -> String {
    std::fs::read_to_string(place.path().join("log.ndjson")).unwrap()
}

/// Replaces the export's line of this number, from 1.
fn damage(place: &Place, line: usize, with: impl FnOnce(&str) -> String) {
    let text = text(place);
    let old = text.lines().nth(line - 1).unwrap();
    std::fs::write(place.path().join("log.ndjson"), text.replacen(old, &with(old), 1)).unwrap();
}

#[test]
fn every_reading_command_says_of_the_file_what_it_says_of_the_directory() {
    let place = exported();
    for line in [
        "ls",
        "ls --json",
        "ls --sessions --json",
        "show ask-0001 --json",
        "events ask-0001 --json",
        "events --all",
        "state sum-0001 --at 3",
        "replay --all --json",
        "export",
        "diff sum-0001 1 8",
        "diff ask-0001 1 9 --patch",
        "explain ask-0001 --at 6",
    ] {
        let there = place.run(line);
        let code = there.code().unwrap();
        // Ages change while the test runs.
        let steady =
            |ran: Ran| ran.out().lines().filter(|_| line != "ls").map(str::to_owned).collect::<Vec<_>>();
        let file = place.run(&format!("{line} --file log.ndjson")).ended(code);
        assert_eq!(steady(file), steady(there), "{line}");
    }
    let found = place.run("verify --file log.ndjson --json").ended(0).json();
    assert_eq!(found.last().unwrap()["faults"], json!(0));
    for line in ["ls", "verify", "diff sum-0001 1 2", "explain sum-0001", "export"] {
        place
            .run(&format!("{line} --file log.ndjson --data-dir taskreel-log"))
            .ended(2)
            .told(&["--file", "--data-dir"]);
        place.run(&format!("{line} --file none.ndjson")).ended(3).told(&["none.ndjson"]);
    }
    // A directory from the environment does not conflict with a typed option.
    let ran =
        place.command(["ls", "--file", "log.ndjson"]).env("TASKREEL_DATA_DIR", "elsewhere").output().unwrap();
    assert!(ran.status.success());
}

#[test]
fn a_file_that_is_no_whole_export_is_refused_by_its_line_and_verify_lists_all_of_it() {
    let place = exported();
    damage(&place, 3, |line| line[..line.len() / 2].to_owned());
    damage(&place, 5, |line| line.replacen("\"hash\":\"", "\"hash\":\"00", 1));
    for line in ["ls", "show sum-0001", "export", "replay --all", "diff sum-0001 1 2"] {
        place.run(&format!("{line} --file log.ndjson")).ended(5).told(&[
            "line 3",
            "stream ",
            "position ",
            "verify --file",
        ]);
    }
    let rows = place.run("verify --file log.ndjson --json").ended(1).json();
    let unreadable: Vec<&Value> = rows.iter().filter(|row| row["kind"] == "unreadable").collect();
    assert_eq!(unreadable.len(), 2, "{rows:?}");
    assert!(unreadable[0]["what"].as_str().unwrap().starts_with("line 3: "));
    assert!(unreadable[1]["what"].as_str().unwrap().starts_with("line 5: its `hash`"));
    let told = place.run("verify --file log.ndjson").ended(1).out();
    assert!(told.contains("not checked: the contents of the pieces that could not be read"), "{told}");
    std::fs::write(place.path().join("log.ndjson"), TASKS).unwrap();
    for line in ["ls", "verify"] {
        place.run(&format!("{line} --file log.ndjson")).ended(5).told(&["not an export", "taskreel export"]);
    }
}

#[test]
fn verify_tells_how_quick_it_was_and_one_stream_can_be_verified_alone() {
    let place = small_log();
    let found = place.run("verify --json").ended(0).json().pop().unwrap();
    assert!(found["bytes"].as_u64().unwrap() > 1_000 && found["seconds"].as_f64().unwrap() > 0.0, "{found}");
    assert!(found["mb_per_s"].is_number(), "{found}");
    let told = place.run("verify").ended(0);
    assert!(told.out().contains(" MB/s)\n") && told.out().contains(": 0 faults"), "{}", told.out());
    assert!(!told.err().contains('\r'), "no bar where nobody looks");
    let one = place.run("verify sum-0001").ended(0).out();
    assert!(one.starts_with("8 events in ") && one.contains("of 1 stream: 0 faults"), "{one}");
    assert!(one.contains("not checked: everything except task-agent/sum-0001"), "{one}");
    place.run("verify none-such").ended(3).told(&["none-such"]);
}

#[test]
fn the_root_that_verify_prints_is_taken_back_and_another_one_is_a_finding_with_its_position() {
    let place = exported();
    let said = place.run("verify --json").ended(0).json().pop().unwrap();
    let (root, end) = (said["root"].as_str().unwrap().to_owned(), said["end"].as_u64().unwrap());
    let printed = format!("Merkle root {root} up to position {end}\n");
    assert!(place.run("verify").ended(0).out().contains(&printed));
    assert!(place.run("verify --file log.ndjson").ended(0).out().contains(&printed));
    assert!(text(&place).lines().next().unwrap().contains(&root));
    let covered = format!("the given root covers the log up to position {end}");
    for from in ["", " --file log.ndjson"] {
        let whole = place.run(&format!("verify --root {root}{from}")).ended(0).out();
        assert!(whole.contains(&covered), "{whole}");
    }
    // The log goes on; the root still proves what it was made of.
    place.run_tasks(&TASKS.replace("-0001", "-0002"), "").ended(1);
    let later = place.run(&format!("verify --root {root} --json")).ended(0).json().pop().unwrap();
    assert_eq!((&later["covered"], later["end"].as_u64() > Some(end)), (&json!(end), true));
    let other = root.chars().rev().collect::<String>();
    let rows = place.run(&format!("verify --root {other} --json")).ended(1).json();
    let finding = rows.iter().find(|row| row["kind"] == "root").unwrap();
    assert_eq!(finding["position"], later["end"]);
    // A log that does not reach so far is no log with that root.
    let newest = later["root"].as_str().unwrap();
    place.run(&format!("verify --file log.ndjson --root {newest}")).ended(1);
    for wrong in ["abc", &*"g".repeat(64)] {
        place.run(&format!("verify --root {wrong}")).ended(2).told(&["64 hexadecimal digits"]);
    }
    place.run(&format!("verify sum-0001 --root {root}")).ended(2).told(&["--root"]);
}

#[test]
fn an_export_is_imported_as_the_same_log_and_run_on() {
    let place = exported();
    let made = place.run("import log.ndjson --data-dir copy/of/it").ended(0);
    assert!(made.out().starts_with("imported ") && made.out().contains("into copy/of/it"), "{}", made.out());
    assert_eq!(place.run("export --data-dir copy/of/it").ended(0).out(), text(&place));
    place.run("verify --data-dir copy/of/it").ended(0);
    // The same file gives the same tasks; a new file gives a new task under a higher epoch.
    place.run_tasks(TASKS, "--data-dir copy/of/it --script script.json").ended(1);
    let again = place.run("export --data-dir copy/of/it").ended(0).json();
    // Without the line of the end.
    let known = text(&place).lines().count() - 1;
    assert!(
        again[known..again.len() - 1].iter().all(|line| line["stream"] == "system-0"),
        "only a start and a stop were added"
    );
    let more = TASKS.lines().next().unwrap().replace("sum-0001", "sum-0002");
    place.run_tasks(&more, "--data-dir copy/of/it").ended(0);
    let lines = place.run("export --data-dir copy/of/it").ended(0).json();
    let epochs: Vec<u64> = lines[1..].iter().filter_map(|line| line["epoch"].as_u64()).collect();
    let (old, new) = epochs.split_at(known - 1);
    assert!(new.iter().min() > old.iter().max(), "{epochs:?}");
}

#[test]
fn stdin_can_be_imported_and_an_import_can_be_told_as_json() {
    let place = exported();
    let args = ["import", "-", "--data-dir", "copy", "--json"];
    let mut child = place
        .command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text(&place).as_bytes()).unwrap();
    let done = binary::end(child).ended(0).json();
    assert_eq!((&done[0]["schema"], &done[0]["faults"]), (&json!("taskreel.import/1"), &json!(0)));
    assert_eq!(place.run("export --data-dir copy").ended(0).out(), text(&place));
}

#[test]
fn a_bad_file_imports_nothing_and_a_directory_in_use_is_not_touched() {
    let place = exported();
    place.run("import log.ndjson").ended(2).told(&["taskreel-log", "not empty", "--data-dir"]);
    place.run("import none.ndjson --data-dir copy").ended(3).told(&["none.ndjson"]);
    let good = text(&place);
    for (line, with) in [(4, "\"hash\":\"ff"), (2, "\"bytes\":\"02"), (6, "\"correlation_id\":\"x")] {
        std::fs::write(place.path().join("log.ndjson"), &good).unwrap();
        let field = with.split_once(':').unwrap().0.to_owned() + ":\"";
        damage(&place, line, |line| line.replacen(&field, with, 1));
        place
            .run("import log.ndjson --data-dir copy")
            .ended(5)
            .told(&[&format!("line {line} "), "nothing was imported"]);
        assert!(!place.path().join("copy").exists(), "{with}");
    }
    std::fs::write(place.path().join("log.ndjson"), &good[..good.len() / 2]).unwrap();
    place.run("import log.ndjson --data-dir copy").ended(5).told(&["nothing was imported", "line "]);
    assert!(!place.path().join("copy").exists());
}

#[test]
fn diff_tells_what_changed_in_the_domains_words() {
    let place = small_log();
    let told = place.run("diff sum-0001 1 8").ended(1).out();
    for words in [
        "submitted → working",
        "working → completed",
        "opened",
        "closed",
        "tool add",
        "artifact",
        "succeeded: 7",
    ] {
        assert!(told.contains(words), "`{words}` is not in {told}");
    }
    let rows = place.run("diff sum-0001 1 8 --json").ended(1).json();
    assert_eq!(rows.last().unwrap()["changes"], json!(rows.len() - 1));
    let digest = rows.iter().find(|row| row["area"] == "artifact").unwrap();
    assert_eq!(digest["which"].as_str().unwrap().len(), 64);
    let back = place.run("diff sum-0001 8 1").ended(1).out();
    assert!(back.contains("gone") && !back.contains("added"), "{back}");
    assert!(place.run("diff sum-0001 4 4").ended(0).out().contains("no difference"));
    for line in ["diff sum-0001 0 3", "diff sum-0001 3 99", "diff sum-0001 99 --with log.ndjson"] {
        std::fs::write(place.path().join("log.ndjson"), place.run("export").out()).unwrap();
        place.run(line).ended(3).told(&["1 to 8"]);
    }
    place.run("diff sum-0001").ended(2);
    place.run("diff none-such 1 2").ended(3);
    let session = place.run("diff session-agent/ask-0001 1 8").ended(1).out();
    assert!(session.contains("what is it?") && session.contains("committed"), "{session}");
}

#[test]
fn two_logs_are_compared_and_the_version_where_they_part_is_told() {
    let place = exported();
    let same = place.run("diff ask-0001 --with log.ndjson").ended(0).out();
    assert!(same.contains("same records") && same.contains("no difference"), "{same}");
    let other = Place::new();
    std::fs::write(other.path().join("script.json"), binary::SCRIPT.replace("20 degrees", "hot")).unwrap();
    other.run_tasks(TASKS, "--script script.json").ended(1);
    std::fs::write(place.path().join("other.ndjson"), other.run("export").out()).unwrap();
    let told = place.run("diff ask-0001 --with other.ndjson").ended(1).out();
    assert!(
        told.contains("differ from version 1") && told.contains("hot") && told.contains("20 degrees"),
        "{told}"
    );
    let patch = place.run("diff ask-0001 --with other.ndjson --patch").ended(1).json();
    assert!(patch[0].as_array().unwrap().iter().any(|operation| operation["value"] == "hot"), "{patch:?}");
    std::fs::write(place.path().join("empty.ndjson"), {
        let place = Place::new();
        place.run_tasks(&TASKS.lines().next().unwrap().replace("sum-0001", "else"), "").ended(0);
        place.run("export").out()
    })
    .unwrap();
    place.run("diff ask-0001 --with empty.ndjson").ended(3).told(&["other log has no task-agent/ask-0001"]);
}

#[test]
fn explain_tells_what_recovery_would_do_and_that_an_append_is_whole_or_not_at_all() {
    let place = small_log();
    // `add` is read-only, so it is sent again.
    let first = place.run("explain sum-0001 --at 1 --json").ended(0).json();
    assert_eq!((&first[0]["asked"], &first[0]["version"]), (&json!(1), &json!(5)));
    let told = place.run("explain sum-0001 --at 1").ended(0).out();
    assert!(told.contains("versions 1 to 5 are one append") && told.contains("tool add"), "{told}");
    assert!(told.contains("it is sent again as attempt 2 of "), "{told}");
    let over = place.run("explain sum-0001").ended(0).out();
    assert!(over.contains("no call is open; the task is completed, no action is taken"), "{over}");
    let session = place.run("explain session-agent/ask-0001 --at 2").ended(0).out();
    assert!(session.contains("open turn belongs to task-agent/ask-0001"), "{session}");
    place.run("explain sum-0001 --at 9").ended(3).told(&["1 to 8"]);
    place.run("explain sum-0001 --at 0").ended(3).told(&["1 to 8"]);
    place.run("explain none-such").ended(3);
}

#[test]
fn verify_lists_the_faults_of_a_directory_that_cannot_be_opened() {
    let place = small_log();
    let dir = place.path().join("taskreel-log");
    let db = sled::Config::new().path(&dir).segment_size(4 * 1024 * 1024).open().unwrap();
    let log = db.open_tree("log").unwrap();
    let key = [&1_u64.to_be_bytes()[..], &[0]].concat();
    let mut value = log.get(&key).unwrap().unwrap().to_vec();
    value[99] ^= 1;
    log.insert(key, value).unwrap();
    db.flush().unwrap();
    drop((log, db));
    std::fs::File::open(dir.join("db")).unwrap().lock().unwrap();
    place.run("ls").ended(5).told(&["value 1", "checksum"]);
    let rows = place.run("verify --json").ended(1).told(&["cannot open"]).json();
    let kinds: Vec<&str> = rows.iter().filter_map(|row| row["kind"].as_str()).collect();
    assert!(kinds.starts_with(&["open", "unreadable"]), "{rows:?}");
    let closing = rows.last().unwrap();
    assert!(closing["streams"].as_u64().unwrap() > 1 && closing["events"].as_u64().unwrap() > 5, "{closing}");
    // A directory without a log cannot be verified.
    std::fs::create_dir(place.path().join("photos")).unwrap();
    std::fs::write(place.path().join("photos/one"), "mine").unwrap();
    place.run("verify --data-dir photos").ended(5).told(&["not a taskreel log"]);
}
