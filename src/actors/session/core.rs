//! The turn of a session between its tasks, as a machine without waiting: it says what is to be done, and its actor does it.
//! The events that the holder of the turn appends are folded here.

use std::collections::VecDeque;

use proto_events::envelope::{Committed, Metadata, Timestamp};
use proto_events::id::{Digest, Mint, Position, StreamId, Version};
use proto_events::session::Session;
use taskreel_log::api::{Append, Fence};
use tokio::sync::oneshot;

use crate::actors::entity::{Entity, SetPart};
use crate::actors::shared::messages::Cause;
use crate::actors::shared::turns::{SessionAppended, TurnGrant};
use crate::error::Error;
use crate::run::turn_end::ended_without_task;

/// The sender of the answer to a request for the turn.
pub(crate) type GrantReply = oneshot::Sender<Result<TurnGrant, Error>>;

/// A task's request for the turn.
pub(crate) struct TurnRequest {
    pub(crate) task: StreamId,
    pub(crate) turn_id: String,
    pub(crate) reply: GrantReply,
}

/// The turn for a task, with the session as it is on disk. The actor adds the lease.
pub(crate) struct TurnOffer {
    pub(crate) turn_id: String,
    pub(crate) session: Session,
    pub(crate) version: Version,
    pub(crate) position: Position,
    pub(crate) last_hash: Digest,
    pub(crate) reply: GrantReply,
}

/// The work for the actor that follows.
pub(crate) enum SessionWish {
    /// Hand the turn over.
    Grant(Box<TurnOffer>),
    /// Ask the task with this open turn whether it still runs, since others wait for the turn.
    AskOwner { task: StreamId, turn_id: String },
    /// Look again after a while.
    Later,
}

/// The append that ends an open turn whose task is over.
pub(crate) struct OrphanEnd {
    pub(crate) append: Append,
    hash: Digest,
    metadata: Metadata,
}

impl OrphanEnd {
    pub(crate) fn command_id(&self) -> &str {
        &self.metadata.command_id
    }
}

/// A session, the holder of its turn, and the tasks that wait for it.
#[derive(Default)]
pub(crate) struct SessionCore {
    /// `None` until the session is read, and after events of which nothing is known.
    entity: Option<Entity<Session>>,
    /// The task that holds the turn, and the turn's id.
    reserved: Option<(StreamId, String)>,
    waiting: VecDeque<TurnRequest>,
    /// The open turn whose task is being asked whether it still runs.
    checked_turn: Option<String>,
}

impl SessionCore {
    /// Whether the session must be read before anything is decided about it.
    pub(crate) fn must_be_read(&self) -> bool {
        self.entity.is_none()
    }

    /// Takes the session as it was read.
    pub(crate) fn put_read(&mut self, entity: Entity<Session>) {
        self.entity = Some(entity);
    }

    /// Whether nothing is lost when the actor is passivated: no task has its turn or waits for it, and none is being
    /// asked whether it still runs. Events appended by the holder of a turn are in the mailbox before the
    /// turn comes back.
    pub(crate) fn is_idle(&self) -> bool {
        self.reserved.is_none() && self.waiting.is_empty() && self.checked_turn.is_none()
    }

