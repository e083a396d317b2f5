//! The work of a task on one operation, as a machine without waiting: each step ends with what it needs from outside, an
//! append or something to be read, and goes on with the answer. It runs without an executor, so that the same steps can be
//! carried out by an actor, in a test or in a simulation.
//!
//! ```text
//! begin ─▶ keep secrets ─▶ ask about a changed agent ─▶ answered before? ─▶ decide ─▶ plan ⇄ append ─▶ append ─▶ done
//!                                    ▲                                                        │
//!                                    └──────────── again after a conflict ◀── read again ◀────┘
//! ```

use proto_events::envelope::Metadata;
use proto_events::id::{StreamId, Version};
use taskreel_log::api::AppendError;

use crate::actors::shared::messages::{AttemptEnd, Cause, TaskOp};
use crate::actors::shared::parts::Shared;
use crate::actors::shared::tool_stores::HeldStore;
use crate::actors::task::core::TaskCore;
use crate::actors::task::effect::Effect;
use crate::actors::task::plan::NextStep;
use crate::actors::task::secret_ops::not_kept;
use crate::actors::task::step::{Again, Input, Need, Output, PendingWrite, Rest, StepWork, Then};
use crate::error::Error;

/// The number of times a decision is repeated after another writer extended a stream. Streams have one
/// writer, so more than a few conflicts in a row are a fault.
const CONFLICTS_MAX: usize = 8;

type Stepped = Result<Output, Error>;

impl TaskCore {
    /// Begins an operation.
    pub(crate) fn start_operation(&mut self, shared: &Shared, op: TaskOp, mut cause: Cause) -> Output {
        self.is_query = op.is_query();
        if self.is_query {
            return Output::Done(Ok(()));
        }
        self.answered = None;
        self.session_effect = None;
        let (may_repeat, content) = (cause.may_repeat, cause.content.take());
        let mut metadata = cause.into_metadata(shared.ports.clock.now());
        if metadata.correlation_id.is_empty() {
            self.entity.correlation_id().clone_into(&mut metadata.correlation_id);
        }
        let (op, replaced) = self.replace_secrets(shared, op);
        let work = Box::new(StepWork {
            op: Some(op),
            again: Again::Message,
            metadata,
            content,
            may_repeat,
            tries: 0,
            before: Version(0),
            written: false,
            planning: false,
            acquire: None,
            writing: PendingWrite::default(),
            then: Then::Nothing,
        });
        self.step(shared, work, |core, work| {
            if replaced.is_empty() {
                return core.try_again(shared, work);
            }
            work.then = Then::Begin;
            Ok(Output::Need(Need::Keep(replaced)))
        })
    }

    /// Goes on with the answer to what the last step needed.
    pub(crate) fn resume(&mut self, shared: &Shared, input: Input) -> Output {
        let Some(mut work) = self.work.take() else {
            return Output::Done(Err(Error::Internal("a task went on without an operation".to_owned())));
        };
        let then = std::mem::take(&mut work.then);
        match (then, input) {
            (Then::Begin, Input::Kept(kept)) => self.step(shared, work, |core, work| {
                if let Err(error) = kept {
                    work.op = work.op.take().map(|op| not_kept(op, &error)).transpose()?;
                }
                core.try_again(shared, work)
            }),
            (Then::Decide, Input::Found(found)) => self.step(shared, work, |core, work| {
                core.answered = found?;
                if core.answered.is_some() {
                    core.decided_all(shared, work)
                } else {
                    core.decide_it(shared, work)
                }
            }),
            (Then::DecideHeld, Input::Held(held)) => self.step(shared, work, |core, work| {
                core.decide_held(shared, work, held?)?;
                core.decided_all(shared, work)
            }),
            (Then::GiveUpHeld(why), Input::Held(held)) => self.last_step(work, |core, work| {
                core.decide_held(shared, work, held?)?;
                core.give_up(shared, work, &why)
            }),
            (Then::Turn { session, turn_id }, Input::Turn(grant)) => self.step(shared, work, |core, work| {
                if let Some(grant) = grant {
                    core.accept_turn(shared, &turn_id, *grant);
                    return core.plan_on(shared, work, Rest::Nothing);
                }
                core.wait_with(shared, work, Some((session, turn_id)))
            }),
            (Then::Retry(error), Input::Read(read)) => match read {
                Ok(read) => {
                    self.put_read(*read);
                    self.retry(shared, work, error)
                }
                Err(unread) => Output::Done(Err(unread)),
            },
            (Then::GaveUp, Input::Appended(answer)) => self.last_step(work, |core, work| {
                core.note_appended(work, answer?)?;
                core.drop_turn_if_idle();
                core.settle_outside(shared);
                Ok(Output::Done(Ok(())))
            }),
            (then, Input::Appended(answer)) => self.step(shared, work, |core, work| {
                core.note_appended(work, answer?)?;
                core.after_append(shared, work, then)
            }),
            _ => Output::Done(Err(Error::Internal("a task got the answer to another question".to_owned()))),
        }
    }

