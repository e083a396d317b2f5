//! Run contexts in the metadata of tasks: read and written by an agent before it executes a task, and when
//! the task is canceled.

use crate::id::Mint;
use crate::json::{JsonObject, JsonText};
use crate::model::error::ModelError;
use crate::model::python;
use crate::model::run_budget::RunBudget;
use crate::model::run_context::RunContext;

/// Returns the metadata to merge before `agent` executes the task: `run_context` and the keys that mirror it.
/// An `explicit` context of the caller replaces the one in the metadata.
///
/// # Errors
/// [`ModelError`] if the metadata holds an invalid run context or budget.
pub fn attach(
    metadata: &JsonObject,
    task_id: &str,
    agent: &str,
    explicit: Option<&RunContext>,
    mint: &mut dyn Mint,
) -> Result<JsonObject, ModelError> {
    let context = RunContext::of_task(metadata, task_id, agent, explicit, mint)?;
    Ok(context.mirrored())
}

/// Returns the metadata to merge when a task is canceled. Without a reason, `cancel_reason` is not written
/// and a stored one stays, but the run context has the reason of this cancellation only.
///
/// # Errors
/// [`ModelError`] if the metadata holds an invalid run context or budget.
pub fn canceled(
    metadata: &JsonObject,
    task_id: &str,
    reason: Option<&str>,
    mint: &mut dyn Mint,
) -> Result<JsonObject, ModelError> {
    let mut context = read(metadata, task_id, None, mint)?;
    context.session_id = context.session_id.filter(|session| !session.is_empty());
    Ok(context.cancel(reason).mirrored())
}

/// Returns the metadata to merge when a task is canceled whose run context cannot be read.
pub fn canceled_unread(reason: Option<&str>) -> JsonObject {
    let mut keys = JsonObject::new();
    keys.set("canceled", JsonText::of_model(&true));
    set_if_some(&mut keys, "cancel_reason", reason.map(str::to_owned).as_ref());
    keys
}

impl RunContext {
    /// Returns the context in which `agent` executes the task, see [`attach`]. The session defaults to the
    /// task's id.
    ///
    /// # Errors
    /// [`ModelError`] if the metadata holds an invalid run context or budget.
    pub fn of_task(
        metadata: &JsonObject,
        task_id: &str,
        agent: &str,
        explicit: Option<&Self>,
        mint: &mut dyn Mint,
    ) -> Result<Self, ModelError> {
        let mut context = read(metadata, task_id, explicit, mint)?;
        // A session posted as null or empty explicitly means no session.
        if is_blank(context.session_id.as_ref()) && metadata.get("session_id").is_none() {
            context.session_id = Some(task_id.to_owned());
        }
        Ok(if agent.is_empty() { context } else { context.with_agent(agent) })
    }

    /// Returns the metadata keys for this context: `run_context`, and copies of the fields that others read
    /// at the top level.
    pub fn mirrored(&self) -> JsonObject {
        let mut keys = JsonObject::new();
        keys.set("run_context", self.to_json());
        keys.set("run_id", JsonText::string(&self.run_id));
        let copies = [
            ("session_id", &self.session_id),
            ("trace_id", &self.trace_id),
            ("workspace_uri", &self.workspace_uri),
            ("parent_run_id", &self.parent_run_id),
        ];
        for (key, value) in copies {
            set_if_some(&mut keys, key, value.as_ref());
        }
        if self.canceled {
            keys.set("canceled", JsonText::of_model(&true));
        }
        set_if_some(&mut keys, "cancel_reason", self.cancel_reason.as_ref());
        keys
    }
}

fn set_if_some(keys: &mut JsonObject, key: &str, value: Option<&String>) {
    if let Some(value) = value {
        keys.set(key, JsonText::string(value));
    }
}

fn is_blank(text: Option<&String>) -> bool {
    text.is_none_or(String::is_empty)
}

/// Reads the task's context; absent fields are filled in from the top level of the metadata, used by older
/// callers.
fn read(
    metadata: &JsonObject,
    task_id: &str,
    explicit: Option<&RunContext>,
    mint: &mut dyn Mint,
) -> Result<RunContext, ModelError> {
    let stored = truthy(metadata, "run_context");
    let mut context = match (explicit, stored) {
        (Some(explicit), _) => explicit.clone(),
        (None, Some(stored)) => {
            RunContext::from_json(stored, mint).map_err(|error| error.within("metadata.run_context"))?
        }
        (None, None) => fresh(metadata, task_id, mint),
    };
    fill(&mut context.session_id, metadata, &["session_id"]);
    fill(&mut context.trace_id, metadata, &["trace_id"]);
    fill(&mut context.workspace_uri, metadata, &["workspace_uri", "workspace"]);
    fill(&mut context.parent_run_id, metadata, &["parent_run_id", "parent_agent"]);
    fill(&mut context.cancel_reason, metadata, &["cancel_reason", "cancellation_reason"]);
    for field in [&mut context.workspace_uri, &mut context.cancel_reason] {
        *field = field.take().filter(|text| !text.is_empty());
    }
    if context.permissions.is_empty()
        && let Some(permissions) = object(metadata, "permissions")
    {
        context.permissions = permissions.read()?;
    }
    if context.budget == RunBudget::default()
        && let Some(budget) = object(metadata, "budget").or_else(|| object(metadata, "budgets"))
    {
        context.budget = RunBudget::from_json(budget).map_err(|error| error.within("metadata.budget"))?;
    }
    let told = |key: &str| metadata.get(key).is_some_and(|value| value.as_str() == "true");
    context.canceled |= told("canceled") || told("cancelled");
    Ok(context)
}

fn fresh(metadata: &JsonObject, task_id: &str, mint: &mut dyn Mint) -> RunContext {
    let run_id = truthy(metadata, "run_id").map_or_else(|| task_id.to_owned(), python::text);
    let run_id = if run_id.is_empty() { mint.id("run_") } else { run_id };
    RunContext::new(run_id, mint.timestamp())
}

fn truthy<'a>(metadata: &'a JsonObject, key: &str) -> Option<&'a JsonText> {
    metadata.get(key).filter(|value| python::truthy(value))
}

fn object<'a>(metadata: &'a JsonObject, key: &str) -> Option<&'a JsonText> {
    metadata.get(key).filter(|value| value.is_object())
}

/// Fills a blank field from the first of `keys` with a true value. Python's `or` returns its last operand, so
/// a last value that is empty but not null is still written.
fn fill(field: &mut Option<String>, metadata: &JsonObject, keys: &[&str]) {
    if is_blank(field.as_ref()) {
        let last = || keys.last().and_then(|key| metadata.get(key));
        let found = keys.iter().find_map(|key| truthy(metadata, key)).or_else(last);
        *field = found.filter(|value| !value.is_null()).map(python::text);
    }
}
