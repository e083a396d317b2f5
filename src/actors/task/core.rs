//! The state of a task's actor between two operations. `work` carries an operation out without waiting: `ops` decides it,
//! a call's writes to its tool's state included, `plan` plans the next steps, `flush` makes one append of them all, and the
//! effects are performed once their intents are on disk.

use std::sync::Arc;

use proto_events::call::recovery::Moment;
use proto_events::call::{Call, CallStatus};
use proto_events::envelope::{Committed, Metadata, Timestamp};
use proto_events::id::{Mint, StreamId};
use proto_events::json::JsonText;
use proto_events::model::Part;
use proto_events::session::Session;
use proto_events::task::Task;
use tokio::sync::mpsc::UnboundedSender;

use crate::actors::entity::Entity;
use crate::actors::seed::Seed;
use crate::actors::shared::messages::TaskOp;
use crate::actors::shared::parts::Shared;
use crate::actors::shared::session_op::SessionEffect;
use crate::actors::shared::tool_stores::HeldStore;
use crate::actors::shared::turns::TurnLease;
use crate::actors::task::effect::Effect;
use crate::actors::task::found_run::FoundRun;
use crate::actors::task::outside_state::Outside;
use crate::actors::task::step::{ReadAgain, StepWork, Then};
use crate::agent::responder::KnownResponder;
use crate::error::Error;
use crate::limits::READ_IN_PLACE_BYTES;
use crate::run::question::{Question, TurnView};
use crate::tools::panics::caught;

/// A task and, while it holds one, its session's turn.
pub(crate) struct TaskCore {
    pub(crate) entity: Entity<Task>,
    pub(crate) turn: Option<Box<HeldTurn>>,
    /// A tool's state, held while a call's writes to it are pending.
    pub(crate) tool: Option<HeldStore>,
    /// The effect of an operation on the session's history, told once it is on disk.
    pub(super) session_effect: Option<(UnboundedSender<SessionEffect>, SessionEffect)>,
    /// The turn that was asked for and not granted yet.
    pub(crate) requested_turn: Option<String>,
    /// Effects to perform: their intents are on disk.
    pub(crate) outbox: Vec<Effect>,
    pub(crate) outside: Outside,
    /// Whether the operation only reads.
    pub(super) is_query: bool,
    /// The operation under way.
    pub(super) work: Option<Box<StepWork>>,
    /// The first answer to the command carried out last, if it had come before.
    pub(super) answered: Option<Committed>,
    /// The run that was open when the task was read, and the agent's definition as it found it.
    pub(crate) found: Option<FoundRun>,
    /// Whether the task holds a text that is too long for the actors' thread.
    is_large: bool,
    /// Whether the state may hold events that are not on disk, since the log could not be read again.
    pub(super) broken: bool,
}

/// A session's turn held by this task. The task decides for the session on the state that the session's actor
/// handed it; the expected version of the append makes that equivalent to asking the actor.
pub(crate) struct HeldTurn {
    pub(crate) turn_id: String,
    pub(crate) session: Entity<Session>,
    pub(crate) closed: bool,
    pub(crate) lease: Arc<TurnLease>,
    /// The content of the command on the session's history that is pending, where its caller chose its id.
    pub(crate) content: Option<Vec<u8>>,
}

/// Returns the result of a call, if it has one.
fn result_of(call: &Call) -> Option<&JsonText> {
    match &call.status {
        CallStatus::Succeeded(result) => Some(result),
        _ => None,
    }
}

impl TaskCore {
    pub(crate) async fn recover(shared: &Shared, stream: StreamId) -> Result<Box<Self>, Error> {
        let entity = Entity::recover(&shared.store, stream, Seed::draw(&shared.ports)).await?;
        let found = FoundRun::new(shared, &entity).await?;
        Ok(Box::new(Self {
            entity,
            found,
            turn: None,
            tool: None,
            session_effect: None,
            requested_turn: None,
            outbox: Vec::new(),
            outside: Outside::default(),
            is_query: false,
            work: None,
            answered: None,
            is_large: false,
            broken: false,
        }))
    }

    pub(crate) fn task(&self) -> &Task {
        self.entity.state()
    }

    pub(crate) fn shared_task(&self) -> Arc<Task> {
        self.entity.shared_state()
    }

    /// Returns the answer to the command carried out last: the first one if it had come before, otherwise the end of
    /// the task's stream.
    pub(crate) fn committed(&self) -> Committed {
        self.answered.unwrap_or_else(|| self.entity.committed())
    }

