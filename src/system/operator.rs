//! Decisions of a person while no system has the log open: approvals, calls whose outcome is unknown, cancels.
//! They use the same functions as a running system, with one append for each decision. The task continues
//! when the program that runs the system starts again: no call is made here, and no tool needs to be known. What another
//! system has kept is taken in here too.

pub(crate) mod cancel;
pub(crate) mod take_in;

use std::sync::Arc;

use proto_events::call::{Answer, Verdict};
use proto_events::envelope::{Metadata, Principal};
use proto_events::id::{Mint, StreamId};
use proto_events::task::{ApprovalDecided, Task, TaskCommand};
use taskreel_log::api::{Append, EventStore};
use taskreel_log::ports::Ports;
use tokio::sync::Mutex;

use crate::actors::entity::{Entity, SetPart};
use crate::actors::seed::Seed;
use crate::actors::shared::resolution::CallResolution;
use crate::agent::card::Agent;
use crate::error::Error;
use crate::run::after_resolution::after_resolution;
use crate::run::person_steps::{AnswerCommands, after_answer, after_approval, answering};
use crate::run::question::{Act, OutsideWork, Question};
use crate::run::reply_reading::ReadReplies;
use crate::system::handles::TaskSnapshot;
use crate::system::starts::{record_start, record_stop};

/// A person's decisions in a log that no system has open.
#[derive(Clone)]
pub struct Operator {
    store: Arc<dyn EventStore>,
    ports: Ports,
    /// Whether a start is recorded that no stop has followed: the first decision records it. Held over each decision, so that
    /// none comes before the start or behind the stop.
    started: Arc<Mutex<bool>>,
}

/// The result of a decision.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DecisionResult {
    /// The task after the decision.
    pub task: TaskSnapshot,
    /// Whether anything was appended; the same decision again appends nothing.
    pub is_new: bool,
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").finish_non_exhaustive()
    }
}

