//! A registry as the directory in which a system looks up agents that it does not know.

use std::sync::Arc;

use taskreel::BoxFuture;
use taskreel::peer::{Peer, PeerDirectory, PeerError, PeerErrorKind};
use taskreel::tool::ToolPolicy;

use crate::client::error::ClientError;
use crate::client::remote::Remote;
use crate::client::transport::Client;
use crate::registry::filter::AgentFilter;

/// A registry in which agents are looked up at the moment when they are asked, for `Builder::peer_directory` of a system: an
/// agent that was registered after the system had started is found, too. A name is never taken for an address, since a
/// model chooses it. Where several agents bear a name, the one that was registered first is asked. Its agents are shown to models.
///
/// Its policy is Manual, as that of a [`Remote`].
#[derive(Debug, Clone)]
pub struct RegistryDirectory {
    client: Client,
    registry: Arc<str>,
    policy: ToolPolicy,
}

impl RegistryDirectory {
    /// Returns the directory of a registry.
    pub fn new(client: &Client, registry_url: &str) -> Self {
        let policy = ToolPolicy::manual().timeout(client.bounds().1).declared_by("peer");
        Self { client: client.clone(), registry: Arc::from(registry_url), policy }
    }

    /// Replaces the policy, for example to set another timeout.
    #[must_use]
    pub fn with_policy(self, policy: ToolPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Says that all agents of the registry answer a task that they know with their first answer, see
    /// [`Remote::answers_again`].
    #[must_use]
    pub fn answers_again(self) -> Self {
        let policy = ToolPolicy::idempotent().timeout(self.policy.get_timeout()).declared_by("peer");
        self.with_policy(policy)
    }
}

impl PeerDirectory for RegistryDirectory {
    fn policy(&self) -> ToolPolicy {
        self.policy.clone()
    }

    fn find(&self, name: &str) -> BoxFuture<'static, Result<Arc<dyn Peer>, PeerError>> {
        let (directory, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let RegistryDirectory { client, registry, policy } = directory;
            match Remote::named(&client, &registry, &name).await {
                Ok(remote) => Ok(Arc::new(remote.with_policy(policy)) as Arc<dyn Peer>),
                Err(error) => Err(failed(&error)),
            }
        })
    }

    fn list(&self) -> BoxFuture<'static, Result<Vec<Arc<dyn Peer>>, PeerError>> {
        let RegistryDirectory { client, registry, policy } = self.clone();
        Box::pin(async move {
            let found = Remote::discover(&client, &registry, &AgentFilter::new()).await;
            let found = found.map_err(|error| failed(&error))?.into_iter();
            Ok(found.map(|remote| Arc::new(remote.with_policy(policy.clone())) as Arc<dyn Peer>).collect())
        })
    }
}

/// Returns the error of a registry that could not be asked, or knows no such agent.
fn failed(error: &ClientError) -> PeerError {
    PeerError::new(kind(error), error.to_string())
}

/// Returns the kind of failure of a search.
fn kind(error: &ClientError) -> PeerErrorKind {
    match error {
        ClientError::UnknownAgent { .. } => PeerErrorKind::NotFound,
        _ => PeerErrorKind::Unreachable,
    }
}
