//! Lists of tasks: those in a state or a session, and those that wait for a person.

use proto_events::envelope::Timestamp;
use proto_events::id::Position;
use proto_events::model::TaskState;

use crate::error::Error;
use crate::system::handle::System;
use crate::system::task_index::{Conditions, TaskPage, WaitingTask, waiting};

/// A query for tasks of a system, see [`System::tasks`].
#[derive(Debug, Clone)]
#[must_use = "a query is made by `page`"]
pub struct TaskQuery {
    system: System,
    wanted: Conditions,
}

impl System {
    /// Returns a query for the tasks of this agent. The first query after a start reads the log once and keeps about
    /// 200 bytes for each task in memory; later ones read what was added since.
    ///
    /// ```
    /// # use taskreel::{System, TaskState};
    /// # async fn list(system: System) -> Result<(), taskreel::Error> {
    /// let page = system.tasks().in_state(TaskState::Failed).session("ada").page(20).await?;
    /// for task in page.tasks {
    ///     println!("{} since {}", task.id, task.since);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn tasks(&self) -> TaskQuery {
        TaskQuery { system: self.clone(), wanted: Conditions::default() }
    }

    /// Returns the tasks of this agent that wait for a person, oldest first, each with what it waits for: approvals, questions, calls of
    /// unknown outcome, or a message where all three are empty.
    ///
    /// # Errors
    /// [`Error::Read`] if the log cannot be read, [`Error::Stopped`] after a shutdown.
    pub async fn waiting(&self) -> Result<Vec<WaitingTask>, Error> {
        let system = self.clone();
        self.on_pool(move || {
            let log = system.log();
            let mut index = system.own().tasks.0.blocking_lock();
            index.follow(log.as_ref(), system.agent_name())?;
            let candidates = index.candidates();
            drop(index);
            Ok(waiting(log.as_ref(), system.agent_name(), candidates)?)
        })
        .await
    }
}

impl TaskQuery {
    /// Asks for tasks in this state; several states are alternatives.
    pub fn in_state(mut self, state: TaskState) -> Self {
        self.wanted.states.push(state);
        self
    }

    /// Asks for tasks that name this conversation.
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.wanted.session = Some(id.into());
        self
    }

    /// Asks for tasks whose state has changed since this time.
    pub fn since(mut self, time: Timestamp) -> Self {
        self.wanted.since = Some(time);
        self
    }

    /// Begins after this place, the [`TaskPage::next`] of an earlier page.
    pub fn after(mut self, place: Position) -> Self {
        self.wanted.after = place;
        self
    }

    /// Returns the tasks that fulfil all conditions, oldest first, at most this number.
    ///
    /// # Errors
    /// [`Error::Read`] if the log cannot be read, [`Error::Stopped`] after a shutdown.
    pub async fn page(self, limit: usize) -> Result<TaskPage, Error> {
        let Self { system, wanted } = self;
        let asked = system.clone();
        system
            .on_pool(move || {
                let log = asked.log();
                let mut index = asked.own().tasks.0.blocking_lock();
                index.follow(log.as_ref(), asked.agent_name())?;
                Ok(index.page(&wanted, limit))
            })
            .await
    }
}
