//! The embedder's own code as an agent's work: the handler that a run's message is given to, its context, and
//! how it ends.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use proto_events::call::{CallKind, CallStatus, FailureClass, Verdict};
use proto_events::envelope::Timestamp;
use proto_events::json;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, Message, Part, TaskState};
use proto_events::task::{HandlerSays, Task};
use taskreel_log::ports::Ports;

use crate::tools::agent_requests::{AgentAnswer, AgentWork};
use crate::tools::error::ToolError;
use crate::tools::future::BoxFuture;
use crate::tools::into_tool::IntoToolError;
use crate::tools::policy::ToolPolicy;
use crate::tools::tool::{Cancellation, ToolContext};

/// The end of a handler's work, which is the end of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerEnd {
    /// The task is completed.
    Completed,
    /// The task is completed, and these parts are the agent's last message: written at once, where
    /// [`HandlerContext::say`] before the end waits for the disk once more. An attempt that fails or is lost has said nothing of
    /// it. A handler may return a text in its place.
    Answered(Vec<Part>),
    /// The task is completed, and the newest message of the agent is all of its answer: a protocol that knows answers without
    /// a task gives the client that message alone. If the agent has said nothing it is [`HandlerEnd::Completed`].
    Replied,
    /// The task waits for a person, with this question. The next message runs the handler again.
    InputRequired(String),
    /// The task waits for credentials or a permission that the client gets elsewhere, with this text. It is
    /// [`HandlerEnd::InputRequired`] for all that do not tell the two apart.
    AuthRequired(String),
    /// The task fails, for this reason. The handler is not retried.
    Failed(String),
    /// The work is refused, for this reason: the task fails, and its call's failure has the class `rejected`. See
    /// [`Task::is_rejected`].
    Rejected(String),
}

impl From<()> for HandlerEnd {
    fn from((): ()) -> Self {
        Self::Completed
    }
}

impl From<String> for HandlerEnd {
    fn from(text: String) -> Self {
        Self::Answered(vec![Part::text(text)])
    }
}

impl From<&str> for HandlerEnd {
    fn from(text: &str) -> Self {
        Self::Answered(vec![Part::text(text)])
    }
}

impl HandlerEnd {
    /// Returns the result under which a call records an end that is not a failure.
    pub(crate) fn to_json(&self) -> JsonText {
        match self {
            Self::InputRequired(question) => {
                json!({"state": "input-required", "question": question.clone()}).to_text()
            }
            Self::AuthRequired(question) => {
                json!({"state": "input-required", "question": question.clone(), "needs": "auth"}).to_text()
            }
            Self::Replied => json!({"state": "completed", "answer": "message"}).to_text(),
            _ => json!({"state": "completed"}).to_text(),
        }
    }

    /// Reads a result. A person who settles a lost call may give any other value: the work is done then.
    pub(crate) fn of_result(result: &JsonText) -> Self {
        let fields: JsonObject = result.read().unwrap_or_default();
        let text = |key: &str| fields.get(key).and_then(JsonText::to_str);
        match (text("state").as_deref(), text("needs").as_deref(), text("answer").as_deref()) {
            (Some("input-required"), Some("auth"), _) => {
                Self::AuthRequired(text("question").unwrap_or_default())
            }
            (Some("input-required"), ..) => Self::InputRequired(text("question").unwrap_or_default()),
            (Some("completed"), _, Some("message")) => Self::Replied,
            _ => Self::Completed,
        }
    }

    /// Returns the end with which a handler's newest work on a task has brought the task into the state that it is in; `None` if
    /// that work has not ended, or is not a handler's.
    pub fn of_task(task: &Task) -> Option<Self> {
        let call = task.calls().iter().rev().find(|call| call.request.kind == CallKind::Handler)?;
        match (&call.status, task.state()) {
            (CallStatus::Failed(failure), TaskState::Failed) if failure.class == FailureClass::Rejected => {
                Some(Self::Rejected(failure.message.clone()))
            }
            (CallStatus::Failed(failure), TaskState::Failed) => Some(Self::Failed(failure.message.clone())),
            (
                CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result)),
                TaskState::Completed | TaskState::InputRequired,
            ) => Some(Self::of_result(result)),
            _ => None,
        }
    }
}

/// The code of a handler.
pub(crate) trait HandlerCode: Send + Sync + 'static {
    /// Starts an attempt.
    fn run(&self, cx: HandlerContext, message: Message) -> BoxFuture<'static, Result<HandlerEnd, ToolError>>;
}

/// A function as the code of a handler.
pub(crate) struct HandlerFn<F>(pub(crate) F);

impl<F, Fut, T, E> HandlerCode for HandlerFn<F>
where
    F: Fn(HandlerContext, Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Into<HandlerEnd>,
    E: IntoToolError,
{
    fn run(&self, cx: HandlerContext, message: Message) -> BoxFuture<'static, Result<HandlerEnd, ToolError>> {
        let work = (self.0)(cx, message);
        Box::pin(async move { work.await.map(Into::into).map_err(IntoToolError::into_tool_error) })
    }
}

/// An agent's handler, and the policy of its calls.
#[derive(Clone)]
pub(crate) struct KnownHandler {
    pub(crate) code: Arc<dyn HandlerCode>,
    pub(crate) policy: ToolPolicy,
}

