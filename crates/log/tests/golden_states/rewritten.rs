//! A log of histories that are cleared, compacted and summed up, of a tool's state that is changed from outside, and of
//! checkpoints: each kind of event of that, with each code and each field there and absent. And the log of a registry.

use proto_events::call::TokenUsage;
use proto_events::codec::AnyEvent;
use proto_events::flow::FlowEvent;
use proto_events::id::{Digest, StreamId, Version};
use proto_events::model::LlmRole::{System, User};
use proto_events::model::TaskState::{Submitted, Working};
use proto_events::model::{AgentCard, CompactionStrategy};
use proto_events::registry::RegistryEvent;
use proto_events::session::{HistoryCompacted, SessionEvent, SummaryRequested};
use proto_events::tool_store::ToolStoreEvent;

use super::events::*;
use super::log::Log;
use super::sound::told;

fn of_session(event: SessionEvent) -> AnyEvent {
    AnyEvent::Session(event)
}

fn compacted(strategy: CompactionStrategy, removed: u32, call_id: Option<&str>) -> AnyEvent {
    let summary = call_id.map(|_| turn_message(System, None).message);
    of_session(SessionEvent::HistoryCompacted(Box::new(HistoryCompacted {
        strategy,
        read_through: Version(6),
        removed,
        summary,
        call_id: call_id.map(str::to_owned),
        before_tokens: 70_000,
        after_tokens: 7,
    })))
}

fn asks(call_id: &str, messages: u32) -> AnyEvent {
    of_session(SessionEvent::SummaryRequested(Box::new(SummaryRequested {
        call_id: call_id.to_owned(),
        target: "scripted/demo".to_owned(),
        read_through: Version(6),
        messages,
        max_tokens: 512,
        digest: Digest([5; 32]),
    })))
}

fn received(call_id: &str, dropped: Option<&str>) -> AnyEvent {
    of_session(SessionEvent::SummaryReceived {
        call_id: call_id.to_owned(),
        reply: json(r#"{"content": "They met.", "model": "demo"}"#),
        usage: Some(TokenUsage { input_tokens: 300, output_tokens: 3 }),
        dropped: dropped.map(str::to_owned),
    })
}

fn failed(call_id: &str) -> AnyEvent {
    let (error_type, message) = ("TimeoutError".to_owned(), "no answer".to_owned());
    of_session(SessionEvent::SummaryFailed { call_id: call_id.to_owned(), error_type, message, usage: None })
}

pub(crate) fn rewritten() -> Log {
    let mut log = Log::default();
    log.epoch(1);
    let (task, session) = (task("t"), session());
    log.append(vec![("task", &task, vec![submitted("t", Submitted), changed(Submitted, Working)])]);
    let mut turn = vec![opened("s"), turn_started("turn 1", &task), system_prompt(System)];
    turn.extend((0..6).map(|_| said(User, None)));
    turn.push(turn_committed("turn 1"));
    log.append(vec![("turn", &session, turn)]);
    log.append(vec![("recent", &session, vec![compacted(CompactionStrategy::Recent, 1, None)])]);
    log.append(vec![("tokens", &session, vec![compacted(CompactionStrategy::Tokens, 1, None)])]);
    log.append(vec![("asked", &session, vec![asks("s1", 2)])]);
    log.append(vec![("failed", &session, vec![failed("s1"), asks("s2", 2)])]);
    let summed = vec![received("s2", None), compacted(CompactionStrategy::Summary, 2, Some("s2"))];
    log.append(vec![("summed up", &session, summed)]);
    log.append(vec![("asked again", &session, vec![asks("s3", 1)])]);
    let open = vec![turn_started("turn 2", &task), said(User, None)];
    log.append(vec![("second turn", &session, open)]);
    log.append(vec![("cleared", &session, vec![of_session(SessionEvent::Cleared { messages: 4 })])]);
    log.append(vec![("late", &session, vec![received("s3", Some("superseded"))])]);
    log.append(vec![("committed", &session, vec![turn_committed("turn 2")])]);
    let (key, value) = ("né".to_owned(), json("[1.50]"));
    let set = AnyEvent::Tool(ToolStoreEvent::KeySet { key: key.clone(), value });
    let tools = tool("notes");
    log.append(vec![("set", &tools, vec![set])]);
    log.append(vec![("removed", &tools, vec![AnyEvent::Tool(ToolStoreEvent::KeyRemoved { key })])]);
    let again = ToolStoreEvent::KeySet { key: "b".to_owned(), value: json("null") };
    log.append(vec![("set again", &tools, vec![AnyEvent::Tool(again)])]);
    log.append(vec![("wiped", &tools, vec![AnyEvent::Tool(ToolStoreEvent::Cleared { keys: 1 })])]);
    let run = StreamId::flow("desk", "run 1").unwrap();
    let put = |value: &str| AnyEvent::Flow(FlowEvent::CheckpointPut { value: json(value) });
    log.append(vec![("step", &run, vec![put(r#"{"step": 1.50}"#)])]);
    log.append(vec![("next step", &run, vec![put("2")])]);
    let deleted = FlowEvent::CheckpointDeleted { version: Version(2) };
    log.append(vec![("deleted", &run, vec![AnyEvent::Flow(deleted)])]);
    log
}

/// Webhooks of a task.
pub(crate) fn webhooks() -> Log {
    let mut log = Log::default();
    log.epoch(1);
    told(&mut log);
    log
}

/// A registry: agents that are registered, replaced, unregistered, and no longer heard of.
pub(crate) fn registered() -> Log {
    let mut log = Log::default();
    log.epoch(1);
    let registry = StreamId::of_registry("agents").unwrap();
    let card = |name: &str, url: &str| {
        let text = format!(
            r#"{{"name": "{name}", "description": "Né", "url": "{url}", "role": "gateway", "tags": ["a"], "skills": [{{"id": "s"}}]}}"#
        );
        let card = Box::new(AgentCard::from_json(&json(&text)).unwrap());
        AnyEvent::Registry(RegistryEvent::Registered { card })
    };
    let (one, two) = ("http://h:1".to_owned(), "http://h:2".to_owned());
    log.append(vec![("one", &registry, vec![card("one", &one)])]);
    log.append(vec![("two", &registry, vec![card("two", &two)])]);
    log.append(vec![("replaced", &registry, vec![card("uno", &one)])]);
    let gone = RegistryEvent::Unregistered { url: one };
    log.append(vec![("gone", &registry, vec![AnyEvent::Registry(gone)])]);
    let expired = RegistryEvent::Expired { url: two, ttl_ms: 90_000 };
    log.append(vec![("expired", &registry, vec![AnyEvent::Registry(expired)])]);
    log
}
