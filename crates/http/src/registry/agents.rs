//! The registry: registering, unregistering, heartbeats, discovery, and the end of agents that were not heard of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto_events::envelope::{Principal, Timestamp};
use proto_events::limits::EVENTS_PER_APPEND_MAX;
use proto_events::model::AgentCard;
use proto_events::registry::{RegisteredAgent, RegistryCommand, RegistryState};
use taskreel::{Error, RegistryRecord, System};

use crate::registry::filter::AgentFilter;

/// A registry of agents in the log of a system. Clones are the same registry.
///
/// Registering, unregistering and the end of agents that were not heard of are events in the stream
/// `registry-<name>`; heartbeats are kept in memory, so that every agent has its whole time to live after a restart.
#[derive(Debug, Clone)]
pub struct Registry {
    record: RegistryRecord,
    kept: Arc<RegistryData>,
    ttl: Option<Duration>,
}

/// The data that a registry keeps in memory.
#[derive(Debug)]
struct RegistryData {
    /// The time since which heartbeats are counted.
    began: (Timestamp, Duration),
    /// The time of each agent's last heartbeat, on the clock that is never corrected.
    heard: Mutex<HashMap<String, Duration>>,
}

/// An agent that is registered, and when it was last heard of.
#[derive(Debug, Clone)]
pub(crate) struct AgentRegistration {
    pub(crate) agent: RegisteredAgent,
    /// The time since then.
    pub(crate) silent: Duration,
}

impl Registry {
    /// Returns the registry of this name, whose agents stay until they are unregistered. Take one for a name, and
    /// clone it.
    ///
    /// # Errors
    /// [`Error::Id`] if the name cannot be an id.
    pub fn new(system: &System, name: &str) -> Result<Self, Error> {
        let record = system.registry(name)?;
        let kept = RegistryData { began: (record.now(), record.monotonic()), heard: Mutex::default() };
        Ok(Self { record, kept: Arc::new(kept), ttl: None })
    }

    /// Sets the time after which an agent that is not heard of is removed. Registering counts as a heartbeat.
    #[must_use]
    pub fn time_to_live(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Registers an agent under the address in its card, in place of an earlier registration of the address. It is on
    /// disk then.
    ///
    /// # Errors
    /// [`Error::Registry`] if the card cannot be registered, if another authenticated principal registered the
    /// address, or if the registry is full; errors of the log.
    pub async fn register(&self, card: AgentCard, by: &Principal) -> Result<(), Error> {
        let url = card.url.clone();
        let command = RegistryCommand::Register { card: Box::new(card), by: by.clone() };
        // Noted first: an agent that is heard of does not end between its registration and this note.
        let before = self.heard().insert(url.clone(), self.record.monotonic());
        let done = self.record.command(command, by).await;
        if done.is_err() {
            let mut heard = self.heard();
            match before {
                Some(before) => heard.insert(url, before),
                None => heard.remove(&url),
            };
        }
        done.map(|_state| ())
    }

    /// Unregisters an agent. An address that is not registered is not an error, as in Protolink.
    ///
    /// # Errors
    /// [`Error::Registry`] if another authenticated principal registered the address; errors of the log.
    pub async fn unregister(&self, url: &str, by: &Principal) -> Result<(), Error> {
        let command = RegistryCommand::Unregister { url: url.to_owned(), by: by.clone() };
        self.record.command(command, by).await?;
        self.heard().remove(url);
        Ok(())
    }

    /// Notes that an agent is alive, and returns whether it is registered.
    ///
    /// # Errors
    /// Errors of the log.
    pub async fn heartbeat(&self, url: &str) -> Result<bool, Error> {
        let alive = self.alive().await?;
        if !alive.iter().any(|known| known.agent.card.url == url) {
            return Ok(false);
        }
        self.heard().insert(url.to_owned(), self.record.monotonic());
        // It may have ended meanwhile, before this heartbeat was noted.
        let is_known = self.record.state().await?.get(url).is_some();
        if !is_known {
            self.heard().remove(url);
        }
        Ok(is_known)
    }

    /// Returns the cards of the agents that fit the filter, in the order of their first registration.
    ///
    /// # Errors
    /// Errors of the log.
    pub async fn discover(&self, filter: &AgentFilter) -> Result<Vec<Arc<AgentCard>>, Error> {
        let alive = self.alive().await?;
        let fitting = alive.into_iter().map(|known| known.agent.card).filter(|card| filter.fits(card));
        Ok(fitting.collect())
    }

    /// Returns the agents that are registered and were heard of. Those that were not are removed; where the log does not
    /// take that now, they are left out all the same.
    pub(crate) async fn alive(&self) -> Result<Vec<AgentRegistration>, Error> {
        let state = self.record.state().await?;
        let (alive, silent) = self.parted(&state);
        if let Some(ttl) = self.ttl.filter(|_| !silent.is_empty())
            && let Err(error) = self.expire(&silent, ttl).await
        {
            tracing::warn!(registry = %self.record.stream(), error = %error, "the end of silent agents was not recorded");
        }
        Ok(alive)
    }

    async fn expire(&self, silent: &[String], ttl: Duration) -> Result<(), Error> {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        for urls in silent.chunks(EVENTS_PER_APPEND_MAX) {
            // One that was heard of meanwhile goes on.
            let (registry, asked) = (self.clone(), urls.to_vec());
            let expire = move |state: &RegistryState| {
                let (_, silent) = registry.parted(state);
                let urls = asked.iter().filter(|url| silent.contains(url)).cloned().collect();
                RegistryCommand::Expire { urls, ttl_ms }
            };
            let state = self.record.command_with(expire, &Principal::default()).await?;
            self.heard().retain(|url, _| state.get(url).is_some() || !urls.contains(url));
        }
        Ok(())
    }

    /// Parts the agents into those that were heard of and the addresses of those that were not.
    fn parted(&self, state: &RegistryState) -> (Vec<AgentRegistration>, Vec<String>) {
        let now = self.record.monotonic();
        let (began_at, began) = self.kept.began;
        let mut heard = self.heard();
        let (mut alive, mut silent) = (Vec::new(), Vec::new());
        for agent in state.iter() {
            let url = &agent.card.url;
            let last = match heard.get(url) {
                Some(last) => *last,
                None if agent.at <= began_at => began,
                // Registered elsewhere: heard of now.
                None => *heard.entry(url.clone()).or_insert(now),
            };
            let quiet = now.saturating_sub(last);
            if self.ttl.is_some_and(|ttl| quiet > ttl) {
                silent.push(url.clone());
            } else {
                alive.push(AgentRegistration { agent: agent.clone(), silent: quiet });
            }
        }
        (alive, silent)
    }

    /// Ignores poisoning: the table is whole between any two steps.
    fn heard(&self) -> MutexGuard<'_, HashMap<String, Duration>> {
        self.kept.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
