//! Events of a tool's store.

use crate::json::JsonText;

/// An event of a tool's store. A write of a call names it; the call's success is part of the same append.
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
    /// A key was given a value from outside, by the principal of its record.
    KeySet {
        /// The key.
        key: String,
        /// The value.
        value: JsonText,
    },
    /// A key was deleted from outside.
    KeyRemoved {
        /// The key.
        key: String,
    },
    /// All keys were deleted from outside.
    Cleared {
        /// The number of keys that the store had.
        keys: u32,
    },
}

impl ToolStoreEvent {
    /// Returns the key that was written; `None` if all were deleted.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::KeyPut { key, .. }
            | Self::KeyDeleted { key, .. }
            | Self::KeySet { key, .. }
            | Self::KeyRemoved { key } => Some(key),
            Self::Cleared { .. } => None,
        }
    }

    /// Returns the call that wrote the key: its task's stream and its id; `None` for a change from outside.
    pub fn call(&self) -> Option<(&str, &str)> {
        match self {
            Self::KeyPut { task, call_id, .. } | Self::KeyDeleted { task, call_id, .. } => {
                Some((task, call_id))
            }
            Self::KeySet { .. } | Self::KeyRemoved { .. } | Self::Cleared { .. } => None,
        }
    }
}