    fn after_append(&mut self, shared: &Shared, work: &mut StepWork, then: Then) -> Stepped {
        match then {
            Then::LookUp => {
                self.asked_about_change();
                work.before = self.entity.version();
                self.look_up(shared, work)
            }
            Then::Plan(rest) => self.plan_on(shared, work, rest),
            _ => {
                self.finish(shared, work);
                Ok(Output::Done(Ok(())))
            }
        }
    }

    /// Carries out a step, and what follows its error.
    fn step(
        &mut self,
        shared: &Shared,
        mut work: Box<StepWork>,
        step: impl FnOnce(&mut Self, &mut StepWork) -> Stepped,
    ) -> Output {
        match step(self, &mut work) {
            Ok(done @ Output::Done(_)) => done,
            Ok(output) => {
                self.work = Some(work);
                output
            }
            Err(error) => self.failed(shared, work, error),
        }
    }

    /// Carries out a step of giving up, whose error is the end of the operation.
    fn last_step(
        &mut self,
        mut work: Box<StepWork>,
        step: impl FnOnce(&mut Self, &mut StepWork) -> Stepped,
    ) -> Output {
        match step(self, &mut work) {
            Ok(done @ Output::Done(_)) => done,
            Ok(output) => {
                self.work = Some(work);
                output
            }
            Err(error) => {
                // What is decided and not on disk is dropped with the state.
                self.broken = self.is_pending();
                Output::Done(Err(error))
            }
        }
    }

    /// Decides the operation, unless it was decided before, and all that follows from it.
    fn try_again(&mut self, shared: &Shared, work: &mut StepWork) -> Stepped {
        work.tries += 1;
        if work.tries > CONFLICTS_MAX {
            let what = format!("{} is written by another writer", self.entity.stream());
            return Ok(Output::Done(Err(Error::Internal(what))));
        }
        if work.tries == 1 {
            let of_op = || work.op.as_ref().filter(|_| work.may_repeat).map(TaskOp::content);
            work.content = work.content.take().or_else(of_op);
        } else {
            work.metadata.at = shared.ports.clock.now();
        }
        work.before = self.entity.version();
        if let Some(own) = self.ask_about_change(shared, &work.metadata)? {
            work.then = Then::LookUp;
            return self.write(shared, work, Some(own));
        }
        self.look_up(shared, work)
    }

