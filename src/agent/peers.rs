//! The agents that an agent may ask: those that it knows, and where it looks for others.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use proto_events::id::check_id;
use proto_events::model::AgentSkill;

use crate::agent::directory::{PeerDirectory, Sought};
use crate::agent::peer::Peer;
use crate::limits::PEER_START_WAIT;
use crate::tools::panics::{caught, caught_in};
use crate::tools::policy::ToolPolicy;
use crate::tools::texts::short;

/// The agents that an agent may ask.
#[derive(Clone, Default)]
pub(crate) struct Peers {
    on: bool,
    known: Vec<KnownPeer>,
    /// The other agents of the same system that may be asked; all of them by default.
    of_system: Option<Vec<String>>,
    /// The other agents of the same system that may not be asked.
    closed: Vec<String>,
    /// The directory in which agents are looked up when they are asked, and what is the same for all of them.
    elsewhere: Option<(Arc<dyn PeerDirectory>, KnownPeer)>,
}

/// A peer with what it says of itself. It is asked when it is registered and when the system starts: its code
/// never runs where actors decide.
#[derive(Clone)]
pub(crate) struct KnownPeer {
    pub(crate) code: Arc<dyn Peer>,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) skills: Vec<String>,
    /// The skills with their schemas, where the peer has a card.
    pub(crate) detailed: Option<Vec<AgentSkill>>,
    pub(crate) policy: ToolPolicy,
    /// Whether the peer is an agent of the same system: its task waits for a person in the same log.
    pub(crate) is_local: bool,
}

impl KnownPeer {
    /// Notes what the peer says of itself.
    fn describe(&mut self) -> Result<(), String> {
        let code = Arc::clone(&self.code);
        let said = caught(|| {
            let detailed = code.card().map(|card| card.skills).filter(|skills| !skills.is_empty());
            (code.description().to_owned(), code.skills(), detailed)
        });
        let name = &self.name;
        let said =
            said.map_err(|panic| format!("peer `{name}`: it panicked when it was registered: {panic}"))?;
        (self.description, self.skills, self.detailed) = said;
        Ok(())
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.known.iter().map(|peer| peer.name.as_str()).collect();
        f.debug_struct("Peers").field("on", &self.on).field("known", &names).finish_non_exhaustive()
    }
}

impl Peers {
    /// Switches delegation to other agents on or off.
    pub(crate) fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// Adds a peer, and switches delegation on.
    ///
    /// # Errors
    /// A text that names the peer, as far as it said its name, if its code panics.
    pub(crate) fn add(&mut self, code: Arc<dyn Peer>) -> Result<(), String> {
        self.on = true;
        let name = caught(|| code.name().to_owned())
            .map_err(|panic| format!("a peer panicked when it was asked for its name: {panic}"))?;
        let policy = caught(|| code.policy())
            .map_err(|panic| format!("peer `{name}`: it panicked when it was registered: {panic}"))?;
        let (description, skills, detailed) = (String::new(), Vec::new(), None);
        let mut known = KnownPeer { code, name, description, skills, detailed, policy, is_local: false };
        known.describe()?;
        self.known.push(known);
        Ok(())
    }

    /// Has the peers learn what they say of themselves, all at once and within a bound. One that does not is known as it is.
    pub(crate) async fn prepare(&mut self) -> Result<(), String> {
        let has_card = |peer: &KnownPeer| caught(|| peer.code.card().is_some()).unwrap_or(false);
        let before: Vec<bool> = self.known.iter().map(has_card).collect();
        let prepared = self.known.iter().filter(|peer| !peer.is_local).map(|peer| {
            let (code, name) = (Arc::clone(&peer.code), peer.name.clone());
            async move {
                let prepared = caught_in(async { code.prepare().await });
                let failure = match tokio::time::timeout(PEER_START_WAIT, prepared).await {
                    Ok(Ok(Ok(()))) => return,
                    Ok(Ok(Err(error))) => short(&error.to_string()),
                    Ok(Err(panic)) => format!("it panicked: {panic}"),
                    Err(_) => format!("it took longer than {PEER_START_WAIT:?}"),
                };
                tracing::warn!(peer = name, error = %failure, "what another agent says of itself could not be learned");
            }
        });
        futures_util::future::join_all(prepared).await;
        // Only one that has a card since then says something new.
        let learned = self
            .known
            .iter_mut()
            .zip(before)
            .filter(|(peer, before)| !peer.is_local && !before && has_card(peer));
        learned.map(|(peer, _)| peer).try_for_each(KnownPeer::describe)
    }

