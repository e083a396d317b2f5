//! Agents elsewhere that are known by their addresses alone, as a directory in which a system looks up those that it does not
//! know by name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use taskreel::BoxFuture;
use taskreel::peer::{Peer, PeerDirectory, PeerError, PeerErrorKind};
use taskreel::tool::ToolPolicy;

use crate::a2a::client::options::Options;
use crate::a2a::remote::peer::Remote;
use crate::limits::A2A_TASK_TIMEOUT;

/// The A2A agents at some addresses, for [`Builder::peer_directory`](taskreel::Builder::peer_directory). Their cards are read, all
/// at once, when the system starts, about once a minute after that, and when an agent is asked that is not known yet, until
/// each was read: models are shown what stands there.
/// The name by which an agent is asked is that of its card, and is never taken for an address. Where several agents bear a name,
/// the one that was named first is asked.
#[derive(Debug, Clone)]
pub struct CardDirectory {
    inner: Arc<Inner>,
    policy: ToolPolicy,
}

#[derive(Debug)]
struct Inner {
    urls: Vec<String>,
    options: Options,
    /// The agents that were found, by their addresses.
    known: Mutex<HashMap<String, Remote>>,
}

impl CardDirectory {
    /// Returns the directory of the agents at these addresses, all reached in the same way.
    pub fn new(urls: impl IntoIterator<Item = impl Into<String>>, options: &Options) -> Self {
        let urls = urls.into_iter().map(Into::into).collect();
        let inner = Inner { urls, options: options.clone(), known: Mutex::default() };
        let policy = ToolPolicy::reconcile_peer().timeout(A2A_TASK_TIMEOUT);
        Self { inner: Arc::new(inner), policy }
    }

    /// Replaces the policy, for example to set another timeout.
    #[must_use]
    pub fn with_policy(self, policy: ToolPolicy) -> Self {
        Self { policy, ..self }
    }
}

impl Inner {
    /// Returns the agent of this name, or why it is not there.
    async fn named(&self, name: &str) -> Result<Remote, PeerError> {
        if let Some(remote) = self.of_name(name) {
            return Ok(remote);
        }
        let failed = self.read().await;
        let missing = || {
            let (kind, text) = if failed.is_empty() {
                (
                    PeerErrorKind::NotFound,
                    format!("none of the {} cards is that of '{name}'", self.urls.len()),
                )
            } else {
                let text =
                    format!("'{name}' was not found, and not all cards could be read: {}", failed.join("; "));
                (PeerErrorKind::Unreachable, text)
            };
            PeerError::new(kind, text)
        };
        self.of_name(name).ok_or_else(missing)
    }

    /// Reads the cards that were not read yet, and returns what failed. Nobody waits for it who asks a known agent.
    async fn read(&self) -> Vec<String> {
        let missing: Vec<&String> = {
            let known = self.known();
            self.urls.iter().filter(|url| !known.contains_key(*url)).collect()
        };
        let read = missing.into_iter();
        let read = read.map(|url| async move { (url, Remote::discover(url, &self.options).await) });
        let mut failed = Vec::new();
        for (url, read) in join_all(read).await {
            match read {
                // The agent that read it first is asked: it may know tasks.
                Ok(remote) => drop(self.known().entry(url.clone()).or_insert(remote).clone()),
                Err(error) => failed.push(error.to_string()),
            }
        }
        failed
    }

    fn of_name(&self, name: &str) -> Option<Remote> {
        let is_named = |remote: &Remote| remote.known_card().is_some_and(|card| card.name == name);
        self.all().into_iter().find(is_named)
    }

    /// Returns the agents whose cards were read, in the order in which they were named.
    fn all(&self) -> Vec<Remote> {
        let known = self.known();
        self.urls.iter().filter_map(|url| known.get(url)).cloned().collect()
    }

    /// Ignores poisoning: between any two steps the map is whole.
    fn known(&self) -> MutexGuard<'_, HashMap<String, Remote>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PeerDirectory for CardDirectory {
    fn policy(&self) -> ToolPolicy {
        self.policy.clone()
    }

    fn find(&self, name: &str) -> BoxFuture<'static, Result<Arc<dyn Peer>, PeerError>> {
        let (directory, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let remote = directory.inner.named(&name).await?;
            Ok(Arc::new(remote.with_policy(directory.policy)) as Arc<dyn Peer>)
        })
    }
    fn list(&self) -> BoxFuture<'static, Result<Vec<Arc<dyn Peer>>, PeerError>> {
        let directory = self.clone();
        Box::pin(async move {
            let failed = directory.inner.read().await;
            let known = directory.inner.all();
            if known.is_empty() && !failed.is_empty() {
                return Err(PeerError::new(PeerErrorKind::Unreachable, failed.join("; ")));
            }
            let remote =
                |remote: Remote| Arc::new(remote.with_policy(directory.policy.clone())) as Arc<dyn Peer>;
            Ok(known.into_iter().map(remote).collect())
        })
    }
}
