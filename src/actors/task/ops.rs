//! The operations of a task: the commands that each of them decides, before anything is planned. A call's writes
//! to its tool's state are decided with the call's success and written in the same append; if the tool's state
//! refuses them, the call has failed and none of them is kept.

use proto_events::call::recovery::{FailedAttempt, RetryWish};
use proto_events::call::{CallCommand, CallFailure, CallRejection, CallStatus, FailureClass, Verdict};
use proto_events::envelope::{Metadata, Principal};
use proto_events::id::StreamId;
use proto_events::json::JsonObject;
use proto_events::limits::PARTS_MAX;
use proto_events::model::{self, PostedTask, RunContext, TaskState};
use proto_events::task::{Task, TaskCommand, TaskRejection};
use proto_events::tool_store::ToolStoreCommand;

use crate::actors::entity::Entity;
use crate::actors::seed::Seed;
use crate::actors::shared::messages::{AttemptEnd, TaskOp};
use crate::actors::shared::parts::Shared;
use crate::actors::shared::resolution::CallResolution;
use crate::actors::shared::session_decision;
use crate::actors::shared::session_op::{ForSession, SessionEffect};
use crate::actors::shared::tool_stores::HeldStore;
use crate::actors::shared::turns::TurnGrant;
use crate::actors::task::core::{HeldTurn, TaskCore};
use crate::agent::approval::ApprovalVerdict;
use crate::error::Error;
use crate::limits::PROBED_RESULT_BYTES_MAX;
use crate::run::question::Act;
use crate::run::turn_end::ended_early;
use crate::run::{self, after_resolution, person_steps, steps};
use crate::tools::state::state_error;
use crate::tools::texts::shorten;

/// Shortens the texts that come from outside: of tools, models and other agents, of probes and approval handlers. An
/// outcome is never lost because no event can hold its text.
fn bounded(mut op: TaskOp) -> TaskOp {
    match &mut op {
        TaskOp::Outcome { end: AttemptEnd::Failed { failure, .. }, .. } => {
            shorten(&mut failure.error_type);
            shorten(&mut failure.message);
        }
        TaskOp::Outcome { end: AttemptEnd::Lost { why }, .. }
        | TaskOp::Probed { verdict: Verdict::Inconclusive(why), .. }
        | TaskOp::TurnRefused { why: Some(why), .. }
        | TaskOp::Answered { verdict: ApprovalVerdict::Denied { reason: Some(why) }, .. } => shorten(why),
        TaskOp::Probed { verdict, .. } => {
            // The verdict and the success that follows from it are in one record.
            let bytes = match verdict {
                Verdict::Landed(result) => result.as_str().len(),
                _ => 0,
            };
            if bytes > PROBED_RESULT_BYTES_MAX {
                let why = format!(
                    "the probe found a result of {bytes} bytes; an event of the log holds at most {PROBED_RESULT_BYTES_MAX}"
                );
                *verdict = Verdict::Inconclusive(why);
            }
        }
        _ => {}
    }
    op
}

/// Refuses a caller's message or artifact with more parts than one run carries out. Only what comes from outside is
/// checked: a run that goes on after an approval is never stopped by it.
fn check_parts(command: &TaskCommand) -> Result<(), TaskRejection> {
    let most = match command {
        TaskCommand::Submit(posted) => {
            let messages = posted.messages.iter().map(|message| message.parts.len());
            messages.chain(posted.artifacts.iter().map(|artifact| artifact.parts.len())).max()
        }
        TaskCommand::AppendMessage(message) => Some(message.parts.len()),
        TaskCommand::AppendArtifact { artifact, .. } | TaskCommand::AppendArtifactPart { artifact, .. } => {
            Some(artifact.parts.len())
        }
        _ => None,
    };
    match most.filter(|parts| *parts > PARTS_MAX) {
        Some(parts) => Err(TaskRejection::TooManyParts { parts, limit: PARTS_MAX }),
        None => Ok(()),
    }
}

