//! The work of a task's actor on an operation: decide, plan the next steps, append them all at once, and
//! return the effects to be performed now that their intents are on disk. `ops` decides the operation itself,
//! a call's writes to its tool's state included, and `flush` writes.

use std::sync::Arc;

use proto_events::call::{Call, CallStatus};
use proto_events::envelope::{Committed, Metadata};
use proto_events::id::{Mint, StreamId};
use proto_events::json::JsonText;
use proto_events::model::Part;
use proto_events::session::{Session, SessionCommand};
use proto_events::task::{Task, TaskCommand};
use taskreel_log::api::AppendError;

use crate::actors::entity::{Entity, Seed};
use crate::actors::shared::messages::{AttemptEnd, Cause, TaskOp};
use crate::actors::shared::parts::Shared;
use crate::actors::shared::tool_stores::HeldStore;
use crate::actors::shared::turns::TurnLease;
use crate::actors::task::effect::Effect;
use crate::actors::task::found_run::FoundRun;
use crate::actors::task::outside_state::Outside;
use crate::error::Error;
use crate::limits::{EVENTS_TOGETHER, READ_IN_PLACE_BYTES};
use crate::run::next;
use crate::run::question::{Act, Question, Step, TurnView};

/// The number of times a decision is repeated after another writer extended a stream. Streams have one
/// writer, so more than a few conflicts in a row are a fault.
const CONFLICTS_MAX: usize = 8;

/// The size of pending events at which they are written before planning continues (1 MiB): what follows from
/// a large result repeats it, and all other callers of the group wait while it is written.
const SPLIT_BYTES: usize = 1024 * 1024;

/// A task and, while it holds one, its session's turn.
pub(crate) struct TaskCore {
    pub(crate) entity: Entity<Task>,
    pub(crate) turn: Option<HeldTurn>,
    /// A tool's state, held while a call's writes to it are pending.
    pub(crate) tool: Option<HeldStore>,
    /// The turn that was asked for and not granted yet.
    pub(crate) requested_turn: Option<String>,
    /// Effects to perform: their intents are on disk.
    pub(crate) outbox: Vec<Effect>,
    pub(crate) outside: Outside,
    /// The content of the command being carried out, where its caller chose its id.
    pub(crate) content: Option<Vec<u8>>,
    /// The run that was open when the task was read, and the agent's definition as it found it.
    pub(crate) found: Option<FoundRun>,
    /// Whether the operation is decided and its next steps are being planned.
    planning: bool,
    /// Whether the task holds a text that is too long for the actors' thread.
    is_large: bool,
    /// Whether the state may hold events that are not on disk, since the log could not be read again.
    broken: bool,
}

/// A session's turn held by this task. The task decides for the session on the state that the session's actor
/// handed it; the expected version of the append makes that equivalent to asking the actor.
pub(crate) struct HeldTurn {
    pub(crate) turn_id: String,
    pub(crate) session: Entity<Session>,
    pub(crate) closed: bool,
    pub(crate) lease: Arc<TurnLease>,
}

/// Returns the result of a call, if it has one.
fn result_of(call: &Call) -> Option<&JsonText> {
    match &call.status {
        CallStatus::Succeeded(result) => Some(result),
        _ => None,
    }
}

impl TaskCore {
    pub(crate) async fn recover(shared: &Shared, stream: StreamId) -> Result<Self, Error> {
        let entity = Entity::recover(&shared.store, stream, Seed::draw(&shared.ports)).await?;
        let found = FoundRun::of(shared, &entity).await?;
        Ok(Self {
            entity,
            found,
            turn: None,
            tool: None,
            requested_turn: None,
            outbox: Vec::new(),
            outside: Outside::default(),
            content: None,
            planning: false,
            is_large: false,
            broken: false,
        })
    }

    pub(crate) fn task(&self) -> &Task {
        self.entity.state()
    }

    pub(crate) fn shared_task(&self) -> Arc<Task> {
        self.entity.shared_state()
    }

    pub(crate) fn committed(&self) -> Committed {
        self.entity.committed()
    }

    /// Whether the core must be discarded and read again before it is used.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Notes whether the operation, or a task that was just read, brings a text too long for the actors' thread.
    pub(crate) fn note_size(&mut self, op: &TaskOp, known: bool) {
        let is_long = |text: &JsonText| text.as_str().len() > READ_IN_PLACE_BYTES;
        let task = self.task();
        let holds = || {
            let messages = task.messages().iter().map(|message| &message.parts);
            let parts = messages.chain(task.artifacts().iter().map(|artifact| &artifact.parts)).flatten();
            task.calls().iter().filter_map(result_of).any(is_long)
                || parts.map(Part::content).any(is_long)
                || task.metadata().iter().any(|(_, value)| is_long(value))
        };
        self.is_large |= op.brings(is_long) || (!known && holds());
    }

