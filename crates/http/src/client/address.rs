//! The addresses of agents and registries, and how they are reached: over HTTP, or through a WebSocket.

use reqwest::Url;

use crate::client::error::ClientError;

/// The way to an agent or a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// The address of a path, for a request of its own.
    Http(Url),
    /// The address of the socket through which all paths are asked, as that of its handshake.
    Socket(Url),
}

/// Checks an address at which a registry, or a server of agents, is reached over HTTP.
///
/// # Errors
/// [`ClientError::Url`] if it is not valid.
pub fn check_url(url: &str) -> Result<(), ClientError> {
    address(url, "/agents/").map(|_found| ())
}

/// Returns the way to a path under the address of an agent or a registry.
pub(crate) fn address(base: &str, path: &str) -> Result<Address, ClientError> {
    let wrong = |why: &str| ClientError::Url { url: without_credentials(base), why: why.to_owned() };
    // Read leniently, the first segment of a path would become a host.
    let has_host = base.split_once("://").is_some_and(|(_, rest)| !rest.is_empty() && !rest.starts_with('/'));
    if !has_host {
        return Err(wrong("it has no scheme or no host"));
    }
    let base = base.trim_end_matches('/');
    let read = |whole: &str| Url::parse(whole).map_err(|error| wrong(&error.to_string()));
    let url = read(&format!("{base}{path}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("it holds credentials, which belong to the client"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("it has a query or a fragment"));
    }
    let is_registry = path.starts_with("/agents");
    let scheme = match url.scheme() {
        "http" | "https" => return Ok(Address::Http(url)),
        "ws" => "http",
        "wss" => "https",
        _ if is_registry => return Err(wrong("it must begin with http:// or https://")),
        _ => return Err(wrong("it must begin with http://, https://, ws:// or wss://")),
    };
    if is_registry {
        return Err(wrong("a registry is asked over HTTP"));
    }
    let mut url = read(base)?;
    url.set_scheme(scheme).map_err(|()| wrong("its scheme cannot be that of a handshake"))?;
    Ok(Address::Socket(url))
}

/// Returns an address as it may stand in an error: without credentials and without its query, in which a key may stand.
fn without_credentials(base: &str) -> String {
    let shown = match (base.split_once("://"), base.rfind('@')) {
        (Some((scheme, _)), Some(at)) => format!("{scheme}://…{}", base.get(at..).unwrap_or_default()),
        _ => base.to_owned(),
    };
    let shown = match shown.split_once(['?', '#']) {
        Some((before, _)) => format!("{before}?…"),
        None => shown,
    };
    shown.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_http_or_of_a_socket_without_credentials_and_none_of_these_stand_in_the_error() {
        let url = |text: &str| Url::parse(text).unwrap();
        for (base, way) in [
            ("http://h:1/agents/a/", Address::Http(url("http://h:1/agents/a/tasks/"))),
            ("ws://h:1/agents/a/", Address::Socket(url("http://h:1/agents/a"))),
            ("ws://h:1", Address::Socket(url("http://h:1/"))),
            ("wss://h", Address::Socket(url("https://h/"))),
        ] {
            assert_eq!(address(base, "/tasks/"), Ok(way));
        }
        for wrong in
            ["", "desk", "ftp://h", "http://u:hush@h", "ws://u:hush@h", "ws://h?key=hush", "http://", "ws://"]
        {
            let refused = address(wrong, "/tasks/").unwrap_err().to_string();
            assert!(!refused.contains("hush"), "{refused}");
        }
        for registry in ["ws://h", "ftp://h"] {
            let refused = address(registry, "/agents/heartbeat").unwrap_err().to_string();
            assert!(refused.contains("HTTP") || refused.contains("https://"), "{refused}");
            assert!(!refused.contains("wss"), "{refused}");
        }
    }
}
