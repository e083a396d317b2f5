//! The watching of a client's exchanges: what is sent, and what comes, told to an observer as it happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};
use taskreel::BoxFuture;

use crate::a2a::client::error::A2aError;
use crate::client::error::ClientError;
use crate::client::exchange::{EventPieces, Exchange, StartedAnswer, WholeAnswer};
use crate::client::sse::SseEvent;
use crate::client::transport::Client;

/// The value that stands for a secret one.
const HIDDEN: &str = "[redacted]";

/// A moment of an exchange, in their order.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Moment<'a> {
    /// A request is about to be sent: it is sent once the observer has returned.
    Request {
        /// The method of HTTP.
        method: &'a str,
        /// The address with its query, without credentials.
        url: &'a str,
        /// The headers that the client sets, with the values of credentials replaced.
        headers: &'a [(String, String)],
        /// The body.
        body: Option<&'a str>,
    },
    /// An answer came, or its head if events follow.
    Answer {
        /// The status.
        status: u16,
        /// The headers, with the values of cookies replaced.
        headers: &'a [(String, String)],
        /// The body; `None` if events follow.
        body: Option<&'a [u8]>,
    },
    /// An event of a stream came.
    Event {
        /// The event's id.
        id: Option<&'a str>,
        /// The event's data.
        data: &'a str,
    },
    /// The exchange is over. One that its caller has given up has no end.
    End {
        /// The reason why no answer exists, or why the stream broke.
        why: Option<&'a str>,
    },
}

/// An observer of a client's exchanges. The client waits for it, so that what it writes down is there before what follows.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// Takes note of a moment of the exchange with this number.
    ///
    /// # Errors
    /// The reason for which the client must not go on: a request is not sent then.
    fn saw<'a>(&'a self, exchange: u64, moment: Moment<'a>) -> BoxFuture<'a, Result<(), String>>;
}

/// Parameters of the query whose values are secret.
#[derive(Clone, Default)]
pub(crate) struct SecretQuery(pub(crate) Vec<(String, String)>);

impl std::fmt::Debug for SecretQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// The exchanges' way to their observer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tap {
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// The part of the query that is a credential: sent, and never told.
    pub(crate) query: SecretQuery,
    /// Whether the client shows credentials of its own.
    pub(crate) is_known: bool,
}

/// The events of an answer, which the observer sees.
#[derive(Debug)]
pub(crate) struct ObservedEvents {
    pieces: Box<EventPieces>,
    tap: Tap,
    number: u64,
}

/// An answer that is read as it comes, or one that came whole.
pub(crate) enum OpenedAnswer {
    /// Server-sent events.
    Events(ObservedEvents),
    /// Any other answer.
    Whole(WholeAnswer),
}

impl Tap {
    /// Sends a request, and returns its whole answer.
    pub(crate) async fn exchange(&self, http: &Client, exchange: &Exchange) -> Result<WholeAnswer, A2aError> {
        let number = self.request(exchange).await?;
        match http.exchange(&self.with_credentials(exchange)).await {
            Ok(answered) => {
                self.answer(number, &answered).await?;
                Ok(answered)
            }
            Err(error) => Err(self.failed(number, error).await),
        }
    }

    /// Sends a request whose answer is a stream of events, and returns the answer once it begins.
    pub(crate) async fn open_stream(
        &self,
        http: &Client,
        exchange: &Exchange,
    ) -> Result<OpenedAnswer, A2aError> {
        let number = self.request(exchange).await?;
        match http.open_stream(&self.with_credentials(exchange)).await {
            Ok(StartedAnswer::Events(pieces)) => {
                if self.observer.is_some() {
                    let headers = shown_headers(pieces.headers());
                    self.tell(number, Moment::Answer { status: 200, headers: &headers, body: None }).await?;
                }
                Ok(OpenedAnswer::Events(ObservedEvents { pieces, tap: self.clone(), number }))
            }
            Ok(StartedAnswer::Whole(answered)) => {
                self.answer(number, &answered).await?;
                Ok(OpenedAnswer::Whole(answered))
            }
            Err(error) => Err(self.failed(number, error).await),
        }
    }

    /// Returns the exchange with the part of its query that is a credential.
    fn with_credentials(&self, exchange: &Exchange) -> Exchange {
        let mut whole = exchange.clone();
        whole.query.extend(self.query.0.iter().cloned());
        whole
    }

    async fn tell(&self, number: u64, moment: Moment<'_>) -> Result<(), A2aError> {
        match &self.observer {
            None => Ok(()),
            Some(observer) => observer.saw(number, moment).await.map_err(A2aError::Observer),
        }
    }

    async fn request(&self, exchange: &Exchange) -> Result<u64, A2aError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        if self.observer.is_none() {
            return Ok(number);
        }
        let mut headers: Vec<(String, String)> = exchange.headers.iter().map(shown_header).collect();
        if self.is_known {
            headers.push(("authorization".to_owned(), HIDDEN.to_owned()));
        }
        let url = exchange.whole_url();
        let body = exchange.body.as_ref().map(proto_events::json::JsonText::as_str);
        let method = exchange.method.as_str();
        self.tell(number, Moment::Request { method, url: &url, headers: &headers, body }).await?;
        Ok(number)
    }

    async fn answer(&self, number: u64, answered: &WholeAnswer) -> Result<(), A2aError> {
        if self.observer.is_none() {
            return Ok(());
        }
        let headers = shown_headers(&answered.headers);
        let (status, body) = (answered.status.as_u16(), Some(answered.body.as_slice()));
        self.tell(number, Moment::Answer { status, headers: &headers, body }).await?;
        self.tell(number, Moment::End { why: None }).await
    }

    /// Tells of a failure, and returns it.
    async fn failed(&self, number: u64, error: ClientError) -> A2aError {
        let why = error.to_string();
        match self.tell(number, Moment::End { why: Some(&why) }).await {
            Ok(()) => error.into(),
            Err(error) => error,
        }
    }
}

impl ObservedEvents {
    /// Returns the next event; `None` at the end of the answer.
    pub(crate) async fn next(&mut self) -> Result<Option<SseEvent>, A2aError> {
        match self.pieces.next().await {
            Ok(Some(event)) => {
                let moment = Moment::Event { id: event.id.as_deref(), data: &event.data };
                self.tap.tell(self.number, moment).await?;
                Ok(Some(event))
            }
            Ok(None) => {
                self.tap.tell(self.number, Moment::End { why: None }).await?;
                Ok(None)
            }
            Err(error) => Err(self.tap.failed(self.number, error).await),
        }
    }
}

fn shown_header((name, value): &(HeaderName, HeaderValue)) -> (String, String) {
    let is_secret =
        value.is_sensitive() || ["set-cookie", "cookie", "authorization"].contains(&name.as_str());
    let value =
        if is_secret { HIDDEN.to_owned() } else { String::from_utf8_lossy(value.as_bytes()).into_owned() };
    (name.as_str().to_owned(), value)
}

/// Returns the headers of an answer, with the values of cookies replaced.
pub(crate) fn shown_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| shown_header(&(name.clone(), value.clone()))).collect()
}
