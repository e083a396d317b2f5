//! One task as Protolink streams it: from the log, which knows all that counts, and from what is heard live, which
//! brings the pieces of an answer while it comes in. What is heard is checked against the log: a piece is told only
//! while its attempt is under way and only where the last one ended, and the whole answer, which is in the log,
//! supplies what is missing. So there is no gap and no repeat, whoever is slow.

mod actions;
mod budget;
mod event;
mod fold;
mod infer;

pub use event::{TaskStreamEvent, Tells};

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use proto_events::id::{StreamId, Version};
use proto_events::model::TaskState;
use proto_events::task::TaskEvent;

use self::fold::{Fold, Heard};
use super::System;
use crate::actors::live::{Live, LiveFeed};
use crate::agent::Agent;
use crate::error::Error;
use crate::limits::LIVE_BUFFER;
use crate::ports::Ports;
use crate::store::fold::{PAGE_RECORDS, decode_record};
use crate::store::{Delivery, EventReader, EventStore, ReadError, StoredRecord, Subscription};

/// The events of a task's run, to its final status.
pub struct TaskEvents {
    log: Subscription,
    live: LiveFeed,
    /// The live feed has ended.
    deaf: bool,
    fold: Fold,
    /// What stands at or before it is not told.
    after: Version,
    /// The last version read.
    version: Version,
    ports: Ports,
    /// What was heard before the log was read so far.
    early: VecDeque<Live>,
    ready: VecDeque<TaskStreamEvent>,
    ended: bool,
}

impl fmt::Debug for TaskEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskEvents")
            .field("stream", &self.fold.stream)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl TaskEvents {
    fn new(
        store: Arc<dyn EventStore>,
        live: LiveFeed,
        agent: Arc<Agent>,
        stream: StreamId,
        after: Version,
        ports: Ports,
    ) -> Self {
        Self {
            log: Subscription::stream(store, stream.clone(), Version(1)),
            live,
            deaf: false,
            fold: Fold::new(agent, stream),
            after,
            version: Version(0),
            ports,
            early: VecDeque::new(),
            ready: VecDeque::new(),
            ended: false,
        }
    }

    /// The last version of the task's stream that was read: where to go on from, should the log be closed.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Waits for the next event; `None` after the final status, or when the log was closed. Cancel-safe. Must be called
    /// within a tokio runtime, whose blocking pool reads the log.
    ///
    /// # Errors
    /// [`Error::Read`] if a record cannot be read; nothing follows then.
    pub async fn next(&mut self) -> Option<Result<TaskStreamEvent, Error>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
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
                    Some(Ok(Delivery::Record(record))) => self.take(&record),
                    // The records follow from the log.
                    Some(Ok(Delivery::Lagged { .. })) => Ok(()),
                    Some(Err(error)) => Err(error),
                    None => {
                        self.ended = true;
                        Ok(())
                    }
                },
                live = self.live.next(), if !self.deaf => {
                    match live {
                        Some(live) => self.hear(live),
                        None => self.deaf = true,
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

    /// A record of the log, and before it what was said until it was written.
    fn take(&mut self, record: &StoredRecord) -> Result<(), ReadError> {
        while let Some(live) = self.live.try_next() {
            self.hear(live);
        }
        for recorded in decode_record::<TaskEvent>(record)? {
            let told = self.fold.take(&recorded);
            self.version = recorded.version;
            if recorded.version > self.after {
                self.ready.extend(told);
            } else if recorded.version == self.after && self.fold.is_over() {
                self.ready.extend(self.fold.told_over(recorded.version, recorded.metadata.at));
            }
        }
        if let Some((version, told)) = self.fold.close()
            && version > self.after
        {
            self.ready.extend(told);
        }
        let early = std::mem::take(&mut self.early);
        for live in early {
            self.hear(live);
        }
        Ok(())
    }

    fn hear(&mut self, live: Live) {
        let mut told = Vec::new();
        let heard = self.fold.hear(&live, self.ports.clock.now(), &mut told);
        if self.version >= self.after {
            self.ready.extend(told);
        }
        // The oldest are given up: the whole answer brings them.
        if matches!(heard, Heard::TooEarly) {
            if self.early.len() == LIVE_BUFFER {
                self.early.pop_front();
            }
            self.early.push_back(live);
        }
    }
}

impl System {
    /// Hears what goes on in a task from now on.
    pub(super) fn live(&self, stream: &StreamId) -> LiveFeed {
        self.inner.running().parts.live.listen(stream)
    }

    /// One task's run as Protolink streams it.
    pub(super) fn task_events(&self, stream: &StreamId, after: Version) -> TaskEvents {
        let running = self.inner.running();
        let (live, agent) = (self.live(stream), Arc::clone(&running.parts.agent));
        TaskEvents::new(running.store(), live, agent, stream.clone(), after, self.inner.ports.clone())
    }
}

/// The version before the newest run of a task; 0 where there is none or only one.
pub(super) fn before_last_run(store: &dyn EventReader, stream: &StreamId) -> Result<Version, ReadError> {
    let (mut runs, mut before, mut read) = (0_u32, Version(0), Version(0));
    loop {
        let page = store.read_stream(stream, Version(read.0 + 1), PAGE_RECORDS)?;
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
        if page.len() < PAGE_RECORDS {
            return Ok(before);
        }
    }
}
