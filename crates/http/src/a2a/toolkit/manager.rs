//! The registry of agents as a2a-utils 0.2.0 had it.

use std::sync::Arc;

use proto_events::json::JsonValue as Value;

use crate::a2a::toolkit::agent_texts::AgentDetail;
use crate::a2a::toolkit::agents::A2aAgents;
use crate::a2a::toolkit::error::SessionError;
use crate::a2a::toolkit::way::{AgentAt, KnownAgent};

/// The registry of agents by its name and in the form of a2a-utils 0.2.0: cards are read without the agents' headers, and
/// errors are not told.
#[derive(Debug, Clone)]
pub struct AgentManager(A2aAgents);

impl AgentManager {
    /// Returns the manager of these agents. Their cards are read anew.
    pub fn new(agents: A2aAgents) -> Self {
        Self(agents.cards_without_headers())
    }

    /// Adds an agent whose card is read now.
    ///
    /// # Errors
    /// As for [`A2aAgents::add_agent`].
    pub async fn add_agent<'a>(
        &self,
        id: &str,
        url: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), SessionError> {
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let headers = headers.into_iter().map(pair).collect();
        let mut at = AgentAt { url: url.to_owned(), headers, other_hosts: false, card_headers: false };
        self.0.add(id, &mut at).await
    }

    /// Returns an agent; `None` if it is not known.
    pub async fn get_agent(&self, id: &str) -> Option<Arc<KnownAgent>> {
        self.0.get_agent(id).await
    }

    /// Returns the agents whose cards were read.
    pub async fn get_agents(&self) -> Vec<(String, Arc<KnownAgent>)> {
        self.0.get_agents().await
    }

    /// Returns an agent as a model is shown it; `None` if it is not known.
    pub async fn get_agent_for_llm(&self, id: &str, detail: AgentDetail) -> Option<Value> {
        self.0.get_agent_for_llm(id, detail).await
    }

    /// Returns the agents as a model is shown them.
    pub async fn get_agents_for_llm(&self, detail: AgentDetail) -> Value {
        self.0.get_agents_for_llm(detail).await
    }
}
