//! What each operation means: the commands that it is, before anything is planned.

use proto_events::call::recovery::{Failed, Moment, Next};
use proto_events::call::{CallCommand, CallRejection};
use proto_events::envelope::Metadata;
use proto_events::id::StreamId;
use proto_events::model::{self, PostedTask, TaskState};
use proto_events::session::SessionCommand;
use proto_events::task::TaskCommand;

use super::{Held, TaskCore};
use crate::actors::entity::Entity;
use crate::actors::messages::{AttemptEnd, Settlement, TaskOp, TurnGrant};
use crate::actors::shared::Shared;
use crate::agent::plan::{self, Act};
use crate::error::Error;

/// When something is decided, and by which process.
fn moment(shared: &Shared, metadata: &Metadata) -> Moment {
    Moment { epoch: shared.store.fence().epoch, at: metadata.at }
}

impl TaskCore {
    pub(super) fn decide_op(
        &mut self,
        shared: &Shared,
        op: TaskOp,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        match op {
            TaskOp::Submit(posted) => self.submit(shared, posted, metadata),
            TaskOp::Command(command) => self.entity.decide(*command, metadata),
            TaskOp::Cancel { reason } => self.cancel(shared, reason, metadata),
            TaskOp::Outcome { call_id, attempt, end } => {
                self.outcome(shared, call_id, attempt, end, metadata)
            }
            TaskOp::Probed { call_id, attempt, verdict } => self.probed(call_id, attempt, verdict, metadata),
            TaskOp::PlaceGranted { call_id, place } => {
                self.has_place(call_id, place);
                Ok(())
            }
            TaskOp::Settle { call_id, settlement, by } => {
                self.settle(shared, &call_id, &settlement, by, metadata)
            }
            TaskOp::Answered { approval_id, verdict } => self.answered(approval_id, verdict, metadata),
            TaskOp::Decide(decided) => self.decide_approval(shared, decided, metadata),
            TaskOp::TurnGranted { asked, grant } => {
                self.take_seat(&asked, *grant);
                Ok(())
            }
            TaskOp::TurnRefused { asked, why } => self.turn_refused(&asked, why, metadata),
            // What the log says is open is found by planning, as at any other time.
            TaskOp::Resume | TaskOp::Look | TaskOp::AwaitEnd => Ok(()),
        }
    }

    fn submit(&mut self, shared: &Shared, posted: Box<PostedTask>, metadata: &Metadata) -> Result<(), Error> {
        self.entity.decide(TaskCommand::Submit(posted), metadata)?;
        // A repeated post adds nothing; a finished task is left untouched, context and all.
        if self.entity.pending().is_empty() || self.task().state().is_terminal() {
            return Ok(());
        }
        let (task, mut mint) = (self.task(), shared.ports.clone());
        let context = model::attach(task.metadata(), task.id(), &shared.agent.name, None, &mut mint)?;
        self.entity.decide(TaskCommand::MergeMetadata(context), metadata)?;
        if shared.agent.conversation {
            // Whatever the run will ask for, its conversation must have a name.
            StreamId::session(&shared.agent.name, &plan::session_id(self.task()))?;
        }
        self.entity.decide(TaskCommand::Begin, metadata)
    }

    fn cancel(&mut self, shared: &Shared, reason: Option<String>, metadata: &Metadata) -> Result<(), Error> {
        let id = self.entity.stream().id();
        if !self.task().exists() {
            return Err(Error::TaskNotFound(id));
        }
        match self.task().state() {
            // The first reason stands.
            TaskState::Canceled => return Ok(()),
            state if state.is_terminal() => return Err(Error::TaskNotCancelable { id, state }),
            _ => {}
        }
        let mut mint = shared.ports.clone();
        let noted = model::canceled(self.task().metadata(), &id, reason.as_deref(), &mut mint)?;
        self.entity.decide(TaskCommand::Cancel { reason, metadata: noted }, metadata)?;
        self.abort_turn("the task was canceled", metadata)
    }

