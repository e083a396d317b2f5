//! `show`, `stats` and ids: what happened when, who settled it, and names as lists print them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use binary::{Place, small_log};
use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel::context::{TrimRounds, TruncateToolOutputs};
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::ToolPolicy;
use taskreel::{JsonSchema, Part, System};

#[derive(serde::Deserialize, JsonSchema)]
struct Of {
    #[allow(dead_code, reason = "the tool's answer does not depend on it")]
    of: String,
}

/// A place in which a payment's outcome is unknown, and the id of its call.
fn unknown() -> (Place, String) {
    let place = Place::new();
    let to = json!({"type": "tool_call", "content": {"tool_name": "pay", "args": {"to": "slow-bank", "cents": 5}, "call_id": "c"}});
    let task = json!({"id": "pay-0001", "messages": [{"id": "m", "role": "user", "parts": [to]}]});
    place.run_tasks(&task.to_string(), "").ended(0);
    let calls = place.run("calls --json").ended(0).json();
    let call = calls[0]["call_id"].as_str().unwrap().to_owned();
    (place, call)
}

#[test]
fn a_task_is_shown_with_versions_times_durations_and_calls() {
    let place = small_log();
    let shown = place.run("show ask-0001 --json").ended(0).json().remove(0);
    let events = place.run("events ask-0001 --json").ended(0).json();
    let at = |version: &Value| {
        let version = usize::try_from(version.as_u64().unwrap()).unwrap();
        &events[version - 1]
    };
    assert_eq!(shown["calls"].as_array().unwrap().len(), 3);
    for call in shown["calls"].as_array().unwrap() {
        assert_eq!(at(&call["version"])["kind"], "CallRequested");
        assert_eq!(at(&call["version"])["payload"]["call_id"], call["call_id"]);
        assert_eq!(at(&call["ended_version"])["kind"], "CallSucceeded");
        assert_eq!(at(&call["ended_version"])["at"], call["ended_at"]);
        assert!(call["took_us"].as_u64().is_some() && call["sent_at"].is_string(), "{call}");
    }
    let states: Vec<_> =
        shown["states"].as_array().unwrap().iter().map(|step| step["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["submitted", "working", "completed"]);
    let text = place.run("show ask-0001").ended(0).out();
    for call in shown["calls"].as_array().unwrap() {
        assert!(text.contains(call["call_id"].as_str().unwrap()), "{text}");
    }
    assert!(text.contains("v1 ") && text.contains("1 attempt") && text.contains(" ms"), "{text}");
}

#[test]
fn whoever_settled_an_unknown_call_is_shown_and_stats_counts_it_no_more() {
    let (place, call) = unknown();
    let row = |place: &Place| place.run("stats --json").ended(0).json().remove(0);
    assert_eq!((&row(&place)["unknown"], &row(&place)["errors"]), (&json!(1), &json!(1)));
    place.run(&format!("reconcile {call} --landed 7 --by ada")).ended(0);
    let after = row(&place);
    assert_eq!((&after["unknown"], &after["settled"], &after["errors"]), (&json!(0), &json!(1), &json!(0)));
    let shown = place.run("show pay-0001 --json").ended(0).json().remove(0);
    let verdict = shown["calls"][0]["verdicts"][0]["what"].as_str().unwrap();
    assert!(verdict.contains("by ada"), "{verdict}");
    assert!(place.run("show pay-0001").ended(0).out().contains("by ada"));
}

#[test]
fn an_abandoned_call_is_settled_too() {
    let (place, call) = unknown();
    place.run(&format!("abandon {call} --reason gone --by ada")).ended(0);
    let row = place.run("stats --json").ended(0).json().remove(0);
    assert_eq!((&row["unknown"], &row["settled"]), (&json!(0), &json!(1)));
    assert!(place.run("show pay-0001").ended(0).out().contains("abandoned by ada: gone"));
}

#[test]
fn ids_are_accepted_as_lists_print_them() {
    let place = small_log();
    assert!(place.run("events --all").ended(0).out().contains("s:ask-0001"));
    let whole = place.run("show session-agent/ask-0001").ended(0).out();
    assert_eq!(place.run("show s:ask-0001").ended(0).out(), whole);
    assert_eq!(place.run("show s:ask-").ended(0).out(), whole);
    place.run("show s:none-such").ended(3).told(&["s:none-such"]);
    place.run("show t:ask-0001").ended(3);
}

#[test]
fn a_cause_is_named_by_a_place_in_the_list() {
    let place = small_log();
    let out = place.run("events ask-0001").ended(0).out();
    let cause_of = |kind: &str| {
        let line = out.lines().find(|line| line.contains(kind)).unwrap_or_else(|| panic!("{out}"));
        line.split(kind).nth(1).unwrap().trim().to_owned()
    };
    assert!(cause_of("CallSucceeded").starts_with("call v4"), "{out}");
    assert!(cause_of("Submitted").starts_with("caller"), "{out}");
    assert!(out.lines().nth(3).unwrap().trim_start().starts_with('3'), "{out}");
    let all = place.run("events --all").ended(0).out();
    assert!(all.contains("call @"), "{all}");
}

#[test]
fn events_begin_with_their_date() {
    let place = small_log();
    let first =
        place.run("events ask-0001 --json").ended(0).json()[0]["at"].as_str().unwrap()[..10].to_owned();
    let ran = place.command(["events", "ask-0001"]).env("TZ", "UTC").output().unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    assert!(out.starts_with(&format!("{first} +00:00\n")), "{out}");
}

#[tokio::test]
async fn what_a_context_strategy_left_out_of_a_prompt_is_shown_in_words_and_as_data() {
    let place = Place::new();
    let model = Scripted::new(
        ["one", "two", "three"]
            .map(|text| Entry::Text(json!({"type": "final", "content": text}).to_string())),
    );
    let builder = System::builder(place.path().join("taskreel-log")).infer(model);
    let system = builder.context(TrimRounds::new(1).unwrap()).start().await.unwrap();
    let mut id = String::new();
    for question in ["first?", "second?", "third?"] {
        let task = system.session("s").send(Part::infer(question)).await.unwrap();
        task.finished().await.unwrap();
        task.id().clone_into(&mut id);
    }
    system.shutdown().await.unwrap();
    let shown = place.run(&format!("show {id}")).ended(0).out();
    assert!(shown.contains("  shown   trim-rounds(1): 2 messages of 6, "), "{shown}");
    let events = place.run(&format!("events {id} --json")).ended(0).json();
    let intent = events.iter().find(|event| event["kind"] == "CallRequested").unwrap();
    let selection = &intent["payload"]["prompt"]["selection"];
    assert_eq!(selection["kept"], json!([{"first": 4, "count": 1}]));
    assert_eq!(selection["sizes"]["messages_before"], json!(6));
    let call = intent["payload"]["call_id"].as_str().unwrap();
    let prompt = place.run(&format!("prompt {call}")).ended(0).out();
    assert!(prompt.contains("third?") && !prompt.contains("second?"), "{prompt}");
    assert!(prompt.contains("[4 messages of the history are left out]"), "{prompt}");
    let prompt = place.run(&format!("prompt {call} --json")).ended(0).json().remove(0);
    assert_eq!(prompt["left_out"], json!(4));
    let listed = place.run(&format!("events {id}")).ended(0).out();
    assert!(listed.contains("CallRequested"), "{listed}");
    place.run("verify").ended(0);
}

#[tokio::test]
async fn a_prompt_shows_native_calls_the_calls_that_are_answered_and_what_is_cut() {
    let place = Place::new();
    let model = Scripted::new([
        Entry::from_value(&json!({"calls": [{"tool": "report", "args": {"of": "rain"}}]})).unwrap(),
        Entry::Text(json!({"type": "final", "content": "wet"}).to_string()),
    ]);
    let report = |_: Of| async { Ok::<_, std::convert::Infallible>("rain ".repeat(100)) };
    let builder = System::builder(place.path().join("taskreel-log"));
    let builder = builder.tool_with("report", "A report", report, ToolPolicy::read_only());
    let cut = TruncateToolOutputs::new(40).unwrap();
    let system = builder.context(cut).infer(model).start().await.unwrap();
    let task = system.session("s").send(Part::infer("wet?")).await.unwrap();
    task.finished().await.unwrap();
    system.shutdown().await.unwrap();
    let calls = place.run(&format!("show {} --json", task.id())).ended(0).json().remove(0);
    let calls = calls["calls"].as_array().unwrap().clone();
    let id = |at: usize| calls[at]["call_id"].as_str().unwrap().to_owned();
    let (tool, last) = (id(1), id(2));
    let prompt = place.run(&format!("prompt {last}")).ended(0).out();
    for line in [
        format!("call {tool}: report({{\"of\":\"rain\"}})"),
        format!("[tool, the answer to {tool}, 476 characters are left out]"),
    ] {
        assert!(prompt.contains(&line), "{line} in {prompt}");
    }
    let prompt = place.run(&format!("prompt {last} --json")).ended(0).json().remove(0);
    let [_, _, asking, answer] = prompt["messages"].as_array().unwrap().as_slice() else {
        panic!("{prompt}")
    };
    assert_eq!(asking["calls"], json!([{"id": tool, "tool": "report", "args": {"of": "rain"}}]));
    assert_eq!((&answer["answers"], &answer["omitted"]), (&json!(tool), &json!(476)));
    assert_eq!((&asking["answers"], &prompt["left_out"]), (&json!(null), &json!(0)));
}
