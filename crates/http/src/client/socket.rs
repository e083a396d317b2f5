//! A WebSocket to an agent: any number of requests side by side, each of which gets the answers that bear its id.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{ModelError, python};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::time::{Instant, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::Error as SocketError;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::client::error::ClientError;
use crate::limits::{READER_STALL_MAX, SOCKET_PING, SOCKET_REQUESTS_MAX};

/// The signs of life of the other end that may be missing before the socket counts as lost.
const SILENT_PINGS_MAX: u32 = 2;

/// The time within which the other end should hear that the socket closes.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// A socket to an agent. Clones are the same one; it is closed once the last is dropped, or after a while without a request.
#[derive(Debug, Clone)]
pub(crate) struct Socket {
    asks: Sender<Ask>,
}

/// A request on its way to the socket.
#[derive(Debug)]
struct Ask {
    id: String,
    frame: String,
    open: PendingRequest,
}

/// The place to which the answers of a request go.
#[derive(Debug)]
struct PendingRequest {
    is_stream: bool,
    answers: UnboundedSender<Counted>,
    /// The bytes of the answers that nobody has taken yet.
    waiting: Arc<AtomicUsize>,
}

/// An answer or the reason why none follows, with the bytes that it holds while nobody has taken it.
type Counted = (usize, Result<JsonObject, SocketFailure>);

/// The reason why a request has no answer.
#[derive(Debug, Clone)]
pub(crate) enum SocketFailure {
    /// The socket ended before the request was sent.
    NotSent,
    /// Another error.
    Error(ClientError),
}

/// The answers of a request.
#[derive(Debug)]
pub(crate) struct Answers {
    answers: UnboundedReceiver<Counted>,
    waiting: Arc<AtomicUsize>,
}

impl Answers {
    /// Returns the next answer, a frame; `None` after the last one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Result<JsonObject, SocketFailure>> {
        let (bytes, answer) = self.answers.recv().await?;
        // Each frame gives back its own: a reader that is always a little behind never sees an empty queue.
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        Some(answer)
    }
}

impl Socket {
    /// Holds a socket on a task of its own. `url` is its address for errors, and `limit` the most bytes of a frame, and of
    /// those that wait to be taken.
    pub(crate) fn spawn<S>(socket: WebSocketStream<S>, url: &str, limit: usize) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (asks, asked) = channel(SOCKET_REQUESTS_MAX);
        tokio::spawn(SocketLink { url: url.to_owned(), limit, open: Mutex::default() }.serve(socket, asked));
        Self { asks }
    }

    /// Whether requests can be sent, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        !self.asks.is_closed()
    }

    /// Sends a frame that bears this id, and returns its answers.
    ///
    /// # Errors
    /// [`SocketFailure::NotSent`] if the socket has ended.
    pub(crate) async fn ask(
        &self,
        id: String,
        frame: String,
        is_stream: bool,
    ) -> Result<Answers, SocketFailure> {
        let (answers, answered) = unbounded_channel();
        let waiting = Arc::<AtomicUsize>::default();
        let open = PendingRequest { is_stream, answers, waiting: Arc::clone(&waiting) };
        self.asks.send(Ask { id, frame, open }).await.map_err(|_| SocketFailure::NotSent)?;
        Ok(Answers { answers: answered, waiting })
    }
}

/// The end of a socket: `None` if nobody needs it any more.
type End = Option<ClientError>;

/// The requests of a socket that have no answer yet.
struct SocketLink {
    url: String,
    limit: usize,
    open: Mutex<HashMap<String, PendingRequest>>,
}

impl SocketLink {
    async fn serve<S>(self, socket: WebSocketStream<S>, mut asked: Receiver<Ask>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let heard = AtomicUsize::new(0);
        let (mut sink, stream) = socket.split();
        // Side by side: an agent that does not read while it answers must not keep us from reading.
        let end = tokio::select! {
            end = self.read(stream, &heard) => end,
            end = self.write(&mut sink, &mut asked, &heard) => end,
        };
        asked.close();
        while let Ok(ask) = asked.try_recv() {
            // The caller may have gone.
            let _gone = ask.open.answers.send((0, Err(SocketFailure::NotSent)));
        }
        let error = end.unwrap_or_else(|| self.closed("the client has closed the socket"));
        for (_, open) in self.open().drain() {
            let _gone = open.answers.send((0, Err(SocketFailure::Error(error.clone()))));
        }
        // The other end may be gone.
        let _closed = timeout(CLOSE_WITHIN, sink.close()).await;
    }

    /// Sends requests and signs of life.
    async fn write<S>(
        &self,
        sink: &mut SplitSink<WebSocketStream<S>, Message>,
        asked: &mut Receiver<Ask>,
        heard: &AtomicUsize,
    ) -> End
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut pings = interval_at(Instant::now() + SOCKET_PING, SOCKET_PING);
        let (mut silent, mut idle) = (0, 0);
        loop {
            let message = tokio::select! {
                ask = asked.recv() => {
                    let Ask { id, frame, open } = ask?;
                    self.open().insert(id, open);
                    idle = 0;
                    Message::text(frame)
                }
                _ = pings.tick() => {
                    silent = if heard.swap(0, Ordering::Relaxed) == 0 { silent + 1 } else { 0 };
                    if silent > SILENT_PINGS_MAX {
                        return Some(self.closed("the other end gives no sign of life"));
                    }
                    let mut open = self.open();
                    // Those that were given up.
                    open.retain(|_, open| !open.answers.is_closed());
                    idle = if open.is_empty() { idle + 1 } else { 0 };
                    if idle > 1 {
                        return None;
                    }
                    Message::Ping(Bytes::new())
                }
            };
            match timeout(READER_STALL_MAX, sink.send(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Some(self.failed(&error)),
                Err(_) => return Some(self.closed("the other end takes nothing")),
            }
        }
    }

