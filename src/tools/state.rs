//! The values that a tool keeps between its calls, as a running call sees them: the values in the log, and
//! the call's own writes so far. The writes are appended together with the call's success; a call that does
//! not succeed writes nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use proto_events::id::Version;
use proto_events::json::JsonText;
use proto_events::limits::{TOOL_STORE_BYTES_MAX, TOOL_VALUE_BYTES_MAX, TOOL_WRITES_MAX};
use proto_events::tool_store::{ToolEntry, ToolStore, ToolStoreRejection, ToolWrite, check_key};
use serde::Serialize;

use crate::tools::error::ToolError;

/// A tool's state, as seen by one call.
///
/// A key's version is that of the event, in the tool's stream, which last wrote it; a missing key has version
/// 0. A write names the version that the key must still have. So if two calls read the same version, one of
/// them learns that the other wrote in between: at once if the write is already visible, else when the call's
/// success is appended. That call fails with the type `StateConflict`, and none of its writes is kept.
///
/// Reads see the call's own writes. A key keeps its version until the call has succeeded, so a key that was
/// written may be written again with the same version.
#[derive(Debug, Clone, Default)]
pub struct ToolState {
    store: Arc<RwLock<ToolStore>>,
    written: Arc<Mutex<CallWrites>>,
}

/// The writes of one call so far.
#[derive(Debug, Default)]
struct CallWrites {
    keys: BTreeMap<String, ToolWrite>,
    bytes: usize,
    /// Whether the call has ended, after which no write is accepted.
    closed: bool,
}

impl ToolState {
    /// Creates the state of a call that sees this store. For code that calls tools, and for tests of tools.
    pub fn new(store: Arc<RwLock<ToolStore>>) -> Self {
        Self { store, written: Arc::default() }
    }

    /// Returns the value and version of a key, if the key exists.
    pub fn get(&self, key: &str) -> Option<ToolEntry> {
        match self.written().keys.get(key) {
            Some(write) => seen(write),
            None => self.store().get(key).cloned(),
        }
    }

    /// Returns the keys that begin with `prefix`, in order, each with its value and version.
    pub fn list(&self, prefix: &str) -> Vec<(String, ToolEntry)> {
        let written = self.written();
        let stored = self.store();
        let mut all: BTreeMap<&str, ToolEntry> =
            stored.list(prefix).map(|(key, entry)| (key, entry.clone())).collect();
        for (key, write) in written.keys.iter().filter(|(key, _)| key.starts_with(prefix)) {
            match seen(write) {
                Some(entry) => drop(all.insert(key, entry)),
                None => drop(all.remove(key.as_str())),
            }
        }
        all.into_iter().map(|(key, entry)| (key.to_owned(), entry)).collect()
    }

    /// Writes a key that still has the version `expected`: the version that [`ToolState::get`] returned, or 0
    /// for a missing key.
    ///
    /// # Errors
    /// A [`ToolError`] of the type `StateConflict` if the key has another version, of the type `StateRefused`
    /// if the key or the value cannot be stored. A tool may return it unchanged.
    pub fn put<T: Serialize + ?Sized>(
        &self,
        key: &str,
        value: &T,
        expected: Version,
    ) -> Result<(), ToolError> {
        let value = JsonText::encode(value).map_err(|error| refused(&error.to_string()))?;
        if value.as_str().len() > TOOL_VALUE_BYTES_MAX {
            let bytes = value.as_str().len();
            return Err(refused(&format!(
                "the value of `{key}` has {bytes} bytes; a tool's state takes at most {TOOL_VALUE_BYTES_MAX}"
            )));
        }
        self.write(key, expected, Some(value))
    }

    /// Deletes a key that still has the version `expected`. A missing key has version 0 and stays missing.
    ///
    /// # Errors
    /// As [`ToolState::put`].
    pub fn delete(&self, key: &str, expected: Version) -> Result<(), ToolError> {
        self.write(key, expected, None)
    }

    /// Returns the call's writes so far, each key once.
    pub fn writes(&self) -> Vec<ToolWrite> {
        self.written().keys.values().cloned().collect()
    }

    /// Returns the call's writes and refuses further ones.
    pub(crate) fn close(&self) -> Vec<ToolWrite> {
        let mut written = self.written();
        written.closed = true;
        std::mem::take(&mut written.keys).into_values().collect()
    }

    fn write(&self, key: &str, expected: Version, value: Option<JsonText>) -> Result<(), ToolError> {
        check_key(key).map_err(|error| state_error(&error))?;
        let mut written = self.written();
        if written.closed {
            return Err(refused("the call has ended; its state is written already"));
        }
        let stored = self.store().version_of(key);
        let own = written.keys.get(key);
        // A key deleted by this call is missing for the call, but still has its version in the log.
        let own_away = own.is_some_and(|write| write.value.is_none()) && expected == Version(0);
        let base = if own_away { own.map_or(expected, |write| write.expected) } else { expected };
        if base != stored || own.is_some_and(|write| write.expected != base) {
            let key = key.to_owned();
            return Err(state_error(&ToolStoreRejection::Conflict { key, expected, actual: stored }));
        }
        let count = written.keys.len() + usize::from(own.is_none());
        if count > TOOL_WRITES_MAX {
            return Err(state_error(&ToolStoreRejection::TooManyWrites(count)));
        }
        let write = ToolWrite { key: key.to_owned(), expected: base, value };
        let bytes = written.bytes - own.map_or(0, size) + size(&write);
        if bytes > TOOL_STORE_BYTES_MAX {
            return Err(state_error(&ToolStoreRejection::TooLarge(bytes)));
        }
        written.bytes = bytes;
        written.keys.insert(key.to_owned(), write);
        Ok(())
    }

