//! The handle that embedders hold: starts the actors on a thread of their own, takes work in, shows what
//! became of it, stops. Works from any tokio runtime, the one of a test included.

mod builder;
mod handles;
mod operator;
mod peer;
mod reopen;
mod running;
mod task_events;
mod thread;
mod tools;

pub use crate::actors::live::{Live, LiveFeed};
pub use builder::Builder;
pub use handles::{SessionHandle, TaskHandle, TaskInput, TaskSnapshot};
pub use operator::{Decided, Operator};
pub use peer::SystemPeer;
pub use reopen::Reopened;
pub use task_events::{TaskEvents, TaskStreamEvent, Tells};

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use actix::prelude::SendError;
use proto_events::id::{Mint, Position, StreamId, Version, check_id};
use proto_events::model::PostedTask;
use proto_events::session::Session;
use proto_events::task::{Approval, Task, TaskRejection};
use tokio::sync::oneshot;

use crate::actors::messages::{Cause, LookAtSession, TaskOp, TaskView, ToTask};
use crate::actors::router::Drain;
use crate::actors::shared::Parts;
use crate::actors::spans::Within;
use crate::actors::supervisor::{CountLive, Settle};
use crate::error::Error;
use crate::limits::DOOR_COMMANDS;
use crate::store::fold::fold_stream;
use crate::store::{EventStore, Subscription};

use self::running::{Actors, Running};

/// How many ids are made for one task before the source of ids is held to be broken.
const ID_TRIES: usize = 8;

/// A running system over one log. Cheap to clone; all clones are the same system.
///
/// Dropping the last one without [`System::shutdown`] loses nothing that was acknowledged; calls in flight
/// are then dealt with at the next start, as after a crash.
#[derive(Clone)]
pub struct System {
    inner: Arc<Inner>,
}

struct Inner {
    agent: String,
    ports: crate::ports::Ports,
    running: RwLock<Arc<Running>>,
    /// Whoever sends something holds it for reading, reopening for writing.
    gate: tokio::sync::RwLock<()>,
    /// Held while the system is opened anew or shut down.
    changing: tokio::sync::Mutex<()>,
    stopping: Arc<AtomicBool>,
    own_runtime: Option<tokio::runtime::Runtime>,
}

impl std::fmt::Debug for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("System").field("agent", &self.inner.agent).finish_non_exhaustive()
    }
}

impl System {
    /// Begins to describe a system over the log in this directory, which is made if it is not there.
    pub fn builder(path: impl Into<PathBuf>) -> Builder {
        Builder::new(path.into())
    }

    /// Takes a task in and works on it. A part or message becomes a task of its own; a task with a known id
    /// is taken for what is new in it. Returns when the task is on disk.
    ///
    /// # Errors
    /// [`Error::Task`] if a task with this id says something else or is running, [`Error::Overloaded`] if
    /// too much waits, or what the log answers.
    pub async fn submit(&self, input: impl Into<TaskInput>) -> Result<TaskHandle, Error> {
        self.submit_new(input.into(), None).await
    }

    /// As [`System::submit`], under a command id: the same id with the same task gets the first answer
    /// again, also after a crash.
    ///
    /// # Errors
    /// As [`System::submit`], and [`Error::CommandIdReused`].
    pub async fn submit_once(&self, command_id: &str, task: PostedTask) -> Result<TaskHandle, Error> {
        check_id(command_id)?;
        let cause = Cause { command_id: command_id.to_owned(), may_repeat: true, ..Cause::default() };
        self.submit_as(task, cause).await
    }

    /// Submits under an id that we make; made ids are short enough to meet by chance, so a clash gets another.
    pub(crate) async fn submit_new(
        &self,
        input: TaskInput,
        session: Option<&str>,
    ) -> Result<TaskHandle, Error> {
        let ours = !matches!(input, TaskInput::Task(_));
        for _ in 0..ID_TRIES {
            let posted = input.clone().into_task(session, &mut self.inner.ports.clone())?;
            match self.submit_as(posted, Cause::default()).await {
                Err(Error::Task(TaskRejection::Differs { .. } | TaskRejection::AlreadyRunning(_)))
                    if ours => {}
                answer => return answer,
            }
        }
        Err(Error::Internal("no new task id could be made; is the source of ids broken?".to_owned()))
    }

    pub(crate) async fn submit_as(&self, posted: PostedTask, cause: Cause) -> Result<TaskHandle, Error> {
        let handle = self.task(&posted.id)?;
        self.ask(handle.stream().clone(), TaskOp::Submit(Box::new(posted)), cause).await?;
        Ok(handle)
    }