impl TaskCore {
    pub(super) fn decide_op(
        &mut self,
        shared: &Shared,
        op: TaskOp,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        match bounded(op) {
            TaskOp::Submit(posted) => self.submit(shared, posted, metadata),
            TaskOp::Command(command) => {
                check_parts(&command)?;
                match *command {
                    TaskCommand::AppendMessage(message) => self.add_message(shared, message, metadata),
                    TaskCommand::MergeMetadata(entries) => self.merge_metadata(shared, entries, metadata),
                    command => self.entity.decide(command, metadata),
                }
            }
            TaskOp::Cancel { reason } => self.cancel(shared, reason, metadata),
            TaskOp::Outcome { call_id, attempt, mut end } => {
                self.say_last(&call_id, attempt, &mut end, metadata)?;
                self.outcome(shared, call_id, attempt, end, metadata)
            }
            TaskOp::Probed { call_id, attempt, verdict } => self.probed(call_id, attempt, verdict, metadata),
            TaskOp::Accepted { call_id, attempt, handle, is_found } => {
                self.accepted(shared, call_id, attempt, handle, is_found, metadata)
            }
            TaskOp::PermitGranted { call_id, permit } => {
                self.hold_permit(shared, &call_id, permit);
                Ok(())
            }
            TaskOp::RetryDue { call_id, attempt } => {
                let known = &mut self.outside.calls().known;
                known.awaiting_retry.remove(&call_id);
                known.retry_due.insert(call_id, attempt);
                Ok(())
            }
            // Planning fails the call, or waits on if the clock was set back.
            TaskOp::PermitLate { call_id } => {
                self.permit_is_awaited_no_more(&call_id);
                Ok(())
            }
            TaskOp::ResolveCall { call_id, resolution, by } => {
                self.resolve_call(shared, &call_id, &resolution, by, metadata)
            }
            TaskOp::AnswerCall { question, answer } => self.answer_call(shared, &question, answer, metadata),
            TaskOp::Delegate { wanted, tell } => {
                self.outside.calls().want(*wanted, tell);
                Ok(())
            }
            TaskOp::ChildOver { call_id, child } => self.child_over(shared, &call_id, &child, metadata),
            TaskOp::OfHandler { call_id, attempt, says } => {
                self.append_handler_output(call_id, attempt, says, metadata)
            }
            TaskOp::Answered { approval_id, verdict } => self.answered(approval_id, verdict, metadata),
            TaskOp::Decide(decided) => self.decide_approval(shared, decided, metadata),
            TaskOp::RaiseBudget { budget, by } => self.raise_budget(shared, &budget, by, metadata),
            TaskOp::TurnGranted { asked, grant } => {
                self.accept_turn(shared, &asked, *grant);
                Ok(())
            }
            TaskOp::TurnRefused { asked, why } => self.turn_refused(&asked, why, metadata),
            TaskOp::OfSession(asked) => self.of_session(shared, *asked, metadata),
            TaskOp::TimeUp { run, until } => {
                // Word that was on its way when the budget was changed is about another moment.
                if self.outside.run == Some((run, Some(until))) {
                    self.outside.time_up = Some(run);
                }
                Ok(())
            }
            // It has become a command before, since its secrets are kept first.
            TaskOp::SetWebhook { .. } => Err(Error::Internal("a webhook was not made a command".to_owned())),
            // Planning finds what the log says is open, as at any other time.
            TaskOp::Resume | TaskOp::Look | TaskOp::AwaitEnd => Ok(()),
        }
    }

    fn submit(&mut self, shared: &Shared, posted: Box<PostedTask>, metadata: &Metadata) -> Result<(), Error> {
        let submit = TaskCommand::Submit(posted);
        check_parts(&submit)?;
        let items = |task: &Task| (task.messages().len(), task.artifacts().len());
        let (messages, artifacts) = items(self.task());
        self.entity.decide(submit, metadata)?;
        // A repeated post adds nothing; a finished task is left untouched, including its context.
        if !self.entity.is_pending() || self.task().state().is_terminal() {
            return Ok(());
        }
        let (task, mut mint) = (self.task(), shared.ports.clone());
        let context = model::attach(task.metadata(), task.id(), &shared.agent.name, None, &mut mint)?;
        self.entity.decide(TaskCommand::MergeMetadata(context), metadata)?;
        if shared.agent.conversation {
            // The conversation must have a valid name before the run asks for it.
            StreamId::session(&shared.agent.name, &steps::session_id(self.task()))?;
        }
        // One message in reply to a question is its answer; anything else that is posted goes on without it.
        let is_message = items(self.task()) == (messages.saturating_add(1), artifacts);
        let reply = self.task().messages().last().filter(|_| is_message);
        if let Some((call_id, text)) = reply.map_or(Ok(None), |reply| self.task().answered_by(reply))? {
            person_steps::check_answer(self.task(), &call_id)?;
            return self.answered_by_message(shared, call_id, text, metadata);
        }
        self.entity.decide(TaskCommand::Begin, metadata)
    }

