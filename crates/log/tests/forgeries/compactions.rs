//! Forgeries of cleared and compacted histories, of changes to a tool's state from outside, and of checkpoints.

use proto_events::codec::AnyEvent;
use proto_events::flow::FlowEvent;
use proto_events::id::{Digest, StreamId, Version};
use proto_events::model::{CompactionStrategy, LlmRole};
use proto_events::session::{HistoryCompacted, SessionEvent, SummaryRequested};
use proto_events::tool_store::ToolStoreEvent;
use taskreel_log::context::SUMMARY_HEADING;
use taskreel_log::shown::SummaryPrompt;

use super::Forgery;
use super::events::{json, session, turn_message};
use super::log::Log;

fn cleared(messages: u32) -> AnyEvent {
    AnyEvent::Session(SessionEvent::Cleared { messages })
}

fn compacted(removed: u32, call_id: Option<&str>) -> AnyEvent {
    AnyEvent::Session(SessionEvent::HistoryCompacted(Box::new(HistoryCompacted {
        strategy: CompactionStrategy::Summary,
        read_through: Version(8),
        removed,
        summary: call_id.map(|_| turn_message(proto_events::model::LlmRole::System, None).message),
        call_id: call_id.map(str::to_owned),
        before_tokens: 20,
        after_tokens: 10,
    })))
}

fn asked(call_id: &str) -> AnyEvent {
    AnyEvent::Session(SessionEvent::SummaryRequested(Box::new(SummaryRequested {
        call_id: call_id.to_owned(),
        target: "model".to_owned(),
        read_through: Version(8),
        messages: 3,
        max_tokens: 64,
        digest: Digest([1; 32]),
    })))
}

fn received(call_id: &str) -> AnyEvent {
    let (call_id, reply) = (call_id.to_owned(), json("\"They met.\""));
    AnyEvent::Session(SessionEvent::SummaryReceived { call_id, reply, usage: None, dropped: None })
}

/// Adds the summary of the conversation's three messages, as it should be.
pub(crate) fn sums_up(log: &mut Log) {
    let older =
        [LlmRole::User, LlmRole::Assistant, LlmRole::User].map(|role| turn_message(role, None).message);
    let max_tokens = 64;
    let asked = SummaryRequested {
        call_id: "sum".to_owned(),
        target: "model".to_owned(),
        read_through: log.version(&session()),
        messages: 3,
        max_tokens,
        digest: SummaryPrompt::new(&older, max_tokens).digest(),
    };
    let asked = AnyEvent::Session(SessionEvent::SummaryRequested(Box::new(asked)));
    log.add_after("aborted", "summing up", vec![asked]);
    let mut put = compacted(3, Some("sum"));
    *summary(&mut put) = format!("{SUMMARY_HEADING}\nThey met.");
    log.add_after("summing up", "summed up", vec![replied("sum", "They met."), put]);
}