    /// Looks for the first answer to the command.
    fn look_up(&mut self, shared: &Shared, work: &mut StepWork) -> Stepped {
        let Some(op) = &work.op else { return self.decided_all(shared, work) };
        // Permits and the end of a back-off are known to the actor alone: each counts, even after an earlier one.
        let always =
            matches!(op, TaskOp::PermitGranted { .. } | TaskOp::PermitLate { .. } | TaskOp::RetryDue { .. });
        // The session's actor has looked for an earlier answer in the session.
        let always = always || matches!(op, TaskOp::OfSession(_));
        let id = &work.metadata.command_id;
        // A task that we make an id for is submitted under that id. It did not come before: an answer to it is that of another
        // task, which has the same id by chance, and the decision says so.
        let is_new = matches!(op, TaskOp::Submit(_)) && !work.may_repeat && work.tries == 1;
        let always = always || (is_new && *id == self.entity.stream().id());
        if always || id.is_empty() {
            return self.decide_it(shared, work);
        }
        self.answered = self.entity.answered(id, work.content.as_deref())?;
        if self.answered.is_some() {
            return self.decided_all(shared, work);
        }
        match &work.content {
            Some(content) if self.entity.may_have_forgotten(id) => {
                let (command_id, content) = (id.clone(), content.clone());
                work.then = Then::Decide;
                Ok(Output::Need(Need::Search { command_id, content }))
            }
            _ => self.decide_it(shared, work),
        }
    }

    fn decide_it(&mut self, shared: &Shared, work: &mut StepWork) -> Stepped {
        if let Some(tool) = work.op.as_ref().and_then(|op| self.tool_written_by(op)) {
            work.then = Then::DecideHeld;
            return Ok(Output::Need(Need::Hold { tool }));
        }
        let Some(op) = work.op.take() else { return self.decided_all(shared, work) };
        work.again = Again::new(&op, self.task());
        self.decide_op(shared, op, &work.metadata)?;
        self.decided_all(shared, work)
    }

    /// Decides the operation after its writes to a tool's state.
    fn decide_held(&mut self, shared: &Shared, work: &mut StepWork, held: HeldStore) -> Result<(), Error> {
        let Some(mut op) = work.op.take() else { return Ok(()) };
        work.again = Again::new(&op, self.task());
        self.decide_tool_writes(held, &mut op, &work.metadata)?;
        self.decide_op(shared, op, &work.metadata)
    }

    /// Plans what follows once the operation is decided.
    fn decided_all(&mut self, shared: &Shared, work: &mut StepWork) -> Stepped {
        if self.is_idle() {
            // A command of the caller's own may have ended a run in the middle of its turn.
            self.break_off_turn(shared, "the run was ended", &work.metadata)?;
        }
        self.note_run(shared, work.metadata.at);
        work.planning = true;
        self.plan_on(shared, work, Rest::Nothing)
    }

    fn plan_on(&mut self, shared: &Shared, work: &mut StepWork, rest: Rest) -> Stepped {
        match rest {
            Rest::Nothing => {}
            Rest::Approver(approval_id) => self.ask_approver(shared, &approval_id),
            Rest::Acts(acts) => {
                if let Some(rest) = self.carry_out_acts(acts, true, &work.metadata)? {
                    work.then = Then::Plan(Rest::Acts(rest));
                    return self.write(shared, work, None);
                }
            }
        }
        match self.plan(shared, &work.metadata)? {
            NextStep::Write => {
                work.then = Then::Plan(Rest::Nothing);
                self.write(shared, work, None)
            }
            NextStep::WriteThenActs(acts) => {
                work.then = Then::Plan(Rest::Acts(acts));
                self.write(shared, work, None)
            }
            NextStep::WriteThenApprover(approval_id) => {
                work.then = Then::Plan(Rest::Approver(approval_id));
                self.write(shared, work, None)
            }
            NextStep::Wait(Some((session, turn_id))) if self.asks_before_writing() => {
                work.then = Then::Turn { session: session.clone(), turn_id: turn_id.clone() };
                Ok(Output::Need(Need::Turn { session, turn_id }))
            }
            NextStep::Wait(turn) => self.wait_with(shared, work, turn),
        }
    }

    /// Writes what is pending, then asks for the turn.
    fn wait_with(
        &mut self,
        shared: &Shared,
        work: &mut StepWork,
        turn: Option<(StreamId, String)>,
    ) -> Stepped {
        work.planning = false;
        work.acquire = turn.map(|(session, turn_id)| Effect::Acquire { session, turn_id });
        work.then = Then::Finish;
        self.write(shared, work, None)
    }

