//! The hosts under which a request may name this server, and the web pages that may call it. A page of another site
//! cannot reach a server of this machine through a name that it makes point here (DNS rebinding).

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri};

use crate::error::Problem;

/// The hosts and origins that are allowed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// The hosts, in lower case, with a port only where it matters.
    hosts: Vec<String>,
    /// The origins, as browsers write them.
    origins: Vec<String>,
    /// Whether only names of this machine are allowed beside `hosts`.
    pub(crate) is_local: bool,
}

/// A host or an origin that cannot be allowed, since it is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no {1}")]
pub(crate) struct NoPlace(String, &'static str);

/// The origin of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The request comes from no web page, or from one of this server.
    Own,
    /// The request comes from a page that is allowed.
    Allowed(String),
}

impl Places {
    /// Allows a host, such as `example.org` or `example.org:8080`.
    pub(crate) fn allow_host(&mut self, host: &str) -> Result<(), NoPlace> {
        let wrong = || NoPlace(host.to_owned(), "host; write `example.org` or `example.org:8080`");
        let authority: Authority = host.parse().map_err(|_| wrong())?;
        if host.contains('@') || authority.host().is_empty() {
            return Err(wrong());
        }
        self.hosts.push(host.to_ascii_lowercase());
        Ok(())
    }

    /// Allows the pages of an origin, such as `https://example.org`.
    pub(crate) fn allow_origin(&mut self, origin: &str) -> Result<(), NoPlace> {
        let wrong = || NoPlace(origin.to_owned(), "origin; write `https://example.org`, without a path");
        let (scheme, authority) = parse_origin(origin).ok_or_else(wrong)?;
        self.origins.push(format!("{scheme}://{}", authority.as_str().to_ascii_lowercase()));
        Ok(())
    }

    /// Checks the host that a request names.
    pub(crate) fn check_host(&self, headers: &HeaderMap, uri: &Uri) -> Result<Authority, Problem> {
        let mut named = headers.get_all(HOST).iter();
        let authority = match (uri.authority(), named.next(), named.next()) {
            (_, _, Some(_)) => return Err(Problem::malformed("the request names several hosts")),
            (Some(authority), Some(host), None)
                if !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) =>
            {
                return Err(Problem::malformed("the request names several hosts"));
            }
            (Some(authority), _, _) => authority.clone(),
            (None, Some(host), None) => Authority::try_from(host.as_bytes())
                .ok()
                .filter(|host| !host.as_str().contains('@'))
                .ok_or_else(|| Problem::malformed("the host that the request names is none"))?,
            (None, None, None) => return Err(Problem::malformed("the request names no host")),
        };
        let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
        let whole = authority.as_str().to_ascii_lowercase();
        let is_named = self.hosts.iter().any(|allowed| *allowed == host || *allowed == whole);
        let is_open = if self.is_local { is_loopback(&host) } else { self.hosts.is_empty() };
        if is_named || is_open {
            return Ok(authority);
        }
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            "host_not_allowed",
            format!("this server does not answer for the host `{host}`; it can be allowed with --allow-host"),
        ))
    }

    /// Checks the page from which a request comes; browsers name it.
    pub(crate) fn check_origin(&self, headers: &HeaderMap, host: &Authority) -> Result<Origin, Problem> {
        let mut named = headers.get_all(ORIGIN).iter();
        let Some(origin) = named.next() else { return Ok(Origin::Own) };
        let text = origin.to_str().ok().filter(|_| named.next().is_none()).unwrap_or("null");
        let whole = text.to_ascii_lowercase();
        if self.origins.contains(&whole) {
            return Ok(Origin::Allowed(text.to_owned()));
        }
        if parse_origin(&whole).is_some_and(|(scheme, authority)| is_same(&scheme, &authority, host)) {
            return Ok(Origin::Own);
        }
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            "origin_not_allowed",
            "a page of another site may not call this server; its origin can be allowed with --allow-origin",
        ))
    }
}

/// Whether a host is a name or an address of this machine that no other machine reaches.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn parse_origin(origin: &str) -> Option<(String, Authority)> {
    let (scheme, rest) = origin.split_once("://")?;
    let authority: Authority = rest.parse().ok()?;
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    (is_web && !rest.contains('@')).then(|| (scheme.to_ascii_lowercase(), authority))
}

/// Whether an origin is the server that a request names. Its scheme does not count: behind a proxy it is not known.
fn is_same(scheme: &str, origin: &Authority, host: &Authority) -> bool {
    let standard = if scheme == "https" { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(standard);
    origin.host().eq_ignore_ascii_case(host.host()) && port(origin) == port(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        headers
    }

    fn host_is_ok(places: &Places, host: &str) -> bool {
        places.check_host(&headers(host, None), &Uri::from_static("/")).is_ok()
    }

    #[test]
    fn a_local_server_answers_for_names_of_this_machine_and_allowed_ones_alone() {
        let mut places = Places { is_local: true, ..Places::default() };
        places.allow_host("desk.example.org").unwrap();
        places.allow_host("Shop.example.org:8443").unwrap();
        for host in
            ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "desk.example.org:9"]
        {
            assert!(host_is_ok(&places, host), "{host}");
        }
        assert!(host_is_ok(&places, "shop.example.org:8443"));
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "192.168.0.1",
            "shop.example.org",
            "0.0.0.0",
            "2130706433",
        ] {
            assert!(!host_is_ok(&places, host), "{host}");
        }
        for host in ["a b", "x@localhost", ""] {
            assert!(!host_is_ok(&places, host), "{host}");
        }
    }

    #[test]
    fn two_hosts_are_malformed_and_an_open_server_answers_for_any_host_until_some_are_allowed() {
        let mut places = Places::default();
        let mut twice = headers("a.example", None);
        twice.append(HOST, "b.example".parse().unwrap());
        assert_eq!(places.check_host(&twice, &Uri::from_static("/")).unwrap_err().status(), 400);
        assert!(host_is_ok(&places, "any.example"));
        places.allow_host("one.example").unwrap();
        assert!(!host_is_ok(&places, "any.example") && host_is_ok(&places, "one.example"));
    }

    #[test]
    fn a_page_may_call_its_own_server_and_an_allowed_page_any() {
        let mut places = Places { is_local: true, ..Places::default() };
        places.allow_origin("https://desk.example.org").unwrap();
        assert!(places.allow_origin("https://desk.example.org/path").is_err());
        assert!(places.allow_origin("desk.example.org").is_err());
        let check = |host: &'static str, origin: &str| {
            places.check_origin(&headers(host, Some(origin)), &Authority::from_static(host))
        };
        assert_eq!(check("localhost:8080", "http://localhost:8080").unwrap(), Origin::Own);
        assert_eq!(check("a.example", "https://a.example:443").unwrap(), Origin::Own);
        assert!(matches!(check("localhost:8080", "https://desk.example.org").unwrap(), Origin::Allowed(_)));
        for origin in
            ["http://localhost:3000", "http://evil.example", "null", "https://desk.example.org:444", "x"]
        {
            assert_eq!(check("localhost:8080", origin).unwrap_err().code(), "origin_not_allowed", "{origin}");
        }
    }
}
