//! Taking in tasks and conversations that another system has kept, while no system has the log open. What was taken in
//! before is not taken in again: its command id is made of its name, and the record keeps the digest of its source.

use std::collections::HashSet;

use proto_events::envelope::{Committed, Metadata, Principal};
use proto_events::id::{Digest, Mint, StreamId};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{LlmMessage, LlmRole, Message, PostedTask, TaskState};
use proto_events::session::{Session, SessionCommand};
use proto_events::task::{Task, TaskCommand};
use proto_events::turn::TurnMessage;
use taskreel_log::api::{Append, AppendPart};

use crate::actors::entity::{Entity, SetPart};
use crate::actors::seed::Seed;
use crate::error::Error;
use crate::limits::{TAKEN_IN_BYTES, TAKEN_IN_MESSAGES, TAKEN_IN_TASKS};
use crate::system::operator::Operator;

/// The text of the message with which a task waits that was at work in the other system.
const WAS_AT_WORK: &str = "This task was at work when it was imported. It is not known which of its calls took effect, \
so it waits: answer it to let it go on, or cancel it.";

/// The text of the message with which a task waits that the other system had accepted and not begun.
const WAS_ACCEPTED: &str = "This task had been accepted and was not begun when it was imported, so it waits: answer it to let \
it begin, or cancel it.";

/// A task or a conversation that another system has kept.
#[derive(Debug, Clone)]
pub struct KeptStream {
    /// The agent whose task or session it becomes.
    pub agent: String,
    /// The task or the conversation.
    pub what: KeptItem,
    /// The text that it was read from: the same text is taken in once, another one of the same name is refused.
    pub source: Vec<u8>,
}

/// The item that another system has kept.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum KeptItem {
    /// A task in any state. One that is at work waits for a person from then on: nothing is known of its calls.
    Task {
        /// The task.
        task: Box<PostedTask>,
        /// Entries for the task's metadata, with what else was kept of it.
        metadata: JsonObject,
    },
    /// A conversation.
    Session {
        /// The session's id.
        id: String,
        /// The messages, oldest first.
        messages: Vec<LlmMessage>,
    },
}

/// The result of taking in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TakenIn {
    /// The item is in the log from now on.
    New,
    /// The item was taken in before, from the same source.
    Known,
    /// The item was taken in before, and its source has changed since. Nothing was added.
    Changed,
    /// The log has a task or session of this name from elsewhere. Nothing was added.
    Elsewhere,
}

/// Tasks that are to be appended together.
#[derive(Default)]
struct Batch<'a> {
    /// Each with its cause and its source.
    tasks: Vec<(Entity<Task>, Metadata, &'a [u8])>,
    streams: HashSet<StreamId>,
    bytes: usize,
}

impl Operator {
    /// Takes in tasks and conversations in their order, and returns what became of each: an error of its own names what
    /// cannot be taken in as it is. Repeating the call after a failure goes on where it ended.
    ///
    /// # Errors
    /// Errors of the log. What was answered before is in it.
    pub async fn take_in(
        &self,
        kept: &[KeptStream],
        by: impl Into<Principal>,
    ) -> Result<Vec<Result<TakenIn, Error>>, Error> {
        let by = by.into();
        let mut started = self.started.lock().await;
        let mut results = Vec::with_capacity(kept.len());
        let mut batch = Batch::default();
        for item in kept {
            let taken = match &item.what {
                KeptItem::Task { task, metadata } => {
                    let taken = self.decide_task(item, (task, metadata), &by, &mut batch, &mut started).await;
                    if batch.tasks.len() >= TAKEN_IN_TASKS || batch.bytes >= TAKEN_IN_BYTES {
                        self.append_batch(&mut batch, &mut started).await?;
                    }
                    taken
                }
                KeptItem::Session { id, messages } => {
                    self.append_batch(&mut batch, &mut started).await?;
                    self.take_in_session(item, (id, messages), &by, &mut started).await
                }
            };
            results.push(own_error(taken)?);
        }
        self.append_batch(&mut batch, &mut started).await?;
        Ok(results)
    }

