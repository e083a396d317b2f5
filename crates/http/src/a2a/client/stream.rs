//! The events of a task, across connections that break: none is repeated and none is lost without a word.
//!
//! Where the agent's streams continue after a place, the rest follows. Where they do not, the task as it is follows as a
//! [`Gap`]: what happened meanwhile is in it, but not event by event.

use std::collections::VecDeque;
use std::fmt;

use futures_util::Stream;
use futures_util::stream::BoxStream;

use crate::a2a::client::call::{AgentQuestion, unreadable};
use crate::a2a::client::error::A2aError;
use crate::a2a::client::line::{AgentConnection, Frames, pause};
use crate::a2a::model::{Event, State, Task};
use crate::a2a::ops::operation::A2aOperation;
use crate::a2a::version::Version;
use crate::client::error::ClientError;

/// An item of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamItem {
    /// An event, which follows the one before.
    Event(Event),
    /// A gap: events before it may be missing.
    Gap(Box<Gap>),
}

/// A gap in a stream whose connection broke, at an agent whose streams do not continue after a place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The task after the gap, with all that is missing in it.
    pub task: Task,
    /// Whether the next event is the first one after this task. If not, events may follow that the task shows already.
    pub is_exact: bool,
}

/// The events of a task: a stream that ends after the task has ended, or where the agent ends it because the task waits for
/// its client. A connection that breaks is made again; after an error no item follows.
pub struct EventStream {
    items: BoxStream<'static, Result<Placed, A2aError>>,
    place: Option<String>,
    is_over: bool,
}

/// An item, and the place behind it.
type Placed = (StreamItem, Option<String>);

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("place", &self.place).finish_non_exhaustive()
    }
}

impl EventStream {
    /// Returns the next item; `None` after the last one. Cancel-safe.
    ///
    /// # Errors
    /// [`A2aError`]; no item follows.
    pub async fn next(&mut self) -> Option<Result<StreamItem, A2aError>> {
        futures_util::StreamExt::next(self).await
    }