    /// Reads answers.
    async fn read<S>(&self, mut stream: SplitStream<WebSocketStream<S>>, heard: &AtomicUsize) -> End
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        loop {
            let received = stream.next().await;
            heard.fetch_add(1, Ordering::Relaxed);
            let taken = match received {
                Some(Ok(Message::Text(text))) => self.answer(text.as_bytes()),
                Some(Ok(Message::Binary(bytes))) => self.answer(&bytes),
                Some(Ok(Message::Close(frame))) => {
                    let why =
                        frame.map(|frame| format!("it said {} {}", u16::from(frame.code), frame.reason));
                    Err(self.closed(&why.unwrap_or_else(|| "it gave no reason".to_owned())))
                }
                Some(Ok(_)) => Ok(()),
                Some(Err(error)) => Err(self.failed(&error)),
                None => Err(self.closed("the connection has ended")),
            };
            if let Err(error) = taken {
                return Some(error);
            }
        }
    }

    /// Gives a frame to the request that it answers.
    ///
    /// # Errors
    /// [`ClientError`] if it cannot be known which one that is.
    fn answer(&self, frame: &[u8]) -> Result<(), ClientError> {
        let unreadable = |source| ClientError::Answer { url: self.url.clone(), source };
        let text = std::str::from_utf8(frame)
            .map_err(|error| unreadable(ModelError::Invalid(format!("it is not UTF-8: {error}"))))?;
        let fields: JsonObject =
            JsonText::parse(text).and_then(|json| json.read()).map_err(|error| unreadable(error.into()))?;
        let Some(id) = fields.get("id").and_then(JsonText::to_str) else {
            let text = format!("a frame from {} names no request", self.url);
            return Err(unreadable(ModelError::Invalid(text)));
        };
        let mut requests = self.open();
        // A request that was given up is not known any more.
        let Some(open) = requests.get(&id) else { return Ok(()) };
        let is = |key: &str| fields.get(key).is_some_and(python::truthy);
        let is_last = !open.is_stream || !is("ok") || is("final");
        let waiting = open.waiting.fetch_add(frame.len(), Ordering::Relaxed);
        let is_full = waiting > 0 && waiting.saturating_add(frame.len()) > self.limit;
        let answer = if is_full {
            Err(SocketFailure::Error(ClientError::TooLarge { url: self.url.clone(), limit: self.limit }))
        } else {
            Ok(fields)
        };
        let is_gone = open.answers.send((frame.len(), answer)).is_err();
        if is_last || is_full || is_gone {
            requests.remove(&id);
        }
        Ok(())
    }

    fn closed(&self, why: &str) -> ClientError {
        ClientError::Closed { url: self.url.clone(), why: why.to_owned() }
    }

    fn failed(&self, error: &SocketError) -> ClientError {
        let (url, why) = (self.url.clone(), error.to_string());
        match error {
            SocketError::Capacity(_) => ClientError::TooLarge { url, limit: self.limit },
            SocketError::Protocol(violation) if !is_cut(violation) => ClientError::Protocol { url, why },
            SocketError::Utf8(_) => ClientError::Protocol { url, why },
            _ => ClientError::Closed { url, why },
        }
    }

    /// Ignores poisoning: the table is whole between any two steps.
    fn open(&self) -> MutexGuard<'_, HashMap<String, PendingRequest>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the connection ended without a close frame, which does not break the protocol.
fn is_cut(violation: &tokio_tungstenite::tungstenite::error::ProtocolError) -> bool {
    use tokio_tungstenite::tungstenite::error::ProtocolError;
    matches!(
        violation,
        ProtocolError::ResetWithoutClosingHandshake
            | ProtocolError::SendAfterClosing
            | ProtocolError::ReceivedAfterClosing
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a link with one stream that is open, and its answers.
    fn linked(limit: usize) -> (SocketLink, Answers) {
        let (answers, answered) = unbounded_channel();
        let waiting = Arc::<AtomicUsize>::default();
        let open = PendingRequest { is_stream: true, answers, waiting: Arc::clone(&waiting) };
        let link = SocketLink { url: "ws://h".to_owned(), limit, open: Mutex::default() };
        link.open().insert("a".to_owned(), open);
        (link, Answers { answers: answered, waiting })
    }

    #[tokio::test]
    async fn a_reader_a_little_behind_is_given_every_frame_and_one_far_behind_is_told_so() {
        let frame = br#"{"id":"a","ok":true,"result":{},"final":false}"#;
        let (link, mut answers) = linked(3 * frame.len());
        link.answer(frame).unwrap();
        for _ in 0..1_000 {
            link.answer(frame).unwrap();
            let next = answers.next().await;
            assert!(matches!(next, Some(Ok(_))), "{next:?}");
        }
        // One waits already: the third frame more is one too many.
        for _ in 0..3 {
            link.answer(frame).unwrap();
        }
        for _ in 0..3 {
            let next = answers.next().await;
            assert!(matches!(next, Some(Ok(_))), "{next:?}");
        }
        let end = answers.next().await;
        assert!(matches!(end, Some(Err(SocketFailure::Error(ClientError::TooLarge { .. })))), "{end:?}");
        assert!(answers.next().await.is_none());
    }
}
