//! A tool's store as the fold of its events.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::id::Version;
use crate::json::JsonText;
use crate::tool_store::event::ToolStoreEvent;

/// The value and version of a key.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolEntry {
    /// The value.
    pub value: JsonText,
    /// The version, in the tool's stream, of the event that last wrote the key. No key ever has the same
    /// version twice, so an unchanged version proves that no call wrote the key in between.
    pub version: Version,
}

/// The state of one tool: the fold of its stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolStore {
    pub(crate) entries: BTreeMap<String, ToolEntry>,
    pub(crate) version: Version,
    pub(crate) bytes: usize,
}

impl ToolStore {
    /// Returns the entry of a key, if it exists.
    pub fn get(&self, key: &str) -> Option<&ToolEntry> {
        self.entries.get(key)
    }

    /// Returns the version of a key; 0 if it does not exist.
    pub fn version_of(&self, key: &str) -> Version {
        self.get(key).map(|entry| entry.version).unwrap_or_default()
    }

    /// Returns the keys that begin with `prefix`, in order, each with its entry.
    pub fn list<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a ToolEntry)> {
        let from: (Bound<&str>, Bound<&str>) = (Bound::Included(prefix), Bound::Unbounded);
        let from = self.entries.range::<str, _>(from);
        from.take_while(move |(key, _)| key.starts_with(prefix)).map(|(key, entry)| (key.as_str(), entry))
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the store has no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of events in the stream.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the number of bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Folds in one event; never fails.
    pub(super) fn fold(&mut self, event: &ToolStoreEvent) {
        self.version = Version(self.version.0.saturating_add(1));
        let (key, gone) = match event {
            ToolStoreEvent::KeyPut { key, value, .. } | ToolStoreEvent::KeySet { key, value } => {
                self.bytes = self.bytes.saturating_add(entry_bytes(key, value));
                let entry = ToolEntry { value: value.clone(), version: self.version };
                (key, self.entries.insert(key.clone(), entry))
            }
            ToolStoreEvent::KeyDeleted { key, .. } | ToolStoreEvent::KeyRemoved { key } => {
                (key, self.entries.remove(key))
            }
            ToolStoreEvent::Cleared { .. } => {
                self.entries.clear();
                self.bytes = 0;
                return;
            }
        };
        if let Some(gone) = gone {
            self.bytes = self.bytes.saturating_sub(entry_bytes(key, &gone.value));
        }
    }
}

/// Returns the number of bytes by which a key and its value count towards the limit.
pub(super) fn entry_bytes(key: &str, value: &JsonText) -> usize {
    key.len().saturating_add(value.as_str().len())
}
