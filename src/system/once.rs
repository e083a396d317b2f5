//! The keys of runs that were requested once. A key is unique among the tasks of its agent, whatever ids they have, for
//! a window: the newest [`ONCE_WINDOW_EVENTS`](crate::limits::ONCE_WINDOW_EVENTS) events of the log when the first key is used after a start, and the
//! newest [`ONCE_KEYS`] keys since. A run without an id of the caller's own takes its id from the key, so that its key is
//! unique for the life of the log.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::ONCE_KEYS;

/// The keys in use, each with the id of its task.
#[derive(Debug, Default)]
pub(crate) struct OnceKeys {
    keys: Mutex<Keys>,
    /// Held while the log is asked, by a task of the runtime.
    pub(crate) asking: tokio::sync::Mutex<()>,
}

impl OnceKeys {
    /// Returns the keys. Ignores poisoning: they are whole between any two steps.
    pub(crate) fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys in use, and whether the log was asked for them.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// Whether the end of the log was read.
    pub(crate) is_read: bool,
    /// The task of each key.
    pub(crate) tasks: HashMap<String, String>,
    /// The keys, oldest first.
    pub(crate) order: VecDeque<String>,
}

impl Keys {
    /// Notes the task of a key, and forgets the oldest keys where there are too many.
    pub(crate) fn note(&mut self, key: String, task: String) {
        if self.tasks.insert(key.clone(), task).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > ONCE_KEYS {
            if let Some(oldest) = self.order.pop_front() {
                self.tasks.remove(&oldest);
            }
        }
    }
}
