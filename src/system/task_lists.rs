//! Lists of tasks: those in a state or a session, and those that wait for a person.

use proto_events::envelope::{Principal, Timestamp};
use proto_events::id::Position;
use proto_events::model::TaskState;

use crate::error::Error;
use crate::system::handle::System;
use crate::system::task_index::{NewestTasks, TaskIndex, TaskPage, WaitingTask, waiting};
use crate::system::task_info::Conditions;

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

    /// Returns the tasks of this agent that wait for a person, oldest first, each with what it waits for: approvals, questions, tasks of
    /// other agents, calls of unknown outcome, or a message where all four are empty.
    ///
    /// # Errors
    /// [`Error::Read`] if the log cannot be read, [`Error::Stopped`] after a shutdown.
    pub async fn waiting(&self) -> Result<Vec<WaitingTask>, Error> {
        let system = self.clone();
        self.on_pool(move || {
            let log = system.log();
            let mut index = system.own_agent().tasks.0.blocking_lock();
            index.follow(log.as_ref(), system.agent_name())?;
            let candidates = index.candidates();
            drop(index);
            Ok(waiting(log.as_ref(), system.agent_name(), candidates)?)
        })
        .await
    }
}

impl System {
    /// Returns who submitted the first task of a conversation; `None` if it has no task.
    ///
    /// # Errors
    /// As [`TaskQuery::page`].
    pub async fn conversation_opened_by(&self, id: &str) -> Result<Option<Principal>, Error> {
        let id = id.to_owned();
        self.tasks().query(move |index, _| index.opened_by(&id)).await
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

    /// Asks for the task of this run.
    pub fn run(mut self, run_id: impl Into<String>) -> Self {
        self.wanted.run = Some(run_id.into());
        self
    }

    /// Asks for tasks whose state has changed before this time, or at it.
    pub fn until(mut self, time: Timestamp) -> Self {
        self.wanted.until = Some(time);
        self
    }

    /// Asks for tasks of this conversation, the one that is a conversation of its own under this id too.
    pub fn conversation(mut self, id: impl Into<String>) -> Self {
        self.wanted.conversation = Some(id.into());
        self
    }

    /// Asks for tasks that this principal has submitted.
    pub fn submitted_by(mut self, principal: impl Into<Principal>) -> Self {
        self.wanted.submitted_by = Some(principal.into());
        self
    }

    /// Asks for tasks whose handler has refused the work, or for the others; see
    /// [`Task::is_rejected`](proto_events::task::Task::is_rejected).
    pub fn rejected(mut self, is_rejected: bool) -> Self {
        self.wanted.is_rejected = Some(is_rejected);
        self
    }

    /// Asks for tasks that wait for credentials, or for the others; see [`HandlerEnd::AuthRequired`](crate::handler::HandlerEnd).
    pub fn needing_auth(mut self, needs_auth: bool) -> Self {
        self.wanted.needs_auth = Some(needs_auth);
        self
    }

    /// Asks for tasks whose whole answer is a message, or for the others; see
    /// [`HandlerEnd::Replied`](crate::handler::HandlerEnd).
    pub fn replied(mut self, is_reply: bool) -> Self {
        self.wanted.is_reply = Some(is_reply);
        self
    }

    /// Leaves out the tasks that had ended when the state was reset.
    pub(crate) fn of_state(mut self) -> Self {
        self.wanted.is_of_state = true;
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
        self.query(move |index, wanted| index.page(wanted, limit)).await
    }

    /// Returns the tasks that fulfil all conditions, the one whose state changed last first, at most this number, and those
    /// only that come after a place, the [`NewestTasks::next`] of an earlier page.
    ///
    /// # Errors
    /// As [`TaskQuery::page`].
    pub async fn newest(
        self,
        after: Option<(Timestamp, Position)>,
        limit: usize,
    ) -> Result<NewestTasks, Error> {
        self.query(move |index, wanted| index.newest(wanted, after, limit)).await
    }

    /// Asks the index, once it has read what was added to the log.
    async fn query<T: Send + 'static>(
        self,
        ask: impl FnOnce(&TaskIndex, &Conditions) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let Self { system, wanted } = self;
        let asked = system.clone();
        system
            .on_pool(move || {
                let log = asked.log();
                let mut index = asked.own_agent().tasks.0.blocking_lock();
                index.follow(log.as_ref(), asked.agent_name())?;
                Ok(ask(&index, &wanted))
            })
            .await
    }
}
