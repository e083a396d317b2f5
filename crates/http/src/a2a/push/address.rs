//! Addresses of webhooks: checked when they are registered and again when a connection is made, to the address that was checked.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use taskreel::files::{Hosts, RemoteUri, UriSchemes};
use tokio::sync::Semaphore;

use crate::limits::{PUSH_LOOK_UP_TIME, PUSH_LOOK_UPS};

/// A look-up of the addresses of a name.
pub(crate) type LookUp = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// The rule by which webhooks are reached.
#[derive(Clone)]
pub(crate) struct Reach {
    hosts: Hosts,
    look_up: Arc<LookUp>,
    /// Bounds the look-ups: each holds a thread as long as the system's resolver takes.
    turns: Arc<Semaphore>,
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reach").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// Returns the addresses of a name as the operating system knows them.
pub(crate) fn by_system(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|found| found.ip()).collect())
}

impl Reach {
    pub(crate) fn new(hosts: Hosts, look_up: Arc<LookUp>) -> Self {
        Self { hosts, look_up, turns: Arc::new(Semaphore::new(PUSH_LOOK_UPS)) }
    }

    /// Reads an address, and checks its scheme and its host as far as they stand in it.
    ///
    /// # Errors
    /// A text for the caller that registered it.
    pub(crate) fn url(&self, address: &str) -> Result<Url, String> {
        let schemes = UriSchemes::new(["http:", "https:"]).map_err(|error| error.to_string())?;
        let check = |address: &str| {
            RemoteUri::parse_within(address, &schemes, self.hosts).map_err(|_| {
                "must be http:// or https:// with a host of the public internet, without a user".to_owned()
            })
        };
        check(address)?;
        let mut url = Url::parse(address).map_err(|error| format!("is no address: {error}"))?;
        url.set_fragment(None);
        // The client reads some characters beyond ASCII as dots and digits: what it understands is checked once more.
        check(url.as_str())?;
        Ok(url)
    }

    /// Checks an address with all that its name stands for now. A name that nobody knows now is taken: it may be known later, and
    /// each connection checks what it stands for then.
    ///
    /// # Errors
    /// A text for the caller that registered it.
    pub(crate) async fn check(&self, address: &str) -> Result<(), String> {
        let url = self.url(address)?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        // An address that is a number was checked with the text.
        if host.parse::<IpAddr>().is_ok() {
            return Ok(());
        }
        match self.addresses(host.to_owned()).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            found => found.map(|_| ()).map_err(|error| error.to_string()),
        }
    }

    /// Returns the addresses of a name, if all of them may be reached.
    async fn addresses(&self, name: String) -> io::Result<Vec<IpAddr>> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(io::Error::other)?;
        let (look_up, asked) = (Arc::clone(&self.look_up), name.clone());
        let looking = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            look_up(&asked)
        });
        let found = tokio::time::timeout(PUSH_LOOK_UP_TIME, looking).await;
        let unknown = |why: &dyn fmt::Display| {
            io::Error::new(io::ErrorKind::NotFound, format!("its host is not found: {why}"))
        };
        let found = found.map_err(|_| unknown(&"not in time"))?;
        let found = found.map_err(|error| unknown(&error))?.map_err(|error| unknown(&error))?;
        if found.is_empty() {
            return Err(unknown(&"it has no address"));
        }
        if found.iter().any(|address| !self.may_reach(*address)) {
            return Err(io::Error::other("its host has an address that is not on the public internet"));
        }
        Ok(found)
    }

    /// Whether a connection to an address may be made.
    pub(crate) fn may_reach(&self, address: IpAddr) -> bool {
        self.hosts.may_connect(address)
    }
}

/// Names are looked up for each connection, and the connection is made to an address that was checked.
impl Resolve for Reach {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.clone();
        Box::pin(async move {
            let found = reach.addresses(name.as_str().to_owned()).await?;
            let found: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(found)
        })
    }
}

/// Returns a pause in seconds that an answer names, within bounds.
pub(crate) fn pause_named(headers: &http::HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
