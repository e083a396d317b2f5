//! Properties for any JSON and any text: an accepted task is written back unchanged, and nothing panics.

mod counting_mint;

use counting_mint::CountingMint;
use proptest::prelude::*;
use proto_events::json::JsonText;
use proto_events::model::{
    AgentCard, Artifact, ConversationHistory, HistoryCompactionRequest, HistoryCompactionResult, LlmMessage,
    Message, Part, PostedTask, RunAction, RunBudget, RunContext, RunEvent, RunReport, StateOperationRequest,
    StateOperationResult, TaskCancellationRequest, attach, canceled, final_state,
};

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        "-?[1-9][0-9]{0,30}(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?",
        any::<String>().prop_map(|text| proto_events::json::JsonValue::String(text).to_string()),
        Just(r#""\ud83d\ude00""#.to_owned()),
        "(input-required|2024-01-01T00:00:00|recent|working|user)".prop_map(|text| format!("\"{text}\"")),
    ]
}

/// Keys that the models read, so that a generated object is meaningful to them.
const KEYS: &[&str] = &[
    "id",
    "type",
    "content",
    "role",
    "parts",
    "timestamp",
    "state",
    "messages",
    "artifacts",
    "metadata",
    "flow_state",
    "created_at",
    "tool_name",
    "args",
    "call_id",
    "result",
    "error",
    "message",
    "code",
    "route_key",
    "reason",
    "confidence",
    "kind",
    "name",
    "budget",
    "run_context",
    "permissions",
    "agent_chain",
    "max_steps",
    "session_id",
    "capabilities",
    "stores",
    "strategy",
    "operation",
];

fn any_json() -> impl Strategy<Value = String> {
    scalar().prop_recursive(5, 64, 6, |inner| {
        let key = prop_oneof![
            4 => prop::sample::select(KEYS).prop_map(str::to_owned),
            1 => "[a-z]{0,3}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(" ,"))),
            prop::collection::vec((key, inner), 0..6).prop_map(object),
        ]
    })
}

fn object(pairs: Vec<(String, String)>) -> String {
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(key, value)| format!("{}: {value}", proto_events::json::JsonValue::String(key)))
        .collect();
    format!("{{{}}}", pairs.join(","))
}

const PART_KINDS: &[&str] = &["text", "tool_call", "tool_output", "route", "infer", "status", "error"];

/// Returns a part whose content fits its kind.
fn ordinary_part() -> impl Strategy<Value = String> {
    let content = prop_oneof![
        scalar(),
        any_json()
            .prop_map(|any| format!(r#"{{"tool_name":"t","route_key":"k","args":{any},"error":{any}}}"#)),
    ];
    (prop::sample::select(PART_KINDS), content).prop_map(part)
}

/// Returns a part whose content need not fit its kind.
fn wild_part() -> impl Strategy<Value = String> {
    (prop::sample::select(PART_KINDS), any_json()).prop_map(part)
}

fn part((kind, content): (&str, String)) -> String {
    format!(r#"{{"type":"{kind}","content":{content}}}"#)
}

fn any_task() -> impl Strategy<Value = String> {
    let parts = || prop::collection::vec(ordinary_part(), 0..4).prop_map(|parts| parts.join(","));
    (parts(), parts(), any_json(), any_json(), prop::option::of("[a-z]{1,5}")).prop_map(
        |(said, made, metadata, flow, id)| {
            let id = id.map_or_else(String::new, |id| format!(r#""id":"{id}","#));
            format!(
                r#"{{{id}"messages":[{{"parts":[{said}]}}],"artifacts":[{{"parts":[{made}]}}],
                    "metadata":{{"any":{metadata}}},"flow_state":{flow}}}"#
            )
        },
    )
}

/// Applies every reader of the model to the same value.
fn read_as_everything(json: &JsonText) {
    let mint = &mut CountingMint::default();
    let _ = PostedTask::from_json(json, mint);
    let _ = Message::from_json(json, mint);
    let _ = Artifact::from_json(json, mint);
    let _ = LlmMessage::from_json(json, mint);
    let _ = LlmMessage::from_raw(json, mint);
    let _ = ConversationHistory::from_json(json, mint);
    let _ = RunContext::from_json(json, mint);
    let _ = RunBudget::from_json(json);
    let _ = RunAction::from_json(json, mint);
    let _ = RunEvent::of_task_event(json, None, None, mint);
    let _ = RunReport::from_json(json, mint);
    let _ = AgentCard::from_json(json);
    let _ = proto_events::model::redaction::redacted(json);
    let _ = HistoryCompactionRequest::from_json(json);
    let _ = HistoryCompactionResult::from_json(json);
    let _ = StateOperationRequest::from_json(json);
    let _ = StateOperationResult::from_json(json);
    let _ = TaskCancellationRequest::from_json(json);
    if let Ok(metadata) = json.read() {
        let _ = attach(&metadata, "t", "a", None, mint);
        let _ = canceled(&metadata, "t", Some("r"), mint);
    }
    if let Ok(part) = Part::from_json(json, mint) {
        let _ = part.as_tool_call();
        let _ = part.as_tool_output();
        let _ = part.as_route_decision();
        let _ = part.as_infer();
        let _ = final_state(&[part]);
    }
}

proptest! {
    #[test]
    fn a_task_that_was_taken_once_is_taken_again_as_it_was_written(text in prop_oneof![any_task(), any_json()]) {
        let mut mint = CountingMint::default();
        if let Ok(task) = PostedTask::parse(&text, &mut mint) {
            let written = task.to_json();
            let again = PostedTask::from_json(&written, &mut mint).unwrap();
            prop_assert!(again.filled_in.is_empty(), "{:?}", again.filled_in);
            prop_assert_eq!(&again, &PostedTask { filled_in: Vec::new(), ..task });
            prop_assert_eq!(again.to_json(), written);
        }
    }

    #[test]
    fn a_task_of_ordinary_parts_is_taken(task in any_task()) {
        let read = PostedTask::parse(&task, &mut CountingMint::default());
        prop_assert!(read.is_ok(), "{}: {:?}", task, read);
    }

    #[test]
    fn no_json_panics_any_reader(text in prop_oneof![any_json(), wild_part(), any_task()]) {
        read_as_everything(&JsonText::parse(&text).unwrap());
    }

    #[test]
    fn no_text_panics(text in any::<String>(), shape in "[\\[\\]{}\",:0-9eE.+\\-u\\\\ntf ]{0,60}") {
        for text in [text, shape] {
            let _ = PostedTask::parse(&text, &mut CountingMint::default());
            if let Ok(json) = JsonText::parse(&text) {
                read_as_everything(&json);
            }
        }
    }

    #[test]
    fn no_time_panics(text in any::<String>(), near in "[0-9]{2,4}-?[0-9]{0,2}-?[0-9]{0,2}.?[0-9:.,+Z-]{0,20}") {
        for time in [text, near] {
            let json = JsonText::encode(&proto_events::json!({"role": "user", "content": "", "created_at": time})).unwrap();
            if let Ok(message) = LlmMessage::from_json(&json, &mut CountingMint::default()) {
                let again = LlmMessage::from_json(&message.to_json(), &mut CountingMint::default()).unwrap();
                prop_assert_eq!(again, message);
            }
        }
    }
}
