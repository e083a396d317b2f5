//! Agents elsewhere that become known while a system runs: those that could not say anything of themselves at the start, and those
//! that a directory lists or finds. They join the prompt of the agent that may ask them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::time::Instant;

use crate::agent::card::Agent;
use crate::agent::peers::KnownPeer;
use crate::limits::{PEER_RETRY_FIRST, PEER_RETRY_MAX};
use crate::system::handle::{Inner, System};
use crate::system::starts::record_revision;

impl System {
    /// Has agents elsewhere join as they become known, until the system ends.
    pub(crate) fn keep_learning_of_peers(&self) {
        let calls = self.inner.running().parts.calls.clone();
        for own in &self.inner.agents {
            for name in own.agent.peers.silent() {
                let joining = PeerJoin::new(&own.agent, &self.inner);
                calls.spawn(until_it_tells(joining, name.clone()));
            }
            if own.agent.peers.looks_up() {
                calls.spawn(looking(PeerJoin::new(&own.agent, &self.inner)));
            }
        }
    }
}

/// An agent that others join.
struct PeerJoin {
    agent: Arc<Agent>,
    system: Weak<Inner>,
}

impl PeerJoin {
    fn new(agent: &Arc<Agent>, system: &Arc<Inner>) -> Self {
        Self { agent: Arc::clone(agent), system: Arc::downgrade(system) }
    }

    fn is_running(&self) -> bool {
        self.system.upgrade().is_some_and(|inner| !inner.stopping.load(Ordering::Acquire))
    }
}

/// Asks an agent what it says of itself until it has told.
async fn until_it_tells(joining: PeerJoin, name: String) {
    let mut wait = PEER_RETRY_FIRST;
    loop {
        tokio::time::sleep(wait).await;
        wait = wait.saturating_mul(2).min(PEER_RETRY_MAX);
        if !joining.is_running() {
            return;
        }
        match joining.agent.peers.prepared(&name).await {
            Ok(None) => return,
            Ok(Some(peer)) => {
                if join(&joining, |_| vec![peer.clone()]).await {
                    return;
                }
            }
            Err(error) => tracing::debug!(peer = name, %error, "another agent still says nothing of itself"),
        }
    }
}

/// Lists the directory again and again, and takes what it finds when an agent is asked.
async fn looking(joining: PeerJoin) {
    let (peers, own) = (&joining.agent.peers, joining.agent.name.as_str());
    let mut wait = PEER_RETRY_FIRST;
    let mut next = Instant::now() + wait;
    loop {
        let found = tokio::select! {
            found = peers.next_found(own) => Some(found),
            () = tokio::time::sleep_until(next) => None,
        };
        if !joining.is_running() {
            return;
        }
        let known = if let Some(found) = found {
            found
        } else {
            wait = wait.saturating_mul(2).min(PEER_RETRY_MAX);
            let listed = peers.listed(own).await;
            next = Instant::now() + wait;
            listed.unwrap_or_else(|error| {
                tracing::debug!(%error, "a directory of agents could not be listed");
                Vec::new()
            })
        };
        if !known.is_empty() {
            join(&joining, |agent| agent.peers.still_new(&known)).await;
        }
    }
}

/// Adds what was learned of other agents to the running agent. Its new definition is on disk before any prompt shows it.
/// Returns whether that was done, or nothing was left to do.
async fn join(joining: &PeerJoin, learned: impl Fn(&Agent) -> Vec<KnownPeer>) -> bool {
    let PeerJoin { agent, system } = joining;
    let _joining = agent.tools.joining.lock().await;
    let learned = learned(agent);
    // The system must not be kept alive while its log is written, and its log is not reopened meanwhile.
    let Some(gate) = system.upgrade().map(|inner| inner.gate.clone()) else { return true };
    let _gate = gate.pass().await;
    let Some(parts) = system.upgrade().map(|inner| inner.running().parts.clone()) else { return true };
    if learned.is_empty() || !joining.is_running() {
        return true;
    }
    let next = Agent { peers: agent.peers.with(&learned), ..Agent::clone(agent) };
    match record_revision(&parts.store, &parts.ports, &next, "peers").await {
        Ok(revision) => {
            let names: Vec<&str> = learned.iter().map(|peer| peer.name.as_str()).collect();
            tracing::info!(agent = agent.name, peers = ?names, "other agents have joined the prompt");
            agent.peers.learn(learned);
            agent.tools.join(Vec::new(), revision);
            true
        }
        Err(error) => {
            tracing::warn!(agent = agent.name, %error, "that other agents have joined could not be recorded");
            false
        }
    }
}
