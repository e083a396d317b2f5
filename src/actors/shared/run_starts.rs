//! The moments at which the open runs with a deadline began, or were found open, in this process. A task's actor may go to
//! sleep, panic or be made anew in the middle of a run, and the log may be reopened: the run's time goes on, whatever
//! steps the clock makes meanwhile.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto_events::envelope::Timestamp;
use proto_events::id::StreamId;

/// A moment, as the clock showed it and by its monotonic reading.
pub(crate) type Anchor = (Timestamp, Duration);

/// The open runs with a deadline, by the streams of their tasks.
#[derive(Debug, Default)]
pub(crate) struct RunStarts(Mutex<HashMap<StreamId, (u32, Anchor)>>);

impl RunStarts {
    /// Returns the moment that is kept for this run, after keeping this one if there is none.
    pub(crate) fn keep(&self, stream: &StreamId, run: u32, found: Anchor) -> Anchor {
        let mut all = self.lock();
        match all.get(stream) {
            Some((known, anchor)) if *known == run => *anchor,
            _ => {
                all.insert(stream.clone(), (run, found));
                found
            }
        }
    }

    /// Forgets a task's run, which is over.
    pub(crate) fn forget(&self, stream: &StreamId) {
        self.lock().remove(stream);
    }

    /// Ignores poisoning: the map is consistent between any two steps.
    fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, (u32, Anchor)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
