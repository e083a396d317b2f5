//! Canceling a task while no system has the log open: one append, as a running system makes it. It ends the task's open
//! turn in its session too.

use proto_events::envelope::{Metadata, Principal};
use proto_events::id::StreamId;
use proto_events::model;
use proto_events::model::TaskState;
use proto_events::session::Session;
use proto_events::task::{Task, TaskCommand};
use taskreel_log::api::Append;

use crate::actors::entity::{Entity, SetPart};
use crate::actors::seed::Seed;
use crate::agent::loop_rules::LoopRules;
use crate::error::Error;
use crate::run::steps::session_id;
use crate::run::turn_end::ended_early;
use crate::system::handles::TaskSnapshot;
use crate::system::operator::{DecisionResult, Operator};

impl Operator {
    /// Cancels a task as [`TaskHandle::cancel`](crate::system::handles::TaskHandle::cancel) does: its open calls are
    /// closed, and so is its turn. A task that it had sent to another agent is not canceled with it.
    ///
    /// # Errors
    /// As there, and errors of the log.
    pub async fn cancel(
        &self,
        task: &StreamId,
        reason: Option<&str>,
        by: impl Into<Principal>,
    ) -> Result<DecisionResult, Error> {
        let mut started = self.started.lock().await;
        let mut entity = self.read(task).await?;
        match entity.state().state() {
            // The first reason is kept.
            TaskState::Canceled => {
                let task = TaskSnapshot::new(entity.shared_state(), entity.version());
                return Ok(DecisionResult { task, is_new: false });
            }
            state if state.is_terminal() => return Err(Error::TaskNotCancelable { id: task.id(), state }),
            _ => {}
        }
        let metadata = self.metadata(&entity, by.into());
        let mut mint = self.ports.clone();
        let noted = model::canceled(entity.state().metadata(), &task.id(), reason, &mut mint)
            .unwrap_or_else(|_| model::canceled_unread(reason));
        entity
            .decide(TaskCommand::Cancel { reason: reason.map(str::to_owned), metadata: noted }, &metadata)?;
        let session = self.with_aborted_turn(&entity, &metadata).await?;
        self.note_start(&mut started).await?;
        self.append_with(&mut entity, session, &metadata).await?;
        Ok(DecisionResult { task: TaskSnapshot::new(entity.shared_state(), entity.version()), is_new: true })
    }

    /// Returns the task's session with the end of its open turn decided; `None` if the turn is not this task's.
    async fn with_aborted_turn(
        &self,
        task: &Entity<Task>,
        metadata: &Metadata,
    ) -> Result<Option<Entity<Session>>, Error> {
        let stream = task.stream();
        let Ok(session) = StreamId::session(&stream.agent(), &session_id(task.state())) else {
            return Ok(None);
        };
        let mut session = Entity::<Session>::recover(&self.store, session, Seed::draw(&self.ports)).await?;
        let open = session.state().open_turn().filter(|open| open.task == stream.as_str());
        let Some(open) = open else { return Ok(None) };
        let (rules, mut mint) = (LoopRules::Taskreel, self.ports.clone());
        for command in ended_early(rules, open, task.state(), "the task was canceled", &mut mint) {
            session.decide(command, metadata)?;
        }
        Ok(Some(session).filter(Entity::is_pending))
    }

    /// Appends the pending events of the session, if there are any, and of the task, all or nothing.
    async fn append_with(
        &self,
        task: &mut Entity<Task>,
        session: Option<Entity<Session>>,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let (fence, set_id) = (self.store.fence(), self.ports.ids.random());
        let count = 1 + u16::from(session.is_some());
        let set = |part| SetPart { set_id, part, parts: count };
        let mut parts = Vec::new();
        if let Some(mut session) = session {
            parts.push(session.part(fence, set(0), metadata, None)?);
        }
        let own = task.part(fence, set(count - 1), metadata, None)?;
        let hash = own.record.hash();
        parts.push(own);
        let appended = self.store.append(Append { fence, set_id, parts }).await?;
        if let Some(committed) = appended.parts.last() {
            task.mark_committed(*committed, hash, metadata);
        }
        Ok(())
    }
}
