//! Events of sessions, tools' states and runs' flow states as JSON.

use proto_events::flow::{FlowEvent, FlowRun};
use proto_events::json::JsonText;
use proto_events::model::LlmMessage;
use proto_events::session::{HistoryCompacted, SessionEvent, SummaryRequested};
use proto_events::tool_store::ToolStoreEvent;

use crate::audit::json::turns::{turn_message, usage_json};
use crate::audit::json::values::{number, object, text, text_or_null};

/// Returns the fields of a session's event.
pub(crate) fn session_event(event: &SessionEvent) -> JsonText {
    match event {
        SessionEvent::Opened { session_id } => object([("session_id", text(session_id))]),
        SessionEvent::SystemPromptSet(prompt) => object([("message", prompt.to_json())]),
        SessionEvent::TurnStarted { turn_id, task } => {
            object([("turn_id", text(turn_id)), ("task", text(task))])
        }
        SessionEvent::MessageAppended(message) => turn_message(message),
        SessionEvent::TurnCommitted { turn_id } => object([("turn_id", text(turn_id))]),
        SessionEvent::TurnAborted { turn_id, reason } => {
            object([("turn_id", text(turn_id)), ("reason", text(reason))])
        }
        SessionEvent::HistoryCompacted(compacted) => compacted_json(compacted),
        SessionEvent::Cleared { messages } => object([("messages", number(*messages))]),
        SessionEvent::SummaryRequested(request) => requested_json(request),
        SessionEvent::SummaryReceived { call_id, reply, usage, dropped } => object([
            ("call_id", text(call_id)),
            ("reply", reply.clone()),
            ("usage", usage_json(*usage)),
            ("dropped", text_or_null(dropped.as_deref())),
        ]),
        SessionEvent::SummaryFailed { call_id, error_type, message, usage } => object([
            ("call_id", text(call_id)),
            ("type", text(error_type)),
            ("message", text(message)),
            ("usage", usage_json(*usage)),
        ]),
    }
}

fn compacted_json(compacted: &HistoryCompacted) -> JsonText {
    object([
        ("strategy", text(compacted.strategy.as_str())),
        ("read_to", number(compacted.read_through.0)),
        ("removed", number(compacted.removed)),
        ("summary", compacted.summary.as_ref().map_or_else(JsonText::null, LlmMessage::to_json)),
        ("call_id", text_or_null(compacted.call_id.as_deref())),
        ("before_tokens", number(compacted.before_tokens)),
        ("after_tokens", number(compacted.after_tokens)),
    ])
}

fn requested_json(request: &SummaryRequested) -> JsonText {
    object([
        ("call_id", text(&request.call_id)),
        ("target", text(&request.target)),
        ("read_to", number(request.read_through.0)),
        ("messages", number(request.messages)),
        ("max_tokens", number(request.max_tokens)),
        ("digest", text(&request.digest.to_string())),
    ])
}

/// Returns the fields of an event of a tool's state.
pub(crate) fn tool_event(event: &ToolStoreEvent) -> JsonText {
    match event {
        ToolStoreEvent::KeyPut { task, call_id, key, value } => object([
            ("task", text(task)),
            ("call_id", text(call_id)),
            ("key", text(key)),
            ("value", value.clone()),
        ]),
        ToolStoreEvent::KeyDeleted { task, call_id, key } => {
            object([("task", text(task)), ("call_id", text(call_id)), ("key", text(key))])
        }
        ToolStoreEvent::KeySet { key, value } => object([("key", text(key)), ("value", value.clone())]),
        ToolStoreEvent::KeyRemoved { key } => object([("key", text(key))]),
        ToolStoreEvent::Cleared { keys } => object([("keys", number(*keys))]),
    }
}

/// Returns the fields of an event of a run's flow state.
pub(crate) fn flow_event(event: &FlowEvent) -> JsonText {
    match event {
        FlowEvent::CheckpointPut { value } => object([("value", value.clone())]),
        FlowEvent::CheckpointDeleted { version } => object([("version", number(version.0))]),
    }
}

/// Returns a run's flow state: its checkpoint with its version, or null.
pub fn flow_json(run: &FlowRun) -> JsonText {
    run.checkpoint().map_or_else(JsonText::null, |checkpoint| {
        object([("value", checkpoint.value.clone()), ("version", number(checkpoint.version.0))])
    })
}
