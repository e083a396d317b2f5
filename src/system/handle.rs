//! The handle that embedders hold on a running system.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use actix::prelude::SendError;
use proto_events::envelope::{MADE_COMMAND, Principal};
use proto_events::id::{Mint, Position, StreamId, Version};
use proto_events::session::Session;
use taskreel_log::api::EventStore;
use taskreel_log::read::Subscription;
use tokio::sync::oneshot;

use crate::actors::router::{Drain, Halt};
use crate::actors::shared::messages::{Cause, TaskOp, TaskView, ToTask, Within};
use crate::actors::shared::turns::LookAtSession;
use crate::actors::supervisor::{CountLive, DrainMailboxes};
use crate::error::Error;
use crate::limits::{DROP_WITHIN, SUPERVISOR_MAILBOX};
use crate::system::running::{Actors, Running};
use crate::system::starts::record_stop;
#[cfg(feature = "mcp")]
use crate::tools::mcp::servers::McpServers;

/// A running system over one log. Cheap to clone; all clones are the same system.
///
/// Dropping the last clone without [`System::shutdown`] loses nothing that was acknowledged; calls in flight
/// are then handled at the next start, as after a crash.
#[derive(Clone)]
pub struct System {
    pub(crate) inner: Arc<Inner>,
    pub(crate) caller: Arc<Caller>,
}

/// The sender of the commands of a handle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    /// The caller's own id for its next command.
    pub(crate) command_id: Option<String>,
}

pub(crate) struct Inner {
    pub(crate) agent: String,
    pub(crate) ports: taskreel_log::ports::Ports,
    pub(crate) running: RwLock<Arc<Running>>,
    /// Held for reading while something is sent, for writing while the log is reopened.
    pub(crate) gate: tokio::sync::RwLock<()>,
    /// Held while the system is reopened or shut down.
    pub(crate) changing: tokio::sync::Mutex<Phase>,
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) own_runtime: Option<tokio::runtime::Runtime>,
    #[cfg(feature = "mcp")]
    pub(crate) mcp: McpServers,
}

