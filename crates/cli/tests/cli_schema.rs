//! `schema`: the schemas are compared with what the commands print.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use binary::{Place, small_log};
use proto_events::json;
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::tool::{ToolContext, ToolPolicy};
use taskreel::{JsonSchema, Part, System};

type Json = serde_json::Value;

fn parsed(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the schemas of a command, by their names.
fn schemas(place: &Place, command: &str) -> BTreeMap<String, Json> {
    let all = parsed(&place.run(&format!("schema {command}")).ended(0).out());
    all.into_iter().map(|schema| (schema["title"].as_str().unwrap().to_owned(), schema)).collect()
}

/// The fields whose contents users, tools and models decide, or the kind of an event.
const FREE: [&str; 24] = [
    "args",
    "asked_args",
    "after",
    "agents",
    "before",
    "content",
    "data",
    "events",
    "flow_state",
    "input_schema",
    "metadata",
    "model",
    "parameters",
    "payload",
    "params",
    "result",
    "security",
    "securityRequirements",
    "securitySchemes",
    "signatures",
    "system_prompt",
    "tool_calls",
    "tools",
    "value",
];

/// Fails the test if a schema says of a field no more than that it is an object or anything, where the field's contents are
/// ours.
fn is_deep(schema: &Json, field: &str, place: &str) {
    let is_free = || FREE.contains(&field);
    if let Some(any) = schema.get("anyOf") {
        return any.as_array().unwrap().iter().for_each(|one| is_deep(one, field, place));
    }
    match schema["type"].as_str() {
        Some("object") => {
            let properties = schema.get("properties").and_then(Json::as_object);
            let values = schema.get("additionalProperties");
            assert!(properties.is_some() || values.is_some() || is_free(), "{place}.{field} is any object");
            properties
                .into_iter()
                .flatten()
                .for_each(|(name, inner)| is_deep(inner, name, &format!("{place}.{field}")));
            if let Some(inner) = values {
                is_deep(inner, field, place);
            }
        }
        Some("array") => is_deep(&schema["items"], field, place),
        Some(_) => {}
        None => assert!(schema.get("const").is_some() || is_free(), "{place}.{field} is anything"),
    }
}

/// Fails the test if a value has a member, at any depth, that the schema does not describe.
fn described(schema: &Json, value: &Json, place: &str) {
    if let Some(any) = schema.get("anyOf") {
        let fits = |one: &&Json| jsonschema::is_valid(one, value);
        let fitting = any.as_array().unwrap().iter().find(fits);
        return described(fitting.unwrap_or_else(|| panic!("{place}: {value}")), value, place);
    }
    match (value, schema.get("properties"), schema.get("additionalProperties"), schema.get("items")) {
        (Json::Object(members), Some(properties), ..) => {
            for (name, inner) in members {
                let known = properties.get(name).unwrap_or_else(|| panic!("the schema lacks {place}.{name}"));
                described(known, inner, &format!("{place}.{name}"));
            }
        }
        (Json::Object(members), None, Some(of), _) => {
            members.iter().for_each(|(name, inner)| described(of, inner, &format!("{place}.{name}")));
        }
        (Json::Array(values), _, _, Some(of)) => {
            for inner in values {
                described(of, inner, place);
            }
        }
        _ => {}
    }
}

/// Checks each line that a command prints, and returns the names of the schemas that were used.
fn check(place: &Place, line: &str) -> BTreeSet<String> {
    let command = line.split(' ').next().unwrap();
    let known = schemas(place, command);
    let ran = place.run(&format!("{line} --json"));
    assert!(matches!(ran.code(), Some(0 | 1)), "{line}: {}", ran.err());
    let mut used = BTreeSet::new();
    for said in parsed(&ran.out()) {
        let is_it = |(name, schema): &(&String, &Json)| match said.get("schema").and_then(Json::as_str) {
            Some(named) => name.as_str() == named,
            None => !name.contains('/') && jsonschema::is_valid(schema, &said),
        };
        let (name, schema) =
            known.iter().find(is_it).unwrap_or_else(|| panic!("{line}: no schema for {said}"));
        let validator = jsonschema::validator_for(schema).unwrap();
        let faults: Vec<_> = validator.iter_errors(&said).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{line}: {faults:?} in {said}");
        described(schema, &said, &format!("{line}: {name}"));
        used.insert(name.clone());
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
        "state s:ask-0001",
        "state system-0",
        "state agent-agent",
        "show system-0",
        "show agent-agent",
        "diff ask-0001 1 9 --patch",
        "diff ask-0001 4 5 --patch",
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
        "session-history",
        "programs",
        "definition",
        "patch",
        "record",
        "export-end",
    ] {
        assert!(used.contains(name), "{name} was not printed: {used:?}");
    }
}

#[test]
fn what_is_printed_of_a_run_by_search_and_drawings_is_what_its_schema_says() {
    let place = small_log();
    std::fs::write(place.path().join("log.ndjson"), place.run("export").ended(0).out()).unwrap();
    for (line, name) in [
        ("trace ask-0001", "taskreel.trace/1"),
        ("trace bad-0001", "taskreel.trace/1"),
        ("seq ask-0001", "taskreel.sequence/1"),
        ("graph ask-0001", "taskreel.cause/1"),
        ("transcript ask-0001", "taskreel.transcript/1"),
        ("open log.ndjson", "taskreel.open/1"),
        ("search Oslo", "taskreel.hit/1"),
        ("search Oslo --count", "taskreel.search/1"),
    ] {
        assert_eq!(check(&place, line), BTreeSet::from([name.to_owned()]), "{line}");
    }
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A log of a tool that keeps state, of one that a person was asked about twice, and of questions.
fn varied() -> Place {
    let place = Place::new();
    let dir = place.path().join("taskreel-log");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let keeps = |context: ToolContext, _: Nothing| async move {
            context.state().put("last", "kept", proto_events::id::Version(0))
        };
        let asks = |context: ToolContext, _: Nothing| async move { context.ask("Which one?").await };
        let pays = |_: Nothing| async { Ok::<_, Infallible>(7) };
        let policy = ToolPolicy::manual().capabilities(["money.spend"]);
        let system = System::builder(&dir)
            .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
            .approvals_by_person()
            .tool("keep", "Keeps", keeps)
            .tool("choose", "Chooses", asks)
            .tool_with("pay", "Pays", pays, policy)
            .start()
            .await
            .unwrap();
        for tool in ["keep", "choose", "pay", "pay", "pay"] {
            let part = Part::tool_call(tool, json!({})).unwrap();
            system.submit(part).await.unwrap().finished().await.unwrap();
        }
        system.shutdown().await.unwrap();
    });
    place
}

