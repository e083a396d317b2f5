//! The client itself: its settings, the sending of requests, and the reading of answers within their bounds.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use proto_events::json::JsonText;
use proto_events::model::{ClientRequestSpec, HttpMethod, ModelError};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response, Url, redirect};

use crate::client::error::ClientError;
use crate::limits::{CLIENT_ANSWER_MAX, CLIENT_TIMEOUT};

/// The redirects that are followed, on one host.
const REDIRECTS_MAX: usize = 5;

/// The credentials that a client shows to agents and registries.
#[derive(Clone)]
#[non_exhaustive]
pub enum Credentials {
    /// A token, as `Authorization: Bearer`.
    Bearer(String),
    /// A key, as `X-API-Key`.
    ApiKey(String),
    /// A name and a password, as `Authorization: Basic`.
    Basic {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    /// Names the kind alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bearer(_) => "Bearer",
            Self::ApiKey(_) => "ApiKey",
            Self::Basic { .. } => "Basic",
        })
    }
}

/// A client of agents and registries. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    credentials: Option<Credentials>,
    timeout: Duration,
    answer_max: usize,
}

impl Client {
    /// Returns a client without credentials, which waits for an answer as long as Protolink's does.
    ///
    /// # Errors
    /// [`ClientError::Setup`] if HTTP cannot be set up.
    pub fn new() -> Result<Self, ClientError> {
        // Credentials and bodies stay with the host that they were meant for.
        let same_host = redirect::Policy::custom(|attempt| {
            let hosts = |url: &Url| {
                (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default())
            };
            let is_same = attempt.previous().last().is_some_and(|from| hosts(from) == hosts(attempt.url()));
            if is_same && attempt.previous().len() <= REDIRECTS_MAX {
                attempt.follow()
            } else {
                attempt.stop()
            }
        });
        let http = taskreel::http_client::client().redirect(same_host).build();
        let http = http.map_err(|error| ClientError::Setup(error.to_string()))?;
        Ok(Self { http, credentials: None, timeout: CLIENT_TIMEOUT, answer_max: CLIENT_ANSWER_MAX })
    }

    /// Sets what the client shows of itself.
    #[must_use]
    pub fn credentials(self, credentials: Credentials) -> Self {
        Self { credentials: Some(credentials), ..self }
    }

    /// Sets the longest wait for a whole answer, and of a stream for its next event.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the most bytes of an answer, or of one event of a stream.
    #[must_use]
    pub fn answer_max(self, bytes: usize) -> Self {
        Self { answer_max: bytes, ..self }
    }

    /// Returns the most bytes of an answer, and the longest wait.
    pub(crate) fn bounds(&self) -> (usize, Duration) {
        (self.answer_max, self.timeout)
    }

    /// Sends a request and reads its answer as `read` says.
    pub(crate) async fn json<T>(
        &self,
        base: &str,
        spec: ClientRequestSpec,
        sent: Sent<'_>,
        read: impl FnOnce(&JsonText) -> Result<T, ModelError>,
    ) -> Result<T, ClientError> {
        let text = self.text(base, spec, sent).await?;
        let of_answer = |source| ClientError::Answer { url: base.to_owned(), source };
        let json = JsonText::parse(&text).map_err(|error| of_answer(error.into()))?;
        read(&json).map_err(of_answer)
    }

    /// Sends a request and returns its answer as text.
    pub(crate) async fn text(
        &self,
        base: &str,
        spec: ClientRequestSpec,
        sent: Sent<'_>,
    ) -> Result<String, ClientError> {
        let request = self.request(base, spec, sent)?;
        let whole = async {
            let response = request.send().await.map_err(|error| self.failed(base, &error))?;
            let status = response.status();
            let body = self.whole(base, response).await?;
            if status.is_success() { Ok(body) } else { Err(ClientError::of_status(base, status, &body)) }
        };
        let body = tokio::time::timeout(self.timeout, whole).await.map_err(|_| self.late(base))??;
        String::from_utf8(body).map_err(|error| ClientError::Answer {
            url: base.to_owned(),
            source: ModelError::Invalid(format!("it is not UTF-8: {error}")),
        })
    }

