//! The settings of a builder about its log: one that is open already, and the local socket.

use std::sync::Arc;

use taskreel_log::api::EventStore;
use taskreel_log::sled::SledStore;
#[cfg(unix)]
use taskreel_log::socket::SocketPath;

use crate::system::builder::Builder;

impl Builder {
    /// Uses this log, which the host has opened: as [`Builder::store`] does, with the local socket of its directory.
    #[must_use]
    pub fn log(self, log: Arc<SledStore>) -> Self {
        let mut builder = self.store(Arc::clone(&log) as Arc<dyn EventStore>);
        builder.of.held = Some(log);
        builder
    }

    /// Sets whether the system opens a local socket in the directory of its log, a Unix socket for processes of the same
    /// user and of root: they read and follow the log through it, and send a person's decisions. On by default. Without
    /// it they read a private copy of the log, and decisions wait until the program ends.
    #[must_use]
    pub fn local_socket(mut self, open: bool) -> Self {
        self.of.socket = open;
        self
    }
}

/// The place of a socket where there are no Unix sockets: none.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) enum SocketPath {}

/// Returns the place of the socket of a log that this program holds.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
pub(crate) fn socket_path(store: &SledStore) -> Option<SocketPath> {
    Some(store.socket_path())
}

/// Returns no place: systems without Unix sockets have no local socket.
#[cfg(not(unix))]
pub(crate) fn socket_path(_: &SledStore) -> Option<SocketPath> {
    None
}
