//! Staying registered: the cards of a server's agents are registered with a registry, heard of there, registered again
//! where it has forgotten them, and unregistered at the end.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use proto_events::model::AgentCard;
use taskreel::{Exposition, Ports};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::client::address::address;
use crate::client::error::ClientError;
use crate::client::transport::Client;
use crate::limits::{REGISTER_AGAIN_FIRST, REGISTER_AGAIN_LONGEST, REGISTRY_TIMEOUT, UNREGISTER_WITHIN};

/// The agents of a server that are kept registered with a registry, by a task in the background: see
/// [`Client::keep_registered`]. Dropping it ends that as [`Registration::stop`] does, without waiting.
#[derive(Debug)]
pub struct Registration {
    end: watch::Sender<bool>,
    task: JoinHandle<()>,
    watch: RegistrationWatch,
}

/// A view of a registration, for figures. Clones show the same one.
#[derive(Debug, Clone)]
pub struct RegistrationWatch(Arc<watch::Sender<RegistrationStatus>>);

/// The state of a registration, and what was done since its begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistrationStatus {
    /// The address of the registry.
    pub registry: String,
    /// The number of agents to register.
    pub agents: usize,
    /// The number of agents that the registry knows, as of its last word.
    pub registered: usize,
    /// Agents that were registered; more than `agents` where the registry had forgotten some.
    pub registrations: u64,
    /// Heartbeats that the registry took.
    pub heartbeats: u64,
    /// Requests that failed.
    pub failures: u64,
    /// The error of the last request, if it failed.
    pub error: Option<String>,
}

impl Client {
    /// Keeps agents registered with a registry until the registration is stopped: their cards are registered, and each is
    /// heard of `every` so often. One that the registry does not know any more is registered again. A registry that does
    /// not answer is asked again after a pause that grows, with jitter; nothing waits for it. Call it within a runtime,
    /// whose task it becomes.
    ///
    /// # Errors
    /// [`ClientError::Url`] if the address of the registry or of an agent is not valid.
    pub fn keep_registered(
        &self,
        registry_url: &str,
        cards: Vec<AgentCard>,
        every: Duration,
    ) -> Result<Registration, ClientError> {
        address(registry_url, "/agents/")?;
        for card in &cards {
            address(&card.url, "/")?;
        }
        let status = RegistrationStatus {
            registry: registry_url.to_owned(),
            agents: cards.len(),
            ..RegistrationStatus::default()
        };
        let watch = RegistrationWatch(Arc::new(watch::Sender::new(status)));
        let (end, ended) = watch::channel(false);
        let client = self.clone().timeout(self.bounds().1.min(REGISTRY_TIMEOUT));
        let keeper = Keeper {
            client,
            cards,
            every,
            watch: watch.clone(),
            known: HashSet::new(),
            sent: HashSet::new(),
        };
        let task = tokio::spawn(keeper.run(ended));
        Ok(Registration { end, task, watch })
    }
}

impl Registration {
    /// Returns a view of the registration.
    pub fn watch(&self) -> RegistrationWatch {
        self.watch.clone()
    }

    /// Unregisters the agents, and waits for it for a few seconds at most. A registry that does not answer then forgets
    /// them by its own time to live.
    pub async fn stop(self) {
        self.end.send_replace(true);
        // It has bounds of its own, and fails if its runtime has ended.
        let _ended = self.task.await;
    }
}

impl RegistrationWatch {
    /// Returns the state of the registration.
    pub fn status(&self) -> RegistrationStatus {
        self.0.borrow().clone()
    }

    /// Waits until an agent was registered or a request failed, and returns the state then.
    pub async fn first_word(&self) -> RegistrationStatus {
        let mut status = self.0.subscribe();
        let first = status.wait_for(|status| status.registrations > 0 || status.failures > 0).await;
        // It cannot end before this view of it.
        first.map_or_else(|_| self.status(), |status| status.clone())
    }

    fn update(&self, what: impl FnOnce(&mut RegistrationStatus)) {
        self.0.send_modify(what);
    }
}

/// Adds the figures of registrations to a text of figures.
pub(crate) fn write(registrations: &[RegistrationWatch], out: &mut Exposition) {
    let all: Vec<RegistrationStatus> = registrations.iter().map(RegistrationWatch::status).collect();
    if all.is_empty() {
        return;
    }
    let mut family =
        out.gauge("taskreel_registry_agents", "Agents that a registry knows, as of its last word");
    for status in &all {
        family.sample(&[("registry", &status.registry)], status.registered);
    }
    let help = "Requests to registries, by what came of them";
    let mut family = out.counter("taskreel_registry_requests_total", help);
    for status in &all {
        let rows =
            [("registered", status.registrations), ("heard", status.heartbeats), ("failed", status.failures)];
        for (outcome, count) in rows {
            family.sample(&[("registry", &status.registry), ("outcome", outcome)], count);
        }
    }
}

