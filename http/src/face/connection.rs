//! What a server says of a request's connection, in the extensions of the request: the client's address, the path under
//! which the face is mounted, and the word that the server is about to stop.

use std::net::SocketAddr;

use http::Extensions;
use tokio::sync::watch;

/// The address of the client, in a request's extensions where the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub SocketAddr);

/// The path under which the face that answers is mounted, without a slash at its end, in a request's extensions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountedAt(pub String);

/// Returns the path under which the face that answers is mounted: empty at the root.
pub(crate) fn mounted_at(extensions: &Extensions) -> &str {
    extensions.get::<MountedAt>().map(|at| at.0.as_str()).unwrap_or_default()
}

/// Notes that the face which answers is mounted one path deeper.
pub(crate) fn mount_deeper(extensions: &mut Extensions, prefix: &str) {
    if !prefix.is_empty() {
        let at = format!("{}{prefix}", mounted_at(extensions));
        extensions.insert(MountedAt(at));
    }
}

/// The word that a server stops, in the extensions of the requests of a [`Server`](crate::Server). A response without an
/// end, such as a feed that follows a log, ends when it [begins](Stopping::begun); others are given the grace time.
#[derive(Debug, Clone)]
pub struct Stopping(watch::Receiver<Phase>);

/// The phases of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The server accepts requests.
    Serving,
    /// No request is accepted, those in flight go on.
    Draining,
    /// What is still in flight is cut off.
    Cutting,
}

impl Stopping {
    /// Returns the word of a server, and what says it.
    pub(crate) fn new() -> (watch::Sender<Phase>, Self) {
        let (say, hear) = watch::channel(Phase::Serving);
        (say, Self(hear))
    }

    /// Waits until the server begins to stop.
    pub async fn begun(self) {
        self.reached(Phase::Draining).await;
    }

    /// Waits until the server cuts off what is still in flight.
    pub(crate) async fn cut(self) {
        self.reached(Phase::Cutting).await;
    }

    async fn reached(mut self, phase: Phase) {
        // A server that is gone has stopped.
        let _gone = self.0.wait_for(|now| *now >= phase).await.is_err();
    }
}
