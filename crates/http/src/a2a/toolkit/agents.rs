//! The agents that are known here, by ids that the host chose. Their cards are read when they are first needed, all at once and a
//! bounded number at a time; one that fails keeps its error, is tried again a moment later, and disturbs no other.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto_events::json::JsonValue as Value;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::a2a::toolkit::agent_texts::{self, AgentDetail};
use crate::a2a::toolkit::config::{self, Listed};
use crate::a2a::toolkit::error::{AgentsError, SessionError};
use crate::a2a::toolkit::way::{AgentAt, KnownAgent, OverHttp, ToolkitTransport};
use crate::a2a::toolkit::words::{beginning, told};

/// The longest wait for a card.
const CARD_TIMEOUT: Duration = Duration::from_secs(15);

/// The cards that are read at once.
const CARDS_AT_ONCE: usize = 32;

/// The pause before a card that could not be read is tried again; it doubles with each failure.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest pause before a card is tried again.
const RETRY_LONGEST: Duration = Duration::from_secs(60);

/// The most characters of an error that is kept of an agent.
const ERROR_MAX: usize = 1_000;

/// Agents by their ids. Clones share the cards.
///
/// ```
/// use taskreel_http::a2a::A2aAgents;
///
/// let agents = A2aAgents::new()
///     .agent("weather", "http://127.0.0.1:8000")
///     .agent_with("billing", "https://billing.example.com/agent-card.json", [("X-API-Key", "k")]);
/// ```
#[derive(Clone)]
pub struct A2aAgents {
    shared: Arc<AgentsState>,
}

struct AgentsState {
    settings: ToolkitSettings,
    entries: Mutex<Vec<AgentEntry>>,
    places: Arc<Semaphore>,
}

#[derive(Clone)]
struct ToolkitSettings {
    way: Arc<dyn ToolkitTransport>,
    timeout: Duration,
}

#[derive(Clone)]
struct AgentEntry {
    id: String,
    at: Result<AgentAt, String>,
    state: State,
    /// The last failure, which stays where a card given later is read.
    error: Option<String>,
    failures: u32,
}

#[derive(Clone)]
enum State {
    Unread,
    Reading(watch::Receiver<()>),
    Known(Arc<KnownAgent>),
    /// Reading failed, and is not tried again before this time.
    Failed(Instant),
}

impl fmt::Debug for A2aAgents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<String> = self.lock().iter().map(|entry| entry.id.clone()).collect();
        f.debug_struct("A2aAgents").field("ids", &ids).finish_non_exhaustive()
    }
}

impl Default for A2aAgents {
    fn default() -> Self {
        Self::new()
    }
}

impl A2aAgents {
    /// Returns an empty registry.
    pub fn new() -> Self {
        Self::with_entries(Vec::new(), ToolkitSettings { way: Arc::new(OverHttp), timeout: CARD_TIMEOUT })
    }

    /// Reads a list of agents: an object with an object for each id, which has `url` and, if need be, `custom_headers` (or
    /// `customHeaders`). An agent that is written wrongly is kept with its error.
    ///
    /// # Errors
    /// [`AgentsError::Json`] if it is not an object.
    pub fn from_json(list: &Value) -> Result<Self, AgentsError> {
        Ok(Self::new().with(config::read(list)?))
    }

