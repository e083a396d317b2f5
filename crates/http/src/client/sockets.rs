//! The sockets of a client: one for each agent, and the handshake of a new one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use proto_events::json::JsonObject;
use reqwest::{Response, Url, redirect};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::client::credentials::{Credentials, shown};
use crate::client::error::ClientError;
use crate::client::socket::{Answers, Socket, SocketFailure};
use crate::limits::SOCKET_BUFFER;

/// The most bytes of the body of a refused handshake that are read.
const REFUSAL_MAX: usize = 16 * 1024;

/// The number of sockets that are tried where each ends before the request is sent.
const TRIES: u32 = 3;

/// The sockets of a client. Clones are the same ones.
#[derive(Debug, Clone)]
pub(crate) struct Sockets {
    http: reqwest::Client,
    slots: Arc<Mutex<HashMap<SocketPurpose, Slot>>>,
}

/// The place of a socket. It is locked while one is connected, so that requests that come at once share it.
type Slot = Arc<tokio::sync::Mutex<Option<Socket>>>;

/// The agent and the purpose of a socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SocketPurpose {
    /// The address of the handshake.
    pub(crate) url: Url,
    /// Whether requests are sent that must not wait for others: Protolink carries out the requests of one socket one after another,
    /// and a cancel would wait for the very task that it cancels.
    pub(crate) is_urgent: bool,
}

/// A request for a socket, as a frame.
#[derive(Debug)]
pub(crate) struct FramedRequest {
    pub(crate) id: String,
    pub(crate) frame: String,
    pub(crate) is_stream: bool,
}

impl Sockets {
    /// # Errors
    /// The reason why HTTP cannot be set up.
    pub(crate) fn new() -> Result<Self, reqwest::Error> {
        let http = taskreel::http_client::client_for_sockets().redirect(redirect::Policy::none()).build()?;
        Ok(Self { http, slots: Arc::default() })
    }

    /// Returns sockets of the same settings, none of which is connected.
    pub(crate) fn anew(&self) -> Self {
        Self { http: self.http.clone(), slots: Arc::default() }
    }

    /// Sends a request to an agent, and returns its first answer with those that follow. `base` is the agent's address for
    /// errors.
    pub(crate) async fn ask(
        &self,
        base: &str,
        line: &SocketPurpose,
        credentials: Option<&Credentials>,
        limit: usize,
        request: &FramedRequest,
    ) -> Result<(JsonObject, Answers), ClientError> {
        let FramedRequest { id, frame, is_stream } = request;
        for _ in 0..TRIES {
            let socket = self.socket(base, line, credentials, limit).await?;
            let failure = match socket.ask(id.clone(), frame.clone(), *is_stream).await {
                Err(failure) => failure,
                Ok(mut answers) => match answers.next().await {
                    Some(Ok(first)) => return Ok((first, answers)),
                    Some(Err(failure)) => failure,
                    // Its task was cut off with the runtime that carried it.
                    None => return Err(closed(base)),
                },
            };
            // The socket ended meanwhile, and the request was not sent.
            let SocketFailure::Error(error) = failure else { continue };
            return Err(error);
        }
        Err(closed(base))
    }

    /// Returns the socket of a line: the one that is there, or a new one.
    async fn socket(
        &self,
        base: &str,
        line: &SocketPurpose,
        credentials: Option<&Credentials>,
        limit: usize,
    ) -> Result<Socket, ClientError> {
        let slot = self.slot(line);
        let mut held = slot.lock().await;
        if let Some(socket) = held.as_ref().filter(|socket| socket.is_open()) {
            return Ok(socket.clone());
        }
        let connected = self.connect(base, &line.url, credentials, limit).await?;
        *held = Some(connected.clone());
        Ok(connected)
    }

    fn slot(&self, line: &SocketPurpose) -> Slot {
        let mut slots = self.slots();
        // Those that nobody uses and that are closed.
        slots.retain(|_, slot| {
            Arc::strong_count(slot) > 1
                || slot.try_lock().is_ok_and(|held| held.as_ref().is_some_and(Socket::is_open))
        });
        Arc::clone(slots.entry(line.clone()).or_default())
    }

    /// Ignores poisoning: the table is whole between any two steps.
    fn slots(&self) -> MutexGuard<'_, HashMap<SocketPurpose, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(
        &self,
        base: &str,
        url: &Url,
        credentials: Option<&Credentials>,
        limit: usize,
    ) -> Result<Socket, ClientError> {
        let key = generate_key();
        let request = self.http.get(url.clone()).header(CONNECTION, "Upgrade").header(UPGRADE, "websocket");
        let request = request.header(SEC_WEBSOCKET_VERSION, "13").header(SEC_WEBSOCKET_KEY, &key);
        let response = shown(credentials, request).send().await;
        let response = response.map_err(|error| ClientError::of_broken(base, error))?;
        let status = response.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            let why = refusal(response).await;
            if status.is_success() {
                let why = "it answers requests and opens no WebSocket".to_owned();
                return Err(ClientError::Protocol { url: base.to_owned(), why });
            }
            return Err(ClientError::of_status(base, status, &why));
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accepted.is_none_or(|accepted| *accepted != derive_accept_key(key.as_bytes())) {
            let why = "the handshake of the WebSocket was not answered".to_owned();
            return Err(ClientError::Protocol { url: base.to_owned(), why });
        }
        let connection = response.upgrade().await.map_err(|error| ClientError::of_broken(base, error))?;
        let config = WebSocketConfig::default()
            .read_buffer_size(SOCKET_BUFFER)
            .write_buffer_size(0)
            .max_message_size(Some(limit))
            .max_frame_size(Some(limit));
        let socket = WebSocketStream::from_raw_socket(connection, Role::Client, Some(config)).await;
        Ok(Socket::spawn(socket, base, limit))
    }
}

fn closed(base: &str) -> ClientError {
    ClientError::Closed { url: base.to_owned(), why: "the socket has ended".to_owned() }
}

/// Returns the beginning of the body of a refused handshake.
async fn refusal(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() > REFUSAL_MAX {
            body.truncate(REFUSAL_MAX);
            break;
        }
    }
    body
}
