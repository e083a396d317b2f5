//! The requests of an agent: what Protolink's `AgentClient` does.

use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{
    AgentCard, ClientRequestSpec, HistoryCompactionRequest, HistoryCompactionResult, HttpMethod, Message,
    ModelError, PostedTask, RequestSource, StateOperationRequest, StateOperationResult,
    TaskCancellationRequest,
};
use taskreel::{BudgetUsage, Ports};

use crate::client::error::ClientError;
use crate::client::events::TaskEventStream;
use crate::client::transport::{Client, RequestContent};

const TASK: ClientRequestSpec = ClientRequestSpec::with_body("send_task", HttpMethod::Post, "/tasks/");
const STREAM: ClientRequestSpec =
    ClientRequestSpec::with_body("send_task_stream", HttpMethod::Post, "/tasks/stream");
const CANCEL: ClientRequestSpec =
    ClientRequestSpec::with_body("cancel_task", HttpMethod::Post, "/tasks/cancel");
const COMPACT_HISTORY: ClientRequestSpec =
    ClientRequestSpec::with_body("compact_history", HttpMethod::Post, "/llm/history/compact");
const DESCRIBE: ClientRequestSpec =
    ClientRequestSpec::with_body("describe_state", HttpMethod::Post, "/state/describe");
const RESET: ClientRequestSpec =
    ClientRequestSpec::with_body("reset_state", HttpMethod::Post, "/state/reset");
const COMPACT: ClientRequestSpec =
    ClientRequestSpec::with_body("compact_state", HttpMethod::Post, "/state/compact");
const CARD: ClientRequestSpec =
    ClientRequestSpec::reading("get_agent_card", "/.well-known/agent.json", RequestSource::None);
const STATUS: ClientRequestSpec = ClientRequestSpec::reading("status", "/status", RequestSource::None);
const CHAT: ClientRequestSpec = ClientRequestSpec::with_body("chat", HttpMethod::Post, "/chat");

impl Client {
    /// Sends a task and waits for its end, or until it waits for input. A task that failed is an answer, see
    /// [`PostedTask::raise_for_status`].
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send_task(&self, agent_url: &str, task: &PostedTask) -> Result<PostedTask, ClientError> {
        self.json(agent_url, TASK, RequestContent::Body(&task.to_json()), read_task).await
    }

