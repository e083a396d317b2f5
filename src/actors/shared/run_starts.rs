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
    /// Returns the moment that is kept for this run, after keeping this one as the first.
    pub(crate) fn get_or_insert(&self, stream: &StreamId, run: u32, found: Anchor) -> Anchor {
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use proto_events::json;
    use proto_events::json::JsonText;
    use proto_events::model::{Message, Part, PostedTask, TaskState};
    use taskreel_log::memory::MemoryStore;
    use taskreel_log::ports::Ports;

    use crate::{JsonSchema, System};

    #[derive(serde::Deserialize, JsonSchema)]
    struct Nothing {}

    #[tokio::test]
    async fn the_start_of_a_run_with_a_time_limit_is_forgotten_with_its_end() {
        let done = |_: Nothing| async { Ok::<_, Infallible>("done") };
        let system = System::builder("-").store(Arc::new(MemoryStore::new())).tool("do", "Does", done);
        let system = system.start().await.unwrap();
        for _ in 0..8 {
            let mut mint = Ports::default();
            let message = Message::new("user", vec![Part::tool_call("do", json!({})).unwrap()], &mut mint);
            let mut posted = PostedTask::new(message, &mut mint);
            let budget = json!({"budget": {"max_runtime_seconds": 100}});
            posted.metadata = JsonText::parse(&budget.to_string()).unwrap().read().unwrap();
            let end = system.submit(posted).await.unwrap().finished().await.unwrap();
            assert_eq!(end.state(), TaskState::Completed);
        }
        assert_eq!(system.inner.running().parts.run_starts.lock().len(), 0);
        system.shutdown().await.unwrap();
    }
}