    /// Sets which other agents of the same system may be asked, and switches delegation on.
    pub(crate) fn choose(&mut self, agents: Vec<String>) {
        self.on = true;
        self.of_system = Some(agents);
    }

    /// Returns the names of agents of the same system that were chosen.
    pub(crate) fn chosen(&self) -> &[String] {
        self.of_system.as_deref().unwrap_or_default()
    }

    /// Makes another agent of the same system known, if it may be asked. A peer that the host added under its name is asked
    /// instead.
    pub(crate) fn introduce(&mut self, agent: KnownPeer) {
        let is_chosen = self.of_system.as_ref().is_none_or(|chosen| chosen.contains(&agent.name));
        if !is_chosen {
            // Nor by way of a directory.
            self.closed.push(agent.name);
        } else if self.on && self.known.iter().all(|known| known.name != agent.name) {
            self.known.push(agent);
        }
    }

    /// Whether a model may ask other agents.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Returns the peers in the order in which they were added; none while delegation is off.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &KnownPeer> {
        self.known.iter().filter(|_| self.on)
    }

    /// Sets the directory in which agents are looked up that are not known, and switches delegation on.
    ///
    /// # Errors
    /// A text if its code panics.
    pub(crate) fn look_up(&mut self, directory: Arc<dyn PeerDirectory>) -> Result<(), String> {
        self.on = true;
        let policy = caught(|| directory.policy()).map_err(|panic| {
            format!("a directory of peers panicked when it was asked for its policy: {panic}")
        })?;
        let name = String::new();
        let known = KnownPeer {
            code: Arc::new(Sought { directory: Arc::clone(&directory), name: name.clone() }),
            name,
            description: String::new(),
            skills: Vec::new(),
            detailed: None,
            policy,
            is_local: false,
        };
        self.elsewhere = Some((directory, known));
        Ok(())
    }

    /// Whether agents are looked up that are not known.
    pub(crate) fn looks_up(&self) -> bool {
        self.on && self.elsewhere.is_some()
    }

    /// Returns the peer of this name. For one that is not known it is what all agents have in common that are looked up when
    /// they are asked, where there is a directory of such.
    pub(crate) fn get(&self, name: &str) -> Option<&KnownPeer> {
        let known = self.iter().find(|peer| peer.name == name);
        known.or_else(|| self.elsewhere(name).map(|(_, known)| known))
    }

    /// Returns the code that asks the agent of this name.
    pub(crate) fn code_of(&self, name: &str) -> Option<Arc<dyn Peer>> {
        if let Some(known) = self.iter().find(|peer| peer.name == name) {
            return Some(Arc::clone(&known.code));
        }
        let (directory, _) = self.elsewhere(name)?;
        Some(Arc::new(Sought { directory: Arc::clone(directory), name: name.to_owned() }))
    }

    /// Returns the directory in which an agent of this name may be looked up. An agent of the same system that may not be
    /// asked is not to be found by another way either.
    fn elsewhere(&self, name: &str) -> Option<&(Arc<dyn PeerDirectory>, KnownPeer)> {
        let may_be = self.on && check_id(name).is_ok() && !self.closed.iter().any(|own| own == name);
        self.elsewhere.as_ref().filter(|_| may_be)
    }

    /// Checks the peers of the agent `own`.
    ///
    /// # Errors
    /// A description of the fault: a name that is invalid or occurs twice, or a contradictory policy.
    pub(crate) fn check(&self, own: &str) -> Result<(), String> {
        let mut names = HashSet::from([own]);
        for peer in &self.known {
            let name = peer.name.as_str();
            check_id(name).map_err(|error| format!("peer `{name}`: {error}"))?;
            if let Some(why) = peer.policy.contradiction() {
                return Err(format!("peer `{name}`: {why}"));
            }
            if !names.insert(name) {
                return Err(format!("two agents are named `{name}`; names must be unique"));
            }
        }
        let of_directory = self.elsewhere.as_ref().and_then(|(_, known)| known.policy.contradiction());
        of_directory.map_or(Ok(()), |why| Err(format!("the directory of peers: {why}")))
    }

    /// Returns names and skills, by which a reply that does not name its target is repaired.
    pub(crate) fn skills(&self) -> Vec<(String, Vec<String>)> {
        self.iter().map(|peer| (peer.name.clone(), peer.skills.clone())).collect()
    }
}
