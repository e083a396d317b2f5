//! The agent: its name, tools, model, peers, and what it may do.

use std::collections::BTreeMap;
use std::time::Duration;

use proto_events::call::{CURRENCY_BYTES_MAX, CallKind, CallRequested, Price, Recovery};
use proto_events::id::check_id;
use proto_events::json::JsonObject;
use proto_events::limits::INFER_STEPS_MAX;
use proto_events::model::{BudgetScope, CompactionStrategy, RunBudget};

use crate::agent::approval::{ApprovalQuestion, Approvals};
use crate::agent::budget_stop::BudgetStop;
use crate::agent::capability::CapabilityPolicy;
use crate::agent::card_presentation::CardPresentation;
use crate::agent::definition_change::ChangedAgent;
use crate::agent::handler::KnownHandler;
use crate::agent::loop_rules::LoopRules;
use crate::agent::peers::Peers;
use crate::agent::prompt_context::PromptContext;
use crate::agent::responder::KnownResponder;
use crate::agent::state_modules::{AutoCompaction, StateModule, StateModules};
use crate::files::beside::FilesBeside;
use crate::grammar::action::{AGENT_CALL, ActionError, Reply, parse_reply, parse_whole_reply};
use crate::limits::APPROVAL_TIMEOUT;
use crate::models::backend::KnownBackend;
use crate::models::policy::InferPolicy;
use crate::tools::panics::caught;
use crate::tools::rate::Rate;
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
    /// The code that answers messages within the step that takes them, in place of a handler.
    pub responder: Option<KnownResponder>,
    /// The model that carries out the `infer` parts.
    pub backend: Option<KnownBackend>,
    /// The other agents that the model may ask.
    pub peers: Peers,
    /// The instructions for the model that follow our own in the system prompt.
    pub system_prompt: Option<String>,
    /// Whether the agent keeps conversations.
    pub conversation: bool,
    /// The modules of the agent's state, apart from the conversation.
    pub modules: StateModules,
    /// The compaction of conversations that have grown too long.
    pub auto_compaction: Option<AutoCompaction>,
    /// The largest number of calls in flight at once, of tools and of the model.
    pub max_concurrency: Option<usize>,
    /// The timeout, retries and circuit breaker of the model's calls.
    pub infer_policy: InferPolicy,
    /// The rules by which the model's replies are read.
    pub loop_rules: LoopRules,
    /// The most model calls for one infer part.
    pub infer_steps: u32,
    /// The rule for the part of a long history that the model is shown.
    pub context: PromptContext,
    /// The store for the files of artifacts, beside the log.
    pub files: FilesBeside,
    /// The prices of models, by the model's name or by backend and model.
    pub prices: BTreeMap<String, Price>,
    /// The work that one budget covers.
    pub budget_scope: BudgetScope,
    /// The capabilities that the tools may use.
    pub capability_policy: CapabilityPolicy,
    /// The party that decides where the policy requires approval.
    pub approvals: Approvals,
    /// The longest time for a handler's decision; after that a person is asked.
    pub approval_timeout: Duration,
    /// The host's own text for the question to a person, in place of the default.
    pub approval_question: Option<ApprovalQuestion>,
    /// The budget of tasks that have none of their own.
    pub run_budget: Option<RunBudget>,
    /// The metadata of tasks that have no value of their own under these keys.
    pub run_metadata: JsonObject,
    /// The rule for runs that reach a limit of their budget.
    pub on_budget: BudgetStop,
    /// The rule for tasks that are found under way after the definition has changed.
    pub on_changed: ChangedAgent,
    /// The host's part of the agent's card.
    pub presented: CardPresentation,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("name", &self.name).field("tools", &self.tools).finish_non_exhaustive()
    }
}

/// Checks that the policies of a system's agents state the same rate limit for the same target.
///
/// # Errors
/// A text that names the target.
pub(crate) fn check_shared_rates<'a>(agents: impl IntoIterator<Item = &'a Agent>) -> Result<(), String> {
    let mut known: BTreeMap<String, Rate> = BTreeMap::new();
    for rate in agents.into_iter().flat_map(Agent::shared_rates) {
        let target = rate.target.clone().unwrap_or_default();
        if *known.entry(target.clone()).or_insert_with(|| rate.clone()) != rate {
            return Err(format!("two policies state different rate limits for the target `{target}`"));
        }
    }
    Ok(())
}