    /// Sends a task as [`Client::send_task`] does, and returns what it has used too, where the agent says it: ours does,
    /// Protolink's does not.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(crate) async fn send_task_used(
        &self,
        agent_url: &str,
        task: &PostedTask,
    ) -> Result<(PostedTask, BudgetUsage), ClientError> {
        self.json_used(agent_url, TASK, RequestContent::Body(&task.to_json()), read_task).await
    }

    /// Sends a task and returns the events of its run, up to its final status.
    ///
    /// # Errors
    /// [`ClientError`] if the stream does not begin.
    pub async fn send_task_streaming(
        &self,
        agent_url: &str,
        task: &PostedTask,
    ) -> Result<TaskEventStream, ClientError> {
        TaskEventStream::open(self, agent_url, STREAM, task, None).await
    }

    /// Continues a stream that broke off after [`TaskEventStream::last_event_id`], on a server that gives its events
    /// ids, as ours does. Protolink's gives none.
    ///
    /// # Errors
    /// [`ClientError`] if the stream does not begin.
    pub async fn resume_task_streaming(
        &self,
        agent_url: &str,
        task: &PostedTask,
        last_event_id: &str,
    ) -> Result<TaskEventStream, ClientError> {
        TaskEventStream::open(self, agent_url, STREAM, task, Some(last_event_id)).await
    }

    /// Sends a message in a new task, and returns the last message of the task at its end.
    ///
    /// # Errors
    /// [`ClientError`], also if the task has no message.
    pub async fn send_message(&self, agent_url: &str, message: Message) -> Result<Message, ClientError> {
        let task = PostedTask::new(message, &mut Ports::default());
        let mut done = self.send_task(agent_url, &task).await?;
        done.messages.pop().ok_or_else(|| ClientError::Answer {
            url: agent_url.to_owned(),
            source: ModelError::Invalid("No response messages returned by agent".to_owned()),
        })
    }

    /// Cancels a task, and returns it as it is then.
    ///
    /// # Errors
    /// [`ClientError`], also if the agent does not know the task or the task is over.
    pub async fn cancel_task(
        &self,
        agent_url: &str,
        request: &TaskCancellationRequest,
    ) -> Result<PostedTask, ClientError> {
        self.json(agent_url, CANCEL, RequestContent::Body(&request.to_json()), read_task).await
    }

    /// Compacts a conversation of the agent's.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn compact_history(
        &self,
        agent_url: &str,
        request: &HistoryCompactionRequest,
    ) -> Result<HistoryCompactionResult, ClientError> {
        let body = request.to_json();
        let read = |answer: &JsonText| {
            // Read leniently, any object is the result of a compaction that changed nothing.
            let fields: JsonObject = answer.read()?;
            if fields.get("after_messages").is_none() {
                return Err(ModelError::Missing { key: "after_messages".to_owned() });
            }
            HistoryCompactionResult::from_json(answer)
        };
        self.json(agent_url, COMPACT_HISTORY, RequestContent::Body(&body), read).await
    }

    /// Describes the agent's state.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn describe_state(
        &self,
        agent_url: &str,
        request: &StateOperationRequest,
    ) -> Result<StateOperationResult, ClientError> {
        self.state(agent_url, DESCRIBE, request).await
    }

    /// Clears the agent's state.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn reset_state(
        &self,
        agent_url: &str,
        request: &StateOperationRequest,
    ) -> Result<StateOperationResult, ClientError> {
        self.state(agent_url, RESET, request).await
    }

    /// Compacts a conversation in the agent's state.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn compact_state(
        &self,
        agent_url: &str,
        request: &StateOperationRequest,
    ) -> Result<StateOperationResult, ClientError> {
        self.state(agent_url, COMPACT, request).await
    }

    async fn state(
        &self,
        agent_url: &str,
        spec: ClientRequestSpec,
        request: &StateOperationRequest,
    ) -> Result<StateOperationResult, ClientError> {
        let operation = spec.name.trim_end_matches("_state");
        let read = |answer: &JsonText| {
            // Read leniently, anything is the result of some operation.
            let fields: JsonObject = answer.read()?;
            let named = fields.get("operation").and_then(JsonText::to_str);
            if named.as_deref() != Some(operation) {
                return Err(ModelError::Invalid(format!("it is no result of the operation {operation}")));
            }
            StateOperationResult::from_json(answer)
        };
        self.json(agent_url, spec, RequestContent::Body(&request.to_json()), read).await
    }

    /// Returns the agent's card.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get_agent_card(&self, agent_url: &str) -> Result<AgentCard, ClientError> {
        self.json(agent_url, CARD, RequestContent::Nothing, AgentCard::from_json).await
    }

    /// Returns the agent's page about itself, as HTML.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn status(&self, agent_url: &str) -> Result<String, ClientError> {
        self.text(agent_url, STATUS, RequestContent::Nothing).await
    }

    /// Says something to the agent in a session, and returns the answer. Without a session it is that of Protolink's page.
    ///
    /// # Errors
    /// [`ClientError`], also where the agent answers with an error.
    pub async fn chat(
        &self,
        agent_url: &str,
        message: &str,
        session_id: Option<&str>,
    ) -> Result<JsonText, ClientError> {
        let mut body = JsonObject::new();
        body.set("message", JsonText::string(message));
        if let Some(session_id) = session_id {
            body.set("session_id", JsonText::string(session_id));
        }
        let read = |answer: &JsonText| {
            let fields: JsonObject = answer.read()?;
            match (fields.get("response"), fields.get("error")) {
                (Some(response), _) => Ok(response.clone()),
                (None, Some(error)) => {
                    Err(ModelError::Invalid(error.to_str().unwrap_or_else(|| error.to_string())))
                }
                (None, None) => {
                    Err(ModelError::Invalid("neither `response` nor `error` is there".to_owned()))
                }
            }
        };
        self.json(agent_url, CHAT, RequestContent::Body(&body.to_text()), read).await
    }
}

/// Reads a task that came back.
fn read_task(json: &JsonText) -> Result<PostedTask, ModelError> {
    PostedTask::from_json(json, &mut Ports::default())
}
