//! The waiting for a task: by its stream where the agent has one, else, and where the stream fails, by looking again and again.

use std::time::{Duration, Instant};

use taskreel_http::a2a::{Event, State, StreamItem, Task};

use crate::a2a::agent::Agent;
use crate::a2a::failure::{EXIT_TIMEOUT, Failure, TIMEOUT};
use crate::a2a::settings::Settings;

/// The first pause between two looks, which is doubled up to the chosen one.
const FIRST: Duration = Duration::from_millis(250);

/// The bounds of a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The pause between two looks.
    pub(crate) interval: Duration,
    /// The end of the wait; `None` for one without an end.
    pub(crate) until: Option<Instant>,
    /// The length of the wait.
    timeout: Duration,
}

impl Bounds {
    /// Returns the bounds that the settings choose. What is streamed has an end only where one was chosen.
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        let timeout = settings.time("timeout");
        let is_bound = !settings.streams || settings.is_set("timeout");
        let until = if is_bound { Instant::now().checked_add(timeout) } else { None };
        // Without any pause the agent would be asked without end.
        let interval = settings.time("poll-interval").max(Duration::from_millis(10));
        Self { interval, until, timeout }
    }

    /// Waits for what may take until the end of the wait.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, Late> {
        match self.until {
            None => Ok(work.await),
            Some(until) => tokio::time::timeout_at(until.into(), work).await.map_err(|_| Late(self.timeout)),
        }
    }
}

/// The end of the wait came first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Late(Duration);

impl Late {
    /// Returns the failure, which names the task as far as it is known.
    pub(crate) fn failure(self, agent: &Agent, task: Option<&str>) -> Failure {
        let after = self.0;
        let (message, hint) = match task {
            Some(task) => (
                format!("the task {task} did not end within {after:?}; it goes on at the agent"),
                format!("wait on: {}", agent.typed("task get --wait", task)),
            ),
            None => (
                format!("the agent did not answer within {after:?}; it may have taken the message"),
                format!("look for the task: {}", agent.typed("task list", "")),
            ),
        };
        Failure::new(TIMEOUT, EXIT_TIMEOUT, message, hint)
    }
}

/// Whether a wait ends in this state.
pub(crate) fn is_end(state: State) -> bool {
    state.is_terminal() || state.is_interrupted()
}

/// Looks at a task until it is over or waits for its client. `seen` is told of each look.
///
/// # Errors
/// [`Failure`] if the agent does not answer, or not in time.
pub(crate) async fn polled(
    agent: &Agent,
    id: &str,
    history: Option<u32>,
    bounds: &Bounds,
    mut seen: impl FnMut(&Task) -> Result<(), Failure>,
) -> Result<Task, Failure> {
    let mut pause = FIRST.min(bounds.interval);
    loop {
        let looked = bounds.within(agent.client.get(id, history)).await;
        let task =
            looked.map_err(|late| late.failure(agent, Some(id)))?.map_err(|error| agent.failed(&error))?;
        seen(&task)?;
        if is_end(task.status.state) {
            return Ok(task);
        }
        bounds.within(tokio::time::sleep(pause)).await.map_err(|late| late.failure(agent, Some(id)))?;
        pause = (pause * 2).min(bounds.interval);
    }
}

/// A task as the events of a stream tell it.
#[derive(Debug, Default)]
pub(crate) struct TaskProgress {
    /// The task's id and its context's.
    pub(crate) ids: Option<(String, String)>,
    /// The newest state.
    pub(crate) state: Option<State>,
    task: Option<Task>,
}

impl TaskProgress {
    /// Takes an item of a stream.
    pub(crate) fn accept_item(&mut self, item: &StreamItem) {
        match item {
            StreamItem::Event(event) => self.event(event),
            StreamItem::Gap(gap) => self.event(&Event::Task(Box::new(gap.task.clone()))),
            _ => {}
        }
    }

    fn event(&mut self, event: &Event) {
        self.state = event.state().or(self.state);
        match event {
            Event::Task(task) => {
                self.ids = Some((task.id.clone(), task.context_id.clone()));
                self.task = Some((**task).clone());
            }
            Event::Status(update) => {
                self.ids = Some((update.task_id.clone(), update.context_id.clone()));
                if let Some(task) = &mut self.task {
                    task.status = update.status.clone();
                }
            }
            Event::Artifact(update) => {
                self.ids = Some((update.task_id.clone(), update.context_id.clone()));
                let Some(task) = &mut self.task else { return };
                let all = task.artifacts.get_or_insert_default();
                match all.iter_mut().find(|known| known.id == update.artifact.id) {
                    Some(known) if update.append => known.parts.extend(update.artifact.parts.iter().cloned()),
                    Some(known) => *known = update.artifact.clone(),
                    None => all.push(update.artifact.clone()),
                }
            }
            _ => {}
        }
    }

    /// Returns the task as far as it was told.
    pub(crate) fn into_task(self) -> Option<Task> {
        self.task
    }
}
