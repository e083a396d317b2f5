//! The entries of a conversation.

use proto_events::envelope::Timestamp;
use proto_events::id::{Position, StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{LlmMessage, LlmRole};
use proto_events::session::SessionEvent;
use proto_events::turn::TurnMessage;

use super::entries::EntryWriter;
use super::*;
use crate::views::event_row::EventRow;

fn row(version: u64, event: SessionEvent) -> EventRow {
    EventRow {
        stream: StreamId::session("agent", "talk").unwrap(),
        version: Version(version),
        position: Position(version),
        at: Timestamp(0),
        kind_number: 1,
        kind: "Kind",
        schema: 1,
        command_id: String::new(),
        causation_id: String::new(),
        correlation_id: String::new(),
        principal: String::new(),
        principal_basis: "asserted",
        set_id: String::new(),
        event: Ok(proto_events::codec::AnyEvent::Session(event)),
    }
}

fn message(role: LlmRole, content: &str, asks: &[&str], answers: Option<&str>) -> SessionEvent {
    let message = LlmMessage {
        role,
        content: content.to_owned(),
        name: None,
        metadata: JsonObject::new(),
        id: String::new(),
        created_at: String::new(),
        tool_calls: JsonText::empty_object(),
        tool_name: None,
    };
    let asks = asks.iter().map(|id| (*id).to_owned()).collect();
    SessionEvent::MessageAppended(TurnMessage {
        message,
        part: 0,
        infer_call: None,
        asks,
        answers: answers.map(str::to_owned),
    })
}

fn told(events: Vec<SessionEvent>) -> Vec<String> {
    let mut entries = EntryWriter::default();
    let rows = (1..).zip(events).map(|(version, event)| row(version, event));
    let all: Vec<_> = rows.flat_map(|row| entries.entries(&row)).collect();
    let tool =
        |entry: &TranscriptEntry| entry.tool.clone().map_or_else(String::new, |tool| format!(" {tool}"));
    all.iter()
        .map(|entry| format!("v{} {}{}: {}", entry.version, entry.speaker.as_str(), tool(entry), entry.text))
        .collect()
}

#[test]
fn a_conversation_is_told_with_its_calls_and_what_happened_to_it() {
    let turn =
        |id: &str| SessionEvent::TurnStarted { turn_id: id.to_owned(), task: format!("task-agent/{id}") };
    let SessionEvent::MessageAppended(two) = message(LlmRole::Assistant, "both", &["a", "b"], None) else {
        unreachable!("it is a message")
    };
    let calls = r#"[{"function":{"name":"add","arguments":"{\"a\":1}"}},{"name":"pay","args":{"cents":5}}]"#;
    let mut cut = two.clone();
    cut.message.content = "It is".to_owned();
    cut.message.mark_without_reason();
    cut.asks.clear();
    let mut both = two.clone();
    both.message.tool_calls = JsonText::parse(calls).unwrap();
    let events = vec![
        turn("one"),
        SessionEvent::SystemPromptSet(two.message.clone()),
        message(LlmRole::User, "What is it?", &[], None),
        message(
            LlmRole::Assistant,
            r#"{"type": "tool_call", "tool": "lookup", "args": {"city": "Oslo"}}"#,
            &["c"],
            None,
        ),
        message(
            LlmRole::System,
            r#"{"type": "tool_result", "tool": "lookup", "result": {"temp": 20}}"#,
            &[],
            Some("c"),
        ),
        message(LlmRole::Assistant, r#"{"type": "final", "content": "20 degrees"}"#, &[], None),
        SessionEvent::TurnCommitted { turn_id: "one".to_owned() },
        turn("two"),
        SessionEvent::SystemPromptSet(two.message.clone()),
        SessionEvent::MessageAppended(both),
        message(LlmRole::Tool, "2", &[], Some("a")),
        message(LlmRole::System, "Unknown tool", &[], None),
        SessionEvent::TurnAborted { turn_id: "two".to_owned(), reason: "canceled".to_owned() },
        SessionEvent::Cleared { messages: 4 },
        SessionEvent::MessageAppended(cut),
    ];
    assert_eq!(
        told(events),
        [
            "v2 system: both",
            "v3 user: What is it?",
            r#"v4 call lookup: {"city":"Oslo"}"#,
            r#"v5 result lookup: {"temp":20}"#,
            "v6 model: 20 degrees",
            "v10 model: both",
            r#"v10 call add: {"a":1}"#,
            r#"v10 call pay: {"cents":5}"#,
            "v11 result add: 2",
            "v12 system: Unknown tool",
            "v13 note: the turn was aborted, and what it said is no part of the history: canceled",
            "v14 note: the history was cleared: 4 messages",
            "v15 model: It is",
            "v15 note: the provider gave no reason for the end of this answer: it may be cut off",
        ]
    );
}
