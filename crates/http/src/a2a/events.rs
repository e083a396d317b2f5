//! The events of a task, from the log and from nothing else: so that every subscriber gets the same ones in the same order, a
//! client that goes away disturbs nobody, and one that comes back continues where it was, also after a restart.
//!
//! A record of the task's stream gives some events, each with the version of the last of the record's events that it tells. That
//! is its place ([`TaskPlace`]): what follows a place is a function of the log. A subscriber who wants them also gets the pieces of
//! a model's answer as it arrives ([`AnswerPieces`]), in front of the artifact that the log has of it.

use std::collections::VecDeque;

use proto_events::decider::Decider as _;
use proto_events::envelope::Timestamp;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{self, TaskState};
use proto_events::task::{Task, TaskEvent};
use taskreel::{Live, System, TaskHandle, Version};
use taskreel_log::api::StoredRecord;
use taskreel_log::read::{Delivery, Subscription, decode_record};

use crate::a2a::failure::{A2aFailure, FailureKind};
use crate::a2a::mapping::message::{self, MessagePlace as At, is_agents};
use crate::a2a::mapping::remarks::{error_message, remark_of, with_remark};
use crate::a2a::mapping::task::{context_of, state_of, state_of_task};
use crate::a2a::mapping::{EXTENSION, artifact};
#[cfg(feature = "client")]
use crate::a2a::model::Task as ShownTask;
use crate::a2a::model::{ArtifactUpdate, Event, Message, State, Status, StatusUpdate};
use crate::a2a::pieces::AnswerPieces;
use crate::a2a::place::{TaskPlace, ToldAnswer};
use crate::a2a::task_projection::{Extent, show, time};
use crate::a2a::wire::write::Members;
use crate::handler::connection::StopSignal;

/// The place where a subscriber begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// With the whole task, as it is once its stream has this version.
    With(Version),
    /// With the first event after this place.
    After(Version),
}

/// The events of a task, up to its end.
pub(crate) struct Events {
    /// The log; `None` where the records are fed.
    log: Option<Subscription>,
    begin: Begin,
    /// Whether the stream also ends where the task waits for its client.
    until_rest: bool,
    task: Task,
    version: Version,
    ready: VecDeque<(Version, Option<ToldAnswer>, Event)>,
    pieces: Option<AnswerPieces>,
    stopping: Option<StopSignal>,
    is_over: bool,
    extent: Extent,
}

/// An event, or the reason why no event follows, and the place after it.
pub(crate) type Told = (Option<TaskPlace>, Result<Event, A2aFailure>);

impl Events {
    /// Returns the events of a task. It is read from its beginning.
    pub(crate) fn new(
        system: &System,
        task: &TaskHandle,
        begin: Begin,
        until_rest: bool,
        stopping: Option<StopSignal>,
    ) -> Self {
        Self {
            log: Some(Subscription::stream(system.log(), task.stream().clone(), Version(1))),
            until_rest,
            stopping,
            ..Self::fed(begin)
        }
    }

    /// Returns the events of a task whose records are fed, from its first one on.
    pub(crate) fn fed(begin: Begin) -> Self {
        Self {
            log: None,
            begin,
            until_rest: false,
            task: Task::default(),
            version: Version(0),
            ready: VecDeque::new(),
            pieces: None,
            stopping: None,
            is_over: false,
            extent: Extent::ALL,
        }
    }

    /// Returns a message as all that is told: one that answers without a task.
    pub(crate) fn of_message(system: &System, task: &TaskHandle, message: Message) -> Self {
        let mut events = Self::new(system, task, Begin::With(Version(0)), true, None);
        events.ready.push_back((Version(0), None, Event::Message(Box::new(message))));
        events.is_over = true;
        events
    }

    /// Tells the pieces of a model's answers as well.
    #[must_use]
    pub(crate) fn with_pieces(mut self, pieces: AnswerPieces) -> Self {
        self.pieces = Some(pieces);
        self
    }

    /// Shows this of the task at the beginning.
    #[must_use]
    pub(crate) fn showing(mut self, extent: Extent) -> Self {
        self.extent = extent;
        self
    }

