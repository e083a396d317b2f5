//! What a person decides while no system has the log open: approvals, and calls whose outcome is unknown. By the same
//! functions as in a running system, one append for each decision. The task goes on when its host starts again: nothing
//! is called here, and no tool needs to be known.

use std::sync::Arc;

use proto_events::call::Verdict;
use proto_events::envelope::{Basis, Metadata, Principal};
use proto_events::id::{Mint, StreamId};
use proto_events::task::{ApprovalDecided, Task, TaskCommand};

use crate::actors::entity::{Entity, Seed, SetPlace};
use crate::actors::messages::Settlement;
use crate::agent::Agent;
use crate::agent::plan::{Act, Question, UnderWay, after_decision, after_settlement};
use crate::error::Error;
use crate::ports::Ports;
use crate::store::{Append, EventStore};

use super::TaskSnapshot;

/// A person's hand on a log that no system has open.
#[derive(Clone)]
pub struct Operator {
    store: Arc<dyn EventStore>,
    ports: Ports,
}

/// What a decision left.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The task behind it.
    pub task: TaskSnapshot,
    /// Whether anything was appended; the same decision again appends nothing.
    pub is_new: bool,
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").finish_non_exhaustive()
    }
}

/// Whose waiting is over: an approval or a call, by its id.
type After = fn(&mut Question<'_>, &str) -> Vec<Act>;

impl Operator {
    /// Decides in this log, which must be open for writing in no other place.
    pub fn new(store: Arc<dyn EventStore>) -> Self {
        Self { store, ports: Ports::default() }
    }

    /// Another clock and other ids, for tests.
    #[must_use]
    pub fn ports(mut self, ports: Ports) -> Self {
        self.ports = ports;
        self
    }

    /// As [`TaskHandle::approve`](super::TaskHandle::approve).
    ///
    /// # Errors
    /// As there, and what the log answers.
    pub async fn approve(&self, task: &StreamId, approval_id: &str, by: &str) -> Result<Decided, Error> {
        self.decide_approval(task, approval_id, true, None, by).await
    }

    /// As [`TaskHandle::deny`](super::TaskHandle::deny).
    ///
    /// # Errors
    /// As there, and what the log answers.
    pub async fn deny(
        &self,
        task: &StreamId,
        approval_id: &str,
        reason: Option<&str>,
        by: &str,
    ) -> Result<Decided, Error> {
        self.decide_approval(task, approval_id, false, reason, by).await
    }

    /// As [`TaskHandle::reconcile`](super::TaskHandle::reconcile).
    ///
    /// # Errors
    /// As there, and what the log answers.
    pub async fn reconcile(
        &self,
        task: &StreamId,
        call_id: &str,
        verdict: Verdict,
        by: &str,
    ) -> Result<Decided, Error> {
        self.settle(task, call_id, &Settlement::Verdict(verdict), by).await
    }

    /// As [`TaskHandle::abandon`](super::TaskHandle::abandon).
    ///
    /// # Errors
    /// As there, and what the log answers.
    pub async fn abandon(
        &self,
        task: &StreamId,
        call_id: &str,
        reason: &str,
        by: &str,
    ) -> Result<Decided, Error> {
        self.settle(task, call_id, &Settlement::Abandon(reason.to_owned()), by).await
    }

    async fn decide_approval(
        &self,
        task: &StreamId,
        approval_id: &str,
        approved: bool,
        reason: Option<&str>,
        by: &str,
    ) -> Result<Decided, Error> {
        let command = TaskCommand::DecideApproval(ApprovalDecided {
            approval_id: approval_id.to_owned(),
            approved,
            reason: reason.map(str::to_owned),
            decided_by: by.to_owned(),
        });
        self.carry_out(task, command, by, approval_id, after_decision).await
    }

    async fn settle(
        &self,
        task: &StreamId,
        call_id: &str,
        settlement: &Settlement,
        by: &str,
    ) -> Result<Decided, Error> {
        let command = TaskCommand::Call(settlement.command(call_id.to_owned(), by.to_owned()));
        self.carry_out(task, command, by, call_id, after_settlement).await
    }

    /// Reads the task, decides, and appends the decision with what takes the task up again, all of it or nothing.
    async fn carry_out(
        &self,
        stream: &StreamId,
        command: TaskCommand,
        by: &str,
        about: &str,
        after: After,
    ) -> Result<Decided, Error> {
        let mut entity = Entity::<Task>::recover(&self.store, stream.clone()).await?;
        if !entity.state().exists() {
            return Err(Error::TaskNotFound(stream.id()));
        }
        let metadata = Metadata {
            at: self.ports.clock.now(),
            command_id: self.ports.clone().uuid(),
            command_digest: command.digest(),
            causation_id: String::new(),
            correlation_id: entity.correlation_id().to_owned(),
            principal: Principal { name: by.to_owned(), basis: Basis::Asserted },
        };
        entity.decide(command, &metadata)?;
        let is_new = !entity.pending().is_empty();
        if is_new {
            for act in self.follow(&entity, &metadata, about, after) {
                if let Act::Task(command) = act {
                    entity.decide(command, &metadata)?;
                }
            }
            self.append(&mut entity, &metadata).await?;
        }
        let task = TaskSnapshot::new(entity.shared_state(), entity.version());
        Ok(Decided { task, is_new })
    }

    fn follow(&self, entity: &Entity<Task>, metadata: &Metadata, about: &str, after: After) -> Vec<Act> {
        let task = entity.state();
        // Whether the agent keeps conversations is in what its models were shown.
        let in_session = task
            .calls()
            .iter()
            .any(|call| call.request.prompt.as_ref().is_some_and(|prompt| prompt.session.is_some()));
        let agent = Agent { conversation: in_session, ..Agent::new("") };
        let (under_way, mut mint) = (UnderWay::default(), self.ports.clone());
        let mut question = Question {
            agent: &agent,
            stream: entity.stream(),
            task,
            seat: None,
            epoch: self.store.fence().epoch,
            now: metadata.at,
            run_until: None,
            under_way: &under_way,
            mint: &mut mint,
        };
        after(&mut question, about)
    }

    async fn append(&self, entity: &mut Entity<Task>, metadata: &Metadata) -> Result<(), Error> {
        let fence = self.store.fence();
        let seed = Seed(self.ports.ids.random());
        let part = entity.part(fence, SetPlace { seed, part: 0, parts: 1 }, metadata)?;
        let hash = part.record.hash();
        let appended = self.store.append(Append { fence, set_id: seed.set_id(), parts: vec![part] }).await?;
        if let Some(committed) = appended.parts.into_iter().next() {
            entity.settle(committed, hash, metadata);
        }
        Ok(())
    }
}
