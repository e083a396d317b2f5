//! The blocking twin of the client, for programs that are not asynchronous: each call waits for its end.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use proto_events::json::JsonText;
use proto_events::model::{
    AgentCard, HistoryCompactionRequest, HistoryCompactionResult, Message, PostedTask, StateOperationRequest,
    StateOperationResult, TaskCancellationRequest,
};
use taskreel::TaskStreamEvent;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::client::credentials::Credentials;
use crate::client::error::ClientError;
use crate::client::events::TaskEventStream;
use crate::client::transport::Client;
use crate::registry::filter::AgentFilter;

/// A [`Client`] whose calls wait for their end. Its work is done on a thread of its own, so that it needs no runtime and
/// disturbs none: called from a task of a runtime, a call holds up that task's thread, and no other, until it ends, at the
/// latest when the client's [timeout](Self::timeout) is over. Asynchronous code uses [`Client`]. Clones share the thread and
/// the connections.
///
/// ```no_run
/// use taskreel_http::protolink::{BlockingClient, ClientError};
///
/// fn main() -> Result<(), ClientError> {
///     let client = BlockingClient::new()?;
///     println!("{}", client.get_agent_card("http://127.0.0.1:8080")?.name);
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct BlockingClient {
    client: Client,
    worker: Arc<ClientThread>,
}

/// The thread of a client, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ClientThread {
    runtime: Handle,
    _ends_when_dropped: oneshot::Sender<()>,
}

impl ClientThread {
    pub(crate) fn start() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (keep, kept) = oneshot::channel();
        std::thread::Builder::new().name("taskreel-client".to_owned()).spawn(move || {
            // Nothing is ever sent: it ends with the sender.
            let _dropped = runtime.block_on(kept);
        })?;
        Ok(Self { runtime: handle, _ends_when_dropped: keep })
    }

    /// Carries out work on the thread, and waits for its end; `None` if the thread has ended. The ways to wait that `tokio`
    /// has refuse to do so within a runtime.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (tell, told) = sync_channel(1);
        self.runtime.spawn(async move {
            // The caller waits, and does nothing else meanwhile.
            let _heard = tell.send(work.await);
        });
        told.recv().ok()
    }
}

impl Client {
    /// Returns the twin of this client whose calls wait for their end, for programs that are not asynchronous.
    ///
    /// # Errors
    /// [`ClientError::Setup`] if a thread cannot be had.
    pub fn blocking(&self) -> Result<BlockingClient, ClientError> {
        let worker = ClientThread::start().map_err(|error| ClientError::Setup(error.to_string()))?;
        // Connections belong to the runtime on which they were opened.
        Ok(BlockingClient { client: self.anew()?, worker: Arc::new(worker) })
    }
}

impl BlockingClient {
    /// Returns a client without credentials, as [`Client::new`] does.
    ///
    /// # Errors
    /// [`ClientError::Setup`] if HTTP cannot be set up, or a thread cannot be had.
    pub fn new() -> Result<Self, ClientError> {
        Client::new()?.blocking()
    }

    /// Sets what the client shows of itself.
    #[must_use]
    pub fn credentials(self, credentials: Credentials) -> Self {
        Self { client: self.client.credentials(credentials), ..self }
    }

