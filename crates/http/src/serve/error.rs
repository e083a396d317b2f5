//! Errors of starting and running a server.

use std::net::SocketAddr;

/// An error of starting or running a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// No address was given, or the name has none.
    #[error("no address to listen at")]
    NoAddress,
    /// The address is one for other machines, and no handler asks its callers for a credential.
    #[error(
        "other machines reach {address}, and callers are asked for no credential: put a `Guard` with credentials before the handlers, or listen at a loopback address"
    )]
    Unguarded {
        /// The address.
        address: SocketAddr,
    },
    /// The address could not be bound.
    #[error("cannot listen at {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: std::io::Error,
    },
    /// The server could not be started, or ended by itself.
    #[error("the server: {0}")]
    Io(#[from] std::io::Error),
}
