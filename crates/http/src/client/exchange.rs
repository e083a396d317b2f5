//! A request of any kind within the client's bounds, and its answer: whole, or as server-sent events.

use std::collections::VecDeque;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use proto_events::json::JsonText;
use reqwest::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, Url};

use crate::client::address::{Address, address};
use crate::client::error::ClientError;
use crate::client::sse::{SseEvent, SseReader};
use crate::client::transport::Client;

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(crate) method: Method,
    /// The address, without a query.
    pub(crate) url: String,
    pub(crate) query: Vec<(String, String)>,
    /// Further headers. Secret values among them are marked as such.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Option<JsonText>,
}

impl Exchange {
    /// Returns the address with the query.
    pub(crate) fn whole_url(&self) -> String {
        match plain(&self.url) {
            Ok(mut url) if !self.query.is_empty() => {
                url.query_pairs_mut().extend_pairs(&self.query);
                url.into()
            }
            _ => self.url.clone(),
        }
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub(crate) struct WholeAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl WholeAnswer {
    /// Returns the time after which the server wants to be asked again (`Retry-After`).
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.headers)
    }
}

/// An answer that is read as it comes, or one that came whole.
#[derive(Debug)]
pub(crate) enum StartedAnswer {
    /// Server-sent events.
    Events(Box<EventPieces>),
    /// Any other answer.
    Whole(WholeAnswer),
}

/// The server-sent events of an answer.
#[derive(Debug)]
pub(crate) struct EventPieces {
    client: Client,
    url: String,
    response: Response,
    reader: SseReader,
    ready: VecDeque<SseEvent>,
    /// Whether the event after those that are ready is larger than the client reads.
    is_too_large: bool,
}

/// Returns an address over HTTP as it stands, once it is checked.
///
/// # Errors
/// [`ClientError::Url`] if it is not valid.
fn plain(url: &str) -> Result<Url, ClientError> {
    let wrong = |why: String| ClientError::Url { url: "the address".to_owned(), why };
    match address(url, "")? {
        // As it stands, with a slash at its end: some servers know no other address.
        Address::Http(_) => Url::parse(url).map_err(|error| wrong(error.to_string())),
        Address::Socket(_) => {
            let why = "it must begin with http:// or https://".to_owned();
            Err(ClientError::Url { url: url.to_owned(), why })
        }
    }
}

/// Returns what tells one server from another: scheme, host and port.
///
/// # Errors
/// [`ClientError::Url`] if the address is not HTTP.
pub(crate) fn origin(url: &str) -> Result<String, ClientError> {
    Ok(plain(url)?.origin().ascii_serialization())
}

/// Returns the time after which a server wants to be asked again: a number of seconds, or a moment.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let moment = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    // One that is over is now.
    Some(Duration::try_from(moment.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}

impl Client {
    /// Sends a request, and returns its whole answer, whatever its status is.
    ///
    /// # Errors
    /// [`ClientError`] if none came, or not in time, or a larger one than the client reads.
    pub(crate) async fn exchange(&self, exchange: &Exchange) -> Result<WholeAnswer, ClientError> {
        let request = self.prepared(exchange, "application/json, application/a2a+json")?;
        let url = &exchange.url;
        let whole = async {
            let response = request.send().await.map_err(|error| self.failed(url, error))?;
            let (status, headers) = (response.status(), response.headers().clone());
            Ok(WholeAnswer { status, headers, body: self.whole(url, response).await? })
        };
        tokio::time::timeout(self.bounds().1, whole).await.map_err(|_| self.late(url))?
    }

    /// Sends a request whose answer is a stream of events, and returns the answer once it begins.
    ///
    /// # Errors
    /// [`ClientError`] if none came, or not in time.
    pub(crate) async fn open_stream(&self, exchange: &Exchange) -> Result<StartedAnswer, ClientError> {
        let request = self.prepared(exchange, "text/event-stream, application/json")?;
        let url = exchange.url.clone();
        let begun = async {
            let response = request.send().await.map_err(|error| self.failed(&url, error))?;
            let status = response.status();
            let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            let kind = kind.map(|kind| kind.trim_start().to_ascii_lowercase()).unwrap_or_default();
            let is_lines =
                ["ndjson", "jsonl", "json-lines", "jsonlines"].iter().any(|name| kind.contains(name));
            if status != StatusCode::OK || !(is_lines || kind.starts_with("text/event-stream")) {
                let headers = response.headers().clone();
                return Ok(StartedAnswer::Whole(WholeAnswer {
                    status,
                    headers,
                    body: self.whole(&url, response).await?,
                }));
            }
            let limit = self.bounds().0;
            let reader = if is_lines { SseReader::of_lines(limit) } else { SseReader::new(limit) };
            let url = url.clone();
            let pieces = EventPieces {
                client: self.clone(),
                url,
                response,
                reader,
                ready: VecDeque::new(),
                is_too_large: false,
            };
            Ok(StartedAnswer::Events(Box::new(pieces)))
        };
        tokio::time::timeout(self.bounds().1, begun).await.map_err(|_| self.late(&url))?
    }

    fn prepared(&self, exchange: &Exchange, wanted: &str) -> Result<RequestBuilder, ClientError> {
        let mut url = plain(&exchange.url)?;
        if !exchange.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&exchange.query);
        }
        let mut request = self.shown(exchange.method.clone(), url).header(ACCEPT, wanted);
        for (name, value) in &exchange.headers {
            request = request.header(name, value);
        }
        if let Some(body) = &exchange.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.as_str().to_owned());
        }
        Ok(request)
    }
}

impl EventPieces {
    /// Returns the headers of the answer.
    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Returns the next event; `None` at the end of the answer.
    ///
    /// # Errors
    /// [`ClientError`] if the connection breaks, nothing comes in time, or an event is larger than the client reads.
    pub(crate) async fn next(&mut self) -> Result<Option<SseEvent>, ClientError> {
        let Self { client, url, response, reader, ready, is_too_large } = self;
        let (limit, wait) = client.bounds();
        loop {
            if let Some(event) = ready.pop_front() {
                return Ok(Some(event));
            }
            if *is_too_large {
                return Err(ClientError::TooLarge { url: url.clone(), limit });
            }
            let piece = tokio::time::timeout(wait, response.chunk()).await;
            let piece = piece.map_err(|_| client.late(url))?;
            let Some(piece) = piece.map_err(|error| client.failed(url, error))? else {
                return Ok(reader.rest());
            };
            *is_too_large = reader.take(&piece, ready).is_err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_ask_again_is_read_as_seconds_or_as_a_moment() {
        let of = |text: &str| {
            let headers: HeaderMap =
                [(RETRY_AFTER, HeaderValue::from_str(text).unwrap())].into_iter().collect();
            retry_after(&headers)
        };
        assert_eq!(of("7"), Some(Duration::from_secs(7)));
        assert_eq!(of("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert!(of("Wed, 21 Oct 2415 07:28:00 GMT").is_some_and(|wait| wait > Duration::from_secs(86_400)));
        for none in ["", "-1", "soon", "1e9", "99999999999999999999999"] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