    /// Merges a caller's metadata, unless the task's run context could not be read after it.
    pub(super) fn merge_metadata(
        &mut self,
        shared: &Shared,
        entries: JsonObject,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let mut merged = self.task().metadata().clone();
        merged.merge(&entries);
        RunContext::of_task(&merged, self.task().id(), "", None, &mut shared.ports.clone())?;
        self.entity.decide(TaskCommand::MergeMetadata(entries), metadata)
    }

    fn cancel(&mut self, shared: &Shared, reason: Option<String>, metadata: &Metadata) -> Result<(), Error> {
        let id = self.entity.stream().id();
        if !self.task().exists() {
            return Err(Error::TaskNotFound(id));
        }
        match self.task().state() {
            // The first reason is kept.
            TaskState::Canceled => return Ok(()),
            state if state.is_terminal() => return Err(Error::TaskNotCancelable { id, state }),
            _ => {}
        }
        let mut mint = shared.ports.clone();
        // A host may have merged anything before: no metadata keeps a task from being canceled.
        let noted = model::canceled(self.task().metadata(), &id, reason.as_deref(), &mut mint)
            .unwrap_or_else(|_| model::canceled_unread(reason.as_deref()));
        self.entity.decide(TaskCommand::Cancel { reason, metadata: noted }, metadata)?;
        self.break_off_turn(shared, "the task was canceled", metadata)
    }

    /// Settles an unknown call by a person's decision; if the task waits for it, a new run resumes it.
    fn resolve_call(
        &mut self,
        shared: &Shared,
        call_id: &str,
        resolution: &CallResolution,
        by: Principal,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let command = resolution.command(call_id.to_owned(), by);
        let before = self.decided();
        self.entity.decide(TaskCommand::Call(command), metadata)?;
        if self.decided() == before {
            return Ok(());
        }
        let mut mint = shared.ports.clone();
        let acts =
            after_resolution::after_resolution(&mut self.question(shared, metadata, &mut mint), call_id);
        for act in acts {
            if let Act::Task(command) = act {
                self.entity.decide(command, metadata)?;
            }
        }
        Ok(())
    }

    /// Ends the turn that this run has open, if it has one, before it came to its answer.
    pub(crate) fn break_off_turn(
        &mut self,
        shared: &Shared,
        why: &str,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let held = self.turn.as_ref().filter(|held| !held.closed);
        let open = held.and_then(|held| Some((held, held.session.state().open_turn()?)));
        // After a conflict the turn that is open may be another task's.
        let Some((_, open)) = open.filter(|(held, open)| open.turn_id == held.turn_id) else { return Ok(()) };
        let mut mint = shared.ports.clone();
        let commands = ended_early(shared.agent.loop_rules, open, self.task(), why, &mut mint);
        commands.into_iter().try_for_each(|command| self.decide_session(command, metadata))
    }

    /// Decides an operation on the history of the session whose turn this task holds. What is decided for the turn is folded
    /// behind it.
    fn of_session(&mut self, shared: &Shared, asked: ForSession, metadata: &Metadata) -> Result<(), Error> {
        let ForSession { session, op, content, tell } = asked;
        let held = self.turn.as_mut().filter(|held| !held.closed && *held.session.stream() == session);
        let effect = match held {
            None => SessionEffect::NotHeld,
            Some(held) => {
                let effect = session_decision::decide(&mut held.session, &op, shared, metadata)?;
                held.content = content.filter(|_| held.session.is_pending());
                effect
            }
        };
        self.session_effect = Some((tell, effect));
        Ok(())
    }

