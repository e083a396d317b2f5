//! The planning of a task's next steps: the planner is asked until its answer is to wait, or until something must be on disk
//! first.

use std::collections::VecDeque;

use proto_events::envelope::Metadata;
use proto_events::id::{Mint, StreamId};
use proto_events::session::SessionCommand;
use proto_events::task::TaskCommand;

use crate::actors::shared::parts::Shared;
use crate::actors::task::core::TaskCore;
use crate::actors::task::step::{Output, StepWork, Then};
use crate::error::Error;
use crate::limits::EVENTS_TOGETHER;
use crate::run::next;
use crate::run::question::{Act, Step};

/// The size of pending events at which they are written before planning continues (1 MiB): what follows from
/// a large result repeats it, and all other callers of the group wait while it is written.
const SPLIT_BYTES: usize = 1024 * 1024;

/// The size up to which pending events are written together with what follows from them in the session's turn, or a responder's
/// answer together with its message (64 KiB): an append that is too large is refused as a whole, its command included.
const WITH_TURN_BYTES: usize = 64 * 1024;

/// The point at which planning stops.
pub(crate) enum NextStep {
    /// Write what is pending first.
    Write,
    /// Write what is pending, then carry out these acts.
    WriteThenActs(VecDeque<Act>),
    /// Write what is pending, then ask the approval handler: the request is on disk before it sees it.
    WriteThenApprover(String),
    /// Wait: nothing more follows now. Perhaps the turn of a session is asked for, with this id.
    Wait(Option<(StreamId, String)>),
}

/// Whether an act adds an answer to its task that is not written together with what is pending.
fn says_much(act: &Act) -> bool {
    let Act::Task(TaskCommand::Complete(Some(said))) = act else { return false };
    said.parts.iter().map(|part| part.content().as_str().len()).sum::<usize>() > WITH_TURN_BYTES
}

impl TaskCore {
    /// Asks for the next step until planning stops.
    pub(super) fn plan(&mut self, shared: &Shared, metadata: &Metadata) -> Result<NextStep, Error> {
        let mut mint = shared.ports.clone();
        loop {
            // Before the step is planned: what an intent says that it read is on disk, or is written with it.
            if self.is_full() {
                return Ok(NextStep::Write);
            }
            let before = self.decided();
            match self.next_step(shared, metadata, &mut mint) {
                Step::Wait => return Ok(NextStep::Wait(None)),
                Step::AwaitTurn { session_id } => {
                    return Ok(NextStep::Wait(self.ask_turn(shared, &session_id, &mut mint)?));
                }
                Step::AskApprover { approval_id } => return Ok(NextStep::WriteThenApprover(approval_id)),
                step @ (Step::Probe { .. }
                | Step::Refuse { .. }
                | Step::AwaitRetry { .. }
                | Step::AwaitPermit { .. }) => {
                    self.take_up(shared, step, metadata.at);
                    continue;
                }
                // An answer that is long is written by itself: an append that is too large is refused as a whole.
                Step::Do(acts) if self.is_pending() && acts.iter().any(says_much) => {
                    return Ok(NextStep::WriteThenActs(acts.into()));
                }
                Step::Do(acts) => {
                    self.keep_start_for(shared, &acts);
                    let is_long = acts.len() > EVENTS_TOGETHER;
                    if let Some(rest) = self.carry_out_acts(acts.into(), is_long, metadata)? {
                        return Ok(NextStep::WriteThenActs(rest));
                    }
                }
            }
            if self.decided() == before {
                return Err(Error::Internal("a step of the planner produced no event".to_owned()));
            }
        }
    }

    /// Carries out the acts of a step. They are written together, unless they are the start of many calls: what is left
    /// when the append is full is returned.
    pub(super) fn carry_out_acts(
        &mut self,
        mut acts: VecDeque<Act>,
        is_long: bool,
        metadata: &Metadata,
    ) -> Result<Option<VecDeque<Act>>, Error> {
        while let Some(act) = acts.pop_front() {
            self.spend_turn(&act);
            match act {
                Act::Task(command) => self.entity.decide(command, metadata)?,
                Act::Session(command) => self.decide_session(command, metadata)?,
            }
            if is_long && self.is_full() && !acts.is_empty() {
                return Ok(Some(acts));
            }
        }
        Ok(None)
    }

    /// Whether the pending events are written before more are decided.
    fn is_full(&self) -> bool {
        self.pending_bytes() > SPLIT_BYTES || self.entity.pending_count() >= EVENTS_TOGETHER
    }

    fn next_step(&self, shared: &Shared, metadata: &Metadata, mint: &mut dyn Mint) -> Step {
        let question = &mut self.question(shared, metadata, mint);
        // A task that a call in flight waits for goes on as that call does.
        if shared.is_stopping() && !shared.attended.has(self.entity.stream()) {
            next::while_stopping(question)
        } else {
            next::next(question)
        }
    }

    fn ask_turn(
        &mut self,
        shared: &Shared,
        session_id: &str,
        mint: &mut dyn Mint,
    ) -> Result<Option<(StreamId, String)>, Error> {
        if self.requested_turn.is_some() {
            return Ok(None);
        }
        let session = StreamId::session(&shared.agent.name, session_id)?;
        let turn_id = mint.id("turn_");
        self.requested_turn = Some(turn_id.clone());
        Ok(Some((session, turn_id)))
    }

    /// Whether the turn is asked for before what is pending is written. If it is free, the beginning of the turn and its first
    /// inference are written with it, in one append instead of two.
    pub(super) fn asks_before_writing(&self) -> bool {
        self.is_pending() && self.turn.is_none() && self.pending_bytes() <= WITH_TURN_BYTES
    }

    /// Decides for the session. The command that closes the turn is not folded here: the history that it
    /// changes is shared with the session's actor, which folds it once.
    pub(crate) fn decide_session(
        &mut self,
        command: SessionCommand,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let Some(held) = self.turn.as_mut() else {
            return Err(Error::Internal("a session command was planned without a held turn".to_owned()));
        };
        let closes = matches!(command, SessionCommand::CommitTurn { .. } | SessionCommand::AbortTurn { .. });
        if closes {
            held.session.decide_unfolded(command)?;
            held.closed = true;
        } else {
            held.session.decide(command, metadata)?;
        }
        Ok(())
    }

    /// Fails a run that cannot go on, for a reason outside the run.
    pub(super) fn give_up(
        &mut self,
        shared: &Shared,
        work: &mut StepWork,
        why: &str,
    ) -> Result<Output, Error> {
        if !self.is_idle() {
            self.break_off_turn(shared, why, &work.metadata)?;
            self.entity.decide(TaskCommand::Fail { error: why.to_owned() }, &work.metadata)?;
        }
        if let Some(append) = self.append(shared, work, None)? {
            work.then = Then::GaveUp;
            return Ok(Output::Append(append));
        }
        self.drop_turn_if_idle();
        self.settle_outside(shared);
        Ok(Output::Done(Ok(())))
    }
}
