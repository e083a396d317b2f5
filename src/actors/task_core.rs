//! What a task's actor does with an operation: decide, plan what comes next, append it all at once, and say
//! what is to be done outside now that its intents are on disk.

use proto_events::call::CallEvent;
use proto_events::envelope::{Committed, Metadata};
use proto_events::id::{Mint, StreamId};
use proto_events::limits::EVENTS_PER_APPEND_MAX;
use proto_events::model::{self, PostedTask, TaskState};
use proto_events::session::{Session, SessionCommand, SessionEvent};
use proto_events::task::{Task, TaskCommand, TaskEvent};

use crate::actors::Shared;
use crate::actors::entity::{Entity, SetPlace};
use crate::actors::messages::{AttemptEnd, Cause, Lease, Settled, TaskOp, TurnGrant};
use crate::actors::router::Order;
use crate::agent::plan::{self, Act, Question, Seat, Step};
use crate::error::Error;
use crate::store::{Append, AppendError};

/// How often a decision is made anew after somebody else extended a stream. Streams have one writer, so
/// more than a few in a row mean that something is wrong.
const CONFLICTS_MAX: usize = 8;

/// A task and, while it holds one, its session's turn.
pub(super) struct TaskCore {
    entity: Entity<Task>,
    seat: Option<Held>,
    /// The turn that was asked for and not granted yet.
    asked_turn: Option<String>,
}

/// A session's turn in this task's hands: it decides for the session on the state that the session's actor
/// handed it, and the expected version of the append makes that the same as asking.
struct Held {
    turn_id: String,
    session: Entity<Session>,
    closed: bool,
    lease: std::sync::Arc<Lease>,
}

/// What is to be done outside, in this order, once the append is durable.
pub(super) enum Effect {
    /// Send an attempt.
    Dispatch(Box<Order>),
    /// Interrupt a call.
    Abort { call_id: String },
    /// Ask a session for its turn.
    Acquire { session: StreamId, turn_id: String },
}

impl TaskCore {
    pub(super) async fn recover(shared: &Shared, stream: StreamId) -> Result<Self, Error> {
        let entity = Entity::recover(&shared.store, stream).await?;
        Ok(Self { entity, seat: None, asked_turn: None })
    }

    pub(super) fn task(&self) -> &Task {
        self.entity.state()
    }

    pub(super) fn shared_task(&self) -> std::sync::Arc<Task> {
        self.entity.shared_state()
    }

    pub(super) fn committed(&self) -> Committed {
        self.entity.committed()
    }

    /// Whether nothing more happens until somebody says something.
    pub(super) fn is_at_rest(&self) -> bool {
        self.task().run().is_none()
    }

    /// Carries out one operation; the effects are those of what it appended.
    pub(super) async fn carry_out(
        &mut self,
        shared: &Shared,
        mut op: TaskOp,
        cause: &Cause,
    ) -> Result<Vec<Effect>, Error> {
        if op.is_query() {
            return Ok(Vec::new());
        }
        for _ in 0..CONFLICTS_MAX {
            let metadata = cause.metadata(shared.ports.clock.now(), op.digest());
            if self.was_answered(shared, &metadata).await? {
                return Ok(Vec::new());
            }
            let drafted = self.draft(shared, op.clone(), &metadata);
            let effects = match drafted {
                Ok(effects) => effects,
                Err(error) => {
                    self.drop_draft(shared).await?;
                    return Err(error);
                }
            };
            match self.append(shared, &metadata).await {
                Ok(()) => return Ok(effects),
                Err(error) => {
                    self.drop_draft(shared).await?;
                    op = Self::again(op, error)?;
                }
            }
        }
        Err(Error::Internal(format!("{} keeps changing under its only writer", self.entity.stream())))
    }

    /// Whether the command appended before. Commands too old to be remembered are looked up in the log.
    async fn was_answered(&self, shared: &Shared, metadata: &Metadata) -> Result<bool, Error> {
        if metadata.command_id.is_empty() {
            return Ok(false);
        }
        if self.entity.answered(metadata)?.is_some() {
            return Ok(true);
        }
        if !self.entity.forgets() {
            return Ok(false);
        }
        self.entity.answered_in_log(&shared.store, metadata).await
    }

    /// What to try after a failed append: the same again after a conflict; a failure in place of a result
    /// that is too large to keep; nothing after anything else.
    fn again(op: TaskOp, error: Error) -> Result<TaskOp, Error> {
        match (op, error) {
            (op, Error::Append(AppendError::Conflict { .. })) => Ok(op),
            (
                TaskOp::Outcome { call_id, attempt, end: AttemptEnd::Succeeded { result, .. } },
                Error::Append(AppendError::TooLarge { limit, .. }),
            ) => {
                let end = AttemptEnd::too_large(result.as_str().len(), limit);
                Ok(TaskOp::Outcome { call_id, attempt, end })
            }
            (_, error) => Err(error),
        }
    }

