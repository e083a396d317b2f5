//! Addresses of remote files, checked before anybody asks for them.

use crate::files::address::Hosts;
use crate::files::error::FileError;

/// The address of a remote file that may be asked for: its scheme is allowed, it names a host of the public internet
/// and no user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteUri {
    uri: String,
    host: String,
}

/// The schemes of addresses that may be fetched, each with its colon: `https:` by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriSchemes(Vec<String>);

/// A client that fetches remote files.
///
/// It asks only the host of the address, and only at an address for which [`is_public`](crate::files::is_public) holds
/// when it connects; it checks each redirect with [`RemoteUri::parse`] anew; and it stops at `max_bytes`, which bound
/// the decompressed content too.
pub trait FetchRemote: Send + Sync + std::fmt::Debug {
    /// Returns the content of a remote file.
    ///
    /// # Errors
    /// [`FileError::Fetch`] with the reason.
    fn fetch(&self, uri: &RemoteUri, max_bytes: u64) -> Result<Vec<u8>, FileError>;
}

impl UriSchemes {
    /// Checks schemes; spaces around them and case do not count.
    ///
    /// # Errors
    /// [`FileError::NoSchemes`] or [`FileError::Scheme`].
    pub fn new<'a>(schemes: impl IntoIterator<Item = &'a str>) -> Result<Self, FileError> {
        let mut known = Vec::new();
        for given in schemes {
            let scheme = given.trim().to_ascii_lowercase();
            let name = scheme.strip_suffix(':').filter(|name| is_scheme(name));
            name.ok_or_else(|| FileError::Scheme(given.to_owned()))?;
            if !known.contains(&scheme) {
                known.push(scheme);
            }
        }
        if known.is_empty() { Err(FileError::NoSchemes) } else { Ok(Self(known)) }
    }
}

impl Default for UriSchemes {
    fn default() -> Self {
        Self(vec!["https:".to_owned()])
    }
}

fn is_scheme(name: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-');
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.bytes().all(rest)
}

impl RemoteUri {
    /// Checks an address.
    ///
    /// # Errors
    /// [`FileError`] if it cannot be read, if its scheme is not allowed, if it names a user, or if its host is not on the
    /// public internet.
    pub fn parse(uri: &str, schemes: &UriSchemes) -> Result<Self, FileError> {
        Self::parse_within(uri, schemes, Hosts::Public)
    }

    /// Checks an address as [`RemoteUri::parse`] does, of these hosts.
    ///
    /// # Errors
    /// As [`RemoteUri::parse`].
    pub fn parse_within(uri: &str, schemes: &UriSchemes, hosts: Hosts) -> Result<Self, FileError> {
        let invalid = || FileError::Uri(without_secrets(uri));
        // A space or control character means different things to different readers of an address.
        if uri.chars().any(|char| char.is_control() || char.is_whitespace() || char == '\\') {
            return Err(invalid());
        }
        let (scheme, rest) =
            uri.split_once("://").filter(|(scheme, _)| is_scheme(scheme)).ok_or_else(invalid)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let host = host(place).ok_or_else(invalid)?;
        let scheme = format!("{}:", scheme.to_ascii_lowercase());
        if !schemes.0.contains(&scheme) {
            return Err(FileError::SchemeNotAllowed(scheme));
        }
        if user.is_some() {
            return Err(FileError::Credentials);
        }
        if !hosts.may_name(&host) {
            return Err(FileError::BlockedHost(host));
        }
        Ok(Self { uri: uri.to_owned(), host })
    }

    /// Returns the whole address.
    pub fn as_str(&self) -> &str {
        &self.uri
    }

    /// Returns the address as it may be told to people: without the query, which often holds a key.
    pub fn shown(&self) -> String {
        without_secrets(&self.uri)
    }

    /// Returns the host, in lower case and without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// Returns an address without what it may hold of secrets: user, password, query and fragment.
pub(super) fn without_secrets(uri: &str) -> String {
    let (address, query) = match uri.find(['?', '#']) {
        Some(end) => uri.split_at(end),
        None => (uri, ""),
    };
    // Some readers take any number of slashes, and backslashes, as the two before an authority, with a scheme or without.
    let after_scheme = match address.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) && rest.starts_with(['/', '\\']) => rest,
        _ => address,
    };
    let rest = after_scheme.trim_start_matches(['/', '\\']);
    let scheme = address.strip_suffix(rest).unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let user = authority.rsplit_once('@').map_or("", |_| "...@");
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let query = if query.len() > 1 { format!("{}...", &query[..1]) } else { query.to_owned() };
    format!("{scheme}{user}{host}{path}{query}")
}

/// Returns the host of an authority without a user, in lower case, without brackets, port and final dot.
fn host(place: &str) -> Option<String> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            // Behind the bracket stands a port or nothing: `[::1]80` means different things to different readers.
            if port.is_empty() { (host, "") } else { (host, port.strip_prefix(':')?) }
        }
        None => place.split_once(':').unwrap_or((place, "")),
    };
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    (!host.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_without_user_password_query_and_fragment() {
        for (uri, told) in [
            ("https://example.com/a/b", "https://example.com/a/b"),
            ("https://example.com/a?key=secret#x", "https://example.com/a?..."),
            ("https://example.com?key=secret", "https://example.com?..."),
            ("https://ann:secret@example.com/a", "https://...@example.com/a"),
            ("https://example.com/a@b?x@y", "https://example.com/a@b?..."),
            ("https://example.com/#secret", "https://example.com/#..."),
            ("no address?secret", "no address?..."),
            ("ann:secret@example.com", "...@example.com"),
            ("https:///ann:secret@example.com/x", "https:///...@example.com/x"),
            ("https:/ann:secret@example.com/x", "https:/...@example.com/x"),
            ("https:ann:secret@example.com/x", "...@example.com/x"),
            ("https:\\\\ann:secret@example.com", "https:\\\\...@example.com"),
            ("https://ann:sec\\ret@example.com/x", "https://...@example.com/x"),
            ("//ann:secret@example.com/", "//...@example.com/"),
            ("/ann:secret@example.com/", "/...@example.com/"),
            ("https://example.com:443/a", "https://example.com:443/a"),
            ("", ""),
            ("?", "?"),
        ] {
            assert_eq!(without_secrets(uri), told, "{uri}");
        }
        let schemes = UriSchemes::default();
        let parsed = RemoteUri::parse("https://example.com/a?key=secret", &schemes).unwrap();
        assert_eq!((parsed.shown().as_str(), parsed.as_str().len()), ("https://example.com/a?...", 32));
        let refused = RemoteUri::parse("https://example.com:x/a?key=secret", &schemes).unwrap_err();
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
}
