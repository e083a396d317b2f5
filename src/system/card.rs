//! The card of the agent that a system runs: what follows from the agent, with the host's changes.

use proto_events::json::JsonText;
use proto_events::model::{AgentCapabilities, AgentCard, AgentSkill};

use crate::agent::card::Agent;
use crate::limits::LIVE_ACTORS;
use crate::system::handle::System;
use crate::tools::panics::caught;
use crate::tools::registry::ToolSpec;

impl System {
    /// Returns the agent's card: its name and description, its tools as skills in the order in which they were
    /// declared, and as capabilities what is on; then what [`Builder::card`](crate::Builder::card) sets. Without that
    /// it has no address: the server that shows it has.
    pub fn card(&self) -> AgentCard {
        card(&self.own_agent().agent)
    }
}

impl System {
    /// Whether the agent works on prompts only: it has a model, and no handler or responder that takes a message as it is. A message
    /// without an `infer` part or a tool call has nothing that such an agent carries out.
    pub fn needs_prompts(&self) -> bool {
        let agent = &self.own_agent().agent;
        agent.backend.is_some() && agent.handler.is_none() && agent.responder.is_none()
    }
}

/// Returns the card of an agent, with the host's changes.
pub(crate) fn card(agent: &Agent) -> AgentCard {
    let derived = derived(agent);
    let Some(change) = &agent.presented.change else { return derived };
    match caught(|| change(derived.clone())) {
        Ok(card) => card,
        Err(panic) => {
            tracing::warn!(agent = agent.name, error = %panic, "the host's change of the card panicked; it is left out");
            derived
        }
    }
}

/// Returns the number of calls at once that the host's change of the card states, if it states another one than the agent's.
/// A card that promises a bound is held to it.
pub(crate) fn bound_of_card(agent: &Agent) -> Option<usize> {
    agent.presented.change.as_ref()?;
    let (stated, own) = (card(agent), derived(agent));
    let stated = stated.capabilities.max_concurrency;
    let is_changed = stated != own.capabilities.max_concurrency && stated > 0;
    is_changed.then(|| usize::try_from(stated).unwrap_or(usize::MAX))
}

/// Returns the card that follows from the agent. It has no address: that is its server's.
fn derived(agent: &Agent) -> AgentCard {
    let described = agent.presented.description.clone().filter(|text| !text.is_empty());
    let description = described.unwrap_or_else(|| format!("The agent {}", agent.name));
    let specs = agent.tools.specs();
    let skill = |spec: &&ToolSpec| AgentSkill {
        description: spec.description.clone(),
        input_schema: spec.schema().map_or_else(JsonText::empty_object, |schema| schema.clone().into()),
        ..AgentSkill::new(&spec.name)
    };
    let has_llm = agent.backend.is_some();
    let at_once = agent.max_concurrency.unwrap_or(LIVE_ACTORS);
    AgentCard {
        capabilities: AgentCapabilities {
            streaming: true,
            state_transition_history: true,
            delegation: agent.peers.is_on(),
            has_llm,
            max_concurrency: i64::try_from(at_once).unwrap_or(i64::MAX),
            tool_calling: !specs.is_empty(),
            multi_step_reasoning: has_llm && agent.infer_steps > 1,
            timeout_support: true,
            ..AgentCapabilities::default()
        },
        skills: specs.iter().map(skill).collect(),
        ..AgentCard::new(&agent.name, description, "")
    }
}
