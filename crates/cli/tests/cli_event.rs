//! `event` and `prompt`: one event whole, and what a model was shown.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use binary::{Place, small_log};
use proto_events::codec::record::RecordView;
use proto_events::id::Digest;
use proto_events::json;
use proto_events::json::JsonValue as Value;

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Returns the export of a place's log, with a text of its first inference's prompt or intent replaced.
fn exported(place: &Place) -> String {
    let export = place.run("export").ended(0).out();
    std::fs::write(place.path().join("log.ndjson"), export).unwrap();
    "--file log.ndjson".to_owned()
}

#[test]
fn an_event_is_shown_with_all_that_holds_it_in_its_place() {
    let place = small_log();
    let rows = place.run("events ask-0001 --json").ended(0).json();
    for row in &rows {
        let version = &row["version"];
        let whole = place.run(&format!("event ask-0001 {version} --json")).ended(0).json().remove(0);
        assert_eq!(whole["event"], *row);
        let record = bytes(&whole["record"]["bytes"]);
        let view = RecordView::peek(&record).unwrap();
        assert_eq!(whole["record"]["hash"], json!(view.leaf_hash().to_string()));
        let salted = [bytes(&whole["body"]["salt"]), bytes(&whole["body"]["bytes"])].concat();
        assert_eq!(whole["body"]["digest"], json!(Digest::compute(&salted).to_string()));
        assert_eq!(
            (&whole["body"]["intact"], &whole["body"]["length"]),
            (&json!(true), &json!(salted.len() - 16))
        );
    }
    let text = place.run("event ask-0001 1").ended(0).out();
    for word in ["Submitted", "leaf hash", "what is it?", "task-agent/ask-0001", "position"] {
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn an_event_that_is_not_there_is_told_with_what_there_is() {
    let place = small_log();
    place.run("event sum-0001 99").ended(3).told(&["99", "1 to 8"]);
    place.run("event none-such 1").ended(3).told(&["none-such"]);
    place.run("event sum-0001").ended(2);
    place.run("event sum-0001 x").ended(2);
}

#[test]
fn a_prompt_is_what_the_model_was_shown_with_its_digest_computed_again() {
    let place = small_log();
    let events = place.run("events ask-0001 --json").ended(0).json();
    let intents: Vec<&Value> = events
        .iter()
        .filter(|row| row["kind"] == "CallRequested" && row["payload"]["kind"] == "infer")
        .map(|row| &row["payload"])
        .collect();
    assert_eq!(intents.len(), 2);
    let prompt =
        |call: &str, more: &str| place.run(&format!("prompt {call} {more} --json")).ended(0).json().remove(0);
    let (first, second) = (intents[0]["call_id"].as_str().unwrap(), intents[1]["call_id"].as_str().unwrap());
    let shown = prompt(first, "");
    assert_eq!((&shown["equal"], &shown["digest"]), (&json!(true), &intents[0]["prompt"]["digest"]));
    assert_eq!(shown["recomputed"], shown["digest"]);
    let messages = shown["messages"].as_array().unwrap();
    assert_eq!(messages.len() as u64, intents[0]["prompt"]["messages"].as_u64().unwrap());
    assert_eq!((&messages[0]["role"], &messages[1]["content"]), (&json!("system"), &json!("what is it?")));
    let later = prompt(second, "--task ask-0001");
    assert!(later["messages"].as_array().unwrap().len() > messages.len());
    assert!(later["messages"].to_string().contains("Oslo"));
    // The end of an id names the call as the whole id does, and an export says the same.
    let end = first.rsplit_once('_').unwrap().1;
    assert_eq!(prompt(end, ""), shown);
    assert_eq!(prompt(first, &exported(&place)), shown);
    let text = place.run(&format!("prompt {first}")).ended(0);
    assert!(text.out().contains("[system]") && text.out().contains("[tool lookup]"), "{}", text.out());
    assert!(text.err().contains("is the one in the intent"), "{}", text.err());
}

#[test]
fn a_call_that_has_no_prompt_or_is_not_one_is_told() {
    let place = small_log();
    let shown = place.run("show sum-0001 --json").ended(0).json();
    let call = shown[0]["calls"][0]["call_id"].as_str().unwrap();
    place.run(&format!("prompt {call}")).ended(3).told(&[call, "no inference"]);
    place.run("prompt call_none").ended(3).told(&["no call has the id `call_none`"]);
    place.run("prompt call").ended(2).told(&["5 ids", "--task"]);
}
