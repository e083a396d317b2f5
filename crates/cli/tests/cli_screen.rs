//! The texts that reach a screen: whole arguments where a person decides, and no character that hides or turns what is said.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use binary::Place;
use proto_events::json;
use proto_events::json::JsonValue as Value;
use serde::Deserialize;
use taskreel::tool::ToolContext;
use taskreel::{JsonSchema, Part, System, TaskState};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

const HIDDEN: &str = "Ada\u{202e}dr\u{200b}ow\u{2066}ssap\u{feff}";

fn task(id: &str, tool: &str, args: &Value) -> String {
    let part = json!({"type": "tool_call", "content": {"tool_name": tool, "args": args, "call_id": "c"}});
    json!({"id": id, "messages": [{"id": "m", "role": "user", "parts": [part]}]}).to_string()
}

#[test]
fn arguments_that_a_person_decides_about_are_whole() {
    let place = Place::new();
    // Longer than any line is cut at, and with characters that turn or hide what follows.
    let to = format!("slow-bank{} {HIDDEN} END", ", a long purpose".repeat(40));
    place.run_tasks(&task("pay-0001", "pay", &json!({"to": to.as_str(), "cents": 5})), "").ended(0);
    let shown = to.replace('\u{202e}', "\\u202e").replace('\u{200b}', "\\u200b");
    let shown = shown.replace('\u{2066}', "\\u2066").replace('\u{feff}', "\\ufeff");
    for (line, code) in [("calls", 0), ("attention", 1)] {
        let out = place.run(line).ended(code).out();
        assert!(out.contains(&format!(r#""to":"{shown}""#)) && out.contains(r#""cents":5"#), "{line}: {out}");
        assert!(!out.contains(['\u{202e}', '\u{200b}', '\u{2066}', '\u{feff}']), "{line}: {out:?}");
    }
    let long = format!("{}END", "a long purpose, ".repeat(40));
    place.run_tasks(&task("echo-0001", "echo", &json!({"text": long})), "").ended(0);
    assert!(!place.run("events echo-0001").ended(0).out().contains("END"), "a list cuts");
    assert!(place.run("events echo-0001 --full").ended(0).out().contains("END"));
}

#[test]
fn a_question_that_a_person_answers_is_whole() {
    let place = Place::new();
    let dir = place.path().join("taskreel-log");
    let question = format!("Which of these accounts is meant{}, or none? END", ", the next one".repeat(40));
    let asked = question.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let asks = move |context: ToolContext, _: Nothing| {
            let question = asked.clone();
            async move { context.ask(&question).await }
        };
        let system = System::builder(&dir).tool("choose", "Chooses", asks).start().await.unwrap();
        let waits = system.submit(Part::tool_call("choose", json!({})).unwrap()).await.unwrap();
        assert_eq!(waits.finished().await.unwrap().state(), TaskState::InputRequired);
        system.shutdown().await.unwrap();
    });
    for (line, code) in [("calls", 0), ("attention", 1)] {
        let out = place.run(line).ended(code).out();
        assert!(out.contains(&question), "{line}: {out}");
    }
}

#[test]
fn characters_that_hide_or_turn_a_text_are_shown_as_escapes() {
    let place = Place::new();
    place.run_tasks(&task("hidden-1", "echo", &json!({"text": HIDDEN})), "").ended(0);
    for line in ["show hidden-1", "events hidden-1 --full", "event hidden-1 4", "diff hidden-1 1 8", "ls"] {
        let out = place.run(line).out();
        let harmful = ['\u{202e}', '\u{200b}', '\u{2066}', '\u{feff}'];
        assert!(!out.contains(harmful), "{line}: {out:?}");
    }
    let shown = place.run("show hidden-1").ended(0).out();
    for escape in ["\\u202e", "\\u200b", "\\u2066", "\\ufeff"] {
        assert!(shown.contains(escape), "{escape} is not in {shown}");
    }
    // For programs nothing is changed.
    let state = place.run("state hidden-1").ended(0).json();
    assert_eq!(state[0]["artifacts"][0]["parts"][0]["content"]["result"], HIDDEN);
}

#[test]
fn logs_in_json_have_no_colours_whatever_was_asked_for() {
    let place = Place::new();
    let task = task("sum-0001", "add", &json!({"a": 1, "b": 2}));
    let ran = place.run_tasks(&task, "--log-format json --color always").ended(0);
    assert!(ran.err().lines().any(|line| line.starts_with('{')), "{}", ran.err());
    assert!(!ran.err().contains('\u{1b}') && !ran.err().contains("\\u001b"), "{}", ran.err());
}
