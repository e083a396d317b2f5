//! The events of sessions, tools, systems and agents, each with a value in each of its fields.

use proto_events::call::TokenUsage;
use proto_events::definition::{AgentEvent, DefinitionRevision, RevisedText};
use proto_events::flow::FlowEvent;
use proto_events::id::{Digest, Version};
use proto_events::json::JsonText;
use proto_events::model::{AgentCard, CompactionStrategy, LlmRole};
use proto_events::registry::RegistryEvent;
use proto_events::session::{HistoryCompacted, SessionEvent, SummaryRequested};
use proto_events::system::{AgentRevision, SystemEvent, ToolLeftOut, ToolServerSeen, WriterStart};
use proto_events::tool_store::ToolStoreEvent;

use super::messages::{llm_message, turn_message};

pub(crate) fn session_events() -> Vec<SessionEvent> {
    vec![
        SessionEvent::Opened { session_id: "s".into() },
        SessionEvent::SystemPromptSet(llm_message(LlmRole::System)),
        SessionEvent::TurnStarted { turn_id: "turn_1".into(), task: "task-agent/t".into() },
        SessionEvent::MessageAppended(turn_message()),
        SessionEvent::TurnCommitted { turn_id: "turn_1".into() },
        SessionEvent::TurnAborted { turn_id: "turn_1".into(), reason: "canceled".into() },
        SessionEvent::HistoryCompacted(Box::new(HistoryCompacted {
            strategy: CompactionStrategy::Summary,
            read_through: Version(300),
            removed: 70_000,
            summary: Some(llm_message(LlmRole::System)),
            call_id: Some("summary_1".into()),
            before_tokens: 90_000,
            after_tokens: 400,
        })),
        SessionEvent::Cleared { messages: 300 },
        SessionEvent::SummaryRequested(Box::new(SummaryRequested {
            call_id: "summary_1".into(),
            target: "scripted/demo".into(),
            read_through: Version(300),
            messages: 70_000,
            max_tokens: 512,
            digest: Digest([7; 32]),
        })),
        SessionEvent::SummaryReceived {
            call_id: "summary_1".into(),
            reply: JsonText::parse(r#"{"content": "They met.", "model": "m"}"#).unwrap(),
            usage: Some(TokenUsage { input_tokens: 900, output_tokens: 4 }),
            dropped: Some("superseded".into()),
        },
        SessionEvent::SummaryFailed {
            call_id: "summary_1".into(),
            error_type: "TimeoutError".into(),
            message: "no answer".into(),
            usage: Some(TokenUsage { input_tokens: 900, output_tokens: 0 }),
        },
    ]
}

pub(crate) fn tool_events() -> Vec<ToolStoreEvent> {
    let call = || ("task-agent/t".to_owned(), "call_1".to_owned());
    let ((task, call_id), (for_task, its_call)) = (call(), call());
    let value = JsonText::parse(r#"{"n": 1.50}"#).unwrap();
    vec![
        ToolStoreEvent::KeyPut { task, call_id, key: "orders/ü".into(), value },
        ToolStoreEvent::KeyDeleted { task: for_task, call_id: its_call, key: "orders/ü".into() },
        ToolStoreEvent::KeySet { key: "orders/ü".into(), value: JsonText::parse("[1.0]").unwrap() },
        ToolStoreEvent::KeyRemoved { key: "orders/ü".into() },
        ToolStoreEvent::Cleared { keys: 300 },
    ]
}

pub(crate) fn flow_events() -> Vec<FlowEvent> {
    let value = JsonText::parse(r#"{"step": 1.50}"#).unwrap();
    vec![FlowEvent::CheckpointPut { value }, FlowEvent::CheckpointDeleted { version: Version(300) }]
}

pub(crate) fn system_events() -> Vec<SystemEvent> {
    let agents = vec![AgentRevision { name: "desk".into(), number: 3 }];
    vec![
        SystemEvent::Started(WriterStart {
            epoch: 300,
            release: "0.1.0".into(),
            build: Some("host 7".into()),
            agents,
        }),
        SystemEvent::Stopped { epoch: 300, reason: Some("no model".into()) },
        SystemEvent::ToolServerSeen(ToolServerSeen {
            epoch: 300,
            agent: "desk".into(),
            server: "files".into(),
            failure: Some("it does not answer".into()),
            tools: vec!["read".into()],
            left_out: vec![ToolLeftOut { tool: "read file".into(), why: "a bad name".into() }],
        }),
    ]
}

pub(crate) fn agent_event() -> AgentEvent {
    let new = |text: &str| RevisedText { since: 2, text: Some(text.into()) };
    let texts = [
        RevisedText { since: 1, text: None },
        new("Be brief."),
        new("[]"),
        RevisedText { since: 1, text: None },
        new("{}"),
    ];
    AgentEvent::Revised(Box::new(DefinitionRevision { number: 2, texts }))
}

pub(crate) fn registry_events() -> Vec<RegistryEvent> {
    let card = r#"{"name":"w","description":"ü","url":"http://h:1","role":"gateway","tags":["a"],
        "capabilities":{"rag":true},"skills":[{"id":"s","input_schema":{"n": 1.50}}]}"#;
    let card = AgentCard::from_json(&JsonText::parse(card).unwrap()).unwrap();
    vec![
        RegistryEvent::Registered { card: Box::new(card) },
        RegistryEvent::Unregistered { url: "http://h:1".into() },
        RegistryEvent::Expired { url: "http://h:1".into(), ttl_ms: 90_000 },
    ]
}
