//! The handle that embedders hold on a running system.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use actix::prelude::SendError;
use proto_events::envelope::Principal;
use proto_events::id::{Mint as _, Position, StreamId, Version};
use proto_events::session::Session;
use taskreel_log::api::{AppendError, EventStore, ReadError};
use taskreel_log::read::Subscription;
use tokio::sync::oneshot;

use crate::actors::shared::figures::Figures;
use crate::actors::shared::messages::{NotDone, TaskOp, TaskReply, TaskView, ToTask};
use crate::actors::shared::turns::LookAtSession;
use crate::actors::shared::within::Within;
use crate::actors::supervisor::CountLive;
use crate::error::Error;
use crate::limits::{ROOM_FIRST, ROOM_LONGEST, SUPERVISOR_MAILBOX};
use crate::system::calls_runtime::entered;
use crate::system::command_id::SentId;
use crate::system::gate::Gate;
use crate::system::known_agent::KnownAgent;
use crate::system::running_system::{Actors, RunningSystem};
#[cfg(unix)]
use crate::system::socket_registry::SystemSocket;

/// A running system over one log, and one of its agents. Cheap to clone; all clones are the same system.
///
/// Its tasks and sessions belong to that agent: the first one, which the [`Builder`](crate::Builder) describes, unless
/// the handle is from [`System::agent`]. What concerns the log, the threads and the end is the whole system's.
///
/// ```
/// use taskreel::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), taskreel::Error> {
/// # let store = std::sync::Arc::new(taskreel::log::memory::MemoryStore::new());
/// let system = System::builder("./log");
/// # let system = system.store(store);
/// let system = system.start().await?;
/// let task = system.submit(Part::text("A note")).await?;
/// assert_eq!(task.finished().await?.state(), TaskState::Completed);
/// assert!(system.waiting().await?.is_empty(), "nothing waits for a person");
/// assert!(system.health().await?.open);
/// system.shutdown().await
/// # }
/// ```
///
/// Dropping the last clone without [`System::shutdown`] loses nothing that was acknowledged; calls in flight
/// are then handled at the next start, as after a crash.
#[derive(Clone)]
pub struct System {
    pub(crate) inner: Arc<Inner>,
    pub(crate) caller: Arc<Caller>,
}

/// The sender of the commands of a handle, and the agent that they address.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) agent: Arc<KnownAgent>,
    pub(crate) principal: Principal,
    /// The caller's own id for its next command.
    pub(crate) command_id: Option<String>,
    /// The approval under which the commands are sent.
    pub(crate) causation_id: Option<String>,
    /// Whether a submission is refused where a mailbox is full; otherwise it waits for room.
    pub(crate) is_impatient: bool,
}

impl Caller {
    /// Returns a caller of this agent that is not named.
    pub(crate) fn from_agent(agent: Arc<KnownAgent>) -> Self {
        Self {
            agent,
            principal: Principal::default(),
            command_id: None,
            causation_id: None,
            is_impatient: false,
        }
    }
}

pub(crate) struct Inner {
    #[cfg(unix)]
    pub(crate) socket: SystemSocket,
    /// The agents, the first one first.
    pub(crate) agents: Box<[Arc<KnownAgent>]>,
    pub(crate) ports: taskreel_log::ports::Ports,
    pub(crate) running: RwLock<Arc<RunningSystem>>,
    /// Closed while the log is reopened.
    pub(crate) gate: Gate,
    /// Held while the system is reopened or shut down.
    pub(crate) changing: tokio::sync::Mutex<Phase>,
    pub(crate) stopping: Arc<AtomicBool>,
    /// The counts of commands and calls.
    pub(crate) figures: Arc<Figures>,
    pub(crate) own_runtime: Option<tokio::runtime::Runtime>,
    /// The directory of the log, unless the host gave a store.
    pub(crate) dir: Option<PathBuf>,
}

/// The phase of a system: running, or shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The system has actors, or is being reopened.
    Running,
    /// The system has released its log.
    Stopped,
}

impl std::fmt::Debug for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("System").field("agent", &self.agent_name()).finish_non_exhaustive()
    }
}

impl System {
    /// Follows the whole log from a position: 1 is the first event.
    pub fn subscribe(&self, from: Position) -> Subscription {
        Subscription::all(self.log(), from)
    }

    /// Follows one task from a version: 1 is its first event.
    ///
    /// # Errors
    /// [`Error::Id`] if this cannot be an id.
    pub fn subscribe_task(&self, id: &str, from: Version) -> Result<Subscription, Error> {
        let stream = StreamId::task(self.agent_name(), id)?;
        Ok(Subscription::stream(self.log(), stream, from))
    }

