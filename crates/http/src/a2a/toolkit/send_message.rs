//! The sending of a message of a session, and the cancel of the task that came of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::a2a::client::error::ErrorKind;
use crate::a2a::client::request::SendRequest;
use crate::a2a::model::{Event, Message, Task};
use crate::a2a::toolkit::error::{SessionError, check_id, check_task};
use crate::a2a::toolkit::monitor::{LONGEST_WAIT, is_at_rest};
use crate::a2a::toolkit::session::{A2aSession, OutgoingMessage, SessionAnswer};
use crate::a2a::toolkit::store::SentMessage;
use crate::a2a::toolkit::way::KnownAgent;

/// The wait for the answer to a cancel.
const CANCEL_WAIT: Duration = Duration::from_secs(10);

/// The agent's answer to a message.
enum SendAnswer {
    /// A task.
    Task(Box<Task>),
    /// A message alone.
    Answered(Box<Message>),
}

impl A2aSession {
    /// Sends a message to an agent, and waits until its task rests or the time is up. Where the task was taken and cannot be
    /// followed, the answer is the task as it is known, with the fault.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn send(
        &self,
        agent_id: &str,
        message: OutgoingMessage,
    ) -> Result<SessionAnswer, SessionError> {
        let agent = self.agent(agent_id).await?;
        if let Some(task_id) = &message.task_id {
            check_id("task id", task_id)?;
        }
        let timeout = message.timeout.unwrap_or(self.send_timeout).min(LONGEST_WAIT);
        let begun = Instant::now();
        let message = self.written(message).await?;
        let message_id = message.id.clone();
        let request = SendRequest::new(message).returning_immediately();
        let request = if agent.takes_keys() { request.idempotency_key(&message_id) } else { request };
        let (session, asked, own) = (self.clone(), Arc::clone(&agent), agent_id.to_owned());
        // In a task of its own: what the agent has taken is noted also where the caller has given up meanwhile.
        let sent =
            tokio::spawn(async move { session.send_once(&own, &asked, message_id, request, timeout).await });
        let sent =
            sent.await.unwrap_or_else(|error| Err(SessionError::Store(format!("the work ended: {error}"))));
        let task = match sent? {
            SendAnswer::Answered(message) => return self.message(*message).await,
            SendAnswer::Task(task) => *task,
        };
        let remaining = timeout.saturating_sub(begun.elapsed());
        if is_at_rest(task.status.state) || remaining.is_zero() {
            return Ok(SessionAnswer::Task(Box::new(self.told(task, None).await)));
        }
        let (task_id, known) = (task.id.clone(), Some(task));
        let waited = self.monitor(&agent, &task_id, remaining, self.poll_interval, known).await?;
        self.store_task(agent_id, &waited.0).await;
        Ok(SessionAnswer::Task(Box::new(self.told(waited.0, waited.1).await)))
    }

    /// Sends a message, and notes the task that the agent made of it.
    async fn send_once(
        &self,
        agent_id: &str,
        agent: &KnownAgent,
        message_id: String,
        request: SendRequest,
        timeout: Duration,
    ) -> Result<SendAnswer, SessionError> {
        let task = match self.agents().transport().send(agent, request, timeout).await? {
            Event::Message(message) => return Ok(SendAnswer::Answered(message)),
            Event::Task(task) => task,
            Event::Status(_) | Event::Artifact(_) => {
                return Err(SessionError::Argument("The agent answered with an event of a task.".to_owned()));
            }
        };
        check_task(&task)?;
        self.check_owner(agent_id, &task.id).await?;
        let sent = SentMessage { agent: agent_id.to_owned(), task_id: task.id.clone() };
        self.store_with("note_sent", move |store| store.note_sent(&message_id, &sent)).await;
        self.store_task(agent_id, &task).await;
        Ok(SendAnswer::Task(task))
    }

    /// Has an agent stop its work on a task. One that is over is left as it is.
    pub(crate) async fn cancel(&self, agent_id: &str, task_id: &str) -> Result<(), SessionError> {
        check_id("task id", task_id)?;
        let agent = self.agent(agent_id).await?;
        self.check_owner(agent_id, task_id).await?;
        match self.agents().transport().cancel(&agent, task_id, CANCEL_WAIT).await {
            Ok(task) => {
                check_task(&task)?;
                self.store_task(agent_id, &task).await;
                Ok(())
            }
            Err(error) if error.kind() == Some(ErrorKind::TaskNotCancelable) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
