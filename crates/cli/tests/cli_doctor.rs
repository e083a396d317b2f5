//! `taskreel doctor`: its report on a sound log, on each kind of fault, on a log that is held, and on a
//! directory without a log; and the warning of every command about a log that promises less than strict.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

mod binary;

use std::path::Path;

use binary::{Place, Ran, small_log};
use proto_events::json::JsonValue as Value;
use taskreel_log::api::{Durability, EventStore};
use taskreel_log::sled::{SledOptions, SledStore};

const LOG: &str = "taskreel-log";

fn report(ran: &Ran) -> Value {
    ran.json().pop().unwrap()
}

/// Asserts that exactly these parts have findings, each with advice, in both output forms.
#[track_caller]
fn finds(place: &Place, parts: &[&str]) -> Value {
    let code = i32::from(!parts.is_empty());
    let ran = place.run("doctor --json").ended(code);
    let found = report(&ran)["findings"].as_array().unwrap().clone();
    let named: Vec<_> = found.iter().map(|finding| finding["part"].as_str().unwrap()).collect();
    assert_eq!(named, parts, "{found:?}");
    for finding in &found {
        assert!(finding["what"].as_str().unwrap().len() > 10, "{finding}");
        assert!(finding["advice"].as_str().unwrap().len() > 10, "{finding}");
    }
    report(&ran)
}

