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
    claims: HashMap<String, Claim>,
    /// The keys, oldest first.
    order: VecDeque<String>,
}

/// The claim of a key.
#[derive(Debug)]
struct Claim {
    task: String,
    /// The requests under the key that have no answer yet.
    requests: usize,
    /// Whether the task is in the log, or may be.
    is_kept: bool,
}

impl Keys {
    /// Notes the task of a key that the log has.
    pub(crate) fn insert(&mut self, key: String, task: String) {
        self.add(key, Claim { task, requests: 0, is_kept: true });
    }

    /// Notes a request under a key: [`Keys::answered`] ends it. Returns the id of the key's task, which `choose` names if
    /// the key is new; `None` if the key is that of a task other than `wanted`.
    pub(crate) fn request(
        &mut self,
        key: &str,
        wanted: Option<&str>,
        choose: impl FnOnce() -> String,
    ) -> Option<String> {
        if let Some(claim) = self.claims.get_mut(key) {
            let is_same = wanted.is_none_or(|wanted| wanted == claim.task);
            claim.requests += usize::from(is_same);
            return is_same.then(|| claim.task.clone());
        }
        let task = wanted.map_or_else(choose, str::to_owned);
        self.add(key.to_owned(), Claim { task: task.clone(), requests: 1, is_kept: false });
        Some(task)
    }

    /// Notes the answer to a request. A key is given back when the last request under it was refused and none made a task.
    pub(crate) fn answered(&mut self, key: &str, was_refused: bool) {
        let Some(claim) = self.claims.get_mut(key) else { return };
        claim.requests = claim.requests.saturating_sub(1);
        claim.is_kept |= !was_refused;
        if claim.requests == 0 && !claim.is_kept {
            self.claims.remove(key);
            self.order.retain(|known| known != key);
        }
    }

    /// Adds a claim, and forgets the oldest keys where there are too many.
    fn add(&mut self, key: String, claim: Claim) {
        if self.claims.insert(key.clone(), claim).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > ONCE_KEYS {
            if let Some(oldest) = self.order.pop_front() {
                self.claims.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Keys;

    #[test]
    fn a_refused_request_does_not_give_back_the_key_of_another_one() {
        let mut keys = Keys::default();
        let first = keys.request("key", Some("a"), || unreachable!("it has an id"));
        let second = keys.request("key", None, || "b".to_owned());
        assert_eq!((first.as_deref(), second.as_deref()), (Some("a"), Some("a")));
        keys.answered("key", true);
        assert_eq!(
            keys.request("key", Some("b"), String::new),
            None,
            "the second request may still make the task"
        );
        keys.answered("key", false);
        assert_eq!(keys.request("key", Some("b"), String::new), None, "the task was made");

        for refused in 0..3 {
            let id = format!("c{refused}");
            assert_eq!(keys.request("other", Some(&id), String::new), Some(id), "no request made a task");
            keys.answered("other", true);
        }
    }
}
