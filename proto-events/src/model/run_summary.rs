//! The sentence and the severity of a run event, in Protolink's words.

use crate::json::JsonObject;
use crate::model::python;

/// The most characters of a summary that holds an answer.
const SUMMARY_CHARACTERS_MAX: usize = 140;

/// Returns the severity of an event of a task's stream.
pub(crate) fn severity(source: &str, loop_kind: &str) -> &'static str {
    const ERRORS: [&str; 5] =
        ["action_denied", "agent_call_error", "budget_exceeded", "llm_error", "tool_error"];
    match (source, loop_kind) {
        ("task_error", _) => "error",
        ("task_llm_stream", kind) if ERRORS.contains(&kind) => "error",
        ("task_llm_stream", "approval_required" | "budget_warning" | "llm_parse_error" | "llm_retry") => {
            "warning"
        }
        _ => "info",
    }
}

/// Returns an event of a task's stream in a sentence.
pub(crate) fn summary(source: &str, told: &JsonObject) -> Option<String> {
    Some(match source {
        "task_status_update" => {
            let state = truthy(told, "new_state").unwrap_or_else(|| "unknown".to_owned());
            if told.get("final").is_some_and(python::truthy) {
                format!("Task finished with state {state}")
            } else {
                format!("Task state changed to {state}")
            }
        }
        "task_artifact_update" => match truthy(&object(told, "artifact"), "id") {
            Some(id) => format!("Artifact produced: {id}"),
            None => "Artifact produced".to_owned(),
        },
        "task_progress" => truthy(told, "message").unwrap_or_else(|| {
            let progress = told.get("progress").cloned().unwrap_or_default();
            format!("Task progress {}%", python::text(&progress))
        }),
        "task_llm_stream" => of_loop(told),
        "task_error" => told_text(told, "error_message").unwrap_or_else(|| "Task failed".to_owned()),
        _ => return present(told, "summary"),
    })
}

fn of_loop(told: &JsonObject) -> String {
    let kind = truthy(told, "llm_event_type").unwrap_or_else(|| "llm_event".to_owned());
    let metadata = object(told, "metadata");
    let model = || truthy(&metadata, "model").unwrap_or_else(|| "model".to_owned());
    let name = |action: &JsonObject| match action.get("name") {
        Some(name) => python::text(name),
        None => "unnamed".to_owned(),
    };
    let target = || {
        let named = truthy(&metadata, "tool").or_else(|| truthy(&metadata, "agent"));
        named.unwrap_or_else(|| "unnamed".to_owned())
    };
    let said = |otherwise: &str| told_text(&metadata, "message").unwrap_or_else(|| otherwise.to_owned());
    match kind.as_str() {
        "context_prepared" => match present(&object(&metadata, "manifest"), "total_estimated_tokens") {
            Some(total) => format!("Context prepared: {total} estimated tokens"),
            None => "Context prepared".to_owned(),
        },
        "llm_call_started" => format!("LLM call started: {}", model()),
        "llm_call_completed" => match present(&metadata, "latency_ms") {
            Some(latency) => format!("LLM call completed: {} in {latency} ms", model()),
            None => format!("LLM call completed: {}", model()),
        },
        "budget_warning" | "budget_exceeded" => {
            told_text(&object(&metadata, "decision"), "message").unwrap_or(kind)
        }
        "action_requested" => format!("Action requested: {}", name(&object(&metadata, "action"))),
        "policy_decision" => match object(&metadata, "decision").get("effect") {
            Some(effect) => format!("Policy decision: {}", python::text(effect)),
            None => "Policy decision: unknown".to_owned(),
        },
        "approval_required" => {
            format!("Approval required: {}", name(&object(&object(&metadata, "request"), "action")))
        }
        "approval_decision" if object(&metadata, "decision").get("approved").is_some_and(python::truthy) => {
            "Approval granted".to_owned()
        }
        "approval_decision" => "Approval denied".to_owned(),
        "action_denied" => said("Action denied"),
        "tool_start" | "agent_call_start" => format!("Action started: {}", target()),
        "tool_result" | "agent_call_result" => format!("Action completed: {}", target()),
        "tool_error" | "agent_call_error" => said("Action failed"),
        _ => match present(told, "content").filter(|_| told.get("final").is_some_and(python::truthy)) {
            Some(content) => trimmed(format!("{kind}: {content}")),
            None => kind,
        },
    }
}

fn trimmed(text: String) -> String {
    if text.chars().count() <= SUMMARY_CHARACTERS_MAX {
        return text;
    }
    text.chars().take(SUMMARY_CHARACTERS_MAX - 1).chain("...".chars()).collect()
}

fn object(of: &JsonObject, key: &str) -> JsonObject {
    let value = of.get(key).filter(|value| value.is_object());
    value.and_then(|value| value.read().ok()).unwrap_or_default()
}

fn truthy(of: &JsonObject, key: &str) -> Option<String> {
    of.get(key).filter(|value| python::truthy(value)).map(python::text)
}

/// Returns Python's `str` of a member that is present and not null.
fn present(of: &JsonObject, key: &str) -> Option<String> {
    of.get(key).filter(|value| !value.is_null()).map(python::text)
}

/// Returns Python's `str` of a member, unless it is absent, null or empty.
fn told_text(of: &JsonObject, key: &str) -> Option<String> {
    present(of, key).filter(|text| !text.is_empty())
}
