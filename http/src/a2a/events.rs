//! The events of a task, from the log and from nothing else: so that every subscriber gets the same ones in the same order, a
//! client that goes away disturbs nobody, and one that comes back continues where it was, also after a restart.
//!
//! A record of the task's stream gives some events, each with the version of the last of the record's events that it tells. That
//! is its place ([`Place`]): what follows a place is a function of the log.

use std::collections::VecDeque;
use std::fmt;

use proto_events::decider::Decider as _;
use proto_events::envelope::Timestamp;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{self, TaskState};
use proto_events::task::{Task, TaskEvent};
use taskreel::{System, TaskHandle, Version};
use taskreel_log::api::StoredRecord;
use taskreel_log::read::{Delivery, Subscription, decode_record};

use crate::a2a::failure::{Failure, Kind};
use crate::a2a::mapping::message::{self, Place as At, is_agents};
use crate::a2a::mapping::task::{context_of, error_message, state_of};
use crate::a2a::mapping::{EXTENSION, artifact};
#[cfg(feature = "client")]
use crate::a2a::model::Task as ShownTask;
use crate::a2a::model::{ArtifactUpdate, Event, Message, Status, StatusUpdate};
use crate::a2a::shown::{Extent, show, time};
use crate::a2a::wire::fields::Invalid;
use crate::a2a::wire::write::Members;
use crate::face::connection::Stopping;

/// A place in a task's events: its id and a version of its stream. As text the two with a colon between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) task: String,
    pub(crate) version: Version,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.task, self.version.0)
    }
}

/// Returns the version of a place in a task's events, which the text may name alone.
///
/// # Errors
/// [`Invalid`] if the text is no place, or one of another task.
pub(crate) fn version_of(text: &str, task: &str) -> Result<Version, Invalid> {
    let text = text.trim();
    let version = text.strip_prefix(task).and_then(|rest| rest.strip_prefix(':')).unwrap_or(text);
    let version = version.parse().map(Version);
    version.map_err(|_| Invalid::new("Last-Event-ID", "must be a place in the events of this task"))
}

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
    ready: VecDeque<(Version, Event)>,
    stopping: Option<Stopping>,
    is_over: bool,
    extent: Extent,
}

/// An event, or the reason why no event follows, and the place after it.
pub(crate) type Told = (Option<Place>, Result<Event, Failure>);

impl Events {
    /// Returns the events of a task. It is read from its beginning.
    pub(crate) fn of(
        system: &System,
        task: &TaskHandle,
        begin: Begin,
        until_rest: bool,
        stopping: Option<Stopping>,
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
            stopping: None,
            is_over: false,
            extent: Extent::ALL,
        }
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
            if let Some((version, event)) = self.ready.pop_front() {
                let place = Place { task: self.task.id().to_owned(), version };
                return Some((Some(place), Ok(event)));
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
            let delivery = tokio::select! {
                biased;
                delivery = log.next() => delivery,
                () = stops => None,
            };
            let taken = match delivery {
                Some(Ok(Delivery::Record(record))) => self.take(&record),
                // The records follow from the log.
                Some(Ok(_)) => Ok(()),
                Some(Err(error)) => Err(taskreel::Error::from(error).into()),
                None => Err(Failure::new(Kind::Unavailable, "the server stops; the task goes on")),
            };
            if let Err(failure) = taken {
                self.is_over = true;
                return Some((None, Err(failure)));
            }
        }
    }

    fn take(&mut self, record: &StoredRecord) -> Result<(), Failure> {
        let mut told = Telling::default();
        for recorded in decode_record::<TaskEvent>(record).map_err(taskreel::Error::from)? {
            told.take(&self.task, &recorded.event, recorded.version, recorded.metadata.at);
            self.task.evolve(&recorded.event, &recorded.metadata);
            told.folded(&self.task);
            self.version = recorded.version;
        }
        let told = told.end(&self.task);
        match self.begin {
            Begin::With(version) if self.version >= version => {
                self.begin = Begin::After(self.version);
                let task = show(&self.task, self.version, self.extent);
                self.ready.push_back((self.version, Event::Task(Box::new(task))));
            }
            Begin::With(_) => return Ok(()),
            Begin::After(version) => {
                self.ready.extend(told.into_iter().filter(|(at, _)| *at > version));
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
            if let Some((_, Event::Status(last))) = self.ready.back_mut() {
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
    /// [`Failure`] if it cannot be read.
    pub(crate) fn feed(&mut self, record: &StoredRecord) -> Result<(), Failure> {
        self.take(record)
    }

    /// Returns the next event of the records that were fed, with its place.
    pub(crate) fn pop(&mut self) -> Option<(Version, Event)> {
        self.ready.pop_front()
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
struct Telling {
    told: Vec<(Version, Event)>,
    /// A change of state that was not told yet.
    waits: Option<Waiting>,
}

struct Waiting {
    state: TaskState,
    is_rejected: bool,
    version: Version,
    at: Timestamp,
    message: Option<Message>,
}

impl Telling {
    /// Takes an event, before it is folded into the task.
    fn take(&mut self, task: &Task, event: &TaskEvent, version: Version, at: Timestamp) {
        match event {
            TaskEvent::StateChanged { to, .. } => {
                self.tell_state(task);
                self.waits = Some(Waiting { state: *to, is_rejected: false, version, at, message: None });
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
                        let (state, is_rejected) = (task.state(), task.is_rejected());
                        self.waits = Some(Waiting { state, is_rejected, version, at, message: Some(said) });
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
            waits.is_rejected = task.is_rejected();
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
        let Some(Waiting { state, is_rejected, version, at, message }) = self.waits.take() else { return };
        let update = StatusUpdate {
            task_id: task.id().to_owned(),
            context_id: context_of(task.id(), task.metadata()),
            status: Status { state: state_of(state, is_rejected), message, timestamp: Some(time(at)) },
            metadata: generation(version),
            is_last: false,
        };
        self.told.push((version, Event::Status(Box::new(update))));
    }

    fn end(mut self, task: &Task) -> Vec<(Version, Event)> {
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
