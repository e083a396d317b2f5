//! The context that a run carries through agents: ids for tracing, permissions, budget, cancellation. It is
//! stored in a task's metadata under `run_context`.

use serde::Serialize;

use crate::id::Mint;
use crate::json::{JsonObject, JsonText};
use crate::model::error::ModelError;
use crate::model::fields::ModelFields;
use crate::model::run_budget::RunBudget;

/// The context that a run carries through agents.
///
/// On the wire an object of the fields below in their order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunContext {
    /// The run's id.
    pub run_id: String,
    /// The conversation session of the run.
    pub session_id: Option<String>,
    /// An external trace to which the run belongs.
    pub trace_id: Option<String>,
    /// The workspace of the run: a folder, a data set, an account.
    pub workspace_uri: Option<String>,
    /// The run that delegated this one.
    pub parent_run_id: Option<String>,
    /// The agents that handled the run, in order.
    pub agent_chain: Vec<String>,
    /// The capability rules; they can only narrow a policy.
    pub permissions: JsonObject,
    /// The budget of the run.
    pub budget: RunBudget,
    /// Whether the run was canceled.
    pub canceled: bool,
    /// The reason of the cancellation, if given.
    pub cancel_reason: Option<String>,
    /// Further data of the run.
    pub metadata: JsonObject,
    /// The time of creation.
    pub created_at: String,
}

impl RunContext {
    /// Returns a new context with only an id and a time.
    pub fn new(run_id: impl Into<String>, created_at: impl Into<String>) -> Self {
        Self {
            run_id: run_id.into(),
            session_id: None,
            trace_id: None,
            workspace_uri: None,
            parent_run_id: None,
            agent_chain: Vec::new(),
            permissions: JsonObject::new(),
            budget: RunBudget::default(),
            canceled: false,
            cancel_reason: None,
            metadata: JsonObject::new(),
            created_at: created_at.into(),
        }
    }

    /// Reads a context; the older names `workspace`, `budgets`, `cancelled` and `cancellation_reason` are
    /// accepted, and a single agent as a chain of one. An absent id or time is filled in.
    ///
    /// # Errors
    /// [`ModelError`], naming the wrong field.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = ModelFields::of_optional(json)?;
        let either = |key: &str, older: &str| fields.coerced_truthy(key).or_else(|| fields.coerced(older));
        let budget =
            fields.truthy("budget").or_else(|| fields.truthy("budgets")).cloned().unwrap_or_default();
        let canceled =
            if fields.get("canceled").is_some() { fields.flag("canceled") } else { fields.flag("cancelled") };
        Ok(Self {
            run_id: fields.coerced_truthy("run_id").unwrap_or_else(|| mint.id("run_")),
            session_id: fields.coerced("session_id"),
            trace_id: fields.coerced("trace_id"),
            workspace_uri: either("workspace_uri", "workspace"),
            parent_run_id: fields.coerced("parent_run_id"),
            agent_chain: agent_chain(&fields)?,
            permissions: fields.object("permissions")?,
            budget: RunBudget::from_json(&budget).map_err(|error| error.within("budget"))?,
            canceled,
            cancel_reason: either("cancel_reason", "cancellation_reason"),
            metadata: fields.object("metadata")?,
            created_at: fields.coerced_truthy("created_at").unwrap_or_else(|| mint.timestamp()),
        })
    }

    /// Returns the context as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }

    /// Adds an agent's name to the chain, unless it is already the last.
    #[must_use]
    pub fn with_agent(mut self, agent: &str) -> Self {
        if self.agent_chain.last().is_none_or(|last| last != agent) {
            self.agent_chain.push(agent.to_owned());
        }
        self
    }

    /// Returns a context delegated by this one: with its own id, this one as parent, all else equal.
    #[must_use]
    pub fn child(&self, mint: &mut dyn Mint) -> Self {
        Self { run_id: mint.id("run_"), parent_run_id: Some(self.run_id.clone()), ..self.clone() }
    }

    /// Marks the run as canceled. An empty reason counts as no reason.
    #[must_use]
    pub fn cancel(mut self, reason: Option<&str>) -> Self {
        self.canceled = true;
        self.cancel_reason = reason.filter(|reason| !reason.is_empty()).map(str::to_owned);
        self
    }
}

/// Reads the agent chain; anything but an array becomes a chain of one.
fn agent_chain(fields: &ModelFields) -> Result<Vec<String>, ModelError> {
    match fields.truthy("agent_chain") {
        Some(chain) if chain.as_str().starts_with('[') => fields.texts("agent_chain"),
        _ => Ok(fields.coerced_truthy("agent_chain").into_iter().collect()),
    }
}
