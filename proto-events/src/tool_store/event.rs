//! What happens to a tool's store.

use crate::json::JsonText;

/// A fact about one key. It names the call that wrote it, whose success stands in the same append.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolStoreEvent {
    /// A key has this value from now on; its version is that of this event.
    KeyPut {
        /// The stream of the task on whose behalf the call was made.
        task: String,
        /// The call.
        call_id: String,
        /// The key.
        key: String,
        /// What it holds.
        value: JsonText,
    },
    /// A key is there no more.
    KeyDeleted {
        /// The stream of the task on whose behalf the call was made.
        task: String,
        /// The call.
        call_id: String,
        /// The key.
        key: String,
    },
}

impl ToolStoreEvent {
    /// The key that it is about.
    pub fn key(&self) -> &str {
        match self {
            Self::KeyPut { key, .. } | Self::KeyDeleted { key, .. } => key,
        }
    }

    /// The call that wrote it: its task's stream and its id.
    pub fn call(&self) -> (&str, &str) {
        match self {
            Self::KeyPut { task, call_id, .. } | Self::KeyDeleted { task, call_id, .. } => (task, call_id),
        }
    }
}