    /// A handle on a task, whether it exists yet or not.
    ///
    /// # Errors
    /// [`Error::Id`] if this cannot be an id.
    pub fn task(&self, id: &str) -> Result<TaskHandle, Error> {
        let stream = StreamId::task(&self.inner.agent, id)?;
        Ok(TaskHandle::new(self.clone(), id.to_owned(), stream))
    }

    /// A handle on a conversation, which opens with its first turn.
    pub fn session(&self, id: &str) -> SessionHandle {
        SessionHandle::new(self.clone(), id.to_owned())
    }

    /// Gives a task up: its open calls are closed and it is canceled, on disk, before this returns.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], or [`Error::TaskNotCancelable`] if it is over.
    pub async fn cancel(&self, id: &str, reason: Option<&str>) -> Result<TaskSnapshot, Error> {
        self.task(id)?.cancel(reason).await
    }

    /// The approvals that a task waits for, oldest first.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], or what the log answers.
    pub async fn approvals(&self, id: &str) -> Result<Vec<Approval>, Error> {
        self.task(id)?.approvals().await
    }

    /// Approves a call that a task waits to make, see [`TaskHandle::approve`].
    ///
    /// # Errors
    /// As [`TaskHandle::approve`].
    pub async fn approve(&self, id: &str, approval_id: &str, by: &str) -> Result<TaskSnapshot, Error> {
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
        by: &str,
    ) -> Result<TaskSnapshot, Error> {
        self.task(id)?.deny(approval_id, reason, by).await
    }

    /// Follows the whole log from a position: 1 is the first event.
    pub fn subscribe(&self, from: Position) -> Subscription {
        Subscription::all(self.log(), from)
    }

    /// Follows one task from a version: 1 is its first event.
    ///
    /// # Errors
    /// [`Error::Id`] if this cannot be an id.
    pub fn subscribe_task(&self, id: &str, from: Version) -> Result<Subscription, Error> {
        let stream = StreamId::task(&self.inner.agent, id)?;
        Ok(Subscription::stream(self.log(), stream, from))
    }

    /// A task as it was after its first `version` events, from the log alone.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], [`Error::NoSuchVersion`], or what reading the log answers.
    pub async fn state_at(&self, id: &str, version: Version) -> Result<TaskSnapshot, Error> {
        let stream = StreamId::task(&self.inner.agent, id)?;
        let store = self.log();
        let read = move || fold_stream::<Task>(store.as_ref(), &stream, Some(version));
        let folded = blocking(read).await??;
        if !folded.state.exists() {
            return Err(Error::TaskNotFound(id.to_owned()));
        }
        if folded.version < version {
            return Err(Error::NoSuchVersion { id: id.to_owned(), asked: version, actual: folded.version });
        }
        Ok(TaskSnapshot::new(Arc::new(folded.state), folded.version))
    }

    /// The log under this system, for reading: audit and inspection take nothing more. After
    /// [`System::reopen`] it is another.
    pub fn log(&self) -> Arc<dyn EventStore> {
        self.inner.running().store()
    }

    /// Refuses new work, lets calls in flight end or reach their deadline, stops the actors, makes all that
    /// was queued durable and lets go of the log. What was interrupted between two calls goes on at the next
    /// start.
    ///
    /// # Errors
    /// [`Error::Internal`] if something could not be finished; nothing acknowledged is lost then either.
    pub async fn shutdown(self) -> Result<(), Error> {
        if self.inner.stopping.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let _nobody_reopens_meanwhile = self.inner.changing.lock().await;
        let running = self.inner.running();
        if let Ok(actors) = running.actors() {
            // What was being written when the door closed may send calls off; their outcomes are to be written too.
            settle(actors).await;
            let (reply, drained) = oneshot::channel();
            actors.router.do_send(Drain { reply });
            let _a_router_that_is_gone_has_nothing_in_flight = drained.await;
            settle(actors).await;
        }
        running.parts.live.close();
        let store = running.store();
        let closed = blocking(move || store.close()).await?;
        if let Ok(actors) = running.actors() {
            actors.thread.stop();
        }
        let _without_actors_there_is_no_thread =
            blocking(move || running.actors().map(|actors| actors.thread.join())).await?;
        closed.map_err(|error| Error::Internal(error.to_string()))
    }

    /// How many tasks are awake: at work, or used a moment ago. Those asleep cost no memory but the log's index.
    ///
    /// # Errors
    /// [`Error::Stopped`] after a shutdown.
    pub async fn live_tasks(&self) -> Result<usize, Error> {
        Ok(self.count_live().await?.0)
    }

    /// How many sessions are awake: somebody has the turn or waits for it, or had it a moment ago.
    ///
    /// # Errors
    /// [`Error::Stopped`] after a shutdown.
    pub async fn live_sessions(&self) -> Result<usize, Error> {
        Ok(self.count_live().await?.1)
    }

