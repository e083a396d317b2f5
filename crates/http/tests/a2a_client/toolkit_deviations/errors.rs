//! Errors of the tools: which are told, and by what.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};

use super::{agents_of, loaded, told};

/// Returns the agents that failed, as they are told.
fn failures(case: &Value) -> JsonMap {
    let failed = agents_of(case).into_iter().filter_map(|(id, card)| Some((id, card.err()?)));
    failed.map(|(id, error)| (id, Value::from(format!("Failed to load agent: {error}")))).collect()
}

pub(super) fn hides_failures(case: &Value) -> bool {
    case["input"]["tool"] == "get_agents"
        && !failures(case).is_empty()
        && case["expected"]["output"].as_object().is_some_and(|shown| !shown.is_empty())
        && case["expected"]["output"].get("errors").is_none()
}

pub(super) fn show_failures(case: &mut Value) {
    if hides_failures(case) {
        let (agents, errors) = (case["expected"]["output"].clone(), Value::from(failures(case)));
        case["expected"]["output"] = json!({"agents": agents, "errors": errors});
    }
}

pub(super) fn failures_example() -> (Value, Value) {
    let case = |output: Value| {
        json!({"input": {"tool": "get_agents", "config": {"a": {"url": "https://a/c"}, "b": {"url": "https://b/c"}},
            "cards": {"https://a/c": {"name": "A"}, "https://b/c": "down"}}, "expected": {"output": output}})
    };
    let agents = json!({"a": {"name": "A"}});
    let error = "Failed to load agent: A2AClientHTTPError: HTTP Error 503: down";
    (case(agents.clone()), case(json!({"agents": agents, "errors": {"b": error}})))
}

/// Returns the error of an agent that is not known, if a view is to find an artifact there.
fn missing_agent(case: &Value) -> Option<String> {
    let input = &case["input"];
    let is_view = matches!(input["tool"].as_str(), Some("view_text_artifact" | "view_data_artifact"));
    let (agent, known) = (input["args"]["agent_id"].as_str()?, loaded(case));
    let theirs = case["expected"]["output"]["error_message"].as_str()?;
    let is_misreported = theirs.starts_with("Artifact '") && theirs.contains(" not found in task ");
    let stored = input["stored_tasks"].as_array().into_iter().flatten();
    let is_stored = stored
        .filter(|task| task["id"] == input["args"]["task_id"])
        .flat_map(|task| task["artifacts"].as_array().into_iter().flatten())
        .any(|artifact| artifact["artifactId"] == input["args"]["artifact_id"]);
    let is_missing = is_view && is_misreported && !is_stored && !known.iter().any(|id| id == agent);
    let known = known.join(", ");
    is_missing.then(|| {
        format!(
            "Agent '{agent}' not found. Available agents: {known} Use get_agents to see available agents."
        )
    })
}

pub(super) fn is_missing_agent(case: &Value) -> bool {
    missing_agent(case).is_some()
}

pub(super) fn tell_missing_agent(case: &mut Value) {
    if let Some(message) = missing_agent(case) {
        case["expected"]["output"] = told(&message);
    }
}

pub(super) fn missing_agent_example() -> (Value, Value) {
    let case = |message: &str| {
        let args = json!({"agent_id": "artifacts", "task_id": "t", "artifact_id": "a"});
        json!({"input": {"tool": "view_text_artifact", "args": args}, "expected": {"output": told(message)}})
    };
    let theirs =
        "Artifact 'a' not found in task 't'. Check the task's artifacts list for valid artifact IDs.";
    let ours = "Agent 'artifacts' not found. Available agents: rb Use get_agents to see available agents.";
    (case(theirs), case(ours))
}

fn timeout(case: &Value) -> Option<&'static str> {
    let message = case["expected"]["output"]["error_message"].as_str()?;
    if !message.ends_with(": Timeout Error: Client Request timed out") {
        return None;
    }
    Some(if case["input"]["tool"] == "send_message" {
        "Request timed out. You can retry with a longer timeout, or if a task_id was returned earlier, use get_task to check progress."
    } else {
        "Request timed out. You can retry with a longer timeout, or use get_task again to continue monitoring."
    })
}

pub(super) fn is_timeout(case: &Value) -> bool {
    timeout(case).is_some()
}

pub(super) fn advise_on_timeout(case: &mut Value) {
    if let Some(message) = timeout(case) {
        case["expected"]["output"]["error_message"] = message.into();
    }
}

pub(super) fn timeout_example() -> (Value, Value) {
    let case = |message: &str| json!({"input": {"tool": "get_task"}, "expected": {"output": told(message)}});
    let ours = "Request timed out. You can retry with a longer timeout, or use get_task again to continue monitoring.";
    (case("Failed to get task: Timeout Error: Client Request timed out"), case(ours))
}
