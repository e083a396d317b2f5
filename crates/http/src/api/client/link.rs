//! Requests to a live API and their answers, on a runtime of their own so that the caller may block.

use std::time::Duration;

use proto_events::json::{JsonText, JsonValue};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, Url};
use taskreel::http_client::{client, with_causes};
use taskreel_log::limits::EXPORT_LINE_BYTES_MAX;
use tokio::runtime::Runtime;

use crate::api::client::error::HttpLogError;
use crate::api::wire;
use crate::api::wire::WireLine;
use crate::limits::BODY_MAX;

/// The time within which a connection is made.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// The time for which a server may be silent in the middle of an answer: it says every second that it is there, or reads a
/// page of its log.
const SILENT_MAX: Duration = Duration::from_secs(30);

/// The parameters of a request.
pub(crate) type Query<'a> = [(&'a str, String)];

/// The way to a live API.
pub(crate) struct ApiLink {
    http: Client,
    /// The address as it was given, without a slash at its end.
    url: String,
    base: Url,
    runtime: Runtime,
}

impl ApiLink {
    /// Returns the way to the live API of the server at an address.
    ///
    /// # Errors
    /// [`HttpLogError::Url`] if the address is not valid.
    pub(crate) fn new(url: &str, token: Option<&str>) -> Result<Self, HttpLogError> {
        let typed = url.trim_end_matches('/');
        let wrong = |why: String| HttpLogError::Url { url: url.to_owned(), why };
        let base = Url::parse(typed).map_err(|error| wrong(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(wrong("it does not begin with http:// or https:// and a name".to_owned()));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(wrong("a token belongs into a file or the environment".to_owned()));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(wrong("it has a query or a fragment".to_owned()));
        }
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| wrong("the token has a character that no header may have".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let http = client()
            .connect_timeout(CONNECT_WITHIN)
            .read_timeout(SILENT_MAX)
            // A server that sends elsewhere would be sent the token there.
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers)
            .build()
            .map_err(|error| wrong(with_causes(&error)))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| HttpLogError::Unreachable { why: error.to_string() })?;
        Ok(Self { http, url: typed.to_owned(), base, runtime })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    #[expect(clippy::unused_self, reason = "the link's words stand together")]
    pub(crate) fn nonsense(&self, what: &str) -> HttpLogError {
        HttpLogError::Nonsense { what: what.to_owned() }
    }

    /// Returns the address of a path below the live API, each piece encoded.
    fn address(&self, pieces: &[&str], query: &Query<'_>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("api").extend(pieces);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Asks for a document.
    ///
    /// # Errors
    /// [`HttpLogError`] if the server does not answer with one.
    pub(crate) fn json(&self, path: &str, query: &Query<'_>) -> Result<JsonText, HttpLogError> {
        let pieces: Vec<&str> = path.split('/').collect();
        self.document(self.http.get(self.address(&pieces, query)))
    }

    /// Posts a document.
    ///
    /// # Errors
    /// [`HttpLogError`] if the server does not answer with one.
    pub(crate) fn post(&self, pieces: &[&str], body: &JsonText) -> Result<JsonText, HttpLogError> {
        let request = self.http.post(self.address(pieces, &[]));
        self.document(request.header(CONTENT_TYPE, "application/json").body(body.as_str().to_owned()))
    }

    fn document(&self, request: RequestBuilder) -> Result<JsonText, HttpLogError> {
        self.runtime.block_on(async {
            let mut response = sent(request.header(ACCEPT, "application/json")).await?;
            let body = read_body(&mut response, BODY_MAX).await?;
            let text = String::from_utf8(body).map_err(|_| self.nonsense("it is not UTF-8"))?;
            JsonText::parse(&text).map_err(|error| self.nonsense(&error.to_string()))
        })
    }

    /// Asks for lines.
    ///
    /// # Errors
    /// [`HttpLogError`] if the server does not answer with any.
    pub(crate) fn lines(&self, path: &str, query: &Query<'_>) -> Result<Lines<'_>, HttpLogError> {
        let pieces: Vec<&str> = path.split('/').collect();
        let response = self.runtime.block_on(sent(self.http.get(self.address(&pieces, query))))?;
        Ok(Lines { runtime: &self.runtime, response, buffer: Vec::new(), looked: 0, number: 0 })
    }
}

/// The lines of an answer as they come.
pub(crate) struct Lines<'a> {
    runtime: &'a Runtime,
    response: Response,
    buffer: Vec<u8>,
    /// The bytes of the buffer that hold no end of a line.
    looked: usize,
    number: u64,
}

impl Lines<'_> {
    /// Waits for the next line. An answer ends with a word of its own, so that its end without one is a loss.
    ///
    /// # Errors
    /// [`HttpLogError`] if the connection is lost or silent, or the line is neither a record nor a word.
    pub(crate) fn next(&mut self) -> Result<WireLine, HttpLogError> {
        loop {
            let rest = self.buffer.get(self.looked..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let after = self.buffer.split_off(self.looked + end + 1);
                let line = std::mem::replace(&mut self.buffer, after);
                self.looked = 0;
                self.number += 1;
                return self.read(&line);
            }
            self.looked = self.buffer.len();
            if self.looked as u64 > EXPORT_LINE_BYTES_MAX {
                return Err(HttpLogError::Nonsense { what: "a line does not end".to_owned() });
            }
            let piece = self.runtime.block_on(self.response.chunk());
            let piece = piece.map_err(|error| unreachable(&error))?;
            let cut = || HttpLogError::Unreachable { why: "it ended its answer in the middle".to_owned() };
            self.buffer.extend_from_slice(&piece.ok_or_else(cut)?);
        }
    }

    fn read(&self, line: &[u8]) -> Result<WireLine, HttpLogError> {
        let nonsense =
            |what: String| HttpLogError::Nonsense { what: format!("line {}: {what}", self.number) };
        let text = std::str::from_utf8(line).map_err(|_| nonsense("it is not UTF-8".to_owned()))?;
        wire::read(self.number, text.trim_end()).map_err(nonsense)
    }
}

/// Sends a request, and returns a good answer to it.
async fn sent(request: RequestBuilder) -> Result<Response, HttpLogError> {
    let mut response = request.send().await.map_err(|error| unreachable(&error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = read_body(&mut response, BODY_MAX).await.unwrap_or_default();
    let said = String::from_utf8(body).ok().and_then(|text| JsonText::parse(&text).ok());
    let said = said.map(|json| json.tree());
    let word = |name: &str| {
        let error = said.as_ref()?.get("error")?;
        error.get(name).and_then(JsonValue::as_str).map(str::to_owned)
    };
    let reason = || status.canonical_reason().unwrap_or("no reason is given").to_owned();
    Err(HttpLogError::Refused {
        status: status.as_u16(),
        code: word("code").unwrap_or_else(|| "unknown".to_owned()),
        message: word("message").unwrap_or_else(reason),
    })
}

async fn read_body(response: &mut Response, limit: usize) -> Result<Vec<u8>, HttpLogError> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| unreachable(&error))? {
        body.extend_from_slice(&piece);
        if body.len() > limit {
            return Err(HttpLogError::Nonsense { what: format!("it has more than {limit} bytes") });
        }
    }
    Ok(body)
}

fn unreachable(error: &reqwest::Error) -> HttpLogError {
    HttpLogError::Unreachable { why: with_causes(error) }
}