    /// Carries out blocking work, such as reading of the log, from any thread.
    pub(crate) async fn on_pool<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let calls = self.inner.running().parts.calls.clone();
        let done = entered(calls, blocking(work)).await?;
        done.map_err(|error| self.of_ending(error))
    }

    /// Returns the log under this system, for readers such as [`audit`](taskreel_log::audit).
    /// [`System::reopen`] replaces it.
    pub fn log(&self) -> Arc<dyn EventStore> {
        self.inner.running().store()
    }

    /// Returns the number of live tasks of the whole system: at work, or used a moment ago. Passivated ones cost no memory but
    /// the log's index.
    ///
    /// # Errors
    /// [`Error::Stopped`] after a shutdown.
    pub async fn live_tasks(&self) -> Result<usize, Error> {
        Ok(self.count_live().await?.0)
    }

    /// Returns the number of calls that were given up (canceled, or past their time limit) and go on all the same,
    /// because their work cannot be stopped: a function that is not async, or code that blocks its thread. Each
    /// keeps a thread; a spare takes the place of its permit, as many as the limit of concurrent calls allows.
    pub fn stuck_calls(&self) -> usize {
        self.inner.running().parts.stuck.load(Ordering::Relaxed)
    }

    /// Returns the number of live sessions of the whole system: a task has the turn or waits for it, or had it a moment ago.
    ///
    /// # Errors
    /// [`Error::Stopped`] after a shutdown.
    pub async fn live_sessions(&self) -> Result<usize, Error> {
        Ok(self.count_live().await?.1)
    }

    pub(crate) async fn count_live(&self) -> Result<(usize, usize), Error> {
        let running = self.inner.running();
        let mut live = (0, 0);
        for supervisor in &running.actors()?.supervisors {
            let (tasks, sessions) = supervisor.send(CountLive).await.map_err(|_| Error::Stopped)?;
            live = (live.0 + tasks, live.1 + sessions);
        }
        Ok(live)
    }

    /// Sends a command to a task's actor and waits for its reply. A caller that goes away cancels nothing.
    pub(crate) async fn ask(&self, command: Box<ToTask>) -> Result<TaskView, Error> {
        self.ask_once(command).await.map_err(|not_done| not_done.error)
    }

    /// Sends a command as [`System::ask`] does, and returns it if a mailbox is full: nothing was done then.
    async fn ask_once(&self, mut command: Box<ToTask>) -> TaskReply {
        let cause = &mut command.cause;
        let id = SentId::new(cause, &self.inner.ports);
        cause.caller = Within(tracing::Span::current());
        let stream = command.stream.clone();
        let mut kept = Some(command);
        let send = |actors: &Actors, reply| {
            let mut message = kept.take().ok_or_else(|| {
                Error::Internal("the command was already taken from its message".to_owned())
            })?;
            message.reply = Some(reply);
            actors.to_task.try_send(message).map_err(|refused| match refused {
                SendError::Full(unsent) => {
                    kept = Some(unsent);
                    Error::Overloaded { waiting: SUPERVISOR_MAILBOX, command_id: id.text() }
                }
                SendError::Closed(_) => Error::Stopped,
            })
        };
        match self.exchange(&stream, Some(&id), send).await {
            Ok(reply) => reply.map_err(|NotDone { error, unsent }| {
                let error = self.of_sent(error, Some(&id));
                NotDone { error, unsent }
            }),
            Err(error) => Err(NotDone { error, unsent: kept }),
        }
    }

    /// Sends a command as [`System::ask`] does, and waits for room where a mailbox is full: nothing was done then.
    pub(crate) async fn ask_patiently(&self, mut command: Box<ToTask>) -> Result<TaskView, Error> {
        let mut wait = ROOM_FIRST;
        loop {
            match self.ask_once(command).await {
                Err(NotDone { error: Error::Overloaded { .. }, unsent: Some(unsent) })
                    if !self.caller.is_impatient =>
                {
                    command = unsent;
                }
                reply => return reply.map_err(|not_done| not_done.error),
            }
            self.wait_for_room(&mut wait).await;
        }
    }

    /// Waits a little where a mailbox is full, each time longer.
    async fn wait_for_room(&self, wait: &mut Duration) {
        let (calls, clock) = (self.inner.running().parts.calls.clone(), &self.inner.ports.clock);
        entered(calls, clock.sleep(*wait)).await;
        *wait = wait.saturating_mul(2).min(ROOM_LONGEST);
    }

    /// Sends a query to a task's actor and waits for its reply. Where a mailbox is full it waits for room: one that is refused
    /// would look like a command that was.
    pub(crate) async fn query(&self, stream: &StreamId, op: TaskOp) -> Result<TaskView, Error> {
        let mut wait = ROOM_FIRST;
        loop {
            match self.query_once(stream, &op).await {
                Err(Error::Overloaded { .. }) if !self.caller.is_impatient => {}
                answer => return answer,
            }
            self.wait_for_room(&mut wait).await;
        }
    }

    async fn query_once(&self, stream: &StreamId, op: &TaskOp) -> Result<TaskView, Error> {
        let send = |actors: &Actors, reply| {
            let mut message = ToTask::of_caller(stream.clone(), op.clone());
            message.reply = Some(reply);
            actors.to_task.try_send(message).map_err(|refused| match refused {
                SendError::Full(_) => {
                    Error::Overloaded { waiting: SUPERVISOR_MAILBOX, command_id: String::new() }
                }
                SendError::Closed(_) => Error::Stopped,
            })
        };
        let reply = self.exchange(stream, None, send).await?;
        reply.map_err(|not_done| self.of_sent(not_done.error, None))
    }

    pub(crate) async fn look_at_session(&self, id: &str) -> Result<Session, Error> {
        let stream = StreamId::session(self.agent_name(), id)?;
        let send = |actors: &Actors, reply| {
            let supervisor = actors.supervisor_of(&stream).ok_or(Error::Stopped)?;
            supervisor.do_send(LookAtSession { stream: stream.clone(), reply });
            Ok(())
        };
        let session = self.exchange(&stream, None, send).await?;
        let (session, _) = session.map_err(|error| self.of_sent(error, None))?;
        Ok(session)
    }

    /// Sends a message to the current actors and waits for the reply: a command of this id, or a query, which is sent
    /// again if the log was reopened before the reply.
    pub(crate) async fn exchange<R>(
        &self,
        stream: &StreamId,
        command: Option<&SentId>,
        mut send: impl FnMut(&Actors, oneshot::Sender<R>) -> Result<(), Error>,
    ) -> Result<R, Error> {
        loop {
            let (reply, answer) = oneshot::channel();
            self.refuse_if_stopping()?;
            let asking = self.inner.gate.when_open(|| {
                self.refuse_if_stopping()?;
                let running = self.inner.running();
                send(running.actors()?, reply)?;
                Ok::<_, Error>(running)
            });
            let asked = asking.await?;
            if let Ok(answer) = answer.await {
                return Ok(answer);
            }
            let is_same = self.inner.gate.when_open(|| Arc::ptr_eq(&asked, &self.inner.running())).await;
            if command.is_some() || is_same {
                return Err(self.of_sent(Error::Interrupted { stream: stream.to_string() }, command));
            }
        }
    }

    /// Returns a handle whose commands have one id: the caller's own, or one that is made now.
    pub(crate) fn with_command(&self) -> Self {
        let made = || format!("state-{}", self.inner.ports.clone().uuid());
        let command_id = Some(self.caller.command_id.clone().unwrap_or_else(made));
        let caller = Caller { command_id, ..Caller::clone(&self.caller) };
        Self { inner: Arc::clone(&self.inner), caller: Arc::new(caller) }
    }

    /// Returns the error of what was sent: it names the command, if it was one.
    pub(crate) fn of_sent(&self, error: Error, command: Option<&SentId>) -> Error {
        self.of_ending(match command {
            Some(id) => error.of_sent(&id.text()),
            None => error,
        })
    }

    /// Ends the actors' thread at once, as a crash would: work in progress is dropped, and only what was decided before gets its
    /// reply.
    #[cfg(feature = "testing")]
    pub(crate) async fn kill(self) -> Result<(), Error> {
        let running = self.inner.running();
        running.actors()?.thread.stop();
        blocking(move || running.actors().map(|actors| actors.thread.join())).await?
    }

    /// Returns the error of an operation that the end of the system cut short: the end itself, not what it broke. A
    /// command that was sent keeps its id.
    pub(crate) fn of_ending(&self, error: Error) -> Error {
        if !self.inner.stopping.load(Ordering::Acquire) {
            return error;
        }
        match error {
            Error::InDoubt { command_id, source } => {
                Error::InDoubt { command_id, source: Box::new(self.of_ending(*source)) }
            }
            Error::Interrupted { .. }
            | Error::Stalled { .. }
            | Error::Read(ReadError::Closed)
            | Error::Append(AppendError::Closed) => Error::Stopped,
            other => other,
        }
    }

    pub(crate) fn refuse_if_stopping(&self) -> Result<(), Error> {
        if self.inner.stopping.load(Ordering::Acquire) { Err(Error::Stopped) } else { Ok(()) }
    }
}

impl Inner {
    /// Returns the current store and actors.
    pub(crate) fn running(&self) -> Arc<RunningSystem> {
        Arc::clone(&self.running.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the current store and actors.
    pub(crate) fn set(&self, running: RunningSystem) {
        *self.running.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(running);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        #[cfg(unix)]
        drop(self.socket.leave());
        self.running().parts.live.close();
        if let Ok(actors) = self.running().actors() {
            actors.thread.stop();
        }
        if let Some(runtime) = self.own_runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs blocking work on the blocking pool.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|panic| Error::Internal(panic.to_string()))
}