    /// Queues a request. A task that has the turn already asks again only after it lost what it held, and the lease is on
    /// its way back.
    pub(crate) fn enqueue(&mut self, asked: TurnRequest) {
        // An actor that broke and was restarted asks again: the new request replaces the old one in the
        // queue.
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.task == asked.task) {
            *waiting = asked;
            return;
        }
        self.waiting.push_back(asked);
    }

    /// Grants the turn to a task, if the session is read, no turn is open, and no other task has or awaits it.
    pub(crate) fn grant_at_once(&mut self, asked: TurnRequest) -> Option<SessionWish> {
        let has_no_turn = |entity: &Entity<Session>| entity.state().open_turn().is_none();
        let is_free = self.entity.as_ref().is_some_and(has_no_turn)
            && self.reserved.is_none()
            && self.waiting.is_empty();
        if !is_free {
            return None;
        }
        self.waiting.push_back(asked);
        self.grant_next()
    }

    /// Grants the turn to the next task that still wants it.
    pub(crate) fn grant_next(&mut self) -> Option<SessionWish> {
        let Some(entity) = &self.entity else {
            // The session could not be read, or an event was missed: it is read before the next turn.
            return (!self.waiting.is_empty()).then_some(SessionWish::Later);
        };
        if self.reserved.is_some() {
            return None;
        }
        // A turn that was open when the process ended belongs to its task and to no other.
        let owner = entity.state().open_turn().map(|open| (open.task.clone(), open.turn_id.clone()));
        let next = match &owner {
            None => (!self.waiting.is_empty()).then_some(0),
            Some((task, _)) => self.waiting.iter().position(|asked| asked.task.as_str() == task),
        };
        let Some(asked) = next.and_then(|at| self.waiting.remove(at)) else {
            let (task, turn_id) = owner.filter(|_| !self.waiting.is_empty())?;
            return self.ask_owner(&task, turn_id);
        };
        let turn_id = owner.map_or(asked.turn_id, |(_, turn_id)| turn_id);
        self.reserved = Some((asked.task, turn_id.clone()));
        Some(SessionWish::Grant(Box::new(TurnOffer {
            turn_id,
            session: entity.state().clone(),
            version: entity.version(),
            position: entity.position(),
            last_hash: entity.last_hash(),
            reply: asked.reply,
        })))
    }

    fn ask_owner(&mut self, task: &str, turn_id: String) -> Option<SessionWish> {
        let task = StreamId::parse(task).ok()?;
        if self.checked_turn.as_ref() == Some(&turn_id) {
            return None;
        }
        self.checked_turn = Some(turn_id.clone());
        Some(SessionWish::AskOwner { task, turn_id })
    }

    /// Takes the turn back. `in_doubt` says that events may have been appended of which nothing was told: the session is
    /// read before the next turn.
    pub(crate) fn take_back(&mut self, turn_id: &str, in_doubt: bool) {
        if self.reserved.as_ref().is_some_and(|(_, reserved)| reserved == turn_id) {
            self.reserved = None;
        }
        if in_doubt {
            self.entity = None;
        }
    }

    /// Folds the events that the holder of the turn appended. If some before them were missed, the session must be read.
    pub(crate) fn fold(&mut self, appended: &SessionAppended) {
        let SessionAppended { after, committed, hash, events, metadata } = appended;
        let follows = self
            .entity
            .as_mut()
            .is_some_and(|entity| entity.apply_committed(*after, events, metadata, *committed, *hash));
        if !follows {
            self.entity = None;
        }
    }

    /// Notes that the owner of a turn has answered, and returns whether that turn must be ended: its task is over, the turn
    /// is open still, and nobody has it.
    pub(crate) fn owner_answered(&mut self, turn_id: &str, is_running: bool) -> bool {
        self.checked_turn = None;
        let open = self.entity.as_ref().and_then(|entity| entity.state().open_turn());
        !is_running && self.reserved.is_none() && open.is_some_and(|open| open.turn_id == turn_id)
    }

    /// Decides the end of a turn that has no owner any more.
    pub(crate) fn end_orphan(
        &mut self,
        turn_id: &str,
        (fence, set_id, at): (Fence, [u8; 16], Timestamp),
        mint: &mut dyn Mint,
    ) -> Result<OrphanEnd, Error> {
        let entity = self.entity.as_mut().ok_or_else(not_read)?;
        let metadata = Cause::from_system(format_args!("orphan:{turn_id}"), turn_id).into_metadata(at);
        let open = entity.state().open_turn().filter(|open| open.turn_id == turn_id);
        let commands =
            open.map(|open| ended_without_task(open, "its task is over", mint)).unwrap_or_default();
        for command in commands {
            entity.decide(command, &metadata)?;
        }
        let part = entity.part(fence, SetPart::only(set_id), &metadata, None)?;
        let hash = part.record.hash();
        Ok(OrphanEnd { append: Append { fence, set_id, parts: vec![part] }, hash, metadata })
    }

    /// Notes that the end of a turn is on disk, or that it is not known: the session is read again then.
    pub(crate) fn orphan_ended(&mut self, end: &OrphanEnd, committed: Option<Committed>) {
        match (self.entity.as_mut(), committed) {
            (Some(entity), Some(committed)) => {
                entity.mark_committed(committed, end.hash, &end.metadata);
            }
            _ => self.entity = None,
        }
    }

    /// Returns the session and its version if no turn is open and no task has one.
    pub(crate) fn between_turns(&self) -> Option<(&Session, Version)> {
        let entity = self.entity.as_ref().filter(|_| self.reserved.is_none())?;
        let session = entity.state();
        (session.open_turn().is_none() && !entity.is_pending()).then(|| (session, entity.version()))
    }

    /// Returns the task that has the turn now.
    pub(crate) fn holder(&self) -> Option<StreamId> {
        self.reserved.as_ref().map(|(task, _)| task.clone())
    }

    /// Returns the session for a decision of its actor's own.
    pub(crate) fn entity(&mut self) -> Result<&mut Entity<Session>, Error> {
        self.entity.as_mut().ok_or_else(not_read)
    }

    /// Returns the end of the record of this command, if it appended before.
    pub(crate) fn answered(&self, id: &str, content: Option<&[u8]>) -> Result<Option<Committed>, Error> {
        match &self.entity {
            Some(entity) if !id.is_empty() => entity.answered(id, content),
            _ => Ok(None),
        }
    }

    /// Whether the command of this id may be in the log although it is not remembered.
    pub(crate) fn may_have_forgotten(&self, id: &str) -> bool {
        self.entity.as_ref().is_some_and(|entity| entity.may_have_forgotten(id))
    }

    /// Notes that a decision of the actor's own is on disk.
    pub(crate) fn mark_committed(&mut self, committed: Committed, hash: Digest, metadata: &Metadata) {
        if let Some(entity) = &mut self.entity {
            entity.mark_committed(committed, hash, metadata);
        }
    }

    /// Forgets the session if something is decided that is not on disk.
    pub(crate) fn forget_if_pending(&mut self) {
        self.entity.take_if(|entity| entity.is_pending());
    }

    /// Forgets the session: it is read before anything is decided about it.
    pub(crate) fn forget(&mut self) {
        self.entity = None;
    }

    /// Returns the session and the end of its stream on disk.
    pub(crate) fn state_and_end(&self) -> Result<(Session, Committed), Error> {
        let entity = self.entity.as_ref().ok_or_else(not_read)?;
        Ok((entity.state().clone(), entity.committed()))
    }
}