    /// Decides the operation and plans on, until nothing is left to decide.
    fn draft(&mut self, shared: &Shared, op: TaskOp, metadata: &Metadata) -> Result<Vec<Effect>, Error> {
        match op {
            TaskOp::Submit(posted) => self.submit(shared, posted, metadata)?,
            TaskOp::Command(command) => self.entity.decide(*command, metadata)?,
            TaskOp::Cancel { reason } => self.cancel(shared, reason, metadata)?,
            TaskOp::Outcome { call_id, attempt, end } => {
                self.outcome(shared, &call_id, attempt, end, metadata)?;
            }
            TaskOp::TurnGranted(grant) => self.take_seat(*grant),
            TaskOp::TurnRefused { why } => self.turn_refused(why, metadata)?,
            TaskOp::Resume => self.resume(shared, metadata)?,
            TaskOp::Look | TaskOp::AwaitEnd => return Ok(Vec::new()),
        }
        let acquire = if shared.is_stopping() { None } else { self.plan(shared, metadata)? };
        let mut effects = self.effects(shared);
        effects.extend(acquire);
        Ok(effects)
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
        Ok(self.entity.decide(TaskCommand::Begin, metadata)?)
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
        let open = self.seat.as_ref().and_then(|held| held.session.state().open_turn());
        if let Some(turn_id) = open.map(|open| open.turn_id.clone()) {
            let reason = "the task was canceled".to_owned();
            self.decide_session(SessionCommand::AbortTurn { turn_id, reason }, metadata)?;
        }
        Ok(())
    }

    fn outcome(
        &mut self,
        shared: &Shared,
        call_id: &str,
        attempt: u32,
        end: AttemptEnd,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        use proto_events::call::{CallCommand, CallRejection};
        let epoch = shared.store.fence().epoch;
        let call = self.task().calls().get(call_id).cloned();
        let call = call.ok_or_else(|| Error::Task(CallRejection::NotRequested(call_id.to_owned()).into()))?;
        let call_id = call_id.to_owned();
        let command = match end {
            AttemptEnd::Succeeded { result, usage } => {
                CallCommand::Succeed { call_id, attempt, result, usage }
            }
            AttemptEnd::Failed { failure, passing, delay_ms } => {
                plan::after_failure(&call, attempt, failure, passing, delay_ms, epoch)
            }
            AttemptEnd::TimedOut { after_ms } => {
                let timed_out = CallCommand::TimeOut { call_id: call_id.clone(), attempt, after_ms };
                self.entity.decide(TaskCommand::Call(timed_out), metadata)?;
                match self.task().calls().get(&call_id) {
                    // Closed or sent again meanwhile: the timeout is old news.
                    Some(call) if self.entity.pending().is_empty() || !call.status.is_open() => return Ok(()),
                    Some(call) => plan::after_timeout(call, epoch),
                    None => return Ok(()),
                }
            }
        };
        Ok(self.entity.decide(TaskCommand::Call(command), metadata)?)
    }

    /// Rule R7 for every call that was open when the process ended.
    fn resume(&mut self, shared: &Shared, metadata: &Metadata) -> Result<(), Error> {
        let epoch = shared.store.fence().epoch;
        let lost: Vec<_> =
            self.task().calls().open().filter_map(|call| plan::after_crash(call, epoch)).collect();
        for command in lost {
            self.entity.decide(TaskCommand::Call(command), metadata)?;
        }
        Ok(())
    }

    fn take_seat(&mut self, grant: TurnGrant) {
        if self.asked_turn.take().is_none() || self.is_at_rest() {
            return; // Nobody needs it any more: dropping the grant gives the turn back.
        }
        let TurnGrant { stream, turn_id, session, version, position, last_hash, lease } = grant;
        let session = Entity::standing(stream, session, version, position, last_hash);
        self.seat = Some(Held { turn_id, session, closed: false, lease });
    }

    /// The session's actor stopped: ask again. The session cannot be read: the run cannot go on.
    fn turn_refused(&mut self, why: Option<String>, metadata: &Metadata) -> Result<(), Error> {
        self.asked_turn = None;
        match why {
            Some(why) if !self.is_at_rest() => {
                let error = format!("the conversation cannot be used: {why}");
                Ok(self.entity.decide(TaskCommand::Fail { error }, metadata)?)
            }
            _ => Ok(()),
        }
    }

