//! The tasks of an agent, as a module of its state.

use proto_events::id::Version;
use proto_events::json::{JsonObject, JsonText};

use crate::actors::shared::messages::{TaskOp, ToTask};
use crate::error::Error;
use crate::system::handle::System;
use crate::system::handles::TaskSnapshot;
use crate::system::task_index::WaitingTask;
use crate::system::task_info::TaskInfo;
use crate::system::task_lists::TaskQuery;

/// The number of tasks that are read together.
const PAGE: usize = 1_000;

/// The tasks of an agent. A task that has ended leaves this list when the state is reset; the log and
/// [`System::tasks`] keep it.
#[derive(Debug, Clone)]
pub struct TaskRecords {
    pub(crate) system: System,
}

/// The thing that a waiting task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// A person's approval of a call.
    Approval,
    /// A person's answer to the question of a call.
    Answer,
    /// The outcome of a call that is unknown.
    Outcome,
    /// A message.
    Message,
}

impl WaitsFor {
    fn holds_for(self, waiting: &WaitingTask) -> bool {
        match self {
            Self::Approval => !waiting.approvals.is_empty(),
            Self::Answer => !waiting.questions.is_empty(),
            Self::Outcome => !waiting.unknown.is_empty(),
            Self::Message => {
                waiting.approvals.is_empty() && waiting.questions.is_empty() && waiting.unknown.is_empty()
            }
        }
    }
}

impl TaskRecords {
    /// Returns a query for tasks: by state, session, run and time.
    pub fn query(&self) -> TaskQuery {
        self.system.tasks().of_state()
    }

    /// Returns the tasks that wait for this, oldest first.
    ///
    /// # Errors
    /// As [`System::waiting`].
    pub async fn waiting_for(&self, what: WaitsFor) -> Result<Vec<WaitingTask>, Error> {
        let waiting = self.system.waiting().await?;
        Ok(waiting.into_iter().filter(|waiting| what.holds_for(waiting)).collect())
    }

    /// Has a task go on with its open work according to the log, as a restart does. A task without open work stays as it is.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`] if the task does not exist, or an error of the log.
    pub async fn resume(&self, id: &str) -> Result<TaskSnapshot, Error> {
        let task = self.system.task(id)?;
        task.snapshot().await?;
        self.system.ask(ToTask::of_caller(task.stream().clone(), TaskOp::Resume)).await?;
        task.snapshot().await
    }

    /// Returns a task as it was after each of its records, oldest first: the log is folded, nothing is called.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`] if the task does not exist, or an error of reading the log.
    pub async fn replay(&self, id: &str) -> Result<Vec<TaskSnapshot>, Error> {
        let now = self.system.task(id)?.snapshot().await?;
        let mut past = Vec::new();
        for version in 1..=now.version().0 {
            past.push(self.system.state_at(id, Version(version)).await?);
        }
        Ok(past)
    }

    /// Returns the listed tasks as Protolink writes them, by their ids.
    ///
    /// # Errors
    /// An error of reading the log.
    pub async fn to_json(&self) -> Result<JsonText, Error> {
        let mut all = JsonObject::new();
        for info in self.all().await? {
            all.set(&info.id, self.system.task(&info.id)?.snapshot().await?.to_json());
        }
        Ok(all.to_text())
    }

    /// Returns all listed tasks.
    pub(crate) async fn all(&self) -> Result<Vec<TaskInfo>, Error> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let query = self.query();
            let query = match after {
                Some(place) => query.after(place),
                None => query,
            };
            let page = query.page(PAGE).await?;
            all.extend(page.tasks);
            after = page.next;
            if after.is_none() {
                return Ok(all);
            }
        }
    }
}
