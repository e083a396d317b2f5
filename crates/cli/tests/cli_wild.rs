//! Tasks as the wild writes them: texts with escapes and control characters, odd ids, numbers that do not fit, times without a zone.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod binary;

use std::path::PathBuf;

use binary::{Place, Ran, run};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/wild").join(name)
}

/// Returns a place whose log has the tasks of a file, and the ids of these.
fn with(name: &str) -> (Place, Vec<String>) {
    let place = Place::new();
    let path = file(name);
    run(&mut place.command(["run", path.to_str().unwrap()])).ended(0);
    let ids = std::fs::read_to_string(&path).unwrap();
    let ids = ids.lines().map(|line| {
        let task: serde_json::Value = serde_json::from_str(line).unwrap();
        task["id"].as_str().unwrap().to_owned()
    });
    (place, ids.collect())
}

fn ran(place: &Place, words: &[&str]) -> Ran {
    run(&mut place.command(words))
}

#[test]
fn a_search_finds_what_a_person_reads_also_where_json_within_a_text_has_escapes() {
    let (place, _) = with("audit/U01-escaped-text.ndjson");
    for words in [
        &["search", "内部", "--json"][..],
        &["search", "内.", "--regex", "--json"],
        &["search", "zürich", "--json"],
    ] {
        let hits = ran(&place, words).ended(0).json();
        let found: Vec<_> =
            hits.iter().filter_map(|hit| Some(hit.get("stream")?.as_str()?.to_owned())).collect();
        for id in ["u01-1", "u01-2"] {
            assert!(found.iter().any(|stream| stream.ends_with(id)), "{words:?}: {found:?}");
        }
    }
    ran(&place, &["search", "内外"]).ended(1);
}

#[test]
fn every_id_reaches_its_own_task_however_it_looks() {
    let (place, ids) = with("audit/U02-odd-ids.ndjson");
    assert!(ids.len() > 5);
    for id in &ids {
        for command in ["state", "show", "events"] {
            let said = ran(&place, &[command, "--", id]).ended(0);
            assert!(!said.out().is_empty(), "{command} {id}");
        }
        let state: serde_json::Value =
            serde_json::from_str(&ran(&place, &["state", "--json", "--", id]).ended(0).out()).unwrap();
        assert!(state.to_string().contains(&serde_json::to_string(id).unwrap()), "{id}: {state}");
    }
    let listed = ran(&place, &["ls", "--json"]).ended(0).json();
    assert_eq!(listed.len(), ids.len());
}

#[test]
fn numbers_stay_as_they_came_in_every_view() {
    let (place, ids) = with("audit/U03-numbers.ndjson");
    for words in [&["state", &ids[0]][..], &["events", &ids[0], "--json"], &["export"]] {
        let said = ran(&place, words).ended(0).out().replace(' ', "");
        for number in
            ["2916334247900527532", "-1449639299451211264", "1180591620717411303424", "1.0", "1e3", "5e-324"]
        {
            assert!(said.contains(number), "{words:?} has not {number}: {said}");
        }
    }
}

#[test]
fn control_characters_are_kept_and_steer_no_terminal_and_half_a_character_is_refused_by_its_place() {
    let (place, ids) = with("durable/D04-control-characters.ndjson");
    let before = ran(&place, &["state", &ids[0], "--json"]).ended(0).out();
    for word in ["\\u0000", "\\u001b[31m", "\\u0007"] {
        assert!(before.contains(word), "{word}: {before}");
    }
    for command in ["show", "events", "state"] {
        let said = ran(&place, &[command, &ids[0]]).ended(0).out();
        assert!(!said.contains(['\u{1b}', '\u{7}', '\0', '\u{202e}']), "{command}: {said:?}");
    }
    std::fs::write(place.path().join("log.ndjson"), ran(&place, &["export"]).ended(0).out()).unwrap();
    ran(&place, &["import", "log.ndjson", "--data-dir", "again"]).ended(0);
    assert_eq!(ran(&place, &["state", &ids[0], "--json", "--data-dir", "again"]).ended(0).out(), before);
    ran(&place, &["verify", "--data-dir", "again"]).ended(0);

    let half = file("durable/D04-half-surrogate.ndjson");
    ran(&place, &["run", half.to_str().unwrap()]).ended(2).told(&["surrogate", "line 1", "byte 111"]);
}

#[test]
fn a_time_without_a_zone_is_kept_and_never_that_of_the_machine() {
    let path = file("durable/D05-naive-times.ndjson");
    let said = ["UTC", "Pacific/Auckland", "America/St_Johns"].map(|zone| {
        let place = Place::new();
        let with_zone = |words: &[&str]| run(place.command(words).env("TZ", zone)).ended(0).out();
        let told = with_zone(&["run", path.to_str().unwrap()]);
        assert!(
            told.contains("\"2026-11-28T09:30:00.123\"") && told.contains("\"2026-11-28T09:30:00+14:00\""),
            "{told}"
        );
        let rows = with_zone(&["ls", "--json"]);
        assert_eq!(rows.lines().count(), 2);
        let states = ["d05-1", "d05-2"].map(|id| {
            let state: serde_json::Value =
                serde_json::from_str(&with_zone(&["state", id, "--json"])).unwrap();
            [state["messages"].clone(), state["created_at"].clone()]
        });
        assert!(states[0][0].is_array(), "{states:?}");
        serde_json::to_string(&states).unwrap()
    });
    assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
}
