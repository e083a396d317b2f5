//! The agent elsewhere itself.

use std::sync::Arc;
use std::time::Duration;

use proto_events::json;
use proto_events::json::{JsonText, JsonValue};
use proto_events::model::AgentCard;
use taskreel::BoxFuture;
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind, PeerFound, RecalledTask};
use taskreel::tool::ToolPolicy;

use crate::a2a::client::card::{Card, Skill, place_of};
use crate::a2a::client::error::A2aError;
use crate::a2a::client::options::Options;
use crate::a2a::client::work::Client;
use crate::a2a::remote::line::AgentTransport;
use crate::a2a::remote::work::{carried_out, found, recalled};
use crate::limits::A2A_TASK_TIMEOUT;

/// An A2A agent elsewhere, for [`Builder::peer`](taskreel::Builder::peer): a model of the system may ask it, and so may tools
/// and handlers.
///
/// A question is a recorded call. Its intent, with the whole task, is on disk before anything is sent; the id that the agent
/// gives the task is on disk as soon as it is known. From then on nothing is sent again: after a lost connection, a crash or a
/// restart the next attempt takes the agent's task up. Where the connection is lost before the id is known, the agent is asked
/// (mode *reconcile*): a server that declares `urn:taskreel:a2a:once:v1`, as ours does, gets the message again under the same
/// `Idempotency-Key` and answers with the task that it has; any other is asked for the tasks of the question's context. If it
/// lists none, the outcome of the call is unknown, and a person decides.
///
/// What the agent asks (`input-required`, `auth-required`) the person is asked who gave the task that asked, and the answer
/// goes to the agent's task. A canceled task cancels that of the agent.
///
/// ```no_run
/// use taskreel::System;
/// use taskreel_http::a2a::Remote;
///
/// # async fn run() -> Result<(), taskreel::Error> {
/// let weather = Remote::at("https://weather.example").named("weather");
/// let system = System::builder("./log").peer(weather).start().await?;
/// # system.shutdown().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Remote {
    url: String,
    name: String,
    description: Option<String>,
    options: Options,
    policy: ToolPolicy,
    /// The client that was made of the card, where it was read before.
    known: Option<Client>,
    way: Arc<AgentTransport>,
}

impl Remote {
    /// Returns the agent at an address, or at the address of its card. Its card is read when the system starts, which waits for it
    /// a few seconds, and again with each question until it is there ([`Remote::card_failure`]): the card's description and
    /// skills are shown to models. The agent's name is made of the address unless [`Remote::named`] sets one.
    pub fn at(url: &str) -> Self {
        let name = name_in(url);
        let options = Options::new();
        let way = AgentTransport::new(url, &name, options.clone(), None);
        let policy = ToolPolicy::reconcile_peer().timeout(A2A_TASK_TIMEOUT);
        Self { url: url.to_owned(), name, description: None, options, policy, known: None, way }
    }

    /// Reads the card of the agent at an address, and returns the agent with the name, the description and the skills that
    /// stand there.
    ///
    /// # Errors
    /// [`A2aError`], as of [`Client::discover`].
    pub async fn discover(url: &str, options: &Options) -> Result<Self, A2aError> {
        Ok(Self::with_client(Client::discover(url, options).await?, url, options))
    }

    /// Returns the agent of a card, and the address that it came from.
    ///
    /// # Errors
    /// [`A2aError::Card`] if the settings allow none of its interfaces.
    pub fn of_card(card: Card, card_url: &str, options: &Options) -> Result<Self, A2aError> {
        let client = Client::of_card(card, &place_of(card_url), options)?;
        Ok(Self::with_client(client, card_url, options))
    }

    fn with_client(client: Client, url: &str, options: &Options) -> Self {
        let base = Self::at(url);
        let name = client.card().map(|card| card.name.trim().to_owned()).filter(|name| !name.is_empty());
        Self {
            name: name.unwrap_or_else(|| base.name.clone()),
            options: options.clone(),
            known: Some(client),
            ..base
        }
        .made_anew()
    }