    /// Locks the writes. A poisoned lock stays usable: no panic leaves the writes half updated.
    fn written(&self) -> MutexGuard<'_, CallWrites> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self) -> RwLockReadGuard<'_, ToolStore> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a write as the call that made it sees it.
fn seen(write: &ToolWrite) -> Option<ToolEntry> {
    write.value.clone().map(|value| ToolEntry { value, version: write.expected })
}

fn size(write: &ToolWrite) -> usize {
    write.key.len() + write.value.as_ref().map_or(0, |value| value.as_str().len())
}

fn refused(why: &str) -> ToolError {
    ToolError::failed(why).with_type("StateRefused")
}

/// Converts a rejection of the store into the failure of the call that made the writes.
///
pub(crate) fn state_error(rejection: &ToolStoreRejection) -> ToolError {
    let type_name = match rejection {
        ToolStoreRejection::Conflict { .. } => "StateConflict",
        _ => "StateRefused",
    };
    ToolError::failed(rejection.to_string()).with_type(type_name)
}

#[cfg(test)]
mod tests {
    use proto_events::decider::Decider;
    use proto_events::envelope::Metadata;
    use proto_events::tool_store::ToolStoreEvent;

    use super::*;

    fn holding(keys: &[(&str, &str)]) -> ToolState {
        let mut store = ToolStore::default();
        for (key, value) in keys {
            let event = ToolStoreEvent::KeyPut {
                task: "task-a/t".to_owned(),
                call_id: "c".to_owned(),
                key: (*key).to_owned(),
                value: JsonText::parse(value).unwrap(),
            };
            store.evolve(&event, &Metadata::default());
        }
        ToolState::new(Arc::new(RwLock::new(store)))
    }

    fn shown(state: &ToolState, key: &str) -> Option<(String, u64)> {
        state.get(key).map(|entry| (entry.value.to_string(), entry.version.0))
    }

    #[test]
    fn a_call_sees_its_own_writes_and_a_key_keeps_its_version_until_the_call_is_over() {
        let state = holding(&[("a", "1"), ("b", "2"), ("b2", "3")]);
        state.put("a", &10, Version(1)).unwrap();
        state.put("a", &11, Version(1)).unwrap();
        state.put("b1", &[4], Version(0)).unwrap();
        state.delete("b", Version(2)).unwrap();
        assert_eq!(shown(&state, "a"), Some(("11".to_owned(), 1)));
        assert_eq!(shown(&state, "b"), None);
        let listed: Vec<_> = state.list("b").into_iter().map(|(key, entry)| (key, entry.version.0)).collect();
        assert_eq!(listed, [("b1".to_owned(), 0), ("b2".to_owned(), 3)]);
        let writes: Vec<_> = state
            .writes()
            .into_iter()
            .map(|write| (write.key, write.expected.0, write.value.is_some()))
            .collect();
        let expected = [("a", 1, true), ("b", 2, false), ("b1", 0, true)];
        assert_eq!(writes, expected.map(|(key, version, there)| (key.to_owned(), version, there)));
    }

    #[test]
    fn a_version_that_is_not_the_keys_is_told_at_once() {
        let state = holding(&[("a", "1"), ("a", "2")]);
        for (key, expected) in [("a", 1), ("a", 0), ("b", 1)] {
            let error = state.put(key, "x", Version(expected)).unwrap_err();
            assert_eq!(error.type_name(), "StateConflict", "{error}");
            assert!(error.message().contains(&format!("not {expected}")), "{error}");
        }
        assert!(state.writes().is_empty());
        state.delete("a", Version(2)).unwrap();
        state.put("a", "again", Version(0)).unwrap();
        assert_eq!(state.writes().first().unwrap().expected, Version(2), "the log's version is what counts");
    }

    #[test]
    fn what_another_call_wrote_in_between_is_seen_by_a_second_write_too() {
        let state = holding(&[("a", "1")]);
        state.put("a", &2, Version(1)).unwrap();
        let other =
            ToolStoreEvent::KeyDeleted { task: String::new(), call_id: String::new(), key: "a".to_owned() };
        state.store.write().unwrap().evolve(&other, &Metadata::default());
        assert_eq!(state.put("a", &3, Version(1)).unwrap_err().type_name(), "StateConflict");
    }

    #[test]
    fn what_is_over_a_limit_is_refused_in_words() {
        let state = ToolState::default();
        let refusal = |done: Result<(), ToolError>| done.unwrap_err().type_name().to_owned();
        assert_eq!(refusal(state.put("", "x", Version(0))), "StateRefused");
        let large = "x".repeat(TOOL_VALUE_BYTES_MAX);
        assert_eq!(refusal(state.put("k", &large, Version(0))), "StateRefused");
        for n in 0..TOOL_WRITES_MAX {
            state.put(&n.to_string(), &n, Version(0)).unwrap();
        }
        state.put("0", &1, Version(0)).unwrap();
        assert_eq!(refusal(state.put("one more", "x", Version(0))), "StateRefused");
        let fits = "x".repeat(TOOL_VALUE_BYTES_MAX - 2);
        let done = (0..TOOL_WRITES_MAX).try_for_each(|n| state.put(&n.to_string(), &fits, Version(0)));
        assert!(done.unwrap_err().message().contains("16777216"));
    }

    #[test]
    fn a_call_that_has_ended_writes_nothing_more() {
        let state = ToolState::default();
        state.put("a", &1, Version(0)).unwrap();
        assert_eq!(state.close().len(), 1);
        assert_eq!(state.put("b", &1, Version(0)).unwrap_err().type_name(), "StateRefused");
        assert!(state.close().is_empty());
    }
}
