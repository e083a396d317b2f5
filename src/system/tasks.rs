//! Tasks and sessions of a system: submitting, handles, cancellation, approvals, states of the past.

use std::sync::Arc;

use proto_events::codec::CodecError;
use proto_events::envelope::{Committed, OWN_COMMAND, Principal};
use proto_events::id::{Digest, StreamId, Version, check_id};
use proto_events::limits::PAYLOAD_BYTES_MAX;
use proto_events::model::{Part, PostedTask};
use proto_events::task::{Approval, Task, TaskRejection};
use taskreel_log::read::fold_stream;

use crate::actors::shared::messages::{Cause, TaskOp, TaskView, ToTask};
use crate::error::Error;
use crate::system::handle::{Caller, System};
use crate::system::handles::{TaskHandle, TaskSnapshot};
use crate::system::input::TaskInput;
use crate::system::run_keys::check_deadline;
use crate::system::session::SessionHandle;
use crate::system::weak::WeakSystem;

/// The number of ids made for one task before the source of ids is considered broken.
const ID_TRIES: usize = 8;

impl System {
    /// Accepts a task and works on it. A part or message becomes a task of its own; of a task with a known
    /// id, only what is new is added. Returns when the task is on disk.
    ///
    /// # Errors
    /// [`Error::Task`] if a task with this id has other content or is running, or an error of the log. Where too much is
    /// queued it waits for room; [`System::try_submit`] does not.
    pub async fn submit(&self, input: impl Into<TaskInput>) -> Result<TaskHandle, Error> {
        self.submit_new(input.into(), None).await
    }

    /// Submits as [`System::submit`] does, but does not wait for room.
    ///
    /// # Errors
    /// As [`System::submit`], and [`Error::Overloaded`] if too much is queued; nothing was done then.
    pub async fn try_submit(&self, input: impl Into<TaskInput>) -> Result<TaskHandle, Error> {
        let caller = Caller { is_impatient: true, ..Caller::clone(&self.caller) };
        let system = Self { inner: Arc::clone(&self.inner), caller: Arc::new(caller) };
        let task = system.submit_new(input.into(), None).await?;
        self.task(task.id())
    }

    /// Submits as [`System::submit`], under a command id: the same id with the same task gets the first
    /// answer again, also after a crash. A task that was read from a text without an id takes its id from the
    /// command's, so that the same text read again is the same task.
    ///
    /// # Errors
    /// As [`System::submit`], [`Error::CommandIdReused`], and [`Error::ReservedCommandId`] for an id that begins
    /// with `~`.
    pub async fn submit_once(&self, command_id: &str, mut task: PostedTask) -> Result<TaskHandle, Error> {
        if !task.names_id() {
            task.id = id_for(command_id);
        }
        let system = self.once(command_id);
        system.submit_as(task, system.cause()?).await
    }

    /// Returns a handle whose commands are recorded under this principal: the records and the approvals
    /// name it. A name alone ([`Principal::asserted`]) is what the caller says; a host that has checked a
    /// credential gives [`Principal::authenticated`].
    #[must_use]
    pub fn acting_as(&self, principal: impl Into<Principal>) -> Self {
        let caller = Caller { principal: principal.into(), ..Caller::clone(&self.caller) };
        Self { inner: Arc::clone(&self.inner), caller: Arc::new(caller) }
    }

    /// Returns a handle for one command under an id of the caller's own: the same id with the same command
    /// gets the first answer again, also after a crash; with another command it is refused
    /// ([`Error::CommandIdReused`]). A command whose answer was lost is sent again in this way, under the id that the
    /// error names ([`Error::command_id`]). A caller that may give up waiting chooses the id itself, before it sends.
    #[must_use]
    pub fn once(&self, command_id: &str) -> Self {
        let caller = Caller { command_id: Some(command_id.to_owned()), ..Caller::clone(&self.caller) };
        Self { inner: Arc::clone(&self.inner), caller: Arc::new(caller) }
    }

    /// Returns the cause of a command that is sent through this handle.
    ///
    /// # Errors
    /// [`Error::Id`] or [`Error::ReservedCommandId`] for a command id that no caller may use.
    pub(crate) fn cause(&self) -> Result<Cause, Error> {
        let mut cause = Cause::default();
        self.put_cause(&mut cause)?;
        Ok(cause)
    }

