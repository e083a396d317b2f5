//! The handle on one task, and the states that it returns.

use std::sync::Arc;

use proto_events::call::{Answer, Call, Verdict};
use proto_events::envelope::{Committed, Principal};
use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;
use proto_events::model::TaskState;
use proto_events::task::{Approval, ApprovalDecided, Task, TaskCommand};

use crate::actors::shared::messages::{TaskOp, ToTask};
use crate::actors::shared::resolution::CallResolution;
use crate::error::Error;
use crate::live::LiveFeed;
use crate::run::steps::session_id;
#[cfg(doc)]
use crate::system::handle::System;
use crate::system::task_events::{ResumePoint, TaskEvents, before_last_run};
use crate::system::task_index::questions;
use crate::system::weak::WeakSystem;
use crate::tools::current_call::{CurrentCall, current_call};

/// A handle on one task.
///
/// ```
/// # use taskreel::{TaskHandle, TaskStreamPayload};
/// # async fn watch(task: TaskHandle) -> Result<(), taskreel::Error> {
/// let mut events = task.events().await?;
/// while let Some(event) = events.next().await {
///     if let TaskStreamPayload::Status { new, .. } = event?.payload {
///         println!("{} is {new}", task.id());
///     }
/// }
/// println!("{:?}", task.snapshot().await?.answer());
/// # Ok(())
/// # }
/// ```
///
/// It does not keep the system running: once the last [`System`] was dropped or shut down, its methods
/// return [`Error::Stopped`].
#[derive(Debug, Clone)]
pub struct TaskHandle {
    system: WeakSystem,
    id: String,
    stream: StreamId,
}

impl TaskHandle {
    pub(crate) fn new(system: WeakSystem, id: String, stream: StreamId) -> Self {
        Self { system, id, stream }
    }

    /// Returns a handle whose commands are recorded under this principal, see [`System::acting_as`].
    #[must_use]
    pub fn acting_as(&self, principal: impl Into<Principal>) -> Self {
        Self { system: self.system.acting_as(principal), ..self.clone() }
    }

    /// Returns a handle for one command under an id of the caller's own, see [`System::once`].
    #[must_use]
    pub fn once(&self, command_id: &str) -> Self {
        Self { system: self.system.once(command_id), ..self.clone() }
    }

    /// Returns the system of the task.
    pub(crate) fn system(&self) -> &WeakSystem {
        &self.system
    }

    /// The task's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name of the task's stream in the log.
    pub fn stream(&self) -> &StreamId {
        &self.stream
    }

    /// Waits until nothing more happens without a person: the task is over or waits for input.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], [`Error::WaitsForItself`] in the code of a call that holds what the task needs,
    /// [`Error::Stopped`] if the system ends, or an error of the log. A failed task is not an error here: check its state.
    pub async fn finished(&self) -> Result<TaskSnapshot, Error> {
        if let Some(call) = current_call() {
            self.refuse_own_wait(call).await?;
        }
        self.ask(TaskOp::AwaitEnd).await
    }

    /// Refuses to wait within a call for what waits for that call: its own task, or one that needs the same turn.
    async fn refuse_own_wait(&self, call: CurrentCall) -> Result<(), Error> {
        if call.system != self.system.live().address() {
            return Ok(());
        }
        let now = self.snapshot().await?;
        let session = session_id(now.task());
        let is_its_session =
            call.task.agent() == self.stream.agent() && call.session.as_ref() == Some(&session);
        let is_own = call.task == self.stream || is_its_session;
        if !is_own || now.state().is_terminal() || now.state() == TaskState::InputRequired {
            return Ok(());
        }
        Err(Error::WaitsForItself { id: self.id.clone(), session, call_id: call.call_id })
    }

    /// Returns the task as it is on disk.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], or an error of the log.
    pub async fn snapshot(&self) -> Result<TaskSnapshot, Error> {
        self.ask(TaskOp::Look).await
    }

    /// Cancels the task. A task that was canceled before keeps its first reason. Like every command it answers where the
    /// task's stream ends then, on disk; [`TaskHandle::snapshot`] returns the task itself.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], or [`Error::TaskNotCancelable`] if it is over.
    pub async fn cancel(&self, reason: Option<&str>) -> Result<Committed, Error> {
        self.tell(TaskOp::Cancel { reason: reason.map(str::to_owned) }).await
    }

    /// Records the verdict on a call whose outcome is unknown: its effect took place (with the result that
    /// the call would have returned), it did not, or this cannot be determined. If the task waits for the
    /// call, it continues: a model receives the verdict in a new turn, a part gets its output or is called
    /// again. Otherwise the verdict is kept as evidence. `by` names the person who investigated.
    ///
    /// # Errors
    /// [`Error::Task`] if the call does not exist, is not unknown, or another verdict was recorded before.
    pub async fn reconcile(
        &self,
        call_id: &str,
        verdict: Verdict,
        by: impl Into<Principal>,
    ) -> Result<Committed, Error> {
        self.resolve_call(call_id, CallResolution::Verdict(verdict), by.into()).await
    }

