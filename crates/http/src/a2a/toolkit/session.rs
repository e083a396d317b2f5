//! A session with agents: a message is sent, and its task waited for and kept.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proto_events::id::Mint as _;
use proto_events::json::JsonText;
use taskreel::Ports;
use taskreel::files::FileStore;

use crate::a2a::client::error::A2aError;
use crate::a2a::model::{Content, Message, Part, Task};
use crate::a2a::toolkit::agents::A2aAgents;
use crate::a2a::toolkit::error::{SessionError, check_id, check_message};
use crate::a2a::toolkit::file_copies::{self, FileCopies};
use crate::a2a::toolkit::monitor::{Monitor, Waited};
use crate::a2a::toolkit::store::{InMemoryTaskStore, KeptTask, SentMessage, TaskStore, TaskStoreError};
use crate::a2a::toolkit::uploads;
use crate::a2a::toolkit::way::KnownAgent;
use crate::a2a::toolkit::words::quoted;

/// The time for which a message's task is waited for, and a task that is asked for.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The pause between two questions for a task.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// A session with the agents of a registry. Clones share it.
#[derive(Clone)]
pub struct A2aSession {
    agents: A2aAgents,
    tasks: Arc<dyn TaskStore>,
    files: Option<Arc<dyn FileStore>>,
    uploads: Vec<PathBuf>,
    pub(crate) send_timeout: Duration,
    get_timeout: Duration,
    pub(crate) poll_interval: Duration,
}

impl fmt::Debug for A2aSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("A2aSession").field("agents", &self.agents).finish_non_exhaustive()
    }
}

/// A message to send to an agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OutgoingMessage {
    pub(crate) text: String,
    pub(crate) context_id: Option<String>,
    pub(crate) task_id: Option<String>,
    pub(crate) message_id: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) data: Vec<JsonText>,
    pub(crate) files: Vec<String>,
}

impl OutgoingMessage {
    /// Returns a message with this text.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// Names the conversation that it continues. Without it a new one begins.
    #[must_use]
    pub fn context(self, context_id: &str) -> Self {
        Self { context_id: Some(context_id.to_owned()), ..self }
    }

    /// Names the task to which it belongs, one that waits for input.
    #[must_use]
    pub fn task(self, task_id: &str) -> Self {
        Self { task_id: Some(task_id.to_owned()), ..self }
    }

    /// Sets the message's own id; by default a new one is made. Our servers carry out once what comes twice under one id.
    #[must_use]
    pub fn id(self, message_id: &str) -> Self {
        Self { message_id: Some(message_id.to_owned()), ..self }
    }

    /// Sets the time for which its task is waited for.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Adds data beside the text.
    #[must_use]
    pub fn data(mut self, data: JsonText) -> Self {
        self.data.push(data);
        self
    }

    /// Adds a file: an `https:` address, or a path in a folder whose files may be sent ([`A2aSession::uploads_from`]).
    #[must_use]
    pub fn file(mut self, file: &str) -> Self {
        self.files.push(file.to_owned());
        self
    }
}

/// A task as an agent told it.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionTask {
    /// The task, which may still be at work.
    pub task: Task,
    /// The reason why nothing newer is known of it, if the agent could not be asked to the end. The task goes on.
    pub fault: Option<SessionError>,
    pub(crate) saved: FileCopies,
}

/// The answer to a message.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionAnswer {
    /// A task.
    Task(Box<SessionTask>),
    /// A message alone.
    Message(Box<SessionMessage>),
}

/// A message of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionMessage {
    /// The message.
    pub message: Message,
    pub(crate) saved: FileCopies,
}

impl A2aSession {
    /// Returns a session that keeps tasks in memory, saves no files and sends none from a disk.
    pub fn new(agents: A2aAgents) -> Self {
        Self {
            agents,
            tasks: Arc::new(InMemoryTaskStore::new()),
            files: None,
            uploads: Vec::new(),
            send_timeout: TIMEOUT,
            get_timeout: TIMEOUT,
            poll_interval: POLL_INTERVAL,
        }
    }

    /// Keeps tasks in this store.
    #[must_use]
    pub fn task_store(self, store: Arc<dyn TaskStore>) -> Self {
        Self { tasks: store, ..self }
    }

    /// Saves the files of artifacts and messages in this store.
    #[must_use]
    pub fn file_store(self, store: Arc<dyn FileStore>) -> Self {
        Self { files: Some(store), ..self }
    }

