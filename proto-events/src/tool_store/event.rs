//! Events of a tool's store.

use crate::json::JsonText;

/// An event of one key. It names the call that wrote the key; the call's success is part of the same append.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolStoreEvent {
    /// A key was given a value; its version is the version of this event.
    KeyPut {
        /// The stream of the task for which the call was made.
        task: String,
        /// The id of the call.
        call_id: String,
        /// The key.
        key: String,
        /// The value.
        value: JsonText,
    },
    /// A key was deleted.
    KeyDeleted {
        /// The stream of the task for which the call was made.
        task: String,
        /// The id of the call.
        call_id: String,
        /// The key.
        key: String,
    },
}

impl ToolStoreEvent {
    /// Returns the key that was written.
    pub fn key(&self) -> &str {
        match self {
            Self::KeyPut { key, .. } | Self::KeyDeleted { key, .. } => key,
        }
    }

    /// Returns the call that wrote the key: its task's stream and its id.
    pub fn call(&self) -> (&str, &str) {
        match self {
            Self::KeyPut { task, call_id, .. } | Self::KeyDeleted { task, call_id, .. } => (task, call_id),
        }
    }
}
