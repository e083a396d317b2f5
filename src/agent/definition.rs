//! The agent's definition as its stream in the log holds it: all that a task is decided with, as texts.

use proto_events::definition::Definition;
use proto_events::json;
use proto_events::json::{JsonMap, JsonText, JsonValue};
use taskreel_log::shown::{CALLS, NATIVE};

use crate::agent::card::Agent;
use crate::agent::loop_rules::LoopRules;
use crate::agent::peers::KnownPeer;
use crate::models::backend::KnownBackend;
use crate::tools::policy::ToolPolicy;

/// Returns the definition of an agent.
pub(crate) fn definition(agent: &Agent) -> Definition {
    let model = agent.backend.as_ref().map(KnownBackend::target);
    let parameters = agent.backend.as_ref().map(|backend| backend.parameters.to_text());
    let parameters = parameters.unwrap_or_else(JsonText::empty_object);
    let texts = [
        model.unwrap_or_default(),
        agent.system_prompt.clone().unwrap_or_default(),
        JsonText::from(JsonValue::Array(tools(agent))).as_str().to_owned(),
        JsonText::from(JsonValue::Array(peers(agent))).as_str().to_owned(),
        parameters_text(agent, &parameters),
    ];
    Definition(texts.map(Into::into))
}

/// The parameters of inferences, and the policy of the handler, or that there is a responder, where the agent has one. What
/// earlier releases did not know is named only where it differs from theirs.
fn parameters_text(agent: &Agent, backend: &JsonText) -> String {
    let mut parameters = JsonMap::new();
    let mut set = |name: &str, value: JsonValue| parameters.insert(name.to_owned(), value);
    set("backend", backend.tree());
    set("steps", agent.infer_steps.into());
    match &agent.handler {
        None if agent.responder.is_some() => set("responder", true.into()),
        None => None,
        Some(handler) => set("handler", policy(&handler.policy)),
    };
    if agent.asks_natively() {
        set(CALLS, NATIVE.into());
    }
    if agent.loop_rules == LoopRules::Protolink {
        set("loop_rules", "protolink".into());
    }
    JsonText::from(JsonValue::Object(parameters)).as_str().to_owned()
}

fn tools(agent: &Agent) -> Vec<JsonValue> {
    let tool = |spec: &crate::tools::registry::ToolSpec| {
        json!({
            "name": spec.name.clone(),
            "description": spec.description.clone(),
            "input_schema": JsonValue::clone(&spec.input_schema),
            "policy": policy(&spec.policy),
        })
    };
    agent.tools.specs().into_iter().map(tool).collect()
}

fn peers(agent: &Agent) -> Vec<JsonValue> {
    let peer = |peer: &KnownPeer| {
        json!({
            "name": peer.name.clone(),
            "description": peer.description.clone(),
            "skills": skills(peer),
            "policy": policy(&peer.policy),
        })
    };
    agent.peers.iter().map(peer).collect()
}

/// Returns the skills of a peer: whole where they are known, else their names.
fn skills(peer: &KnownPeer) -> JsonValue {
    match &peer.detailed {
        Some(skills) => JsonValue::Array(skills.iter().map(|skill| skill.to_json().tree()).collect()),
        None => peer.skills.clone().into(),
    }
}

/// Returns the part of a policy that decides how calls are made, and whether they are made again.
fn policy(policy: &ToolPolicy) -> JsonValue {
    let millis = |time: Option<std::time::Duration>| {
        time.map_or(JsonValue::Null, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into())
    };
    json!({
        "recovery": policy.recovery().as_str(),
        "declared_by": policy.get_declared_by(),
        "timeout_ms": millis(Some(policy.get_timeout())),
        "heartbeat_ms": millis(policy.get_heartbeat()),
        "max_attempts": policy.attempts_max(),
        "retry_errors": policy.retries_errors(),
        "window_ms": millis(policy.window()),
        "deadline_ms": millis(policy.get_deadline()),
        "parallel": policy.is_parallel(),
        "repeatable": policy.is_repeatable(),
        "concurrency": policy.get_concurrency().map_or(JsonValue::Null, |calls| (calls as u64).into()),
        "rate": policy.get_rate().map_or(JsonValue::Null, |rate| json!({
            "attempts": rate.attempts,
            "per_ms": millis(Some(rate.per)),
            "target": rate.target.clone().map_or(JsonValue::Null, JsonValue::String),
        })),
        "capabilities": policy.get_capabilities().to_vec(),
        "secret_args": policy.get_secret_args().to_vec(),
    })
}