    /// Reads a list of agents from a file, once.
    ///
    /// # Errors
    /// [`AgentsError`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, AgentsError> {
        Ok(Self::new().with(config::read_file(path.as_ref())?))
    }

    fn with_entries(entries: Vec<AgentEntry>, settings: ToolkitSettings) -> Self {
        let places = Arc::new(Semaphore::new(CARDS_AT_ONCE));
        Self { shared: Arc::new(AgentsState { settings, entries: Mutex::new(entries), places }) }
    }

    /// Returns the registry with other agents besides, whose cards are not read yet.
    fn with(self, listed: Vec<Listed>) -> Self {
        let mut entries = self.lock().clone();
        for (id, at) in listed {
            entries.retain(|entry| entry.id != id);
            entries.push(AgentEntry { id, at, state: State::Unread, error: None, failures: 0 });
        }
        Self::with_entries(entries, self.shared.settings.clone())
    }

    /// Adds an agent by the address of its card, or of its host.
    #[must_use]
    pub fn agent(self, id: &str, url: &str) -> Self {
        self.agent_with(id, url, [])
    }

    /// Adds an agent to which further headers are sent, such as that of an API key.
    #[must_use]
    pub fn agent_with<'a>(
        self,
        id: &str,
        url: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let at = agent_at(url, headers);
        self.with(vec![(id.to_owned(), Ok(at))])
    }

    /// Sends the headers of an agent to the hosts that its card names, too. By default they go to the host of the card alone.
    #[must_use]
    pub fn headers_for_other_hosts(self, id: &str) -> Self {
        self.each(|entry| {
            if let (true, Ok(at)) = (entry.id == id, &mut entry.at) {
                at.other_hosts = true;
            }
        })
    }

    /// Sets the longest wait for a card, 15 s by default.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        let settings = ToolkitSettings { timeout, ..self.shared.settings.clone() };
        Self::with_entries(self.lock().clone(), settings)
    }

    /// Reads cards without the agents' headers, as a2a-utils 0.2.0 did.
    pub(crate) fn cards_without_headers(self) -> Self {
        self.each(|entry| {
            if let Ok(at) = &mut entry.at {
                at.card_headers = false;
            }
        })
    }

    /// Goes another way to the agents.
    pub(crate) fn by(self, way: Arc<dyn ToolkitTransport>) -> Self {
        let settings = ToolkitSettings { way, ..self.shared.settings.clone() };
        Self::with_entries(self.lock().clone(), settings)
    }

    fn each(self, change: impl Fn(&mut AgentEntry)) -> Self {
        let mut entries = self.lock().clone();
        for entry in &mut entries {
            change(entry);
            // A card that was read is known with the settings of before.
            entry.state = State::Unread;
        }
        Self::with_entries(entries, self.shared.settings.clone())
    }

    pub(crate) fn transport(&self) -> &Arc<dyn ToolkitTransport> {
        &self.shared.settings.way
    }

    /// Locks the agents. A poisoned lock stays usable: no panic leaves an agent half changed.
    fn lock(&self) -> MutexGuard<'_, Vec<AgentEntry>> {
        self.shared.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an agent whose card is read now.
    ///
    /// # Errors
    /// [`SessionError::AlreadyRegistered`] if an agent with a card has the id; [`SessionError::Agent`] if the card cannot be
    /// read, and then the agent is not added.
    pub async fn add_agent<'a>(
        &self,
        id: &str,
        url: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), SessionError> {
        let mut at = agent_at(url, headers);
        self.add(id, &mut at).await
    }

    pub(crate) async fn add(&self, id: &str, at: &mut AgentAt) -> Result<(), SessionError> {
        let known = |entry: &AgentEntry| entry.id == id && matches!(entry.state, State::Known(_));
        let taken = || SessionError::AlreadyRegistered(id.to_owned());
        self.read_all().await;
        if self.lock().iter().any(known) {
            return Err(taken());
        }
        let ToolkitSettings { way, timeout } = &self.shared.settings;
        let card = way.card(at.clone(), *timeout).await?;
        let mut entries = self.lock();
        if entries.iter().any(known) {
            return Err(taken());
        }
        let error = entries.iter().find(|entry| entry.id == id).and_then(|entry| entry.error.clone());
        entries.retain(|entry| entry.id != id);
        let state = State::Known(Arc::new(KnownAgent::new(card, at.clone())));
        entries.push(AgentEntry { id: id.to_owned(), at: Ok(at.clone()), state, error, failures: 0 });
        Ok(())
    }

    /// Returns an agent, once its card is read; `None` if no agent has this id, or its card cannot be read. Other agents
    /// are not waited for.
    pub async fn get_agent(&self, id: &str) -> Option<Arc<KnownAgent>> {
        self.start_reading();
        let reading = self.lock().iter().find(|entry| entry.id == id).and_then(AgentEntry::reading);
        if let Some(mut reading) = reading {
            // It ends with an error, once the card is read or has failed.
            let _ended = reading.changed().await;
        }
        self.lock().iter().find(|entry| entry.id == id).and_then(AgentEntry::known)
    }

    /// Returns the agents whose cards were read, in the order in which they were added.
    pub async fn get_agents(&self) -> Vec<(String, Arc<KnownAgent>)> {
        self.read_all().await;
        let entries = self.lock();
        entries.iter().filter_map(|entry| Some((entry.id.clone(), entry.known()?))).collect()
    }

    /// Returns the ids of the agents whose cards were read, sorted.
    pub(crate) async fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.get_agents().await.into_iter().map(|(id, _)| id).collect();
        ids.sort();
        ids
    }

    /// Returns the ids of the agents whose cards could not be read, in the order in which they were added, each with its error. One
    /// whose card was read later has none, unless it was added again.
    pub fn initialization_errors(&self) -> Vec<(String, String)> {
        let is_reading =
            |entry: &AgentEntry| matches!(entry.state, State::Reading(_)) && entry.error.is_none();
        let entries = self.lock();
        let late = "TimeoutError: the card is still awaited".to_owned();
        let error =
            |entry: &AgentEntry| entry.error.clone().or_else(|| is_reading(entry).then(|| late.clone()));
        entries.iter().filter_map(|entry| Some((entry.id.clone(), error(entry)?))).collect()
    }

    /// Returns an agent as a model is shown it; `None` if it is not known.
    pub async fn get_agent_for_llm(&self, id: &str, detail: AgentDetail) -> Option<Value> {
        let agent = self.get_agent(id).await?;
        Some(agent_texts::agent(agent.card(), detail, 1))
    }

    /// Returns the agents as a model is shown them, by their ids, sorted.
    pub async fn get_agents_for_llm(&self, detail: AgentDetail) -> Value {
        let mut agents = self.get_agents().await;
        agents.sort_by(|(one, _), (other, _)| one.cmp(other));
        let of = agents.len();
        let shown =
            agents.iter().map(|(id, agent)| (id.clone(), agent_texts::agent(agent.card(), detail, of)));
        Value::from(shown.collect::<proto_events::json::JsonMap>())
    }

    /// Reads the cards that are not read, and waits for them within a bound.
    async fn read_all(&self) {
        self.start_reading();
        let until = Instant::now() + self.shared.settings.timeout.saturating_mul(2);
        let reading: Vec<_> = self.lock().iter().filter_map(AgentEntry::reading).collect();
        for mut reading in reading {
            let _ended = timeout_at(until, reading.changed()).await;
        }
    }

    /// Begins to read the cards that are not read yet, and those that failed a while ago.
    fn start_reading(&self) {
        let now = Instant::now();
        for entry in self.lock().iter_mut() {
            let is_due = match &entry.state {
                State::Unread => true,
                State::Failed(until) => *until <= now,
                // A reader that was dropped, with the runtime on which it ran, has left nothing.
                State::Reading(reading) => reading.has_changed().is_err(),
                State::Known(_) => false,
            };
            match &entry.at {
                Err(error) => entry.error = Some(error.clone()),
                Ok(at) if is_due => {
                    let (reader, reading) = watch::channel(());
                    entry.state = State::Reading(reading);
                    tokio::spawn(read(Arc::clone(&self.shared), entry.id.clone(), at.clone(), reader));
                }
                Ok(_) => {}
            }
        }
    }
}

