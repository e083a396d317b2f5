//! The agents that an agent may ask: those that it knows, and where it looks for others.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use proto_events::id::check_id;
use proto_events::model::AgentSkill;

use crate::agent::directory::{FoundAgents, PeerDirectory, Sought};
use crate::agent::peer::{Peer, PeerError};
use crate::limits::{PEER_START_WAIT, PEER_TEXT_BYTES_MAX, PEERS_FOUND_MAX};
use crate::tools::append_only_list::AppendOnlyList;
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
    /// The peers of which something was learned since: known agents that now say something of themselves, and agents that
    /// were found in the directory.
    learned: Arc<AppendOnlyList<KnownPeer>>,
    /// The agents that were found by being asked.
    found: FoundAgents,
    /// The known agents that could not say anything of themselves when they were asked last.
    silent: Vec<String>,
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
    /// Whether the peer was found in the directory.
    pub(crate) is_found: bool,
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

impl KnownPeer {
    /// Checks that what a stranger says of itself is not a burden for prompts and log.
    fn is_short(&self) -> Result<(), String> {
        let skills = self.detailed.iter().flatten().map(|skill| skill.to_json().as_str().len());
        let bytes = self.description.len() + self.skills.iter().map(String::len).chain(skills).sum::<usize>();
        if bytes <= PEER_TEXT_BYTES_MAX {
            return Ok(());
        }
        Err(format!("what it says of itself has {bytes} bytes, more than {PEER_TEXT_BYTES_MAX}"))
    }
}

/// Whether this is what was learned of a known peer.
fn is_about(learned: &KnownPeer, known: &KnownPeer) -> bool {
    !learned.is_found && !known.is_local && learned.name == known.name
}

