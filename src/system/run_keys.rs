//! The keys that a budget and a run context may have. Protolink ignores others, so that a limit whose name has a typing
//! error would be no limit: a caller of this system is told.

use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{DEADLINE, RunBudget};

use crate::agent::card::Agent;
use crate::error::Error;
use crate::system::card::card;

const OF_BUDGET: [&str; 8] = [
    "max_steps",
    "max_llm_calls",
    "max_tool_calls",
    "max_runtime_seconds",
    "max_input_tokens",
    "max_output_tokens",
    DEADLINE,
    "metadata",
];

const OF_CONTEXT: [&str; 12] = [
    "run_id",
    "session_id",
    "trace_id",
    "workspace_uri",
    "parent_run_id",
    "agent_chain",
    "permissions",
    "budget",
    "canceled",
    "cancel_reason",
    "metadata",
    "created_at",
];

/// Checks the keys of the budgets and of the run context in a task's metadata. What is not an object is left to the reading of
/// the run, which has an error of its own for it.
///
/// # Errors
/// [`Error::UnknownKey`] for the first key without a meaning.
pub(crate) fn check_keys(metadata: &JsonObject) -> Result<(), Error> {
    let context = object(metadata.get("run_context"));
    check("metadata.run_context", &context, &OF_CONTEXT)?;
    check("metadata.run_context.budget", &object(context.get("budget")), &OF_BUDGET)?;
    for name in ["budget", "budgets"] {
        check(&format!("metadata.{name}"), &object(metadata.get(name)), &OF_BUDGET)?;
    }
    Ok(())
}

/// Checks the deadline in a task's metadata, if it has one: it can be read, and the card of the agent says that it keeps
/// deadlines.
///
/// # Errors
/// [`Error::Model`] if it cannot be read, [`Error::NoTimeoutSupport`] if the agent takes no task with one.
pub(crate) fn check_deadline(metadata: &JsonObject, agent: &Agent) -> Result<(), Error> {
    let context = object(metadata.get("run_context"));
    let named = [context.get("budget"), metadata.get("budget"), metadata.get("budgets")];
    for budget in named.into_iter().flatten() {
        // What is wrong beside the deadline is left to the reading of the run.
        let Ok(budget) = RunBudget::from_json(budget) else { continue };
        if budget.deadline()?.is_some() && !card(agent).capabilities.timeout_support {
            return Err(Error::NoTimeoutSupport { agent: agent.name.clone() });
        }
    }
    Ok(())
}

fn object(json: Option<&JsonText>) -> JsonObject {
    json.filter(|json| json.is_object()).and_then(|json| json.read().ok()).unwrap_or_default()
}

fn check(within: &str, fields: &JsonObject, known: &[&str]) -> Result<(), Error> {
    match fields.iter().map(|(key, _)| key).find(|key| !known.contains(key)) {
        Some(key) => Err(Error::UnknownKey {
            within: within.to_owned(),
            key: crate::tools::texts::short(key),
            known: known.join(", "),
        }),
        None => Ok(()),
    }
}
