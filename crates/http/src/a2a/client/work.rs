//! The client itself.

use std::time::Duration;

use http::Method;
use proto_events::json::{JsonObject, JsonText};

use crate::a2a::client::auth::{self, ShownCredentials};
use crate::a2a::client::call::{AgentQuestion, json, misread, unreadable};
use crate::a2a::client::card::{Card, Interface, OLDER_PLACE, is_protolinks, place_of};
use crate::a2a::client::error::A2aError;
use crate::a2a::client::line::{AgentConnection, pause};
use crate::a2a::client::options::Options;
use crate::a2a::client::request::{ListQuery, SendRequest, TaskPage};
use crate::a2a::client::stream::{EventStream, TaskFollower};
use crate::a2a::model::{Event, Task};
use crate::a2a::ops::operation::A2aOperation;
use crate::a2a::wire::fields::WireFields;
use crate::a2a::wire::read;
use crate::client::error::ClientError;
use crate::client::exchange::{Exchange, origin};
use crate::client::transport;
use crate::limits::A2A_CARD_MAX;

/// A client of one A2A agent, over the way that its card and the settings agree on. Clones share their connections.
///
/// What only reads is asked again where the agent cannot be reached or takes nothing at present; a message is sent again only
/// under a key that the caller set ([`SendRequest::idempotency_key`]), and a cancel never is.
///
/// ```no_run
/// use taskreel_http::a2a::{Client, Message, Options, Part, SendRequest};
///
/// # async fn run() -> Result<(), taskreel_http::a2a::A2aError> {
/// let client = Client::discover("http://127.0.0.1:8000", &Options::new()).await?;
/// let message = Message::user("m1", vec![Part::text("Weather in Oslo?")]);
/// let mut events = client.stream(&SendRequest::new(message)).await?;
/// while let Some(item) = events.next().await {
///     println!("{:?}", item?);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) line: AgentConnection,
    card: Option<Card>,
}

impl Client {
    /// Reads the card of the agent at an address, or at the card's own address (if A2A's usual place has none, at
    /// the one that they had before 0.3), and chooses a way to the agent: of the
    /// interfaces that this client can use and the settings allow, the first one in the card's order, interfaces of 1.0 before
    /// interfaces of 0.3.
    ///
    /// # Errors
    /// [`A2aError::Card`] if the card is not valid or names no way to go; [`A2aError::Credentials`] if it asks for credentials that
    /// are not there; [`A2aError::Transport`] if it cannot be read.
    pub async fn discover(url: &str, options: &Options) -> Result<Self, A2aError> {
        let place = place_of(url);
        let (json, place) = match card_at(&place, options).await {
            Err(A2aError::Transport(ClientError::Status { status, .. }))
                if status.as_u16() == 404 && place != url =>
            {
                older_card(url, place, options).await?
            }
            found => (found?, place),
        };
        Self::of_card(Card::read(&json, &place)?, &place, options)
    }

    /// Returns the JSON at the address of a card, whatever it is.
    ///
    /// # Errors
    /// [`A2aError`] if it cannot be read.
    pub async fn card_at(url: &str, options: &Options) -> Result<JsonText, A2aError> {
        card_at(url, options).await
    }

    /// Returns the client of an agent whose card is known, and the address that it came from.
    ///
    /// # Errors
    /// [`A2aError::Card`] if the settings allow none of its interfaces; [`A2aError::Credentials`] if it asks for credentials that
    /// are not there.
    pub fn of_card(card: Card, card_url: &str, options: &Options) -> Result<Self, A2aError> {
        let home = origin(card_url)?;
        let is_trusted = |one: &Interface| {
            !options.has_secrets() || options.other_hosts || origin(&one.url).is_ok_and(|there| there == home)
        };
        let allowed = card.interfaces.iter().filter(|one| options.fits(one));
        let mut allowed = allowed.peekable();
        let why = if allowed.peek().is_some() {
            "its interfaces are on other hosts, to which the credentials are not shown"
        } else {
            "it names no interface of the binding and the version that were chosen"
        };
        let chosen = allowed.find(|one| is_trusted(one)).cloned();
        let chosen =
            chosen.ok_or_else(|| A2aError::Card { url: card_url.to_owned(), why: why.to_owned() })?;
        // Credentials that were set need no scheme.
        let shown = if options.has_own_secrets() && options.secrets.is_empty() {
            ShownCredentials::default()
        } else {
            auth::shown(&card.json, card_url, &options.secrets)?
        };
        Ok(Self { line: connect(chosen, options, shown)?, card: Some(card) })
    }