fn not_read() -> Error {
    Error::Internal("a session was used before it was read".to_owned())
}

#[cfg(test)]
mod tests {
    use proto_events::decider::Decider as _;
    use proto_events::model::{LlmMessage, LlmRole};
    use taskreel_log::ports::Ports;

    use super::*;
    use crate::actors::seed::Seed;

    fn stream(id: &str) -> StreamId {
        StreamId::task("agent", id).unwrap()
    }

    fn read(core: &mut SessionCore, session: Session) {
        let name = StreamId::session("agent", "s").unwrap();
        let (version, position) = (Version(0), Position(0));
        core.put_read(Entity::from_parts(name, session, version, position, Digest::default(), Seed([0; 16])));
    }

    /// Asks for the turn; the answer would come through the receiver.
    fn ask(core: &mut SessionCore, task: &str) -> oneshot::Receiver<Result<TurnGrant, Error>> {
        let (reply, answer) = oneshot::channel();
        core.enqueue(TurnRequest { task: stream(task), turn_id: format!("turn_{task}"), reply });
        answer
    }

    fn granted(wish: Option<SessionWish>) -> Option<String> {
        match wish {
            Some(SessionWish::Grant(offer)) => Some(offer.turn_id),
            _ => None,
        }
    }

    #[test]
    fn a_turn_that_is_wanted_at_once_is_granted_only_if_nobody_has_or_awaits_it_and_the_session_is_read() {
        let at_once = |core: &mut SessionCore, task: &str| {
            let (reply, answer) = oneshot::channel();
            let (task, turn_id) = (stream(task), format!("turn_{task}"));
            (granted(core.grant_at_once(TurnRequest { task, turn_id, reply })), answer)
        };
        let mut core = SessionCore::default();
        assert_eq!(at_once(&mut core, "a").0, None, "the session is not read");
        assert!(core.is_idle(), "and nobody waits for it");
        read(&mut core, Session::default());
        assert_eq!(at_once(&mut core, "a").0.as_deref(), Some("turn_a"));
        let (refused, mut answer) = at_once(&mut core, "b");
        assert!(refused.is_none() && answer.try_recv().is_err(), "another task has it");
        let _waits = ask(&mut core, "c");
        core.take_back("turn_a", false);
        assert_eq!(at_once(&mut core, "b").0, None, "another task was there first");
        assert_eq!(granted(core.grant_next()).as_deref(), Some("turn_c"));
        core.take_back("turn_c", false);
        read(&mut core, with_open_turn("gone"));
        assert_eq!(at_once(&mut core, "b").0, None, "an open turn is its task's");
        assert!(
            core.is_idle() && core.grant_next().is_none(),
            "and its task is not asked for those who do not wait"
        );
    }