    /// Lets files of this folder, and of those below it, be sent. By default none may be.
    #[must_use]
    pub fn uploads_from(mut self, folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref();
        // Whole: another working directory must not let other files be sent.
        self.uploads.push(std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()));
        self
    }

    /// Sets the time for which a message's task is waited for, 60 s by default.
    #[must_use]
    pub fn send_timeout(self, timeout: Duration) -> Self {
        Self { send_timeout: timeout, ..self }
    }

    /// Sets the time for which a task that is asked for is waited for, 60 s by default.
    #[must_use]
    pub fn get_timeout(self, timeout: Duration) -> Self {
        Self { get_timeout: timeout, ..self }
    }

    /// Sets the pause between two questions for a task, 5 s by default, at agents that do not stream.
    #[must_use]
    pub fn poll_interval(self, pause: Duration) -> Self {
        Self { poll_interval: pause, ..self }
    }

    /// Returns the agents.
    pub fn agents(&self) -> &A2aAgents {
        &self.agents
    }

    /// Returns a task of an agent, once it rests or the time is up.
    ///
    /// # Errors
    /// [`SessionError`] if the agent does not tell.
    pub async fn get(
        &self,
        agent_id: &str,
        task_id: &str,
        timeout: Option<Duration>,
        poll_interval: Option<Duration>,
    ) -> Result<SessionTask, SessionError> {
        check_id("task id", task_id)?;
        let agent = self.agent(agent_id).await?;
        self.check_owner(agent_id, task_id).await?;
        let (timeout, pause) =
            (timeout.unwrap_or(self.get_timeout), poll_interval.unwrap_or(self.poll_interval));
        let (task, fault) = self.monitor(&agent, task_id, timeout, pause, None).await?;
        if task.id != task_id {
            let (url, why) = (agent.at.url.clone(), "it is about another task".to_owned());
            return Err(SessionError::Agent(A2aError::Answer { url, why, task: None }));
        }
        self.store_task(agent_id, &task).await;
        Ok(self.told(task, fault).await)
    }

    pub(crate) async fn monitor(
        &self,
        agent: &KnownAgent,
        task_id: &str,
        timeout: Duration,
        interval: Duration,
        known: Option<Task>,
    ) -> Result<Waited, SessionError> {
        let way = self.agents.transport().as_ref();
        Monitor { way, agent, task_id, timeout, interval, answer: self.send_timeout, known }.wait().await
    }

    pub(crate) async fn agent(&self, id: &str) -> Result<Arc<KnownAgent>, SessionError> {
        match self.agents.get_agent(id).await {
            Some(agent) => Ok(agent),
            None => {
                Err(SessionError::UnknownAgent { agent: id.to_owned(), available: self.agents.ids().await })
            }
        }
    }

    /// Returns a message as it is sent.
    pub(crate) async fn written(&self, message: OutgoingMessage) -> Result<Message, SessionError> {
        let mut parts = vec![Part::text(&message.text)];
        parts.extend(message.data.iter().map(|data| Part::from_content(Content::Data(data.clone()))));
        if !message.files.is_empty() {
            let (files, folders) = (message.files, self.uploads.clone());
            let read =
                move || files.iter().map(|file| uploads::part(file, &folders)).collect::<Result<Vec<_>, _>>();
            parts.extend(blocking(read).await?);
        }
        let new = || Ports::default().uuid();
        let sent = Message::user(&message.message_id.unwrap_or_else(new), parts);
        let sent = sent.in_context(&message.context_id.unwrap_or_else(new));
        Ok(match message.task_id {
            Some(task_id) => sent.for_task(&task_id),
            None => sent,
        })
    }

    pub(crate) async fn message(&self, message: Message) -> Result<SessionAnswer, SessionError> {
        check_message(&message)?;
        let saved = file_copies::of_message(self.files.as_ref(), &message).await;
        Ok(SessionAnswer::Message(Box::new(SessionMessage { message, saved })))
    }

    pub(crate) async fn told(&self, task: Task, fault: Option<SessionError>) -> SessionTask {
        let saved = file_copies::of_task(self.files.as_ref(), &task).await;
        SessionTask { task, fault, saved }
    }

    /// Keeps a task. What was told is not lost where it cannot be kept.
    pub(crate) async fn store_task(&self, agent_id: &str, task: &Task) {
        let (agent, task) = (agent_id.to_owned(), task.clone());
        self.store_with("save", move |store| store.save(&agent, &task)).await;
    }

    pub(crate) async fn store_with<F>(&self, what: &'static str, keep: F)
    where
        F: FnOnce(&dyn TaskStore) -> Result<(), TaskStoreError> + Send + 'static,
    {
        if let Err(error) = self.store(keep).await {
            tracing::warn!(what, %error, "a task could not be kept");
        }
    }

    async fn store<T, F>(&self, work: F) -> Result<T, SessionError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn TaskStore) -> Result<T, TaskStoreError> + Send + 'static,
    {
        let tasks = Arc::clone(&self.tasks);
        blocking(move || work(tasks.as_ref()).map_err(|error| SessionError::Store(error.to_string()))).await
    }

    /// Returns a task that is kept of an agent, or of none that is known; `None` if it is missing or cannot be read.
    pub(crate) async fn kept_task(&self, agent_id: &str, task_id: &str) -> Option<Task> {
        let id = task_id.to_owned();
        let kept: Option<KeptTask> = self.store(move |store| store.get(&id)).await.ok().flatten();
        let is_its = |kept: &KeptTask| kept.agent.as_deref().is_none_or(|agent| agent == agent_id);
        kept.filter(is_its).map(|kept| kept.task)
    }

    /// Returns the task to which a message led.
    pub(crate) async fn sent(&self, message_id: &str) -> Result<Option<SentMessage>, SessionError> {
        let id = message_id.to_owned();
        self.store(move |store| store.sent(&id)).await
    }

    /// Refuses a task whose id is that of another agent's: an agent chooses the ids of its tasks.
    pub(crate) async fn check_owner(&self, agent_id: &str, task_id: &str) -> Result<(), SessionError> {
        let id = task_id.to_owned();
        let kept = self.store(move |store| store.get(&id)).await.ok().flatten();
        match kept.and_then(|kept| kept.agent) {
            Some(agent) if agent != agent_id => Err(SessionError::ForeignTask { task: quoted(task_id) }),
            _ => Ok(()),
        }
    }
}

/// Runs work that blocks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SessionError> + Send + 'static,
) -> Result<T, SessionError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(SessionError::Store(format!("the work ended: {error}"))),
    }
}
