//! A log of which a newer release wrote a part: the other tasks are shown and resumed, those that cannot be read are
//! named, and the exit code is 7.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

mod binary;

use binary::small_log;
use proto_events::codec::kind;

#[test]
fn the_other_tasks_are_listed_and_the_newer_one_is_named_with_exit_code_7() {
    let place = small_log();
    binary::add_newer(&place, "later-0001", 999, 1);
    let listed = place.run("ls").ended(7);
    assert!(listed.out().contains("sum-0001"), "{}", listed.out());
    assert!(listed.err().contains("task-taskreel/later-0001"), "{}", listed.err());
    assert!(listed.err().contains("newer release") && !listed.err().contains("restore"), "{}", listed.err());
    let shown = place.run("show later-0001").ended(7);
    assert!(shown.err().contains("newer release"), "{}", shown.err());
    place.run("show sum-0001").ended(0);
    for line in ["calls", "stats", "replay --all"] {
        let told = place.run(line).ended(7);
        assert!(told.err().contains("task-taskreel/later-0001"), "{line}: {}", told.err());
        place.run(&format!("{line} --json")).ended(7);
    }
    assert!(place.run("stats").out().contains("tool"), "the other tasks are counted");
    assert!(place.run("replay --all").out().contains("0 mismatches"), "the other tasks are replayed");
    place.run("calls later-0001").ended(7);
    place.run("replay later-0001").ended(7);
    binary::add_to(&place.path().join("later"), "later-0003", 999, 1);
    let verified = place.run("verify --data-dir later").ended(7);
    assert!(verified.out().contains("newer"), "{}", verified.out());
    let examined = place.run("doctor").ended(1);
    assert!(examined.out().contains("newer"), "{}", examined.out());
    assert!(place.run("--help").ended(0).out().contains("7 a newer release"));
}

#[test]
fn a_run_names_the_open_tasks_that_it_cannot_resume_and_carries_out_its_own() {
    let place = small_log();
    // A submission of a later schema version: its state is unknown, so it may be open work.
    binary::add_newer(&place, "later-0002", kind::SUBMITTED, 99);
    let task = r#"{"id":"note-0001","messages":[{"role":"user","parts":[{"type":"text","content":"x"}]}]}"#;
    let ran = place.run_tasks(task, "").ended(7);
    assert!(ran.err().contains("task-taskreel/later-0002 is not resumed"), "{}", ran.err());
    assert!(ran.out().contains("note-0001"), "{}", ran.out());
}
