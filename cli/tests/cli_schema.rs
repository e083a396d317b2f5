//! `schema`: the schemas are compared with what the commands print.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use std::collections::{BTreeMap, BTreeSet};

use binary::{Place, small_log};

type Json = serde_json::Value;

fn parsed(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the schemas of a command, by their names.
fn schemas(place: &Place, command: &str) -> BTreeMap<String, Json> {
    let all = parsed(&place.run(&format!("schema {command}")).ended(0).out());
    all.into_iter().map(|schema| (schema["title"].as_str().unwrap().to_owned(), schema)).collect()
}

/// Checks each line that a command prints, and returns the names of the schemas that were used.
fn check(place: &Place, line: &str) -> BTreeSet<String> {
    let command = line.split(' ').next().unwrap();
    let known = schemas(place, command);
    let ran = place.run(&format!("{line} --json"));
    assert!(matches!(ran.code(), Some(0 | 1)), "{line}: {}", ran.err());
    let mut used = BTreeSet::new();
    for said in parsed(&ran.out()) {
        let name = said["schema"].as_str().unwrap_or("task").to_owned();
        let Some(schema) = known.get(&name) else {
            assert!(command == "export" && name == "task", "{line}: no schema for {said}");
            continue;
        };
        let validator = jsonschema::validator_for(schema).unwrap();
        let faults: Vec<_> = validator.iter_errors(&said).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{line}: {faults:?} in {said}");
        let fields = schema["properties"].as_object().unwrap();
        for key in said.as_object().unwrap().keys() {
            assert!(fields.contains_key(key), "{line}: the schema {name} lacks `{key}`");
        }
        used.insert(name);
    }
    used
}

/// A log with tasks of all ends, among them a payment that waits for a person.
fn log() -> Place {
    let place = small_log();
    let pay = r#"{"id":"pay-0001","messages":[{"id":"m","role":"user","parts":[{"type":"tool_call","content":{"tool_name":"pay","args":{"to":"slow-bank","cents":5},"call_id":"c"}}]}]}"#;
    let twice = format!("{pay}\n{}", pay.replace("pay-0001", "pay-0002"));
    place.run_tasks(&twice, "").ended(0);
    place
}

#[test]
fn what_reading_commands_print_is_what_their_schemas_say() {
    let place = log();
    let shown = parsed(&place.run("show ask-0001 --json").ended(0).out());
    let infer = shown[0]["calls"][0]["call_id"].as_str().unwrap();
    let outputs = parsed(&place.run("artifact sum-0001 --json").ended(0).out());
    let output = outputs[0]["artifact"].as_str().unwrap();
    let mut used = BTreeSet::new();
    for line in [
        "artifact sum-0001",
        &format!("artifact sum-0001 {output}"),
        &format!("artifact sum-0001 {output} --summary"),
        &format!("artifact sum-0001 {output} --save out"),
        "ls",
        "ls --sessions",
        "ls --tools",
        "show ask-0001",
        "show pay-0001",
        "show s:ask-0001",
        "events --all",
        "event ask-0001 4",
        "attention",
        "state ask-0001",
        "replay --all",
        "doctor",
        "verify",
        "diff ask-0001 1 9",
        "diff sum-0001 ask-0001",
        "explain pay-0001",
        "explain s:ask-0001",
        "calls",
        "stats",
        "export",
        "export --tool add",
        &format!("prompt {infer}"),
    ] {
        used.extend(check(&place, line));
    }
    for name in [
        "taskreel.artifact/1",
        "taskreel.artifact-view/1",
        "taskreel.artifact-file/1",
        "taskreel.show/1",
        "taskreel.extract-end/1",
        "taskreel.step/1",
        "taskreel.attention/1",
        "taskreel.doctor/1",
    ] {
        assert!(used.contains(name), "{name} was not printed: {used:?}");
    }
}

#[test]
fn what_writing_commands_print_is_what_their_schemas_say() {
    let place = log();
    let calls = parsed(&place.run("calls --json").ended(0).out());
    let call = |at: usize| calls[at]["call_id"].as_str().unwrap().to_owned();
    assert_eq!(check(&place, &format!("reconcile {} --landed 1", call(0))).len(), 1);
    assert_eq!(check(&place, &format!("abandon {} --reason gone", call(1))).len(), 1);
    std::fs::write(place.path().join("log.ndjson"), place.run("export").ended(0).out()).unwrap();
    assert_eq!(check(&place, "import log.ndjson --data-dir copy").len(), 1);
    assert_eq!(check(&place, "salvage taskreel-log saved.ndjson").len(), 1);
    std::fs::write(place.path().join("t.json"), binary::TASKS).unwrap();
    assert_eq!(check(&place, "run t.json"), BTreeSet::from(["task".to_owned()]));
    assert_eq!(check(&place, "demo --tasks 2 --pace 0 --data-dir demo").len(), 2);
}

#[test]
fn every_command_that_prints_json_has_schemas_and_others_are_told() {
    let place = Place::new();
    let all = parsed(&place.run("schema").ended(0).out());
    assert!(all.len() > 20, "{} schemas", all.len());
    for schema in &all {
        assert!(jsonschema::meta::is_valid(schema), "{schema}");
    }
    let help = place.run("--help").ended(0).out();
    let commands = help.split("Commands:").nth(1).unwrap().lines().skip(1);
    let names =
        commands.take_while(|line| line.starts_with("  ")).filter_map(|line| line.split_whitespace().next());
    let mut seen = 0;
    for name in names.filter(|name| !["completions", "man", "schema", "help"].contains(name)) {
        if help.contains(&format!("\n  {name} ")) {
            assert!(!schemas(&place, name).is_empty(), "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 24, "{seen}");
    place.run("schema man").ended(2).told(&["no schema for `man`", "show"]);
}
