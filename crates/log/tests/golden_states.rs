//! The states that the streams of a stored log had after every version are golden. A changed `evolve` is noticed even where it agrees with itself, as `replay` cannot notice it.
//!
//! The logs and their states stand in `golden/v2`. Files that are missing are written with `TASKREEL_WRITE_GOLDEN=1`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

#[path = "forgeries/asking.rs"]
mod asking;
#[path = "golden_states/codes.rs"]
mod codes;
#[path = "forgeries/events.rs"]
#[allow(dead_code, reason = "the forgeries use all of it")]
mod events;
#[path = "forgeries/log.rs"]
#[allow(dead_code, reason = "the forgeries use all of it")]
mod log;
#[path = "golden_states/rewritten.rs"]
mod rewritten;
#[path = "forgeries/sealing.rs"]
mod sealing;
#[path = "forgeries/sound.rs"]
#[allow(dead_code, reason = "the forgeries use all of it")]
mod sound;
#[path = "golden_states/stated.rs"]
mod stated;
#[path = "golden_states/varied.rs"]
mod varied;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use log::Log;
use proto_events::codec::kind;
use proto_events::id::{Digest, LogId, Position, Version};
use proto_events::json::JsonText;
use taskreel_log::api::{EventReader as _, ReadError};
use taskreel_log::audit;
use taskreel_log::jsonl::JsonLines;

/// The most that all golden files may have together, in bytes.
const BYTES_MAX: u64 = 400_000;

/// A golden log: its name, and what makes it.
type Golden = (&'static str, fn() -> Log);

/// The logs: name and generator, which is used only to write a file that is missing.
const LOGS: [Golden; 8] = [
    ("every_event", sound::sound),
    ("varied", varied::varied),
    ("codes", codes::codes),
    ("minimized", codes::minimized),
    ("delegated", codes::delegated),
    ("rewritten", rewritten::rewritten),
    ("registered", rewritten::registered),
    ("webhooks", rewritten::webhooks),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2")
}

/// Returns the contents of a golden file; a missing one is written, if that is asked for.
fn golden(name: &str, write: impl FnOnce() -> String) -> String {
    let path = folder().join(name);
    if !path.exists() && std::env::var_os("TASKREEL_WRITE_GOLDEN").is_some_and(|set| set == "1") {
        std::fs::create_dir_all(folder()).unwrap();
        // Other tests may write the same file meanwhile.
        let whole = tempfile::NamedTempFile::new_in(folder()).unwrap();
        std::fs::write(whole.path(), write()).unwrap();
        whole.persist(&path).unwrap();
    }
    let missing = |error| panic!("{}: {error}; TASKREEL_WRITE_GOLDEN=1 writes it", path.display());
    std::fs::read_to_string(&path).unwrap_or_else(missing)
}

fn exported(log: &Log) -> String {
    let mut text = String::new();
    audit::export(&log.seal(), LogId::default(), "strict", |line| {
        writeln!(text, "{line}").unwrap();
        Ok::<(), ReadError>(())
    })
    .unwrap();
    text
}

/// Opens the golden log of this name.
fn opened(name: &str, make: fn() -> Log) -> JsonLines {
    let file = format!("{name}.ndjson");
    golden(&file, || exported(&make()));
    JsonLines::open(folder().join(file)).unwrap()
}

/// Returns the states of all streams after each version, by stream.
fn states(log: &JsonLines) -> Vec<(String, JsonText)> {
    let mut all = Vec::new();
    for info in log.list_streams("", None, 1_000).unwrap() {
        for version in 1..=info.version.0 {
            let place = format!("{} {version}", info.stream);
            all.push((place, stated::state(log, &info.stream, Version(version))));
        }
    }
    all
}

fn digests(states: &[(String, JsonText)]) -> String {
    let mut text = String::new();
    for (place, state) in states {
        writeln!(text, "{place} {}", Digest::compute(state.as_str().as_bytes())).unwrap();
    }
    text
}

#[test]
fn the_states_of_a_stored_log_are_what_they_were_after_every_version() {
    for (name, make) in LOGS {
        let log = opened(name, make);
        let states = states(&log);
        let now = digests(&states);
        let before = golden(&format!("{name}.states"), || now.clone());
        let other = now.lines().zip(before.lines()).zip(&states).find(|((now, before), _)| now != before);
        if let Some(((now, before), (place, state))) = other {
            panic!("{name}: the state of {place} is another:\n{now}, not\n{before}:\n{state}");
        }
        assert_eq!(now.lines().count(), before.lines().count(), "{name}");
    }
}

#[test]
fn the_golden_logs_are_replayed_and_hold_every_kind_of_event_of_today() {
    let mut kinds = BTreeSet::new();
    for (name, make) in LOGS {
        let log = opened(name, make);
        assert_eq!(audit::replay_all(&log).unwrap().mismatch, None, "{name}");
        let records = log.read_all(Position(1), 10_000).unwrap();
        kinds.extend(records.iter().flat_map(|stored| &stored.record.events).map(|event| event.kind));
    }
    let known: BTreeSet<u16> = kind::ALL.iter().map(|(number, _)| *number).collect();
    assert_eq!(kinds, known);
}

#[test]
fn the_golden_files_stay_small_and_each_belongs_to_a_log() {
    let names: BTreeSet<String> =
        LOGS.iter().flat_map(|(name, _)| [format!("{name}.ndjson"), format!("{name}.states")]).collect();
    for (name, make) in LOGS {
        opened(name, make);
    }
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder()).unwrap().map(Result::unwrap) {
        assert!(names.contains(&entry.file_name().into_string().unwrap()), "{:?}", entry.file_name());
        bytes += entry.metadata().unwrap().len();
    }
    assert!(bytes < BYTES_MAX, "{bytes}");
}