    /// Stops investigating a call whose outcome is unknown. If the task waits for the call, a model receives
    /// this as an error and continues without the result; a part ends in an error.
    ///
    /// # Errors
    /// [`Error::Task`] if the call does not exist, or it is not unknown.
    pub async fn abandon(
        &self,
        call_id: &str,
        reason: &str,
        by: impl Into<Principal>,
    ) -> Result<Committed, Error> {
        self.resolve_call(call_id, CallResolution::Abandon(reason.to_owned()), by.into()).await
    }

    /// Approves a call that waits for approval: it is made, with exactly the requested arguments, and the
    /// task continues. Approving again adds nothing. `by` names the person who decided.
    ///
    /// # Errors
    /// [`Error::Task`] if the approval does not exist, was already denied, or the task continued without it.
    pub async fn approve(&self, approval_id: &str, by: impl Into<Principal>) -> Result<Committed, Error> {
        self.decide(approval_id, true, None, by.into()).await
    }

    /// Denies a call that waits for approval: a model that asked for it receives the denial and continues
    /// without the call; if the task's own part asked for it, the task fails.
    ///
    /// # Errors
    /// As [`TaskHandle::approve`].
    pub async fn deny(
        &self,
        approval_id: &str,
        reason: Option<&str>,
        by: impl Into<Principal>,
    ) -> Result<Committed, Error> {
        self.decide(approval_id, false, reason, by.into()).await
    }

    /// Returns the approvals that the task waits for, oldest first.
    ///
    /// # Errors
    /// As [`TaskHandle::snapshot`].
    pub async fn approvals(&self) -> Result<Vec<Approval>, Error> {
        Ok(self.snapshot().await?.task().awaited_approvals().cloned().collect())
    }

    /// Answers the question of a call that waits for it: the call is sent again and given the answer, and the task
    /// continues. The same answer again adds nothing. `by` names the person. `question` is the question's
    /// [`Call::question_id`], or the id of a call that has asked one question only.
    ///
    /// # Errors
    /// [`Error::Task`] if the call or question does not exist, does not wait for an answer, was answered before, or
    /// the id is that of a call with several questions.
    pub async fn answer(
        &self,
        question: &str,
        answer: impl Into<String>,
        by: impl Into<Principal>,
    ) -> Result<Committed, Error> {
        self.answer_call(question, Answer::Given(answer.into()), by.into()).await
    }

    /// Declines to answer the question of a call: the call is sent again, and its question returns an error with this
    /// reason.
    ///
    /// # Errors
    /// As [`TaskHandle::answer`].
    pub async fn decline(
        &self,
        question: &str,
        reason: &str,
        by: impl Into<Principal>,
    ) -> Result<Committed, Error> {
        self.answer_call(question, Answer::Declined(reason.to_owned()), by.into()).await
    }

    /// Returns the calls that wait for a person's answer, see [`Call::open_question`].
    ///
    /// # Errors
    /// As [`TaskHandle::snapshot`].
    pub async fn questions(&self) -> Result<Vec<Call>, Error> {
        Ok(questions(self.snapshot().await?.task()))
    }

    pub(crate) async fn answer_call(
        &self,
        question: &str,
        answer: Answer,
        by: Principal,
    ) -> Result<Committed, Error> {
        self.ask_as(TaskOp::AnswerCall { question: question.to_owned(), answer }, by).await
    }

    async fn decide(
        &self,
        approval_id: &str,
        approved: bool,
        reason: Option<&str>,
        by: Principal,
    ) -> Result<Committed, Error> {
        let (approval_id, reason) = (approval_id.to_owned(), reason.map(str::to_owned));
        let decided = ApprovalDecided { approval_id, approved, reason, decided_by: by.clone() };
        self.ask_as(TaskOp::Decide(decided), by).await
    }

    /// Sends a person's decision. The handle's own principal, if it has one, is who sent it.
    pub(crate) async fn ask_as(&self, op: TaskOp, by: Principal) -> Result<Committed, Error> {
        let system = self.system.get()?;
        let mut cause = system.cause()?;
        if cause.principal.name.is_empty() {
            cause.principal = by;
        }
        let mut message = ToTask::of_caller(self.stream.clone(), op);
        message.cause = cause;
        Ok(system.ask(message).await?.committed)
    }

    async fn resolve_call(
        &self,
        call_id: &str,
        resolution: CallResolution,
        by: Principal,
    ) -> Result<Committed, Error> {
        let op = TaskOp::ResolveCall { call_id: call_id.to_owned(), resolution, by: by.clone() };
        self.ask_as(op, by).await
    }

