//! A client for remote files: it connects to checked addresses only, and what it reads is bounded.

mod content;
mod hop;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use reqwest::Url;

use crate::files::address::is_public;
use crate::files::error::FileError;
use crate::files::http::content::decoded;
use crate::files::http::hop::{HopAnswer, ask, next_uri, shown, url_of};
use crate::files::remote::{FetchRemote, RemoteUri, UriSchemes};

/// The redirects that are followed, as in a2a-utils.
const REDIRECTS_MAX: usize = 5;

/// The time for one file, from the look-up of its host to its last byte, over all redirects.
const TIME_MAX: Duration = Duration::from_secs(60);

/// A look-up of the addresses of a host.
type LookUp = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// A client that fetches remote files over HTTP.
///
/// A host is looked up once for each request, every address that it has must be on the public internet, and the
/// connection goes to one of those; a proxy of the environment is not used, since it would look the host up again. Each redirect is
/// checked like the first address, and none leads from `https:` to another scheme. Time, size, and the size after decompression are bounded while
/// the content is read. A host whose only addresses are translated ones (NAT64, as DNS64 makes them) is refused, since what they lead to
/// cannot be checked. Errors name addresses without their queries.
#[derive(Clone)]
pub struct HttpFetcher {
    schemes: UriSchemes,
    time_max: Duration,
    look_up: Arc<LookUp>,
    may_connect: fn(IpAddr) -> bool,
}

impl fmt::Debug for HttpFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFetcher")
            .field("schemes", &self.schemes)
            .field("time_max", &self.time_max)
            .finish_non_exhaustive()
    }
}

impl Default for HttpFetcher {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpFetcher {
    /// Returns a client for `https:` addresses that gives each file a minute.
    pub fn new() -> Self {
        let look_up: Arc<LookUp> = Arc::new(|host, port| Ok((host, port).to_socket_addrs()?.collect()));
        Self { schemes: UriSchemes::default(), time_max: TIME_MAX, look_up, may_connect: is_public }
    }

    /// Sets the schemes of addresses that may be fetched, redirects included; the store has its own list of them.
    #[must_use]
    pub fn uri_schemes(self, schemes: UriSchemes) -> Self {
        Self { schemes, ..self }
    }

    /// Sets the time for one file, over all its redirects; a minute by default.
    #[must_use]
    pub fn time_max(self, time: Duration) -> Self {
        Self { time_max: time, ..self }
    }

    /// Returns the addresses that a host has now, if all of them may be connected to.
    async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, FileError> {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let unknown = |why: &dyn fmt::Display| {
            FileError::Fetch(format!("Failed to resolve remote file host: '{host}': {why}"))
        };
        let port = url.port_or_known_default().ok_or_else(|| FileError::Uri(shown(url)))?;
        let (look_up, name) = (Arc::clone(&self.look_up), host.clone());
        let found = tokio::task::spawn_blocking(move || look_up(&name, port)).await;
        let addresses = found.map_err(|error| unknown(&error))?.map_err(|error| unknown(&error))?;
        if addresses.iter().any(|address| !(self.may_connect)(address.ip())) {
            return Err(FileError::BlockedHost(host));
        }
        if addresses.is_empty() { Err(unknown(&"it has no address")) } else { Ok(addresses) }
    }

    async fn follow(&self, uri: &RemoteUri, max_bytes: u64) -> Result<Vec<u8>, FileError> {
        let (mut uri, mut seen) = (RemoteUri::parse(uri.as_str(), &self.schemes)?, HashSet::new());
        let first = uri.shown();
        for _ in 0..=REDIRECTS_MAX {
            let url = url_of(&uri)?;
            if !seen.insert(url.to_string()) {
                return Err(FileError::Fetch(format!("Redirect loop while fetching '{first}'")));
            }
            let addresses = self.addresses(&url).await?;
            match ask(&url, addresses, max_bytes).await? {
                HopAnswer::File { bytes, encodings } => return decoded(bytes, &encodings, max_bytes),
                HopAnswer::Redirect(to) => uri = next_uri(&url, &to, &self.schemes)?,
            }
        }
        Err(FileError::Fetch(format!("Too many redirects while fetching '{first}'")))
    }

    fn run(&self, uri: &RemoteUri, max_bytes: u64) -> Result<Vec<u8>, FileError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| FileError::Fetch(format!("no runtime can be made: {error}")))?;
        let late = |_| {
            let seconds = self.time_max.as_secs_f64();
            Err(FileError::Fetch(format!("'{}' was not fetched within {seconds} s", uri.shown())))
        };
        let fetched = runtime.block_on(async {
            tokio::time::timeout(self.time_max, self.follow(uri, max_bytes)).await.unwrap_or_else(late)
        });
        // A look-up that goes on is not waited for.
        runtime.shutdown_background();
        fetched
    }
}

impl FetchRemote for HttpFetcher {
    fn fetch(&self, uri: &RemoteUri, max_bytes: u64) -> Result<Vec<u8>, FileError> {
        // A thread of its own, since a caller's may drive a runtime already.
        std::thread::scope(|scope| {
            let failed = |why: &dyn fmt::Display| {
                FileError::Fetch(format!("'{}' was not fetched: {why}", uri.shown()))
            };
            let fetching = std::thread::Builder::new().spawn_scoped(scope, || self.run(uri, max_bytes));
            let fetched = fetching.map_err(|error| failed(&error))?.join();
            fetched.unwrap_or_else(|_| Err(failed(&"the client panicked")))
        })
    }
}