    /// Asks what comes next until the answer is to wait.
    fn plan(&mut self, shared: &Shared, metadata: &Metadata) -> Result<Option<Effect>, Error> {
        let epoch = shared.store.fence().epoch;
        let mut mint = shared.ports.clone();
        loop {
            let step = plan::next(&mut Question {
                agent: &shared.agent,
                stream: self.entity.stream(),
                task: self.entity.state(),
                seat: self.seat.as_ref().filter(|held| !held.closed).map(Held::seat),
                epoch,
                mint: &mut mint,
            });
            match step {
                Step::Wait => return Ok(None),
                Step::AwaitTurn { session_id } => return self.ask_turn(shared, &session_id, &mut mint),
                Step::Do(acts) => {
                    for act in acts {
                        match act {
                            Act::Task(command) => self.entity.decide(command, metadata)?,
                            Act::Session(command) => self.decide_session(command, metadata)?,
                        }
                    }
                }
            }
            if self.entity.pending().len() > EVENTS_PER_APPEND_MAX {
                return Err(Error::Internal("one operation led to too many events".to_owned()));
            }
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

    /// What the pending events ask of the outside.
    fn effects(&self, shared: &Shared) -> Vec<Effect> {
        let effect = |event: &TaskEvent| match event {
            TaskEvent::Call(CallEvent::Dispatched { call_id, attempt, delay_ms, .. }) => {
                let request = &self.task().calls().get(call_id)?.request;
                let seat = self.seat.as_ref().map(Held::seat);
                let infer = request
                    .prompt
                    .as_ref()
                    .map(|_| plan::infer_request(&shared.agent, self.task(), seat, request, *attempt));
                Some(Effect::Dispatch(Box::new(Order {
                    stream: self.entity.stream().clone(),
                    task_id: self.task().id().to_owned(),
                    request: request.clone(),
                    attempt: *attempt,
                    delay_ms: *delay_ms,
                    infer,
                })))
            }
            TaskEvent::Call(
                CallEvent::Canceled { call_id, .. } | CallEvent::OutcomeUnknown { call_id, .. },
            ) => Some(Effect::Abort { call_id: call_id.clone() }),
            _ => None,
        };
        self.entity.pending().iter().filter_map(effect).collect()
    }

    /// Writes what is pending, here and in the session, as one append.
    async fn append(&mut self, shared: &Shared, metadata: &Metadata) -> Result<(), Error> {
        let fence = shared.store.fence();
        let set_id = shared.ports.ids.random();
        let session = self.seat.as_ref().filter(|held| !held.session.pending().is_empty());
        let own = !self.entity.pending().is_empty();
        let parts = u16::from(own) + u16::from(session.is_some());
        if parts == 0 {
            return Ok(());
        }
        let mut encoded = Vec::with_capacity(usize::from(parts));
        if own {
            let place = SetPlace { set_id, part: 0, parts };
            encoded.push(self.entity.part(fence, place, metadata, &shared.ports)?);
        }
        if let Some(held) = session {
            let place = SetPlace { set_id, part: parts - 1, parts };
            encoded.push(held.session.part(fence, place, metadata, &shared.ports)?);
        }
        let hashes: Vec<_> = encoded.iter().map(|part| part.record.hash()).collect();
        let appended = shared.store.append(Append { fence, set_id, parts: encoded }).await?;
        let mut places = appended.parts.into_iter().zip(hashes);
        if own && let Some((committed, hash)) = places.next() {
            self.entity.settle(committed, hash, metadata);
        }
        if let Some((committed, hash)) = places.next() {
            self.settle_session(committed, hash, metadata);
        }
        Ok(())
    }

    /// Tells the session's actor what was appended to its stream; lets go of a closed turn.
    fn settle_session(&mut self, committed: Committed, hash: proto_events::id::Digest, metadata: &Metadata) {
        let Some(mut held) = self.seat.take() else { return };
        let after = held.session.version();
        let events: Vec<SessionEvent> = held.session.settle(committed, hash, metadata);
        let stream = held.session.stream().clone();
        let Held { turn_id, session, closed, lease } = held;
        let address = lease.session.clone();
        if closed {
            // The history must not be shared when the session's actor folds the turn into it.
            drop(session);
        } else {
            self.seat = Some(Held { turn_id, session, closed, lease: std::sync::Arc::clone(&lease) });
        }
        address.do_send(Settled { stream, after, committed, hash, events, metadata: metadata.clone() });
    }

    /// Forgets what could not be written, by reading the streams again.
    async fn drop_draft(&mut self, shared: &Shared) -> Result<(), Error> {
        let stream = self.entity.stream().clone();
        self.entity = Entity::recover(&shared.store, stream).await?;
        if let Some(held) = self.seat.as_mut() {
            let stream = held.session.stream().clone();
            held.session = Entity::recover(&shared.store, stream).await?;
            held.closed = false;
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
