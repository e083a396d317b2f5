//! Filters of events, calls, stats and export, on a log and on an export of it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;
mod looking;
mod served;
mod tui;

use binary::{Place, small_log};
use proto_events::json;
use proto_events::json::JsonValue as Value;

fn kinds(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["kind"].as_str().unwrap()).collect()
}

/// Returns the same rows of the log and of its export.
fn rows(place: &Place, line: &str) -> Vec<Value> {
    let rows = place.run(&format!("{line} --json")).ended(0).json();
    let file = place.path().join("log.ndjson");
    if !file.exists() {
        std::fs::write(&file, place.run("export").ended(0).out()).unwrap();
    }
    assert_eq!(place.run(&format!("{line} --json --file log.ndjson")).ended(0).json(), rows, "{line}");
    rows
}

#[test]
fn events_are_filtered_by_each_field() {
    let place = small_log();
    let all = rows(&place, "events --all");
    let of = |keep: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        all.iter().filter(|row| keep(row)).cloned().collect()
    };
    let by_kind = rows(&place, "events --all --kind callfailed,StateChanged");
    assert_eq!(by_kind, of(&|row| row["kind"] == "CallFailed" || row["kind"] == "StateChanged"));
    let calls = rows(&place, "events --all --kind call");
    assert_eq!(calls, of(&|row| (200..300).contains(&row["kind_number"].as_u64().unwrap())));
    let lookup = rows(&place, "events --all --tool lookup");
    assert_eq!(kinds(&lookup), ["CallRequested", "CallDispatched", "CallSucceeded"]);
    let ended = rows(&place, "events --all --tool lookup --kind CallSucceeded");
    assert_eq!(ended.len(), 1);
    let session = rows(&place, "events --all --session ask-0001");
    assert_eq!(session, of(&|row| row["id"] == "ask-0001"));
    assert!(session.iter().any(|row| row["stream"].as_str().unwrap().starts_with("session-")));
    assert_eq!(
        rows(&place, "events --all --agent agent").len(),
        of(&|row| row["stream"] != "system-0").len()
    );
    assert!(rows(&place, "events --all --agent other").is_empty());
    let oslo = rows(&place, "events --all --text OSLO --kind CallRequested");
    assert_eq!((oslo.len(), &oslo[0]["payload"]["target"]), (1, &json!("lookup")));
}

#[test]
fn what_is_negated_is_left_out_and_the_newest_come_last() {
    let place = small_log();
    let all = rows(&place, "events ask-0001");
    let rest = rows(&place, "events ask-0001 --not kind=call --not text=oslo");
    assert!(!rest.is_empty() && rest.len() < all.len());
    assert!(rest.iter().all(|row| !row["kind"].as_str().unwrap().starts_with("Call")), "{rest:#?}");
    assert_eq!(rows(&place, "events ask-0001 --limit 2"), all[all.len() - 2..]);
    assert_eq!(rows(&place, "events ask-0001 --limit 0"), all);
    assert_eq!(rows(&place, "events ask-0001 --limit 1 --kind CallRequested")[0]["payload"]["kind"], "infer");
    place.run("events --all --not colour=red").ended(2).told(&["colour=red"]);
}

#[test]
fn times_bound_what_is_shown_in_each_of_their_forms() {
    let place = small_log();
    let all = rows(&place, "events --all");
    let third = all[2]["at"].as_str().unwrap();
    let since = rows(&place, &format!("events --all --since {third}"));
    assert!(since.len() < all.len() && since[0]["at"].as_str().unwrap() == third, "{since:#?}");
    let until = rows(&place, &format!("events --all --until {third}"));
    assert_eq!(since.len() + until.len(), all.len());
    assert_eq!(rows(&place, "events --all --since 1h").len(), all.len());
    assert!(rows(&place, "events --all --until 1h").is_empty());
    assert_eq!(rows(&place, "events --all --since 2000-01-01 --until 2999-12-31").len(), all.len());
    for wrong in ["--since yesterday", "--until 2026-13-01", "--since -1h", "--since 2"] {
        place.run(&format!("events --all {wrong}")).ended(2);
    }
}

#[test]
fn stats_sums_the_calls_that_a_filter_takes() {
    let place = small_log();
    let calls = |line: &str| rows(&place, line)[0]["calls"].as_u64().unwrap();
    assert_eq!(calls("stats"), 5);
    assert_eq!(calls("stats --tool fail"), 1);
    assert_eq!(calls("stats --kind infer"), 2);
    assert_eq!(calls("stats --not kind=infer"), 3);
    assert_eq!(calls("stats --session ask-0001"), 3);
    assert_eq!(calls("stats --text oslo"), 1);
    assert_eq!(calls("stats --limit 2"), 2);
    assert!(rows(&place, "stats --until 1h").is_empty());
}