impl Agent {
    /// Whether a call takes a place among the concurrent calls. One that another call asked for takes none: that call waits
    /// for it, so they would wait for each other. Nor does one to an agent of the same system, whose own calls take places:
    /// two agents that ask each other would wait for each other.
    pub(crate) fn takes_place(&self, request: &CallRequested) -> bool {
        let is_local = || {
            request.kind == CallKind::Delegate
                && self.peers.get(&request.target).is_some_and(|peer| peer.is_local)
        };
        request.origin.parent.is_none() && !is_local()
    }

    /// Whether a call may have to wait because of other calls: for a permit, or for a turn at a rate limit.
    pub(crate) fn is_limited(&self, request: &CallRequested) -> bool {
        let of_target = || self.concurrency_of(&request.target).is_some();
        let may_be = matches!(request.kind, CallKind::Tool | CallKind::Handler);
        let needs_permit = self.max_concurrency.is_some() || (may_be && of_target());
        (needs_permit && self.takes_place(request)) || self.rate_of(request).is_some()
    }

    /// Returns the price of a model, as the host stated it: by backend and model, else by the model's name alone.
    pub(crate) fn price_of(&self, backend: &KnownBackend) -> Option<&Price> {
        self.prices.get(&backend.target()).or_else(|| self.prices.get(&backend.model))
    }

    /// Returns the rate limit of a call's attempts, and the name under which they are counted.
    pub(crate) fn rate_of(&self, request: &CallRequested) -> Option<(String, Rate)> {
        let target = &request.target;
        let rate = match request.kind {
            CallKind::Tool => self.tools.get(target)?.spec().policy.get_rate()?.clone(),
            CallKind::Delegate => self.peers.get(target)?.policy.get_rate()?.clone(),
            CallKind::Infer => self.infer_policy.get_rate()?,
            CallKind::Handler => self.handler_of(target)?.policy.get_rate()?.clone(),
        };
        let name = match (&rate.target, request.kind) {
            (Some(shared), _) => format!("shared {shared}"),
            // The agents of a system count apart what they do not share.
            (None, CallKind::Tool) => format!("{}: tool {target}", self.name),
            (None, CallKind::Delegate) => format!("{}: agent {target}", self.name),
            (None, CallKind::Infer) => format!("{}: model {target}", self.name),
            (None, CallKind::Handler) => format!("{}: handler {target}", self.name),
        };
        Some((name, rate))
    }

    /// Returns the rate limits that name a target, which others may share.
    pub(crate) fn shared_rates(&self) -> Vec<Rate> {
        let specs = self.tools.specs();
        let of_peers = self.peers.iter().filter_map(|peer| peer.policy.get_rate());
        let of_handler = self.handler.iter().filter_map(|handler| handler.policy.get_rate());
        let of_tools = specs.iter().filter_map(|spec| spec.policy.get_rate());
        let all = of_tools.chain(of_peers).chain(of_handler);
        all.filter(|rate| rate.target.is_some()).cloned().collect()
    }

    /// Returns the enabled modules of the agent's state.
    pub(crate) fn state_modules(&self) -> StateModules {
        let modules = self.modules.without(StateModule::Conversation);
        if self.conversation { modules.with(StateModule::Conversation) } else { modules }
    }

    /// Whether the model may answer without an action.
    pub(crate) fn may_talk(&self) -> bool {
        self.backend.as_ref().is_some_and(|backend| backend.may_talk)
    }

    /// Whether the model's text is never an action: it asks by tool calls alone.
    pub(crate) fn asks_natively(&self) -> bool {
        self.loop_rules == LoopRules::Taskreel && self.may_talk()
    }

    /// Whether the model asks other agents by the function `agent_call`.
    pub(crate) fn offers_agent_call(&self) -> bool {
        self.asks_natively() && self.peers.is_on()
    }

