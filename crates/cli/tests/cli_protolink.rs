//! Tasks recorded from Protolink, executed by `taskreel run`: they end in Protolink's state and with its
//! outputs, except for our deliberate differences.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

mod binary;

use binary::Place;
use proto_events::json::JsonValue as Value;

/// Whether `run` can execute the case: not those that need what it has no flag for (policies, approvals,
/// remote agents, the control plane), or that drive a task from outside.
fn is_for_run(case: &Value) -> bool {
    let agent = case["input"]["agent"].as_object().unwrap();
    let steps = case["input"]["steps"].as_array().unwrap();
    let guarded = agent.get("tools").is_some_and(|tools| tools.to_string().contains("guarded"));
    agent.keys().all(|key| key == "tools" || key == "llm_script")
        && !guarded
        && matches!(steps.as_slice(), [step] if step.get("task").is_some() && step.as_object().unwrap().len() == 1)
}

/// The cases with a deliberate difference, and its reason.
const OTHERWISE: [(&str, &str); 3] = [
    ("tool_raises_empty_message", "an error without words is an error too: the task fails"),
    (
        "infer_output_schema_ignored",
        "an answer that does not fit the schema that was asked for is told once, then fails",
    ),
    ("infer_tool_bad_args", "the model is told what is wrong with its arguments and may mend them"),
];

/// Whether a value is as expected; generated ids and times are placeholders in the expected value.
fn fits(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(text), _) if text.starts_with('<') => true,
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| fits(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(key, one)| two.get(key).is_some_and(|two| fits(one, two)))
        }
        _ => expected == found,
    }
}

#[test]
fn tasks_that_protolink_executed_end_here_as_they_ended_there() {
    let fixture = include_str!("../../../tests/fixtures/protolink/execute_task.json");
    let fixture: Value = serde_json::from_str(fixture).unwrap();
    let mut compared = 0;
    let mut wrong = Vec::new();
    for case in fixture["cases"].as_array().unwrap().iter().filter(|case| is_for_run(case)) {
        let name = case["name"].as_str().unwrap();
        let step = &case["expected"]["steps"][0];
        let expected = if step["task"].is_object() { &step["task"] } else { step };
        let place = Place::new();
        let agent = &case["input"]["agent"];
        let mut more = "";
        if agent["llm_script"].is_array() {
            std::fs::write(place.path().join("script.json"), agent["llm_script"].to_string()).unwrap();
            more = "--script script.json";
        }
        let ran = place.run_tasks(&case["input"]["steps"][0]["task"].to_string(), more);
        let found = ran.json().pop().unwrap_or_default();
        compared += 1;
        let same =
            ["state", "artifacts", "messages"].into_iter().all(|key| fits(&expected[key], &found[key]));
        if same == OTHERWISE.iter().any(|(known, _)| *known == name) {
            wrong.push(format!("{name}: {} {}\n{}", found["state"], found["artifacts"], ran.err()));
        }
    }
    assert!(compared >= 40, "{compared} cases only");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}
