//! Agents that are looked up at the moment when one is asked, because they are not known when the system starts.

use std::sync::Arc;

use crate::agent::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind, PeerFound, Recalled};
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
}

/// The agent of a name, wherever it is by the time that it is asked.
pub(crate) struct Sought {
    pub(crate) directory: Arc<dyn PeerDirectory>,
    pub(crate) name: String,
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
        Box::pin(async move {
            let found = directory.find(&name).await;
            found.map_err(|error| not_found(&error, delegation.attempt))?.send(delegation).await
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

    fn recall(&self, recalled: Recalled) -> BoxFuture<'static, Result<(), PeerError>> {
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
