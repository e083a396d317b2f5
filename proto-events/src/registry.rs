//! A registry of agents: which agents registered, by whom, and how each registration ended. Its stream is
//! `registry-<name>`. When an agent was last heard of is not in it: that is the registry's memory.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::decider::Decider;
use crate::envelope::{Basis, Metadata, Principal, Timestamp};
use crate::limits::{REGISTRY_AGENTS_MAX, REGISTRY_CARD_BYTES_MAX};
use crate::model::{AgentCard, ModelError};

/// An event of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryEvent {
    /// An agent registered under the address in its card. An earlier registration of the address is replaced.
    Registered {
        /// The agent's card.
        card: Box<AgentCard>,
    },
    /// An agent was unregistered.
    Unregistered {
        /// The address.
        url: String,
    },
    /// An agent was not heard of for the registry's time to live.
    Expired {
        /// The address.
        url: String,
        /// The time to live, in milliseconds.
        ttl_ms: u64,
    },
}

impl RegistryEvent {
    /// Returns the address that the event is about.
    pub fn url(&self) -> &str {
        match self {
            Self::Registered { card } => &card.url,
            Self::Unregistered { url } | Self::Expired { url, .. } => url,
        }
    }
}

/// A command to a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryCommand {
    /// Register an agent under the address in its card. The same card of the same registrant again adds nothing.
    Register {
        /// The card.
        card: Box<AgentCard>,
        /// The registrant.
        by: Principal,
    },
    /// Unregister an agent. An address that is not registered adds nothing.
    Unregister {
        /// The address.
        url: String,
        /// The principal that asks for it.
        by: Principal,
    },
    /// Remove agents that were not heard of for the time to live. Addresses that are not registered add nothing.
    Expire {
        /// The addresses.
        urls: Vec<String>,
        /// The time to live, in milliseconds.
        ttl_ms: u64,
    },
}

/// The reason why a command to a registry is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryRejection {
    /// The card cannot be registered.
    #[error(transparent)]
    Card(#[from] ModelError),
    /// The card is too large.
    #[error("the card has {bytes} bytes; a registry takes {REGISTRY_CARD_BYTES_MAX}")]
    TooLarge {
        /// The size of the card in bytes.
        bytes: usize,
    },
    /// Another authenticated principal registered the address.
    #[error("{url} was registered by another principal, which alone may change that")]
    NotRegistrant {
        /// The address.
        url: String,
    },
    /// The registry is full.
    #[error("the registry has {REGISTRY_AGENTS_MAX} agents and takes no more")]
    Full,
}

/// An agent that is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredAgent {
    /// The card.
    pub card: Arc<AgentCard>,
    /// The registrant.
    pub by: Principal,
    /// The time of the registration.
    pub at: Timestamp,
}

impl RegisteredAgent {
    /// Whether this principal may replace or end the registration: a caller that does not prove who it is cannot touch that
    /// of one who did.
    pub fn may_be_changed_by(&self, principal: &Principal) -> bool {
        self.by.basis != Basis::Authenticated || self.by == *principal
    }
}

/// The agents that are registered, in the order of their first registration: the fold of a registry's stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegistryState {
    agents: IndexMap<String, RegisteredAgent>,
}

impl RegistryState {
    /// Returns the agent that is registered under an address.
    pub fn get(&self, url: &str) -> Option<&RegisteredAgent> {
        self.agents.get(url)
    }

    /// Iterates over the agents that are registered.
    pub fn iter(&self) -> impl Iterator<Item = &RegisteredAgent> {
        self.agents.values()
    }

    /// Returns the number of agents that are registered.
    pub fn len(&self) -> usize {
        self.agents.len()
    }

    /// Whether no agent is registered.
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }

    fn register(
        &self,
        card: Box<AgentCard>,
        by: &Principal,
    ) -> Result<Vec<RegistryEvent>, RegistryRejection> {
        card.check()?;
        let bytes = card.to_json().as_str().len();
        if bytes > REGISTRY_CARD_BYTES_MAX {
            return Err(RegistryRejection::TooLarge { bytes });
        }
        match self.get(&card.url) {
            Some(known) if !known.may_be_changed_by(by) => {
                Err(RegistryRejection::NotRegistrant { url: card.url })
            }
            Some(known) if *known.card == *card && known.by == *by => Ok(Vec::new()),
            None if self.len() >= REGISTRY_AGENTS_MAX => Err(RegistryRejection::Full),
            _ => Ok(vec![RegistryEvent::Registered { card }]),
        }
    }
}

impl Decider for RegistryState {
    type Command = RegistryCommand;
    type Event = RegistryEvent;
    type Rejection = RegistryRejection;

    fn decide(&self, command: RegistryCommand) -> Result<Vec<RegistryEvent>, RegistryRejection> {
        match command {
            RegistryCommand::Register { card, by } => self.register(card, &by),
            RegistryCommand::Unregister { url, by } => match self.get(&url) {
                None => Ok(Vec::new()),
                Some(known) if known.may_be_changed_by(&by) => Ok(vec![RegistryEvent::Unregistered { url }]),
                Some(_) => Err(RegistryRejection::NotRegistrant { url }),
            },
            RegistryCommand::Expire { urls, ttl_ms } => {
                let mut known: Vec<String> = urls.into_iter().filter(|url| self.get(url).is_some()).collect();
                known.sort();
                known.dedup();
                Ok(known.into_iter().map(|url| RegistryEvent::Expired { url, ttl_ms }).collect())
            }
        }
    }

