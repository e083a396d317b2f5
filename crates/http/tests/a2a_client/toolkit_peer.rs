//! The real a2a-utils beside ours: generated cases that both answer, and its tools at our server. `TASKREEL_A2A_PYTHON` names a
//! Python that has it, as `tests/interop/venv` makes one; `TASKREEL_TOOLKIT_CASES` is the number of cases of each area. Where
//! `CI=true`, a Python that is missing is a failure.
#![cfg(unix)]

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel_http::a2a::{A2aAgents, A2aTools};

use crate::agent::{Gate, agent};
use crate::deviations::RULES;
use crate::ours::handler;
use crate::support::actix;
use crate::toolkit_cases::generated::cases;
use crate::toolkit_cases::{AREAS, Case, run};

/// The cases of each area where nothing else is asked for.
const COUNT: usize = 30;

fn python() -> Option<OsString> {
    let python = std::env::var_os("TASKREEL_A2A_PYTHON");
    if python.is_none() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "TASKREEL_A2A_PYTHON is not set");
        eprintln!("not tried: TASKREEL_A2A_PYTHON is not set");
    }
    python
}

fn script() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/interop/a2a/toolkit.py"))
}

fn answered(python: &OsString, cases: &Value) -> Vec<Value> {
    let mut command = Command::new(python);
    let mut child = command.arg(script()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, given) = (child.stdin.take().unwrap(), cases.to_string());
    let writer = std::thread::spawn(move || stdin.write_all(given.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let answers = Value::parse(&String::from_utf8(output.stdout).unwrap()).unwrap();
    answers.as_array().unwrap().clone()
}

#[test]
fn generated_cases_are_answered_as_a2a_utils_answers_them() {
    let Some(python) = python() else { return };
    let count = std::env::var("TASKREEL_TOOLKIT_CASES").map_or(COUNT, |count| count.parse().unwrap());
    let mut areas = Vec::new();
    for (area, inputs) in cases(count) {
        let case = |(at, input): (usize, Value)| json!({"area": area, "name": at.to_string(), "version": "0.7.3", "ordered_keys": area == "tools", "input": input});
        let cases: Value = inputs.into_iter().enumerate().map(case).collect();
        let answers = answered(&python, &cases).into_iter().map(|whole| Case { whole });
        areas.push((area.to_owned(), answers.collect::<Vec<_>>()));
    }
    let report = run(&areas, AREAS, &[], RULES);
    println!("{report}");
    let beginning = |text: &str| text.chars().take(1_500).collect::<String>();
    let told = |fault: &String| {
        let (area, rest) = fault.split_once('/').unwrap_or_default();
        let name = rest.split(':').next().unwrap_or_default();
        let all = areas.iter().filter(|(other, _)| other == area).flat_map(|(_, cases)| cases);
        let case = all.into_iter().find(|case| case.name() == name);
        let case = case.map(|case| case.whole.to_string()).unwrap_or_default();
        format!("{}\n  {}", beginning(fault), beginning(&case))
    };
    let faults: Vec<String> = report.faults().iter().take(10).map(told).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", report.faults().len(), faults.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_of_a2a_utils_read_of_our_server_what_ours_read() {
    let Some(python) = python() else { return };
    let gate = Gate::shut();
    let system = agent(&gate).await;
    let host = actix(handler(&system)).await;
    let url = format!("http://{}", host.address);
    let mut command = tokio::process::Command::new(python);
    let output =
        command.arg(script()).arg(&url).stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let steps: Vec<Value> = printed.lines().map(|line| Value::parse(line).unwrap()).collect();
    let step = |name: &str| {
        let step = steps.iter().find(|step| step["step"] == name);
        step.map_or_else(|| panic!("no {name}: {printed}"), |step| step["told"].clone())
    };
    assert_eq!(step("text")["parts"][0]["text"], "one");
    assert_eq!(step("data")["parts"][0]["data"], 42);
    assert_eq!(step("ask")["status"]["state"], "input-required");
    assert_eq!(
        (&step("answer")["id"], &step("answer")["status"]["state"]),
        (&step("ask")["id"], &"completed".into())
    );
    assert_eq!(step("wait")["status"]["state"], "working");

    // Ours reads the same of the same tasks.
    let tools = A2aTools::from(A2aAgents::new().agent("ours", &url));
    let done = step("report");
    let place = |artifact: usize, key: &str, value: Value| {
        let id = done["artifacts"][artifact]["artifact_id"].clone();
        let mut args = json!({"agent_id": "ours", "task_id": done["id"].clone(), "artifact_id": id});
        args[key] = value;
        args
    };
    let none = json!({"agent_id": "ours", "task_id": done["id"].clone(), "artifact_id": "none"});
    let same = [
        ("agents", "get_agents", json!({})),
        ("agent", "get_agent", json!({"agent_id": "ours"})),
        ("report", "get_task", json!({"agent_id": "ours", "task_id": done["id"].clone()})),
        ("get", "get_task", json!({"agent_id": "ours", "task_id": done["id"].clone()})),
        ("text", "view_text_artifact", place(0, "character_end", 3.into())),
        ("data", "view_data_artifact", place(1, "json_path", "count".into())),
        ("missing", "view_text_artifact", none),
    ];
    for (name, tool, args) in same {
        assert_eq!(tools.call(tool, &args).await.to_string(), step(name).to_string(), "{name}");
    }
    gate.open();
    host.stop().await;
    system.shutdown().await.unwrap();
}