impl AgentEntry {
    fn known(&self) -> Option<Arc<KnownAgent>> {
        if let State::Known(agent) = &self.state { Some(Arc::clone(agent)) } else { None }
    }

    fn reading(&self) -> Option<watch::Receiver<()>> {
        if let State::Reading(reading) = &self.state { Some(reading.clone()) } else { None }
    }
}

fn agent_at<'a>(url: &str, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> AgentAt {
    let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let headers = headers.into_iter().map(pair).collect();
    AgentAt { url: url.to_owned(), headers, other_hosts: false, card_headers: true }
}

/// Reads a card and notes it. Dropping the reader tells those that wait.
async fn read(shared: Arc<AgentsState>, id: String, at: AgentAt, reader: watch::Sender<()>) {
    let Ok(_place) = shared.places.acquire().await else { return };
    let ToolkitSettings { way, timeout } = shared.settings.clone();
    let card = way.card(at.clone(), timeout).await;
    let mut entries = shared.entries.lock().unwrap_or_else(PoisonError::into_inner);
    let is_ours =
        |entry: &&mut AgentEntry| entry.id == id && entry.at.as_ref().is_ok_and(|known| *known == at);
    if let Some(entry) = entries.iter_mut().find(is_ours)
        && matches!(entry.state, State::Reading(_))
    {
        match card {
            Ok(card) => {
                entry.state = State::Known(Arc::new(KnownAgent::new(card, at)));
                entry.error = None;
            }
            Err(error) => {
                let told = told(&error);
                tracing::warn!(agent = %id, error = %told.text, "the card of an agent could not be read");
                entry.error = Some(beginning(&format!("{}: {}", told.kind, told.text), ERROR_MAX).to_owned());
                let pause = RETRY_FIRST.saturating_mul(1 << entry.failures.min(10)).min(RETRY_LONGEST);
                entry.failures += 1;
                entry.state = State::Failed(Instant::now() + pause);
            }
        }
    }
    drop(entries);
    drop(reader);
}