    /// Puts in place what [`System::cause`] returns.
    pub(crate) fn put_cause(&self, cause: &mut Cause) -> Result<(), Error> {
        let Caller { principal, command_id, causation_id, .. } = &*self.caller;
        if let Some(command_id) = command_id {
            check_id(command_id)?;
            if command_id.starts_with(OWN_COMMAND) {
                return Err(Error::ReservedCommandId { command_id: command_id.clone() });
            }
            cause.command_id.clone_from(command_id);
            cause.may_repeat = true;
        }
        if let Some(approval_id) = causation_id {
            cause.causation_id.clone_from(approval_id);
        }
        cause.principal.clone_from(principal);
        self.inner.figures.command();
        Ok(())
    }

    /// Submits under an id of our own. Such ids are short enough to collide by chance, so a collision gets
    /// another id.
    pub(crate) async fn submit_new(
        &self,
        input: TaskInput,
        session: Option<&str>,
    ) -> Result<TaskHandle, Error> {
        if !self.makes_ids_of(&input) {
            let (posted, cause) = self.prepared(input, session)?;
            return self.submit_as(posted, cause).await;
        }
        let made = &|| self.prepared(input.clone(), session);
        with_new_id(move || async move {
            let (posted, cause) = made()?;
            self.submit_as(posted, cause).await
        })
        .await
    }

    /// Whether a task of this input has an id that is made anew for each try.
    pub(crate) fn makes_ids_of(&self, input: &TaskInput) -> bool {
        self.caller.command_id.is_none() && !matches!(input, TaskInput::Task(_))
    }

    /// Returns the task of an input as it is submitted, and the cause of that.
    pub(crate) fn prepared(
        &self,
        input: TaskInput,
        session: Option<&str>,
    ) -> Result<(PostedTask, Cause), Error> {
        let ours = !matches!(input, TaskInput::Task(_));
        let source = input.source(session);
        let mut posted = input.into_task(session, &mut self.inner.ports.clone())?;
        let Some(command_id) = &self.caller.command_id else {
            let cause = self.complete(&mut posted, ours)?;
            return Ok((posted, cause));
        };
        // The task's id comes from the command's, so that the command repeated is the same task.
        posted.source = posted.source.or(source);
        self.add_defaults(&mut posted);
        if ours || !posted.names_id() {
            posted.id = id_for(command_id);
        }
        Ok((posted, self.cause()?))
    }

    /// Adds what a task lacks, and returns the cause of its submission; `ours` if we made its id.
    pub(crate) fn complete(&self, posted: &mut PostedTask, ours: bool) -> Result<Cause, Error> {
        self.add_defaults(posted);
        let mut cause = self.cause()?;
        if (ours || !posted.names_id()) && is_ours(&posted.id) {
            // Sent again under the id that an error names, it is the same task.
            cause.command_id.clone_from(&posted.id);
        }
        Ok(cause)
    }

    pub(crate) async fn submit_as(&self, posted: PostedTask, cause: Cause) -> Result<TaskHandle, Error> {
        Ok(self.submitted_as(posted, cause).await?.0)
    }

    /// Submits, and returns the reply of the task's actor too.
    pub(crate) async fn submitted_as(
        &self,
        posted: PostedTask,
        cause: Cause,
    ) -> Result<(TaskHandle, TaskView), Error> {
        self.refuse_if_stopping()?;
        check_deadline(&posted.metadata, &self.own_agent().agent)?;
        check_size(&posted, |part| !self.own_agent().agent.files.may_take(part))?;
        // The id was for this command alone; the handle sends others.
        let caller = Caller { command_id: None, ..Caller::clone(&self.caller) };
        let system = Self { inner: Arc::clone(&self.inner), caller: Arc::new(caller) };
        let handle = system.task(&posted.id)?;
        let mut command = ToTask::of_caller(handle.stream().clone(), TaskOp::Submit(Box::new(posted)));
        command.cause = cause;
        let to_copy = self.keep_files(handle.id(), &mut command).await?;
        if let TaskOp::Submit(posted) = &command.op {
            check_size(posted, |_| true)?;
        }
        // Files are copied once the task is on disk, and not at its end.
        command.cause.awaits_end &= to_copy.is_empty();
        let reply = self.ask_patiently(command).await?;
        self.copy_files(to_copy).await;
        Ok((handle, reply))
    }

    /// Returns a handle on a task, whether it exists yet or not. A handle does not keep the system running.
    ///
    /// # Errors
    /// [`Error::Id`] if this cannot be an id.
    pub fn task(&self, id: &str) -> Result<TaskHandle, Error> {
        let stream = StreamId::task(self.agent_name(), id)?;
        Ok(TaskHandle::new(WeakSystem::from_system(self), id.to_owned(), stream))
    }

    /// Returns a handle on a conversation, which opens with its first turn. It does not keep the system running.
    pub fn session(&self, id: &str) -> SessionHandle {
        SessionHandle::new(WeakSystem::from_system(self), id.to_owned())
    }

