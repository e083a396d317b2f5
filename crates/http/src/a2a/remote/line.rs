//! The way to an agent elsewhere: its client, made of its card when it is first needed, and the tasks that are being sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use taskreel::peer::{PeerError, PeerErrorKind};
use tokio::sync::watch;

use crate::a2a::client::card::Card;
use crate::a2a::client::error::{A2aError, ErrorKind};
use crate::a2a::client::options::Options;
use crate::a2a::client::work::Client;
use crate::client::error::ClientError;

/// The time for which a task that was being sent is remembered, so that a cancel that comes with it finds the agent's id.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The id that the agent gives a task, once it is known.
pub(crate) type Sending = watch::Receiver<Option<String>>;

/// The way to an agent.
#[derive(Debug)]
pub(crate) struct AgentTransport {
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) options: Options,
    client: tokio::sync::Mutex<Option<Client>>,
    /// The card that was read first.
    card: OnceLock<Card>,
    /// The reason why the card could not be read, the last time that it was tried.
    failure: Mutex<Option<String>>,
    sending: Mutex<HashMap<String, (Instant, Sending)>>,
}

impl AgentTransport {
    pub(crate) fn new(url: &str, name: &str, options: Options, client: Option<Client>) -> Arc<Self> {
        let (url, name) = (url.to_owned(), name.to_owned());
        let card = OnceLock::new();
        if let Some(known) = client.as_ref().and_then(Client::card) {
            card.get_or_init(|| known.clone());
        }
        let client = tokio::sync::Mutex::new(client);
        let (failure, sending) = (Mutex::default(), Mutex::default());
        Arc::new(Self { url, name, options, client, card, failure, sending })
    }

    /// Returns the client of the agent: the card is read if it is not known.
    pub(crate) async fn client(&self) -> Result<Client, A2aError> {
        let mut known = self.client.lock().await;
        if let Some(client) = &*known {
            return Ok(client.clone());
        }
        let found = Client::discover(&self.url, &self.options).await;
        *self.failure() = found.as_ref().err().map(ToString::to_string);
        let client = found?;
        if let Some(card) = client.card() {
            self.card.get_or_init(|| card.clone());
        }
        *known = Some(client.clone());
        Ok(client)
    }

    /// Returns the card that was read first.
    pub(crate) fn card(&self) -> Option<&Card> {
        self.card.get()
    }

    /// Returns the reason why the card could not be read, the last time that it was tried. Ignores poisoning: the text is whole
    /// between any two steps.
    pub(crate) fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the card read again where an error may be due to an agent that has moved or changed.
    pub(crate) async fn record_failure(&self, error: &A2aError) {
        let is_elsewhere =
            matches!(
                error,
                A2aError::Transport(ClientError::Unreachable { .. })
                    | A2aError::Card { .. }
                    | A2aError::Credentials { .. }
            ) || matches!(error.kind(), Some(ErrorKind::VersionNotSupported | ErrorKind::Unauthenticated));
        if is_elsewhere {
            *self.client.lock().await = None;
        }
    }

    /// Notes that a task is being sent, and returns where its id is told.
    pub(crate) fn sends(&self, task_id: &str) -> watch::Sender<Option<String>> {
        let (tell, told) = watch::channel(None);
        let mut sending = self.sending();
        sending.retain(|_, (since, one)| since.elapsed() < REMEMBERED || one.has_changed().is_ok());
        sending.insert(task_id.to_owned(), (Instant::now(), told));
        tell
    }

    /// Returns the agent's id of a task that is or was being sent by this process; `None` if it is not known.
    pub(crate) async fn sent(&self, task_id: &str) -> Option<String> {
        let mut told = self.sending().get(task_id).map(|(_, told)| told.clone())?;
        told.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Ignores poisoning: the map is whole between any two steps.
    fn sending(&self) -> MutexGuard<'_, HashMap<String, (Instant, Sending)>> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a failure, with the agent's name before the words.
    pub(crate) fn failed(&self, kind: PeerErrorKind, words: impl std::fmt::Display) -> PeerError {
        PeerError::new(kind, format!("the agent '{}': {words}", self.name))
    }
}

/// Whether what failed so may be answered if it is asked again a while later.
pub(crate) fn passes(error: &A2aError) -> bool {
    error.is_break()
        || match error {
            A2aError::Transport(ClientError::Closed { .. }) => true,
            A2aError::Transport(ClientError::Status { status, .. }) => {
                status.is_server_error() || status.as_u16() == 408
            }
            _ => false,
        }
}