/// The planner's function for what follows the decision about an approval or a call, by its id.
type After = fn(&mut Question<'_>, &str) -> Vec<Act>;

impl Operator {
    /// Returns an operator of this log, which must not be open for writing anywhere else.
    pub fn new(store: Arc<dyn EventStore>) -> Self {
        Self { store, ports: Ports::default(), started: Arc::default() }
    }

    /// Replaces the clock and the source of ids, for tests.
    #[must_use]
    pub fn ports(mut self, ports: Ports) -> Self {
        self.ports = ports;
        self
    }

    /// Approves a call as [`TaskHandle::approve`](crate::system::handles::TaskHandle::approve) does.
    ///
    /// # Errors
    /// As there, and errors of the log.
    pub async fn approve(
        &self,
        task: &StreamId,
        approval_id: &str,
        by: impl Into<Principal>,
    ) -> Result<DecisionResult, Error> {
        self.decide_approval(task, approval_id, true, None, by.into()).await
    }

    /// Denies a call as [`TaskHandle::deny`](crate::system::handles::TaskHandle::deny) does.
    ///
    /// # Errors
    /// As there, and errors of the log.
    pub async fn deny(
        &self,
        task: &StreamId,
        approval_id: &str,
        reason: Option<&str>,
        by: impl Into<Principal>,
    ) -> Result<DecisionResult, Error> {
        self.decide_approval(task, approval_id, false, reason, by.into()).await
    }

    /// Records a verdict as [`TaskHandle::reconcile`](crate::system::handles::TaskHandle::reconcile) does.
    ///
    /// # Errors
    /// As there, and errors of the log.
    pub async fn reconcile(
        &self,
        task: &StreamId,
        call_id: &str,
        verdict: Verdict,
        by: impl Into<Principal>,
    ) -> Result<DecisionResult, Error> {
        self.resolve_call(task, call_id, &CallResolution::Verdict(verdict), by.into()).await
    }

    /// Abandons a call as [`TaskHandle::abandon`](crate::system::handles::TaskHandle::abandon) does.
    ///
    /// # Errors
    /// As there, and errors of the log.
    pub async fn abandon(
        &self,
        task: &StreamId,
        call_id: &str,
        reason: &str,
        by: impl Into<Principal>,
    ) -> Result<DecisionResult, Error> {
        self.resolve_call(task, call_id, &CallResolution::Abandon(reason.to_owned()), by.into()).await
    }

    /// Answers a call's question as [`TaskHandle::answer`](crate::system::handles::TaskHandle::answer) does.
    ///
    /// # Errors
    /// As there, and errors of the log.
    pub async fn answer(
        &self,
        task: &StreamId,
        question: &str,
        answer: Answer,
        by: impl Into<Principal>,
    ) -> Result<DecisionResult, Error> {
        let by: Principal = by.into();
        let mut started = self.started.lock().await;
        let entity = self.read(task).await?;
        let AnswerCommands { commands, call_id } = answering(entity.state(), question, answer)?;
        self.carry_out_on(entity, &mut started, commands, by, (&call_id, after_answer)).await
    }

    /// Records that the decisions are done. Call it before the log is closed. A decision after it records a start again.
    ///
    /// # Errors
    /// [`Error::Append`] if the log cannot be written.
    pub async fn finish(&self) -> Result<(), Error> {
        let mut started = self.started.lock().await;
        if *started {
            record_stop(&self.store, &self.ports, None).await?;
            *started = false;
        }
        Ok(())
    }

    async fn decide_approval(
        &self,
        task: &StreamId,
        approval_id: &str,
        approved: bool,
        reason: Option<&str>,
        by: Principal,
    ) -> Result<DecisionResult, Error> {
        let command = TaskCommand::DecideApproval(ApprovalDecided {
            approval_id: approval_id.to_owned(),
            approved,
            reason: reason.map(str::to_owned),
            decided_by: by.clone(),
        });
        self.carry_out(task, command, by, approval_id, after_approval).await
    }

    async fn resolve_call(
        &self,
        task: &StreamId,
        call_id: &str,
        resolution: &CallResolution,
        by: Principal,
    ) -> Result<DecisionResult, Error> {
        let command = TaskCommand::Call(resolution.command(call_id.to_owned(), by.clone()));
        self.carry_out(task, command, by, call_id, after_resolution).await
    }

    async fn read(&self, task: &StreamId) -> Result<Entity<Task>, Error> {
        let entity = Entity::<Task>::recover(&self.store, task.clone(), Seed::draw(&self.ports)).await?;
        if entity.state().exists() { Ok(entity) } else { Err(Error::TaskNotFound(task.id())) }
    }

    fn metadata(&self, task: &Entity<Task>, by: Principal) -> Metadata {
        Metadata {
            at: self.ports.clock.now(),
            command_id: self.ports.clone().uuid(),
            command_digest: None,
            causation_id: String::new(),
            correlation_id: task.correlation_id().to_owned(),
            principal: by,
        }
    }

    /// Records a start, unless one is recorded.
    async fn note_start(&self, started: &mut bool) -> Result<(), Error> {
        if !*started {
            record_start(&self.store, &self.ports, &[], None, Vec::new()).await?;
            *started = true;
        }
        Ok(())
    }

    /// Reads the task, and carries out a decision on it.
    async fn carry_out(
        &self,
        stream: &StreamId,
        command: TaskCommand,
        by: Principal,
        about: &str,
        after: After,
    ) -> Result<DecisionResult, Error> {
        let mut started = self.started.lock().await;
        let entity = self.read(stream).await?;
        self.carry_out_on(entity, &mut started, vec![command], by, (about, after)).await
    }

    /// Decides, and appends the decision with the commands that resume the task, all or nothing.
    async fn carry_out_on(
        &self,
        mut entity: Entity<Task>,
        started: &mut bool,
        commands: Vec<TaskCommand>,
        by: Principal,
        (about, after): (&str, After),
    ) -> Result<DecisionResult, Error> {
        let metadata = self.metadata(&entity, by);
        for command in commands {
            entity.decide(command, &metadata)?;
        }
        let is_new = entity.is_pending();
        if is_new {
            self.note_start(started).await?;
            for act in self.follow(&entity, &metadata, about, after) {
                if let Act::Task(command) = act {
                    entity.decide(command, &metadata)?;
                }
            }
            self.append(&mut entity, &metadata).await?;
        }
        let task = TaskSnapshot::new(entity.shared_state(), entity.version());
        Ok(DecisionResult { task, is_new })
    }

    fn follow(&self, entity: &Entity<Task>, metadata: &Metadata, about: &str, after: After) -> Vec<Act> {
        let task = entity.state();
        // The prompts in the task's calls show whether the agent keeps conversations.
        let in_session = task
            .calls()
            .iter()
            .any(|call| call.request.prompt.as_ref().is_some_and(|prompt| prompt.session.is_some()));
        let agent = Agent { conversation: in_session, ..Agent::new("") };
        let (replies, mut mint) = (ReadReplies::default(), self.ports.clone());
        let mut question = Question {
            agent: &agent,
            stream: entity.stream(),
            read: entity,
            task,
            turn_view: None,
            epoch: self.store.fence().epoch,
            now: metadata.at,
            steady: metadata.at,
            run_until: None,
            is_time_up: false,
            outside: OutsideWork::none(),
            replies: &replies,
            mint: &mut mint,
        };
        after(&mut question, about)
    }

    async fn append(&self, entity: &mut Entity<Task>, metadata: &Metadata) -> Result<(), Error> {
        let fence = self.store.fence();
        let set_id = self.ports.ids.random();
        let part = entity.part(fence, SetPart::only(set_id), metadata, None)?;
        let hash = part.record.hash();
        let appended = self.store.append(Append { fence, set_id, parts: vec![part] }).await?;
        if let Some(committed) = appended.parts.into_iter().next() {
            entity.mark_committed(committed, hash, metadata);
        }
        Ok(())
    }
}
