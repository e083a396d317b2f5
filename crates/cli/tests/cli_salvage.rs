//! `taskreel salvage`: what is sound in a damaged log is in an export, and what is missing is listed.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

mod binary;

use binary::small_log;

#[test]
fn a_damaged_log_is_salvaged_and_its_gaps_are_listed_and_the_source_stays() {
    let place = small_log();
    place.run("salvage taskreel-log whole.ndjson").ended(0);
    let export = place.run("export").ended(0).out();
    assert_eq!(std::fs::read_to_string(place.path().join("whole.ndjson")).unwrap(), export);
    place.run("salvage taskreel-log whole.ndjson").ended(2).told(&["whole.ndjson", "new file"]);

    let db = place.path().join("taskreel-log/db");
    let mut bytes = std::fs::read(&db).unwrap();
    let name = b"/bad-0001";
    let at = bytes.windows(name.len()).position(|piece| piece == name).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&db, bytes).unwrap();
    let before = place.files("taskreel-log");
    let ran = place.run("salvage taskreel-log damaged.ndjson --json").ended(1);
    assert_eq!(place.files("taskreel-log"), before);
    let lines = ran.json();
    let last = lines.last().unwrap();
    assert_eq!(last["schema"].as_str(), Some("taskreel.salvage/1"));
    assert_eq!(lines.len() as u64 - 1, last["gaps"].as_u64().unwrap());
    assert!(lines.len() > 1, "a gap is listed");
    let text = place.run("salvage taskreel-log again.ndjson").ended(1).out();
    assert!(text.contains("missing: positions "), "{text}");
    let found = place.run("verify --file damaged.ndjson").ended(1).out();
    assert!(!found.is_empty());
    place.run("import damaged.ndjson --data-dir imported").ended(5);

    place.run("salvage nowhere out.ndjson").ended(5);
    place.run("salvage taskreel-log other.ndjson --data-dir elsewhere").ended(2).told(&["--data-dir"]);
    assert!(place.run("salvage --help").ended(0).out().contains("physically damaged"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_report_that_cannot_be_printed_is_no_success() {
    let place = small_log();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let line = "salvage taskreel-log unheard.ndjson --json".split(' ');
    let ran = binary::Ran(place.command(line).stdout(full).output().unwrap());
    ran.ended(8).told(&["cannot write the output"]);
}

#[test]
fn a_segment_that_stands_twice_is_told_to_readers_and_writers_alike_and_salvage_reads_past_it() {
    let place = small_log();
    let export = place.run("export").ended(0).out();
    let db = place.path().join("taskreel-log/db");
    let mut bytes = std::fs::read(&db).unwrap();
    let first = bytes[..bytes.len().min(4 * 1024 * 1024)].to_vec();
    bytes.resize(bytes.len().next_multiple_of(4 * 1024 * 1024), 0);
    bytes.extend(first);
    std::fs::write(&db, bytes).unwrap();
    for line in ["ls", "verify", "export", "state sum-0001", "doctor"] {
        let ran = place.run(line);
        assert!(matches!(ran.code(), Some(1 | 5)), "{line}: {:?} {}", ran.code(), ran.err());
        let said = ran.out() + &ran.err();
        assert!(said.contains("byte 0") && said.contains("salvage"), "{line}: {said}");
    }
    place.run_tasks(binary::TASKS, "").ended(5).told(&["byte 0", "taskreel salvage"]);
    place.run("salvage taskreel-log saved.ndjson").ended(0);
    assert_eq!(std::fs::read_to_string(place.path().join("saved.ndjson")).unwrap(), export);
}

#[test]
fn a_backup_that_is_copied_over_a_newer_log_opens_and_its_stale_snapshot_is_set_aside() {
    let place = small_log();
    let log = place.path().join("taskreel-log");
    let backup = place.files("taskreel-log");
    // The log goes on, and is opened again, which makes a snapshot of it.
    let more = binary::TASKS.replace("-0001", "-0002");
    place.run_tasks(&more, "").ended(1);
    place.run_tasks(&more, "").ended(1);
    for (name, content) in &backup {
        if log.join(name).is_file() || !log.join(name).exists() {
            std::fs::write(log.join(name), content).unwrap();
        }
    }
    assert_eq!(place.run("ls --json").ended(0).json().len(), 3);
    let run = place.run_tasks(&more, "");
    assert!(run.err().contains("snapshot of another, newer state"), "{}", run.err());
    place.run("verify").ended(0);
    assert_eq!(place.run("ls --json").ended(0).json().len(), 6);
}