    /// Decides what a task adds and puts it into the batch.
    async fn decide_task<'a>(
        &self,
        item: &'a KeptStream,
        (task, metadata): (&PostedTask, &JsonObject),
        by: &Principal,
        batch: &mut Batch<'a>,
        started: &mut bool,
    ) -> Result<TakenIn, Error> {
        let stream = StreamId::task(&item.agent, &task.id)?;
        if batch.streams.contains(&stream) {
            self.append_batch(batch, started).await?;
        }
        let cause = self.cause(&stream, by);
        let mut entity =
            Entity::<Task>::recover(&self.store, stream.clone(), Seed::draw(&self.ports)).await?;
        if let Some(before) = self.taken_before(&entity, &cause.command_id, &item.source).await? {
            return Ok(before.map_or(TakenIn::Changed, |_| TakenIn::Known));
        }
        if entity.state().exists() {
            return Ok(TakenIn::Elsewhere);
        }
        // Nothing in this log would go on with it by itself.
        let waits = match task.state {
            TaskState::Working => Some(WAS_AT_WORK),
            TaskState::Submitted => Some(WAS_ACCEPTED),
            _ => None,
        };
        entity.decide(TaskCommand::Submit(Box::new(task.clone())), &cause)?;
        if !metadata.is_empty() {
            entity.decide(TaskCommand::MergeMetadata(metadata.clone()), &cause)?;
        }
        if let Some(why) = waits {
            let question = Message::agent(why, &mut self.ports.clone());
            entity.decide(TaskCommand::RequireInput(Some(question)), &cause)?;
        }
        batch.bytes += entity.pending_bytes();
        batch.streams.insert(stream);
        batch.tasks.push((entity, cause, &item.source));
        Ok(TakenIn::New)
    }

    async fn append_batch(&self, batch: &mut Batch<'_>, started: &mut bool) -> Result<(), Error> {
        let Batch { tasks, .. } = std::mem::take(batch);
        let (fence, set_id) = (self.store.fence(), self.ports.ids.random());
        let parts = u16::try_from(tasks.len()).unwrap_or(u16::MAX);
        let mut encoded: Vec<AppendPart> = Vec::with_capacity(tasks.len());
        for (part, (mut entity, cause, source)) in (0..parts).zip(tasks) {
            encoded.push(entity.part(fence, SetPart { set_id, part, parts }, &cause, Some(source))?);
        }
        if !encoded.is_empty() {
            self.note_start(started).await?;
            self.store.append(Append { fence, set_id, parts: encoded }).await?;
        }
        Ok(())
    }

    /// Takes in a conversation as committed turns of a task of its own, which says where they come from.
    async fn take_in_session(
        &self,
        item: &KeptStream,
        (id, messages): (&str, &[LlmMessage]),
        by: &Principal,
        started: &mut bool,
    ) -> Result<TakenIn, Error> {
        let stream = StreamId::session(&item.agent, id)?;
        let cause = self.cause(&stream, by);
        let origin = StreamId::task(&item.agent, &cause.command_id)?;
        let mut task = Entity::<Task>::recover(&self.store, origin.clone(), Seed::draw(&self.ports)).await?;
        let began = match self.taken_before(&task, &cause.command_id, &item.source).await? {
            Some(None) => return Ok(TakenIn::Changed),
            before => before.is_some(),
        };
        let mut session = Entity::<Session>::recover(&self.store, stream, Seed::draw(&self.ports)).await?;
        if !began && session.state().exists() {
            return Ok(TakenIn::Elsewhere);
        }
        let (mut last, mut is_new) = (None, false);
        for (number, turn) in turns(messages).into_iter().enumerate() {
            let metadata = Metadata { command_id: format!("{}-{number}", cause.command_id), ..cause.clone() };
            if let Some(before) = self.taken_before(&session, &metadata.command_id, &item.source).await? {
                last = before;
                continue;
            }
            // An import that was interrupted, and the conversation went on without the rest of it.
            if last.is_some_and(|last| last.version != session.version()) {
                return Ok(TakenIn::Elsewhere);
            }
            let mut mint = self.ports.clone();
            decide_turn(&mut session, id, &origin, number, turn, &metadata, &mut mint)?;
            let origin = if began || is_new {
                None
            } else {
                task.decide(TaskCommand::Submit(Box::new(self.origin(&origin, id, messages))), &metadata)?;
                Some(&mut task)
            };
            self.note_start(started).await?;
            last = Some(self.append_turn(&mut session, origin, &metadata, &cause, &item.source).await?);
            is_new = true;
        }
        Ok(if is_new { TakenIn::New } else { TakenIn::Known })
    }

    async fn append_turn(
        &self,
        session: &mut Entity<Session>,
        task: Option<&mut Entity<Task>>,
        metadata: &Metadata,
        of_task: &Metadata,
        source: &[u8],
    ) -> Result<Committed, Error> {
        let (fence, set_id) = (self.store.fence(), self.ports.ids.random());
        let parts = 1 + u16::from(task.is_some());
        let mut encoded = Vec::new();
        if let Some(task) = task {
            encoded.push(task.part(fence, SetPart { set_id, part: 0, parts }, of_task, Some(source))?);
        }
        let set = SetPart { set_id, part: parts - 1, parts };
        let own = session.part(fence, set, metadata, Some(source))?;
        let hash = own.record.hash();
        encoded.push(own);
        let appended = self.store.append(Append { fence, set_id, parts: encoded }).await?;
        let Some(committed) = appended.parts.last().copied() else {
            return Err(Error::Internal("the append of a turn was answered without a part".to_owned()));
        };
        session.mark_committed(committed, hash, metadata);
        Ok(committed)
    }

    /// Returns the task that a conversation's turns are of: completed, with the words where they come from.
    fn origin(&self, stream: &StreamId, session: &str, messages: &[LlmMessage]) -> PostedTask {
        let mut mint = self.ports.clone();
        let words = format!("The conversation `{session}` was imported with {} messages.", messages.len());
        let mut posted = PostedTask::new(Message::agent(&words, &mut mint), &mut mint);
        posted.id = stream.id();
        posted.state = TaskState::Completed;
        posted.metadata.set("session_id", JsonText::string(session));
        posted
    }

    fn cause(&self, stream: &StreamId, by: &Principal) -> Metadata {
        let digest = Digest::of_parts(&[b"taskreel.take-in\0", stream.as_str().as_bytes()]).to_string();
        let command_id = format!("import_{}", digest.get(..32).unwrap_or_default());
        Metadata {
            at: self.ports.clock.now(),
            command_digest: None,
            causation_id: String::new(),
            correlation_id: command_id.clone(),
            command_id,
            principal: by.clone(),
        }
    }

    /// Looks for the record of an earlier import: `Some(None)` if there is one of another source.
    async fn taken_before<D>(
        &self,
        entity: &Entity<D>,
        id: &str,
        source: &[u8],
    ) -> Result<Option<Option<Committed>>, Error>
    where
        D: proto_events::decider::Decider + Default + Clone + Send + Sync + 'static,
        D::Event: proto_events::codec::Storable + Send + 'static,
    {
        let known = match entity.answered(id, Some(source)) {
            Ok(None) if entity.may_have_forgotten(id) => {
                Entity::<D>::search(&self.store, entity.stream(), id, source).await
            }
            known => known,
        };
        match known {
            Ok(known) => Ok(known.map(Some)),
            Err(Error::CommandIdReused { .. }) => Ok(Some(None)),
            Err(error) => Err(error),
        }
    }
}

