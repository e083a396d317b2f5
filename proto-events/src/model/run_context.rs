//! What travels with a run through agents: ids to follow it by, permissions, budget, cancellation. It lives in a
//! task's metadata under `run_context`.

use serde::Serialize;

use crate::id::Mint;
use crate::json::{JsonObject, JsonText};
use crate::model::fields::Fields;
use crate::model::{ModelError, RunBudget};

/// What travels with a run through agents.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunContext {
    /// The run's id.
    pub run_id: String,
    /// The conversation session that it belongs to.
    pub session_id: Option<String>,
    /// A trace of somebody else's that it belongs to.
    pub trace_id: Option<String>,
    /// What it works on: a folder, a data set, an account.
    pub workspace_uri: Option<String>,
    /// The run that delegated it.
    pub parent_run_id: Option<String>,
    /// The agents that had it, in order.
    pub agent_chain: Vec<String>,
    /// Capability rules; they can only narrow what a policy allows.
    pub permissions: JsonObject,
    /// How much it may use.
    pub budget: RunBudget,
    /// Whether it was canceled.
    pub canceled: bool,
    /// Why, if somebody said.
    pub cancel_reason: Option<String>,
    /// Whatever else travels with it.
    pub metadata: JsonObject,
    /// When it was made.
    pub created_at: String,
}

impl RunContext {
    /// A new context with nothing but an id and a time.
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

    /// Reads a context, with the older names `workspace`, `budgets`, `cancelled` and `cancellation_reason`, and
    /// one agent for a chain of one. Id and time that are absent are filled in.
    ///
    /// # Errors
    /// [`ModelError`], naming the field that is wrong.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = Fields::of_optional(json)?;
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

    /// The context as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }

    /// The same run in that agent's hands: its name joins the chain, unless it is last there already.
    #[must_use]
    pub fn with_agent(mut self, agent: &str) -> Self {
        if self.agent_chain.last().is_none_or(|last| last != agent) {
            self.agent_chain.push(agent.to_owned());
        }
        self
    }

    /// A run delegated by this one: an id of its own, this one as parent, all else the same.
    #[must_use]
    pub fn child(&self, mint: &mut dyn Mint) -> Self {
        Self { run_id: mint.id("run_"), parent_run_id: Some(self.run_id.clone()), ..self.clone() }
    }

    /// The same run, canceled. An empty reason is none.
    #[must_use]
    pub fn cancel(mut self, reason: Option<&str>) -> Self {
        self.canceled = true;
        self.cancel_reason = reason.filter(|reason| !reason.is_empty()).map(str::to_owned);
        self
    }
}

/// Anything but an array stands for a chain of one.
fn agent_chain(fields: &Fields) -> Result<Vec<String>, ModelError> {
    match fields.truthy("agent_chain") {
        Some(chain) if chain.as_str().starts_with('[') => fields.texts("agent_chain"),
        _ => Ok(fields.coerced_truthy("agent_chain").into_iter().collect()),
    }
}