/// A call that a shutdown interrupted, see [`System::shutdown_within`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterruptedCall {
    /// The stream of the call's task.
    pub task: StreamId,
    /// The call's id.
    pub call_id: String,
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
        f.debug_struct("System").field("agent", &self.inner.agent).finish_non_exhaustive()
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
        let stream = StreamId::task(&self.inner.agent, id)?;
        Ok(Subscription::stream(self.log(), stream, from))
    }

    /// Returns the log under this system, for readers such as [`audit`](taskreel_log::audit).
    /// [`System::reopen`] replaces it.
    pub fn log(&self) -> Arc<dyn EventStore> {
        self.inner.running().store()
    }

    /// Refuses new work, lets calls in flight end or reach their deadline, stops the actors, makes everything
    /// queued durable and releases the log. Work interrupted between two calls continues at the next start.
    /// A second shutdown returns once the first has finished; a caller that gives up does not stop it.
    ///
    /// # Errors
    /// [`Error::Internal`] if something could not be finished; nothing acknowledged is lost then either.
    pub async fn shutdown(self) -> Result<(), Error> {
        self.stop_in_background(None).await.map(drop)
    }

    /// Shuts down as [`System::shutdown`] does, but waits no longer than this for calls in flight. Those that
    /// are left then are interrupted and returned: they have no outcome in the log, and the next start handles
    /// them as after a crash, each as its recovery mode allows.
    ///
    /// # Errors
    /// As [`System::shutdown`].
    pub async fn shutdown_within(self, time: Duration) -> Result<Vec<InterruptedCall>, Error> {
        self.stop_in_background(Some(time)).await
    }

    async fn stop_in_background(self, limit: Option<Duration>) -> Result<Vec<InterruptedCall>, Error> {
        self.inner.stopping.store(true, Ordering::Release);
        // In a task of its own: a caller that gives up must not leave it half done.
        let system = self.clone();
        let done = tokio::spawn(async move { system.stop(limit).await }).await;
        done.map_err(|panic| Error::Internal(format!("the shutdown panicked: {panic}")))?
    }

    /// Stops the system. A second caller waits for the first.
    async fn stop(&self, limit: Option<Duration>) -> Result<Vec<InterruptedCall>, Error> {
        let mut changing = self.inner.changing.lock().await;
        if *changing == Phase::Stopped {
            return Ok(Vec::new());
        }
        let stopped = self.stop_actors_and_log(limit).await;
        *changing = Phase::Stopped;
        stopped
    }

    /// Waits until no call is in flight, at most for this time, and interrupts what is left.
    async fn end_calls(&self, actors: &Actors, limit: Option<Duration>) -> Vec<InterruptedCall> {
        let (reply, drained) = oneshot::channel();
        actors.router.do_send(Drain { reply });
        let Some(limit) = limit else {
            let _ = drained.await;
            return Vec::new();
        };
        tokio::select! {
            biased;
            _ = drained => return Vec::new(),
            () = self.inner.ports.clock.sleep(limit) => {}
        }
        let (reply, halted) = oneshot::channel();
        actors.router.do_send(Halt { within: DROP_WITHIN, reply });
        let interrupted = halted.await.unwrap_or_default().into_iter();
        interrupted.map(|(task, call_id)| InterruptedCall { task, call_id }).collect()
    }

    async fn stop_actors_and_log(&self, limit: Option<Duration>) -> Result<Vec<InterruptedCall>, Error> {
        let running = self.inner.running();
        let mut interrupted = Vec::new();
        if let Ok(actors) = running.actors() {
            // An append in progress when commands were first refused may send calls; their outcomes must be
            // written too.
            drain_mailboxes(actors).await;
            interrupted = self.end_calls(actors, limit).await;
            drain_mailboxes(actors).await;
        }
        running.parts.live.close();
        running.parts.secrets.settle().await;
        let store = running.store();
        if let Err(error) = record_stop(&store, &self.inner.ports, None).await {
            // A log that takes no more appends ends as after a crash; its own error follows.
            tracing::warn!(%error, "the end of the system could not be recorded");
        }
        let closed = blocking(move || store.close()).await?;
        if let Ok(actors) = running.actors() {
            actors.thread.stop();
        }
        let _ = blocking(move || running.actors().map(|actors| actors.thread.join())).await?;
        closed.map(|()| interrupted).map_err(|error| Error::Internal(error.to_string()))
    }

    /// Returns the number of live tasks: at work, or used a moment ago. Passivated ones cost no memory but
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

    /// Returns the number of live sessions: a task has the turn or waits for it, or had it a moment ago.
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

    /// Sends an operation to a task's actor and waits for its reply. A caller that goes away cancels nothing.
    pub(crate) async fn ask(
        &self,
        stream: StreamId,
        op: TaskOp,
        mut cause: Cause,
    ) -> Result<TaskView, Error> {
        let mut mint = self.inner.ports.clone();
        let is_query = op.is_query();
        if cause.command_id.is_empty() && !is_query {
            cause.command_id = format!("{MADE_COMMAND}{}", mint.uuid());
        }
        let command_id = cause.command_id.clone();
        if cause.correlation_id.is_empty() {
            cause.correlation_id.clone_from(&cause.command_id);
        }
        cause.caller = Within(tracing::Span::current());
        let mut kept = Some((op, cause));
        let send = |actors: &Actors, reply| {
            let said = if is_query { kept.clone() } else { kept.take() };
            let (op, cause) = said.ok_or_else(|| {
                Error::Internal("the command was already taken from its message".to_owned())
            })?;
            let message = ToTask { stream: stream.clone(), op, cause, reply: Some(reply) };
            actors.supervisor.try_send(message).map_err(|refused| match refused {
                SendError::Full(_) => {
                    Error::Overloaded { waiting: SUPERVISOR_MAILBOX, command_id: command_id.clone() }
                }
                SendError::Closed(_) => Error::Stopped,
            })
        };
        self.exchange(&stream, (!is_query).then_some(command_id.as_str()), send).await
    }

    pub(crate) async fn look_at_session(&self, id: &str) -> Result<Session, Error> {
        let stream = StreamId::session(&self.inner.agent, id)?;
        let send = |actors: &Actors, reply| {
            actors.supervisor.do_send(LookAtSession { stream: stream.clone(), reply });
            Ok(())
        };
        let (session, _) = self.exchange(&stream, None, send).await?;
        Ok(session)
    }

    /// Sends a message to the current actors and waits for the reply: a command of this id, or a query, which is sent
    /// again if the log was reopened before the reply.
    async fn exchange<T>(
        &self,
        stream: &StreamId,
        command_id: Option<&str>,
        mut send: impl FnMut(&Actors, oneshot::Sender<Result<T, Error>>) -> Result<(), Error>,
    ) -> Result<T, Error> {
        let of_sent = |error: Error| match command_id {
            Some(command_id) => error.of_sent(command_id),
            None => error,
        };
        loop {
            let (reply, answer) = oneshot::channel();
            let asked = {
                self.refuse_if_stopping()?;
                let _gate = self.inner.gate.read().await;
                self.refuse_if_stopping()?;
                let running = self.inner.running();
                send(running.actors()?, reply)?;
                running
            };
            if let Ok(answer) = answer.await {
                return answer.map_err(of_sent);
            }
            let _gate = self.inner.gate.read().await;
            if command_id.is_some() || Arc::ptr_eq(&asked, &self.inner.running()) {
                return Err(of_sent(Error::Interrupted { stream: stream.to_string() }));
            }
        }
    }

    /// Ends the actors' thread at once, as a crash would: work in progress is dropped, and no reply is sent.
    #[cfg(feature = "testing")]
    pub(crate) async fn kill(self) -> Result<(), Error> {
        let running = self.inner.running();
        running.actors()?.thread.stop();
        blocking(move || running.actors().map(|actors| actors.thread.join())).await?
    }

    pub(crate) fn refuse_if_stopping(&self) -> Result<(), Error> {
        if self.inner.stopping.load(Ordering::Acquire) { Err(Error::Stopped) } else { Ok(()) }
    }
}

impl Inner {
    /// Returns the current store and actors.
    pub(crate) fn running(&self) -> Arc<Running> {
        Arc::clone(&self.running.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the current store and actors.
    pub(crate) fn put(&self, running: Running) {
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

/// Waits until each task's actor has carried out the messages now in its mailbox.
async fn drain_mailboxes(actors: &Actors) {
    let (reply, drained) = oneshot::channel();
    actors.supervisor.do_send(DrainMailboxes { reply });
    let _ = drained.await;
}

/// Runs blocking work on the blocking pool.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|panic| Error::Internal(panic.to_string()))
}
