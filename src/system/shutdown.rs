//! The end of a system: calls in flight end or are interrupted, the actors stop, the log is released.

#[cfg(unix)]
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use proto_events::id::{Position, StreamId};
use tokio::sync::oneshot;

use crate::actors::router::watch::Key;
use crate::actors::router::{Drain, Halt};
use crate::actors::supervisor::DrainMailboxes;
use crate::error::Error;
use crate::limits::DROP_WITHIN;
use crate::system::calls_runtime::entered;
use crate::system::handle::{Phase, System, blocking};
use crate::system::running_system::Actors;
use crate::system::starts::record_stop;

/// The time that a shutdown gives those who have begun to send something (1 s).
const SENT_WITHIN: Duration = Duration::from_secs(1);

/// A call that a shutdown interrupted, see [`System::shutdown_within`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterruptedCall {
    /// The stream of the call's task.
    pub task: StreamId,
    /// The call's id.
    pub call_id: String,
}

/// The report of a shutdown, see [`System::shutdown_within`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The calls that were interrupted: they have no outcome in the log, and the next start handles each as its recovery
    /// mode allows.
    pub interrupted: Vec<InterruptedCall>,
    /// The position of the last event of the log.
    pub head: Position,
    /// Whether the log was closed: not if another system of this process still uses it.
    pub closed: bool,
    /// The time that the shutdown took.
    pub took: Duration,
}

impl System {
    /// Refuses new work, lets calls in flight end or reach their deadline, stops the actors, makes everything
    /// queued durable and releases the log. Work interrupted between two calls continues at the next start.
    /// A second shutdown returns once the first has finished; a caller that gives up does not stop it. A log that
    /// another system of this process uses too stays open for it.
    ///
    /// # Errors
    /// [`Error::Internal`] if something could not be finished; nothing acknowledged is lost then either.
    pub async fn shutdown(self) -> Result<(), Error> {
        self.stop_in_background(None).await.map(drop)
    }

    /// Shuts down as [`System::shutdown`] does, but waits no longer than this for calls in flight. Those that
    /// are left then are interrupted and reported: they have no outcome in the log, and the next start handles
    /// them as after a crash, each as its recovery mode allows. The report of a second shutdown is empty.
    ///
    /// # Errors
    /// As [`System::shutdown`].
    pub async fn shutdown_within(self, time: Duration) -> Result<ShutdownReport, Error> {
        self.stop_in_background(Some(time)).await
    }

    async fn stop_in_background(self, limit: Option<Duration>) -> Result<ShutdownReport, Error> {
        self.inner.stopping.store(true, Ordering::Release);
        let calls = self.inner.running().parts.calls.clone();
        entered(calls, async move {
            // In a task of its own: a caller that gives up must not leave it half done.
            let system = self.clone();
            let done = tokio::spawn(async move { system.stop(limit).await }).await;
            done.map_err(|panic| Error::Internal(format!("the shutdown panicked: {panic}")))?
        })
        .await
    }

    /// Stops the system. A second caller waits for the first.
    async fn stop(&self, limit: Option<Duration>) -> Result<ShutdownReport, Error> {
        let mut changing = self.inner.changing.lock().await;
        if *changing == Phase::Stopped {
            return Ok(ShutdownReport::default());
        }
        let began = Instant::now();
        let stopped = self.stop_actors_and_log(limit).await;
        *changing = Phase::Stopped;
        stopped.map(|report| ShutdownReport { took: began.elapsed(), ..report })
    }

    /// Waits until no call is in flight, at most for this time, and interrupts what is left.
    async fn end_calls(&self, actors: &Actors, limit: Option<Duration>) -> Vec<InterruptedCall> {
        let drained = until_drained(actors);
        let Some(limit) = limit else {
            drained.await;
            return Vec::new();
        };
        tokio::select! {
            biased;
            () = drained => return Vec::new(),
            () = self.inner.ports.clock.sleep(limit) => {}
        }
        let interrupted = halt(actors, DROP_WITHIN).await.into_iter();
        interrupted.map(|(task, call_id)| InterruptedCall { task, call_id }).collect()
    }

    async fn stop_actors_and_log(&self, limit: Option<Duration>) -> Result<ShutdownReport, Error> {
        let running = self.inner.running();
        let mut report = ShutdownReport::default();
        // A caller that passed the check before the system stopped has sent what it sends. One that is not run meanwhile is not waited for.
        tokio::select! {
            biased;
            gate = self.inner.gate.close() => drop(gate),
            () = self.inner.ports.clock.sleep(SENT_WITHIN) => {}
        }
        if let Ok(actors) = running.actors() {
            // An append in progress when commands were first refused may send calls; their outcomes must be
            // written too.
            drain_mailboxes(actors).await;
            report.interrupted = self.end_calls(actors, limit).await;
            drain_mailboxes(actors).await;
        }
        running.parts.live.close();
        running.parts.condition.stopped();
        running.parts.secrets.settle().await;
        let store = running.store();
        let owner = &running.parts.owner;
        // Before another system can be the last one and close the log, so that no socket is open over a closed log.
        #[cfg(unix)]
        let socket = {
            let inner = Arc::clone(&self.inner);
            blocking(move || inner.socket.leave()).await?
        };
        let is_last = owner.leave();
        if is_last && let Err(error) = record_stop(&store, &self.inner.ports, None).await {
            // A log that takes no more appends ends as after a crash; its own error follows.
            tracing::warn!(%error, "the end of the system could not be recorded");
        }
        // A poisoned log can be read; one that a failed reopening has closed has neither.
        report.head = store.head().unwrap_or_default();
        let closed = blocking(move || {
            let closed = if is_last { store.close() } else { Ok(()) };
            // Followers are given all until the log is closed.
            #[cfg(unix)]
            drop(socket);
            closed
        })
        .await?;
        // Nobody could join a log that was about to be closed.
        report.closed = is_last && owner.release();
        if let Ok(actors) = running.actors() {
            actors.thread.stop();
        }
        let _ = blocking(move || running.actors().map(|actors| actors.thread.join())).await?;
        closed.map(|()| report).map_err(|error| Error::Internal(error.to_string()))
    }
}

/// Waits until each task's actor has carried out the messages now in its mailbox.
async fn drain_mailboxes(actors: &Actors) {
    for supervisor in &actors.supervisors {
        let (reply, drained) = oneshot::channel();
        supervisor.do_send(DrainMailboxes { reply });
        let _ = drained.await;
    }
}

/// Waits until no agent's router has a call in flight. While the calls of one agent end, a task that they wait for may make
/// calls of another one.
async fn until_drained(actors: &Actors) {
    loop {
        let asked = actors.routers.iter().map(|router| {
            let (reply, drained) = oneshot::channel();
            router.do_send(Drain { reply });
            drained
        });
        let mut all_idle = true;
        for drained in asked.collect::<Vec<_>>() {
            all_idle &= drained.await.unwrap_or(true);
        }
        if all_idle || actors.routers.len() < 2 {
            return;
        }
        drain_mailboxes(actors).await;
    }
}

/// Interrupts the calls in flight of all agents, and returns them once they have ended, or after this time.
pub(crate) async fn halt(actors: &Actors, within: Duration) -> Vec<Key> {
    let asked = actors.routers.iter().map(|router| {
        let (reply, halted) = oneshot::channel();
        router.do_send(Halt { within, reply });
        halted
    });
    let mut interrupted = Vec::new();
    for halted in asked.collect::<Vec<_>>() {
        interrupted.extend(halted.await.unwrap_or_default());
    }
    interrupted.sort();
    interrupted
}
