//! The action grammar compared with Protolink's recorded results, and tested with arbitrary input.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use proptest::prelude::*;
use proto_events::json::JsonValue as Value;
use taskreel::fidelity::{Action, AgentAction, extract_summary, parse_action, parse_reply, signature};

fn cases(area: &str) -> Vec<Value> {
    let folder = std::env::var("TASKREEL_FIXTURES")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures").to_owned());
    let text = std::fs::read_to_string(format!("{folder}/protolink/{area}.json")).unwrap();
    let area: Value = serde_json::from_str(&text).unwrap();
    let cases = area["cases"].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns our parser's result for one case's input: the fixture's `expected`, or its error text.
fn answer(input: &Value) -> Result<Value, String> {
    let tools = texts(&input["local_tools"]);
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let agents = input["agents"].as_object().into_iter().flatten();
    let agents: Vec<(String, Vec<String>)> =
        agents.map(|(name, skills)| (name.clone(), texts(skills))).collect();
    parse_reply(input["raw"].as_str().unwrap(), &tools, &agents)
        .map(|reply| reply.to_json())
        .map_err(|error| error.to_string())
}

#[test]
fn replies_are_read_as_protolink_reads_them() {
    for case in cases("llm_action_parse") {
        let answer = answer(&case["input"]);
        let name = &case["name"];
        if let Some(expected) = case.get("expected") {
            assert_eq!(answer.as_ref(), Ok(expected), "{name}");
        } else {
            // The texts are Python's and pydantic's; ours must fail and name the same kind of fault.
            let error = answer.expect_err("Protolink refuses this reply");
            let theirs = case["error"]["message"].as_str().unwrap();
            assert_eq!(
                error.starts_with("Invalid JSON"),
                theirs.starts_with("Invalid JSON"),
                "{name}: {error}"
            );
        }
    }
}

#[test]
fn summaries_are_read_as_protolink_reads_them() {
    for case in cases("extract_summary") {
        let summary = extract_summary(case["input"]["raw"].as_str().unwrap());
        assert_eq!(summary, case["expected"]["summary"].as_str().unwrap(), "{}", case["name"]);
    }
}

fn agents() -> Vec<(String, Vec<String>)> {
    let agent =
        |name: &str, skills: &[&str]| (name.to_owned(), skills.iter().map(ToString::to_string).collect());
    vec![agent("w", &["get_weather", "dup", "shared"]), agent("v", &["dup"])]
}

fn read(raw: &str) -> Result<String, String> {
    parse_reply(raw, &["add", "shared"], &agents())
        .map(|reply| reply.to_json().to_string())
        .map_err(|error| error.to_string())
}

#[test]
fn older_and_shorter_shapes_are_mended() {
    for (raw, action) in [
        // Fields outside a payload win, unknown ones in it are dropped.
        (
            r#"{"type":"final","content":"y","payload":{"content":"x","z":1}}"#,
            r#"{"type":"final","content":"y"}"#,
        ),
        (
            r#"{"type":"tool_call","payload":{"prompt":"add(a=1)"}}"#,
            r#"{"type":"tool_call","tool":"add","args":{"a":1}}"#,
        ),
        (
            r#"{"type":"tool_call","tool":"upper","prompt":"add(a=1)"}"#,
            r#"{"type":"tool_call","tool":"upper","args":{"a":1}}"#,
        ),
        (
            r#"{"type":"tool_call","prompt":"w.get_weather(q=1)"}"#,
            r#"{"type":"tool_call","tool":"get_weather","args":{"q":1}}"#,
        ),
        // The agent before the dot; given arguments win over those of the call.
        (
            r#"{"type":"agent_call","prompt":"v.get_weather(q=1)","args":{"z":1}}"#,
            r#"{"type":"agent_call","agent":"v","action":"tool_call","tool":"get_weather","args":{"z":1}}"#,
        ),
        (
            r#"{"type":"agent_call","tool":"add","args":{"a":1}}"#,
            r#"{"type":"tool_call","tool":"add","args":{"a":1}}"#,
        ),
        // The only agent with the skill is meant, even if a local tool has that name.
        (
            r#"{"type":"agent_call","prompt":"shared()"}"#,
            r#"{"type":"agent_call","agent":"w","action":"tool_call","tool":"shared","args":{}}"#,
        ),
        (
            r#"{"type":"agent_call","tool":"add","prompt":"zz","thought":"t"}"#,
            r#"{"type":"tool_call","tool":"add","args":{}}"#,
        ),
        // The prompt of an infer stays a prompt, even if it looks like a call.
        (
            r#"{"type":"agent_call","agent":"w","action":"infer","prompt":"add(a=1)"}"#,
            r#"{"type":"agent_call","agent":"w","action":"infer","prompt":"add(a=1)"}"#,
        ),
        (
            r#"{"type":"agent_call","agent":"w","action":"infer","prompt":"p","tool":null,"args":null}"#,
            r#"{"type":"agent_call","agent":"w","action":"infer","prompt":"p"}"#,
        ),
        ("\u{feff}{\"type\":\"final\",\"content\":\"a\tb\"}", "{\"type\":\"final\",\"content\":\"a\\tb\"}"),
        (
            r#"{"type":"tool_call","tool":"add","args":{"a":1.50,"b":1180591620717411303424,"c":-0.0,"a":2.0}}"#,
            r#"{"type":"tool_call","tool":"add","args":{"a":2.0,"b":1180591620717411303424,"c":-0.0}}"#,
        ),
    ] {
        assert_eq!(read(raw).as_deref(), Ok(action), "{raw}");
    }
}

#[test]
fn what_cannot_be_mended_is_refused_with_one_line_for_each_field() {
    for raw in [
        r#"{"type":"tool_call","tool":"add","args":null}"#,
        r#"{"type":"tool_call","tool":"add","args":{"a":1},"prompt":"add(a=2)"}"#,
        r#"{"type":"agent_call","tool":"get_weather"}"#,
        r#"{"type":"agent_call","action":"dance","tool":"add"}"#,
        r#"{"type":"tool_call","prompt":"add({1:2})"}"#,
        r#"{"type":"agent_call","action":"tool_call","tool":"get_weather","agent":null}"#,
        r#"{"type":"agent_call","action":"infer","prompt":"w.get_weather(q=1)"}"#,
        r#"{"type":"agent_call","agent":"w","action":"infer","prompt":"p","args":{}}"#,
        r#"{"type":"agent_call","agent":"w","action":"tool_call","tool":"t","prompt":""}"#,
        r#"{"type":"final","content":"x","thought":5}"#,
        r#"{"type":"final","content":"x","tool":null}"#,
        r#"{"type":"final","content":"x"}{"type":"final","content":"y"}"#,
        r#"[{"type":"final","content":"x"}]"#,
        r#"{"type":["final"]}"#,
        "{}",
        "",
        "}{",
    ] {
        assert!(read(raw).is_err(), "{raw}");
    }
    assert_eq!(
        read(r#"{"type":"tool_call","name":"add","args":5}"#).unwrap_err(),
        "Action validation failed. Field-level errors:\n  - Field 'name': Extra inputs are not permitted\n  - Field \
         'tool': Field required\n  - Field 'args': must be an object\nParsed data: {'type': 'tool_call', 'name': \
         'add', 'args': 5}"
    );
    assert!(read(&"[".repeat(100_000)).unwrap_err().len() < 3_000);
}

#[test]
fn signatures_are_equal_for_equal_wishes_only() {
    let sign = |raw: &str| signature(&parse_action(raw, &[], &[]).unwrap());
    let call = |args: &str| sign(&format!(r#"{{"type":"tool_call","tool":"t","args":{args}}}"#));
    assert_eq!(call(r#"{"b":1,"a":{"d":1,"c":2}}"#), call(r#"{"a":{"c":2,"d":1},"b":1}"#));
    assert_ne!(call(r#"{"a":1}"#), call(r#"{"a":2}"#));
    let ask = |prompt: &str| {
        signature(&Action::AgentCall {
            agent: "w".to_owned(),
            what: AgentAction::Infer { prompt: prompt.to_owned() },
        })
    };
    assert_eq!(ask(&format!("{}x", "é".repeat(50))), ask(&format!("{}y", "é".repeat(50))));
    assert_ne!(ask("p1"), ask("p2"));
    assert_ne!(sign(r#"{"type":"final","content":"a"}"#), sign(r#"{"type":"final","content":"b"}"#));
}

proptest! {
    #[test]
    fn no_reply_makes_the_parser_panic(raw in ".{0,200}") {
        let _ = parse_action(&raw, &["add"], &agents());
        let _ = extract_summary(&raw);
    }

    #[test]
    fn no_reply_that_is_nearly_an_action_makes_the_parser_panic(
        kind in "(final|tool_call|agent_call)",
        prompt in r#"(w\.)?[a-z]{1,3}\([a-z]{0,2}=?['"\[\]{}()0-9.,xeE_:=+\\ a-z-]{0,30}\)?"#,
        action in "(infer|tool_call|)",
    ) {
        let raw = proto_events::json!({"type": kind, "prompt": prompt, "action": action}).to_string();
        if let Ok(action) = parse_action(&raw, &["add"], &agents()) {
            prop_assert_ne!(action.kind(), "final");
        }
    }

    #[test]
    fn what_was_read_reads_the_same_from_its_own_json(
        content in ".{1,40}", tool in "[a-z]{1,8}", number in any::<i64>(), thought in prop::option::of(".{0,9}"),
    ) {
        for action in [
            proto_events::json!({"type": "final", "content": content, "thought": thought}),
            proto_events::json!({"type": "tool_call", "tool": tool, "args": {"a": number, "b": [content]}, "thought": thought}),
        ] {
            let reply = parse_reply(&format!("Sure!\n{action}\n"), &[], &[]).unwrap();
            prop_assert_eq!(parse_reply(&reply.to_json().to_string(), &[], &[]).unwrap(), reply);
        }
    }
}
