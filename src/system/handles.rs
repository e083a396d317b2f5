//! Handles on one task and on one conversation, and what they show.

use std::sync::Arc;

use proto_events::call::Verdict;
use proto_events::envelope::{Basis, Principal};
use proto_events::id::{Mint, StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{ConversationHistory, Message, ModelError, Part, PostedTask, TaskState};
use proto_events::task::{Approval, ApprovalDecided, Task, TaskCommand};

use crate::actors::live::LiveFeed;
use crate::actors::messages::{Cause, Settlement, TaskOp};
use crate::error::Error;
use crate::ports::Ports;
use crate::system::task_events::{TaskEvents, before_last_run};
use crate::system::{System, blocking};

/// What a task can be made of.
#[derive(Debug, Clone)]
pub enum TaskInput {
    /// A whole task, as it came over the wire.
    Task(Box<PostedTask>),
    /// One message.
    Message(Message),
    /// One part of a user's message.
    Part(Part),
}

impl From<PostedTask> for TaskInput {
    fn from(task: PostedTask) -> Self {
        Self::Task(Box::new(task))
    }
}

impl From<Message> for TaskInput {
    fn from(message: Message) -> Self {
        Self::Message(message)
    }
}

impl From<Part> for TaskInput {
    fn from(part: Part) -> Self {
        Self::Part(part)
    }
}

impl TaskInput {
    /// The task that it is, or a new one around it.
    pub(super) fn into_task(
        self,
        session: Option<&str>,
        ports: &mut Ports,
    ) -> Result<PostedTask, ModelError> {
        let message = match self {
            Self::Task(task) => return Ok(*task),
            Self::Message(message) => message,
            Self::Part(part) => Message {
                id: Some(ports.id("msg_")),
                role: Some("user".to_owned()),
                parts: vec![part.hydrated(ports)?],
                timestamp: Some(ports.timestamp()),
            },
        };
        let mut metadata = JsonObject::new();
        if let Some(session) = session {
            metadata.set("session_id", JsonText::string(session));
        }
        Ok(PostedTask {
            id: ports.id("task_"),
            state: TaskState::Submitted,
            messages: vec![message],
            artifacts: Vec::new(),
            metadata,
            flow_state: JsonText::empty_object(),
            created_at: Some(ports.timestamp()),
        })
    }
}

/// A handle on one task.
#[derive(Debug, Clone)]
pub struct TaskHandle {
    system: System,
    id: String,
    stream: StreamId,
}

impl TaskHandle {
    pub(super) fn new(system: System, id: String, stream: StreamId) -> Self {
        Self { system, id, stream }
    }

    /// The task's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name of its stream in the log.
    pub fn stream(&self) -> &StreamId {
        &self.stream
    }

    /// Waits until nothing more happens without a person: the task is over or waits for input.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], or what the log answers. A task that failed is no error here: ask its state.
    pub async fn finished(&self) -> Result<TaskSnapshot, Error> {
        self.ask(TaskOp::AwaitEnd).await
    }

    /// The task as it stands on disk.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], or what the log answers.
    pub async fn snapshot(&self) -> Result<TaskSnapshot, Error> {
        self.ask(TaskOp::Look).await
    }

    /// Gives the task up. A task that was canceled before keeps its first reason.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], or [`Error::TaskNotCancelable`] if it is over.
    pub async fn cancel(&self, reason: Option<&str>) -> Result<TaskSnapshot, Error> {
        self.ask(TaskOp::Cancel { reason: reason.map(str::to_owned) }).await
    }

    /// Says what became of a call whose outcome is unknown: that its effect landed (with the result that the call would
    /// have given), that it did not happen, or that this cannot be said. If the task waits for it, it goes on: a model
    /// is told in a new turn, a part gets its output or is called again. Otherwise it is kept as evidence. `by` names
    /// who looked.
    ///
    /// # Errors
    /// [`Error::Task`] if there is no such call, it is not unknown, or something else was found out before.
    pub async fn reconcile(&self, call_id: &str, verdict: Verdict, by: &str) -> Result<TaskSnapshot, Error> {
        self.settle(call_id, Settlement::Verdict(verdict), by).await
    }

    /// Says that nobody looks any further what became of a call whose outcome is unknown. If the task waits for it, a
    /// model is told and goes on without it; a part ends in an error.
    ///
    /// # Errors
    /// [`Error::Task`] if there is no such call, or it is not unknown.
    pub async fn abandon(&self, call_id: &str, reason: &str, by: &str) -> Result<TaskSnapshot, Error> {
        self.settle(call_id, Settlement::Abandon(reason.to_owned()), by).await
    }

    /// Approves a call that waits for it: it is made, with the very arguments that were asked for, and the task goes on.
    /// Approving again adds nothing. `by` names who decided.
    ///
    /// # Errors
    /// [`Error::Task`] if there is no such approval, it was denied before, or the task went on without it.
    pub async fn approve(&self, approval_id: &str, by: &str) -> Result<TaskSnapshot, Error> {
        self.decide(approval_id, true, None, by).await
    }

    /// Denies a call that waits for approval: a model that asked for it is told and goes on without it; a task whose own
    /// part it is fails.
    ///
    /// # Errors
    /// As [`TaskHandle::approve`].
    pub async fn deny(
        &self,
        approval_id: &str,
        reason: Option<&str>,
        by: &str,
    ) -> Result<TaskSnapshot, Error> {
        self.decide(approval_id, false, reason, by).await
    }

    /// The approvals that the task waits for, oldest first.
    ///
    /// # Errors
    /// As [`TaskHandle::snapshot`].
    pub async fn approvals(&self) -> Result<Vec<Approval>, Error> {
        Ok(self.snapshot().await?.task().awaited_approvals().cloned().collect())
    }

    async fn decide(
        &self,
        approval_id: &str,
        approved: bool,
        reason: Option<&str>,
        by: &str,
    ) -> Result<TaskSnapshot, Error> {
        let (approval_id, reason) = (approval_id.to_owned(), reason.map(str::to_owned));
        let decided = ApprovalDecided { approval_id, approved, reason, decided_by: by.to_owned() };
        self.ask_as(TaskOp::Decide(decided), by).await
    }

    /// An operation of a person who has a name.
    async fn ask_as(&self, op: TaskOp, by: &str) -> Result<TaskSnapshot, Error> {
        let principal = Principal { name: by.to_owned(), basis: Basis::Asserted };
        let view = self.system.ask(self.stream.clone(), op, Cause { principal, ..Cause::default() }).await?;
        Ok(TaskSnapshot::new(view.task, view.committed.version))
    }

    async fn settle(&self, call_id: &str, settlement: Settlement, by: &str) -> Result<TaskSnapshot, Error> {
        let op = TaskOp::Settle { call_id: call_id.to_owned(), settlement, by: by.to_owned() };
        self.ask_as(op, by).await
    }

    /// Sends a command of your own, such as a message or metadata to add. Returns when it is on disk.
    ///
    /// # Errors
    /// [`Error::Task`] if the task says no, [`Error::NotForCallers`] for what only the router may say, or what
    /// the log answers.
    pub async fn command(&self, command: TaskCommand) -> Result<TaskSnapshot, Error> {
        let ours = match &command {
            TaskCommand::Call(_)
            | TaskCommand::AppendInferMessage(_)
            | TaskCommand::RequestApproval(_)
            | TaskCommand::DecideApproval(_) => true,
            TaskCommand::AppendArtifact { part, .. } => part.is_some(),
            TaskCommand::Submit(posted) => posted.id != self.id,
            _ => false,
        };
        if ours {
            return Err(Error::NotForCallers);
        }
        self.ask(TaskOp::Command(Box::new(command))).await
    }

    /// Hears from now on what goes on in this task and is not in its log: a model's answer while it comes in, what tools
    /// say of their progress. Hints: pieces may be dropped, and the listener is then told how many.
    pub fn live(&self) -> LiveFeed {
        self.system.live(&self.stream)
    }

    /// The task's newest run as Protolink streams it, from its beginning to its final status: what was is caught up
    /// with, what comes follows. Of a task that is not there yet it is the first run, so that it may be taken before
    /// the task is submitted.
    ///
    /// # Errors
    /// [`Error::Read`] if the task's stream cannot be read.
    pub async fn events(&self) -> Result<TaskEvents, Error> {
        let (store, stream) = (self.system.log(), self.stream.clone());
        let after = blocking(move || before_last_run(store.as_ref(), &stream)).await??;
        Ok(self.events_after(after))
    }

    /// As [`TaskHandle::events`], but what comes behind a version: of a task that goes on, that which follows its
    /// [`TaskSnapshot::version`]. A task that was over then gives its final status once more, and nothing else.
    pub fn events_after(&self, version: Version) -> TaskEvents {
        self.system.task_events(&self.stream, version)
    }

    async fn ask(&self, op: TaskOp) -> Result<TaskSnapshot, Error> {
        let view = self.system.ask(self.stream.clone(), op, Cause::default()).await?;
        Ok(TaskSnapshot::new(view.task, view.committed.version))
    }
}

/// A task as it stood on disk at one version.
#[derive(Debug, Clone)]
pub struct TaskSnapshot {
    task: Arc<Task>,
    version: Version,
}

impl TaskSnapshot {
    pub(super) fn new(task: Arc<Task>, version: Version) -> Self {
        Self { task, version }
    }

    /// Where the task is in its lifecycle.
    pub fn state(&self) -> TaskState {
        self.task.state()
    }

    /// How many events its stream has.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The whole fold.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// The content of the last part of the last item: usually the answer.
    pub fn answer(&self) -> Option<&JsonText> {
        self.task.last_part_content()
    }

    /// As Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        self.task.to_json()
    }
}

/// A handle on one conversation.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    system: System,
    id: String,
}

impl SessionHandle {
    pub(super) fn new(system: System, id: String) -> Self {
        Self { system, id }
    }

    /// The conversation's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Makes a task of this in the conversation, and works on it when the turns before it are over.
    ///
    /// # Errors
    /// As [`System::submit`].
    pub async fn send(&self, input: impl Into<TaskInput>) -> Result<TaskHandle, Error> {
        self.system.submit_new(input.into(), Some(&self.id)).await
    }

    /// What was said so far, turns that are still open apart.
    ///
    /// # Errors
    /// [`Error::Id`] if the id cannot be one, or what reading the log answers.
    pub async fn history(&self) -> Result<ConversationHistory, Error> {
        let session = self.system.look_at_session(&self.id).await?;
        Ok(ConversationHistory::clone(session.history()))
    }
}