    async fn count_live(&self) -> Result<(usize, usize), Error> {
        let running = self.inner.running();
        running.actors()?.supervisor.send(CountLive).await.map_err(|_| Error::Stopped)
    }

    /// Sends an operation to a task's actor and waits for its answer. A caller that goes away cancels
    /// nothing.
    pub(crate) async fn ask(
        &self,
        stream: StreamId,
        op: TaskOp,
        mut cause: Cause,
    ) -> Result<TaskView, Error> {
        let mut mint = self.inner.ports.clone();
        if cause.command_id.is_empty() {
            cause.command_id = mint.uuid();
        }
        if cause.correlation_id.is_empty() {
            cause.correlation_id.clone_from(&cause.command_id);
        }
        cause.caller = Within(tracing::Span::current());
        let is_query = op.is_query();
        let mut kept = Some((op, cause));
        let send = |actors: &Actors, reply| {
            let said = if is_query { kept.clone() } else { kept.take() };
            let (op, cause) = said.ok_or_else(|| Error::Internal("a command was sent twice".to_owned()))?;
            let message = ToTask { stream: stream.clone(), op, cause, reply: Some(reply) };
            actors.supervisor.try_send(message).map_err(|refused| match refused {
                SendError::Full(_) => Error::Overloaded { waiting: DOOR_COMMANDS },
                SendError::Closed(_) => Error::Stopped,
            })
        };
        self.exchange(&stream, is_query, send).await
    }

    pub(crate) async fn look_at_session(&self, id: &str) -> Result<Session, Error> {
        let stream = StreamId::session(&self.inner.agent, id)?;
        let send = |actors: &Actors, reply| {
            actors.supervisor.do_send(LookAtSession { stream: stream.clone(), reply });
            Ok(())
        };
        let (session, _) = self.exchange(&stream, true, send).await?;
        Ok(session)
    }

    /// Sends something to the actors of the moment and waits for the answer. What only asks is asked again if the
    /// log was opened anew before it was answered.
    async fn exchange<T>(
        &self,
        stream: &StreamId,
        is_query: bool,
        mut send: impl FnMut(&Actors, oneshot::Sender<Result<T, Error>>) -> Result<(), Error>,
    ) -> Result<T, Error> {
        loop {
            let (reply, answer) = oneshot::channel();
            let asked = {
                self.refuse_if_stopping()?;
                let _not_while_reopening = self.inner.gate.read().await;
                self.refuse_if_stopping()?;
                let running = self.inner.running();
                send(running.actors()?, reply)?;
                running
            };
            if let Ok(answer) = answer.await {
                return answer;
            }
            let _reopening_is_over = self.inner.gate.read().await;
            if !is_query || Arc::ptr_eq(&asked, &self.inner.running()) {
                return Err(Error::Interrupted { stream: stream.to_string() });
            }
        }
    }

    /// Ends the actors' thread at once, as a crash would: what runs is dropped, nothing is told to anyone.
    #[cfg(feature = "testing")]
    pub(crate) async fn drop_dead(self) -> Result<(), Error> {
        let running = self.inner.running();
        running.actors()?.thread.stop();
        blocking(move || running.actors().map(|actors| actors.thread.join())).await?
    }

    fn refuse_if_stopping(&self) -> Result<(), Error> {
        if self.inner.stopping.load(Ordering::Acquire) { Err(Error::Stopped) } else { Ok(()) }
    }
}

impl Inner {
    /// What runs at the moment.
    fn running(&self) -> Arc<Running> {
        Arc::clone(&self.running.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another in its place.
    fn put(&self, running: Running) {
        *self.running.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(running);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.running().parts.live.close();
        if let Ok(actors) = self.running().actors() {
            actors.thread.stop();
        }
        if let Some(runtime) = self.own_runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Waits until every task's actor has carried out what waits in its mailbox now.
async fn settle(actors: &Actors) {
    let (reply, settled) = oneshot::channel();
    actors.supervisor.do_send(Settle { reply });
    let _an_arbiter_that_is_gone_is_settled = settled.await;
}

/// Runs what blocks where blocking is allowed.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|panic| Error::Internal(panic.to_string()))
}

/// Starts a system.
fn assemble(
    agent: String,
    parts: Parts,
    open: Vec<StreamId>,
    own_runtime: Option<tokio::runtime::Runtime>,
) -> Result<System, Error> {
    let (doors, stopping) = (parts.ports.clone(), Arc::clone(&parts.stopping));
    let running = RwLock::new(Arc::new(Running::start(parts, open)?));
    let (gate, changing) = (tokio::sync::RwLock::new(()), tokio::sync::Mutex::new(()));
    let inner = Inner { agent, ports: doors, running, gate, changing, stopping, own_runtime };
    Ok(System { inner: Arc::new(inner) })
}