    fn evolve(&mut self, event: &RegistryEvent, metadata: &Metadata) {
        match event {
            RegistryEvent::Registered { card } => {
                let agent = RegisteredAgent {
                    card: Arc::new(AgentCard::clone(card)),
                    by: metadata.principal.clone(),
                    at: metadata.at,
                };
                self.agents.insert(card.url.clone(), agent);
            }
            RegistryEvent::Unregistered { url } | RegistryEvent::Expired { url, .. } => {
                self.agents.shift_remove(url);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp(7);

    fn card(url: &str) -> Box<AgentCard> {
        Box::new(AgentCard::new("desk", "Answers", url))
    }

    fn registered(by: &Principal) -> RegistryState {
        let mut state = RegistryState::default();
        run(&mut state, RegistryCommand::Register { card: card("http://a"), by: by.clone() }, by).unwrap();
        state
    }

    fn run(
        state: &mut RegistryState,
        command: RegistryCommand,
        by: &Principal,
    ) -> Result<Vec<RegistryEvent>, RegistryRejection> {
        let events = state.decide(command)?;
        let metadata = Metadata { at: AT, principal: by.clone(), ..Metadata::default() };
        for event in &events {
            state.evolve(event, &metadata);
        }
        Ok(events)
    }

    #[test]
    fn a_registration_is_replaced_by_a_new_card_and_repeated_by_the_same_one_without_an_event() {
        let nobody = Principal::default();
        let mut state = registered(&nobody);
        let again = RegistryCommand::Register { card: card("http://a"), by: nobody.clone() };
        assert_eq!(run(&mut state, again, &nobody).unwrap(), []);
        let newer = AgentCard { version: "2.0.0".to_owned(), ..*card("http://a") };
        let register = RegistryCommand::Register { card: Box::new(newer), by: nobody.clone() };
        assert_eq!(run(&mut state, register, &nobody).unwrap().len(), 1);
        let known = state.get("http://a").unwrap();
        assert_eq!((state.len(), known.card.version.as_str(), known.at), (1, "2.0.0", AT));
    }

    #[test]
    fn what_an_authenticated_principal_registered_nobody_else_replaces_or_ends() {
        let (ada, eve) = (Principal::authenticated("ada"), Principal::authenticated("eve"));
        let mut state = registered(&ada);
        for by in [eve, Principal::asserted("ada"), Principal::default()] {
            let refused = RegistryRejection::NotRegistrant { url: "http://a".to_owned() };
            let end = RegistryCommand::Unregister { url: "http://a".to_owned(), by: by.clone() };
            assert_eq!(run(&mut state, end, &by), Err(refused.clone()));
            let replace = RegistryCommand::Register { card: card("http://a"), by: by.clone() };
            assert_eq!(run(&mut state, replace, &by), Err(refused));
        }
        let end = RegistryCommand::Unregister { url: "http://a".to_owned(), by: ada.clone() };
        assert_eq!(run(&mut state, end.clone(), &ada).unwrap().len(), 1);
        assert_eq!(run(&mut state, end, &ada).unwrap(), []);
        assert!(state.is_empty());
    }

    #[test]
    fn only_agents_that_are_registered_expire_and_each_once() {
        let nobody = Principal::default();
        let mut state = registered(&nobody);
        let urls = ["http://b", "http://a", "http://a"].map(str::to_owned).to_vec();
        let expire = RegistryCommand::Expire { urls, ttl_ms: 9 };
        let expired = [RegistryEvent::Expired { url: "http://a".to_owned(), ttl_ms: 9 }];
        assert_eq!(run(&mut state, expire, &nobody).unwrap(), expired);
    }

    #[test]
    fn a_card_that_is_none_or_too_large_and_one_too_many_are_refused() {
        let by = Principal::default();
        let mut state = RegistryState::default();
        let register = |card: Box<AgentCard>| RegistryCommand::Register { card, by: Principal::default() };
        assert!(matches!(run(&mut state, register(card("desk")), &by), Err(RegistryRejection::Card(_))));
        let long = AgentCard { description: "x".repeat(REGISTRY_CARD_BYTES_MAX), ..*card("http://a") };
        let refused = run(&mut state, register(Box::new(long)), &by);
        assert!(matches!(refused, Err(RegistryRejection::TooLarge { .. })));
        for number in 0..REGISTRY_AGENTS_MAX {
            run(&mut state, register(card(&format!("http://a/{number}"))), &by).unwrap();
        }
        assert_eq!(run(&mut state, register(card("http://a/one-more")), &by), Err(RegistryRejection::Full));
        let known = AgentCard { version: "2".to_owned(), ..*card("http://a/0") };
        assert_eq!(run(&mut state, register(Box::new(known)), &by).unwrap().len(), 1);
    }
}
