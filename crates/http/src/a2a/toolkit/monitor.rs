//! Waiting for a task: by its events where the agent streams, and by asking for it again and again.

use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::a2a::client::error::A2aError;
use crate::a2a::model::{State, Task};
use crate::a2a::toolkit::error::{SessionError, check_task};
use crate::a2a::toolkit::way::{KnownAgent, ToolkitTransport};

/// The shortest pause between two questions for a task.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// The longest time for which a task is waited for in one call.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether a task is waited for no longer in this state.
pub(crate) fn is_at_rest(state: State) -> bool {
    state.is_terminal() || state.is_interrupted()
}

/// A task that is waited for.
pub(crate) struct Monitor<'a> {
    pub(crate) way: &'a dyn ToolkitTransport,
    pub(crate) agent: &'a KnownAgent,
    pub(crate) task_id: &'a str,
    /// The time for which it is waited.
    pub(crate) timeout: Duration,
    /// The pause between two questions.
    pub(crate) interval: Duration,
    /// The wait for an answer over HTTP.
    pub(crate) answer: Duration,
    /// The task as it was last known.
    pub(crate) known: Option<Task>,
}

/// The task after the waiting, and the reason why nothing newer is known, if there is one.
pub(crate) type Waited = (Task, Option<SessionError>);

impl Monitor<'_> {
    /// Waits until the task rests or the time is up. A task that is known is never lost to an error.
    ///
    /// # Errors
    /// [`SessionError`] if nothing is known of the task and the agent does not tell.
    pub(crate) async fn wait(self) -> Result<Waited, SessionError> {
        let until = Instant::now() + self.timeout.min(LONGEST_WAIT);
        let first = if self.agent.card().streaming {
            self.follow(until).await;
            self.timeout
        } else {
            self.answer
        };
        self.poll(first, until).await
    }

    /// Follows the task's events until it rests, the time is up, or the events end.
    async fn follow(&self, until: Instant) {
        let followed = async {
            let opened = self.way.follow(self.agent, self.task_id, self.timeout).await;
            let mut events = match opened {
                Ok(events) => events,
                Err(error) => return Err(error),
            };
            while let Some(event) = events.next().await {
                if event?.state().is_some_and(is_at_rest) {
                    break;
                }
            }
            Ok::<(), A2aError>(())
        };
        if let Ok(Err(error)) = timeout_at(until, followed).await {
            // The task is asked for instead.
            tracing::debug!(%error, "the events of a task ended early");
        }
    }

    /// Asks for the task until it rests or the time is up, once in any case.
    async fn poll(self, first: Duration, until: Instant) -> Result<Waited, SessionError> {
        let (mut known, mut answer) = (self.known, first);
        loop {
            let asked = self.way.get(self.agent, self.task_id, answer).await;
            let passes = asked.as_ref().is_err_and(A2aError::is_break);
            let asked = asked.map_err(SessionError::from).and_then(|task| check_task(&task).map(|()| task));
            let fault = match asked {
                Ok(task) if is_at_rest(task.status.state) => return Ok((task, None)),
                Ok(task) => {
                    known = Some(task);
                    None
                }
                Err(error) => Some(error),
            };
            match (known.take(), fault) {
                (None, Some(fault)) => return Err(fault),
                (Some(task), fault) if (fault.is_some() && !passes) || Instant::now() >= until => {
                    return Ok((task, fault));
                }
                (task, _) => known = task,
            }
            let next = Instant::now() + self.interval.clamp(LEAST_INTERVAL, LONGEST_WAIT);
            sleep_until(next.min(until)).await;
            answer = self.answer;
        }
    }
}