    /// Hands over what is pending, or goes on at once if nothing is.
    fn write(&mut self, shared: &Shared, work: &mut StepWork, other: Option<Metadata>) -> Stepped {
        if let Some(append) = self.append(shared, work, other)? {
            return Ok(Output::Append(append));
        }
        let then = std::mem::take(&mut work.then);
        self.after_append(shared, work, then)
    }

    fn finish(&mut self, shared: &Shared, work: &mut StepWork) {
        if let Some((tell, effect)) = self.session_effect.take() {
            let _ = tell.send(effect);
        }
        self.drop_turn_if_idle();
        self.settle_outside(shared);
        self.outbox.extend(work.acquire.take());
    }

    /// Drops what was decided and not written, and has the streams read again. Goes on at once where that is not needed.
    fn failed(&mut self, shared: &Shared, mut work: Box<StepWork>, error: Error) -> Output {
        if work.acquire.take().is_some() {
            // The request for the turn is not sent.
            self.requested_turn = None;
        }
        // Before the streams are read again: another writer may have extended them.
        work.written = self.entity.version() > work.before;
        if work.op.is_none() && !work.written {
            let again = std::mem::replace(&mut work.again, Again::Message);
            work.op = again.op(self.entity.first_pending());
        }
        if let Some(held) = self.tool.take() {
            held.forget();
        }
        let task = self.entity.is_pending().then(|| self.entity.stream().clone());
        let session = self.turn.as_ref().filter(|held| held.session.is_pending());
        let session = session.map(|held| held.session.stream().clone());
        if task.is_none() && session.is_none() {
            return self.retry(shared, work, error);
        }
        self.broken = true;
        work.then = Then::Retry(error);
        self.work = Some(work);
        Output::Need(Need::Read { task, session })
    }

    /// Goes on after an error, with the state as it is on disk. A task whose run did not begin has no use for the turn.
    fn retry(&mut self, shared: &Shared, work: Box<StepWork>, error: Error) -> Output {
        let output = self.retry_with_turn(shared, work, error);
        if matches!(output, Output::Done(_)) {
            self.drop_turn_if_idle();
        }
        output
    }

    fn retry_with_turn(&mut self, shared: &Shared, mut work: Box<StepWork>, error: Error) -> Output {
        self.broken = false;
        let written = work.written;
        let planning = std::mem::take(&mut work.planning);
        let limit = error.too_large();
        match (work.op.take(), error) {
            (None, error @ Error::Append(AppendError::Conflict { .. })) if !written => {
                // It was decided, and cannot be had again: it is refused rather than taken for done.
                Output::Done(Err(error))
            }
            (op, Error::Append(AppendError::Conflict { .. })) => {
                work.op = op;
                self.step(shared, work, |core, work| core.try_again(shared, work))
            }
            // The operation itself can be decided; its next steps fail on each retry.
            (op, error) if planning && !error.is_of_the_store() => {
                work.op = op.filter(|_| !written && self.answered.is_none());
                let why = error.to_string();
                self.last_step(work, |core, work| {
                    if let Some(tool) = work.op.as_ref().and_then(|op| core.tool_written_by(op)) {
                        work.then = Then::GiveUpHeld(why);
                        return Ok(Output::Need(Need::Hold { tool }));
                    }
                    if let Some(op) = work.op.take() {
                        core.decide_op(shared, op, &work.metadata)?;
                    }
                    core.give_up(shared, work, &why)
                })
            }
            // The effect happened; only its answer is too large to store.
            (Some(TaskOp::Outcome { call_id, attempt, end: end @ AttemptEnd::Succeeded { .. } }), _)
                if !written && limit.is_some() =>
            {
                let end = AttemptEnd::too_large(end.bytes(), limit.unwrap_or_default());
                work.op = Some(TaskOp::Outcome { call_id, attempt, end });
                self.step(shared, work, |core, work| core.try_again(shared, work))
            }
            // The operation is on disk; what follows from it is too large to store.
            (_, error) if written && limit.is_some() => {
                let why = error.to_string();
                self.last_step(work, |core, work| core.give_up(shared, work, &why))
            }
            (_, error) => Output::Done(Err(error)),
        }
    }
}