#[test]
fn an_unknown_kind_is_refused_with_the_kinds_there_are() {
    let place = small_log();
    place.run("events --all --kind CallExploded").ended(2).told(&["callexploded", "CallFailed"]);
    place.run("stats --kind CallFailed").ended(2).told(&["callfailed", "infer"]);
    place.run("calls --not kind=x").ended(2).told(&["`x` is not a kind of calls"]);
}

#[test]
fn a_filtered_export_is_an_extract_of_whole_records_that_is_no_log() {
    let place = small_log();
    let whole = place.run("export").ended(0).json();
    let ran = place.run("export --tool lookup").ended(0);
    assert!(ran.err().contains("cannot be imported"), "{}", ran.err());
    let lines = ran.json();
    assert_eq!((&lines[0]["schema"], &lines[0]["log"]), (&json!("taskreel.extract/1"), &whole[0]["log"]));
    let records = &lines[1..lines.len() - 1];
    assert_eq!(records.len(), 2, "intent and dispatch are one append");
    assert!(records.iter().all(|record| whole.contains(record)));
    assert_eq!(lines.last().unwrap()["records"], 2);
    let newest = place.run("export --tool lookup --limit 1").ended(0).json();
    assert_eq!(newest[1], records[1]);
    std::fs::write(place.path().join("part.ndjson"), ran.out()).unwrap();
    let verified = place.run("verify --file part.ndjson --json").ended(0).json();
    assert_eq!((&verified[0]["records"], &verified[0]["faults"]), (&json!(2), &json!(0)));
    assert_eq!((&verified[0]["root"], &verified[0]["not_checked"][3].is_string()), (&Value::Null, &true));
    let told = place.run("verify --file part.ndjson").ended(0).out();
    assert!(told.contains("not checked: whether records that fit the filter are missing"), "{told}");
    place.run("verify sum-0001 --file part.ndjson").ended(2).told(&["extract"]);
    place.run("import part.ndjson --data-dir new").ended(5).told(&["it is an extract"]);
    place.run("ls --file part.ndjson").ended(5).told(&["it is an extract"]);
}

#[test]
fn what_was_changed_in_an_extract_is_named_by_its_line() {
    let place = small_log();
    let whole = place.run("export --session ask-0001").ended(0).out();
    let whole = if whole.lines().count() > 4 {
        whole
    } else {
        place.run("export --kind StateChanged").ended(0).out()
    };
    let lines: Vec<&str> = whole.lines().collect();
    assert!(lines.len() > 4, "{whole}");
    let verify = |lines: &[&str]| {
        std::fs::write(place.path().join("x.ndjson"), lines.join("\n")).unwrap();
        place.run("verify --file x.ndjson --json")
    };
    verify(&lines).ended(0);
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat();
    let mut swapped = lines.clone();
    swapped.swap(1, 2);
    let other = |from: &str, to: &str| {
        let line = lines[1].replacen(from, to, 1);
        assert_ne!(line, lines[1], "{from}");
        line
    };
    let (version, words) =
        (other("\"first_version\":", "\"first_version\":1"), other("\"at\":\"2", "\"at\":\"1"));
    let changed = |line: &'_ str| [&lines[..1], &[line], &lines[2..]].concat().join("\n");
    let (version, words) = (changed(&version), changed(&words));
    let end = lines.len() - 1;
    for (lines, kind) in [
        (without(end), "position"),
        (without(1), "position"),
        (swapped, "position"),
        (version.lines().collect(), "unreadable"),
        (words.lines().collect(), "words"),
        ([&lines[..], &lines[1..2]].concat(), "unreadable"),
    ] {
        let found = verify(&lines).ended(1).json();
        assert_eq!(found[0]["kind"], kind, "{found:#?}");
    }
}

#[test]
fn a_session_is_named_as_lists_print_it() {
    let place = small_log();
    let named = rows(&place, "events --all --session ask-0001");
    assert!(named.iter().any(|row| row["stream"] == "session-agent/ask-0001"), "{named:#?}");
    let printed = place.run("events --all").ended(0).out();
    assert!(printed.contains("s:ask-0001"), "{printed}");
    for form in ["s:ask-0001", "session-agent/ask-0001"] {
        assert_eq!(rows(&place, &format!("events --all --session {form}")), named, "{form}");
        let others = rows(&place, &format!("events --all --not session={form}"));
        assert_eq!(others, rows(&place, "events --all --not session=ask-0001"), "{form}");
    }
    let stats = rows(&place, "stats --session ask-0001");
    assert_eq!(rows(&place, "stats --session s:ask-0001"), stats);
    let export = |form: &str| place.run(&format!("export --session {form}")).ended(0).out();
    assert_eq!(export("s:ask-0001"), export("ask-0001"));
}

#[test]
fn calls_that_wait_and_do_not_fit_the_filter_are_not_said_to_be_none() {
    let place = Place::new();
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tui/tests/demo.ndjson");
    let ran = place.run(&format!("calls --file {log} --tool none-such")).ended(0);
    assert!(ran.err().contains("none of 3 calls that wait fits"), "{}", ran.err());
    assert!(!ran.err().contains("no call is open"), "{}", ran.err());
}
