//! Commands to a tool's store, and the reasons to reject them.

use crate::id::{IdError, Version, check_id};
use crate::json::JsonText;
use crate::limits::{TOOL_KEYS_MAX, TOOL_STORE_BYTES_MAX, TOOL_WRITES_MAX};

/// A write of one key by a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolWrite {
    /// The key.
    pub key: String,
    /// The version that the key must still have; 0 if the key must not exist.
    pub expected: Version,
    /// The new value; `None` deletes the key.
    pub value: Option<JsonText>,
}

/// A command to a tool's store.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolStoreCommand {
    /// Apply the writes of a call: all of them or none.
    Write {
        /// The stream of the task for which the call was made.
        task: String,
        /// The id of the call.
        call_id: String,
        /// The writes; each key occurs once.
        writes: Vec<ToolWrite>,
    },
    /// Write one key from outside.
    Set(ToolWrite),
    /// Delete all keys from outside.
    Clear,
}

/// The reason why a tool's store rejects a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolStoreRejection {
    /// Another call wrote the key since it was read.
    #[error("the key `{key}` has version {actual}, not {expected}: another call changed it")]
    Conflict {
        /// The key.
        key: String,
        /// The expected version; 0 if the key should not exist.
        expected: Version,
        /// The actual version; 0 if the key does not exist.
        actual: Version,
    },
    /// The text cannot be a key.
    #[error("`{key}` is not a valid key of a tool's state: {why}")]
    Key {
        /// The text.
        key: String,
        /// The rule that the text breaks.
        why: IdError,
    },
    /// A key occurs twice in one command.
    #[error("the key `{0}` is written twice by one call")]
    Twice(String),
    /// The call writes too many keys.
    #[error("the call writes {0} keys of its tool's state; the limit is {TOOL_WRITES_MAX}")]
    TooManyWrites(usize),
    /// The store would hold too many keys.
    #[error("the tool's state would have {0} keys; the limit is {TOOL_KEYS_MAX}")]
    TooManyKeys(usize),
    /// The store would be too large.
    #[error("the tool's state would have {0} bytes; the limit is {TOOL_STORE_BYTES_MAX}")]
    TooLarge(usize),
}

/// Checks a text for use as a key: 1 to 200 bytes, no control characters.
///
/// # Errors
/// [`ToolStoreRejection::Key`], naming the broken rule.
pub fn check_key(key: &str) -> Result<(), ToolStoreRejection> {
    check_id(key).map_err(|why| {
        let key = key.chars().take(80).collect();
        ToolStoreRejection::Key { key, why }
    })
}