fn write(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_log_is_told_whole_and_nothing_is_left_behind() {
    let place = small_log();
    place.run("verify").ended(0);
    let before = place.files(LOG);
    let ran = place.run("doctor").ended(0);
    assert_eq!(place.files(LOG), before);
    for word in [
        "format      2",
        "log         ",
        "strict",
        "no process",
        "fdatasync",
        " ms",
        "HEAD        position",
        "blobs/      empty",
        "0 findings",
    ] {
        assert!(ran.out().contains(word), "`{word}` is not in\n{}", ran.out());
    }
    let report = finds(&place, &[]);
    assert_eq!(place.files(LOG), before);
    assert_eq!((&report["format"], &report["durability"]), (&2.into(), &"strict".into()));
    assert_eq!((&report["held"], &report["holder"]), (&false.into(), &Value::Null));
    let events = report["log"]["events"].as_u64().unwrap();
    assert!(events > 20);
    assert_eq!(report["head"]["position"], events);
    assert_eq!(report["head"]["records"], report["log"]["records"]);
    assert!(report["fdatasync"]["median_us"].as_u64() <= report["fdatasync"]["slowest_us"].as_u64());
    let sized = |list: &str, part: &str| {
        let parts = report[list].as_array().unwrap().iter();
        parts
            .filter(|one| one["part"] == part || one["tree"] == part)
            .filter_map(|one| one["bytes"].as_u64())
            .sum::<u64>()
    };
    let on_disk = std::fs::metadata(place.path().join(LOG).join("db")).unwrap().len();
    assert!(sized("files", "db") > 0 && sized("files", "db") <= on_disk);
    assert!(sized("trees", "log") > 1_000, "{report}");
    assert_eq!(report["blobs"], 0);
    // Only the rebuilding of the index opens the log itself; it leaves no file of its own behind.
    place.run("doctor --rebuild-index").ended(0);
    let is_ours = |name: &str| name.starts_with("snap.") || before.iter().any(|(known, _)| known == name);
    assert!(place.files(LOG).iter().all(|(name, _)| is_ours(name)));
    finds(&place, &[]);
}

#[test]
fn what_is_no_log_is_left_as_it_was() {
    let place = Place::new();
    place.run("doctor").ended(5).told(&["no log"]);
    assert_eq!(place.files("."), []);
    std::fs::create_dir(place.path().join("empty")).unwrap();
    place.run("doctor --data-dir empty").ended(5).told(&["empty"]);
    assert_eq!(place.files("empty"), []);
    std::fs::create_dir(place.path().join("other")).unwrap();
    std::fs::write(place.path().join("other/letter"), "dear").unwrap();
    place.run("doctor --data-dir other").ended(5).told(&["not a taskreel log"]);
    assert_eq!(place.files("other"), [("letter".to_owned(), b"dear".to_vec())]);
}

#[test]
fn a_log_that_is_held_is_told_as_far_as_it_can_be_seen() {
    let place = small_log();
    let store = SledStore::open(place.path().join(LOG)).unwrap();
    let report = finds(&place, &[]);
    assert_eq!((&report["held"], &report["holder"]["pid"]), (&true.into(), &std::process::id().into()));
    assert_eq!((&report["log"], &report["snapshots"]), (&Value::Null, &Value::Null));
    assert!(report["not_checked"].to_string().contains("another process"));
    assert!(report["head"]["position"].as_u64().unwrap() > 20);
    let said = place.run("doctor").ended(0).out();
    assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
    store.close().unwrap();
}

#[test]
fn a_missing_head_is_found_until_a_program_opens_the_log() {
    let place = small_log();
    std::fs::remove_file(place.path().join(LOG).join("HEAD")).unwrap();
    let report = finds(&place, &["HEAD"]);
    assert_eq!(report["head"]["state"], "missing");
    finds(&place, &["HEAD"]);
    SledStore::open(place.path().join(LOG)).unwrap().close().unwrap();
    finds(&place, &[]);
}

#[test]
fn a_head_that_was_changed_or_is_ahead_of_the_log_is_found() {
    let place = small_log();
    let head = place.path().join(LOG).join("HEAD");
    let good = std::fs::read(&head).unwrap();
    write(&head, |bytes| bytes[20] ^= 1);
    let report = finds(&place, &["HEAD"]);
    assert_eq!(report["head"]["state"], "unreadable");
    // The log grows and is then restored to its earlier state, HEAD is not.
    std::fs::write(&head, good).unwrap();
    let db = place.path().join(LOG);
    let kept = place.files(LOG);
    place.run_tasks(
        r#"{"id":"more-0001","messages":[{"role":"user","parts":[{"type":"text","content":"x"}]}]}"#,
        "",
    );
    let ahead = std::fs::read(&head).unwrap();
    for (name, _) in place.files(LOG).iter().filter(|(name, _)| name != "blobs") {
        std::fs::remove_file(db.join(name)).unwrap();
    }
    for (name, bytes) in kept.iter().filter(|(name, _)| name != "blobs") {
        std::fs::write(db.join(name), bytes).unwrap();
    }
    std::fs::write(&head, ahead).unwrap();
    finds(&place, &["HEAD"]);
}

#[test]
fn a_blob_file_and_damage_are_found() {
    let place = small_log();
    let blob = place.path().join(LOG).join("blobs/123");
    std::fs::write(&blob, "x").unwrap();
    let report = finds(&place, &["blobs/"]);
    assert_eq!(report["blobs"], 1);
    std::fs::remove_file(&blob).unwrap();
    finds(&place, &[]);
    // In the middle of a text in the log.
    write(&place.path().join(LOG).join("db"), |bytes| {
        let at = bytes.windows(8).position(|eight| eight == b"sum-0001").unwrap();
        bytes[at] ^= 1;
    });
    let ran = place.run("doctor --json").ended(1);
    assert!(!report_findings(&ran).is_empty());
}

#[test]
fn an_index_that_does_not_fit_is_found_until_it_is_made_anew_on_request() {
    let place = small_log();
    let report = finds(&place, &[]);
    let dir = place.path().join(LOG);
    let db = sled::Config::new().path(&dir).segment_size(4 * 1024 * 1024).open().unwrap();
    db.open_tree("meta").unwrap().insert("index", "taskreel index 1").unwrap();
    db.flush().unwrap();
    drop(db);
    // Until the database's own threads have released the directory.
    std::fs::File::open(dir.join("db")).unwrap().lock().unwrap();
    let damaged = finds(&place, &["index"]);
    assert_eq!(damaged["log"], report["log"], "nothing is lost");
    finds(&place, &["index"]);
    place.run("doctor --rebuild-index").ended(0);
    finds(&place, &[]);
}

fn report_findings(ran: &Ran) -> Vec<Value> {
    report(ran)["findings"].as_array().unwrap().clone()
}

#[test]
fn every_command_says_when_a_log_promises_less_than_strict() {
    let place = small_log();
    let weak = place.path().join("weak");
    let options = SledOptions { durability: Some(Durability::Os), ..SledOptions::default() };
    SledStore::open_with(&weak, options).unwrap().close().unwrap();
    let task = r#"{"id":"note-0001","messages":[{"role":"user","parts":[{"type":"text","content":"x"}]}]}"#;
    let said = |ran: &Ran| ran.err().matches("durability os").count();
    assert_eq!(said(&place.run_tasks(task, "--data-dir weak").ended(0)), 1);
    let reading =
        ["ls", "show note-0001", "events --all", "state note-0001", "replay --all", "verify", "export"];
    for line in reading {
        assert_eq!(said(&place.run(&format!("{line} --data-dir weak")).ended(0)), 1, "{line}");
        let strict = place.run(&line.replace("note-0001", "sum-0001")).ended(0);
        assert!(!strict.err().contains("durability"), "{line}: {}", strict.err());
    }
    assert!(place.run("doctor --data-dir weak").ended(0).out().contains("durability  os"));
    assert_eq!(report(&place.run("doctor --json --data-dir weak").ended(0))["durability"], "os");
}
