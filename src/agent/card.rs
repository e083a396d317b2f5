//! The agent: its name, tools, model, peers, and what it may do.

use std::time::Duration;

use proto_events::call::{CallKind, CallRequested, Recovery};
use proto_events::id::check_id;
use proto_events::limits::INFER_STEPS_MAX;
use proto_events::model::BudgetScope;

use crate::agent::approval::Approvals;
use crate::agent::capability::CapabilityPolicy;
use crate::agent::handler::KnownHandler;
use crate::agent::peer::Peers;
use crate::limits::APPROVAL_TIMEOUT;
use crate::models::backend::KnownBackend;
use crate::models::policy::InferPolicy;
use crate::tools::registry::Tools;

/// An agent: its name, its tools and model, and the other agents that it may ask.
#[derive(Clone)]
pub(crate) struct Agent {
    /// The name, which is part of the name of each of the agent's streams.
    pub name: String,
    /// The tools.
    pub tools: Tools,
    /// The code that does the work of runs in place of their parts.
    pub handler: Option<KnownHandler>,
    /// The model that carries out the `infer` parts.
    pub backend: Option<KnownBackend>,
    /// The other agents that the model may ask.
    pub peers: Peers,
    /// The instructions for the model that follow our own in the system prompt.
    pub system_prompt: Option<String>,
    /// Whether the agent keeps conversations.
    pub conversation: bool,
    /// The largest number of calls in flight at once, of tools and of the model.
    pub max_concurrency: Option<usize>,
    /// The timeout, retries and circuit breaker of the model's calls.
    pub infer_policy: InferPolicy,
    /// The most model calls for one infer part.
    pub infer_steps: u32,
    /// The work that one budget covers.
    pub budget_scope: BudgetScope,
    /// The capabilities that the tools may use.
    pub capability_policy: CapabilityPolicy,
    /// The party that decides where the policy requires approval.
    pub approvals: Approvals,
    /// The longest time for a handler's decision; after that a person is asked.
    pub approval_timeout: Duration,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("name", &self.name).field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl Agent {
    /// Whether a call may have to wait until other calls have ended.
    pub(crate) fn is_limited(&self, request: &CallRequested) -> bool {
        let of_target = || self.concurrency_of(&request.target).is_some();
        let may_be = matches!(request.kind, CallKind::Tool | CallKind::Handler);
        self.max_concurrency.is_some() || (may_be && of_target())
    }

    /// Returns the largest number of calls of a tool, or of the handler under the agent's name, in flight at once.
    pub(crate) fn concurrency_of(&self, target: &str) -> Option<usize> {
        if let Some(tool) = self.tools.get(target) {
            return tool.spec().policy.get_concurrency();
        }
        self.handler_of(target)?.policy.get_concurrency()
    }

    /// Returns the handler, if calls of this target are its.
    pub(crate) fn handler_of(&self, target: &str) -> Option<&KnownHandler> {
        self.handler.as_ref().filter(|_| target == self.name)
    }

    /// Checks the settings of a system that is about to start.
    ///
    /// # Errors
    /// A text that names the wrong setting.
    pub(crate) fn check(&self) -> Result<(), String> {
        for spec in self.tools.specs() {
            // A tool's name becomes part of the name of its own stream.
            check_id(&spec.name).map_err(|error| format!("tool `{}`: {error}", spec.name))?;
            if let Some(why) = spec.policy.contradiction() {
                return Err(format!("tool `{}`: {why}", spec.name));
            }
        }
        self.peers.check(&self.name)?;
        self.check_handler()?;
        match &self.backend {
            Some(backend) => {
                backend.code.check().map_err(|why| format!("the model {}: {why}", backend.target()))
            }
            None => Ok(()),
        }
    }

    fn check_handler(&self) -> Result<(), String> {
        let Some(KnownHandler { policy, .. }) = &self.handler else { return Ok(()) };
        if self.tools.get(&self.name).is_some() {
            return Err(format!(
                "tool `{}` has the agent's name, which the calls of its handler carry; give one of them another name",
                self.name
            ));
        }
        if let Some(why) = policy.contradiction() {
            return Err(format!("the handler: {why}"));
        }
        if policy.recovery() == Recovery::Reconcile
            || policy.is_parallel()
            || !policy.get_capabilities().is_empty()
        {
            return Err(
                "the handler: probes, parallel calls and capabilities are for tools; use another policy"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Creates an agent without tools and model, which keeps conversations.
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tools: Tools::new(),
            handler: None,
            backend: None,
            peers: Peers::default(),
            system_prompt: None,
            conversation: true,
            max_concurrency: None,
            infer_policy: InferPolicy::default(),
            infer_steps: INFER_STEPS_MAX,
            budget_scope: BudgetScope::default(),
            capability_policy: CapabilityPolicy::default(),
            approvals: Approvals::default(),
            approval_timeout: APPROVAL_TIMEOUT,
        }
    }
}
