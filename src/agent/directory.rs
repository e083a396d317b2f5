//! Agents that are looked up at the moment when one is asked, because they are not known when the system starts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::agent::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind, PeerFound, RecalledTask};
use crate::tools::future::BoxFuture;
use crate::tools::policy::ToolPolicy;

/// A directory of agents outside the system, such as a registry.
pub trait PeerDirectory: Send + Sync + 'static {
    /// Returns the policy of calls to the agents that are found here: it stands in each intent, before the agent is looked
    /// up. Manual by default, as for a [`Peer`].
    fn policy(&self) -> ToolPolicy {
        ToolPolicy::manual().declared_by("peer")
    }

    /// Finds the agent of this name, which a model or a tool has chosen: it must not be taken for an address. For one that
    /// is not known, return [`PeerErrorKind::NotFound`], which is reported to the model; where the directory cannot be
    /// asked, [`PeerErrorKind::Unreachable`].
    fn find(&self, name: &str) -> BoxFuture<'static, Result<Arc<dyn Peer>, PeerError>>;

    /// Returns the agents that models are shown, of each name the one that [`PeerDirectory::find`] finds. It is asked when the
    /// system starts, where it has a few seconds, and about once a minute after that; agents that are new join the prompt. One
    /// that is gone is shown until the next start. By default none: an agent is then shown once it was found.
    fn list(&self) -> BoxFuture<'static, Result<Vec<Arc<dyn Peer>>, PeerError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// The agents that were found by being asked, for the code that has them join the prompt. Where nobody takes them, or there are too
/// many at once, they are forgotten: they are found again.
#[derive(Clone, Default)]
pub(crate) struct FoundAgents(Arc<WaitingPeers>);

#[derive(Default)]
struct WaitingPeers {
    peers: Mutex<VecDeque<Arc<dyn Peer>>>,
    came: Notify,
}

impl FoundAgents {
    fn insert(&self, peer: &Arc<dyn Peer>) {
        let mut waiting = self.0.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < FOUND_WAITING_MAX {
            waiting.push_back(Arc::clone(peer));
            self.0.came.notify_one();
        }
    }

    /// Waits for the next one. One caller at a time.
    pub(crate) async fn next(&self) -> Arc<dyn Peer> {
        loop {
            let next = self.0.peers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match next {
                Some(peer) => return peer,
                None => self.0.came.notified().await,
            }
        }
    }
}

/// The most agents that wait to join the prompt.
const FOUND_WAITING_MAX: usize = 64;

/// The agent of a name, wherever it is by the time that it is asked.
pub(crate) struct Sought {
    pub(crate) directory: Arc<dyn PeerDirectory>,
    pub(crate) name: String,
    pub(crate) found: FoundAgents,
}

impl Peer for Sought {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &'static str {
        ""
    }

    fn skills(&self) -> Vec<String> {
        Vec::new()
    }

    fn policy(&self) -> ToolPolicy {
        self.directory.policy()
    }

    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        let (directory, name) = (Arc::clone(&self.directory), self.name.clone());
        let found_by_asking = self.found.clone();
        Box::pin(async move {
            let found = directory.find(&name).await;
            let found = found.map_err(|error| not_found(&error, delegation.attempt))?;
            found_by_asking.insert(&found);
            found.send(delegation).await
        })
    }

    fn cancel(&self, task_id: &str, reason: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        let (directory, name) = (Arc::clone(&self.directory), self.name.clone());
        let (task_id, reason) = (task_id.to_owned(), reason.to_owned());
        Box::pin(async move {
            // One that is nowhere now may be there a moment later.
            directory.find(&name).await?.cancel(&task_id, &reason).await
        })
    }

    fn recall(&self, recalled: RecalledTask) -> BoxFuture<'static, Result<(), PeerError>> {
        let (directory, name) = (Arc::clone(&self.directory), self.name.clone());
        Box::pin(async move { directory.find(&name).await?.recall(recalled).await })
    }

    fn find(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerFound, PeerError>> {
        let (directory, name) = (Arc::clone(&self.directory), self.name.clone());
        Box::pin(async move { directory.find(&name).await?.find(delegation).await })
    }
}

/// Returns the error for an agent that was not found. What an earlier attempt did is not known.
fn not_found(error: &PeerError, attempt: u32) -> PeerError {
    let kind = match error.kind() {
        _ if attempt > 1 => PeerErrorKind::Lost,
        PeerErrorKind::NotFound | PeerErrorKind::Refused => PeerErrorKind::Refused,
        // The task was not sent, whatever became of the search.
        _ => PeerErrorKind::Unreachable,
    };
    PeerError::new(kind, error.to_string())
}