    fn with_open_turn(task: &str) -> Session {
        let mut session = Session::default();
        let system_prompt = LlmMessage::new(LlmRole::System, "be brief", &mut Ports::default());
        let (session_id, turn_id) = ("s".to_owned(), "turn_old".to_owned());
        let task = stream(task).to_string();
        let begin =
            proto_events::session::SessionCommand::StartTurn { session_id, turn_id, task, system_prompt };
        for event in session.decide(begin).unwrap() {
            session.evolve(&event, &Metadata::default());
        }
        session
    }

    #[test]
    fn turns_are_granted_one_after_another_in_the_order_of_the_requests_without_an_executor() {
        let mut core = SessionCore::default();
        let _answers = ["a", "b", "c"].map(|task| ask(&mut core, task));
        assert!(matches!(core.grant_next(), Some(SessionWish::Later)), "it must be read first");
        read(&mut core, Session::default());
        for task in ["a", "b", "c"] {
            let turn_id = format!("turn_{task}");
            assert_eq!(granted(core.grant_next()), Some(turn_id.clone()));
            assert!(core.grant_next().is_none(), "one task has the turn");
            core.take_back("another", false);
            assert!(core.grant_next().is_none());
            core.take_back(&turn_id, false);
        }
        assert!(core.grant_next().is_none() && core.is_idle());
    }

    #[test]
    fn an_open_turn_goes_to_its_task_and_is_asked_about_once_while_others_wait() {
        let mut core = SessionCore::default();
        read(&mut core, with_open_turn("owner"));
        let _waits = ask(&mut core, "other");
        let Some(SessionWish::AskOwner { task, turn_id }) = core.grant_next() else {
            panic!("nobody was asked")
        };
        assert_eq!((task, turn_id.as_str()), (stream("owner"), "turn_old"));
        assert!(core.grant_next().is_none(), "it is asked once");
        assert!(!core.owner_answered("turn_old", true));
        let _owner = ask(&mut core, "owner");
        assert_eq!(granted(core.grant_next()).as_deref(), Some("turn_old"));
        assert!(!core.owner_answered("turn_old", false), "its task has it");
        core.take_back("turn_old", true);
        assert!(core.must_be_read(), "what was appended is not known");
    }

    #[test]
    fn a_turn_whose_task_is_over_is_ended_and_the_next_task_gets_its_own() {
        let mut core = SessionCore::default();
        read(&mut core, with_open_turn("owner"));
        let _waits = ask(&mut core, "other");
        assert!(matches!(core.grant_next(), Some(SessionWish::AskOwner { .. })));
        assert!(core.owner_answered("turn_old", false));
        let fence = Fence { partition: 0, epoch: 1 };
        let (now, mint) = ((fence, [7; 16], Timestamp(1)), &mut taskreel_log::ports::Ports::default());
        let end = core.end_orphan("turn_old", now, mint).unwrap();
        assert_eq!((end.command_id(), end.append.parts.len()), ("~orphan:turn_old", 1));
        core.orphan_ended(&end, Some(Committed { version: Version(1), position: Position(1) }));
        assert_eq!(granted(core.grant_next()).as_deref(), Some("turn_other"));
        let end = OrphanEnd { append: end.append, hash: end.hash, metadata: end.metadata };
        core.orphan_ended(&end, None);
        assert!(core.must_be_read(), "its end is not known");
    }
}