    /// Reads the action that a reply in text asks for.
    ///
    /// # Errors
    /// [`ActionError`] with the text for the model.
    pub(crate) fn parse_reply(&self, raw: &str) -> Result<Reply, ActionError> {
        let (tools, agents) = (self.tools.names(), self.peers.skills());
        match self.loop_rules {
            LoopRules::Taskreel => parse_whole_reply(raw, &tools, &agents),
            LoopRules::Protolink => parse_reply(raw, &tools, &agents),
        }
    }

    /// Returns the description of a tool or of another agent.
    pub(crate) fn description_of(&self, target: &str) -> &str {
        let tool = self.tools.get(target).map(|tool| tool.spec().description.as_str());
        let peer = || self.peers.get(target).map(|peer| peer.description.as_str());
        tool.or_else(peer).unwrap_or_default()
    }

    /// Returns the largest number of calls of a tool, or of the handler under the agent's name, in flight at once.
    pub(crate) fn concurrency_of(&self, target: &str) -> Option<usize> {
        if let Some(tool) = self.tools.get(target) {
            return tool.spec().policy.get_concurrency();
        }
        self.handler_of(target)?.policy.get_concurrency()
    }

    /// Returns the name under which the concurrent calls of a tool count together with other tools' calls.
    pub(crate) fn concurrency_counted_as(&self, target: &str) -> Option<&'static str> {
        self.tools.get(target)?.spec().policy.counted_as()
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
        if let Some((model, _)) = self.prices.iter().find(|(_, price)| !price.is_named()) {
            return Err(format!(
                "the price of {model} names no currency of 1 to {CURRENCY_BYTES_MAX} letters and digits"
            ));
        }
        if self.offers_agent_call() && self.tools.get(AGENT_CALL).is_some() {
            return Err(format!(
                "tool `{AGENT_CALL}` has the name of the function by which the model asks other agents; give it another name"
            ));
        }
        self.peers.check(&self.name)?;
        self.check_handler()?;
        let sums_up = self.auto_compaction.as_ref().map(|automatic| automatic.request.strategy);
        if sums_up == Some(CompactionStrategy::Summary) && self.backend.is_none() {
            return Err("the automatic compaction asks for summaries, but the agent has no model".to_owned());
        }
        match &self.backend {
            Some(backend) => {
                let checked = caught(|| backend.code.check())
                    .unwrap_or_else(|panic| Err(format!("its check panicked: {panic}")));
                checked.map_err(|why| format!("the model {}: {why}", backend.target()))?;
                self.check_tools_max(backend)
            }
            None => Ok(()),
        }
    }

    fn check_tools_max(&self, backend: &KnownBackend) -> Result<(), String> {
        let tools = self.tools.names().len() + usize::from(self.offers_agent_call());
        let most = caught(|| backend.code.tools_max()).ok().flatten();
        match most.filter(|most| tools > *most) {
            Some(most) => Err(format!(
                "the model {} takes at most {most} tools in a request, and the agent has {tools}: register fewer, split them over \
                 agents, or offer them in text (`json_actions`)",
                backend.target()
            )),
            None => Ok(()),
        }
    }

    fn check_handler(&self) -> Result<(), String> {
        let Some(KnownHandler { policy, .. }) = &self.handler else { return Ok(()) };
        if self.responder.is_some() {
            return Err("the agent has both a handler and a responder; leave one of them out".to_owned());
        }
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
            || !policy.get_secret_args().is_empty()
        {
            return Err(
                "the handler: probes, parallel calls, capabilities and secret arguments are for tools; use another policy"
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
            responder: None,
            backend: None,
            peers: Peers::default(),
            system_prompt: None,
            conversation: true,
            modules: StateModules::default(),
            auto_compaction: None,
            max_concurrency: None,
            infer_policy: InferPolicy::default(),
            loop_rules: LoopRules::default(),
            infer_steps: INFER_STEPS_MAX,
            context: PromptContext::default(),
            files: FilesBeside::default(),
            prices: BTreeMap::new(),
            budget_scope: BudgetScope::default(),
            capability_policy: CapabilityPolicy::default(),
            approvals: Approvals::default(),
            approval_timeout: APPROVAL_TIMEOUT,
            approval_question: None,
            run_budget: None,
            run_metadata: JsonObject::new(),
            on_budget: BudgetStop::default(),
            on_changed: ChangedAgent::default(),
            presented: CardPresentation::default(),
        }
    }
}
