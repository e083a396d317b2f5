//! The events of one task as Protolink streams them: from the log, which has all facts, and from the live
//! feed, which has the pieces of an answer as they arrive. Live events are checked against the log: a piece
//! is passed on only while its attempt is under way and only where the last one ended, and the whole answer,
//! which is in the log, supplies what is missing. So nothing is missing or repeated, even for slow
//! subscribers.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use proto_events::call::Call;
use proto_events::id::{StreamId, Version};
use proto_events::model::TaskState;
use proto_events::task::{Task, TaskEvent};
use taskreel_log::api::{EventReader, EventStore, Page, ReadError, StoredRecord};
use taskreel_log::ports::Ports;
use taskreel_log::read::{Delivery, Step, Steps, Subscription, decode_record};

use crate::agent::card::Agent;
use crate::error::Error;
use crate::limits::LIVE_BUFFER;
use crate::live::LiveFeed;
use crate::live::event::Live;
pub(crate) use crate::protolink::stream::event::TaskStreamEvent;
use crate::protolink::stream::fold::{Fold, LiveOutcome};
use crate::protolink::stream::resume::StreamedEvent;
pub use crate::protolink::stream::resume::{ResumePoint, ResumePointError};
use crate::run::steps::output_id;
use crate::system::handle::System;

/// The events of a task's run, up to its final status, one after another or as a stream.
pub struct TaskEvents {
    steps: Option<Steps<EventFollower>>,
    /// The last version read, as long as a poll waits.
    version: Version,
    /// The place after the last event, as long as a poll waits.
    point: ResumePoint,
}

/// The reading of a task's run from its log and its live feed.
struct EventFollower {
    log: Subscription,
    live: LiveFeed,
    /// Whether the live feed has ended.
    live_ended: bool,
    fold: Fold,
    /// Events up to this place are not passed on.
    after: ResumePoint,
    /// The last version read.
    version: Version,
    ports: Ports,
    /// Live events that belong to a part of the log not read yet.
    early: VecDeque<Live>,
    /// Events to be passed on, each with the place after it.
    ready: VecDeque<(TaskStreamEvent, ResumePoint)>,
    /// The place after the last event that was passed on.
    point: ResumePoint,
    ended: bool,
}

impl fmt::Debug for TaskEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskEvents").field("version", &self.version()).finish_non_exhaustive()
    }
}

impl TaskEvents {
    /// Returns the events of a task whose system has ended: none.
    pub(crate) fn closed() -> Self {
        Self { steps: None, version: Version(0), point: ResumePoint::default() }
    }

    /// The last version of the task's stream that was read, from which to continue if the log is closed.
    pub fn version(&self) -> Version {
        let following = self.steps.as_ref().and_then(Steps::idle);
        following.map_or(self.version, |following| following.version)
    }

    /// The place after the last event, from which [`TaskHandle::events_from`] continues, also in another process.
    ///
    /// [`TaskHandle::events_from`]: crate::TaskHandle::events_from
    pub fn resume_point(&self) -> ResumePoint {
        let following = self.steps.as_ref().and_then(Steps::idle);
        following.map_or_else(|| self.point.clone(), |following| following.point.clone())
    }

    /// Waits for the next event; `None` after the final status, or when the log was closed. Cancel-safe. Must
    /// be called within a tokio runtime, whose blocking pool reads the log.
    ///
    /// # Errors
    /// [`Error::Read`] if a record cannot be read; no event follows.
    pub async fn next(&mut self) -> Option<Result<TaskStreamEvent, Error>> {
        self.record_position();
        self.steps.as_mut()?.next().await
    }
}

impl TaskEvents {
    /// Notes the place, which cannot be read while a poll waits.
    fn record_position(&mut self) {
        if let Some(following) = self.steps.as_ref().and_then(Steps::idle) {
            self.version = following.version;
            self.point.clone_from(&following.point);
        }
    }
}

impl Stream for TaskEvents {
    type Item = Result<TaskStreamEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.record_position();
        self.steps.as_mut().map_or(Poll::Ready(None), |steps| steps.poll_step(cx))
    }
}

impl Step for EventFollower {
    type Item = Result<TaskStreamEvent, Error>;

    async fn step(&mut self) -> Option<Self::Item> {
        self.next().await
    }
}

impl EventFollower {
    fn new(
        store: Arc<dyn EventStore>,
        live: LiveFeed,
        agent: Arc<Agent>,
        stream: StreamId,
        after: ResumePoint,
        ports: Ports,
    ) -> Self {
        let mut fold = Fold::new(agent, stream.clone());
        fold.resumed.clone_from(&after.told);
        Self {
            log: Subscription::stream(store, stream, Version(1)),
            live,
            live_ended: false,
            fold,
            point: after.clone(),
            after,
            version: Version(0),
            ports,
            early: VecDeque::new(),
            ready: VecDeque::new(),
            ended: false,
        }
    }

