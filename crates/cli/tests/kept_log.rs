//! A log that an earlier build wrote and a kill cut off, kept as a directory: it verifies, exports the same bytes, and goes on.
//!
//! `kept/COMMIT.tar.gz` holds the directory and the export that the build of that commit made of it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

mod binary;

use std::path::Path;
use std::process::Command;

use binary::Place;

/// The tasks of the demo that the log is of.
const TASKS: usize = 11;

#[test]
fn a_log_of_an_earlier_build_verifies_exports_the_same_bytes_and_goes_on() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept");
    let archives = std::fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path());
    let archives: Vec<_> =
        archives.filter(|path| path.extension().is_some_and(|kind| kind == "gz")).collect();
    assert!(!archives.is_empty());
    for archive in archives {
        let place = Place::new();
        let unpacked =
            Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(place.path()).status().unwrap();
        assert!(unpacked.success(), "{}", archive.display());
        let db = || std::fs::read(place.path().join("taskreel-demo/db")).unwrap();
        let before = db();
        let exported = std::fs::read_to_string(place.path().join("export.ndjson")).unwrap();
        let root = exported.split("\"root\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        place.run(&format!("verify --data-dir taskreel-demo --root {root}")).ended(0);
        place.run("replay --all --data-dir taskreel-demo").ended(0);
        let now = place.run("export --data-dir taskreel-demo").ended(0).out();
        assert!(now == exported, "{}: another export", archive.display());
        assert!(db() == before, "reading writes nothing");

        // The demo goes on with what the kill cut off.
        place.run(&format!("demo --pace 0 --tasks {TASKS}")).ended(0);
        let rows = place.run("ls --data-dir taskreel-demo --json").ended(0).json();
        assert_eq!(rows.len(), TASKS);
        let is_at_rest =
            |state: &str| matches!(state, "completed" | "failed" | "canceled" | "input-required");
        assert!(rows.iter().all(|row| is_at_rest(row["state"].as_str().unwrap())), "{rows:?}");
        let ledger = std::fs::read_to_string(place.path().join("taskreel-demo/effects.ledger")).unwrap();
        let mut paid: Vec<_> = ledger.lines().map(|line| line.split('\t').next().unwrap()).collect();
        paid.sort_unstable();
        assert!(paid.windows(2).all(|two| two[0] != two[1]), "nothing is paid twice: {paid:?}");
        place.run("verify --data-dir taskreel-demo").ended(0);
    }
}