    /// Returns the place behind the last item, for
    /// [`Client::subscribe_after`](crate::a2a::Client::subscribe_after); `None` where the agent names none.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// Returns the items of a follower.
    pub(crate) fn from_follower(follower: TaskFollower) -> Self {
        let place = follower.place.clone();
        let items = futures_util::stream::unfold(Some(follower), |follower| async move {
            let mut follower = follower?;
            match follower.next().await {
                Ok(Some(item)) => Some((Ok(item), Some(follower))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Self { items: Box::pin(items), place, is_over: false }
    }
}

impl Stream for EventStream {
    type Item = Result<StreamItem, A2aError>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        use std::task::Poll;
        if self.is_over {
            return Poll::Ready(None);
        }
        Poll::Ready(match futures_util::ready!(self.items.as_mut().poll_next(cx)) {
            Some(Ok((item, place))) => {
                self.place = place;
                Some(Ok(item))
            }
            last => {
                self.is_over = true;
                last.map(|last| last.map(|(item, _)| item))
            }
        })
    }
}

/// The following of a task.
#[derive(Debug)]
pub(crate) struct TaskFollower {
    line: AgentConnection,
    /// Whether the agent's streams continue after a place.
    resumes: bool,
    /// The sending of the message; `None` for a stream of a task that is known.
    sending: Option<AgentQuestion>,
    frames: Option<Frames>,
    task: Option<String>,
    /// The id of the last event.
    place: Option<String>,
    state: Option<State>,
    ready: VecDeque<Placed>,
    /// Whether the next event is the first one after a place.
    is_resumed: bool,
    /// The failures since the last news.
    failed: u32,
    is_over: bool,
}

impl TaskFollower {
    /// Returns the following of a task, or of the one that a message makes, before any connection.
    pub(crate) fn new(
        line: AgentConnection,
        resumes: bool,
        sending: Option<AgentQuestion>,
        task: Option<String>,
    ) -> Self {
        Self {
            line,
            resumes,
            sending,
            frames: None,
            task,
            place: None,
            state: None,
            ready: VecDeque::new(),
            is_resumed: false,
            failed: 0,
            is_over: false,
        }
    }

    /// Opens the stream, so that a refusal is known at once.
    pub(crate) async fn open(&mut self) -> Result<(), A2aError> {
        let asked = match (&self.sending, &self.task) {
            (Some(sending), _) => sending.clone(),
            (None, Some(task)) => AgentQuestion::about(A2aOperation::Subscribe, task),
            (None, None) => return Ok(()),
        };
        self.frames = Some(self.line.open(&asked).await?);
        Ok(())
    }

    /// Takes up the stream of a task after a place.
    pub(crate) async fn begin_after(&mut self, place: &str) -> Result<(), A2aError> {
        self.place = Some(place.to_owned());
        self.connect().await
    }

    /// Returns the next item; `None` after the last one.
    async fn next(&mut self) -> Result<Option<Placed>, A2aError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.is_over {
                return Ok(None);
            }
            let Some(frames) = &mut self.frames else {
                if let Err(error) = self.connect().await {
                    self.broke(error).await?;
                }
                continue;
            };
            match frames.next().await {
                Ok(Some((place, event))) => self.accept_event(place, event)?,
                // The agent's own end: the task waits for its client.
                Ok(None) if self.state.is_some_and(State::is_interrupted) => self.is_over = true,
                Ok(None) => {
                    let url = self.line.interface.url.clone();
                    let why = "the stream has ended before the task".to_owned();
                    self.broke(ClientError::Protocol { url, why }.into()).await?;
                }
                Err(error) => self.broke(error).await?,
            }
        }
    }

    /// Counts a failure, and waits before the next attempt.
    async fn broke(&mut self, error: A2aError) -> Result<(), A2aError> {
        self.frames = None;
        self.failed += 1;
        let is_known =
            self.task.is_some() || self.sending.as_ref().is_some_and(|sending| sending.key.is_some());
        if !is_known || !error.is_break() || self.failed >= self.line.attempts {
            self.is_over = true;
            return Err(error);
        }
        tokio::time::sleep(pause(self.failed)).await;
        Ok(())
    }

    /// Takes an event.
    fn accept_event(&mut self, place: Option<String>, event: Event) -> Result<(), A2aError> {
        let is_first_again = std::mem::take(&mut self.is_resumed);
        let url = &self.line.interface.url;
        match (&self.task, event.task_id()) {
            (Some(known), Some(named)) if known != named => {
                return Err(unreadable(url, "an event is about another task"));
            }
            (None, Some(named)) => self.task = Some(named.to_owned()),
            _ => {}
        }
        if is_first_again && place.is_some() && place == self.place {
            // The agent begins with the event that was named, not after it.
            return Ok(());
        }
        self.place.clone_from(&place);
        self.state = event.state().or(self.state);
        let is_last_03 = self.line.interface.version == Version::V03
            && matches!(&event, Event::Status(update) if update.is_last);
        let is_answer = matches!(&event, Event::Message(_)) && self.state.is_none();
        self.is_over = is_last_03 || is_answer || self.state.is_some_and(State::is_terminal);
        if !matches!(event, Event::Task(_)) {
            self.failed = 0;
        }
        let item = match event {
            // The agent did not take up the stream where it was.
            Event::Task(task) if is_first_again => {
                StreamItem::Gap(Box::new(Gap { task: *task, is_exact: true }))
            }
            event => StreamItem::Event(event),
        };
        self.ready.push_back((item, place));
        Ok(())
    }

    /// Connects again after a break.
    async fn connect(&mut self) -> Result<(), A2aError> {
        let Some(task) = self.task.clone() else {
            let sending =
                self.sending.clone().ok_or_else(|| A2aError::Request("there is no task".to_owned()))?;
            self.frames = Some(self.line.opened(&sending).await?);
            return Ok(());
        };
        let asked = AgentQuestion::about(A2aOperation::Subscribe, &task);
        if self.resumes && self.place.is_some() {
            let after = AgentQuestion { after: self.place.clone(), ..asked.clone() };
            match self.line.opened(&after).await {
                Ok(frames) => {
                    self.is_resumed = true;
                    self.frames = Some(frames);
                    return Ok(());
                }
                Err(error) if error.kind().is_none() || error.is_passing() => return Err(error),
                // The agent does not know the place any more.
                Err(_) => {}
            }
        }
        self.over_a_gap(&task, &asked).await
    }

    /// Connects again where what was missed cannot be had.
    async fn over_a_gap(&mut self, id: &str, asked: &AgentQuestion) -> Result<(), A2aError> {
        let mut frames = match self.line.opened(asked).await {
            Ok(frames) => frames,
            Err(error) if error.kind().is_none() || error.is_passing() => return Err(error),
            Err(error) => {
                // A task that is over, or whose agent does not let it be followed.
                let task = self.line.task(id).await?;
                if !task.status.state.is_terminal() && !task.status.state.is_interrupted() {
                    return Err(error);
                }
                self.gap(task, true, None);
                self.is_over = true;
                return Ok(());
            }
        };
        // In 1.0 the task comes first, and what follows begins there.
        let first = match self.line.interface.version {
            Version::V1 => frames.next().await?,
            Version::V03 => None,
        };
        match first {
            Some((place, Event::Task(task))) if task.id == id => self.gap(*task, true, place),
            first => {
                let task = self.line.task(id).await?;
                self.gap(task, false, None);
                if let Some((place, event)) = first {
                    self.accept_event(place, event)?;
                }
            }
        }
        self.frames = Some(frames);
        Ok(())
    }

    fn gap(&mut self, task: Task, is_exact: bool, place: Option<String>) {
        self.place.clone_from(&place);
        self.state = Some(task.status.state);
        self.is_over = task.status.state.is_terminal();
        self.ready.push_back((StreamItem::Gap(Box::new(Gap { task, is_exact })), place));
    }
}
