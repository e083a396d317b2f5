//! What a task's actor does with an operation: decide, plan what comes next, append it all at once, and say
//! what is to be done outside now that its intents are on disk. `ops` decides what an operation itself means,
//! `flush` writes, `tool_writes` adds what a call leaves in its tool's state.

mod approving;
mod flush;
mod ops;
mod tool_writes;
mod under_way;

use std::sync::Arc;

use proto_events::codec::CodecError;
use proto_events::envelope::{Committed, Metadata, Timestamp};
use proto_events::id::{Mint, StreamId};
use proto_events::limits::EVENTS_PER_APPEND_MAX;
use proto_events::session::{Session, SessionCommand};
use proto_events::task::{Task, TaskCommand};

use crate::actors::entity::Entity;
use crate::actors::messages::{AttemptEnd, Cause, Lease, Order, ProbeOrder, Recall, TaskOp};
use crate::actors::shared::Shared;
use crate::actors::tool_stores::HeldStore;
use crate::agent::approval::ApprovalRequest;
use crate::agent::plan::{self, Act, Question, Seat, Step};
use crate::error::Error;
use crate::store::AppendError;

use self::under_way::Outside;

/// How often a decision is made anew after somebody else extended a stream. Streams have one writer, so
/// more than a few in a row mean that something is wrong.
const CONFLICTS_MAX: usize = 8;

/// Pending bytes at which what is planned so far is written first (1 MiB): what follows from a large result repeats
/// it, and all other callers of the group wait while it is written.
const SPLIT_BYTES: usize = 1024 * 1024;

/// A task and, while it holds one, its session's turn.
pub(super) struct TaskCore {
    entity: Entity<Task>,
    seat: Option<Held>,
    /// A tool's state, held while what a call writes to it waits to be written.
    tool: Option<HeldStore>,
    /// The turn that was asked for and not granted yet.
    asked_turn: Option<String>,
    /// What is to be done outside: its intents are on disk.
    outbox: Vec<Effect>,
    outside: Outside,
    /// The operation was decided, and what follows from it was being planned.
    planning: bool,
    /// The state may hold what is not on disk, since the log could not be read again.
    broken: bool,
}

/// A session's turn in this task's hands: it decides for the session on the state that the session's actor
/// handed it, and the expected version of the append makes that the same as asking.
struct Held {
    turn_id: String,
    session: Entity<Session>,
    closed: bool,
    lease: Arc<Lease>,
}

/// What is to be done outside, in this order, once the append is durable.
pub(super) enum Effect {
    /// Send an attempt.
    Dispatch(Box<Order>),
    /// Interrupt a call.
    Abort { call_id: String },
    /// Give up what another agent was asked for.
    Recall(Recall),
    /// Ask a tool whether an attempt took effect.
    Probe(Box<ProbeOrder>),
    /// Wait for a place among the calls that may be under way at once.
    AwaitPlace { call_id: String, target: String },
    /// Ask the approval handler.
    AskApprover(Box<ApprovalRequest>),
    /// An approval is decided: ask no more.
    StopAsking { approval_id: String },
    /// Say so when the time of this run is up.
    Wake { at: Timestamp, run: u32 },
    /// Ask a session for its turn.
    Acquire { session: StreamId, turn_id: String },
}

/// The limit in bytes, if that is what the error is about: of an event, or of a record of many.
fn too_large(error: &Error) -> Option<usize> {
    match error {
        Error::Append(AppendError::TooLarge { limit, .. })
        | Error::Codec(CodecError::TooLarge { limit, .. }) => Some(*limit),
        _ => None,
    }
}

impl TaskCore {
    pub(super) async fn recover(shared: &Shared, stream: StreamId) -> Result<Self, Error> {
        let entity = Entity::recover(&shared.store, stream).await?;
        Ok(Self {
            entity,
            seat: None,
            tool: None,
            asked_turn: None,
            outbox: Vec::new(),
            outside: Outside::default(),
            planning: false,
            broken: false,
        })
    }

    pub(super) fn task(&self) -> &Task {
        self.entity.state()
    }

    pub(super) fn shared_task(&self) -> Arc<Task> {
        self.entity.shared_state()
    }

    pub(super) fn committed(&self) -> Committed {
        self.entity.committed()
    }