/// Waits for what a peer or a directory does, not too long.
async fn within<T>(done: impl Future<Output = Result<Result<T, PeerError>, String>>) -> Result<T, String> {
    match tokio::time::timeout(PEER_START_WAIT, done).await {
        Ok(Ok(Ok(done))) => Ok(done),
        Ok(Ok(Err(error))) => Err(short(&error.to_string())),
        Ok(Err(panic)) => Err(format!("it panicked: {panic}")),
        Err(_) => Err(format!("it took longer than {PEER_START_WAIT:?}")),
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
        let (is_local, is_found) = (false, false);
        let mut known = KnownPeer { code, name, description, skills, detailed, policy, is_local, is_found };
        known.describe()?;
        self.known.push(known);
        Ok(())
    }

    /// Has the peers learn what they say of themselves, and the directory list its agents, all at once and within a bound. One
    /// that does not is known as it is, and asked again later.
    pub(crate) async fn prepare(&mut self, own: &str) {
        let all: Vec<String> = self.known.iter().map(|peer| peer.name.clone()).collect();
        let prepared = futures_util::future::join_all(all.iter().map(|name| self.prepared(name)));
        let (prepared, listed) = futures_util::future::join(prepared, self.listed(own)).await;
        let told = all.into_iter().zip(prepared);
        let mut learned = Vec::new();
        for (name, told) in told {
            match told {
                Ok(peer) => learned.extend(peer),
                Err(failure) => {
                    tracing::warn!(peer = name, error = %failure, "what another agent says of itself could not be learned");
                    self.silent.push(name);
                }
            }
        }
        match listed {
            Ok(found) => learned.extend(found),
            Err(failure) => tracing::warn!(error = %failure, "a directory of agents could not be listed"),
        }
        self.learn(learned);
    }

    /// Has a known peer learn what it says of itself; returns it where it says something new.
    ///
    /// # Errors
    /// A text if it could not.
    pub(crate) async fn prepared(&self, name: &str) -> Result<Option<KnownPeer>, String> {
        let Some(peer) = self.known.iter().find(|peer| peer.name == name && !peer.is_local) else {
            return Ok(None);
        };
        let has_card = || caught(|| peer.code.card().is_some()).unwrap_or(false);
        let before = has_card() && peer.detailed.is_some();
        let code = Arc::clone(&peer.code);
        within(caught_in(async { code.prepare().await })).await?;
        // Only one that has a card since then says something new.
        if before || !has_card() {
            return Ok(None);
        }
        let mut peer = peer.clone();
        peer.describe()?;
        Ok(Some(peer))
    }

    /// Returns the agents of the directory that are not known yet.
    ///
    /// # Errors
    /// A text if the directory could not be asked.
    pub(crate) async fn listed(&self, own: &str) -> Result<Vec<KnownPeer>, String> {
        let Some((directory, _)) = self.elsewhere.as_ref().filter(|_| self.on) else { return Ok(Vec::new()) };
        let directory = Arc::clone(directory);
        let listed = within(caught_in(async { directory.list().await })).await?;
        Ok(self.new_of(own, listed))
    }

    /// Waits until the directory has found an agent that was asked, and returns it where it is not known yet.
    pub(crate) async fn next_found(&self, own: &str) -> Vec<KnownPeer> {
        self.new_of(own, vec![self.found.next().await])
    }

    /// Returns the new agents of a directory, as they are shown to models. The first one of a name counts.
    fn new_of(&self, own: &str, listed: Vec<Arc<dyn Peer>>) -> Vec<KnownPeer> {
        let Some((directory, of_all)) = &self.elsewhere else { return Vec::new() };
        let mut names: HashSet<String> = self.iter().map(|peer| peer.name.clone()).collect();
        let room = PEERS_FOUND_MAX.saturating_sub(self.learned.iter().filter(|peer| peer.is_found).count());
        let described = listed.into_iter().filter_map(|code| {
            let name = caught(|| code.name().to_owned()).ok()?;
            if name == own || self.elsewhere(&name).is_none() || !names.insert(name.clone()) {
                return None;
            }
            let mut peer = KnownPeer { code, name: name.clone(), is_found: true, ..of_all.clone() };
            let described = peer.describe().and_then(|()| peer.is_short());
            // Found anew whenever it is asked: it may have moved.
            peer.code = self.sought(directory, &name);
            match described {
                Ok(()) => Some(peer),
                Err(why) => {
                    tracing::warn!(peer = name, why, "an agent of a directory is not shown to models");
                    None
                }
            }
        });
        described.take(room).collect()
    }

    /// Returns the found agents that are still not known.
    pub(crate) fn still_new(&self, found: &[KnownPeer]) -> Vec<KnownPeer> {
        let is_new = |found: &&KnownPeer| self.iter().all(|peer| peer.name != found.name);
        found.iter().filter(is_new).cloned().collect()
    }

    /// Adds what was learned of peers.
    pub(crate) fn learn(&self, learned: Vec<KnownPeer>) {
        for peer in learned {
            self.learned.push(peer);
        }
    }

    /// Returns these peers with what was learned of some.
    pub(crate) fn with(&self, learned: &[KnownPeer]) -> Self {
        let all = AppendOnlyList::default();
        for peer in self.learned.iter().chain(learned) {
            all.push(peer.clone());
        }
        Self { learned: Arc::new(all), ..self.clone() }
    }

    /// Returns the names of the known agents that could not say anything of themselves at the start.
    pub(crate) fn silent(&self) -> &[String] {
        &self.silent
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

    /// Returns the peers in the order in which they were added, and behind them those that were found in the directory; none
    /// while delegation is off.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &KnownPeer> {
        let newest = |peer| self.learned.iter().find(|learned| is_about(learned, peer)).unwrap_or(peer);
        let is_new = |found: &&KnownPeer| {
            found.is_found
                && self.known.iter().all(|known| known.name != found.name)
                && self.elsewhere(&found.name).is_some()
        };
        self.known.iter().map(newest).chain(self.learned.iter().filter(is_new)).filter(|_| self.on)
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
            code: self.sought(&directory, &name),
            name,
            description: String::new(),
            skills: Vec::new(),
            detailed: None,
            policy,
            is_local: false,
            is_found: false,
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
        Some(self.sought(directory, name))
    }

    fn sought(&self, directory: &Arc<dyn PeerDirectory>, name: &str) -> Arc<dyn Peer> {
        let (directory, found) = (Arc::clone(directory), self.found.clone());
        Arc::new(Sought { directory, name: name.to_owned(), found })
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