    /// Whether the task is worked on apart from the actors' thread.
    pub(crate) fn is_large(&self) -> bool {
        self.is_large
    }

    /// Whether nothing more happens until a command arrives.
    pub(crate) fn is_idle(&self) -> bool {
        self.task().run().is_none()
    }

    /// Carries out one operation. Effects are returned in any case: they may follow from what was written
    /// before an error.
    pub(crate) async fn carry_out(
        &mut self,
        shared: &Shared,
        op: TaskOp,
        cause: &Cause,
    ) -> (Result<(), Error>, Vec<Effect>) {
        if op.is_query() {
            return (Ok(()), std::mem::take(&mut self.outbox));
        }
        let done = self.try_to(shared, op, cause).await;
        // What a failed append named may be in the log all the same.
        if done.as_ref().err().is_none_or(|error| !error.is_of_the_store()) && !self.broken {
            self.forget_secrets(shared);
        }
        (done, std::mem::take(&mut self.outbox))
    }

    async fn try_to(&mut self, shared: &Shared, op: TaskOp, cause: &Cause) -> Result<(), Error> {
        let mut op = self.replace_secrets(shared, op).await?;
        let content = cause.may_repeat.then(|| op.content());
        for _ in 0..CONFLICTS_MAX {
            self.content.clone_from(&content);
            let mut metadata = cause.metadata(shared.ports.clock.now());
            if metadata.correlation_id.is_empty() {
                self.entity.correlation_id().clone_into(&mut metadata.correlation_id);
            }
            let before = self.entity.version();
            match self.attempt(shared, &op, &metadata, content.as_deref()).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    let written = self.entity.version() > before;
                    let planning = std::mem::take(&mut self.planning);
                    self.broken = true;
                    self.drop_draft(shared).await?;
                    self.broken = false;
                    match (op, error) {
                        (same, Error::Append(AppendError::Conflict { .. })) => op = same,
                        // The operation itself can be decided; its next steps fail on each retry.
                        (op, error) if planning && !error.is_of_the_store() => {
                            if !written {
                                self.decide_with_tool_writes(shared, op, &metadata).await?;
                            }
                            return self.give_up(shared, &error.to_string(), &metadata).await;
                        }
                        // The effect happened; only its answer is too large to store.
                        (
                            TaskOp::Outcome { call_id, attempt, end: AttemptEnd::Succeeded { result, .. } },
                            error,
                        ) if !written && error.too_large().is_some() => {
                            let limit = error.too_large().unwrap_or_default();
                            let end = AttemptEnd::too_large(result.as_str().len(), limit);
                            op = TaskOp::Outcome { call_id, attempt, end };
                        }
                        // The operation is on disk; what follows from it is too large to store.
                        (_, error) if written && error.too_large().is_some() => {
                            return self.give_up(shared, &error.to_string(), &metadata).await;
                        }
                        (_, error) => return Err(error),
                    }
                }
            }
        }
        Err(Error::Internal(format!("{} is written by another writer", self.entity.stream())))
    }

    /// Decides the operation, unless it was decided before, and all that follows from it.
    async fn attempt(
        &mut self,
        shared: &Shared,
        op: &TaskOp,
        metadata: &Metadata,
        content: Option<&[u8]>,
    ) -> Result<(), Error> {
        self.ask_about_change(shared, metadata).await?;
        // Permits and the end of a back-off are known to the actor alone: each counts, even after an earlier one.
        let always =
            matches!(op, TaskOp::PermitGranted { .. } | TaskOp::PermitLate { .. } | TaskOp::RetryDue { .. });
        if always || !self.was_answered(shared, metadata, content).await? {
            self.decide_with_tool_writes(shared, op.clone(), metadata).await?;
        }
        if self.is_idle() {
            // A command of the caller's own may have ended a run in the middle of its turn.
            self.abort_turn("the run was ended", metadata)?;
        }
        self.note_run(shared.agent.budget_scope, metadata.at);
        self.planning = true;
        let acquire = self.plan(shared, metadata).await?;
        self.planning = false;
        if let Err(error) = self.flush(shared, metadata).await {
            // The request for the turn is not sent.
            self.requested_turn.take_if(|_| acquire.is_some());
            return Err(error);
        }
        self.drop_turn_if_idle();
        self.release_permits();
        self.outside.tell_wanted(self.entity.state(), shared.store.fence().epoch);
        self.outbox.extend(acquire);
        Ok(())
    }

    /// Fails a run that cannot go on, for a reason outside the run.
    async fn give_up(&mut self, shared: &Shared, why: &str, metadata: &Metadata) -> Result<(), Error> {
        if !self.is_idle() {
            self.abort_turn(why, metadata)?;
            self.entity.decide(TaskCommand::Fail { error: why.to_owned() }, metadata)?;
        }
        self.flush(shared, metadata).await?;
        self.drop_turn_if_idle();
        Ok(())
    }

    /// Whether the command appended before. `content` is there where the caller chose its id. Commands too old to be remembered are looked up in the log.
    async fn was_answered(
        &self,
        shared: &Shared,
        metadata: &Metadata,
        content: Option<&[u8]>,
    ) -> Result<bool, Error> {
        if metadata.command_id.is_empty() {
            return Ok(false);
        }
        if self.entity.answered(&metadata.command_id, content)?.is_some() {
            return Ok(true);
        }
        match content {
            Some(content) if self.entity.has_forgotten() => {
                self.entity.answered_in_log(&shared.store, &metadata.command_id, content).await
            }
            _ => Ok(false),
        }
    }

    /// Asks for the next step until the answer is to wait.
    async fn plan(&mut self, shared: &Shared, metadata: &Metadata) -> Result<Option<Effect>, Error> {
        let mut mint = shared.ports.clone();
        loop {
            // Before the step is planned: what an intent says that it read is on disk, or is written with it.
            if self.is_full() {
                self.flush(shared, metadata).await?;
            }
            let before = self.decided();
            match self.next_step(shared, metadata, &mut mint) {
                Step::Wait => return Ok(None),
                Step::AwaitTurn { session_id } => return self.ask_turn(shared, &session_id, &mut mint),
                Step::AskApprover { approval_id } => {
                    // The request is on disk before the handler sees it.
                    self.flush(shared, metadata).await?;
                    self.ask_approver(shared, &approval_id);
                    continue;
                }
                step @ (Step::Probe { .. }
                | Step::Refuse { .. }
                | Step::AwaitRetry { .. }
                | Step::AwaitPermit { .. }) => {
                    self.take_up(shared, step, metadata.at);
                    continue;
                }
                Step::Do(acts) => {
                    let is_long = acts.len() > EVENTS_TOGETHER;
                    for act in acts {
                        // The acts of a step are written together, unless they are the start of many calls.
                        if is_long && self.is_full() {
                            self.flush(shared, metadata).await?;
                        }
                        self.spend_turn(&act);
                        match act {
                            Act::Task(command) => self.entity.decide(command, metadata)?,
                            Act::Session(command) => self.decide_session(command, metadata)?,
                        }
                    }
                }
            }
            if self.decided() == before {
                return Err(Error::Internal("a step of the planner produced no event".to_owned()));
            }
        }
    }

    /// Whether the pending events are written before more are decided.
    fn is_full(&self) -> bool {
        self.pending_bytes() > SPLIT_BYTES || self.entity.pending().len() >= EVENTS_TOGETHER
    }

    /// Returns the number of events decided, in the task and in the session.
    pub(crate) fn decided(&self) -> u64 {
        let session = self.turn.as_ref().map_or(0, |held| held.session.decided());
        self.entity.decided() + session
    }

    fn next_step(&self, shared: &Shared, metadata: &Metadata, mint: &mut dyn Mint) -> Step {
        let question = &mut self.question(shared, metadata, mint);
        if shared.is_stopping() { next::while_stopping(question) } else { next::next(question) }
    }

    pub(crate) fn question<'a>(
        &'a self,
        shared: &'a Shared,
        metadata: &Metadata,
        mint: &'a mut dyn Mint,
    ) -> Question<'a> {
        Question {
            agent: &shared.agent,
            stream: self.entity.stream(),
            read: &self.entity,
            task: self.entity.state(),
            turn_view: self.turn.as_ref().filter(|held| !held.closed).map(HeldTurn::view),
            epoch: shared.store.fence().epoch,
            now: metadata.at,
            run_until: self.outside.run_until(),
            is_time_up: self.outside.time_up == Some(self.task().runs()),
            outside: &self.outside.known,
            mint,
        }
    }

    fn ask_turn(
        &mut self,
        shared: &Shared,
        session_id: &str,
        mint: &mut dyn Mint,
    ) -> Result<Option<Effect>, Error> {
        if self.requested_turn.is_some() {
            return Ok(None);
        }
        let session = StreamId::session(&shared.agent.name, session_id)?;
        let turn_id = mint.id("turn_");
        self.requested_turn = Some(turn_id.clone());
        Ok(Some(Effect::Acquire { session, turn_id }))
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
}

impl HeldTurn {
    pub(crate) fn view(&self) -> TurnView<'_> {
        TurnView {
            turn_id: &self.turn_id,
            stream: self.session.stream(),
            session: self.session.state(),
            read: &self.session,
        }
    }
}
