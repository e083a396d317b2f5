//! A request for a remote file, to the addresses that were checked, with no redirect followed.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Response, Url};

use crate::files::error::FileError;
use crate::files::remote::{RemoteUri, UriSchemes, without_secrets};
use crate::http_client::{client, with_causes};

/// The answer of a server.
pub(super) enum HopAnswer {
    /// The content as it travelled, with its encodings in the order in which they were applied.
    File { bytes: Vec<u8>, encodings: Vec<String> },
    /// The place to which the server sends.
    Redirect(String),
}

/// A look-up that returns the addresses that were checked, whatever the name.
struct PinnedResolver(Vec<SocketAddr>);

impl Resolve for PinnedResolver {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

fn failed(url: &Url, error: reqwest::Error) -> FileError {
    FileError::Fetch(format!("'{}' was not fetched: {}", shown(url), with_causes(&error.without_url())))
}

/// Returns an address as it may be told to people.
pub(super) fn shown(url: &Url) -> String {
    without_secrets(url.as_str())
}

/// Reads an address as the client does. What the client understands as the host is checked once more: it reads some
/// characters beyond ASCII as dots and digits.
pub(super) fn url_of(uri: &RemoteUri) -> Result<Url, FileError> {
    let invalid = || FileError::Uri(uri.shown());
    let mut url = Url::parse(uri.as_str()).map_err(|_| invalid())?;
    url.set_fragment(None);
    let scheme = UriSchemes::new([format!("{}:", url.scheme()).as_str()]).map_err(|_| invalid())?;
    RemoteUri::parse(url.as_str(), &scheme)?;
    Ok(url)
}

/// Returns the address to which a redirect leads, if it may be asked for.
pub(super) fn next_uri(from: &Url, to: &str, schemes: &UriSchemes) -> Result<RemoteUri, FileError> {
    let url = from.join(to).map_err(|_| FileError::Uri(without_secrets(to)))?;
    let next = RemoteUri::parse(url.as_str(), schemes)?;
    if from.scheme() == "https" && url.scheme() != "https" {
        return Err(FileError::Fetch(format!(
            "'{}' redirects to '{}', which is not encrypted",
            shown(from),
            shown(&url)
        )));
    }
    Ok(next)
}

/// Asks for a file at addresses that were checked.
pub(super) async fn ask(
    url: &Url,
    addresses: Vec<SocketAddr>,
    max_bytes: u64,
) -> Result<HopAnswer, FileError> {
    let checked = addresses.clone();
    let client = client()
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .dns_resolver(Arc::new(PinnedResolver(addresses)));
    // The content is decompressed here, within bounds, also where another part of the program lets the client do it.
    let client = client.no_gzip().no_deflate().no_brotli().no_zstd();
    let client = client.build().map_err(|error| failed(url, error))?;
    let request = client.get(url.clone()).header(ACCEPT, "*/*").header(ACCEPT_ENCODING, "identity");
    let response = request.send().await.map_err(|error| failed(url, error))?;
    let is_checked = |peer: SocketAddr| checked.iter().any(|address| address.ip() == peer.ip());
    if !response.remote_addr().is_none_or(is_checked) {
        return Err(FileError::BlockedHost(url.host_str().unwrap_or_default().to_owned()));
    }
    let status = response.status();
    if matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        let place = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
        let place = place.ok_or_else(|| {
            FileError::Fetch(format!("Redirect response missing location for '{}'", shown(url)))
        })?;
        return Ok(HopAnswer::Redirect(place.to_owned()));
    }
    // A part of a file, or an answer that the file is missing, is not a file.
    if !matches!(status.as_u16(), 200 | 203) {
        let reason = status.canonical_reason().unwrap_or_default();
        return Err(FileError::Fetch(format!("HTTP {}: {reason}", status.as_u16())));
    }
    let encodings = encodings(response.headers());
    Ok(HopAnswer::File { bytes: body(url, response, max_bytes).await?, encodings })
}

fn encodings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONTENT_ENCODING).iter();
    // A value beyond ASCII is not an encoding that anybody knows.
    let texts = values.map(|value| value.to_str().unwrap_or("unreadable").to_ascii_lowercase());
    texts
        .flat_map(|text| text.split(',').map(|one| one.trim().to_owned()).collect::<Vec<_>>())
        .filter(|one| !one.is_empty())
        .collect()
}

async fn body(url: &Url, mut response: Response, limit: u64) -> Result<Vec<u8>, FileError> {
    // Refused before the first byte, where the server says how much there is.
    if let Some(bytes) = response.content_length().filter(|bytes| *bytes > limit) {
        return Err(FileError::TooLarge { limit, bytes });
    }
    let mut content = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(url, error))? {
        let bytes = u64::try_from(content.len() + chunk.len()).unwrap_or(u64::MAX);
        if bytes > limit {
            return Err(FileError::TooLarge { limit, bytes });
        }
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}