    /// Sends a request whose answer is a stream, and returns the answer once it begins.
    pub(crate) async fn begun(
        &self,
        base: &str,
        spec: ClientRequestSpec,
        sent: Sent<'_>,
        headers: &[(&'static str, &str)],
    ) -> Result<Response, ClientError> {
        let mut request = self.request(base, spec, sent)?.header(ACCEPT, "text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let begun = async {
            let response = request.send().await.map_err(|error| self.failed(base, &error))?;
            let status = response.status();
            if status == StatusCode::OK {
                return Ok(response);
            }
            let body = self.whole(base, response).await?;
            Err(ClientError::of_status(base, status, &body))
        };
        tokio::time::timeout(self.timeout, begun).await.map_err(|_| self.late(base))?
    }

    fn request(
        &self,
        base: &str,
        spec: ClientRequestSpec,
        sent: Sent<'_>,
    ) -> Result<RequestBuilder, ClientError> {
        let mut url = address(base, spec.path)?;
        let method = match spec.method {
            HttpMethod::Get => reqwest::Method::GET,
            HttpMethod::Post => reqwest::Method::POST,
            HttpMethod::Delete => reqwest::Method::DELETE,
            HttpMethod::Put => reqwest::Method::PUT,
            HttpMethod::Patch => reqwest::Method::PATCH,
        };
        if let Sent::Query(pairs) = sent
            && !pairs.is_empty()
        {
            url.query_pairs_mut().extend_pairs(pairs);
        }
        let mut request = self.http.request(method, url);
        if let Sent::Body(body) = sent {
            request = request.header(CONTENT_TYPE, "application/json").body(body.as_str().to_owned());
        }
        Ok(match &self.credentials {
            None => request,
            Some(Credentials::Bearer(token)) => request.bearer_auth(token),
            Some(Credentials::ApiKey(key)) => request.header("x-api-key", key),
            Some(Credentials::Basic { user, password }) => request.basic_auth(user, Some(password)),
        })
    }

    /// Reads a whole body within the bound.
    async fn whole(&self, base: &str, mut response: Response) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.failed(base, &error))? {
            if body.len().saturating_add(piece.len()) > self.answer_max {
                return Err(ClientError::TooLarge { url: base.to_owned(), limit: self.answer_max });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// Returns the error of a request that failed on its way.
    pub(crate) fn failed(&self, base: &str, error: &reqwest::Error) -> ClientError {
        let url = base.to_owned();
        // The addresses in its texts may hold more than ours.
        let why = taskreel::http_client::with_causes(error);
        if error.is_connect() {
            return ClientError::Unreachable { url, why };
        }
        if error.is_timeout() { self.late(base) } else { ClientError::Protocol { url, why } }
    }

    pub(crate) fn late(&self, base: &str) -> ClientError {
        ClientError::TimedOut { url: base.to_owned(), after: self.timeout }
    }
}

/// The body or the query of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sent<'a> {
    /// Nothing.
    Nothing,
    /// A body of JSON.
    Body(&'a JsonText),
    /// Pairs of a query.
    Query(&'a [(&'a str, &'a str)]),
}

/// Returns the address of a path under that of an agent or a registry.
fn address(base: &str, path: &str) -> Result<Url, ClientError> {
    let wrong = |why: &str| ClientError::Url { url: without_credentials(base), why: why.to_owned() };
    // Read leniently, the first segment of a path would become a host.
    let has_host = base.split_once("://").is_some_and(|(_, rest)| !rest.is_empty() && !rest.starts_with('/'));
    if !has_host {
        return Err(wrong("it has no scheme or no host"));
    }
    let whole = format!("{}{path}", base.trim_end_matches('/'));
    let url = Url::parse(&whole).map_err(|error| wrong(&error.to_string()))?;
    match url.scheme() {
        "http" | "https" => {}
        "ws" | "wss" => return Err(wrong("this client speaks HTTP and no WebSocket")),
        _ => return Err(wrong("it must begin with http:// or https://")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("it holds credentials, which belong to the client"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("it has a query or a fragment"));
    }
    Ok(url)
}

/// Returns an address as it may stand in an error.
fn without_credentials(base: &str) -> String {
    let shown: String = base.chars().take(200).collect();
    match (shown.split_once("://"), shown.rfind('@')) {
        (Some((scheme, _)), Some(at)) => format!("{scheme}://…{}", shown.get(at..).unwrap_or_default()),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_http_without_credentials_and_none_of_these_stand_in_the_error() {
        assert_eq!(
            address("http://h:1/agents/a/", "/tasks/").unwrap().as_str(),
            "http://h:1/agents/a/tasks/"
        );
        for wrong in ["", "desk", "ws://h", "ftp://h", "http://u:hush@h", "http://h?key=hush", "http://"] {
            let refused = address(wrong, "/tasks/").unwrap_err().to_string();
            assert!(!refused.contains("u:hush"), "{refused}");
        }
        let credentials = Credentials::Basic { user: "u".to_owned(), password: "hush".to_owned() };
        assert!(!format!("{credentials:?}").contains("hush"));
    }
}