    /// Returns the client of an agent at an interface, without its card.
    ///
    /// # Errors
    /// [`A2aError::Transport`] if the address is not valid.
    pub fn at(interface: Interface, options: &Options) -> Result<Self, A2aError> {
        origin(&interface.url)?;
        Ok(Self { line: connect(interface, options, ShownCredentials::default())?, card: None })
    }

    /// Returns the agent's card, where it was read.
    pub fn card(&self) -> Option<&Card> {
        self.card.as_ref()
    }

    /// Returns the way to the agent.
    pub fn interface(&self) -> &Interface {
        &self.line.interface
    }

    /// Sends a message. The answer is the task, or a message alone ([`Event::Task`] or [`Event::Message`]): once the task is
    /// over or waits for its client, unless the request says otherwise.
    ///
    /// # Errors
    /// [`A2aError`]. Without a key, a message whose answer is lost may have been taken.
    pub async fn send(&self, request: &SendRequest) -> Result<Event, A2aError> {
        let json = self.line.ask(&self.sending(A2aOperation::Send, request)).await?;
        match read::event(self.line.interface.form(), &json, "") {
            Ok(event @ (Event::Task(_) | Event::Message(_))) => Ok(event),
            Ok(_) => Err(self.unreadable("it is neither a task nor a message")),
            Err(wrong) => Err(misread(&self.line.interface.url, wrong, &json)),
        }
    }

    /// Sends a message, and returns the events that follow.
    ///
    /// # Errors
    /// [`A2aError`] if the agent refuses it, or it cannot be sent.
    pub async fn stream(&self, request: &SendRequest) -> Result<EventStream, A2aError> {
        self.check_streaming()?;
        let sending = self.sending(A2aOperation::SendStream, request);
        let task = request.task_id().map(str::to_owned);
        let mut follower = TaskFollower::new(self.line.clone(), self.resumes(), Some(sending), task);
        follower.open().await?;
        Ok(EventStream::from_follower(follower))
    }

    /// Returns a task, with this many messages of its history at most.
    ///
    /// # Errors
    /// [`A2aError`].
    pub async fn get(&self, task_id: &str, history_length: Option<u32>) -> Result<Task, A2aError> {
        let mut asked = AgentQuestion::about(A2aOperation::Get, task_id);
        if let Some(length) = history_length {
            asked.params.set("historyLength", JsonText::of_model(&length));
        }
        self.line.read_task(task_id, &self.line.ask(&asked).await?)
    }

    /// Returns a page of the caller's tasks.
    ///
    /// # Errors
    /// [`A2aError`]; in 0.3 JSON-RPC has no such operation.
    pub async fn list(&self, query: &ListQuery) -> Result<TaskPage, A2aError> {
        let form = self.line.interface.form();
        let json = self.line.ask(&AgentQuestion::with(A2aOperation::List, query.params(form))).await?;
        let page = || {
            let fields = WireFields::new(&json, "")?;
            let tasks = fields.items("tasks", |json, at| read::task(form, json, at))?;
            let total = fields.number("totalSize")?.and_then(|total| u64::try_from(total).ok());
            let size = fields.number("pageSize")?.and_then(|size| u64::try_from(size).ok());
            Ok(TaskPage { tasks, next: fields.word("nextPageToken")?, total, size })
        };
        page().map_err(|wrong: crate::a2a::wire::fields::Invalid| self.unreadable(wrong))
    }

    /// Cancels a task, and returns it.
    ///
    /// # Errors
    /// [`A2aError`].
    pub async fn cancel(&self, task_id: &str) -> Result<Task, A2aError> {
        let json = self.line.ask(&AgentQuestion::about(A2aOperation::Cancel, task_id)).await?;
        self.line.read_task(task_id, &json)
    }

    /// Returns the card that the agent keeps for callers that it knows.
    ///
    /// # Errors
    /// [`A2aError`]; an agent without one refuses.
    pub async fn extended_card(&self) -> Result<Card, A2aError> {
        let json = self.line.ask(&AgentQuestion::with(A2aOperation::ExtendedCard, JsonObject::new())).await?;
        Card::read(&json, &self.line.interface.url)
    }