    /// Sets the longest wait for a whole answer, and of a stream for what comes next; see [`Client::timeout`].
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { client: self.client.timeout(timeout), ..self }
    }

    /// Sets the most bytes of an answer, or of one event of a stream.
    #[must_use]
    pub fn answer_max(self, bytes: usize) -> Self {
        Self { client: self.client.answer_max(bytes), ..self }
    }

    /// Sends a task and waits for its end, or until it waits for input; see [`Client::send_task`].
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn send_task(&self, agent_url: &str, task: &PostedTask) -> Result<PostedTask, ClientError> {
        let task = task.clone();
        self.wait(agent_url, |client, url| async move { client.send_task(&url, &task).await })
    }

    /// Sends a task and returns the events of its run, up to its final status.
    ///
    /// # Errors
    /// [`ClientError`] if the stream does not begin.
    pub fn send_task_streaming(
        &self,
        agent_url: &str,
        task: &PostedTask,
    ) -> Result<BlockingTaskEvents, ClientError> {
        let task = task.clone();
        let stream =
            self.wait(agent_url, |client, url| async move { client.send_task_streaming(&url, &task).await })?;
        Ok(BlockingTaskEvents { client: self.clone(), url: agent_url.to_owned(), stream: Some(stream) })
    }

    /// Continues a stream that broke off after [`BlockingTaskEvents::last_event_id`]; see
    /// [`Client::resume_task_streaming`].
    ///
    /// # Errors
    /// [`ClientError`] if the stream does not begin.
    pub fn resume_task_streaming(
        &self,
        agent_url: &str,
        task: &PostedTask,
        last_event_id: &str,
    ) -> Result<BlockingTaskEvents, ClientError> {
        let (task, place) = (task.clone(), last_event_id.to_owned());
        let stream = self.wait(agent_url, |client, url| async move {
            client.resume_task_streaming(&url, &task, &place).await
        })?;
        Ok(BlockingTaskEvents { client: self.clone(), url: agent_url.to_owned(), stream: Some(stream) })
    }

    /// Sends a message in a new task, and returns the last message of the task at its end.
    ///
    /// # Errors
    /// [`ClientError`], also if the task has no message.
    pub fn send_message(&self, agent_url: &str, message: Message) -> Result<Message, ClientError> {
        self.wait(agent_url, |client, url| async move { client.send_message(&url, message).await })
    }

    /// Cancels a task, and returns it as it is then.
    ///
    /// # Errors
    /// [`ClientError`], also if the agent does not know the task or the task is over.
    pub fn cancel_task(
        &self,
        agent_url: &str,
        request: &TaskCancellationRequest,
    ) -> Result<PostedTask, ClientError> {
        let request = request.clone();
        self.wait(agent_url, |client, url| async move { client.cancel_task(&url, &request).await })
    }

    /// Compacts a conversation of the agent's.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn compact_history(
        &self,
        agent_url: &str,
        request: &HistoryCompactionRequest,
    ) -> Result<HistoryCompactionResult, ClientError> {
        let request = request.clone();
        self.wait(agent_url, |client, url| async move { client.compact_history(&url, &request).await })
    }

    /// Describes the agent's state.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn describe_state(
        &self,
        agent_url: &str,
        request: &StateOperationRequest,
    ) -> Result<StateOperationResult, ClientError> {
        let request = request.clone();
        self.wait(agent_url, |client, url| async move { client.describe_state(&url, &request).await })
    }

    /// Clears the agent's state.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn reset_state(
        &self,
        agent_url: &str,
        request: &StateOperationRequest,
    ) -> Result<StateOperationResult, ClientError> {
        let request = request.clone();
        self.wait(agent_url, |client, url| async move { client.reset_state(&url, &request).await })
    }

    /// Compacts a conversation in the agent's state.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn compact_state(
        &self,
        agent_url: &str,
        request: &StateOperationRequest,
    ) -> Result<StateOperationResult, ClientError> {
        let request = request.clone();
        self.wait(agent_url, |client, url| async move { client.compact_state(&url, &request).await })
    }

    /// Returns the agent's card.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn get_agent_card(&self, agent_url: &str) -> Result<AgentCard, ClientError> {
        self.wait(agent_url, |client, url| async move { client.get_agent_card(&url).await })
    }

    /// Returns the agent's page about itself, as HTML.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn status(&self, agent_url: &str) -> Result<String, ClientError> {
        self.wait(agent_url, |client, url| async move { client.status(&url).await })
    }

    /// Says something to the agent in a session, and returns the answer. Without a session it is that of Protolink's page.
    ///
    /// # Errors
    /// [`ClientError`], also where the agent answers with an error.
    pub fn chat(
        &self,
        agent_url: &str,
        message: &str,
        session_id: Option<&str>,
    ) -> Result<JsonText, ClientError> {
        let (message, session_id) = (message.to_owned(), session_id.map(str::to_owned));
        self.wait(
            agent_url,
            |client, url| async move { client.chat(&url, &message, session_id.as_deref()).await },
        )
    }

    /// Registers an agent.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn register(&self, registry_url: &str, card: &AgentCard) -> Result<(), ClientError> {
        let card = card.clone();
        self.wait(registry_url, |client, url| async move { client.register(&url, &card).await })
    }

    /// Unregisters an agent; one that is not registered is not an error.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn unregister(&self, registry_url: &str, agent_url: &str) -> Result<(), ClientError> {
        let agent_url = agent_url.to_owned();
        self.wait(registry_url, |client, url| async move { client.unregister(&url, &agent_url).await })
    }

    /// Tells the registry that an agent is alive, and returns whether it is registered.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn heartbeat(&self, registry_url: &str, agent_url: &str) -> Result<bool, ClientError> {
        let agent_url = agent_url.to_owned();
        self.wait(registry_url, |client, url| async move { client.heartbeat(&url, &agent_url).await })
    }

    /// Returns the cards of the agents that fit the filter.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn discover(&self, registry_url: &str, filter: &AgentFilter) -> Result<Vec<AgentCard>, ClientError> {
        let filter = filter.clone();
        self.wait(registry_url, |client, url| async move { client.discover(&url, &filter).await })
    }

    /// Carries out a call on the client's thread, and waits for its end.
    fn wait<T, F>(&self, url: &str, call: impl FnOnce(Client, String) -> F) -> Result<T, ClientError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        self.worker.run(call(self.client.clone(), url.to_owned())).unwrap_or_else(|| {
            let why = "the thread of the client has ended".to_owned();
            Err(ClientError::Closed { url: url.to_owned(), why })
        })
    }
}

/// The events of a run: an iterator that ends after the final one. It ends with an error where the agent says so or the
/// connection breaks.
#[derive(Debug)]
pub struct BlockingTaskEvents {
    client: BlockingClient,
    url: String,
    /// The stream, while nobody waits for its next event.
    stream: Option<TaskEventStream>,
}

impl BlockingTaskEvents {
    /// Returns the place behind the last event, where the server gives its events places.
    pub fn last_event_id(&self) -> Option<&str> {
        self.stream.as_ref().and_then(TaskEventStream::last_event_id)
    }
}

impl Iterator for BlockingTaskEvents {
    type Item = Result<TaskStreamEvent, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut stream = self.stream.take()?;
        let next = self.client.wait(&self.url, |_, _| async move {
            let event = stream.next().await;
            Ok((event, stream))
        });
        match next {
            Ok((event, stream)) => {
                self.stream = Some(stream);
                event
            }
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    /// Returns the names of the functions of a file that begin so.
    fn functions(source: &str, begin: &str) -> Vec<String> {
        let lines = source.lines().filter_map(|line| line.trim().strip_prefix(begin));
        lines.map(|rest| rest.split('(').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn each_call_of_the_client_has_its_twin() {
        let twins = functions(include_str!("blocking_client.rs"), "pub fn ");
        let calls = [include_str!("agents.rs"), include_str!("registries.rs")];
        let calls = calls.map(|source| functions(source, "pub async fn ")).concat();
        assert!(calls.len() >= 16, "{calls:?}");
        for call in calls {
            assert!(twins.contains(&call), "{call} has no twin");
        }
    }
}