/// The way of an attempt's messages and artifacts into its task's log.
pub(crate) trait HandlerSink: Send + Sync {
    /// Appends what the attempt says. Returns once it is on disk, or the reason why it is refused.
    fn append(&self, says: HandlerSays) -> BoxFuture<'static, Result<(), ToolError>>;
}

/// The parts of a [`HandlerContext`].
pub(crate) struct HandlerContextParts {
    pub(crate) cx: ToolContext,
    pub(crate) session_id: String,
    pub(crate) task: Arc<Task>,
    pub(crate) sink: Arc<dyn HandlerSink>,
    pub(crate) ports: Ports,
}

/// The information that a handler gets about its call, and its way to add to its task.
///
/// All that it appends is on disk when the method returns, and stays, whatever happens to the attempt. Once the task
/// is over, or another attempt has taken this one's place, nothing more is accepted and the methods return an error.
#[derive(Clone)]
pub struct HandlerContext(Arc<HandlerContextParts>);

impl fmt::Debug for HandlerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerContext").field("cx", &self.0.cx).finish_non_exhaustive()
    }
}

impl HandlerContext {
    pub(crate) fn new(parts: HandlerContextParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Returns the task as it was when the attempt began.
    pub fn task(&self) -> &Task {
        &self.0.task
    }

    /// Returns the task's id.
    pub fn task_id(&self) -> &str {
        self.0.cx.task_id()
    }

    /// Returns the id of the conversation that the task belongs to; the task's own id if it names none.
    pub fn session_id(&self) -> &str {
        &self.0.session_id
    }

    /// Returns the call's id, the same for every attempt.
    pub fn call_id(&self) -> &str {
        self.0.cx.call_id()
    }

    /// Returns the key to pass to services that honour such keys, the same for every attempt.
    pub fn idempotency_key(&self) -> &str {
        self.0.cx.idempotency_key()
    }

    /// Returns the number of the attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.cx.attempt()
    }

    /// Returns the moment at which this attempt times out, by the system's clock.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.0.cx.deadline()
    }

    /// Returns the time until this attempt times out, by the system's clock; zero after that moment.
    pub fn remaining(&self) -> Option<Duration> {
        self.0.cx.remaining()
    }

    /// Returns the signal of a cancel.
    pub fn cancellation(&self) -> &Cancellation {
        self.0.cx.cancellation()
    }

    /// Reports progress to observers. A hint: it may be dropped, and it is not stored.
    pub fn progress(&self, text: &str) {
        self.0.cx.progress(text);
    }

    /// Asks a person, as [`ToolContext::ask`] does.
    ///
    /// # Errors
    /// As there.
    pub fn ask(&self, question: &str) -> impl Future<Output = Result<String, ToolError>> + Send + use<> {
        self.0.cx.ask(question)
    }

    /// Gives work to another agent, as [`ToolContext::delegate`] does.
    ///
    /// # Errors
    /// As there.
    pub fn delegate<W: Into<AgentWork>>(
        &self,
        agent: &str,
        work: W,
    ) -> impl Future<Output = Result<AgentAnswer, ToolError>> + Send + use<W> {
        self.0.cx.delegate(agent, work)
    }

    /// Appends a text of the agent to the task.
    ///
    /// # Errors
    /// An error if the task is over, the attempt was superseded, or the log cannot be written.
    pub async fn say(&self, text: &str) -> Result<(), ToolError> {
        self.append_message(vec![Part::text(text)]).await
    }

    /// Appends a message of the agent to the task.
    ///
    /// # Errors
    /// As [`HandlerContext::say`].
    pub async fn append_message(&self, parts: Vec<Part>) -> Result<(), ToolError> {
        let message = Message::new("agent", parts, &mut self.0.ports.clone());
        self.0.sink.append(HandlerSays::Message(message)).await
    }

    /// Appends a whole artifact with these parts to the task, and returns its id.
    ///
    /// # Errors
    /// As [`HandlerContext::say`].
    pub async fn append_artifact(&self, parts: Vec<Part>) -> Result<String, ToolError> {
        let artifact = Artifact::new(parts, &mut self.0.ports.clone());
        let id = artifact.id.clone().unwrap_or_default();
        self.0.sink.append(HandlerSays::Artifact(artifact)).await?;
        Ok(id)
    }

    /// Appends a piece of an artifact: the first piece under an id adds the artifact, each other one its parts to that
    /// artifact, until the last piece.
    ///
    /// # Errors
    /// As [`HandlerContext::say`], and if the artifact is complete.
    pub async fn append_piece(&self, id: &str, parts: Vec<Part>, is_last: bool) -> Result<(), ToolError> {
        let artifact =
            Artifact { id: Some(id.to_owned()), ..Artifact::new(parts, &mut self.0.ports.clone()) };
        self.0.sink.append(HandlerSays::ArtifactPart { artifact, is_last }).await
    }

    /// Returns the question with which the attempt ends, if it has reached one without an answer.
    pub(crate) fn open_question(&self) -> Option<String> {
        self.0.cx.open_question()
    }

    /// Returns the parts of the context for the log of executions.
    #[cfg(feature = "testing")]
    pub(crate) fn call(&self) -> &ToolContext {
        &self.0.cx
    }
}