    /// Follows a task that is not over. In 1.0 the first event is the task as it is.
    ///
    /// # Errors
    /// [`A2aError`] if the agent refuses it.
    pub async fn subscribe(&self, task_id: &str) -> Result<EventStream, A2aError> {
        self.check_streaming()?;
        let mut follower =
            TaskFollower::new(self.line.clone(), self.resumes(), None, Some(task_id.to_owned()));
        follower.open().await?;
        Ok(EventStream::from_follower(follower))
    }

    /// Follows a task after a place of an earlier stream ([`EventStream::place`]). Where the agent's streams do not continue
    /// after a place, the first item is a gap.
    ///
    /// # Errors
    /// [`A2aError`] if the agent refuses it.
    pub async fn subscribe_after(&self, task_id: &str, place: &str) -> Result<EventStream, A2aError> {
        self.check_streaming()?;
        let mut follower =
            TaskFollower::new(self.line.clone(), self.resumes(), None, Some(task_id.to_owned()));
        follower.begin_after(place).await?;
        Ok(EventStream::from_follower(follower))
    }

    /// Returns the client with another wait for an answer. They share their connections.
    pub(crate) fn within(&self, timeout: Duration) -> Self {
        let line = AgentConnection { http: self.line.http.clone().timeout(timeout), ..self.line.clone() };
        Self { line, card: self.card.clone() }
    }

    fn sending(&self, operation: A2aOperation, request: &SendRequest) -> AgentQuestion {
        let key = request.key().map(str::to_owned);
        AgentQuestion { key, ..AgentQuestion::with(operation, request.params(self.line.interface.form())) }
    }

    /// Whether the agent says that its streams continue after a place.
    fn resumes(&self) -> bool {
        self.card.as_ref().is_some_and(|card| card.resumes)
    }

    fn check_streaming(&self) -> Result<(), A2aError> {
        match &self.card {
            Some(card) if !card.streaming => {
                Err(A2aError::Request("the agent's card says that it does not stream".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error of an answer that cannot be read.
    pub(crate) fn unreadable(&self, why: impl std::fmt::Display) -> A2aError {
        unreadable(&self.line.interface.url, why)
    }
}

/// Returns the client over HTTP with these settings.
pub(crate) fn http(options: &Options) -> Result<transport::Client, ClientError> {
    let http = if options.is_verified { transport::Client::new() } else { transport::Client::unverified() };
    let http = http?.timeout(options.timeout);
    Ok(match &options.credentials {
        Some(credentials) => http.credentials(credentials.clone()),
        None => http,
    })
}

fn connect(
    interface: Interface,
    options: &Options,
    shown: ShownCredentials,
) -> Result<AgentConnection, A2aError> {
    let http = http(options)?.answer_max(options.answer_max);
    let (headers, attempts) = (options.headers.clone(), options.attempts);
    let mut tap = options.tap();
    tap.query.0.extend(shown.query.iter().cloned());
    Ok(AgentConnection { http, interface, headers, shown, attempts, tap, signaled: options.signaled.clone() })
}

/// Returns the card at the older place of cards, and that place.
///
/// # Errors
/// The answer of an address without a card.
async fn older_card(url: &str, place: String, options: &Options) -> Result<(JsonText, String), A2aError> {
    let older = format!("{}{OLDER_PLACE}", url.trim_end_matches('/'));
    match card_at(&older, options).await {
        Ok(json) if !is_protolinks(&json) => Ok((json, older)),
        _ => Err(ClientError::of_status(&place, http::StatusCode::NOT_FOUND, &[]).into()),
    }
}

/// Returns the card at its address.
pub(crate) async fn card_at(place: &str, options: &Options) -> Result<JsonText, A2aError> {
    let http = http(options)?.answer_max(A2A_CARD_MAX.min(options.answer_max));
    let headers = options.headers.clone();
    let (url, query, tap) = (place.to_owned(), Vec::new(), options.tap());
    let exchange = Exchange { method: Method::GET, url, query, headers, body: None };
    let mut failed = 0;
    loop {
        let answered = tap.exchange(&http, &exchange).await.and_then(|answered| {
            let is_card = answered.status.is_success();
            if is_card {
                Ok(answered)
            } else {
                Err(ClientError::of_status(place, answered.status, &answered.body).into())
            }
        });
        failed += 1;
        match answered {
            Err(error) if error.is_passing() && failed < options.attempts => {
                tokio::time::sleep(pause(failed)).await;
            }
            done => return json(place, &done?.body),
        }
    }
}
