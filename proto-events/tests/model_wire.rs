//! Values that pass through the models unchanged, and values that are refused, with their error texts.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod counting_mint;

use counting_mint::CountingMint;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{
    Artifact, LastItem, LlmMessage, Message, Part, PostedTask, RunBudget, RunContext, attach, canceled,
};

const NUMBERS: &str = "[1180591620717411303424,1.0,1e16,-0.0]";

fn json(text: &str) -> JsonText {
    JsonText::parse(text).unwrap()
}

#[test]
fn numbers_keep_their_text_through_every_model() {
    let mut mint = CountingMint::default();
    let part = format!(
        r#"{{"type":"tool_call","content":{{"tool_name":"t","args":{{"n":{NUMBERS}}},"call_id":"c"}}}}"#
    );
    let output =
        format!(r#"{{"type":"tool_output","content":{{"call_id":"c","result":{NUMBERS},"error":null}}}}"#);
    let route = r#"{"type":"route","content":{"route_key":"k","reason":null,"confidence":1.0,"metadata":{"n":1e16}}}"#;
    let message = format!(
        r#"{{"id":"m","role":"user","parts":[{part},{output},{route}],"timestamp":"2024-01-01T00:00:00+00:00"}}"#
    );
    let artifact = format!(
        r#"{{"id":"a","parts":[{{"type":"json","content":{NUMBERS}}}],"metadata":{{"n":{NUMBERS}}},"timestamp":null,"kind":"result","name":null,"uri":null,"media_type":null,"action_id":null}}"#
    );
    let task = format!(
        r#"{{"id":"t","state":"working","messages":[{message}],"artifacts":[{artifact}],"metadata":{{"z":{NUMBERS},"a":1.0}},"flow_state":{NUMBERS},"created_at":null}}"#
    );
    assert_eq!(Part::from_json(&json(&part), &mut mint).unwrap().to_json().as_str(), part);
    assert_eq!(Message::from_json(&json(&message), &mut mint).unwrap().to_json().as_str(), message);
    assert_eq!(Artifact::from_json(&json(&artifact), &mut mint).unwrap().to_json().as_str(), artifact);
    assert_eq!(PostedTask::parse(&task, &mut mint).unwrap().to_json().as_str(), task);
    let llm = format!(
        r#"{{"role":"user","content":"x","name":null,"metadata":{{"n":{NUMBERS}}},"id":"i","created_at":"2024-01-01T00:00:00+00:00","tool_calls":{NUMBERS},"tool_name":null}}"#
    );
    assert_eq!(LlmMessage::from_json(&json(&llm), &mut mint).unwrap().to_json().as_str(), llm);
    let context =
        RunContext::from_json(&json(&format!(r#"{{"metadata":{NUMBERS_OBJECT}}}"#)), &mut mint).unwrap();
    assert!(context.to_json().as_str().contains(NUMBERS_OBJECT));
    let call = Part::tool_call_of("t", json(NUMBERS), None);
    assert_eq!(call.as_tool_call().unwrap().args.as_str(), NUMBERS);
}

const NUMBERS_OBJECT: &str = r#"{"n":[1180591620717411303424,1.0,1e16,-0.0]}"#;

#[test]
fn a_bad_task_is_refused_with_what_where_and_what_instead() {
    let said = |text: &str| PostedTask::parse(text, &mut CountingMint::default()).unwrap_err().to_string();
    for (text, error) in [
        ("{\"id\":\n oops}", "expected value at line 2 column 2"),
        ("[]", "`task` must be an object, not an array"),
        (r#"{"messages":null}"#, "`task.messages` must be an array, not null"),
        (r#"{"id":7}"#, "`task.id` must be a string, not a number"),
        (
            r#"{"messages":[{},{"parts":[{}]}]}"#,
            "`task.messages[1].parts[0].type` is missing; it has no default",
        ),
        (
            r#"{"artifacts":[{"parts":[{"type":"tool_call","content":{}}]}]}"#,
            "`task.artifacts[0].parts[0].content.tool_name` is missing; it has no default",
        ),
        (r#"{"messages":["x"]}"#, "`task.messages[0]` must be an object, not a string"),
        (r#"{"metadata":[1]}"#, "`task.metadata` must be an object, not an array"),
        (r#"{"id":"\ud800"}"#, "unpaired surrogate at byte 7"),
        (r#"{"state":null}"#, "None is not a valid TaskState"),
        (r#"{"state":[1]}"#, "[1] is not a valid TaskState"),
    ] {
        assert_eq!(said(text), error, "{text}");
    }
    assert!(said(&"[".repeat(500)).contains("nests"));
}

#[test]
fn the_last_item_after_posting_is_by_text_of_time_and_a_tie_is_the_message() {
    let last = |message: &str, artifact: &str| {
        let text = format!(
            r#"{{"messages":[{{"id":"m","timestamp":{message}}}],"artifacts":[{{"id":"a","timestamp":{artifact}}}]}}"#
        );
        let task = PostedTask::parse(&text, &mut CountingMint::default()).unwrap();
        task.last_item().and_then(LastItem::id).map(str::to_owned)
    };
    let (plus, z) = (r#""2024-01-01T00:00:00+00:00""#, r#""2024-01-01T00:00:00Z""#);
    assert_eq!(last(plus, z).as_deref(), Some("a"));
    assert_eq!(last(z, plus).as_deref(), Some("m"));
    assert_eq!(last(plus, plus).as_deref(), Some("m"));
    assert_eq!(last("null", plus).as_deref(), Some("a"));
    assert_eq!(last(plus, "null").as_deref(), Some("m"));
    let empty = PostedTask::parse("{}", &mut CountingMint::default()).unwrap();
    assert_eq!(empty.last_item(), None);
}

#[test]
fn a_call_id_that_a_caller_leaves_out_is_filled_in_and_stays() {
    let mut mint = CountingMint::default();
    let part = Part::tool_call("add", proto_events::json!({"a": 1})).unwrap();
    let filled = part.hydrated(&mut mint).unwrap();
    let call_id = filled.as_tool_call().unwrap().call_id.unwrap();
    assert!(call_id.starts_with("tool_call_"), "{call_id}");
    assert_eq!(filled.clone().hydrated(&mut mint).unwrap(), filled);
    let message = Message::tool_call("add", proto_events::json!({}), &mut mint).unwrap();
    assert!(message.parts[0].as_tool_call().unwrap().call_id.is_some());
}

fn attached(metadata: &str) -> JsonObject {
    attach(&json(metadata).read().unwrap(), "task-1", "agent", None, &mut CountingMint::default()).unwrap()
}

fn context(keys: &JsonObject) -> RunContext {
    RunContext::from_json(keys.get("run_context").unwrap(), &mut CountingMint::default()).unwrap()
}

#[test]
fn a_task_without_metadata_runs_under_its_own_id() {
    let keys = attached("{}");
    let context = context(&keys);
    assert_eq!((context.run_id.as_str(), context.session_id.as_deref()), ("task-1", Some("task-1")));
    assert_eq!(context.agent_chain, ["agent"]);
    let names: Vec<&str> = keys.iter().map(|(key, _)| key).collect();
    assert_eq!(names, ["run_context", "run_id", "session_id"]);
}

#[test]
fn older_metadata_keys_fill_the_context_and_are_mirrored() {
    let keys = attached(
        r#"{"run_id":5,"session_id":"s","trace_id":"tr","workspace":"w://x","parent_agent":"alice",
           "permissions":{"a.*":"deny"},"budgets":{"max_steps":"2","mine":1},"cancelled":true,"cancellation_reason":"r"}"#,
    );
    let context = context(&keys);
    assert_eq!(context.run_id, "5");
    assert_eq!(context.workspace_uri.as_deref(), Some("w://x"));
    assert_eq!(context.permissions.get("a.*"), Some(&json(r#""deny""#)));
    assert_eq!(
        context.budget,
        RunBudget::from_json(&json(r#"{"max_steps":2,"metadata":{"mine":1}}"#)).unwrap()
    );
    for (key, value) in [
        ("run_id", r#""5""#),
        ("session_id", r#""s""#),
        ("trace_id", r#""tr""#),
        ("workspace_uri", r#""w://x""#),
        ("parent_run_id", r#""alice""#),
        ("canceled", "true"),
        ("cancel_reason", r#""r""#),
    ] {
        assert_eq!(keys.get(key), Some(&json(value)), "{key}");
    }
}

#[test]
fn attaching_again_changes_nothing_and_another_agent_joins_the_chain() {
    let mut metadata = attached(r#"{"trace_id":"tr"}"#);
    let mut mint = CountingMint::default();
    let again = attach(&metadata, "task-1", "agent", None, &mut mint).unwrap();
    metadata.merge(&again);
    assert_eq!(attached(r#"{"trace_id":"tr"}"#).get("run_context"), metadata.get("run_context"));
    let other = attach(&metadata, "task-1", "other", None, &mut mint).unwrap();
    assert_eq!(context(&other).agent_chain, ["agent", "other"]);
    let child = context(&other).child(&mut mint);
    let keys = attach(&JsonObject::new(), "task-2", "third", Some(&child), &mut mint).unwrap();
    assert_eq!(context(&keys).agent_chain, ["agent", "other", "third"]);
    assert_eq!(context(&keys).parent_run_id.as_deref(), Some("task-1"));
    assert_eq!(keys.get("session_id"), Some(&json(r#""task-1""#)));
}

#[test]
fn a_cancellation_writes_a_reason_only_if_there_is_one() {
    let metadata = attached("{}");
    let cancel = |reason| canceled(&metadata, "task-1", reason, &mut CountingMint::default()).unwrap();
    let with = cancel(Some("user asked"));
    assert_eq!(with.get("cancel_reason"), Some(&json(r#""user asked""#)));
    assert_eq!(context(&with).cancel_reason.as_deref(), Some("user asked"));
    for without in [cancel(None), cancel(Some(""))] {
        assert_eq!(without.get("canceled"), Some(&json("true")));
        assert_eq!(without.get("cancel_reason"), None);
        assert!(context(&without).canceled && context(&without).cancel_reason.is_none());
    }
}
