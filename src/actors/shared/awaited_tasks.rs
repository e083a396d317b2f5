//! The tasks that calls in flight of other agents of the same system wait for. They go on while the system shuts down, as
//! those calls do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_events::id::StreamId;

/// The tasks for which calls in flight wait, each with the number of those.
#[derive(Debug, Default)]
pub(crate) struct AttendedTasks(Mutex<HashMap<StreamId, usize>>);

/// The wait of a call in flight for a task; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct AwaitedCall {
    all: Arc<AttendedTasks>,
    task: StreamId,
}

impl AttendedTasks {
    /// Notes that a call in flight waits for a task.
    pub(crate) fn attend(self: &Arc<Self>, task: StreamId) -> AwaitedCall {
        *self.lock().entry(task.clone()).or_default() += 1;
        AwaitedCall { all: Arc::clone(self), task }
    }

    /// Whether a call in flight waits for the task.
    pub(crate) fn has(&self, task: &StreamId) -> bool {
        self.lock().contains_key(task)
    }

    /// Ignores poisoning: the map is consistent between any two steps.
    fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AwaitedCall {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(count) = all.get_mut(&self.task) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.task);
            }
        }
    }
}