    /// Sets the name by which a model asks the agent. It is part of the log: keep it from one start to the next.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }.made_anew()
    }

    /// Sets the description that models are shown; by default it is the card's.
    #[must_use]
    pub fn described(self, text: &str) -> Self {
        Self { description: Some(text.to_owned()), ..self }
    }

    /// Sets how the agent is reached: credentials, headers, binding, version and limits.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options, known: None, ..self }.made_anew()
    }

    /// Sets the longest wait of one attempt for the end of the agent's task, one hour by default. An attempt that is over takes the
    /// task up again, a few times; then the call fails, and the agent's task is canceled.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { policy: self.policy.clone().timeout(timeout), ..self }
    }

    /// Replaces the policy, for example to set a rate limit or a deadline.
    #[must_use]
    pub fn with_policy(self, policy: ToolPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Returns the card, once it was read.
    pub fn known_card(&self) -> Option<&Card> {
        self.way.card()
    }

    /// Returns the reason why the card could not be read, if it could not be the last time that it was tried. It is tried when
    /// the system starts, and again with each question until it is there.
    pub fn card_failure(&self) -> Option<String> {
        self.way.failure().clone()
    }

    fn made_anew(self) -> Self {
        let way = AgentTransport::new(&self.url, &self.name, self.options.clone(), self.known.clone());
        Self { way, ..self }
    }
}

/// Returns a name made of an address: its last step, or its host and port.
fn name_in(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let mut steps = rest.split('/').filter(|step| !step.is_empty());
    let host = steps.next().unwrap_or("agent");
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let last = steps.take_while(|step| *step != ".well-known").filter(|step| !is_file(step)).last();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let name: String = last.unwrap_or(host).chars().map(|one| if plain(one) { one } else { '-' }).collect();
    name.chars().take(100).collect()
}

/// Whether a step of a path is the file of a card.
fn is_file(step: &str) -> bool {
    std::path::Path::new(step).extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
}

/// Returns an agent's skills in the form in which models are shown them.
fn shown(name: &str, description: &str, url: &str, skills: &[Skill]) -> Option<AgentCard> {
    let skills: Vec<JsonValue> = skills
        .iter()
        .map(|skill| json!({"id": skill.id.clone(), "description": skill.description.clone(), "tags": skill.tags.clone()}))
        .collect();
    let card = json!({"name": name, "description": description, "url": url, "skills": skills});
    AgentCard::from_json(&JsonText::from(card)).ok()
}

impl Peer for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        let card = || self.known_card().map(|card| card.description.as_str());
        self.description.as_deref().or_else(card).unwrap_or_default()
    }

    fn skills(&self) -> Vec<String> {
        let skills = self.known_card().map(|card| card.skills.iter());
        skills.into_iter().flatten().map(|skill| skill.id.clone()).collect()
    }

    fn card(&self) -> Option<AgentCard> {
        let card = self.known_card()?;
        shown(&self.name, self.description(), &self.url, &card.skills)
    }

    fn prepare(&self) -> BoxFuture<'static, Result<(), PeerError>> {
        let way = Arc::clone(&self.way);
        Box::pin(async move {
            let read = way.client().await;
            read.map(drop).map_err(|error| way.failed(PeerErrorKind::Unreachable, error))
        })
    }

    fn policy(&self) -> ToolPolicy {
        self.policy.clone()
    }

    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        Box::pin(carried_out(Arc::clone(&self.way), delegation))
    }

    fn cancel(&self, task_id: &str, reason: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        let mut order = RecalledTask::new(task_id, "");
        reason.clone_into(&mut order.reason);
        self.recall(order)
    }

    fn recall(&self, order: RecalledTask) -> BoxFuture<'static, Result<(), PeerError>> {
        Box::pin(recalled(Arc::clone(&self.way), order))
    }

    fn find(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerFound, PeerError>> {
        Box::pin(found(Arc::clone(&self.way), delegation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_of_an_address() {
        for (url, name) in [
            ("http://127.0.0.1:8000", "127.0.0.1-8000"),
            ("https://h/agents/weather/", "weather"),
            ("https://h/agents/weather/.well-known/agent-card.json", "weather"),
            ("https://u:secret@h/card.json?x=1", "h"),
            ("", "agent"),
        ] {
            assert_eq!(name_in(url), name, "{url}");
        }
    }
}