    /// Whether it must be thrown away and read again before it is used.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether nothing more happens until somebody says something.
    pub(super) fn is_at_rest(&self) -> bool {
        self.task().run().is_none()
    }

    /// Carries out one operation. What is to be done outside is returned in any case: it may follow from
    /// what was written before something else failed.
    pub(super) async fn carry_out(
        &mut self,
        shared: &Shared,
        op: TaskOp,
        cause: &Cause,
    ) -> (Result<(), Error>, Vec<Effect>) {
        let done = if op.is_query() { Ok(()) } else { self.try_to(shared, op, cause).await };
        (done, std::mem::take(&mut self.outbox))
    }

    async fn try_to(&mut self, shared: &Shared, mut op: TaskOp, cause: &Cause) -> Result<(), Error> {
        for _ in 0..CONFLICTS_MAX {
            let mut metadata = cause.metadata(shared.ports.clock.now(), op.digest());
            if metadata.correlation_id.is_empty() {
                self.entity.correlation_id().clone_into(&mut metadata.correlation_id);
            }
            let before = self.entity.version();
            match self.attempt(shared, &op, &metadata, cause.may_repeat).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    let written = self.entity.version() > before;
                    let planning = std::mem::take(&mut self.planning);
                    self.broken = true;
                    self.drop_draft(shared).await?;
                    self.broken = false;
                    match (op, error) {
                        (same, Error::Append(AppendError::Conflict { .. })) => op = same,
                        // The operation can be done; what follows from it cannot, however often it is tried.
                        (op, error) if planning && !error.is_of_the_store() => {
                            if !written {
                                self.decide_whole(shared, op, &metadata).await?;
                            }
                            return self.give_up(shared, &error.to_string(), &metadata).await;
                        }
                        // It happened, and only its answer is too large to keep.
                        (
                            TaskOp::Outcome { call_id, attempt, end: AttemptEnd::Succeeded { result, .. } },
                            error,
                        ) if !written && too_large(&error).is_some() => {
                            let limit = too_large(&error).unwrap_or_default();
                            let end = AttemptEnd::too_large(result.as_str().len(), limit);
                            op = TaskOp::Outcome { call_id, attempt, end };
                        }
                        // The operation is on disk; what follows from it is too large to keep.
                        (_, error) if written && too_large(&error).is_some() => {
                            return self.give_up(shared, &error.to_string(), &metadata).await;
                        }
                        (_, error) => return Err(error),
                    }
                }
            }
        }
        Err(Error::Internal(format!("{} keeps changing under its only writer", self.entity.stream())))
    }

    /// The operation itself, unless it was done before, and all that follows from it.
    async fn attempt(
        &mut self,
        shared: &Shared,
        op: &TaskOp,
        metadata: &Metadata,
        may_repeat: bool,
    ) -> Result<(), Error> {
        // A place is in the actor's hands, not in the log: each one counts, whatever an earlier one led to.
        let always = matches!(op, TaskOp::PlaceGranted { .. });
        if always || !self.was_answered(shared, metadata, may_repeat).await? {
            self.decide_whole(shared, op.clone(), metadata).await?;
        }
        if self.is_at_rest() {
            // A command of the caller's own may have ended a run in the middle of its turn.
            self.abort_turn("the run was ended", metadata)?;
        }
        self.note_run();
        self.planning = true;
        let acquire = if shared.is_stopping() { None } else { self.plan(shared, metadata).await? };
        self.planning = false;
        if let Err(error) = self.flush(shared, metadata).await {
            // The turn was not asked for after all.
            self.asked_turn.take_if(|_| acquire.is_some());
            return Err(error);
        }
        if self.is_at_rest() {
            self.seat = None;
        }
        self.give_places_back();
        self.outbox.extend(acquire);
        Ok(())
    }

    /// The run cannot go on, for a reason that is not the run's own.
    async fn give_up(&mut self, shared: &Shared, why: &str, metadata: &Metadata) -> Result<(), Error> {
        if !self.is_at_rest() {
            self.abort_turn(why, metadata)?;
            self.entity.decide(TaskCommand::Fail { error: why.to_owned() }, metadata)?;
        }
        self.flush(shared, metadata).await
    }

    /// Whether the command appended before. Commands too old to be remembered are looked up in the log.
    async fn was_answered(
        &self,
        shared: &Shared,
        metadata: &Metadata,
        may_repeat: bool,
    ) -> Result<bool, Error> {
        if metadata.command_id.is_empty() {
            return Ok(false);
        }
        if self.entity.answered(metadata)?.is_some() {
            return Ok(true);
        }
        if !may_repeat || !self.entity.forgets() {
            return Ok(false);
        }
        self.entity.answered_in_log(&shared.store, metadata).await
    }

    /// Asks what comes next until the answer is to wait.
    async fn plan(&mut self, shared: &Shared, metadata: &Metadata) -> Result<Option<Effect>, Error> {
        let mut mint = shared.ports.clone();
        loop {
            let before = self.decided();
            match self.next_step(shared, metadata, &mut mint) {
                Step::Wait => return Ok(None),
                Step::AwaitTurn { session_id } => return self.ask_turn(shared, &session_id, &mut mint),
                Step::Probe { call_id, .. } => {
                    self.probe(&call_id);
                    continue;
                }
                Step::AskApprover { approval_id } => {
                    // What is asked is on disk before anybody hears of it.
                    self.flush(shared, metadata).await?;
                    self.ask_approver(shared, &approval_id);
                    continue;
                }
                Step::AwaitPlace { call_id, target } => {
                    self.take_place(shared, call_id, target);
                    continue;
                }
                Step::Do(acts) => {
                    for act in acts {
                        if self.pending_bytes() > SPLIT_BYTES {
                            self.flush(shared, metadata).await?;
                        }
                        match act {
                            Act::Task(command) => self.entity.decide(command, metadata)?,
                            Act::Session(command) => self.decide_session(command, metadata)?,
                        }
                    }
                }
            }
            if self.decided() == before {
                return Err(Error::Internal("a step of the plan led to nothing".to_owned()));
            }
            if self.entity.pending().len() > EVENTS_PER_APPEND_MAX / 2 {
                self.flush(shared, metadata).await?;
            }
        }
    }

    /// How many events were decided in all, here and in the session.
    fn decided(&self) -> u64 {
        let session = self.seat.as_ref().map_or(0, |held| held.session.decided());
        self.entity.decided() + session
    }

    fn next_step(&self, shared: &Shared, metadata: &Metadata, mint: &mut dyn Mint) -> Step {
        plan::next(&mut self.question(shared, metadata, mint))
    }

    fn question<'a>(
        &'a self,
        shared: &'a Shared,
        metadata: &Metadata,
        mint: &'a mut dyn Mint,
    ) -> Question<'a> {
        Question {
            agent: &shared.agent,
            stream: self.entity.stream(),
            task: self.entity.state(),
            seat: self.seat.as_ref().filter(|held| !held.closed).map(Held::seat),
            epoch: shared.store.fence().epoch,
            now: metadata.at,
            run_until: self.outside.run_until(),
            under_way: &self.outside.known,
            mint,
        }
    }

    fn ask_turn(
        &mut self,
        shared: &Shared,
        session_id: &str,
        mint: &mut dyn Mint,
    ) -> Result<Option<Effect>, Error> {
        if self.asked_turn.is_some() {
            return Ok(None);
        }
        let session = StreamId::session(&shared.agent.name, session_id)?;
        let turn_id = mint.id("turn_");
        self.asked_turn = Some(turn_id.clone());
        Ok(Some(Effect::Acquire { session, turn_id }))
    }

    /// Decides for the session. The command that closes the turn is not folded here: the history that it
    /// changes is shared with the session's actor, which folds it once for all.
    fn decide_session(&mut self, command: SessionCommand, metadata: &Metadata) -> Result<(), Error> {
        let Some(held) = self.seat.as_mut() else {
            return Err(Error::Internal("a session command without the session's turn".to_owned()));
        };
        let closes = matches!(command, SessionCommand::CommitTurn { .. } | SessionCommand::AbortTurn { .. });
        if closes {
            held.session.decide_unfolded(command, metadata)?;
            held.closed = true;
        } else {
            held.session.decide(command, metadata)?;
        }
        Ok(())
    }
}

impl Held {
    fn seat(&self) -> Seat<'_> {
        Seat {
            turn_id: &self.turn_id,
            stream: self.session.stream(),
            session: self.session.state(),
            version: self.session.version(),
        }
    }
}