#[test]
fn what_is_printed_of_approvals_questions_state_and_damage_is_what_its_schema_says() {
    let place = varied();
    let rows = parsed(&place.run("calls --json").ended(0).out());
    let approvals: Vec<&Json> = rows.iter().filter(|row| row["approval_id"].is_string()).collect();
    let question = rows.iter().find(|row| row["question_id"].is_string()).unwrap();
    let named = |row: &Json, field: &str| row[field].as_str().unwrap().to_owned();
    let decided =
        |at: usize| format!("{} {}", named(approvals[at], "task"), named(approvals[at], "approval_id"));
    let mut used = BTreeSet::new();
    for line in [
        "calls".to_owned(),
        "attention".to_owned(),
        format!("approve {}", decided(0)),
        format!("deny {} --reason no", decided(1)),
        format!("cancel {}", named(approvals[2], "task")),
        format!("answer {} --decline no", named(question, "question_id")),
        format!("show {}", named(approvals[0], "task")),
        format!("show {}", named(approvals[1], "task")),
        format!("show {}", named(question, "task")),
        format!("explain {}", named(question, "task")),
        "explain keep".to_owned(),
        "show keep".to_owned(),
        "state keep".to_owned(),
        "ls --tools".to_owned(),
        "events --all".to_owned(),
    ] {
        used.extend(check(&place, &line));
    }
    let export = place.run("export").ended(0).out();
    std::fs::write(place.path().join("forged.ndjson"), export.replacen("Keeps", "Takes", 1)).unwrap();
    used.extend(check(&place, "verify --file forged.ndjson"));
    let db = place.path().join("taskreel-log/db");
    let mut bytes = std::fs::read(&db).unwrap();
    let name = named(question, "task").into_bytes();
    let at = bytes.windows(name.len()).position(|piece| piece == name).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&db, bytes).unwrap();
    used.extend(check(&place, "salvage taskreel-log saved.ndjson"));
    for name in
        ["taskreel.decision/1", "tool-state", "taskreel.finding/1", "taskreel.verify/1", "taskreel.gap/1"]
    {
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
        is_deep(schema, "", schema["title"].as_str().unwrap());
    }
    let help = place.run("--help").ended(0).out();
    let commands = help.split("Commands:").nth(1).unwrap().lines().skip(1);
    let names =
        commands.take_while(|line| line.starts_with("  ")).filter_map(|line| line.split_whitespace().next());
    let mut seen = 0;
    for name in names.filter(|name| !["completions", "man", "schema", "help", "report", "tui"].contains(name))
    {
        if help.contains(&format!("\n  {name} ")) {
            assert!(!schemas(&place, name).is_empty(), "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 24, "{seen}");
    place.run("schema man").ended(2).told(&["no schema for `man`", "show"]);
}
