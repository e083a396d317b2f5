//! Facts that a server tells of a request's connection, in the extensions of the request: the client's address, the path under
//! which the handler is mounted, and the signal that the server is about to stop.

use std::net::SocketAddr;

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Extensions, HeaderMap, StatusCode};
use tokio::sync::watch;

use crate::limits::HEADERS_MAX;

/// The address of the client, in a request's extensions where the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub SocketAddr);

/// The path under which the handler that answers is mounted, without a slash at its end, in a request's extensions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountedAt(pub String);

/// Returns the path under which the handler that answers is mounted: empty at the root.
pub(crate) fn mounted_at(extensions: &Extensions) -> &str {
    extensions.get::<MountedAt>().map(|at| at.0.as_str()).unwrap_or_default()
}

/// The mark of a request that came over TLS, in its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverTls;

/// Returns the address of the handler that answers, as the request names it.
pub(crate) fn base_url(parts: &Parts) -> String {
    let scheme = if parts.extensions.get::<OverTls>().is_some() { "https" } else { "http" };
    let named = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = named.or_else(|| Some(parts.uri.authority()?.as_str())).unwrap_or("localhost");
    format!("{scheme}://{host}{}", mounted_at(&parts.extensions))
}

/// Refuses a head that is too large, or that says in two ways where its body ends, since a proxy in front of the
/// server may have read it in the other way.
///
/// # Errors
/// The status of the response.
pub(crate) fn check_head(headers: &HeaderMap) -> Result<(), StatusCode> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > HEADERS_MAX {
        return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    let is_double = headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH);
    if is_double || headers.get_all(CONTENT_LENGTH).iter().count() > 1 {
        return Err(StatusCode::BAD_REQUEST);
    }
    Ok(())
}

/// Notes that the handler which answers is mounted one path deeper.
pub(crate) fn mount_deeper(extensions: &mut Extensions, prefix: &str) {
    if !prefix.is_empty() {
        let at = format!("{}{prefix}", mounted_at(extensions));
        extensions.insert(MountedAt(at));
    }
}

/// The word that a server stops, in the extensions of the requests of a [`Server`](crate::Server). A response without an
/// end, such as a feed that follows a log, ends when it [begins](StopSignal::begun); others are given the grace time.
#[derive(Debug, Clone)]
pub struct StopSignal(watch::Receiver<Phase>);

/// The phases of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The server accepts requests.
    Serving,
    /// No request is accepted, those in flight go on.
    Draining,
    /// Requests still in flight are cut off.
    Cutting,
}

impl StopSignal {
    /// Returns what a server said, and what says it.
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
