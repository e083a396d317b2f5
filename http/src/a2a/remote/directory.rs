//! Agents elsewhere that are known by their addresses alone, as a directory in which a system looks up those that it does not
//! know by name.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use taskreel::BoxFuture;
use taskreel::peer::{Peer, PeerDirectory, PeerError, PeerErrorKind};
use taskreel::tool::ToolPolicy;

use crate::a2a::client::options::Options;
use crate::a2a::remote::peer::Remote;
use crate::limits::A2A_TASK_TIMEOUT;

/// The A2A agents at some addresses, for [`Builder::peer_directory`](taskreel::Builder::peer_directory). Their cards are read, all
/// at once, when an agent is asked that is not known yet; a card that could not be read is tried again with the next question.
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
    known: tokio::sync::Mutex<HashMap<String, Remote>>,
}

impl CardDirectory {
    /// Returns the directory of the agents at these addresses, all reached in the same way.
    pub fn new(urls: impl IntoIterator<Item = impl Into<String>>, options: &Options) -> Self {
        let urls = urls.into_iter().map(Into::into).collect();
        let inner = Inner { urls, options: options.clone(), known: tokio::sync::Mutex::default() };
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
        let mut known = self.known.lock().await;
        let is_named = |remote: &&Remote| remote.known_card().is_some_and(|card| card.name == name);
        let found = |known: &HashMap<String, Remote>| {
            self.urls.iter().filter_map(|url| known.get(url)).find(is_named).cloned()
        };
        if let Some(remote) = found(&known) {
            return Ok(remote);
        }
        let missing = self.urls.iter().filter(|url| !known.contains_key(*url));
        let read = missing.map(|url| async move { (url, Remote::discover(url, &self.options).await) });
        let mut failed = Vec::new();
        for (url, read) in join_all(read).await {
            match read {
                Ok(remote) => drop(known.insert(url.clone(), remote)),
                Err(error) => failed.push(error.to_string()),
            }
        }
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
        found(&known).ok_or_else(missing)
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
}