    /// Returns the next event; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some((version, told, event)) = self.ready.pop_front() {
                let place = TaskPlace { task: self.task.id().to_owned(), version, told };
                return Some((Some(place).filter(|_| version > Version(0)), Ok(event)));
            }
            if self.is_over {
                return None;
            }
            let stopping = self.stopping.clone();
            let stops = async {
                match stopping {
                    Some(stopping) => stopping.begun().await,
                    None => std::future::pending().await,
                }
            };
            let Some(log) = &mut self.log else { return None };
            let pieces = &mut self.pieces;
            let live = async {
                match pieces {
                    Some(pieces) => pieces.next().await,
                    None => std::future::pending().await,
                }
            };
            let delivery = tokio::select! {
                biased;
                delivery = log.next() => delivery,
                live = live => {
                    self.take_live(live);
                    continue;
                }
                () = stops => None,
            };
            let taken = match delivery {
                Some(Ok(Delivery::Record(record))) => self.accept_record(&record),
                // The records follow from the log.
                Some(Ok(_)) => Ok(()),
                Some(Err(error)) => Err(taskreel::Error::from(error).into()),
                None => Err(A2aFailure::new(FailureKind::Unavailable, "the server stops; the task goes on")),
            };
            if let Err(failure) = taken {
                self.is_over = true;
                return Some((None, Err(failure)));
            }
        }
    }

    fn take_live(&mut self, live: Live) {
        let Some(pieces) = &mut self.pieces else { return };
        let has_begun = matches!(self.begin, Begin::After(version) if self.version >= version);
        if !has_begun {
            pieces.defer(live);
        } else if let Some((told, mut update)) = pieces.take(&self.task, live) {
            update.metadata = generation(self.version);
            self.ready.push_back((self.version, Some(told), Event::Artifact(Box::new(update))));
        }
    }

    fn accept_record(&mut self, record: &StoredRecord) -> Result<(), A2aFailure> {
        self.take_record(record)?;
        let early = self.pieces.as_mut().map(AnswerPieces::early).unwrap_or_default();
        for live in early {
            self.take_live(live);
        }
        Ok(())
    }

    fn take_record(&mut self, record: &StoredRecord) -> Result<(), A2aFailure> {
        let mut told = EventTeller::default();
        for recorded in decode_record::<TaskEvent>(record).map_err(taskreel::Error::from)? {
            told.accept_event(&self.task, &recorded.event, recorded.version, recorded.metadata.at);
            self.task.evolve(&recorded.event, &recorded.metadata);
            told.folded(&self.task);
            self.version = recorded.version;
        }
        let told = told.finish(&self.task);
        match self.begin {
            Begin::With(version) if self.version >= version => {
                self.begin = Begin::After(self.version);
                let task = show(&self.task, self.version, self.extent);
                self.ready.push_back((self.version, None, Event::Task(Box::new(task))));
            }
            Begin::With(_) => return Ok(()),
            Begin::After(version) => {
                let new = told.into_iter().filter(|(at, _)| *at > version);
                self.ready.extend(new.map(|(at, event)| (at, None, event)));
            }
        }
        let state = self.task.state();
        let rests = self.until_rest && state == TaskState::InputRequired;
        let is_told = match self.begin {
            Begin::After(version) => self.version >= version,
            Begin::With(_) => false,
        };
        if is_told && (state.is_terminal() || rests) {
            self.is_over = true;
            if let Some((.., Event::Status(last))) = self.ready.back_mut() {
                last.is_last = true;
            }
        }
        Ok(())
    }
}

/// Events whose records are fed.
#[cfg(feature = "client")]
impl Events {
    /// Takes the next record of the task.
    ///
    /// # Errors
    /// [`A2aFailure`] if it cannot be read.
    pub(crate) fn feed(&mut self, record: &StoredRecord) -> Result<(), A2aFailure> {
        self.accept_record(record)
    }

    /// Returns the next event of the records that were fed, with its place.
    pub(crate) fn pop(&mut self) -> Option<(Version, Event)> {
        self.ready.pop_front().map(|(version, _, event)| (version, event))
    }

