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