    async fn next(&mut self) -> Option<Result<TaskStreamEvent, Error>> {
        loop {
            if let Some((event, point)) = self.ready.pop_front() {
                self.point = point;
                self.ended = self.ended || event.is_last();
                if event.is_last() {
                    self.ready.clear();
                }
                return Some(Ok(event));
            }
            if self.ended {
                return None;
            }
            let taken = tokio::select! {
                biased;
                delivery = self.log.next() => match delivery {
                    Some(Ok(Delivery::Record(record))) => self.accept_record(&record),
                    // The records follow from the log.
                    Some(Ok(_)) => Ok(()),
                    Some(Err(error)) => Err(error),
                    None => {
                        self.ended = true;
                        Ok(())
                    }
                },
                live = self.live.next(), if !self.live_ended => {
                    match live {
                        Some(live) => self.on_live(live),
                        None => self.live_ended = true,
                    }
                    Ok(())
                }
            };
            if let Err(error) = taken {
                self.ended = true;
                return Some(Err(error.into()));
            }
        }
    }

    /// Takes a record of the log, and before it the live events up to its append.
    fn accept_record(&mut self, record: &StoredRecord) -> Result<(), ReadError> {
        while let Some(live) = self.live.try_next() {
            self.on_live(live);
        }
        let before = self.version;
        let mut events = Vec::new();
        for recorded in decode_record::<TaskEvent>(record)? {
            let version = recorded.version;
            events.extend(self.fold.accept_event(&recorded).into_iter().map(|event| (version, event)));
            self.version = version;
            if version == self.after.version && self.fold.is_over() {
                let end = self.fold.repeat_end(version, recorded.metadata.at);
                self.ready.extend(end.into_iter().map(|end| (end.event, ResumePoint::from(version))));
            }
        }
        if let Some((version, end)) = self.fold.close() {
            events.extend(end.into_iter().map(|event| (version, event)));
        }
        self.pass_on(before, events);
        let early = std::mem::take(&mut self.early);
        for live in early {
            self.on_live(live);
        }
        Ok(())
    }

    /// Passes on the events of a record, each with the version of the event that gives it, as far as they are not told
    /// yet. `before` is the version before the record.
    fn pass_on(&mut self, before: Version, events: Vec<(Version, StreamedEvent)>) {
        let told_further = if before == self.after.version { self.after.further } else { 0 };
        let (mut fixed, count) = (0, events.len());
        for (at, (version, StreamedEvent { event, is_fixed, told })) in events.into_iter().enumerate() {
            fixed += u32::from(is_fixed);
            let was_told = if is_fixed { fixed <= told_further } else { fixed < told_further };
            if was_told || version <= self.after.version {
                continue;
            }
            let is_last = at + 1 == count;
            let (version, further) = if is_last { (self.version, 0) } else { (before, fixed) };
            self.ready.push_back((event, ResumePoint { version, further, told }));
        }
    }

    fn on_live(&mut self, live: Live) {
        let mut events = Vec::new();
        let outcome = self.fold.on_live(&live, self.ports.clock.now(), &mut events);
        if self.version >= self.after.version {
            let here = |told| ResumePoint { version: self.version, further: 0, told };
            self.ready.extend(events.into_iter().map(|live| (live.event, here(live.told))));
        }
        // The oldest are dropped: the whole answer supplies them.
        if matches!(outcome, LiveOutcome::TooEarly) {
            if self.early.len() == LIVE_BUFFER {
                self.early.pop_front();
            }
            self.early.push_back(live);
        }
    }
}

impl System {
    /// Returns a feed of a task's live events from now on.
    pub(crate) fn live(&self, stream: &StreamId) -> LiveFeed {
        self.inner.running().parts.live.listen(stream)
    }

    /// Returns the id of the artifact that the answer to this call of a task becomes, if it becomes one: it is known before the
    /// answer is complete.
    pub fn output_id(task: &Task, stream: &StreamId, call: &Call) -> String {
        output_id(task, stream, call.request.origin.part)
    }

    /// Returns one task's run as Protolink streams it.
    pub(crate) fn task_events(&self, stream: &StreamId, after: ResumePoint) -> TaskEvents {
        let running = self.inner.running();
        let (live, agent) = (self.live(stream), Arc::clone(&self.own_agent().agent));
        let ports = self.inner.ports.clone();
        let following = EventFollower::new(running.store(), live, agent, stream.clone(), after, ports);
        let point = following.point.clone();
        TaskEvents { steps: Some(Steps::new(following)), version: Version(0), point }
    }
}

/// Returns the version before the newest run of a task; 0 without a run or with only one.
pub(crate) fn before_last_run(store: &dyn EventReader, stream: &StreamId) -> Result<Version, ReadError> {
    let (mut runs, mut before, mut read) = (0_u32, Version(0), Version(0));
    loop {
        let page = store.page_stream(stream, Version(read.0 + 1), Page::default())?;
        for record in &page {
            for recorded in decode_record::<TaskEvent>(record)? {
                read = recorded.version;
                let begins = match &recorded.event {
                    TaskEvent::Submitted(posted) => posted.state == TaskState::Working,
                    TaskEvent::StateChanged { to, .. } => *to == TaskState::Working,
                    _ => false,
                };
                if begins {
                    runs += 1;
                    before = Version(if runs == 1 { 0 } else { recorded.version.0 - 1 });
                }
            }
        }
        if page.is_empty() {
            return Ok(before);
        }
    }
}