    /// Cancels a task: its open calls are closed and it is canceled, on disk, before this returns.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], or [`Error::TaskNotCancelable`] if it is over.
    pub async fn cancel(&self, id: &str, reason: Option<&str>) -> Result<Committed, Error> {
        self.task(id)?.cancel(reason).await
    }

    /// Returns the approvals that a task waits for, oldest first.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], or an error of the log.
    pub async fn approvals(&self, id: &str) -> Result<Vec<Approval>, Error> {
        self.task(id)?.approvals().await
    }

    /// Approves a call that a task waits to make, see [`TaskHandle::approve`].
    ///
    /// # Errors
    /// As [`TaskHandle::approve`].
    pub async fn approve(
        &self,
        id: &str,
        approval_id: &str,
        by: impl Into<Principal>,
    ) -> Result<Committed, Error> {
        self.task(id)?.approve(approval_id, by).await
    }

    /// Denies a call that a task waits to make, see [`TaskHandle::deny`].
    ///
    /// # Errors
    /// As [`TaskHandle::approve`].
    pub async fn deny(
        &self,
        id: &str,
        approval_id: &str,
        reason: Option<&str>,
        by: impl Into<Principal>,
    ) -> Result<Committed, Error> {
        self.task(id)?.deny(approval_id, reason, by).await
    }

    /// Answers the question of a call of a task, see [`TaskHandle::answer`].
    ///
    /// # Errors
    /// As [`TaskHandle::answer`].
    pub async fn answer(
        &self,
        id: &str,
        question: &str,
        answer: impl Into<String>,
        by: impl Into<Principal>,
    ) -> Result<Committed, Error> {
        self.task(id)?.answer(question, answer, by).await
    }

    /// Returns a task as it was after its first `version` events, from the log alone.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], [`Error::NoSuchVersion`], or an error of reading the log.
    pub async fn state_at(&self, id: &str, version: Version) -> Result<TaskSnapshot, Error> {
        let stream = StreamId::task(self.agent_name(), id)?;
        let store = self.log();
        let read = move || fold_stream::<Task>(store.as_ref(), &stream, Some(version));
        let folded = self.on_pool(move || Ok(read()?)).await?;
        if !folded.state.exists() {
            return Err(Error::TaskNotFound(id.to_owned()));
        }
        if folded.version < version {
            return Err(Error::NoSuchVersion { id: id.to_owned(), asked: version, actual: folded.version });
        }
        Ok(TaskSnapshot::new(Arc::new(folded.state), folded.version))
    }
}

/// Checks the size of a task before any of its texts is read: an event has a limit, and reading costs seconds. Of its artifacts the
/// parts that count are summed up.
fn check_size(posted: &PostedTask, counts: impl Fn(&Part) -> bool) -> Result<(), Error> {
    let of_part = |part: &Part| part.content().as_str().len();
    let messages = posted.messages.iter().flat_map(|message| &message.parts).map(of_part);
    let artifacts = posted.artifacts.iter().flat_map(|artifact| &artifact.parts);
    let artifacts = artifacts.filter(|part| counts(part)).map(of_part);
    let values = posted.metadata.iter().map(|(_, value)| value.as_str().len());
    let bytes: usize = messages.chain(artifacts).chain(values).sum();
    if bytes <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    Err(CodecError::TooLarge { bytes, limit: PAYLOAD_BYTES_MAX }.into())
}

/// Whether an id has the form of those that we make for tasks: `task_<14 digits>_<8 hex digits>`.
fn is_ours(id: &str) -> bool {
    let parts = id.strip_prefix("task_").and_then(|rest| rest.split_once('_'));
    let is_stamp = |text: &str| text.len() == 14 && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_random = |text: &str| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.is_some_and(|(stamp, random)| is_stamp(stamp) && is_random(random))
}

/// Returns the id of a task whose text names none: the same for the same command id. A command that was sent without an
/// id of the caller's has the id that was made for its task.
pub(crate) fn id_for(command_id: &str) -> String {
    if is_ours(command_id) {
        return command_id.to_owned();
    }
    let digest = Digest::of_parts(&[b"taskreel.task\0", command_id.as_bytes()]).to_string();
    format!("task_{}", digest.get(..32).unwrap_or_default())
}

/// Submits a new task, and once more if there is one with the id that was made for it.
pub(crate) async fn with_new_id<T, F>(submit: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for _ in 0..ID_TRIES {
        match submit().await {
            Err(Error::Task(TaskRejection::Differs { .. } | TaskRejection::AlreadyRunning(_))) => {}
            answer => return answer,
        }
    }
    Err(Error::Internal("no unused task id was generated; the id source repeats itself".to_owned()))
}
