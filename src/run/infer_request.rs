//! The request that a backend is sent for an attempt.

use std::sync::Arc;

use proto_events::call::CallRequested;
use proto_events::id::Digest;
use proto_events::model::LlmRole;
use proto_events::task::Task;

use crate::agent::card::Agent;
use crate::models::backend::{Deltas, InferRequest};
use crate::models::message::ChatMessage;
use crate::models::shown_messages::Messages;
use crate::run::model_input::shown;
use crate::run::question::TurnView;
use crate::run::reading::schema_in;

/// Returns the request sent to the backend for an attempt of this inference.
pub(crate) fn infer_request(
    agent: &Agent,
    task: &Task,
    turn_view: Option<TurnView<'_>>,
    call: &CallRequested,
    attempt: u32,
) -> InferRequest {
    // A server's tools may have joined since the intent was written: what is sent is what the intent names.
    let then = call.prompt.as_ref().and_then(|prompt| agent.tools.as_of(prompt.tools));
    let then = then.map(|tools| Agent { tools, ..agent.clone() });
    let agent = then.as_ref().unwrap_or(agent);
    let output_schema = schema_in(&call.args);
    let shown = shown(agent, task, turn_view, call.origin.part, output_schema.as_ref());
    let turn = shown.turn.into_iter().map(ChatMessage::of).collect();
    let system = ChatMessage::new(LlmRole::System, shown.system);
    // Shared, not copied: the backend reads the history on its own thread.
    let history = turn_view.map(|turn_view| Arc::clone(turn_view.session.history()));
    let messages = Messages::of(system, history, turn);
    InferRequest {
        messages,
        tools: agent.tools.specs().into_iter().cloned().collect(),
        task_id: task.id().to_owned(),
        session_id: turn_view.map(|turn_view| turn_view.session.id().to_owned()),
        call_id: call.call_id.clone(),
        idempotency_key: call.idempotency_key.clone(),
        attempt,
        output_schema,
        prompt_digest: call.prompt.as_ref().map_or(Digest::default(), |prompt| prompt.digest),
        deltas: Deltas::default(),
    }
}