/// Returns the messages in pieces that each fit an append, the first with the leading system message.
fn turns(messages: &[LlmMessage]) -> Vec<&[LlmMessage]> {
    let (mut turns, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (at, message) in messages.iter().enumerate() {
        bytes += message.content.len();
        if at > start && (at - start >= TAKEN_IN_MESSAGES || bytes > TAKEN_IN_BYTES) {
            turns.push(messages.get(start..at).unwrap_or_default());
            (start, bytes) = (at, message.content.len());
        }
    }
    turns.push(messages.get(start..).unwrap_or_default());
    turns
}

/// Returns the system prompt that a session has; an empty prompt counts as absent.
fn system_prompt_of(session: &Session, mint: &mut dyn Mint) -> LlmMessage {
    session.leading().cloned().unwrap_or_else(|| LlmMessage::new(LlmRole::System, "", mint))
}

/// Decides one whole turn: its beginning, its messages, its end.
fn decide_turn(
    session: &mut Entity<Session>,
    id: &str,
    origin: &StreamId,
    number: usize,
    messages: &[LlmMessage],
    metadata: &Metadata,
    mint: &mut dyn Mint,
) -> Result<(), Error> {
    let turn_id = format!("import-{number}");
    let (prompt, rest) = match messages.split_first() {
        Some((first, rest)) if number == 0 && first.role == LlmRole::System => (first.clone(), rest),
        _ => (system_prompt_of(session.state(), mint), messages),
    };
    session.decide(
        SessionCommand::StartTurn {
            session_id: id.to_owned(),
            turn_id: turn_id.clone(),
            task: origin.to_string(),
            system_prompt: prompt,
        },
        metadata,
    )?;
    for message in rest {
        let message = TurnMessage {
            message: message.clone(),
            part: 0,
            infer_call: None,
            asks: Vec::new(),
            answers: None,
        };
        session.decide(SessionCommand::AppendMessage { turn_id: turn_id.clone(), message }, metadata)?;
    }
    session.decide(SessionCommand::CommitTurn { turn_id }, metadata)
}

/// Parts errors of what is taken in, which are its own, from errors of the log.
fn own_error<T>(taken: Result<T, Error>) -> Result<Result<T, Error>, Error> {
    match taken {
        Err(error @ (Error::Append(_) | Error::Read(_) | Error::Internal(_))) => Err(error),
        taken => Ok(taken),
    }
}
