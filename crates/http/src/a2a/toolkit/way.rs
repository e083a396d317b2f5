//! The way from the toolkit to agents: the client of A2A. Tests put a script in its place.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use taskreel::BoxFuture;

use crate::a2a::client::card::Card;
use crate::a2a::client::error::A2aError;
use crate::a2a::client::options::Options;
use crate::a2a::client::request::{ListQuery, SendRequest};
use crate::a2a::client::stream::StreamItem;
use crate::a2a::client::work::{Client, card_at};
use crate::a2a::model::{Event, Task};

/// The shortest time that an answer over HTTP is waited for: with less, the answer to a message that was taken would be lost.
const LEAST_WAIT: Duration = Duration::from_secs(5);

/// The messages of a task's history among which one is looked for.
const HISTORY_MAX: u32 = 100;

/// The address of an agent's card, and what is shown there.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AgentAt {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    /// Whether the headers are sent to other hosts than that of the card.
    pub(crate) other_hosts: bool,
    /// Whether the headers are sent when the card is read.
    pub(crate) card_headers: bool,
}

impl fmt::Debug for AgentAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentAt").field("url", &self.url).finish_non_exhaustive()
    }
}

impl AgentAt {
    fn options(&self, timeout: Duration, shows_headers: bool) -> Result<Options, A2aError> {
        let mut options = Options::new().timeout(timeout.max(LEAST_WAIT));
        for (name, value) in self.headers.iter().filter(|_| shows_headers) {
            options = options.header(name, value)?;
        }
        Ok(if self.other_hosts { options.credentials_for_other_hosts() } else { options })
    }

    /// Returns the address of the card: the one that is named, or the usual place on a host that is named alone.
    fn card_url(&self) -> String {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        if rest.trim_end_matches('/').contains(['/', '?', '#']) {
            self.url.clone()
        } else {
            format!("{}/.well-known/agent-card.json", self.url.trim_end_matches('/'))
        }
    }
}

/// An agent whose card was read.
pub struct KnownAgent {
    pub(crate) card: Card,
    pub(crate) at: AgentAt,
    client: OnceLock<Client>,
}

impl fmt::Debug for KnownAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownAgent").field("at", &self.at).finish_non_exhaustive()
    }
}

impl KnownAgent {
    pub(crate) fn new(card: Card, at: AgentAt) -> Self {
        Self { card, at, client: OnceLock::new() }
    }

    /// Returns the card.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Returns the further headers of requests to the agent. They are secrets: nothing that a model reads has them.
    pub fn headers(&self) -> &[(String, String)] {
        &self.at.headers
    }

    /// Whether the agent carries out once what comes twice under one key: our servers do.
    pub(crate) fn takes_keys(&self) -> bool {
        self.card.resumes
    }

    /// Returns a client, which waits this long for each answer.
    fn client(&self, timeout: Duration) -> Result<Client, A2aError> {
        let client = if let Some(client) = self.client.get() {
            client
        } else {
            let options = self.at.options(timeout, true)?;
            let client = Client::of_card(self.card.clone(), &self.at.card_url(), &options)?;
            self.client.get_or_init(|| client)
        };
        Ok(client.within(timeout.max(LEAST_WAIT)))
    }
}

/// The events of a task.
pub(crate) type Followed = BoxStream<'static, Result<Event, A2aError>>;

/// The answer to a request.
pub(crate) type Asked<T> = BoxFuture<'static, Result<T, A2aError>>;

/// A way to agents.
pub(crate) trait ToolkitTransport: Send + Sync + 'static {
    /// Reads a card.
    fn card(&self, at: AgentAt, timeout: Duration) -> Asked<Card>;

    /// Sends a message.
    fn send(&self, agent: &KnownAgent, request: SendRequest, timeout: Duration) -> Asked<Event>;

    /// Returns a task.
    fn get(&self, agent: &KnownAgent, task_id: &str, timeout: Duration) -> Asked<Task>;

    /// Follows a task.
    fn follow(&self, agent: &KnownAgent, task_id: &str, timeout: Duration) -> Asked<Followed>;

    /// Has an agent stop its work on a task.
    fn cancel(&self, agent: &KnownAgent, task_id: &str, timeout: Duration) -> Asked<Task>;

    /// Returns the tasks of a context, with their history.
    fn of_context(&self, agent: &KnownAgent, context_id: &str, timeout: Duration) -> Asked<Vec<Task>>;
}

/// The client.
#[derive(Debug)]
pub(crate) struct OverHttp;

impl ToolkitTransport for OverHttp {
    fn card(&self, at: AgentAt, timeout: Duration) -> Asked<Card> {
        Box::pin(async move {
            let place = at.card_url();
            let json = card_at(&place, &at.options(timeout, at.card_headers)?).await?;
            Card::read(&json, &place)
        })
    }

    fn send(&self, agent: &KnownAgent, request: SendRequest, timeout: Duration) -> Asked<Event> {
        let client = agent.client(timeout);
        Box::pin(async move { client?.send(&request).await })
    }

    fn get(&self, agent: &KnownAgent, task_id: &str, timeout: Duration) -> Asked<Task> {
        let (client, task_id) = (agent.client(timeout), task_id.to_owned());
        Box::pin(async move { client?.get(&task_id, None).await })
    }

    fn follow(&self, agent: &KnownAgent, task_id: &str, timeout: Duration) -> Asked<Followed> {
        let (client, task_id) = (agent.client(timeout), task_id.to_owned());
        Box::pin(async move {
            let items = client?.subscribe(&task_id).await?;
            let event = |item| match item {
                StreamItem::Event(event) => event,
                StreamItem::Gap(gap) => Event::Task(Box::new(gap.task)),
            };
            Ok(items.map(move |item| item.map(event)).boxed())
        })
    }

    fn cancel(&self, agent: &KnownAgent, task_id: &str, timeout: Duration) -> Asked<Task> {
        let (client, task_id) = (agent.client(timeout), task_id.to_owned());
        Box::pin(async move { client?.cancel(&task_id).await })
    }

    fn of_context(&self, agent: &KnownAgent, context_id: &str, timeout: Duration) -> Asked<Vec<Task>> {
        let client = agent.client(timeout);
        let query = ListQuery::new().context(context_id).history_length(HISTORY_MAX);
        Box::pin(async move { Ok(client?.list(&query).await?.tasks) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_the_card_unless_it_is_a_host_alone() {
        let place = |url: &str| {
            let at =
                AgentAt { url: url.to_owned(), headers: Vec::new(), other_hosts: false, card_headers: true };
            at.card_url()
        };
        for host in ["http://h:8", "http://h:8/"] {
            assert_eq!(place(host), "http://h:8/.well-known/agent-card.json");
        }
        for whole in ["https://h/a/card.json", "https://h/agents/7", "https://h/?agent=7"] {
            assert_eq!(place(whole), whole);
        }
    }
}