    /// Returns the end of the task's stream on disk.
    pub(crate) fn end_on_disk(&self) -> Committed {
        self.entity.committed()
    }

    /// Returns the id of the command whose append is under way.
    pub(crate) fn command_id(&self) -> &str {
        self.work.as_ref().map_or("", |work| {
            let StepWork { metadata, writing, .. } = &**work;
            &writing.other.as_deref().unwrap_or(metadata).command_id
        })
    }

    /// Whether a caller finds all that the operation does as soon as the append under way is durable, whose end in the task's
    /// stream is then the answer. A session's turn and its history, a tool's state, and to the task of another agent the end of
    /// this one are known later.
    pub(crate) fn is_answered_by_append(&self, shared: &Shared) -> bool {
        let Some(work) = &self.work else { return false };
        let is_last = matches!(work.then, Then::Finish) && work.writing.own.is_some();
        let concerns_others = self.turn.is_some() || self.session_effect.is_some() || self.tool.is_some();
        let ends_for_another = shared.has_others && self.task().state().is_terminal();
        is_last && !concerns_others && !ends_for_another && self.answered.is_none()
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

    /// Whether the task is worked on apart from the actors' thread: it is large, or its agent's responder is slow.
    pub(crate) fn takes_long(&self, shared: &Shared) -> bool {
        self.is_large || shared.agent.responder.as_ref().is_some_and(KnownResponder::is_slow)
    }

    /// Whether nothing more happens until a command arrives.
    pub(crate) fn is_idle(&self) -> bool {
        self.task().run().is_none()
    }

    /// Whether the task has ended for good.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_idle() && self.task().state().is_terminal()
    }

    /// Ends an operation: returns the effects, which may follow from what was written before an error.
    pub(crate) fn finish_operation(&mut self, shared: &Shared, answer: &Result<(), Error>) -> Vec<Effect> {
        // What a failed append named may be in the log all the same: only a later operation that is on disk says what is
        // needed, and no query does.
        if !std::mem::take(&mut self.is_query)
            && answer.as_ref().err().is_none_or(|error| !error.is_of_the_store())
            && !self.broken
        {
            self.forget_secrets(shared);
        }
        std::mem::take(&mut self.outbox)
    }

    /// Whether anything is decided that is not on disk.
    pub(crate) fn is_pending(&self) -> bool {
        self.entity.is_pending() || self.turn.as_ref().is_some_and(|held| held.session.is_pending())
    }

    /// Puts streams in place that were read again.
    pub(super) fn put_read(&mut self, read: ReadAgain) {
        let ReadAgain { task, session } = read;
        if let Some(task) = task {
            self.entity = task;
        }
        if let (Some(held), Some(session)) = (self.turn.as_mut(), session) {
            held.session = session;
            held.closed = false;
        }
    }

    /// Returns the number of events decided, in the task and in the session.
    pub(crate) fn decided(&self) -> u64 {
        let session = self.turn.as_ref().map_or(0, |held| held.session.decided());
        self.entity.decided() + session
    }

    /// Returns this moment by a clock that was not set back since the run began in this process. One that was set ahead counts:
    /// the log must not show an attempt after its deadline, which `verify` takes for a fault. A host's clock that panics here
    /// is taken as it was read before.
    pub(crate) fn steady(&self, shared: &Shared, at: Timestamp) -> Timestamp {
        let Some((began, elapsed)) = self.outside.anchor else { return at };
        let passed = caught(|| shared.ports.clock.monotonic().saturating_sub(elapsed));
        passed.map_or(at, |passed| began.plus(passed).max(at))
    }

    /// Returns the time and the epoch of a decision.
    pub(crate) fn moment(&self, shared: &Shared, metadata: &Metadata) -> Moment {
        let (epoch, at) = (shared.store.fence().epoch, metadata.at);
        Moment { epoch, at, steady: self.steady(shared, at) }
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
            turn_view: self.turn.as_ref().filter(|held| !held.closed).map(|held| held.view()),
            epoch: shared.store.fence().epoch,
            now: metadata.at,
            steady: self.steady(shared, metadata.at),
            run_until: self.outside.run_until(),
            is_time_up: self.outside.time_up == Some(self.task().runs()),
            outside: self.outside.known(),
            replies: &self.outside.replies,
            mint,
        }
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

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;

    #[test]
    fn the_core_of_a_task_has_at_most_640_bytes_since_thousands_of_idle_ones_are_live_at_once() {
        // What few tasks need belongs into a box that exists while it is needed, as the turn is.
        assert!(size_of::<TaskCore>() <= 640, "{} bytes", size_of::<TaskCore>());
    }
}