    /// Sends a command of your own, such as a message or metadata to add. Returns when it is on disk. A user's message
    /// without a tool call or prompt answers the question of a task that waits for one, as [`TaskHandle::answer`] does.
    ///
    /// # Errors
    /// [`Error::Task`] if the task rejects it, [`Error::NotForCallers`] for a command reserved to the system,
    /// or an error of the log.
    pub fn command(&self, command: TaskCommand) -> impl Future<Output = Result<Committed, Error>> + Send {
        let ours = match &command {
            TaskCommand::Call(_)
            | TaskCommand::AwaitAnswer { .. }
            | TaskCommand::OfHandler { .. }
            | TaskCommand::AppendInferMessage(_)
            | TaskCommand::Webhook(_)
            | TaskCommand::RequestApproval(_)
            | TaskCommand::DecideApproval(_) => true,
            TaskCommand::AppendArtifact { part, .. } => part.is_some(),
            TaskCommand::Submit(posted) => posted.id != self.id,
            _ => false,
        };
        // In a box from here on: it passes through many hands.
        let message = if ours {
            None
        } else {
            Some(ToTask::of_caller(self.stream.clone(), TaskOp::Command(Box::new(command))))
        };
        async move {
            let mut message = message.ok_or(Error::NotForCallers)?;
            let system = self.system.get()?;
            system.put_cause(&mut message.cause)?;
            let to_copy = system.keep_files(&self.id, &mut message).await?;
            let committed = system.ask(message).await?.committed;
            system.copy_files(to_copy).await;
            Ok(committed)
        }
    }

    /// Returns a feed of this task's live events from now on, which are not in its log: a model's answer as
    /// it arrives, and the progress reports of tools. They are hints: pieces may be dropped, and the listener
    /// then gets their number.
    pub fn live(&self) -> LiveFeed {
        self.system.live().listen(&self.stream)
    }

    /// Returns the task's newest run as Protolink streams it, from its beginning to its final status: past
    /// events first, then new ones as they come. For a task that does not exist yet it is the first run, so
    /// the stream may be taken before the task is submitted.
    ///
    /// # Errors
    /// [`Error::Read`] if the task's stream cannot be read.
    pub async fn events(&self) -> Result<TaskEvents, Error> {
        let system = self.system.get()?;
        let (store, stream) = (system.log(), self.stream.clone());
        let after = system.on_pool(move || Ok(before_last_run(store.as_ref(), &stream)?)).await?;
        Ok(self.events_after(after))
    }

    /// Returns events as [`TaskHandle::events`] does, but those after a version: for a continued task, the
    /// events that follow its [`TaskSnapshot::version`]. A task that was over at that version gives its final
    /// status once more, and nothing else.
    pub fn events_after(&self, version: Version) -> TaskEvents {
        self.events_from(version.into())
    }

    /// Returns the events after a place, which [`TaskEvents::resume_point`] names: what follows, without a gap and without
    /// a repetition, up to the final status. The pieces of an answer continue where they ended, or the rest of it comes
    /// once it is complete.
    pub fn events_from(&self, point: ResumePoint) -> TaskEvents {
        match self.system.get() {
            Ok(system) => system.task_events(&self.stream, point),
            Err(_) => TaskEvents::closed(),
        }
    }

    /// Sends a command.
    pub(crate) async fn tell(&self, op: TaskOp) -> Result<Committed, Error> {
        let mut message = ToTask::of_caller(self.stream.clone(), op);
        let system = self.system.get()?;
        system.put_cause(&mut message.cause)?;
        Ok(system.ask(message).await?.committed)
    }

    /// Sends a query.
    async fn ask(&self, op: TaskOp) -> Result<TaskSnapshot, Error> {
        let view = self.system.get()?.query(&self.stream, op).await?;
        let task = view.task.ok_or_else(|| Error::TaskNotFound(self.id.clone()))?;
        Ok(TaskSnapshot::new(task, view.committed.version))
    }
}

/// A task as it was on disk at one version.
#[derive(Debug, Clone)]
pub struct TaskSnapshot {
    task: Arc<Task>,
    version: Version,
}

impl TaskSnapshot {
    pub(crate) fn new(task: Arc<Task>, version: Version) -> Self {
        Self { task, version }
    }

    /// The task's lifecycle state.
    pub fn state(&self) -> TaskState {
        self.task.state()
    }

    /// The number of events in the task's stream.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The task's whole fold.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// The answer of a completed task: the content of the last part of its last item. A task in another state has none.
    pub fn answer(&self) -> Option<&JsonText> {
        self.task.last_part_content().filter(|_| self.state() == TaskState::Completed)
    }

    /// Returns the error of a failed task. What a task was posted with is not an error.
    pub fn error(&self) -> Option<String> {
        self.task.error()
    }

    /// Returns the task as Protolink's JSON.
    pub fn to_json(&self) -> JsonText {
        self.task.to_json()
    }
}