    /// A person settles an unknown call; if the task waits for it, a new run takes it up again.
    fn settle(
        &mut self,
        shared: &Shared,
        call_id: &str,
        settlement: &Settlement,
        by: String,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let command = settlement.command(call_id.to_owned(), by);
        let before = self.decided();
        self.entity.decide(TaskCommand::Call(command), metadata)?;
        if self.decided() == before {
            return Ok(());
        }
        let mut mint = shared.ports.clone();
        let acts = plan::after_settlement(&mut self.question(shared, metadata, &mut mint), call_id);
        for act in acts {
            if let Act::Task(command) = act {
                self.entity.decide(command, metadata)?;
            }
        }
        Ok(())
    }

    /// Drops the turn that this run has open, if it has one.
    pub(super) fn abort_turn(&mut self, why: &str, metadata: &Metadata) -> Result<(), Error> {
        let held = self.seat.as_ref().filter(|held| !held.closed);
        let open = held.and_then(|held| held.session.state().open_turn());
        let Some(turn_id) = open.map(|open| open.turn_id.clone()) else { return Ok(()) };
        self.decide_session(SessionCommand::AbortTurn { turn_id, reason: why.to_owned() }, metadata)
    }

    fn outcome(
        &mut self,
        shared: &Shared,
        call_id: String,
        attempt: u32,
        end: AttemptEnd,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let command = match end {
            AttemptEnd::Succeeded { result, usage, .. } => {
                CallCommand::Succeed { call_id, attempt, result, usage }
            }
            AttemptEnd::TimedOut { after_ms } => CallCommand::TimeOut { call_id, attempt, after_ms },
            AttemptEnd::Lost { why } => {
                let call = self.task().calls().get(&call_id);
                match call.filter(|call| call.status.is_open() && call.attempts == attempt) {
                    // As after a crash, by the next start.
                    Some(_) if shared.is_stopping() => return Ok(()),
                    Some(call) => match plan::after_loss(call, moment(shared, metadata), &why) {
                        Next::Write(command) => command,
                        Next::Probe { .. } => {
                            self.probe(&call_id);
                            return Ok(());
                        }
                    },
                    None => return Ok(()),
                }
            }
            AttemptEnd::Failed { failure, passing, delay_ms } => {
                let call = self.task().calls().get(&call_id);
                let call =
                    call.ok_or_else(|| Error::Task(CallRejection::NotRequested(call_id.clone()).into()))?;
                let failed = Failed { attempt, failure, passing, delay_ms };
                let command = plan::after_failure(call, failed, moment(shared, metadata));
                if shared.is_stopping() && matches!(command, CallCommand::Dispatch { .. }) {
                    return Ok(()); // The next start finds the call open and tries it again.
                }
                command
            }
        };
        self.entity.decide(TaskCommand::Call(command), metadata)
    }

    fn take_seat(&mut self, asked: &str, grant: TurnGrant) {
        if self.asked_turn.as_deref() != Some(asked) {
            return; // Not what this actor asked for: dropping the grant gives the turn back.
        }
        self.asked_turn = None;
        if self.is_at_rest() {
            return;
        }
        let TurnGrant { stream, turn_id, session, version, position, last_hash, lease } = grant;
        let session = Entity::standing(stream, session, version, position, last_hash);
        self.seat = Some(Held { turn_id, session, closed: false, lease });
    }

    /// The session's actor stopped: ask again. The session cannot be read: the run cannot go on.
    fn turn_refused(&mut self, asked: &str, why: Option<String>, metadata: &Metadata) -> Result<(), Error> {
        if self.asked_turn.as_deref() != Some(asked) {
            return Ok(());
        }
        self.asked_turn = None;
        match why {
            Some(why) if !self.is_at_rest() => {
                let error = format!("the conversation cannot be used: {why}");
                self.entity.decide(TaskCommand::Fail { error }, metadata)
            }
            _ => Ok(()),
        }
    }
}