    /// Whether there are further events of the records that were fed.
    pub(crate) fn has_more(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether no event follows those that are there.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the task as it is after the records that were taken.
    pub(crate) fn shown(&self) -> ShownTask {
        show(&self.task, self.version, self.extent)
    }
}

/// The events that a record tells. A change of state waits for the agent's words about it, which stand behind it.
#[derive(Default)]
struct EventTeller {
    told: Vec<(Version, Event)>,
    /// A change of state that was not told yet.
    waits: Option<PendingState>,
}

struct PendingState {
    state: TaskState,
    shown: State,
    version: Version,
    at: Timestamp,
    message: Option<Message>,
}

impl EventTeller {
    /// Takes an event, before it is folded into the task.
    fn accept_event(&mut self, task: &Task, event: &TaskEvent, version: Version, at: Timestamp) {
        match event {
            TaskEvent::StateChanged { to, .. } => {
                self.tell_state(task);
                let shown = state_of(*to);
                self.waits = Some(PendingState { state: *to, shown, version, at, message: None });
            }
            TaskEvent::MessageAppended(said) if is_agents(said.role.as_deref()) => {
                let said = message_of(task, said);
                match &mut self.waits {
                    Some(waits) if waits.message.is_none() => {
                        waits.message = Some(said);
                        waits.version = version;
                    }
                    _ => {
                        self.tell_state(task);
                        let (state, shown) = (task.state(), state_of_task(task));
                        self.waits = Some(PendingState { state, shown, version, at, message: Some(said) });
                    }
                }
            }
            TaskEvent::MetadataMerged(entries) => {
                let error = entries.get("error").and_then(JsonText::to_str);
                if let (Some(waits), Some(error)) = (&mut self.waits, error)
                    && waits.state == TaskState::Failed
                    && waits.message.is_none()
                {
                    let context = context_of(task.id(), task.metadata());
                    waits.message = Some(error_message(&error, At { task: task.id(), context: &context }));
                    waits.version = version;
                }
            }
            TaskEvent::ArtifactAppended { artifact, .. } => {
                self.tell_artifact(task, artifact, (false, true), version);
            }
            TaskEvent::ArtifactPartAppended { artifact, is_last } => {
                let is_known = task.artifacts().iter().any(|known| known.id == artifact.id);
                self.tell_artifact(task, artifact, (is_known, *is_last), version);
            }
            _ => {}
        }
    }

    /// Notes what only the folded task knows of a change of state.
    fn folded(&mut self, task: &Task) {
        if let Some(waits) = &mut self.waits
            && waits.state == task.state()
        {
            waits.shown = state_of_task(task);
        }
    }

    fn tell_artifact(
        &mut self,
        task: &Task,
        piece: &model::Artifact,
        (append, last_chunk): (bool, bool),
        version: Version,
    ) {
        self.tell_state(task);
        let update = ArtifactUpdate {
            task_id: task.id().to_owned(),
            context_id: context_of(task.id(), task.metadata()),
            artifact: artifact::to_a2a(piece),
            append,
            last_chunk,
            metadata: generation(version),
        };
        self.told.push((version, Event::Artifact(Box::new(update))));
    }

    fn tell_state(&mut self, task: &Task) {
        let Some(PendingState { state, shown, version, at, message }) = self.waits.take() else { return };
        let context = context_of(task.id(), task.metadata());
        let remark = if state == task.state() { remark_of(task) } else { None };
        let message = with_remark(message, remark.as_deref(), At { task: task.id(), context: &context });
        let update = StatusUpdate {
            task_id: task.id().to_owned(),
            context_id: context,
            status: Status { state: shown, message, timestamp: Some(time(at)) },
            metadata: generation(version),
            is_last: false,
        };
        self.told.push((version, Event::Status(Box::new(update))));
    }

    fn finish(mut self, task: &Task) -> Vec<(Version, Event)> {
        self.tell_state(task);
        self.told
    }
}

fn message_of(task: &Task, said: &model::Message) -> Message {
    let context = context_of(task.id(), task.metadata());
    message::to_a2a(said, At { task: task.id(), context: &context })
}

/// Returns the metadata of an event: the number of changes of the task so far, as A2A 1.1 will count them.
fn generation(version: Version) -> JsonObject {
    let mut metadata = JsonObject::new();
    metadata.set(EXTENSION, Members::default().text("generation", &version.0.to_string()).end());
    metadata
}
