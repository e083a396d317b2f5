//! The client itself: its settings, the sending of requests, and the reading of answers within their bounds.

use std::time::Duration;

use http::StatusCode;
use proto_events::id::Mint as _;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{ClientRequestSpec, HttpMethod, ModelError, python};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response, Url, redirect};

use taskreel::{BudgetUsage, Ports};

use crate::client::address::{Address, address};
use crate::client::credentials::{Credentials, shown};
use crate::client::error::ClientError;
use crate::client::socket::Answers;
use crate::client::sockets::{FramedRequest, SocketPurpose, Sockets};
use crate::limits::{CLIENT_ANSWER_MAX, CLIENT_TIMEOUT, USED_HEADER};

/// The redirects that are followed, on one host.
const REDIRECTS_MAX: usize = 5;

/// The request that must not wait for others on a socket.
const CANCEL: &str = "cancel_task";

/// A client of agents and registries. An agent is reached as its address says: over HTTP (`http://`, `https://`), each request
/// by itself; or through a WebSocket (`ws://`, `wss://`), on which requests run side by side and cancels have one of their
/// own. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    sockets: Sockets,
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
        Self::built_of(taskreel::http_client::client())
    }

    /// Returns a client that believes every server over TLS. For development only.
    #[cfg(feature = "a2a")]
    pub(crate) fn unverified() -> Result<Self, ClientError> {
        Self::built_of(taskreel::http_client::client_without_verification())
    }

    fn built_of(builder: reqwest::ClientBuilder) -> Result<Self, ClientError> {
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
        let http = builder.redirect(same_host).build();
        let setup = |error: reqwest::Error| ClientError::Setup(error.to_string());
        let (http, sockets) = (http.map_err(setup)?, Sockets::new().map_err(setup)?);
        Ok(Self { http, sockets, credentials: None, timeout: CLIENT_TIMEOUT, answer_max: CLIENT_ANSWER_MAX })
    }

    /// Returns a client of the same settings that shares no connection with this one.
    pub(crate) fn anew(&self) -> Result<Self, ClientError> {
        let (credentials, timeout, answer_max) = (self.credentials.clone(), self.timeout, self.answer_max);
        Ok(Self { credentials, timeout, answer_max, ..Self::new()? })
    }

    /// Sets what the client shows of itself.
    #[must_use]
    pub fn credentials(self, credentials: Credentials) -> Self {
        // A socket stays under the name for which it was opened.
        let sockets = self.sockets.anew();
        Self { credentials: Some(credentials), sockets, ..self }
    }

    /// Sets the longest wait for a whole answer, and of a stream for what comes next: over HTTP also a comment, by which a
    /// server keeps a quiet stream alive; through a WebSocket the next event.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the most bytes of an answer, or of one event of a stream.
    #[must_use]
    pub fn answer_max(self, bytes: usize) -> Self {
        let sockets = self.sockets.anew();
        Self { answer_max: bytes, sockets, ..self }
    }

    /// Returns the most bytes of an answer, and the longest wait.
    pub(crate) fn bounds(&self) -> (usize, Duration) {
        (self.answer_max, self.timeout)
    }

    /// Returns a request with what the client shows of itself.
    #[cfg(feature = "a2a")]
    pub(crate) fn shown(&self, method: http::Method, url: Url) -> RequestBuilder {
        shown(self.credentials.as_ref(), self.http.request(method, url))
    }

    /// Sends a request and reads its answer as `read` says.
    pub(crate) async fn json<T>(
        &self,
        base: &str,
        spec: ClientRequestSpec,
        sent: RequestContent<'_>,
        read: impl FnOnce(&JsonText) -> Result<T, ModelError>,
    ) -> Result<T, ClientError> {
        self.json_used(base, spec, sent, read).await.map(|(value, _)| value)
    }

    /// Sends a request and reads its answer as `read` says, and what the task in it has used, where the agent says it.
    pub(crate) async fn json_used<T>(
        &self,
        base: &str,
        spec: ClientRequestSpec,
        sent: RequestContent<'_>,
        read: impl FnOnce(&JsonText) -> Result<T, ModelError>,
    ) -> Result<(T, BudgetUsage), ClientError> {
        let of_answer = |source| ClientError::Answer { url: base.to_owned(), source };
        let (json, used) = match address(base, spec.path)? {
            Address::Http(url) => {
                let (text, used) = self.text_over_http(base, url, spec, sent).await?;
                (JsonText::parse(&text).map_err(|error| of_answer(error.into()))?, used)
            }
            Address::Socket(url) => self.on_socket(base, url, spec, sent).await?,
        };
        // What cannot be read is not known.
        let used = used.map(|used| BudgetUsage::from_json(&used)).unwrap_or_default();
        read(&json).map(|value| (value, used)).map_err(of_answer)
    }

    /// Sends a request and returns its answer as text.
    pub(crate) async fn text(
        &self,
        base: &str,
        spec: ClientRequestSpec,
        sent: RequestContent<'_>,
    ) -> Result<String, ClientError> {
        match address(base, spec.path)? {
            Address::Http(url) => self.text_over_http(base, url, spec, sent).await.map(|(text, _)| text),
            Address::Socket(url) => {
                let (answer, _) = self.on_socket(base, url, spec, sent).await?;
                Ok(answer.to_str().unwrap_or_else(|| answer.to_string()))
            }
        }
    }

    async fn text_over_http(
        &self,
        base: &str,
        url: Url,
        spec: ClientRequestSpec,
        sent: RequestContent<'_>,
    ) -> Result<(String, Option<JsonText>), ClientError> {
        let request = self.request(url, spec, sent);
        let whole = async {
            let response = request.send().await.map_err(|error| self.failed(base, error))?;
            let (status, used) = (response.status(), used_in(&response));
            let body = self.whole(base, response).await?;
            if status.is_success() {
                Ok((body, used))
            } else {
                Err(ClientError::of_status(base, status, &body))
            }
        };
        let (body, used) = tokio::time::timeout(self.timeout, whole).await.map_err(|_| self.late(base))??;
        let text = String::from_utf8(body).map_err(|error| ClientError::Answer {
            url: base.to_owned(),
            source: ModelError::Invalid(format!("it is not UTF-8: {error}")),
        })?;
        Ok((text, used))
    }

    /// Sends a request through the agent's socket, and returns its answer.
    async fn on_socket(
        &self,
        base: &str,
        url: Url,
        spec: ClientRequestSpec,
        sent: RequestContent<'_>,
    ) -> Result<(JsonText, Option<JsonText>), ClientError> {
        let (first, _) = self.on_socket_begun(base, url, (spec, false), sent, None).await?;
        let result = result_of(base, &first)?.unwrap_or_else(JsonText::null);
        Ok((result, first.get("used").cloned()))
    }

    /// Sends a request through the agent's socket, and returns its first answer with those that follow.
    pub(crate) async fn on_socket_begun(
        &self,
        base: &str,
        url: Url,
        (spec, is_stream): (ClientRequestSpec, bool),
        sent: RequestContent<'_>,
        last_event_id: Option<&str>,
    ) -> Result<(JsonObject, Answers), ClientError> {
        let line = SocketPurpose { url, is_urgent: spec.name == CANCEL };
        let id = Ports::default().uuid();
        let mut fields = JsonObject::new();
        fields.set("id", JsonText::string(&id));
        fields.set("method", JsonText::string(spec.method.as_str()));
        fields.set("path", JsonText::string(spec.path));
        if let RequestContent::Body(body) = sent {
            fields.set("data", body.clone());
        }
        if let Some(place) = last_event_id {
            fields.set("last_event_id", JsonText::string(place));
        }
        let request = FramedRequest { id, frame: fields.to_text().as_str().to_owned(), is_stream };
        let answered = self.sockets.ask(base, &line, self.credentials.as_ref(), self.answer_max, &request);
        tokio::time::timeout(self.timeout, answered).await.map_err(|_| self.late(base))?
    }

    /// Sends a request whose answer is a stream of events, and returns the answer once it begins.
    pub(crate) async fn begun(
        &self,
        base: &str,
        url: Url,
        spec: ClientRequestSpec,
        sent: RequestContent<'_>,
        headers: &[(&'static str, &str)],
    ) -> Result<Response, ClientError> {
        let mut request = self.request(url, spec, sent).header(ACCEPT, "text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let begun = async {
            let response = request.send().await.map_err(|error| self.failed(base, error))?;
            let status = response.status();
            if status == StatusCode::OK {
                return Ok(response);
            }
            let body = self.whole(base, response).await?;
            Err(ClientError::of_status(base, status, &body))
        };
        tokio::time::timeout(self.timeout, begun).await.map_err(|_| self.late(base))?
    }

    fn request(&self, mut url: Url, spec: ClientRequestSpec, sent: RequestContent<'_>) -> RequestBuilder {
        let method = match spec.method {
            HttpMethod::Get => reqwest::Method::GET,
            HttpMethod::Post => reqwest::Method::POST,
            HttpMethod::Delete => reqwest::Method::DELETE,
            HttpMethod::Put => reqwest::Method::PUT,
            HttpMethod::Patch => reqwest::Method::PATCH,
        };
        if let RequestContent::Query(pairs) = sent
            && !pairs.is_empty()
        {
            url.query_pairs_mut().extend_pairs(pairs);
        }
        let mut request = self.http.request(method, url);
        if let RequestContent::Body(body) = sent {
            request = request.header(CONTENT_TYPE, "application/json").body(body.as_str().to_owned());
        }
        shown(self.credentials.as_ref(), request)
    }

    /// Reads a whole body within the bound.
    pub(crate) async fn whole(&self, base: &str, mut response: Response) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.failed(base, error))? {
            if body.len().saturating_add(piece.len()) > self.answer_max {
                return Err(ClientError::TooLarge { url: base.to_owned(), limit: self.answer_max });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// Returns the error of a request that failed on its way.
    pub(crate) fn failed(&self, base: &str, error: reqwest::Error) -> ClientError {
        if error.is_timeout() && !error.is_connect() {
            return self.late(base);
        }
        ClientError::of_broken(base, error)
    }

    pub(crate) fn late(&self, base: &str) -> ClientError {
        ClientError::TimedOut { url: base.to_owned(), after: self.timeout }
    }
}

/// The body or the query of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestContent<'a> {
    /// No body.
    Nothing,
    /// A body of JSON.
    Body(&'a JsonText),
    /// Pairs of a query.
    Query(&'a [(&'a str, &'a str)]),
}

/// Returns what a task has used, as the agent says it beside an answer.
fn used_in(response: &Response) -> Option<JsonText> {
    JsonText::parse(response.headers().get(USED_HEADER)?.to_str().ok()?).ok()
}

/// Returns the result in a frame of an agent; `None` without one.
///
/// # Errors
/// [`ClientError::Refused`] if the agent answers with an error.
pub(crate) fn result_of(base: &str, frame: &JsonObject) -> Result<Option<JsonText>, ClientError> {
    if frame.get("ok").is_some_and(python::truthy) {
        return Ok(frame.get("result").filter(|result| !result.is_null()).cloned());
    }
    let error: JsonObject = frame.get("error").and_then(|error| error.read().ok()).unwrap_or_default();
    let text = |key: &str| error.get(key).map(python::text);
    Err(ClientError::Refused {
        url: base.to_owned(),
        kind: text("type").unwrap_or_default(),
        message: text("message").unwrap_or_default(),
        code: text("code"),
    })
}