/// The work of a registration.
struct Keeper {
    client: Client,
    cards: Vec<AgentCard>,
    every: Duration,
    watch: RegistrationWatch,
    /// The addresses that the registry knows.
    known: HashSet<String>,
    /// The addresses that the registry may know: an answer may be lost.
    sent: HashSet<String>,
}

impl Keeper {
    async fn run(mut self, mut ended: watch::Receiver<bool>) {
        let registry = self.watch.status().registry;
        let mut failures = 0;
        loop {
            let Some(round) = until(&mut ended, self.round(&registry)).await else { break };
            failures = if round.is_ok() { 0 } else { u32::saturating_add(failures, 1) };
            let pause =
                if failures == 0 { self.every.mul_f64(1.0 - jitter() / 10.0) } else { back_off(failures) };
            if until(&mut ended, sleep(pause)).await.is_none() {
                break;
            }
        }
        self.leave(&registry).await;
    }

    /// Registers what is not known, and lets the registry hear of the rest.
    ///
    /// # Errors
    /// Nothing but that it is to be done again soon.
    async fn round(&mut self, registry: &str) -> Result<(), ()> {
        let mut failed = false;
        for card in self.cards.clone() {
            if let Err(error) = self.card(registry, &card).await {
                self.failed(registry, &card, &error);
                failed = true;
                // One that is refused says nothing of the others; a registry that is away does.
                if !matches!(error, ClientError::Status { .. }) {
                    break;
                }
            }
        }
        if failed {
            return Err(());
        }
        if self.watch.status().error.is_some() {
            self.watch.update(|status| status.error = None);
            tracing::info!(registry, "the registry answers again");
        }
        Ok(())
    }

    async fn card(&mut self, registry: &str, card: &AgentCard) -> Result<(), ClientError> {
        let url = &card.url;
        if self.known.contains(url) {
            if self.client.heartbeat(registry, url).await? {
                self.watch.update(|status| status.heartbeats += 1);
                return Ok(());
            }
            tracing::warn!(registry, agent = %card.name, "the registry does not know the agent any more");
            self.forget(url);
        }
        self.sent.insert(url.clone());
        self.client.register(registry, card).await?;
        self.known.insert(url.clone());
        let registered = self.known.len();
        self.watch.update(|status| {
            status.registrations += 1;
            status.registered = registered;
        });
        tracing::info!(registry, agent = %card.name, url, "the agent is registered");
        Ok(())
    }

    fn forget(&mut self, url: &str) {
        self.known.remove(url);
        let registered = self.known.len();
        self.watch.update(|status| status.registered = registered);
    }

    fn failed(&mut self, registry: &str, card: &AgentCard, error: &ClientError) {
        let text = error.to_string();
        // Once, and not at each attempt.
        if self.watch.status().error.as_deref() != Some(&text) {
            tracing::warn!(registry, agent = %card.name, error = %text, "the agent is not registered or heard of now");
        }
        self.watch.update(|status| {
            status.failures += 1;
            status.error = Some(text);
        });
    }

    /// Unregisters what the registry may know.
    async fn leave(mut self, registry: &str) {
        let sent = std::mem::take(&mut self.sent);
        let client = &self.client;
        let leaving = futures_util::future::join_all(sent.iter().map(|url| client.unregister(registry, url)));
        if let Ok(done) = timeout(UNREGISTER_WITHIN, leaving).await {
            if let Some(error) = done.into_iter().find_map(Result::err) {
                tracing::warn!(registry, %error, "an agent could not be unregistered");
            }
        } else {
            tracing::warn!(registry, "the registry did not unregister the agents in time");
        }
        self.known.clear();
        self.watch.update(|status| status.registered = 0);
    }
}

/// Does this until the end; `None` if that comes first.
async fn until<T>(ended: &mut watch::Receiver<bool>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        // Its holder is gone, which is the end too.
        _ = ended.wait_for(|ended| *ended) => None,
        done = work => Some(done),
    }
}

/// Returns the pause after this many failures in a row: half of it is jitter, so that the agents of a registry which was
/// away do not all come back at once.
fn back_off(failures: u32) -> Duration {
    let doubled = REGISTER_AGAIN_FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(REGISTER_AGAIN_LONGEST).mul_f64(1.0 - jitter() / 2.0)
}

/// Returns a number between 0 and 1 that nobody foresees.
fn jitter() -> f64 {
    f64::from(Ports::default().ids.random().first().copied().unwrap_or(0)) / 255.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_to_its_longest_and_no_two_servers_keep_step() {
        for failures in [1, 2, 5, 30, u32::MAX] {
            let pauses: HashSet<Duration> = (0..50).map(|_| back_off(failures)).collect();
            assert!(pauses.len() > 10, "{pauses:?}");
            let most = REGISTER_AGAIN_FIRST.saturating_mul(1 << (failures - 1).min(16));
            let most = most.min(REGISTER_AGAIN_LONGEST);
            assert!(pauses.iter().all(|pause| *pause <= most && *pause >= most / 2), "{pauses:?}");
        }
    }
}
