//! The host's part of an agent's card, beside what follows from its tools and its model.

use std::fmt;
use std::sync::Arc;

use proto_events::model::AgentCard;

/// The host's change of a card.
pub(crate) type ChangeCard = Arc<dyn Fn(AgentCard) -> AgentCard + Send + Sync>;

/// The host's part of an agent's card.
#[derive(Clone, Default)]
pub(crate) struct CardPresentation {
    /// The description.
    pub description: Option<String>,
    /// The change of the card that follows from the agent.
    pub change: Option<ChangeCard>,
}

impl fmt::Debug for CardPresentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CardPresentation").field("description", &self.description).finish_non_exhaustive()
    }
}