    /// Gives the session's turn back once the task is at rest.
    pub(crate) fn drop_turn_if_idle(&mut self) {
        if self.is_idle() {
            self.turn = None;
        }
    }

    pub(super) fn outcome(
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
            AttemptEnd::Asked { question } => CallCommand::Ask { call_id, attempt, question },
            AttemptEnd::TimedOut { after_ms, limit } => {
                CallCommand::TimeOut { call_id, attempt, after_ms, limit }
            }
            AttemptEnd::Lost { why } => match self.after_loss(shared, (call_id, attempt), why, metadata) {
                Some(command) => command,
                None => return Ok(()),
            },
            AttemptEnd::Failed { failure, retry } => {
                let call = self.task().calls().get(&call_id);
                let call =
                    call.ok_or_else(|| Error::Task(CallRejection::NotRequested(call_id.clone()).into()))?;
                let failed = FailedAttempt { attempt, failure, retry };
                run::after_failure(call, failed, self.moment(shared, metadata))
            }
        };
        self.entity.decide(TaskCommand::Call(command), metadata)
    }

    pub(super) fn accept_turn(&mut self, shared: &Shared, asked: &str, grant: TurnGrant) {
        if self.requested_turn.as_deref() != Some(asked) {
            return; // Not requested by this actor: dropping the grant gives the turn back.
        }
        self.requested_turn = None;
        if self.is_idle() {
            return;
        }
        let TurnGrant { stream, turn_id, session, version, position, last_hash, lease } = grant;
        let session =
            Entity::from_parts(stream, session, version, position, last_hash, Seed::draw(&shared.ports));
        self.turn = Some(Box::new(HeldTurn { turn_id, session, closed: false, lease, content: None }));
    }

    /// Handles a refused turn: asks again if the session's actor stopped, and fails the run if the session
    /// cannot be read.
    fn turn_refused(&mut self, asked: &str, why: Option<String>, metadata: &Metadata) -> Result<(), Error> {
        if self.requested_turn.as_deref() != Some(asked) {
            return Ok(());
        }
        self.requested_turn = None;
        match why {
            Some(why) if !self.is_idle() => {
                let error = format!("the conversation cannot be used: {why}");
                self.entity.decide(TaskCommand::Fail { error }, metadata)
            }
            _ => Ok(()),
        }
    }
}

impl TaskCore {
    /// Returns the tool whose state an operation writes, if it is the success of an attempt that is in flight: only the
    /// success that closes its call writes, no late one (R6).
    pub(super) fn tool_written_by(&self, op: &TaskOp) -> Option<String> {
        let TaskOp::Outcome { call_id, attempt, end: AttemptEnd::Succeeded { writes, .. } } = op else {
            return None;
        };
        if writes.is_empty() {
            return None;
        }
        let call = self.task().calls().get(call_id)?;
        let closes = call.status == CallStatus::Dispatched && call.attempts == *attempt;
        closes.then(|| call.request.target.clone())
    }

    /// Decides the writes of an operation to its tool's state. If the tool's state refuses them the operation is a failure
    /// from then on.
    pub(super) fn decide_tool_writes(
        &mut self,
        mut held: HeldStore,
        op: &mut TaskOp,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let TaskOp::Outcome { call_id, end, .. } = op else { return Ok(()) };
        let AttemptEnd::Succeeded { writes, .. } = end else { return Ok(()) };
        let writes = std::mem::take(writes);
        let task = self.entity.stream().to_string();
        let command = ToolStoreCommand::Write { task, call_id: call_id.clone(), writes };
        match held.decide(command, metadata) {
            // The write may change nothing, such as the removal of an absent key.
            Ok(()) => self.tool = Some(held).filter(|held| held.pending().0),
            Err(Error::ToolState(rejection)) => {
                let error = state_error(&rejection);
                let (error_type, message) = (error.type_name().to_owned(), error.message().to_owned());
                let failure =
                    CallFailure { class: FailureClass::AfterEffect, error_type, message, usage: None };
                *end = AttemptEnd::Failed { failure, retry: RetryWish::Unsaid };
            }
            Err(error) => {
                held.forget();
                return Err(error);
            }
        }
        Ok(())
    }
}