fn replied(call_id: &str, content: &str) -> AnyEvent {
    let (call_id, reply) = (call_id.to_owned(), json(&format!(r#"{{"content":"{content}","model":"m"}}"#)));
    AnyEvent::Session(SessionEvent::SummaryReceived { call_id, reply, usage: None, dropped: None })
}

/// Returns the text of the summary that a compaction puts in place.
fn summary(event: &mut AnyEvent) -> &mut String {
    let AnyEvent::Session(SessionEvent::HistoryCompacted(compacted)) = event else { panic!("no compaction") };
    &mut compacted.summary.as_mut().unwrap().content
}

fn request(log: &mut Log) -> &mut SummaryRequested {
    let AnyEvent::Session(SessionEvent::SummaryRequested(request)) = log.event("summing up", 0) else {
        panic!("no request")
    };
    request
}

/// Changes a message of the conversation.
fn reword(log: &mut Log) {
    let AnyEvent::Session(SessionEvent::MessageAppended(answer)) = log.event("answer", 0) else {
        panic!("no message")
    };
    "denied".clone_into(&mut answer.message.content);
}

/// Adds a record to the conversation, whose history has three messages after the system message, the third of them an answer.
fn then(log: &mut Log, events: Vec<AnyEvent>) {
    log.add_after("committed", "rewritten", events);
}

fn checkpoint(log: &mut Log, events: Vec<AnyEvent>) {
    log.append(vec![("checkpoint", &StreamId::flow("desk", "r").unwrap(), events)]);
}

fn deleted(version: u64) -> AnyEvent {
    AnyEvent::Flow(FlowEvent::CheckpointDeleted { version: Version(version) })
}

#[rustfmt::skip]
pub(crate) const COMPACTIONS: &[Forgery] = &[
    ("a history cleared of more messages than it had", ("rewritten", 0), "messages were cleared, but the history had 4", |log| then(log, vec![cleared(9)])),
    ("more messages removed than there are", ("rewritten", 0), "9 messages are to be removed from a history of 3", |log| then(log, vec![compacted(9, None)])),
    ("a call removed without its answer", ("rewritten", 0), "message 2 answers a call that is removed without it", |log| then(log, vec![compacted(2, None)])),
    ("a summary that nobody received", ("rewritten", 0), "its summary is not the one that was received right before", |log| then(log, vec![compacted(3, Some("s1"))])),
    ("a summary of fewer messages than were summed up", ("rewritten", 2), "its summary is not the one that was received right before", |log| then(log, vec![asked("s1"), received("s1"), compacted(1, Some("s1"))])),
    ("a second summary beside an open one", ("rewritten", 1), "was requested while the call `s1` had no outcome", |log| then(log, vec![asked("s1"), asked("s2")])),
    ("the outcome of a summary that nobody asked for", ("rewritten", 0), "for a summary has an outcome, but was not open", |log| then(log, vec![received("s1")])),
    ("a summary of what was cleared meanwhile", ("rewritten", 2), "was put in place of messages that were rewritten before", |log| then(log, vec![asked("s1"), cleared(4), received("s1")])),
    ("a summary that is nowhere", ("rewritten", 0), "was neither put in place nor dropped", |log| then(log, vec![asked("s1"), received("s1")])),
    ("a summary of a message that says something else", ("summing up", 0), "names another digest than what it shows of the session has", reword),
    ("a summary of another length than was asked for", ("summing up", 0), "names another digest than what it shows of the session has", |log| request(log).max_tokens = 65),
    ("a summary of fewer messages than its digest covers", ("summing up", 0), "names another digest than what it shows of the session has", |log| request(log).messages = 1),
    ("a summary of what the session was before", ("summing up", 0), "as what was read, but the session was at", |log| request(log).read_through = Version(2)),
    ("a summary of what the session is not yet", ("summing up", 0), "as what was read, but the session was at", |log| request(log).read_through = Version(900)),
    ("a summary that the model did not write", ("summed up", 1), "is not what the model's reply says", |log| summary(log.event("summed up", 1)).push('!')),
    ("another reply than the summary in its place", ("summed up", 1), "is not what the model's reply says", |log| *log.event("summed up", 0) = replied("sum", "They parted.")),
    ("a reply to another call for a summary", ("summed up", 0), "for a summary has an outcome, but was not open", |log| *log.event("summed up", 0) = replied("other", "They met.")),
    ("a call for a summary under another id", ("summed up", 0), "for a summary has an outcome, but was not open", |log| "other".clone_into(&mut request(log).call_id)),
    ("a tool's state cleared of more keys than it had", ("wiped", 0), "9 keys were cleared, but the state had 2", |log| log.add_after("put", "wiped", vec![AnyEvent::Tool(ToolStoreEvent::Cleared { keys: 9 })])),
    ("a change from outside in a call's record", ("put", 2), "its record has writes of a call beside a change from outside", |log| log.insert("put", 2, AnyEvent::Tool(ToolStoreEvent::KeySet { key: "k".to_owned(), value: json("1") }))),
    ("the deletion of a checkpoint that does not exist", ("checkpoint", 0), "a checkpoint was deleted, but there was none", |log| checkpoint(log, vec![deleted(1)])),
    ("the deletion of another checkpoint", ("checkpoint", 1), "but the run had that of version 1", |log| checkpoint(log, vec![AnyEvent::Flow(FlowEvent::CheckpointPut { value: json("1") }), deleted(9)])),
];
